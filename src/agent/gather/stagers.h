// Staging agents as the nodes of a job see them: which one writes for this node, and what it has to know for that.
//
// A staging agent is found in the job's staging.folder and told of the job (EnlistRequest) by each node that wants it to write:
// who is in the attempt, by which secret they know each other, and where the store is. Nodes spread over the staging agents by
// their place in the job. All of them are told when an attempt begins, since they may hold images of those before it, which a
// restart asks them for like any node (bring/inventories.h). On the event loop's thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/gather/staging_network.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class Peers;

class Stagers {
 public:
  Stagers(AgentCore& core, Peers& peers) : core_(core), peers_(peers) {}

  // The attempt has begun on its nodes.
  void Seek(const Job& job);
  static bool HasThem(const Job& job) { return !job.hello.keys.staging_folder.empty(); }
  // The staging agent that is to write for this node; here or later. An error: there is none that answers.
  using Found = std::function<void(Result<std::string> node)>;
  void Find(Job& job, Found found);
  // That one does not write: another is looked for the next time.
  void Avoid(const Job& job, const std::string& node);

 private:
  struct State {
    uint32_t attempt = 0;
    std::string node;  // that is enlisted; empty: none is
    Status failure;    // why none was, a moment ago
    int64_t failed_ns = 0;
    std::string avoided;
    std::vector<Found> waiting;
    uint32_t sought_attempt = 0;
  };
  void OnSought(const JobKey& key, const Result<StagingNetwork>& network);
  // Reaches them from here on.
  Status Join(Job& job, const StagingNetwork& network);
  void EnlistAt(const Job& job, const std::string& network, const std::string& node, std::function<void(Status)> done);
  void OnRead(const JobKey& key, const Result<StagingNetwork>& network);
  void Enlist(const JobKey& key, const std::string& network, std::vector<std::string> candidates);
  void Finish(const JobKey& key, const Result<std::string>& node);

  AgentCore& core_;
  Peers& peers_;
  std::map<JobKey, State> states_;
};

}  // namespace kedge

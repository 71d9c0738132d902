// What the nodes of an attempt hold of a job: asked of all at once, with a bounded wait for those that do not answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/model.h"
#include "agent/peer_messages.h"
#include "redundancy/plan.h"

namespace kedge {

class Agent;

// What the answers say of one generation, for redundancy/plan.h.
std::vector<redundancy::NodeInventory> ToNodeInventories(const std::vector<InventoryReply>& replies,
                                                         const Generation& generation);
// The generations that any node knows, with their ranks.
std::map<Generation, uint32_t> GenerationsIn(const std::vector<InventoryReply>& replies);

class Inventories {
 public:
  explicit Inventories(Agent& agent) : agent_(agent) {}

  // What this node holds of a job; an empty name: of all names.
  InventoryReply Own(const Job& job, const std::string& name) const;

  // What the nodes that answer hold: once, on the loop's thread, after some seconds at most. Asked of them anew unless an answer
  // is younger than a moment. Nodes that the attempt leaves out, and that have yet to answer their invitation, are waited for
  // only when the others do not have all of the newest version.
  using Gathered = std::shared_ptr<const std::vector<InventoryReply>>;
  void Gather(Job& job, const std::string& name, std::function<void(Gathered)> done);
  // The job has other nodes now.
  void Forget(const Job& job);

 private:
  struct Gathering {
    std::shared_ptr<std::vector<InventoryReply>> replies;  // this node's own first
    std::set<std::string> asked;
    size_t waiting = 0;
    int64_t began_ns = 0;
    std::vector<std::function<void(Gathered)>> done;
  };
  struct Known {
    Gathered inventories;
    int64_t at_ns = 0;
  };
  using Key = std::pair<JobKey, std::string>;
  void Ask(const Job& job, const std::string& node, const Key& key, uint64_t number);
  void OnAnswer(const Key& key, uint64_t number, Result<Buffer> answer);
  Gathering* FindGathering(const Key& key, uint64_t number);
  // All who were asked have answered.
  void Conclude(const Key& key, uint64_t number);
  bool MoreMayCome(const Job& job, const Key& key, const Gathering& gathering) const;
  bool HasNewest(const Job& job, const Key& key, const std::vector<InventoryReply>& replies) const;
  void LookAgain(const Key& key, uint64_t number);

  Agent& agent_;
  std::map<Key, std::map<uint64_t, Gathering>> gatherings_;
  std::map<Key, Known> known_;
  uint64_t last_number_ = 0;
};

}  // namespace kedge

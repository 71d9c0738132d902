// How fast the ways from this node to the other nodes of a job are, for `kedge doctor --net`: what the agents themselves find,
// over the sessions and with the progress threads that protection uses.
//
// First all nodes are asked one small thing, many at once, so that those that are not there cost the time of one call together;
// then those that answered are measured one at a time (net/measure.h), so that a running job is hindered little. One measurement
// at a time; it ends early when nobody wants to know any more. The other side, being measured, is net::MeasureServer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/tables/client_requests.h"
#include "agent/tables/job.h"
#include "net/measure.h"

namespace kedge {

class AgentCore;
class Peers;

class MeasurePeers {
 public:
  MeasurePeers(AgentCore& core, Peers& peers);

 private:
  struct Run;
  void Measure(const MeasureRequest& request, const Question& question);
  Result<const Job*> Choose(const std::string& name) const;
  void Reach(const std::shared_ptr<Run>& run);
  void OnReached(const std::shared_ptr<Run>& run, size_t index, const Status& status);
  void MeasureNext(const std::shared_ptr<Run>& run);
  void OnMeasured(const std::shared_ptr<Run>& run, size_t index, const net::PeerFigures& figures);

  AgentCore& core_;
  Peers& peers_;
  std::shared_ptr<Run> running_;  // null: none
};

}  // namespace kedge

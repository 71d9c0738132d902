// Which versions a burst buffer's server has brought to the store: they have level STORE from then on. The store is asked, after
// pauses that grow while nothing comes there. Those that are seen nowhere for a while, since the buffer is away, are sent again
// (still_stored.h). Where no burst buffer lies before the store there is nothing to do.
//
// On the event loop's thread; the store is asked on workers.
#pragma once

#include <map>
#include <vector>

#include "agent/tables/job.h"
#include "base/duration.h"

namespace kedge {

class AgentCore;
class LocalRetention;
class StillStored;

class DrainWatch {
 public:
  DrainWatch(AgentCore& core, LocalRetention& retention, StillStored& still_stored)
      : core_(core), retention_(retention), still_stored_(still_stored) {}

  // A few times a second.
  void Tick();

 private:
  struct Look {
    bool is_under_way = false;
    size_t waiting = 0;  // versions, when it was looked last
    Duration pause{};
    int64_t due_ns = 0;
    int64_t missing_ns = 0;  // since when versions are seen nowhere; 0: they are seen
  };
  // What became of those that wait.
  struct Answer {
    std::vector<Generation> drained;
    bool any_missing = false;
  };
  static Answer Ask(Store& store, const std::vector<Generation>& waiting);
  void OnAnswer(const JobKey& key, const Answer& answer);

  AgentCore& core_;
  LocalRetention& retention_;
  StillStored& still_stored_;
  std::map<JobKey, Look> looks_;  // of jobs with versions that wait
};

}  // namespace kedge

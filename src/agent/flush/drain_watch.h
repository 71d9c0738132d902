// Which versions a burst buffer's server has brought to the store: they have level STORE from then on. The store is asked, after
// pauses that grow while nothing comes there. Where no burst buffer lies before the store there is nothing to do.
//
// On the event loop's thread; the store is asked on workers.
#pragma once

#include <map>

#include "agent/tables/model.h"
#include "base/duration.h"

namespace kedge {

class AgentCore;
class Images;

class DrainWatch {
 public:
  DrainWatch(AgentCore& core, Images& images) : core_(core), images_(images) {}

  // A few times a second.
  void Tick();

 private:
  struct Look {
    bool is_under_way = false;
    size_t waiting = 0;  // versions, when it was looked last
    Duration pause{};
    int64_t due_ns = 0;
  };
  void OnAnswer(const JobKey& key, const std::vector<Generation>& drained);

  AgentCore& core_;
  Images& images_;
  std::map<JobKey, Look> looks_;  // of jobs with versions that wait
};

}  // namespace kedge

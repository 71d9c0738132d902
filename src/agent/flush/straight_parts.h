// Versions of which some ranks wrote their images straight to the store, because they had no agent just then, while others handed
// theirs to one that is to keep them on its node. Alone neither half is ever a version.
//
// So where a version is not whole on the nodes after a moment, and before what a dead attempt has left is let go of, the store is
// asked for parts of it. When there are any, what lies on this node goes there, too, whatever its turn. All on the event loop's
// thread.
#pragma once

#include <cstdint>
#include <map>

#include "agent/tables/version.h"

namespace kedge {

class AgentCore;
class ImageFlusher;
class LocalRetention;

class StraightParts {
 public:
  StraightParts(AgentCore& core, ImageFlusher& flush, LocalRetention& retention)
      : core_(core), flush_(flush), retention_(retention) {}

  // Once a second or so.
  void Tick();
  // Of an attempt that has no session here any more: whether the store may have the part that is missing here. As long as that is
  // not known it is asked, and the version's name is considered again when it answers.
  bool MayHave(const Version& version);

 private:
  struct Look {
    int64_t next_ns = 0;
    Duration pause{};
    bool is_under_way = false;
    bool found_none = false;  // after the attempt's end
  };
  void Begin(const Version& version, Look* look);

  AgentCore& core_;
  ImageFlusher& flush_;
  LocalRetention& retention_;
  std::map<Generation, Look> looks_;
};

}  // namespace kedge

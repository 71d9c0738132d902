// Images that are on their way to a level: who waits for them asks here, and so does an agent that would leave.
#pragma once

#include <cstdint>
#include <string>

#include "agent/tables/job.h"
#include "session/messages.h"

namespace kedge {

class AgentCore;
class ImageTable;

class PendingImages {
 public:
  PendingImages(AgentCore& core, const ImageTable& images);

  // Images that are still on their way to `level` (kLast: to any), of one job or (null) of all.
  void Count(const Job* job, Level level, uint64_t* images, uint64_t* bytes) const;
  // The first of them, and how far the flush of each is, for people.
  std::string Name(const Job* job, Level level) const;

  // Whether there are any that this node must see to. Stops at the first.
  bool HasAny() const;
  // Those whose store is there, as far as is known.
  bool HasAnyWithStore() const;
  // Whether a copy here is needed by somebody: it is not in the store, or is owed to it.
  bool HasOnlyCopies() const;
  // Images that another node has taken over, which brings them to the store.
  uint32_t HandedOver() const;
  // Images that are being copied right now; one whose writer has paused does not count.
  uint32_t Capturing() const;

 private:
  // Of one rank in one attempt, to any level.
  PendingReply Of(const PendingRequest& request) const;

  AgentCore& core_;
  const ImageTable& images_;
};

}  // namespace kedge

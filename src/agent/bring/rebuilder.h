// For tools, after a job's application has died: which of its versions the nodes can give, images that none of them has any more
// made here again, and what is here of chosen versions sent to the store (session/messages.h, RebuildRequest). What a launch goes
// on from is for the tool to choose, which knows what the store has.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/tables/client_requests.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class Bringer;
class ImageFlusher;
class Inventories;

class Rebuilder {
 public:
  Rebuilder(AgentCore& core, Bringer& bringer, ImageFlusher& flush, Inventories& inventories);

 private:
  void Rebuild(const RebuildRequest& request, const Question& question);
  bool FallsToUs(const Job& job, uint32_t rank, const std::vector<InventoryReply>& replies) const;
  // The records of attempts that began without the store and have ended; their versions cannot get there before.
  void NoteAttempts(Job& job, const std::vector<Generation>& generations, std::function<void(Status)> done);

  AgentCore& core_;
  Bringer& bringer_;
  ImageFlusher& flush_;
  Inventories& inventories_;
};

}  // namespace kedge

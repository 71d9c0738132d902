// The communicators of a rank: which ranks each has, and by which contexts their messages go.
//
// All members of a communicator make the next ones of it together. They tell each other what each wants, and take the lowest id
// that is above all ids that any of them has seen: so of two communicators that share a rank no id is the same, and an id never
// comes back. Handles are each rank's own numbers (handle_table.h).
//
// Ranks are virtual, so a communicator is the same after a failure, whichever processes its ranks are then. FMI_Loop brings back
// those of the checkpoint, and no others. Until then a rank that was started again, and others that have not come to FMI_Loop
// yet, make what they can without the others: the handle, and the ranks and the grid where these follow from what it knows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmi/collectives.h"
#include "fmi/communicator_channel.h"
#include "fmi/handles/grid.h"
#include "fmi/handles/group.h"
#include "fmi/handles/handle_table.h"
#include "fmi/messenger.h"
#include "format/wire.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

struct Communicator {
  Communicator(Messenger* messenger, uint32_t number, std::shared_ptr<const Group> members, std::optional<Grid> places);
  // FMI_COMM_WORLD.
  explicit Communicator(Messenger* messenger);

  uint32_t id;
  std::shared_ptr<const Group> group;
  std::optional<Grid> grid;
  CommunicatorChannel channel;  // what ranks send to each other
  Collectives collectives;
};

// How a communicator is made of another one.
struct Making {
  enum class Call : int32_t { kDup, kSplit, kCreate, kCartCreate, kCartSub };
  Call call = Call::kDup;
  Wish wish;
  std::optional<Group> group;  // where it is known before the others have answered
  std::optional<Grid> grid;
};

class Communicators {
 public:
  // The messenger must outlive it.
  explicit Communicators(Messenger* messenger);

  // Null: there is none.
  Communicator* Find(FMI_Comm handle) { return handle == FMI_COMM_WORLD ? &world_ : made_.Find(handle); }
  Communicator& world() { return world_; }
  bool WasTaken(FMI_Comm handle) const { return made_.WasTaken(handle); }

  // Collective over `parent`. *made is FMI_COMM_NULL where the wish is to be nowhere. kMismatch: ranks do not make the same.
  // kUnavailable: there has been a failure; *made is the handle all the same.
  Status Make(Communicator* parent, Making making, FMI_Comm* made);
  // For one that a failure has kept from being made, and so its parent.
  FMI_Comm TakeHandle() { return made_.Take(); }
  void Free(FMI_Comm handle) { made_.Remove(handle); }

  void Encode(Encoder* encoder) const;
  // These and no others are there afterwards, but for FMI_COMM_WORLD.
  Status Decode(Decoder* decoder);

 private:
  struct Agreed {
    uint32_t id;
    std::vector<uint32_t> members;  // of the parent
  };
  Result<Agreed> Agree(Communicator* parent, const Making& making);

  Messenger* messenger_;
  Communicator world_;
  HandleTable<Communicator> made_{FMI_COMM_WORLD + 1};
  uint32_t next_id_;  // above all that this rank has seen
};

}  // namespace kedge::fmi

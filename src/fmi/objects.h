// All that the handles of a rank stand for, as each of its checkpoints has it.
//
// A communicator belongs to all of its ranks. So after a failure each rank has those of the checkpoint, and others are gone.
// Groups and types are a rank's own. A rank that lives keeps those that it has made since, and one that was started again has
// those of the checkpoint. Operations and persistent requests are of a process: its successor makes them anew, and
// has none of their numbers for another one.
#pragma once

#include <memory>

#include "base/status.h"
#include "fmi/communicators.h"
#include "fmi/handles/group.h"
#include "fmi/handles/handle_table.h"
#include "fmi/handles/type_map.h"
#include "fmi/messenger.h"
#include "fmi/operations.h"
#include "fmi/requests.h"
#include "format/wire.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

struct DerivedType {
  std::shared_ptr<const TypeMap> map;
  bool is_committed = false;
};

struct Objects {
  // The messenger must outlive it.
  explicit Objects(Messenger* messenger) : communicators(messenger) {}

  Buffer Encode() const;
  Status Restore(ByteSpan encoded);

  Communicators communicators;
  HandleTable<std::shared_ptr<const Group>> groups{FMI_GROUP_EMPTY + 1};
  HandleTable<DerivedType> types{kFirstDerivedType};
  HandleTable<Operation> operations{kFirstOperation};
  HandleTable<PersistentRequest> requests{1};
  // Below them are the types and operations of the language, with room for more.
  static constexpr int kFirstDerivedType = 64;
  static constexpr int kFirstOperation = 64;
};

}  // namespace kedge::fmi

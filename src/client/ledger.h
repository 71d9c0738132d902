// Which versions this context has taken: order, takes, and where each one went.
//
// A version must be greater than the newest of its name, unless the caller overwrites; newest is what this context has taken
// or restored last, and at a name's first use what the store has. `take` counts the takings of a version in this attempt
// alike on all ranks, because all ranks take checkpoints in the same order. Memory is bounded: of each name the versions
// taken last are remembered. Guarded by the context's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "format/identity.h"
#include "store/catalog.h"

namespace kedge::client {

struct TakenVersion {
  Generation generation;
  uint32_t turn = 0;      // how many takings of its name this attempt has begun before
  bool captured = false;  // this rank's image is whole
  bool in_store = false;  // captured inline: this rank's image was published by this process
  uint64_t session = 0;   // the session and its image number, where the agent has it
  uint64_t serial = 0;
  Status flush_failure;  // the agent's message
};

class Ledger {
 public:
  // `catalog` outlives the ledger.
  Ledger(const Catalog* catalog, std::string job, uint32_t attempt)
      : catalog_(catalog), job_(std::move(job)), attempt_(attempt) {}

  // A new taking. kAlreadyExists: the version is not greater than the newest.
  Result<TakenVersion*> Begin(const std::string& name, int64_t version, bool overwrite);
  // The image of this taking is whole.
  void Captured(TakenVersion* taken);
  // The application goes on from this version of its name.
  void Restored(const Generation& generation);
  // That version, when it is the last one of the name that the application went on from; else null.
  const Generation* FindRestored(const std::string& name, int64_t version) const;

  // The last taking of this version by this context; nullptr: none that is remembered.
  TakenVersion* Find(const std::string& name, int64_t version);
  // The last one captured; nullptr: none yet.
  TakenVersion* Newest() { return newest_; }
  TakenVersion* FindSerial(uint64_t session, uint64_t serial);

 private:
  struct Name {
    std::optional<int64_t> newest;
    std::optional<Generation> restored;
    uint32_t begun = 0;
    std::map<int64_t, TakenVersion> versions;
    std::deque<int64_t> order;  // keys of `versions`, the one taken longest ago first
    // Of the versions that are remembered no more: the greatest, and the greatest take.
    int64_t forgotten_version = -1;
    uint32_t forgotten_takes = 0;
  };
  Result<Name*> Use(const std::string& name);
  void Forget(Name* name);

  const Catalog* catalog_;
  const std::string job_;
  const uint32_t attempt_;
  std::map<std::string, Name> names_;
  TakenVersion* newest_ = nullptr;
};

}  // namespace kedge::client

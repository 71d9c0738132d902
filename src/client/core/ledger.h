// Which versions this context has taken: order, takes, and where each one went.
//
// A version must be greater than the newest of its name, unless the caller overwrites; newest is what this context has taken
// or restored last, and before that what the store had at init. Every call that takes a checkpoint counts, before anything of
// it can fail: so all ranks, which make these calls in the same order, give the same taking the same number (Generation::take),
// whatever becomes of it on one of them, and images of two takings are of two generations. Memory is bounded: of each name the
// versions taken last are remembered. Guarded by the context's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "format/identity.h"
#include "format/store_records.h"
#include "session/messages.h"

namespace kedge::client {

struct TakenVersion {
  Generation generation;
  bool started = false;       // this rank's image is still being captured
  bool captured = false;      // this rank's image is whole
  bool in_store = false;      // captured inline: this rank's image was published by this process
  Level told = Level::kNone;  // by a wait of this context: on the burst buffer or in the store
  uint64_t session = 0;       // the session and its image number, where the agent has it
  uint64_t serial = 0;
  Status flush_failure;  // the agent's message
};

class Ledger {
 public:
  // `stored`: the newest version of each name that the store had when the attempt began.
  Ledger(const StoreId& store_id, std::string job, uint32_t attempt, std::map<std::string, int64_t> stored)
      : store_id_(store_id), job_(std::move(job)), attempt_(attempt), stored_(std::move(stored)) {}

  // A checkpoint is called for, whatever becomes of it. `name` is valid.
  void Count(const std::string& name) { ++names_[name].takes; }
  // How many have been called for in this attempt.
  uint32_t TakesOf(const std::string& name) const;
  // Some rank has counted so many.
  void CatchUp(const std::string& name, uint32_t takes);

  // The taking that was counted last. kAlreadyExists: the version is not greater than the newest.
  Result<TakenVersion*> Begin(const std::string& name, int64_t version, bool overwrite);
  // The image of this taking has begun, and becomes whole while the application goes on.
  void Started(TakenVersion* taken);
  // The image of this taking is whole.
  void Captured(TakenVersion* taken);
  // The application goes on from this version of its name. Returns the record of that: what is taken from now on comes from
  // there.
  RestoredRecord Restored(const Generation& generation);
  // That version, when it is the last one of the name that the application went on from; else null.
  const Generation* FindRestored(const std::string& name, int64_t version) const;

  // The last taking of this version by this context; nullptr: none that is remembered.
  TakenVersion* Find(const std::string& name, int64_t version);
  // The last one started or captured; nullptr: none yet.
  TakenVersion* Newest() { return newest_; }
  // Whether the application went on from another version of the name since.
  bool IsLeftBehind(const TakenVersion& taken) const;
  TakenVersion* FindSerial(uint64_t session, uint64_t serial);

 private:
  struct Name {
    std::optional<int64_t> newest;
    std::optional<Generation> restored;
    uint32_t takes = 0;            // counted so far
    uint32_t restored_before = 0;  // the taking that comes after the last restart; 0: none
    std::map<int64_t, TakenVersion> versions;
    std::deque<int64_t> order;  // keys of `versions`, the one taken longest ago first
  };
  void Forget(Name* name);

  const StoreId store_id_;
  const std::string job_;
  const uint32_t attempt_;
  const std::map<std::string, int64_t> stored_;
  std::map<std::string, Name> names_;
  TakenVersion* newest_ = nullptr;
};

}  // namespace kedge::client

// What a history is played on: real processes (real_world.h) or a simulation (simulated_world.h), behind one interface.
//
// A launch has a number, from 1. Calls of all ranks are made at a time, and return one answer for each rank that was asked,
// in their order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kedge/kedge.h"
#include "tests/histories/history.h"

namespace kedge::histories {

// The one job of a history, and the name of its checkpoints.
inline constexpr const char* kJob = "histories";
inline constexpr const char* kName = "h";

// What the memory of a rank says of itself: its content is a function of this (pattern.h).
struct Tag {
  int rank = -1;
  int64_t version = -1;
  int launch = 0;
  int taking = 0;  // how many times this launch of the rank has begun that version before, and this one
};

struct Answer {
  bool came = true;   // in time
  bool died = false;  // the rank's process did, in this call
  int code = KEDGE_OK;
  std::string message;
  int64_t version = -1;        // restart: the version that came back; newest: that would; test: the level
  std::optional<Tag> content;  // restart: nothing when the memory is no whole image
  bool partial = false;        // restart: the version has some regions only
  bool ok() const { return came && !died && code == KEDGE_OK; }
};

struct CheckpointCall {
  int64_t version = 0;
  bool overwrite = false;
  bool parts = false;
  bool some = false;
  bool file = false;
  bool abandon = false;
  bool goes_on = false;  // the ranks write to their memory at once, when the call has returned
  bool IsWhole() const { return !parts && !some && !file && !abandon; }
};

// What agents hold when a job has ended.
enum class Held {
  kPending,  // something may be on its way to its level
  kDrained,  // nothing is, but versions may be on nodes only
  kStored,   // the store has all of it
};

class World {
 public:
  virtual ~World() = default;

  // Rank r starts on node places[r]. One answer a rank; a launch that fails has left no process. `rival`: from another PID
  // namespace of the same host.
  virtual std::vector<Answer> Launch(int launch, const std::vector<int>& places, bool rival) = 0;
  virtual std::vector<Answer> Restart(int launch, int64_t at_most, bool in_parts) = 0;
  // As a restart of exactly that version, but nothing follows from it.
  virtual std::vector<Answer> Read(int launch, int64_t version) = 0;
  // `takings` goes with `ranks`.
  virtual std::vector<Answer> Checkpoint(int launch, const std::vector<int>& ranks, const std::vector<int>& takings,
                                         const CheckpointCall& call) = 0;
  virtual std::vector<Answer> Wait(int launch, int64_t version, kedge_level level) = 0;
  virtual std::vector<Answer> Test(int launch, int64_t version) = 0;
  virtual std::vector<Answer> Newest(int launch, int64_t at_most) = 0;
  virtual std::vector<Answer> Pending(int launch) = 0;
  // The version that a launch goes on from as `kedge rebuild --look` says on that node; -1: none. Nothing: there are no tools.
  virtual std::optional<Answer> Look(int) { return std::nullopt; }
  virtual std::vector<Answer> End(int launch, bool drain) = 0;
  virtual void Kill(int launch) = 0;
  virtual void Freeze(int launch) = 0;
  virtual void Thaw(int launch) = 0;
  // One of the other steps, whose words it knows; false: it means nothing here (no such file yet), and nothing was done.
  virtual bool Fault(const Step& step) = 0;
  // A call of a rank that was to fail, or in which it was to die, and did not: it will not any more.
  virtual void MendRanks(int launch) = 0;
  // All that was done to store, agents and nodes is mended; what was lost stays lost.
  virtual void Mend() = 0;
  // Whether temporaries of dead publishers lie beside the files of users: they go with the next publication but one, which has
  // watched their attempt for a lease.
  virtual bool HasFileTemporaries() { return false; }
  // What is left when everything has ended in good order and should not be; empty: nothing.
  virtual std::vector<std::string> Leftovers() = 0;
  // All agents leave. What is left then of processes, and of files and memory that nobody has a use for any more.
  virtual std::vector<std::string> LeftByAgents(Held) { return {}; }
};

}  // namespace kedge::histories

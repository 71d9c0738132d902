// The checkpoints of FMI_Loop: versions of the name "fmi" of Kedge, whose number is that of the step. Beside the program's arrays
// they have what the rank's handles stand for.
//
// Those of loops within a step have names of their own, "fmi.LOOP". They are worth something on top of the step's checkpoint
// alone, in the course of the job that has gone on from it, so they name it by an identity that no other one has. Their numbers
// are the second in which that one was taken, and behind nine digits that of the call: newer ones are greater, whatever steps the
// job has gone back to.
//
// Kedge's context belongs to one set of processes. After a failure it is closed, and opened again over all of them, as an attempt
// of its own: so a job that goes on is to Kedge what a job is that was launched again. What dead ranks had handed over lies with
// the agent of the node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "fmi/collectives.h"
#include "fmi/objects.h"
#include "format/wire.h"
#include "kedge/kedge.h"

namespace kedge::fmi {

// The program's arrays, as FMI_Loop gets them.
struct Arrays {
  void** begins = nullptr;
  const int* bytes = nullptr;
  int count = 0;
};

class Checkpoints {
 public:
  // Both must outlive it. The collectives are of all ranks.
  Checkpoints(Collectives* collectives, Objects* objects) : collectives_(*collectives), objects_(*objects) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints() { Close(); }

  static constexpr int64_t kInnerNumberMax = 999'999'999;  // of calls of a loop within a step

  bool is_open() const { return context_ != nullptr; }
  // Collective. Errors of this and of Restore may come of a failure of another rank: ask the messenger.
  Status Open();
  // Not collective.
  void Close();
  // Collective. The step of the version that came back; nothing where there is none, and the objects are as they were.
  Result<std::optional<int64_t>> Restore(const Arrays& arrays);
  // Waits for nobody. The identity is the same on all ranks.
  Status Take(const Arrays& arrays, int64_t step, uint64_t identity);

  // An identity for a checkpoint that is taken now. Never 0.
  static uint64_t NewIdentity();
  // Collective. That of a step's checkpoint, which all ranks have brought back; 0: it was taken before there were any.
  Result<uint64_t> IdentityOf(int64_t step);
  // Collective. Brings the arrays of a loop back from the newest checkpoint on top of that one: the number of its call. Nothing
  // where there is none: then the arrays are as they were.
  Result<std::optional<int64_t>> RestoreInner(const std::string& loop, const Arrays& arrays, uint64_t identity);
  // As Take.
  Status TakeInner(const std::string& loop, const Arrays& arrays, int64_t number, uint64_t identity);
  // Collective: whether one is due by Kedge's own schedule (kedge_checkpoint_due).
  Result<bool> IsDue();

 private:
  Status Protect(const Arrays& arrays);
  Status TakeAs(const std::string& name, const Arrays& arrays, int64_t version, unsigned flags, uint64_t identity);
  // Between begin and end of a restart. 0: the version has none.
  Result<uint64_t> Identity() const;

  Collectives& collectives_;
  Objects& objects_;
  Buffer encoded_;  // the objects, on their way
  kedge_context* context_ = nullptr;
};

}  // namespace kedge::fmi

// The checkpoints of FMI_Loop: versions of the name "fmi" of Kedge, whose number is that of the step. Beside the program's arrays
// they have what the rank's handles stand for.
//
// Kedge's context belongs to one set of processes. After a failure it is closed, and opened again over all of them, as an attempt
// of its own: so a job that goes on is to Kedge what a job is that was launched again. What dead ranks had handed over lies with
// the agent of the node.
#pragma once

#include <cstdint>
#include <optional>

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

  bool is_open() const { return context_ != nullptr; }
  // Collective. Errors of this and of Restore may come of a failure of another rank: ask the messenger.
  Status Open();
  // Not collective.
  void Close();
  // Collective. The step of the version that came back; nothing where there is none, and the objects are as they were.
  Result<std::optional<int64_t>> Restore(const Arrays& arrays);
  // Waits for nobody.
  Status Take(const Arrays& arrays, int64_t step);
  // Collective: whether one is due by Kedge's own schedule (kedge_checkpoint_due).
  Result<bool> IsDue();

 private:
  Status Protect(const Arrays& arrays);

  Collectives& collectives_;
  Objects& objects_;
  Buffer encoded_;  // the objects, on their way
  kedge_context* context_ = nullptr;
};

}  // namespace kedge::fmi

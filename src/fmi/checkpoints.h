// The checkpoints of FMI_Loop: versions of the name "fmi" of Kedge, whose number is that of the step.
//
// Kedge's context belongs to one set of processes. After a failure it is closed, and opened again over all of them, as an attempt
// of its own: so a job that goes on is to Kedge what a job is that was launched again. What dead ranks had handed over lies with
// the agent of the node.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "fmi/collectives.h"
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
  // The collectives must outlive it.
  Checkpoints(Collectives* collectives, uint32_t rank, uint32_t ranks)
      : collectives_(*collectives), rank_(static_cast<int>(rank)), ranks_(static_cast<int>(ranks)) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints() { Close(); }

  bool is_open() const { return context_ != nullptr; }
  // Collective. Errors of this and of Restore may come of a failure of another rank: ask the messenger.
  Status Open();
  // Not collective.
  void Close();
  // Collective. The step of the version that came back; nothing where there is none.
  Result<std::optional<int64_t>> Restore(const Arrays& arrays);
  // Waits for nobody.
  Status Take(const Arrays& arrays, int64_t step);

 private:
  Status Protect(const Arrays& arrays);

  Collectives& collectives_;
  const int rank_;
  const int ranks_;
  kedge_context* context_ = nullptr;
};

}  // namespace kedge::fmi

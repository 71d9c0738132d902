// What `kedge halt` has asked of an attempt: one word that the agent writes into rank 0's mailbox, and what follows from it.
#pragma once

#include <cstdint>

namespace kedge {

enum class HaltWhen : uint8_t {
  kNextCheckpoint = 0,  // after the next checkpoint that it takes by itself
  kNow = 1,             // the same, and kedge_checkpoint_due asks for it now
  kAtOnce = 2,          // without waiting for a checkpoint
  kNever = 3,           // takes it back, unless the ranks have been told
};

struct Halt {
  HaltWhen when = HaltWhen::kNever;
  int64_t asked_ns = 0;  // on the monotonic clock of the node

  bool asked() const { return when != HaltWhen::kNever; }
  // What holds for a rank 0 whose newest checkpoint ended then; 0: it has taken none.
  bool WantsCheckpoint(int64_t ended_ns) const { return when == HaltWhen::kNow && ended_ns <= asked_ns; }
  bool WantsExit(int64_t ended_ns) const { return when == HaltWhen::kAtOnce || (asked() && ended_ns > asked_ns); }
};

// As one word of shared memory; 0: nothing is asked.
constexpr uint64_t Packed(const Halt& halt) {
  return halt.when == HaltWhen::kNever ? 0 : static_cast<uint64_t>(halt.asked_ns) << 2 | static_cast<uint64_t>(halt.when);
}
constexpr Halt UnpackedHalt(uint64_t packed) {
  if (packed == 0) return {};
  return {static_cast<HaltWhen>(packed & 3), static_cast<int64_t>(packed >> 2)};
}

}  // namespace kedge

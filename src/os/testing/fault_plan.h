// Which calls on a file system fail, how, and when: the part that the simulated and the faulty file system share.
//
// Rules are tried in the order in which they were added; the first that matches and is due decides. Everything is
// counted and seeded, so that a failing run replays from its seed and call numbers. Thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace kedge::os::testing {

enum class Call : uint8_t {
  kOpen,
  kPread,
  kPwrite,
  kFsync,
  kFdatasync,
  kSyncFileRange,
  kFtruncate,
  kFallocate,
  kFstat,
  kLock,
  kClose,
  kRename,
  kLink,
  kUnlink,
  kMkdir,
  kRmdir,
  kList,
  kStat,
  kStatVolume,
  kChmod,
  kSetModifiedTime,
};
inline constexpr size_t kCallCount = 21;
const char* CallName(Call call);

using CallSet = uint32_t;
template <typename... Calls>
constexpr CallSet CallsOf(Calls... calls) {
  return ((CallSet{1} << static_cast<unsigned>(calls)) | ... | CallSet{0});
}
inline constexpr CallSet kEveryCall = (CallSet{1} << kCallCount) - 1;
// Those that change something.
inline constexpr CallSet kChangingCalls =
    CallsOf(Call::kPwrite, Call::kFsync, Call::kFdatasync, Call::kFtruncate, Call::kFallocate, Call::kClose, Call::kRename,
            Call::kLink, Call::kUnlink, Call::kMkdir, Call::kRmdir, Call::kChmod, Call::kSetModifiedTime);

inline constexpr uint64_t kForEver = UINT64_MAX;

// The errno of every call of a process that KillAfter has killed; no real call returns it.
inline constexpr int kKilledErrno = 131;  // ENOTRECOVERABLE

struct FaultRule {
  CallSet calls = kEveryCall;
  std::string path_contains = {};  // any path when empty; of two-path calls either may match
  uint64_t skip = 0;               // so many matching calls pass first
  uint64_t count = 1;              // then so many are hit
  // Written bytes that pass first; the write that crosses it is cut short there. Used instead of skip when set.
  std::optional<uint64_t> byte_budget = {};
  int errno_value = 0;                   // the failure; 0: only transfer_bytes_max applies
  size_t transfer_bytes_max = SIZE_MAX;  // for reads and writes: a short transfer (at least one byte)
};

class FaultPlan {
 public:
  void Add(FaultRule rule);
  // Removes the rules, the kill and the short transfers; the counts stay.
  void Clear();
  // `calls` more calls pass, then every call fails, as if the process were dead: its own clean-up code does nothing.
  // A write that is struck leaves a part of its bytes.
  void KillAfter(uint64_t calls);
  bool IsKilled() const;
  // Each read and write transfers only a random part of its bytes with this probability.
  void ShortTransfers(double probability, uint64_t seed);

  struct Verdict {
    int errno_value = 0;  // not 0: the call fails, after `bytes` were transferred when it is a write
    size_t bytes = 0;     // how much may be transferred
  };
  // Counts the call and decides. `bytes` is what a read or write asks for.
  Verdict OnCall(Call call, std::string_view path, std::string_view second_path = {}, size_t bytes = 0);

  uint64_t calls() const;  // all so far
  uint64_t calls(Call call) const;
  uint64_t faults() const;  // calls that were made to fail, kills not counted

  // Keeps the names and paths of the last calls, for the message of a failing test.
  void KeepTrace(size_t calls_max);
  std::vector<std::string> Trace() const;

 private:
  struct Armed {
    FaultRule rule;
    uint64_t seen = 0;  // matching calls, or written bytes when there is a byte budget
    uint64_t hit = 0;
  };
  static bool Matches(const FaultRule& rule, Call call, std::string_view path, std::string_view second_path);
  bool Apply(Armed& armed, Verdict& verdict);

  mutable std::mutex mutex_;
  std::vector<Armed> rules_;
  uint64_t passes_left_ = kForEver;
  bool kill_struck_ = false;
  double short_probability_ = 0;
  Random random_{0};
  std::array<uint64_t, kCallCount> counts_{};
  uint64_t faults_ = 0;
  size_t trace_max_ = 0;
  std::vector<std::string> trace_;
};

}  // namespace kedge::os::testing

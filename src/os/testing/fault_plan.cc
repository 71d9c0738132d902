#include "os/testing/fault_plan.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

namespace kedge::os::testing {

static_assert(kKilledErrno == ENOTRECOVERABLE);

const char* CallName(Call call) {
  static constexpr const char* kNames[] = {"open",      "pread",     "pwrite",   "fsync", "fdatasync", "sync_file_range",
                                           "ftruncate", "fallocate", "fstat",    "flock", "close",     "rename",
                                           "link",      "unlink",    "mkdir",    "rmdir", "list",      "stat",
                                           "statvfs",   "chmod",     "utimensat"};
  static_assert(std::size(kNames) == kCallCount);
  return kNames[static_cast<size_t>(call)];
}

void FaultPlan::Add(FaultRule rule) {
  const std::lock_guard lock(mutex_);
  rules_.push_back({std::move(rule)});
}

void FaultPlan::Clear() {
  const std::lock_guard lock(mutex_);
  rules_.clear();
  passes_left_ = kForEver;
  kill_struck_ = false;
  short_probability_ = 0;
}

void FaultPlan::KillAfter(uint64_t calls) {
  const std::lock_guard lock(mutex_);
  passes_left_ = calls;
  kill_struck_ = false;
}

bool FaultPlan::IsKilled() const {
  const std::lock_guard lock(mutex_);
  return passes_left_ == 0;
}

void FaultPlan::ShortTransfers(double probability, uint64_t seed) {
  const std::lock_guard lock(mutex_);
  short_probability_ = probability;
  random_ = Random(seed);
}

void FaultPlan::KeepTrace(size_t calls_max) {
  const std::lock_guard lock(mutex_);
  trace_max_ = calls_max;
}

std::vector<std::string> FaultPlan::Trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

uint64_t FaultPlan::calls() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

uint64_t FaultPlan::calls(Call call) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<size_t>(call)];
}

uint64_t FaultPlan::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

bool FaultPlan::Matches(const FaultRule& rule, Call call, std::string_view path, std::string_view second_path) {
  if ((rule.calls & CallsOf(call)) == 0) return false;
  return path.find(rule.path_contains) != std::string_view::npos ||
         second_path.find(rule.path_contains) != std::string_view::npos;
}

// Whether the rule is due for this call; if so it shapes the verdict.
bool FaultPlan::Apply(Armed& armed, Verdict& verdict) {
  const FaultRule& rule = armed.rule;
  if (rule.byte_budget) {
    const uint64_t left = *rule.byte_budget - std::min(*rule.byte_budget, armed.seen);
    armed.seen += verdict.bytes;
    if (left >= verdict.bytes) return false;
    verdict.bytes = static_cast<size_t>(left);
    // What fits is a short write, as on a disk that fills up; the next one fails.
    if (left == 0) verdict.errno_value = rule.errno_value;
    return true;
  }
  if (armed.seen++ < rule.skip || armed.hit >= rule.count) return false;
  ++armed.hit;
  verdict.errno_value = rule.errno_value;
  verdict.bytes = rule.errno_value != 0 ? 0 : std::min(verdict.bytes, std::max<size_t>(rule.transfer_bytes_max, 1));
  return true;
}

FaultPlan::Verdict FaultPlan::OnCall(Call call, std::string_view path, std::string_view second_path, size_t bytes) {
  const std::lock_guard lock(mutex_);
  Verdict verdict{0, bytes};
  if (passes_left_ == 0) {
    // The kill may strike in the middle of a write: the first call that fails leaves a part of its bytes.
    if (std::exchange(kill_struck_, true) || call != Call::kPwrite || bytes == 0) return {kKilledErrno, 0};
    const uint64_t calls_before = std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
    return {kKilledErrno, static_cast<size_t>(MixSeed(calls_before, bytes) % (bytes + 1))};
  }
  ++counts_[static_cast<size_t>(call)];
  if (trace_max_ > 0) {
    if (trace_.size() == trace_max_) trace_.erase(trace_.begin());
    trace_.push_back(std::string(CallName(call)) + " " + std::string(path) + (second_path.empty() ? "" : " ") +
                     std::string(second_path));
  }
  if (passes_left_ != kForEver) --passes_left_;
  for (Armed& armed : rules_) {
    if (!Matches(armed.rule, call, path, second_path) || !Apply(armed, verdict)) continue;
    if (verdict.errno_value != 0) ++faults_;
    return verdict;
  }
  const bool transfers = call == Call::kPread || call == Call::kPwrite;
  if (transfers && bytes > 1 && random_.Chance(short_probability_))
    verdict.bytes = 1 + static_cast<size_t>(random_.Below(bytes - 1));
  return verdict;
}

}  // namespace kedge::os::testing

// See background_copy.h.
#include "capture/background_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "os/process/thread.h"

namespace kedge {
namespace {

// Small enough that a writer waits for microseconds, large enough that most of them find their next pages let through.
constexpr uint64_t kUnitBytes = uint64_t{64} << 10;
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
// How long memory is given back at most, by a call that has been heard of.
constexpr Duration kGivingBackMax = std::chrono::seconds(10);

uint64_t AddressOf(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace

BackgroundCopy::BackgroundCopy(os::HeldWrites held, CopyOrder* order) : held_(std::move(held)), order_(order) {}

BackgroundCopy::~BackgroundCopy() {
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<BackgroundCopy>> BackgroundCopy::Create(CopyOrder* order) {
  KEDGE_ASSIGN_OR_RETURN(os::HeldWrites held, os::HeldWrites::Create());
  return std::unique_ptr<BackgroundCopy>(new BackgroundCopy(std::move(held), order));
}

Status BackgroundCopy::Add(const void* data, uint64_t bytes) {
  KEDGE_ASSIGN_OR_RETURN(const os::MemoryRange pages, held_.Add(data, bytes));
  added_.push_back(pages);
  return Status::Ok();
}

Result<bool> BackgroundCopy::Start(std::vector<CopiedLater> parts, std::function<void(Status)> done) {
  parts_ = std::move(parts);
  done_ = std::move(done);
  std::sort(parts_.begin(), parts_.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  PlanUnits();
  PlanSpans();
  sequence_ = order_->Of(addresses_);
  waiting_.reserve(units_.size());
  waited_.reserve(units_.size());
  begin_ns_ = SystemClock().NowNs();
  auto thread = os::StartThread("kedge-copy", [this] { Run(held_.Hold()); });
  if (thread.ok()) thread_ = std::move(*thread);
  if (!thread.ok()) Run(thread.status());
  begun_.wait();
  if (!holds_) KEDGE_RETURN_IF_ERROR(in_call_);
  return holds_;
}

void BackgroundCopy::PlanUnits() {
  std::sort(added_.begin(), added_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (const os::MemoryRange& pages : added_) {
    // Where it is not known which pages are huge they are split: slower, not wrong.
    auto huge = os::HeldWrites::HugePages(pages);
    auto next_huge = huge.ok() ? huge->begin() : decltype(huge->begin()){};
    for (const std::byte* position = pages.begin; position < pages.end();) {
      while (huge.ok() && next_huge != huge->end() && next_huge->end() <= position) ++next_huge;
      const bool has_huge = huge.ok() && next_huge != huge->end();
      const bool is_huge = has_huge && position >= next_huge->begin;
      const uint64_t unit_bytes = is_huge ? kHugePageBytes : kUnitBytes;
      uint64_t bytes = unit_bytes - AddressOf(position) % unit_bytes;
      if (has_huge && !is_huge) bytes = std::min<uint64_t>(bytes, static_cast<uint64_t>(next_huge->begin - position));
      bytes = std::min<uint64_t>(bytes, static_cast<uint64_t>(pages.end() - position));
      units_.push_back({.memory = {position, bytes}});
      addresses_.push_back(AddressOf(position));
      position += bytes;
    }
  }
}

void BackgroundCopy::PlanSpans() {
  size_t unit = 0;
  for (uint32_t part = 0; part < parts_.size(); ++part) {
    const CopiedLater& copied = parts_[part];
    for (uint64_t offset = 0; offset < copied.bytes;) {
      const std::byte* const from = copied.from + offset;
      while (unit < units_.size() && units_[unit].memory.end() <= from) ++unit;
      Unit* const in = unit < units_.size() && units_[unit].memory.begin <= from ? &units_[unit] : nullptr;
      uint64_t bytes = copied.bytes - offset;
      if (in != nullptr) {
        bytes = std::min<uint64_t>(bytes, static_cast<uint64_t>(in->memory.end() - from));
        if (in->spans++ == 0) in->first_span = static_cast<uint32_t>(spans_.size());
      } else if (unit < units_.size()) {
        bytes = std::min<uint64_t>(bytes, static_cast<uint64_t>(units_[unit].memory.begin - from));
      }
      spans_.push_back({from, copied.to + offset, bytes, part, 0});
      offset += bytes;
    }
  }
}

uint32_t BackgroundCopy::UnitAt(uint64_t address) const {
  const auto behind = std::upper_bound(addresses_.begin(), addresses_.end(), address);
  return static_cast<uint32_t>(behind - addresses_.begin()) - 1;
}

Status BackgroundCopy::Lost(const Unit& unit, const char* why) const {
  const int region = unit.spans > 0 ? parts_[spans_[unit.first_span].part].region : 0;
  return Status(Code::kFailedPrecondition,
                fmt::format("region {}: its memory at {:#x} {} before it was captured: wait for the level LOCAL, or call "
                            "kedge_unprotect, before memory is given back",
                            region, AddressOf(unit.memory.begin), why));
}

bool BackgroundCopy::CopySpan(Span* span) {
  for (uint64_t offset = 0; offset < span->bytes;) {
    const uint64_t bytes = std::min(kUnitBytes, span->bytes - offset);
    if (!os::HeldWrites::Read(span->from + offset, span->to + offset, bytes)) return false;
    span->crc32c = crc32c::Extend(span->crc32c, span->to + offset, bytes);
    offset += bytes;
  }
  return true;
}

Status BackgroundCopy::TakeHappened() {
  os::HeldWrites::Happened happened;
  while (held_.Next(&happened)) {
    if (happened.kind == os::HeldWrites::Kind::kGivenBack) {
      for (Unit& unit : units_) {
        const bool is_in = AddressOf(unit.memory.begin) < happened.end && happened.begin < AddressOf(unit.memory.end());
        if (is_in && !unit.is_copied) return Lost(unit, "was given back (madvise)");
      }
      continue;
    }
    const uint32_t number = UnitAt(happened.begin);
    Unit& unit = units_[number];
    if (unit.is_copied) {
      held_.Wake(unit.memory);
    } else if (!std::exchange(unit.is_waited_for, true)) {
      waiting_.push_back(number);
      waited_.push_back({addresses_[number], SystemClock().NowNs() - begin_ns_});
    }
  }
  return Status::Ok();
}

Status BackgroundCopy::CopyUnit(uint32_t number) {
  Unit& unit = units_[number];
  if (unit.is_copied) return Status::Ok();
  for (uint32_t i = 0; i < unit.spans; ++i) {
    if (!CopySpan(&spans_[unit.first_span + i])) return Lost(unit, "was unmapped");
  }
  const Deadline deadline(SystemClock(), kGivingBackMax);
  Status let = holds_ ? held_.LetThrough(unit.memory) : Status::Ok();
  while (let.code() == Code::kBusy && !deadline.Passed()) {
    KEDGE_RETURN_IF_ERROR(TakeHappened());
    std::this_thread::yield();
    let = held_.LetThrough(unit.memory);
  }
  unit.is_copied = let.ok();
  os::KillPoint("client-copy-unit");
  return let.ok() ? let : Lost(unit, "was unmapped, moved or mapped anew");
}

Status BackgroundCopy::CopyUnits() {
  for (size_t next = 0; next < sequence_.size();) {
    KEDGE_RETURN_IF_ERROR(TakeHappened());
    const bool is_waited_for = next_waiting_ < waiting_.size();
    KEDGE_RETURN_IF_ERROR(CopyUnit(is_waited_for ? waiting_[next_waiting_++] : sequence_[next++]));
  }
  return Status::Ok();
}

void BackgroundCopy::SumParts() {
  for (const Span& span : spans_) {
    uint32_t& sum = parts_[span.part].crc32c;
    sum = crc32c::Combine(sum, span.crc32c, span.bytes);
  }
}

// The application waits, and its memory is there, as in any call.
void BackgroundCopy::CopyEdges() {
  size_t unit = 0;
  for (uint32_t i = 0; i < spans_.size(); ++i) {
    while (unit < units_.size() && units_[unit].first_span + units_[unit].spans <= i) ++unit;
    const bool is_in_unit = unit < units_.size() && units_[unit].first_span <= i;
    Span& span = spans_[i];
    if (!is_in_unit) span.crc32c = crc32c::CopyAndChecksum(span.to, span.from, span.bytes);
  }
}

void BackgroundCopy::Run(const Status& holds) {
  holds_ = holds.ok();
  if (!holds_) {
    LogWarning("client", "a checkpoint copies all of its memory in the call: {}", holds.message());
    held_.LetAll();
  }
  CopyEdges();
  if (holds_) begun_.count_down();
  os::KillPoint("client-copy-begun");
  const Status status = CopyUnits();
  held_.LetAll();
  if (status.ok()) SumParts();
  order_->Learn(addresses_, waited_);
  os::KillPoint("client-copy-done");
  if (holds_) return done_(status);
  in_call_ = status;
  begun_.count_down();
}

}  // namespace kedge

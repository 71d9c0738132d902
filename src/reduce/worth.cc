#include "reduce/worth.h"

namespace kedge::reduce {

namespace {

constexpr double kGoesOnAbove = 1.0 / 32;
constexpr double kBeginsAbove = 1.0 / 16;
constexpr uint32_t kPoorMax = 3;
constexpr uint32_t kSkippedMax = 16;

}  // namespace

bool Worth::Asks() {
  if (is_on_ || skipped_ == kSkippedMax) return true;
  ++skipped_;
  return false;
}

void Worth::Note(uint64_t bytes, uint64_t saved_bytes, bool had_base) {
  if (bytes == 0 || !had_base) return;
  const double saved = static_cast<double>(saved_bytes) / static_cast<double>(bytes);
  if (saved >= (is_on_ ? kGoesOnAbove : kBeginsAbove)) {
    is_on_ = true;
    poor_ = 0;
  } else if (!is_on_ || ++poor_ == kPoorMax) {
    is_on_ = false;
    poor_ = 0;
    skipped_ = 0;
  }
}

}  // namespace kedge::reduce

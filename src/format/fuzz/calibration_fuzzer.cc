// A calibration file as anything may have left it, also with the checksum that belongs to its lines: it is read as what writes
// the same text, or refused.
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "format/calibration.h"

namespace kedge {
namespace {

void Check(std::string_view text) {
  const auto calibration = ParseCalibration(text);
  if (!calibration.ok()) return;
  KEDGE_CHECK(ValidateCalibration(*calibration).ok());
  KEDGE_CHECK(FormatCalibration(*calibration) == text);
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  Check(text);
  const std::string lines = text.substr(0, text.rfind("crc32c "));
  Check(lines + fmt::format("crc32c {:08x}\n", crc32c::Compute(lines.data(), lines.size())));
  return 0;
}

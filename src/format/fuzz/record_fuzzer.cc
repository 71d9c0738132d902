// Every record decoder, past the checksum: the first byte chooses the kind, and whether it is of the newest format version of
// its kind; the rest is a payload that is enclosed rightly. What decodes encodes to the same bytes. The raw bytes go through the
// envelope as well.
#include "base/status.h"
#include "format/testing/sample_records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  if (bytes == 0) return 0;
  constexpr uint16_t kKinds = static_cast<uint16_t>(RecordKind::kBase);
  const auto kind = static_cast<RecordKind>(1 + (data[0] & 0x7f) % kKinds);
  const ByteSpan input = std::as_bytes(std::span(data, bytes));
  const uint16_t format_version = (data[0] & 0x80) != 0 ? FormatVersionNewest(kind) : kFormatVersion;
  const Status enclosed = testing::DecodeAndEncodeAgain(kind, testing::Enclose(kind, input.subspan(1), format_version));
  KEDGE_CHECK(enclosed.ok() || enclosed.code() == Code::kCorrupt);
  static_cast<void>(testing::DecodeAndEncodeAgain(kind, input));
  return 0;
}

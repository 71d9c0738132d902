// Files of the run folder as anything may have left them: a local image file (also with checksums that belong to
// its bytes), a tier's layout. They decode to what encodes to the same, or are refused.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>

#include "agent/space/tier_cut.h"
#include "agent/tables/record_file.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "format/testing/sample_records.h"
#include "tier/tier_info.h"

namespace kedge {
namespace {

void CheckImageFile(ByteSpan bytes) {
  auto file = DecodeImageFile(bytes);
  if (!file.ok()) return;
  auto encoded = EncodeImageFile(*file);
  KEDGE_CHECK(encoded.ok());
  KEDGE_CHECK(encoded->size() == bytes.size() && std::memcmp(encoded->data(), bytes.data(), bytes.size()) == 0);
}

// The input as the fields in front of a local record and as the payload of that record, with the right magic numbers,
// lengths and checksums around both.
Buffer Enclosed(FuzzedDataProvider input) {
  const std::string fields = input.ConsumeBytesAsString(input.ConsumeIntegralInRange<size_t>(5, 24));
  const std::string payload = input.ConsumeRemainingBytesAsString();
  const Buffer local = testing::Enclose(RecordKind::kLocal, AsBytes(payload));
  Buffer bytes;
  Encoder encoder(bytes);
  encoder.U32(kImageFileMagic);
  encoder.Raw(AsBytes(fields));
  encoder.Varint(local.size());
  encoder.Raw(local);
  const auto written = encoder.Written(0);
  encoder.U32(crc32c::Compute(written.data(), written.size()));
  encoder.Finish();
  return bytes;
}

void CheckLayout(std::string_view text) {
  const auto cut = ParseTierCut(text);
  if (!cut) return;
  TierInfo info;
  info.slot_bytes = cut->slot_bytes;
  info.slots = cut->slots;
  KEDGE_CHECK(ValidateTierInfo(info).ok() && FormatTierCut(*cut) == text);
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  const ByteSpan input = std::as_bytes(std::span(data, bytes));
  CheckImageFile(input);
  CheckImageFile(Enclosed(FuzzedDataProvider(data, bytes)));
  CheckLayout(AsText(input));
  CheckLayout("slot_bytes " + std::string(AsText(input)));
  return 0;
}

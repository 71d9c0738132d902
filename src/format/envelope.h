// The envelope that every record of Kedge stands in, the same for all kinds and all format versions to come:
//
//   offset  bytes
//   0       8      magic "KEDGEREC"
//   8       2      kind
//   10      2      format version of the payload
//   12      4      zero
//   16      8      payload bytes
//   24      16     store id (zero where there is none): low half, high half
//   40      n      payload
//   40+n    4      CRC32C of everything before it
//
// The checksum is checked before the format version, so a flipped bit is "corrupt", never "from a newer Kedge".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "format/identity.h"
#include "format/wire.h"

namespace kedge {

enum class RecordKind : uint16_t {
  kStore = 1,
  kJob = 2,
  kName = 3,
  kAttempt = 4,
  kAttemptEnd = 5,
  kImage = 6,
  kPlacement = 7,
  kLocal = 8,
  kPart = 9,
  kVersion = 10,
  kPin = 11,
  kImageIdentity = 12,
  kAttemptDrain = 13,
  kRemoved = 14,
  kSet = 15,
  kParity = 16,
  kRestored = 17,
  kReached = 18,
  kBlockMap = 19,
  kBase = 20,
};
// "image record", for messages.
const char* RecordKindName(RecordKind kind);

// Written into every record that says no other.
inline constexpr uint16_t kFormatVersion = 2;
inline constexpr uint16_t kFormatVersionOldest = 2;  // that is still read
// Of a version record with its part inside, which a Kedge that reads format 2 alone is to leave alone.
inline constexpr uint16_t kFormatVersionOfWhole = 3;
// The newest that is read of a kind.
constexpr uint16_t FormatVersionNewest(RecordKind kind) {
  return kind == RecordKind::kVersion ? kFormatVersionOfWhole : kFormatVersion;
}

inline constexpr size_t kEnvelopeHeaderBytes = 40;
inline constexpr size_t kEnvelopeBytes = kEnvelopeHeaderBytes + 4;  // without the payload
inline constexpr uint64_t kRecordBytesMax = uint64_t{1} << 30;

// Writes one record: the header at construction, the payload through encoder(), length and checksum at Finish.
class RecordEncoder {
 public:
  RecordEncoder(RecordKind kind, const StoreId& store_id, Buffer* out, uint16_t format_version = kFormatVersion);
  Encoder& encoder() { return encoder_; }
  void Finish();

 private:
  Encoder encoder_;
  size_t begin_;
};

struct Record {
  RecordKind kind;
  uint16_t format_version;
  StoreId store_id;
  ByteSpan payload;  // into the bytes that were opened
};

// How many bytes the record that begins with `prefix` (at least kEnvelopeHeaderBytes of it) has, for a reader that does
// not know yet. Only magic and bounds are checked. kCorrupt: no record begins here.
Result<uint64_t> RecordBytes(ByteSpan prefix);

// Checks magic, length, checksum, kind and format version of the record that `bytes` are, whole and nothing else.
// kCorrupt: not a record, truncated, longer than announced, failed checksum, another kind. kUnsupported: intact, but of
// a newer format version. The message says what was found, not where: the caller adds the path.
Result<Record> OpenRecord(ByteSpan bytes, RecordKind kind);

// kMismatch when `found` is not `expected`: the record is another store's. `what` names the record.
Status CheckStoreId(const StoreId& found, const StoreId& expected, const char* what);

}  // namespace kedge

#include "os/files/striping.h"

#include <fmt/format.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "os/files/failed_call.h"

namespace kedge::os {
namespace {

constexpr uint32_t kPlain = 0x0bd10bd0, kOfPool = 0x0bd30bd0, kOnTargets = 0x0bd50bd0, kOfComponents = 0x0bd60bd0;
constexpr uint32_t kInTurn = 1;  // LOV_PATTERN_RAID0
constexpr uint16_t kAnyTarget = 0xffff, kAll = 0xffff;
// Where things lie in the structs, which are packed, in the order of bytes of the machine.
constexpr size_t kStripeSizeAt = 24, kStripeCountAt = 28, kOffsetAt = 30, kPlainBytes = 32, kPoolNameBytes = 16;
constexpr size_t kObjectBytes = 24, kTargetAt = 20;
constexpr size_t kEntryCountAt = 14, kEntriesAt = 32, kEntryBytes = 48, kBlobOffsetAt = 24, kBlobBytesAt = 28;
constexpr size_t kAttributeBytesMax = 65536;

// Read in the tests by file systems that have no Lustre: an attribute that they do have.
const char* AttributeName() {
  const char* const name = std::getenv("KEDGE_TEST_STRIPING_ATTRIBUTE");
  return name == nullptr || *name == '\0' ? "lustre.lov" : name;
}

template <typename T>
T At(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Status NoStriping(const char* why) {
  return Status(Code::kCorrupt, fmt::format("the file system's word on the file's stripes makes no sense: {}", why));
}

Result<Striping> DecodeOne(std::span<const std::byte> bytes) {
  if (bytes.size() < kPlainBytes) return NoStriping("it is cut short");
  const auto magic = At<uint32_t>(bytes, 0);
  if (magic != kPlain && magic != kOfPool && magic != kOnTargets) return NoStriping("it is of an unknown kind");
  Striping striping;
  striping.stripe_bytes = At<uint32_t>(bytes, kStripeSizeAt);
  const auto count = At<uint16_t>(bytes, kStripeCountAt);
  striping.targets = count == kAll ? Striping::kAllTargets : count;
  const std::span<const std::byte> objects =
      bytes.subspan(std::min(bytes.size(), kPlainBytes + (magic == kPlain ? 0 : kPoolNameBytes)));
  // A folder's has none, however many a file will have; nor has one whose component has not been written to.
  if (objects.empty() || count == kAll) return striping;
  if (objects.size() / kObjectBytes < count) return NoStriping("it names fewer targets than it counts");
  for (size_t i = 0; i < count; ++i) striping.on.push_back(At<uint32_t>(objects, i * kObjectBytes + kTargetAt));
  return striping;
}

}  // namespace

Result<Striping> DecodeStriping(std::span<const std::byte> attribute) {
  if (attribute.size() < sizeof(uint32_t)) return NoStriping("it is cut short");
  if (At<uint32_t>(attribute, 0) != kOfComponents) return DecodeOne(attribute);
  if (attribute.size() < kEntriesAt) return NoStriping("it is cut short");
  const auto count = At<uint16_t>(attribute, kEntryCountAt);
  if (count == 0 || (attribute.size() - kEntriesAt) / kEntryBytes < count)
    return NoStriping("it has fewer components than it says");
  const std::span<const std::byte> entry = attribute.subspan(kEntriesAt + (count - size_t{1}) * kEntryBytes, kEntryBytes);
  const auto offset = At<uint32_t>(entry, kBlobOffsetAt), bytes = At<uint32_t>(entry, kBlobBytesAt);
  if (offset > attribute.size() || bytes > attribute.size() - offset) return NoStriping("a component lies beyond its end");
  return DecodeOne(attribute.subspan(offset, bytes));
}

std::vector<std::byte> EncodeStriping(const Striping& striping) {
  std::vector<std::byte> bytes(kPlainBytes);
  const auto put = [&](size_t offset, auto value) { std::memcpy(bytes.data() + offset, &value, sizeof(value)); };
  put(0, kPlain);
  put(sizeof(uint32_t), kInTurn);
  put(kStripeSizeAt, static_cast<uint32_t>(striping.stripe_bytes));
  put(kStripeCountAt, static_cast<uint16_t>(std::min(striping.targets, Striping::kAllTargets)));
  put(kOffsetAt, kAnyTarget);
  return bytes;
}

Result<Striping> ReadStriping(const std::string& path) {
  std::vector<std::byte> bytes(kAttributeBytesMax);
  const ssize_t got = getxattr(path.c_str(), AttributeName(), bytes.data(), bytes.size());
  if (got < 0 && (errno == ENOTSUP || errno == ENODATA)) {
    return Status(Code::kUnsupported, path + ": its file system does not say that it has stripes");
  }
  if (got < 0) return Failed("getxattr", path);
  return DecodeStriping(std::span<const std::byte>(bytes).first(static_cast<size_t>(got)));
}

Status SetStriping(const std::string& folder, const Striping& striping) {
  const std::vector<std::byte> bytes = EncodeStriping(striping);
  if (setxattr(folder.c_str(), AttributeName(), bytes.data(), bytes.size(), 0) == 0) return Status::Ok();
  if (errno == ENOTSUP) return Status(Code::kUnsupported, folder + ": its file system has no stripes");
  return Failed("setxattr", folder);
}

}  // namespace kedge::os

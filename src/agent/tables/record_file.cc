#include "agent/tables/record_file.h"

#include <iterator>

#include "base/crc32c.h"
#include "os/files/files.h"
#include "os/files/private_files.h"

namespace kedge {
namespace {

// The first is the lowest bit.
constexpr bool ImageFile::*kFlags[] = {&ImageFile::stored,   &ImageFile::in_store,       &ImageFile::skipped,
                                       &ImageFile::to_node,  &ImageFile::at_node,        &ImageFile::passing,
                                       &ImageFile::at_local, &ImageFile::files_published};
constexpr uint8_t kUndecided = 4, kDamaged = 8, kWeakened = 16;  // beside DueLevels
constexpr uint64_t kRecordFileBytesMax = 256 << 20;
}  // namespace

Result<Buffer> EncodeImageFile(const ImageFile& file) {
  Buffer local;
  KEDGE_RETURN_IF_ERROR(EncodeLocalRecord(file.local, &local));
  Buffer out;
  Encoder encoder(out);
  encoder.U32(kImageFileMagic);
  encoder.Varint(file.record_bytes);
  encoder.Varint(file.session_id);
  encoder.Varint(file.serial);
  encoder.Varint(file.node_ranks);
  encoder.U8(static_cast<uint8_t>(file.scheduled));
  uint32_t flags = 0;
  for (size_t bit = 0; bit < std::size(kFlags); ++bit) flags |= (file.*kFlags[bit] ? 1u : 0u) << bit;
  encoder.U8(static_cast<uint8_t>(flags));
  const uint32_t undecided = file.undecided ? EncodeDueLevels(*file.undecided) | kUndecided : 0;
  encoder.U8(static_cast<uint8_t>(undecided | (file.damaged ? kDamaged : 0) | (file.weakened ? kWeakened : 0)));
  encoder.Varint(local.size());
  encoder.Raw(local);
  const auto written = encoder.Written(0);
  encoder.U32(crc32c::Compute(written.data(), written.size()));
  encoder.Finish();
  return out;
}

Result<ImageFile> DecodeImageFile(ByteSpan bytes) {
  if (bytes.size() < 8) return Status(Code::kCorrupt, "local image file: too short");
  const ByteSpan body = bytes.first(bytes.size() - 4);
  Decoder trailer(bytes.last(4));
  if (trailer.U32() != crc32c::Compute(body.data(), body.size())) return Status(Code::kCorrupt, "local image file: bad checksum");
  Decoder decoder(body);
  decoder.Require(decoder.U32() == kImageFileMagic, "not a local image file");
  ImageFile file;
  file.record_bytes = decoder.Varint();
  file.session_id = decoder.Varint32();
  file.serial = decoder.Varint();
  file.node_ranks = static_cast<uint32_t>(decoder.VarintAtMost(kRanksOnNodeMax));
  const uint8_t level = decoder.U8();
  decoder.Require(level <= static_cast<uint8_t>(Level::kStore), "no such level");
  file.scheduled = static_cast<Level>(level);
  const uint8_t flags = decoder.U8();
  decoder.Require(flags >> std::size(kFlags) == 0, "no such flag");
  for (size_t bit = 0; bit < std::size(kFlags); ++bit) file.*kFlags[bit] = (flags >> bit & 1) != 0;
  const uint8_t more = decoder.U8();
  file.damaged = (more & kDamaged) != 0;
  file.weakened = (more & kWeakened) != 0;
  const uint32_t undecided = more & ~uint32_t{kDamaged | kWeakened};
  decoder.Require(undecided == 0 || (undecided & ~(kDueNode | kDueStore)) == kUndecided, "no such flag");
  if ((undecided & kUndecided) != 0) file.undecided = DecodeDueLevels(undecided);
  const ByteSpan local = decoder.Raw(decoder.VarintAtMost(body.size()));
  KEDGE_RETURN_IF_ERROR(decoder.Finish("local image file"));
  KEDGE_ASSIGN_OR_RETURN(file.local, DecodeLocalRecord(local));
  return file;
}

Status WriteImageFile(const std::string& path, const ImageFile& file) {
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, EncodeImageFile(file));
  return os::ReplaceFile(os::PrivateFileSystem(), path, AsText(bytes), "agent");
}

Result<ImageFile> ReadImageFile(const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(std::string bytes, os::ReadFile(os::PrivateFileSystem(), path, kRecordFileBytesMax));
  auto file = DecodeImageFile(AsBytes(bytes));
  return file.ok() ? std::move(file) : file.status().WithContext(path);
}

}  // namespace kedge

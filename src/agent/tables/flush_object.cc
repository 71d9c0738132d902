#include "agent/tables/flush_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/crc32c.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "store/publish.h"

namespace kedge {
namespace {

constexpr size_t kAlignment = 4096;
// Copied and summed at a time: what a core's cache still has when the sum reads it again.
constexpr size_t kCopiedStepBytes = size_t{256} << 10;

// A worker's buffer for pieces that do not lie in memory; grows to the largest piece and goes with the thread.
class AlignedBuffer {
 public:
  ~AlignedBuffer() { std::free(data_); }
  std::byte* OfSize(size_t bytes) {
    if (bytes > bytes_) {
      std::free(data_);
      bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_));
      if (data_ == nullptr) bytes_ = 0;
    }
    return data_;
  }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};
thread_local AlignedBuffer worker_buffer;

}  // namespace

bool StoreContext::IsSilent(const std::string& job, uint32_t self, uint32_t attempt) {
  const Result<Catalog> catalog = CatalogFor(self);
  if (!catalog.ok()) return false;
  const std::lock_guard lock(watch_mutex_);
  return kedge::IsSilent(*catalog, job, attempt, &watch_);
}

Status StoreContext::ApplyRetention(const std::string& job, const std::string& name, uint32_t self, RetentionOptions options,
                                    RetentionReport* report) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, CatalogFor(self));
  const std::lock_guard lock(watch_mutex_);
  options.watch = &watch_;
  return kedge::ApplyRetention(catalog, job, name, options, report);
}

Result<Catalog> StoreContext::CatalogFor(uint32_t attempt) {
  KEDGE_RETURN_IF_ERROR(catalog_.Confirm());
  return catalog_.WithOwner({catalog_.owner().node, attempt, catalog_.owner().writer});
}

Result<Catalog> StoreContext::CatalogToWrite(const std::string& job, uint32_t attempt) {
  KEDGE_ASSIGN_OR_RETURN(Catalog catalog, CatalogFor(attempt));
  KEDGE_RETURN_IF_ERROR(catalog.CheckRecordOf(job, attempt));
  const std::lock_guard lock(marked_mutex_);
  if (marked_.contains(attempt)) return catalog;
  const Status marked = MarkDraining(catalog, job, attempt);
  // An attempt that the store knows nothing of has nobody who could be waited for.
  if (!marked.ok() && marked.code() != Code::kNotFound) return marked;
  marked_.insert(attempt);
  return catalog;
}

Status PieceSource::Read(std::byte* out) const {
  if (tier != nullptr) return tier->Read(slot, offset, out, bytes);
  KEDGE_ASSIGN_OR_RETURN(auto opened, os::PrivateFileSystem().Open(file, os::OpenFlags::kRead | os::OpenFlags::kNoFollow));
  return os::ReadAll(*opened, out, bytes, offset);
}

Result<ObjectWriter*> FlushObject::Writer() {
  std::lock_guard lock(mutex_);
  KEDGE_RETURN_IF_ERROR(failed_);
  if (writer_ == nullptr) {
    auto begin = [&]() -> Result<std::unique_ptr<ObjectWriter>> {
      KEDGE_ASSIGN_OR_RETURN(Catalog catalog, store_->CatalogToWrite(generation_.job, generation_.attempt));
      KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation_));
      return catalog.store().CreateObject(keys::ImageKey(generation_, rank_), catalog.owner(), expected_bytes_);
    };
    auto writer = begin();
    if (!writer.ok()) {
      failed_ = writer.status();
      return failed_;
    }
    writer_ = std::move(*writer);
  }
  return writer_.get();
}

Result<uint32_t> FlushObject::WriteBytes(ByteSpan bytes, uint64_t object_offset) {
  KEDGE_ASSIGN_OR_RETURN(ObjectWriter * writer, Writer());
  const size_t step_bytes = writer->is_buffered() ? kCopiedStepBytes : bytes.size();
  uint32_t crc32c = 0;
  for (size_t done = 0; done < bytes.size();) {
    const ByteSpan step = bytes.subspan(done, std::min(step_bytes, bytes.size() - done));
    KEDGE_RETURN_IF_ERROR(writer->WriteAt(object_offset + done, step));
    crc32c = crc32c::ChecksumOnly(step.data(), step.size(), crc32c);
    done += step.size();
  }
  KEDGE_RETURN_IF_ERROR(writer->FlushHint(object_offset, bytes.size(), /*wait=*/false));
  return crc32c;
}

Result<uint32_t> FlushObject::WritePiece(const PieceSource& source, uint64_t object_offset) {
  if (source.tier != nullptr && source.tier->SlotMemory(source.slot) != nullptr) {
    return WriteBytes(ByteSpan(source.tier->SlotMemory(source.slot) + source.offset, source.bytes), object_offset);
  }
  std::byte* buffer = worker_buffer.OfSize(source.bytes);
  if (buffer == nullptr) return Status(Code::kNoSpace, fmt::format("no memory for a buffer of {} bytes", source.bytes));
  KEDGE_RETURN_IF_ERROR(source.Read(buffer));
  return WriteBytes(ByteSpan(buffer, source.bytes), object_offset);
}

FlushObject::~FlushObject() {
  if (writer_ != nullptr && !published_) (void)writer_->Abandon();  // what stays is a temporary that gc finds
}

void FlushObject::MarkPublished() {
  std::lock_guard lock(mutex_);
  published_ = true;
}

}  // namespace kedge

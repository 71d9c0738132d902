#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/files/direct_io.h"
#include "os/files/files.h"
#include "os/files/io_queue.h"

namespace kedge::os {
namespace {

constexpr int kNoBuffer = -1;

bool IsAligned(uint64_t value) {
  return value % kDirectAlignmentBytes == 0;
}
bool IsAligned(const void* pointer) {
  return IsAligned(reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace

struct DirectWriter::Request {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  uint64_t offset = 0;
  int buffer_index = kNoBuffer;  // to be freed when the request has ended
  bool through_cache = false;
};

Result<std::unique_ptr<DirectWriter>> DirectWriter::Open(DirectIo& io, FileSystem& fs, const std::string& path, bool exclusive,
                                                         uint32_t mode, bool follow_links) {
  OpenFlags flags = OpenFlags::kReadWrite | OpenFlags::kCreate;
  const OpenFlags links = follow_links ? OpenFlags{} : OpenFlags::kNoFollow;
  flags = flags | links;
  if (exclusive) flags = flags | OpenFlags::kExclusive;
  KEDGE_ASSIGN_OR_RETURN(auto buffered, fs.Open(path, flags, mode));
  std::unique_ptr<File> direct;
  if (io.options_.direct) {
    auto opened = fs.Open(path, OpenFlags::kWrite | OpenFlags::kDirect | links);
    // EINVAL: a file system without O_DIRECT. Other errors are errors of the device or the limits of the process.
    if (!opened.ok() && opened.status().errno_value() != EINVAL) {
      if (exclusive) static_cast<void>(fs.Unlink(path));
      return opened.status();
    }
    if (opened.ok()) direct = std::move(*opened);
  }
  return std::unique_ptr<DirectWriter>(new DirectWriter(io, std::move(buffered), std::move(direct)));
}

DirectWriter::DirectWriter(DirectIo& io, std::unique_ptr<File> buffered, std::unique_ptr<File> direct)
    : io_(io), buffered_(std::move(buffered)), direct_(std::move(direct)) {
  KEDGE_CHECK(!io_.in_use_);
  io_.in_use_ = true;
  requests_.resize(io_.options_.buffer_count);
  for (size_t i = 0; i < io_.options_.buffer_count; ++i) {
    free_requests_.push_back(i);
    free_buffers_.push_back(i);
  }
}

DirectWriter::~DirectWriter() {
  static_cast<void>(Finish());
  io_.in_use_ = false;
}

Result<std::span<std::byte>> DirectWriter::Buffer() {
  KEDGE_CHECK(handed_out_ == kNoBuffer);
  while (free_buffers_.empty() && failed_.ok()) KEDGE_RETURN_IF_ERROR(WaitOne());
  KEDGE_RETURN_IF_ERROR(failed_);
  handed_out_ = static_cast<int>(free_buffers_.back());
  free_buffers_.pop_back();
  return std::span<std::byte>(io_.buffer(static_cast<size_t>(handed_out_)), io_.options_.buffer_bytes);
}

Status DirectWriter::Submit(size_t bytes, uint64_t offset) {
  KEDGE_CHECK(handed_out_ != kNoBuffer && bytes <= io_.options_.buffer_bytes);
  const int index = std::exchange(handed_out_, kNoBuffer);
  const std::byte* data = io_.buffer(static_cast<size_t>(index));
  // What does not fill a block goes through the page cache at once: it is less than a block, or the offset is odd.
  const size_t direct_bytes = direct_ != nullptr && IsAligned(offset) ? bytes / kDirectAlignmentBytes * kDirectAlignmentBytes : 0;
  const size_t rest_bytes = direct_ != nullptr ? bytes - direct_bytes : 0;
  if (rest_bytes > 0 && failed_.ok()) failed_ = WriteAll(*buffered_, data + direct_bytes, rest_bytes, offset + direct_bytes);
  const size_t queued_bytes = bytes - rest_bytes;
  if (queued_bytes == 0 || !failed_.ok()) {
    free_buffers_.push_back(static_cast<size_t>(index));
    return failed_;
  }
  return Start(data, queued_bytes, offset, index);
}

Status DirectWriter::Write(const void* data, size_t bytes, uint64_t offset) {
  const auto* position = static_cast<const std::byte*>(data);
  const bool in_place = direct_ == nullptr || (IsAligned(position) && IsAligned(offset));
  while (bytes > 0) {
    size_t part = std::min(bytes, io_.options_.buffer_bytes);
    if (in_place && (direct_ == nullptr || part >= kDirectAlignmentBytes)) {
      if (direct_ != nullptr) part = part / kDirectAlignmentBytes * kDirectAlignmentBytes;
      KEDGE_RETURN_IF_ERROR(Start(position, part, offset, kNoBuffer));
    } else {
      KEDGE_ASSIGN_OR_RETURN(const auto buffer, Buffer());
      // Up to a block's boundary first, so that what follows is aligned.
      if (!IsAligned(offset)) part = std::min(part, kDirectAlignmentBytes - static_cast<size_t>(offset % kDirectAlignmentBytes));
      std::memcpy(buffer.data(), position, part);
      KEDGE_RETURN_IF_ERROR(Submit(part, offset));
    }
    position += part;
    offset += part;
    bytes -= part;
  }
  return failed_;
}

Status DirectWriter::Start(const std::byte* data, size_t bytes, uint64_t offset, int buffer_index) {
  while (free_requests_.empty() && failed_.ok()) KEDGE_RETURN_IF_ERROR(WaitOne());
  if (!failed_.ok()) {
    if (buffer_index != kNoBuffer) free_buffers_.push_back(static_cast<size_t>(buffer_index));
    return failed_;
  }
  const size_t slot = free_requests_.back();
  free_requests_.pop_back();
  requests_[slot] = {data, bytes, offset, buffer_index, direct_ == nullptr};
  return Retry(slot);
}

// Starts the request, or what is left of it.
Status DirectWriter::Retry(size_t slot) {
  const Request& request = requests_[slot];
  IoRequest io;
  io.file = request.through_cache ? buffered_.get() : direct_.get();
  io.kind = IoKind::kWrite;
  io.data = const_cast<std::byte*>(request.data);  // only read from
  io.bytes = request.bytes;
  io.offset = request.offset;
  io.buffer_index = io_.registered_ ? request.buffer_index : kNoBuffer;
  io.token = slot;
  return io_.QueueFor(*buffered_).Submit(io);
}

Status DirectWriter::WaitOne() {
  KEDGE_ASSIGN_OR_RETURN(const IoCompletion completion, io_.QueueFor(*buffered_).Wait());
  Request& request = requests_[completion.token];
  const int error = completion.outcome.status().errno_value();
  if (completion.outcome.ok() && *completion.outcome > 0) {
    const size_t written = *completion.outcome;
    request.data += written;
    request.offset += written;
    request.bytes -= written;
    if (request.bytes > 0) {
      if (!IsAligned(request.offset)) request.through_cache = true;
      return Retry(completion.token);
    }
  } else if (error == EINTR || error == EAGAIN) {
    return Retry(completion.token);
  } else if (error == EINVAL && !request.through_cache) {
    request.through_cache = true;  // a file system that takes the flag and refuses the request
    return Retry(completion.token);
  } else if (failed_.ok()) {
    failed_ = completion.outcome.ok() ? Status::FromErrno(EIO, "pwrite without progress " + buffered_->path())
                                      : completion.outcome.status();
  }
  if (request.buffer_index != kNoBuffer) free_buffers_.push_back(static_cast<size_t>(request.buffer_index));
  free_requests_.push_back(completion.token);
  return Status::Ok();
}

Status DirectWriter::Finish() {
  while (free_requests_.size() < requests_.size()) {
    const Status waited = WaitOne();
    // A broken queue: the kernel may still read the memory in flight, and nothing can tell when it stops.
    KEDGE_CHECK(waited.ok());
  }
  return failed_;
}

Status DirectWriter::CloseFiles() {
  Status status;
  if (direct_ != nullptr) status = direct_->Close();
  const Status closed = buffered_->Close();
  return status.ok() ? closed : status;
}

Status DirectWriter::SyncAndClose(bool data_only) {
  KEDGE_RETURN_IF_ERROR(Finish());
  failed_ = data_only ? buffered_->Fdatasync() : buffered_->Fsync();
  KEDGE_RETURN_IF_ERROR(failed_);
  return failed_ = CloseFiles();
}

Status DirectWriter::Close() {
  KEDGE_RETURN_IF_ERROR(Finish());
  return failed_ = CloseFiles();
}

Status DirectWriter::Reserve(uint64_t bytes) {
  const Status reserved = buffered_->Fallocate(0, bytes, /*keep_size=*/true);
  return reserved.code() == Code::kUnsupported ? Status::Ok() : reserved;
}

Status DirectWriter::StartWriteback(uint64_t offset, uint64_t bytes) {
  return buffered_->SyncFileRange(offset, bytes, SyncRange::kStart);
}

}  // namespace kedge::os

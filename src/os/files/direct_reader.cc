#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "os/files/direct_io.h"
#include "os/files/files.h"
#include "os/files/io_queue.h"

namespace kedge::os {

// One request of a stream: `buffer` holds [offset, offset + bytes) of the file when it is done.
struct DirectReader::Piece {
  uint64_t offset = 0;
  size_t bytes = 0;
  size_t got_bytes = 0;
  bool in_flight = false;
  Status status;
};

Result<std::unique_ptr<DirectReader>> DirectReader::Open(DirectIo& io, FileSystem& fs, const std::string& path,
                                                         bool follow_links) {
  const OpenFlags links = follow_links ? OpenFlags{} : OpenFlags::kNoFollow;
  KEDGE_ASSIGN_OR_RETURN(auto buffered, fs.Open(path, OpenFlags::kRead | links));
  KEDGE_ASSIGN_OR_RETURN(const FileInfo info, buffered->Fstat());
  std::unique_ptr<File> direct;
  if (io.options_.direct) {
    auto opened = fs.Open(path, OpenFlags::kRead | OpenFlags::kDirect | links);
    if (!opened.ok() && opened.status().errno_value() != EINVAL) return opened.status();
    if (opened.ok()) direct = std::move(*opened);
  }
  return std::unique_ptr<DirectReader>(new DirectReader(io, std::move(buffered), std::move(direct), info.size_bytes));
}

DirectReader::DirectReader(DirectIo& io, std::unique_ptr<File> buffered, std::unique_ptr<File> direct, uint64_t file_bytes)
    : io_(io), buffered_(std::move(buffered)), direct_(std::move(direct)), file_bytes_(file_bytes) {
  KEDGE_CHECK(!io_.in_use_);
  io_.in_use_ = true;
}

DirectReader::~DirectReader() {
  io_.in_use_ = false;
}

Status DirectReader::Start(Piece& piece, size_t buffer_index) {
  IoRequest request;
  request.file = direct_ != nullptr ? direct_.get() : buffered_.get();
  request.data = io_.buffer(buffer_index);
  request.bytes = piece.bytes;
  request.offset = piece.offset;
  request.buffer_index = io_.registered_ ? static_cast<int>(buffer_index) : -1;
  request.token = buffer_index;
  KEDGE_RETURN_IF_ERROR(io_.QueueFor(*buffered_).Submit(request));
  piece.in_flight = true;
  return Status::Ok();
}

// Takes completions until the one of `piece` has come. `pieces` is indexed by buffer.
Status DirectReader::Await(Piece& piece, std::vector<Piece>& pieces) {
  while (piece.in_flight) {
    KEDGE_ASSIGN_OR_RETURN(const IoCompletion completion, io_.QueueFor(*buffered_).Wait());
    Piece& done = pieces[completion.token];
    done.in_flight = false;
    done.got_bytes = completion.outcome.ok() ? *completion.outcome : 0;
    const int error = completion.outcome.status().errno_value();
    if (!completion.outcome.ok() && error != EINTR && error != EAGAIN && error != EINVAL)
      done.status = completion.outcome.status();
  }
  return Status::Ok();
}

void DirectReader::Drain(std::vector<Piece>& pieces) {
  for (Piece& piece : pieces) {
    // A broken queue: the kernel may still write into the buffers, and nothing can tell when it stops.
    KEDGE_CHECK(Await(piece, pieces).ok());
  }
}

Status DirectReader::Stream(uint64_t offset, uint64_t bytes,
                            const std::function<Status(std::span<const std::byte>, uint64_t)>& consume) {
  if (bytes > UINT64_MAX - offset || offset + bytes > file_bytes_) {
    return Status(Code::kCorrupt,
                  fmt::format("{} ends at {}; {} bytes at {} were expected", buffered_->path(), file_bytes_, bytes, offset));
  }
  const uint64_t end = offset + bytes;
  const uint64_t alignment = direct_ != nullptr ? kDirectAlignmentBytes : 1;
  const uint64_t aligned_end = (end + alignment - 1) / alignment * alignment;
  uint64_t next = offset / alignment * alignment;  // where the next request begins
  std::vector<Piece> pieces(io_.options_.buffer_count);
  std::deque<size_t> order;  // the buffers in flight, first the one to be consumed next
  size_t free_buffer = 0;
  Status status;
  while (status.ok() && (next < aligned_end || !order.empty())) {
    while (status.ok() && next < aligned_end && order.size() < pieces.size()) {
      Piece& piece = pieces[free_buffer];
      piece = {next, static_cast<size_t>(std::min<uint64_t>(io_.options_.buffer_bytes, aligned_end - next)), 0, false,
               Status::Ok()};
      status = Start(piece, free_buffer);
      if (!status.ok()) break;
      order.push_back(free_buffer);
      next += piece.bytes;
      free_buffer = (free_buffer + 1) % pieces.size();
    }
    if (!status.ok()) break;
    const size_t index = order.front();
    order.pop_front();
    Piece& piece = pieces[index];
    status = Await(piece, pieces);
    if (status.ok()) status = piece.status;
    if (!status.ok()) break;
    const uint64_t from = std::max(piece.offset, offset);
    const uint64_t to = std::min(piece.offset + piece.bytes, end);
    // A short transfer (or one that this file system refuses directly) is completed through the page cache.
    if (piece.offset + piece.got_bytes < to) {
      status = ReadAll(*buffered_, io_.buffer(index) + piece.got_bytes, static_cast<size_t>(to - piece.offset) - piece.got_bytes,
                       piece.offset + piece.got_bytes);
      if (!status.ok()) break;
    }
    status = consume({io_.buffer(index) + (from - piece.offset), static_cast<size_t>(to - from)}, from);
  }
  Drain(pieces);
  return status;
}

Status DirectReader::Read(void* data, size_t bytes, uint64_t offset) {
  return Stream(offset, bytes, [&](std::span<const std::byte> piece, uint64_t piece_offset) {
    std::memcpy(static_cast<std::byte*>(data) + (piece_offset - offset), piece.data(), piece.size());
    return Status::Ok();
  });
}

}  // namespace kedge::os

#include "os/files/io_queue.h"

#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <unordered_map>
#include <vector>

namespace kedge::os {
namespace {

const char* CallName(IoKind kind) {
  switch (kind) {
    case IoKind::kRead: return "pread ";
    case IoKind::kWrite: return "pwrite ";
    case IoKind::kSync: break;
  }
  return "fsync ";
}

class PlainQueue final : public IoQueue {
 public:
  Status Submit(const IoRequest& request) override {
    done_.push_back({request.token, Call(request)});
    return Status::Ok();
  }

  Result<IoCompletion> Wait() override {
    KEDGE_CHECK(!done_.empty());
    IoCompletion completion = std::move(done_.front());
    done_.pop_front();
    return completion;
  }

 private:
  static Result<size_t> Call(const IoRequest& request) {
    switch (request.kind) {
      case IoKind::kRead: return request.file->Pread(request.data, request.bytes, request.offset);
      case IoKind::kWrite: return request.file->Pwrite(request.data, request.bytes, request.offset);
      case IoKind::kSync: break;
    }
    KEDGE_RETURN_IF_ERROR(request.file->Fsync());
    return size_t{0};
  }

  std::deque<IoCompletion> done_;
};

class RingQueue final : public IoQueue {
 public:
  explicit RingQueue(unsigned depth) : depth_(depth) {}
  ~RingQueue() override {
    if (created_) io_uring_queue_exit(&ring_);
  }

  Status Create() {
    const int result = io_uring_queue_init(depth_, &ring_, 0);
    if (result < 0) {
      return Status(Code::kUnsupported, Status::FromErrno(-result, "io_uring_setup").message());
    }
    created_ = true;
    return Status::Ok();
  }

  Status Register(std::byte* buffers, size_t buffer_bytes, unsigned count) {
    std::vector<iovec> parts(count);
    for (unsigned i = 0; i < count; ++i) parts[i] = {buffers + i * buffer_bytes, buffer_bytes};
    const int result = io_uring_register_buffers(&ring_, parts.data(), count);
    return result < 0 ? Status::FromErrno(-result, "io_uring_register(buffers)") : Status::Ok();
  }

  Status Submit(const IoRequest& request) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    KEDGE_CHECK(entry != nullptr);  // each entry is submitted at once, so there is always room
    const int fd = request.file->descriptor();
    const auto bytes = static_cast<unsigned>(request.bytes);
    const bool is_write = request.kind == IoKind::kWrite;
    if (request.kind == IoKind::kSync) {
      io_uring_prep_fsync(entry, fd, 0);
    } else if (request.buffer_index >= 0) {
      is_write ? io_uring_prep_write_fixed(entry, fd, request.data, bytes, request.offset, request.buffer_index)
               : io_uring_prep_read_fixed(entry, fd, request.data, bytes, request.offset, request.buffer_index);
    } else {
      is_write ? io_uring_prep_write(entry, fd, request.data, bytes, request.offset)
               : io_uring_prep_read(entry, fd, request.data, bytes, request.offset);
    }
    io_uring_sqe_set_data64(entry, request.token);
    KEDGE_RETURN_IF_ERROR(Enter());
    in_flight_.emplace(request.token, request);
    return Status::Ok();
  }

  Result<IoCompletion> Wait() override {
    io_uring_cqe* entry = nullptr;
    int result = 0;
    do {
      result = io_uring_wait_cqe(&ring_, &entry);
    } while (result == -EINTR || result == -EAGAIN);
    if (result < 0) return Status::FromErrno(-result, "io_uring_enter(wait)");
    const uint64_t token = io_uring_cqe_get_data64(entry);
    const int outcome = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    const auto found = in_flight_.find(token);
    KEDGE_CHECK(found != in_flight_.end());
    const IoRequest request = found->second;
    in_flight_.erase(found);
    if (outcome >= 0) return IoCompletion{token, static_cast<size_t>(outcome)};
    return IoCompletion{token, Status::FromErrno(-outcome, CallName(request.kind) + request.file->path())};
  }

 private:
  // EAGAIN and EBUSY mean that the kernel lacks memory for requests at the moment; the entry stays queued meanwhile.
  Status Enter() {
    constexpr int kAttemptsMax = 5000;  // of a millisecond each
    int result = 0;
    for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
      result = io_uring_submit(&ring_);
      if (result >= 1) return Status::Ok();
      if (result != -EAGAIN && result != -EBUSY && result != -EINTR) break;
      usleep(1000);
    }
    return Status::FromErrno(result < 0 ? -result : EIO, "io_uring_enter(submit)");
  }

  const unsigned depth_;
  bool created_ = false;
  io_uring ring_{};
  std::unordered_map<uint64_t, IoRequest> in_flight_;
};

}  // namespace

std::unique_ptr<IoQueue> MakePlainQueue() {
  return std::make_unique<PlainQueue>();
}

Result<std::unique_ptr<IoQueue>> MakeRingQueue(unsigned depth) {
  auto ring = std::make_unique<RingQueue>(depth);
  KEDGE_RETURN_IF_ERROR(ring->Create());
  return std::unique_ptr<IoQueue>(std::move(ring));
}

Status RegisterBuffers(IoQueue& ring, std::byte* buffers, size_t buffer_bytes, unsigned count) {
  return static_cast<RingQueue&>(ring).Register(buffers, buffer_bytes, count);
}

}  // namespace kedge::os

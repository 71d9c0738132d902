#include "os/files/direct_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "os/files/files.h"
#include "os/files/io_queue.h"

namespace kedge::os {

DirectIo::DirectIo(const DirectIoOptions& options) : options_(options) {}

Result<std::unique_ptr<DirectIo>> DirectIo::Create(const DirectIoOptions& options) {
  if (options.buffer_bytes == 0 || options.buffer_bytes % kDirectAlignmentBytes != 0 || options.buffer_count == 0 ||
      options.buffer_count > 4096 || options.buffer_bytes > (size_t{1} << 30)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} I/O buffers of {} bytes: expected 1 to 4096 of a multiple of {} up to 1 GiB",
                              options.buffer_count, options.buffer_bytes, kDirectAlignmentBytes));
  }
  std::unique_ptr<DirectIo> io(new DirectIo(options));
  const size_t bytes = options.buffer_bytes * options.buffer_count;
  io->buffers_ = static_cast<std::byte*>(std::aligned_alloc(kDirectAlignmentBytes, bytes));
  if (io->buffers_ == nullptr) return Status::FromErrno(ENOMEM, fmt::format("allocate {} bytes of I/O buffers", bytes));
  io->plain_ = MakePlainQueue();
  if (options.engine == DirectIoOptions::Engine::kPlain) return io;
  auto ring = MakeRingQueue(options.buffer_count);
  if (!ring.ok()) {
    if (options.engine == DirectIoOptions::Engine::kIoUring) return ring.status();
    return io;
  }
  io->ring_ = std::move(*ring);
  io->registered_ = RegisterBuffers(*io->ring_, io->buffers_, options.buffer_bytes, options.buffer_count).ok();
  return io;
}

DirectIo::~DirectIo() {
  KEDGE_CHECK(!in_use_);
  ring_.reset();  // before the buffers that it has registered
  std::free(buffers_);
}

IoQueue& DirectIo::QueueFor(const File& file) {
  return ring_ != nullptr && file.descriptor() >= 0 ? *ring_ : *plain_;
}

namespace {

Status TryDirectWrite(FileSystem& fs, const std::string& path) {
  const OpenFlags flags = OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kExclusive | OpenFlags::kDirect;
  KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open(path, flags));
  const std::unique_ptr<void, void (*)(void*)> block(std::aligned_alloc(kDirectAlignmentBytes, kDirectAlignmentBytes), std::free);
  if (!block) return Status::FromErrno(ENOMEM, "allocate a block");
  std::memset(block.get(), 0, kDirectAlignmentBytes);
  KEDGE_RETURN_IF_ERROR(WriteAll(*file, block.get(), kDirectAlignmentBytes, 0));
  return file->Close();
}

}  // namespace

DirectIoProbe ProbeDirectIo(FileSystem& fs, const std::string& folder) {
  DirectIoProbe probe;
  auto ring = MakeRingQueue(8);
  probe.io_uring = ring.ok();
  if (!ring.ok()) {
    probe.io_uring_reason = ring.status().message();
    probe.registered_buffers_reason = "needs io_uring";
  } else {
    const DirectIoOptions defaults;
    const size_t bytes = defaults.buffer_bytes * defaults.buffer_count;
    const std::unique_ptr<void, void (*)(void*)> buffers(std::aligned_alloc(kDirectAlignmentBytes, bytes), std::free);
    const Status registered =
        buffers ? RegisterBuffers(**ring, static_cast<std::byte*>(buffers.get()), defaults.buffer_bytes, defaults.buffer_count)
                : Status::FromErrno(ENOMEM, "allocate I/O buffers");
    probe.registered_buffers = registered.ok();
    probe.registered_buffers_reason = registered.message();
    ring->reset();  // before the buffers
  }
  const std::string path = TemporaryPath(JoinPath(folder, "probe"), "doctor");
  const Status written = TryDirectWrite(fs, path);
  static_cast<void>(UnlinkIfPresent(fs, path));
  probe.direct = written.ok();
  probe.direct_reason = written.message();
  return probe;
}

}  // namespace kedge::os

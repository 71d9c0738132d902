#include "buffer/server_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/byte_size.h"
#include "base/random.h"

namespace kedge::buffer {

void PiecePool::Ask(std::function<void(Piece)> have) {
  waiting_.push_back(std::move(have));
  Serve();
}

void PiecePool::GiveBack(Piece piece) {
  --out_;
  free_.push_back(std::move(piece));
  Serve();
}

// Whoever is served may give back, or ask again.
void PiecePool::Serve() {
  if (serves_) return;
  serves_ = true;
  while (!waiting_.empty() && out_ < most_) {
    const std::function<void(Piece)> have = std::move(waiting_.front());
    waiting_.pop_front();
    Piece piece;
    if (free_.empty()) {
      piece = std::make_shared<Memory>();
    } else {
      piece = std::move(free_.back());
      free_.pop_back();
    }
    ++out_;
    have(std::move(piece));
  }
  serves_ = false;
}

ServerCore::ServerCore(ServerOptions server_options, os::EventLoop& event_loop, os::FileSystem& file_system)
    : options(std::move(server_options)),
      loop(event_loop),
      fs(file_system),
      pieces(options.memory_bytes / 2 / kPieceBytesMax),
      next_handle_(Id128::Generate().low >> 1) {}

Status ServerCore::Reserve(Owner& owner, uint64_t bytes) {
  const auto refuse = [&](const std::string& what, uint64_t used, uint64_t limit, int errno_value) {
    return Status(Code::kNoSpace,
                  fmt::format("{} of burst buffer {} is used up: {} of {}, and {} more are asked for; remove files, or have "
                              "its operator raise it",
                              what, options.name, FormatByteSize(used), FormatByteSize(limit), FormatByteSize(bytes)),
                  errno_value);
  };
  if (owner.options.quota_bytes > 0 && owner.used_bytes + bytes > owner.options.quota_bytes)
    return refuse("the quota of owner " + owner.options.name, owner.used_bytes, owner.options.quota_bytes, EDQUOT);
  if (options.capacity_bytes > 0 && used_bytes + bytes > options.capacity_bytes)
    return refuse("the capacity", used_bytes, options.capacity_bytes, ENOSPC);
  owner.used_bytes += bytes;
  used_bytes += bytes;
  return Status::Ok();
}

void ServerCore::Release(Owner& owner, uint64_t bytes) {
  bytes = std::min(owner.used_bytes, bytes);
  owner.used_bytes -= bytes;
  used_bytes -= std::min(used_bytes, bytes);
}

}  // namespace kedge::buffer

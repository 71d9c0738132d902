// See rendezvous.h.
#include "client/ranks/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "os/files/files.h"

namespace kedge::client {
namespace {

constexpr Duration kPauseMin = std::chrono::milliseconds(1);
constexpr Duration kPauseMax = std::chrono::milliseconds(50);
constexpr size_t kNonceBytes = 32;  // as hexadecimal digits
constexpr uint64_t kBroadcastsKept = 100;
constexpr size_t kPartBytesMax = size_t{1} << 30;
constexpr char kLaunch[] = "launch";
constexpr char kTag[] = "rendezvous";

// An id and the nonces of all ranks, a line each.
std::string LaunchText(const std::string& id, const std::vector<std::string>& nonces) {
  std::string text = id + "\n";
  for (const std::string& nonce : nonces) text += nonce + "\n";
  return text;
}

}  // namespace

std::string Rendezvous::HelloPath(uint32_t rank) const {
  return os::JoinPath(options_.folder, fmt::format("hello.{}", rank));
}

Status Rendezvous::Write(const std::string& path, std::string_view content) {
  return os::WriteFileDurably(fs_, path, content, kTag);
}

Result<std::string> Rendezvous::Await(const std::string& path, size_t bytes_max, uint32_t whose, const Deadline& deadline) {
  for (Duration pause = kPauseMin;; pause = std::min<Duration>(2 * pause, kPauseMax)) {
    auto content = os::ReadFile(fs_, path, bytes_max);
    if (content.ok() || content.status().code() != Code::kNotFound) return content;
    if (deadline.Passed()) {
      return Status(Code::kTimeout, fmt::format("rendezvous in {}: rank {} of {} has not come within {}", options_.folder, whose,
                                                options_.ranks, FormatDuration(options_.timeout)));
    }
    std::this_thread::sleep_for(std::min<Duration>(pause, deadline.Remaining()));
  }
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::Open(os::FileSystem& fs, RendezvousOptions options) {
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(fs, std::move(options)));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs, rendezvous->options_.folder, 0700, false));
  KEDGE_RETURN_IF_ERROR(rendezvous->options_.rank == 0 ? rendezvous->Gather() : rendezvous->Attend());
  return rendezvous;
}

// Rank 0.
Status Rendezvous::Gather() {
  const Deadline deadline(SystemClock(), options_.timeout);
  std::vector<std::string> nonces(options_.ranks);
  nonces[0] = Id128::Generate().ToHex();
  for (;;) {
    for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
      KEDGE_ASSIGN_OR_RETURN(nonces[rank], Await(HelloPath(rank), kNonceBytes, rank, deadline));
    }
    // What an earlier launch left here: its ranks are gone, or the job would not be launched anew.
    KEDGE_ASSIGN_OR_RETURN(const auto entries, fs_.List(options_.folder));
    for (const auto& entry : entries) {
      if (entry.name.starts_with("exchange.")) (void)os::RemoveTree(fs_, os::JoinPath(options_.folder, entry.name));
    }
    const std::string id = Id128::Generate().ToHex();
    launch_folder_ = os::JoinPath(options_.folder, "exchange." + id);
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, launch_folder_, 0700, false));
    KEDGE_RETURN_IF_ERROR(Write(os::JoinPath(options_.folder, kLaunch), LaunchText(id, nonces)));
    bool changed = false;
    for (uint32_t rank = 1; rank < options_.ranks && !changed; ++rank) {
      const std::string ready = os::JoinPath(launch_folder_, fmt::format("ready.{}", rank));
      for (;;) {
        const Deadline moment(SystemClock(), std::min<Duration>(kPauseMax, deadline.Remaining()));
        const auto is_ready = Await(ready, kNonceBytes, rank, deadline.Passed() ? deadline : moment);
        if (is_ready.ok()) break;
        if (is_ready.status().code() != Code::kTimeout || deadline.Passed()) return is_ready.status();
        // It was an earlier launch's hello that was seen.
        KEDGE_ASSIGN_OR_RETURN(const std::string now, Await(HelloPath(rank), kNonceBytes, rank, deadline));
        changed = now != nonces[rank];
        if (changed) break;
      }
    }
    if (!changed) return Write(os::JoinPath(launch_folder_, "begin"), "");
  }
}

// Every other rank.
Status Rendezvous::Attend() {
  const Deadline deadline(SystemClock(), options_.timeout);
  const std::string nonce = Id128::Generate().ToHex();
  KEDGE_RETURN_IF_ERROR(Write(HelloPath(options_.rank), nonce));
  const size_t text_bytes = (kNonceBytes + 1) * (size_t{options_.ranks} + 1);
  std::string answered;
  for (Duration pause = kPauseMin;; pause = std::min<Duration>(2 * pause, kPauseMax)) {
    // That of an earlier launch may be longer.
    KEDGE_ASSIGN_OR_RETURN(const std::string text, Await(os::JoinPath(options_.folder, kLaunch), kPartBytesMax, 0, deadline));
    const size_t line = (kNonceBytes + 1) * (size_t{options_.rank} + 1);
    const bool is_ours = text.size() == text_bytes && text.compare(line, kNonceBytes, nonce) == 0;
    const std::string id = text.substr(0, kNonceBytes);
    if (is_ours && id != answered) {
      launch_folder_ = os::JoinPath(options_.folder, "exchange." + id);
      // Rank 0 may have made another launch of it meanwhile: then its folder is gone.
      const Status written = Write(os::JoinPath(launch_folder_, fmt::format("ready.{}", options_.rank)), "");
      if (written.ok()) answered = id;
      if (!written.ok() && written.code() != Code::kNotFound) return written;
    }
    if (!answered.empty()) {
      KEDGE_ASSIGN_OR_RETURN(const bool begins, os::Exists(fs_, os::JoinPath(launch_folder_, "begin")));
      if (begins) return Status::Ok();
    }
    if (deadline.Passed()) {
      return Status(Code::kTimeout, fmt::format("rendezvous in {}: rank 0 of {} has not taken up this launch within {}",
                                                options_.folder, options_.ranks, FormatDuration(options_.timeout)));
    }
    std::this_thread::sleep_for(std::min<Duration>(pause, deadline.Remaining()));
  }
}

Result<std::string> Rendezvous::AllGather(std::string_view mine) {
  const Deadline deadline(SystemClock(), options_.timeout);
  gathered_ = ++number_;
  const std::string base = os::JoinPath(launch_folder_, fmt::format("{}.", number_));
  if (options_.rank != 0) {
    KEDGE_RETURN_IF_ERROR(Write(base + fmt::format("{}", options_.rank), mine));
    KEDGE_ASSIGN_OR_RETURN(std::string all, Await(base + "all", kPartBytesMax, 0, deadline));
    if (all.size() != mine.size() * options_.ranks) return Status(Code::kMismatch, "the ranks exchange parts of other lengths");
    return all;
  }
  std::string all(mine);
  for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
    KEDGE_ASSIGN_OR_RETURN(const std::string part, Await(base + fmt::format("{}", rank), kPartBytesMax, rank, deadline));
    if (part.size() != mine.size())
      return Status(Code::kMismatch, fmt::format("rank {} exchanges parts of another length", rank));
    all += part;
  }
  KEDGE_RETURN_IF_ERROR(Write(base + "all", all));
  RemoveBefore(number_);
  return all;
}

Result<std::string> Rendezvous::Broadcast(std::string_view mine, uint32_t root, size_t bytes) {
  if (number_ - gathered_ >= kBroadcastsKept) KEDGE_RETURN_IF_ERROR(AllGather({}).status());
  const Deadline deadline(SystemClock(), options_.timeout);
  const std::string path = os::JoinPath(launch_folder_, fmt::format("{}.all", ++number_));
  if (options_.rank == root) {
    KEDGE_RETURN_IF_ERROR(Write(path, mine));
    return std::string(mine);
  }
  KEDGE_ASSIGN_OR_RETURN(std::string got, Await(path, kPartBytesMax, root, deadline));
  if (got.size() != bytes) return Status(Code::kMismatch, fmt::format("rank {} sends another length", root));
  return got;
}

// Rank 0, when all have come to exchange `number`.
void Rendezvous::RemoveBefore(uint64_t number) {
  for (; removed_ < number; ++removed_) {
    for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
      (void)os::UnlinkIfPresent(fs_, os::JoinPath(launch_folder_, fmt::format("{}.{}", removed_, rank)));
    }
    (void)os::UnlinkIfPresent(fs_, os::JoinPath(launch_folder_, fmt::format("{}.all", removed_)));
  }
}

kedge_bootstrap Rendezvous::ToBootstrap(std::unique_ptr<Rendezvous> rendezvous) {
  static constexpr auto kTake = [](const Result<std::string>& got, void* to) {
    if (!got.ok()) {
      LogError("client", "{}", got.status().message());
      return static_cast<int>(got.status().code());
    }
    std::memcpy(to, got->data(), got->size());
    return 0;
  };
  kedge_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.rank = static_cast<int>(rendezvous->options_.rank);
  bootstrap.ranks = static_cast<int>(rendezvous->options_.ranks);
  bootstrap.user = rendezvous.release();
  bootstrap.allgather = [](void* user, const void* send, void* receive, size_t bytes) {
    auto* self = static_cast<Rendezvous*>(user);
    return kTake(self->AllGather({static_cast<const char*>(send), bytes}), receive);
  };
  bootstrap.broadcast = [](void* user, void* data, size_t bytes, int root) {
    auto* self = static_cast<Rendezvous*>(user);
    return kTake(self->Broadcast({static_cast<const char*>(data), bytes}, static_cast<uint32_t>(root), bytes), data);
  };
  bootstrap.barrier = [](void* user) {
    char nothing = 0;
    return kTake(static_cast<Rendezvous*>(user)->AllGather({}), &nothing);
  };
  bootstrap.release = [](void* user) { delete static_cast<Rendezvous*>(user); };
  return bootstrap;
}

}  // namespace kedge::client

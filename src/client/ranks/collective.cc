// See collective.h.
#include "client/ranks/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kedge::client {
namespace {

Status BootstrapFailed(const char* call, int code) {
  return Status(Code::kUnavailable, fmt::format("the bootstrap's {} failed with code {}: another rank is gone, or the "
                                                "communicator is broken",
                                                call, code));
}

// Disagreement is said before failure: a mismatch ends a restart on all ranks, a bad copy only tries the next version.
int Weight(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kMismatch: return 3;
    case Code::kInvalidArgument: return 2;
    default: return 1;
  }
}

}  // namespace

Collective::Collective(const kedge_bootstrap& bootstrap)
    : bootstrap_(bootstrap), rank_(static_cast<uint32_t>(bootstrap.rank)), ranks_(static_cast<uint32_t>(bootstrap.ranks)) {}

Collective::~Collective() {
  if (bootstrap_.release != nullptr) bootstrap_.release(bootstrap_.user);
}

Collective::Collective(Collective&& other) noexcept
    : bootstrap_(std::exchange(other.bootstrap_, kedge_bootstrap{})), rank_(other.rank_), ranks_(other.ranks_) {}

Collective& Collective::operator=(Collective&& other) noexcept {
  std::swap(bootstrap_, other.bootstrap_);
  rank_ = other.rank_;
  ranks_ = other.ranks_;
  return *this;
}

Result<std::vector<std::string>> Collective::AllGather(const std::string& mine) const {
  if (ranks_ == 1) return std::vector<std::string>{mine};
  uint64_t length = mine.size();
  std::vector<uint64_t> lengths(ranks_);
  if (int code = bootstrap_.allgather(bootstrap_.user, &length, lengths.data(), sizeof length)) {
    return BootstrapFailed("allgather", code);
  }
  const uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> all(ranks_);
  if (longest == 0) return all;
  std::string send = mine;
  send.resize(longest);
  std::string received(longest * ranks_, '\0');
  if (int code = bootstrap_.allgather(bootstrap_.user, send.data(), received.data(), longest)) {
    return BootstrapFailed("allgather", code);
  }
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    all[rank] = received.substr(rank * longest, std::min(lengths[rank], longest));
  }
  return all;
}

Result<std::string> Collective::BroadcastFromFirst(const std::string& mine) const {
  if (ranks_ == 1) return mine;
  uint64_t length = mine.size();
  if (int code = bootstrap_.broadcast(bootstrap_.user, &length, sizeof length, 0)) return BootstrapFailed("broadcast", code);
  std::string text = rank_ == 0 ? mine : std::string(length, '\0');
  if (length == 0) return text;
  if (int code = bootstrap_.broadcast(bootstrap_.user, text.data(), length, 0)) return BootstrapFailed("broadcast", code);
  return text;
}

Result<Collective::Words> Collective::BroadcastFromFirst(Words mine) const {
  if (ranks_ == 1) return mine;
  if (int code = bootstrap_.broadcast(bootstrap_.user, mine.data(), sizeof mine, 0)) return BootstrapFailed("broadcast", code);
  return mine;
}

Status Collective::Agree(const Status& mine) const {
  if (ranks_ == 1) return mine;
  std::string packed;
  if (!mine.ok()) packed = static_cast<char>(mine.code()) + mine.message();
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(packed));
  const std::string* worst = nullptr;
  uint32_t worst_rank = 0;
  const auto code_of = [](const std::string& text) { return static_cast<Code>(static_cast<unsigned char>(text[0])); };
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (all[rank].empty()) continue;
    if (worst == nullptr || Weight(code_of(all[rank])) > Weight(code_of(*worst))) {
      worst = &all[rank];
      worst_rank = rank;
    }
  }
  if (worst == nullptr) return Status::Ok();
  const std::string message = worst->substr(1);
  const size_t end = std::min(message.find_first_not_of("0123456789", 5), message.size());
  const bool was_agreed_on = message.starts_with("rank ") && end > 5 && message.compare(end, 2, ": ") == 0;
  return Status(code_of(*worst), was_agreed_on ? message : fmt::format("rank {}: {}", worst_rank, message));
}

}  // namespace kedge::client

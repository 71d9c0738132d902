// The bootstrap's collectives with types: what init, restart and newest need to agree among the ranks.
//
// Every function but rank() and ranks() is collective: all ranks call it, in the same order. With one rank nothing is
// called. A failure of the bootstrap itself is kUnavailable on the ranks that see it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "kedge/kedge.h"

namespace kedge::client {

class Collective {
 public:
  // One rank on its own.
  Collective() = default;
  // Takes over `bootstrap` (its `user` is released once, by the destructor).
  explicit Collective(const kedge_bootstrap& bootstrap);
  ~Collective();
  Collective(Collective&& other) noexcept;
  Collective& operator=(Collective&& other) noexcept;

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }

  // Every rank's bytes, in rank order; lengths may differ.
  Result<std::vector<std::string>> AllGather(const std::string& mine) const;
  // Rank 0's bytes.
  Result<std::string> BroadcastFromFirst(const std::string& mine) const;
  // Rank 0's words, in one broadcast.
  using Words = std::array<uint64_t, 3>;
  Result<Words> BroadcastFromFirst(Words mine) const;

  // Ok when `mine` is ok on all ranks. Otherwise the same status everywhere: that of the lowest rank with the most telling
  // error, its message beginning with "rank N: ".
  Status Agree(const Status& mine) const;

 private:
  kedge_bootstrap bootstrap_{};
  uint32_t rank_ = 0;
  uint32_t ranks_ = 1;
};

}  // namespace kedge::client

// What a restart has read, and from where: of this rank while it reads, of all ranks in the end.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "client/ranks/collective.h"
#include "format/identity.h"
#include "restore/image_reader.h"
#include "session/messages.h"

namespace kedge::client {

// Of all ranks of a restart.
struct RestartSummary {
  uint32_t ranks = 0;
  uint32_t ranks_brought = 0;  // whose images came from other nodes
  uint64_t memory = 0;         // bytes read from memory tiers, and so on
  uint64_t directory = 0;
  uint64_t store = 0;
  // The level that the rank which was worst off needed.
  Level needed = Level::kLocal;
};

class RestartTally {
 public:
  void Begin();
  // `restored`: of an image that is not read any more. `was_brought`: it came from another node.
  void Add(const RestoredBytes& restored, bool was_brought);

  // Since Begin.
  double seconds() const;
  // Collective. Where the ranks cannot hear of each other: of this one alone.
  RestartSummary Gather(const Collective& collective) const;

 private:
  int64_t began_ns_ = 0;
  RestartSummary mine_;
};

// "restored 'heat' version 120 of attempt 2 on 4 ranks: 1.20 GiB in 350 ms, 3.43 GiB/s; from memory 1.20 GiB", and so on.
std::string Describe(const Generation& restored, const RestartSummary& summary, double seconds);

}  // namespace kedge::client

// What all ranks of a communicator do together, as messages of one channel.
//
// Each message carries what it is for, so that ranks that make different calls are told, and find no numbers of another call
// among theirs. Who sends to whom, and in which order numbers are combined, depends on ranks and root alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fmi/communicator_channel.h"
#include "fmi/datatypes.h"

namespace kedge::fmi {

class Collectives {
 public:
  // Nothing else travels there.
  explicit Collectives(CommunicatorChannel channel) : channel_(std::move(channel)) {}

  uint32_t rank() const { return channel_.rank(); }
  uint32_t ranks() const { return channel_.ranks(); }

  // All return kUnavailable after a failure, kMismatch where ranks do not make the same call.
  Status Barrier();
  Status Broadcast(void* data, size_t bytes, uint32_t root);
  // `data` holds this rank's numbers, and on the root the result afterwards; elsewhere it is undefined.
  Status Reduce(void* data, size_t count, size_t element_bytes, const Combine& combine, uint32_t root);
  // The same, and numbers are combined in the order of ranks, whichever the root is.
  Status ReduceInOrder(void* data, size_t count, size_t element_bytes, const Combine& combine, uint32_t root);
  // In the order of ranks, as all below.
  Status Allreduce(void* data, size_t count, size_t element_bytes, const Combine& combine);
  // `received` (null but on the root) has room for `bytes` of each rank. `sent` may lie at its own place there.
  Status Gather(const void* sent, void* received, size_t bytes, uint32_t root);
  Status Allgather(const void* sent, void* received, size_t bytes);
  // Pieces of different lengths, one for each rank, of which the first begins at offsets[0], and the last ends at the last
  // offset.
  using Offsets = std::vector<size_t>;
  // `received` and its offsets count on the root.
  Status GatherPieces(const void* sent, size_t bytes, void* received, const Offsets& offsets, uint32_t root);
  // All know the offsets.
  Status AllgatherPieces(const void* sent, size_t bytes, void* received, const Offsets& offsets);
  // `sent` and its offsets count on the root.
  Status ScatterPieces(const void* sent, const Offsets& offsets, void* received, size_t bytes, uint32_t root);
  Status Exchange(const void* sent, const Offsets& sent_offsets, void* received, const Offsets& received_offsets);
  // data = that of rank 0 op ... op that of this rank.
  Status Scan(void* data, size_t count, size_t element_bytes, const Combine& combine);
  // The same without that of this rank. On rank 0 they stay as they are.
  Status Exscan(void* data, size_t count, size_t element_bytes, const Combine& combine);
  // Of what all combine in `data`, which is undefined afterwards, each rank receives its piece.
  Status ReduceScatter(void* data, size_t count, size_t element_bytes, const Combine& combine, const Offsets& offsets,
                       void* received);
  // The same as Allgather, for what ranks must agree on to have a communicator.
  Status Propose(const void* own, void* all, size_t bytes);

 private:
  enum class Call : int { kBarrier, kBcast, kReduce, kGather, kPropose, kScatter, kExchange, kScan, kExscan };
  static const char* NameOf(int call);
  Status Send(Call call, uint32_t to, const void* data, size_t bytes);
  // Exactly so many bytes of exactly this call.
  Status Receive(Call call, uint32_t from, void* data, size_t bytes);
  Status WaitFor(RequestId id, Call call, size_t bytes);
  Status Broadcast(Call call, void* data, size_t bytes, uint32_t root);
  Status Gather(Call call, const void* sent, void* received, size_t bytes, uint32_t root);
  // Of as many pieces as there are ranks.
  Offsets Equal(size_t bytes) const;
  Status GatherPieces(Call call, const void* sent, size_t bytes, void* received, const Offsets& offsets, uint32_t root);

  CommunicatorChannel channel_;
};

}  // namespace kedge::fmi

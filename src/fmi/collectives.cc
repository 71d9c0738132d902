#include "fmi/collectives.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <vector>

namespace kedge::fmi {

const char* Collectives::NameOf(int call) {
  constexpr const char* kNames[] = {
      "a barrier",    "a broadcast", "a reduction", "a gathering",          "the making of a communicator",
      "a scattering", "an exchange", "a scan",      "a scan of lower ranks"};
  return call >= 0 && call < static_cast<int>(std::size(kNames)) ? kNames[call] : "something unknown";
}

Status Collectives::Send(Call call, uint32_t to, const void* data, size_t bytes) {
  return channel_.Wait(channel_.BeginSend(to, static_cast<int>(call), data, bytes));
}

Status Collectives::WaitFor(RequestId id, Call call, size_t bytes) {
  Received received;
  received.tag = kAnyTag;
  const Status status = channel_.Wait(id, &received);
  if (received.tag != kAnyTag && (received.tag != static_cast<int>(call) || received.bytes != bytes)) {
    return Status(Code::kMismatch,
                  fmt::format("ranks do not make the same call: this one is in {} of {} bytes, rank {} in {} of {}",
                              NameOf(static_cast<int>(call)), bytes, channel_.InJob(static_cast<uint32_t>(received.source)),
                              NameOf(received.tag), received.bytes));
  }
  return status;
}

Status Collectives::Receive(Call call, uint32_t from, void* data, size_t bytes) {
  return WaitFor(channel_.BeginReceive(static_cast<int>(from), kAnyTag, data, bytes), call, bytes);
}

// In round k a rank has heard, directly or not, of 2^k ranks.
Status Collectives::Barrier() {
  const uint32_t ranks = channel_.ranks();
  const uint32_t rank = channel_.rank();
  for (uint32_t distance = 1; distance < ranks; distance *= 2) {
    KEDGE_RETURN_IF_ERROR(Send(Call::kBarrier, (rank + distance) % ranks, nullptr, 0));
    KEDGE_RETURN_IF_ERROR(Receive(Call::kBarrier, (rank + ranks - distance) % ranks, nullptr, 0));
  }
  return Status::Ok();
}

// A binomial tree, as below: ranks are counted from the root.
Status Collectives::Broadcast(Call call, void* data, size_t bytes, uint32_t root) {
  const uint32_t ranks = channel_.ranks();
  const uint32_t place = (channel_.rank() + ranks - root) % ranks;
  uint32_t distance = 1;
  while (distance < ranks && (place & distance) == 0) distance *= 2;
  if (place != 0) KEDGE_RETURN_IF_ERROR(Receive(call, (place - distance + root) % ranks, data, bytes));
  std::vector<RequestId> sends;
  for (distance /= 2; distance > 0; distance /= 2) {
    if (place + distance >= ranks) continue;
    const uint32_t to = (place + distance + root) % ranks;
    sends.push_back(channel_.BeginSend(to, static_cast<int>(call), data, bytes));
  }
  for (const RequestId send : sends) KEDGE_RETURN_IF_ERROR(channel_.Wait(send));
  return Status::Ok();
}

Status Collectives::Broadcast(void* data, size_t bytes, uint32_t root) {
  return Broadcast(Call::kBcast, data, bytes, root);
}

Status Collectives::Reduce(void* data, size_t count, size_t element_bytes, const Combine& combine, uint32_t root) {
  const uint32_t ranks = channel_.ranks();
  const uint32_t place = (channel_.rank() + ranks - root) % ranks;
  const size_t bytes = count * element_bytes;
  std::vector<std::byte> others;
  for (uint32_t distance = 1; distance < ranks; distance *= 2) {
    if ((place & distance) != 0) return Send(Call::kReduce, (place - distance + root) % ranks, data, bytes);
    if (place + distance >= ranks) continue;
    others.resize(bytes);
    KEDGE_RETURN_IF_ERROR(Receive(Call::kReduce, (place + distance + root) % ranks, others.data(), bytes));
    combine(data, others.data(), count);
  }
  return Status::Ok();
}

Status Collectives::ReduceInOrder(void* data, size_t count, size_t element_bytes, const Combine& combine, uint32_t root) {
  KEDGE_RETURN_IF_ERROR(Reduce(data, count, element_bytes, combine, 0));
  if (root == 0) return Status::Ok();
  if (channel_.rank() == 0) return Send(Call::kReduce, root, data, count * element_bytes);
  return channel_.rank() == root ? Receive(Call::kReduce, 0, data, count * element_bytes) : Status::Ok();
}

Status Collectives::Allreduce(void* data, size_t count, size_t element_bytes, const Combine& combine) {
  KEDGE_RETURN_IF_ERROR(Reduce(data, count, element_bytes, combine, 0));
  return Broadcast(data, count * element_bytes, 0);
}

Collectives::Offsets Collectives::Equal(size_t bytes) const {
  Offsets offsets(channel_.ranks() + 1);
  for (size_t rank = 0; rank < offsets.size(); ++rank) offsets[rank] = rank * bytes;
  return offsets;
}

Status Collectives::GatherPieces(Call call, const void* sent, size_t bytes, void* received, const Offsets& offsets,
                                 uint32_t root) {
  if (channel_.rank() != root) return Send(call, root, sent, bytes);
  auto* all = static_cast<std::byte*>(received);
  std::vector<RequestId> receives(channel_.ranks());
  for (uint32_t rank = 0; rank < channel_.ranks(); ++rank) {
    std::byte* place = all + offsets[rank];
    if (rank != root) {
      receives[rank] = channel_.BeginReceive(static_cast<int>(rank), kAnyTag, place, offsets[rank + 1] - offsets[rank]);
    } else if (bytes > 0) {
      std::memmove(place, sent, bytes);
    }
  }
  for (uint32_t rank = 0; rank < channel_.ranks(); ++rank) {
    if (rank != root) KEDGE_RETURN_IF_ERROR(WaitFor(receives[rank], call, offsets[rank + 1] - offsets[rank]));
  }
  return Status::Ok();
}

Status Collectives::Gather(Call call, const void* sent, void* received, size_t bytes, uint32_t root) {
  return GatherPieces(call, sent, bytes, received, channel_.rank() == root ? Equal(bytes) : Offsets(), root);
}

Status Collectives::GatherPieces(const void* sent, size_t bytes, void* received, const Offsets& offsets, uint32_t root) {
  return GatherPieces(Call::kGather, sent, bytes, received, offsets, root);
}

Status Collectives::AllgatherPieces(const void* sent, size_t bytes, void* received, const Offsets& offsets) {
  KEDGE_RETURN_IF_ERROR(GatherPieces(sent, bytes, received, offsets, 0));
  return Broadcast(received, offsets.back(), 0);
}

Status Collectives::ScatterPieces(const void* sent, const Offsets& offsets, void* received, size_t bytes, uint32_t root) {
  if (channel_.rank() != root) return Receive(Call::kScatter, root, received, bytes);
  const auto* all = static_cast<const std::byte*>(sent);
  std::vector<RequestId> sends;
  for (uint32_t rank = 0; rank < channel_.ranks(); ++rank) {
    const size_t piece = offsets[rank + 1] - offsets[rank];
    if (rank != root) {
      sends.push_back(channel_.BeginSend(rank, static_cast<int>(Call::kScatter), all + offsets[rank], piece));
    } else if (bytes > 0) {
      std::memmove(received, all + offsets[rank], bytes);
    }
  }
  for (const RequestId send : sends) KEDGE_RETURN_IF_ERROR(channel_.Wait(send));
  return Status::Ok();
}

// Each rank begins with its next one, so that not all send to the same one.
Status Collectives::Exchange(const void* sent, const Offsets& sent_offsets, void* received, const Offsets& received_offsets) {
  const uint32_t ranks = channel_.ranks();
  const auto* from = static_cast<const std::byte*>(sent);
  auto* to = static_cast<std::byte*>(received);
  const auto received_bytes = [&](uint32_t rank) { return received_offsets[rank + 1] - received_offsets[rank]; };
  std::vector<RequestId> sends, receives;
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t source = (channel_.rank() + ranks - distance) % ranks;
    receives.push_back(
        channel_.BeginReceive(static_cast<int>(source), kAnyTag, to + received_offsets[source], received_bytes(source)));
  }
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t rank = (channel_.rank() + distance) % ranks;
    sends.push_back(channel_.BeginSend(rank, static_cast<int>(Call::kExchange), from + sent_offsets[rank],
                                       sent_offsets[rank + 1] - sent_offsets[rank]));
  }
  const uint32_t own = channel_.rank();
  if (received_bytes(own) > 0) std::memcpy(to + received_offsets[own], from + sent_offsets[own], received_bytes(own));
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t source = (channel_.rank() + ranks - distance) % ranks;
    KEDGE_RETURN_IF_ERROR(WaitFor(receives[distance - 1], Call::kExchange, received_bytes(source)));
  }
  for (const RequestId send : sends) KEDGE_RETURN_IF_ERROR(channel_.Wait(send));
  return Status::Ok();
}

// From rank to rank, so that numbers are combined in their order.
Status Collectives::Scan(void* data, size_t count, size_t element_bytes, const Combine& combine) {
  const size_t bytes = count * element_bytes;
  const uint32_t rank = channel_.rank();
  if (rank > 0) {
    std::vector<std::byte> former(bytes);
    KEDGE_RETURN_IF_ERROR(Receive(Call::kScan, rank - 1, former.data(), bytes));
    combine(former.data(), data, count);
    if (bytes > 0) std::memcpy(data, former.data(), bytes);
  }
  return rank + 1 < channel_.ranks() ? Send(Call::kScan, rank + 1, data, bytes) : Status::Ok();
}

Status Collectives::Exscan(void* data, size_t count, size_t element_bytes, const Combine& combine) {
  const size_t bytes = count * element_bytes;
  const uint32_t rank = channel_.rank(), ranks = channel_.ranks();
  if (rank == 0) return ranks > 1 ? Send(Call::kExscan, 1, data, bytes) : Status::Ok();
  std::vector<std::byte> lower(bytes);
  KEDGE_RETURN_IF_ERROR(Receive(Call::kExscan, rank - 1, lower.data(), bytes));
  if (rank + 1 < ranks) {
    std::vector<std::byte> next = lower;
    combine(next.data(), data, count);
    KEDGE_RETURN_IF_ERROR(Send(Call::kExscan, rank + 1, next.data(), bytes));
  }
  if (bytes > 0) std::memcpy(data, lower.data(), bytes);
  return Status::Ok();
}

Status Collectives::ReduceScatter(void* data, size_t count, size_t element_bytes, const Combine& combine, const Offsets& offsets,
                                  void* received) {
  KEDGE_RETURN_IF_ERROR(Reduce(data, count, element_bytes, combine, 0));
  const uint32_t rank = channel_.rank();
  return ScatterPieces(data, offsets, received, offsets[rank + 1] - offsets[rank], 0);
}

Status Collectives::Gather(const void* sent, void* received, size_t bytes, uint32_t root) {
  return Gather(Call::kGather, sent, received, bytes, root);
}

Status Collectives::Allgather(const void* sent, void* received, size_t bytes) {
  KEDGE_RETURN_IF_ERROR(Gather(Call::kGather, sent, received, bytes, 0));
  return Broadcast(Call::kBcast, received, bytes * channel_.ranks(), 0);
}

Status Collectives::Propose(const void* own, void* all, size_t bytes) {
  KEDGE_RETURN_IF_ERROR(Gather(Call::kPropose, own, all, bytes, 0));
  return Broadcast(Call::kPropose, all, bytes * channel_.ranks(), 0);
}

}  // namespace kedge::fmi

// The C ABI of libkedge-fmi (kedge/fmi.h): what all ranks combine.
#include <fmt/format.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fmi/api/checks.h"
#include "fmi/api/reductions.h"
#include "fmi/collectives.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

// As a message, into memory of its size.
void PackGiven(const char* call, const void* sent, int count, FMI_Datatype type, void* to) {
  const PackedElements given(CheckedElements(call, sent, static_cast<uint64_t>(count), type));
  given.PackInto(static_cast<std::byte*>(to));
}

using CombineAll = Status (Collectives::*)(void*, size_t, size_t, const Combine&);

// Each rank gets a result.
int CombineOnAll(const char* call, CombineAll combine, const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op,
                 FMI_Comm comm) {
  Communicator* in = CommunicatorIn(call, comm);
  if (in == nullptr) return AnswerFailed();
  CheckCount(call, count);
  const Reduction reduction = CheckedReduction(call, type, op);
  PackedElements result(CheckedElements(call, received, static_cast<uint64_t>(count), type));
  if (sent == FMI_IN_PLACE) {
    result.Pack();
  } else {
    PackGiven(call, sent, count, type, result.data());
  }
  const Status combined =
      (in->collectives.*combine)(result.data(), static_cast<size_t>(count), reduction.element_bytes, reduction.combine);
  if (combined.ok()) result.Unpack(result.bytes());
  return Answer(call, combined);
}

// The pieces of all ranks side by side are combined, and each rank gets its own.
int CombineAndScatter(const char* call, Communicator* in, const void* sent, void* received, const std::vector<int>& counts,
                      FMI_Datatype type, FMI_Op op) {
  const Reduction reduction = CheckedReduction(call, type, op);
  int64_t count = 0;
  Collectives::Offsets offsets{0};
  for (const int its : counts) {
    CheckCount(call, its);
    count += its;
    offsets.push_back(offsets.back() + static_cast<size_t>(its) * reduction.element_bytes);
  }
  if (count > INT_MAX) Die(call, fmt::format("{} elements in all are more than an int counts", count));
  const auto all = std::make_unique_for_overwrite<std::byte[]>(offsets.back());
  PackGiven(call, sent == FMI_IN_PLACE ? received : sent, static_cast<int>(count), type, all.get());
  const auto own = static_cast<uint64_t>(counts[in->channel.rank()]);
  PackedElements result(CheckedElements(call, received, own, type));
  const Status combined = in->collectives.ReduceScatter(all.get(), static_cast<size_t>(count), reduction.element_bytes,
                                                        reduction.combine, offsets, result.data());
  if (combined.ok()) result.Unpack(result.bytes());
  return Answer(call, combined);
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Reduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Reduce";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  CheckCount(kCall, count);
  const uint32_t to = CheckedRank(kCall, *in, root, "root");
  const bool is_root = in->channel.rank() == to;
  const Reduction reduction = CheckedReduction(kCall, type, op);
  if (!is_root && sent == FMI_IN_PLACE) Die(kCall, "FMI_IN_PLACE is for the root alone");
  const void* given = sent == FMI_IN_PLACE ? received : sent;
  const auto elements = static_cast<uint64_t>(count);
  // The numbers of this rank, and then the result.
  PackedElements own(CheckedElements(kCall, is_root ? received : given, elements, type));
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(is_root ? 0 : own.bytes());
  void* data = is_root ? own.data() : copy.get();
  if (is_root && sent == FMI_IN_PLACE) {
    own.Pack();
  } else {
    PackGiven(kCall, given, count, type, data);
  }
  Collectives& all = in->collectives;
  const kedge::Status reduced = reduction.commutes
                                    ? all.Reduce(data, elements, reduction.element_bytes, reduction.combine, to)
                                    : all.ReduceInOrder(data, elements, reduction.element_bytes, reduction.combine, to);
  if (reduced.ok() && is_root) own.Unpack(own.bytes());
  return Answer(kCall, reduced);
}

int FMI_Allreduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm) {
  return CombineOnAll("FMI_Allreduce", &Collectives::Allreduce, sent, received, count, type, op, comm);
}

int FMI_Scan(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm) {
  return CombineOnAll("FMI_Scan", &Collectives::Scan, sent, received, count, type, op, comm);
}

int FMI_Exscan(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Exscan";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  CheckCount(kCall, count);
  const Reduction reduction = CheckedReduction(kCall, type, op);
  const auto elements = static_cast<uint64_t>(count);
  const PackedElements result(CheckedElements(kCall, received, elements, type));
  const auto data = std::make_unique_for_overwrite<std::byte[]>(result.bytes());
  PackGiven(kCall, sent == FMI_IN_PLACE ? received : sent, count, type, data.get());
  const kedge::Status combined = in->collectives.Exscan(data.get(), elements, reduction.element_bytes, reduction.combine);
  if (combined.ok() && in->channel.rank() > 0) result.UnpackFrom(data.get());
  return Answer(kCall, combined);
}

int FMI_Reduce_scatter(const void* sent, void* received, const int* counts, FMI_Datatype type, FMI_Op op, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Reduce_scatter";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  CheckNotNull(kCall, counts, "the list of counts");
  return CombineAndScatter(kCall, in, sent, received, {counts, counts + in->channel.ranks()}, type, op);
}

int FMI_Reduce_scatter_block(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Reduce_scatter_block";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  return CombineAndScatter(kCall, in, sent, received, std::vector<int>(in->channel.ranks(), count), type, op);
}

// The C ABI of libkedge-fmi (kedge/fmi.h): what all ranks combine.
#include <cstddef>
#include <cstdint>
#include <memory>

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
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
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

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Reduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Reduce";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
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

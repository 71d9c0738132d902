// The C ABI of libkedge-fmi (kedge/fmi.h): what all ranks of a communicator do together.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "fmi/api/checks.h"
#include "fmi/collectives.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

// What comes from all ranks.
Elements CheckedFromAll(const char* call, const Communicator& in, void* received, int count, FMI_Datatype type) {
  CheckCount(call, count);
  return CheckedElements(call, received, uint64_t{in.channel.ranks()} * static_cast<uint64_t>(count), type);
}

// What a rank gives to a gathering, where it may be in its place already.
Elements CheckedGiven(const char* call, const Communicator& in, const void* sent, int sent_count, FMI_Datatype sent_type,
                      const void* received, int received_count, FMI_Datatype received_type) {
  const auto* place = static_cast<const std::byte*>(received);
  if (received_count > 0) place += ptrdiff_t{in.channel.rank()} * received_count * ExtentOf(call, received_type);
  Elements own = CheckedElements(call, place, static_cast<uint64_t>(received_count), received_type);
  if (sent == FMI_IN_PLACE) return own;
  CheckCount(call, sent_count);
  Elements given = CheckedElements(call, sent, static_cast<uint64_t>(sent_count), sent_type);
  if (given.bytes != own.bytes) {
    Die(call, fmt::format("{} bytes are sent, and {} received from each rank", given.bytes, own.bytes));
  }
  return given;
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Barrier(FMI_Comm comm) {
  Communicator* in = CommunicatorIn("FMI_Barrier", comm);
  return in == nullptr ? AnswerFailed() : Answer("FMI_Barrier", in->collectives.Barrier());
}

int FMI_Bcast(void* data, int count, FMI_Datatype type, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Bcast";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  CheckCount(kCall, count);
  PackedElements packed(CheckedElements(kCall, data, static_cast<uint64_t>(count), type));
  const uint32_t from = CheckedRank(kCall, *in, root, "root");
  const bool is_root = in->channel.rank() == from;
  if (is_root) packed.Pack();
  const int code = Answer(kCall, in->collectives.Broadcast(packed.data(), packed.bytes(), from));
  if (code == FMI_SUCCESS && !is_root) packed.Unpack(packed.bytes());
  return code;
}

int FMI_Gather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
               FMI_Datatype received_type, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Gather";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  const uint32_t to = CheckedRank(kCall, *in, root, "root");
  if (in->channel.rank() != to) {
    if (sent == FMI_IN_PLACE) Die(kCall, "FMI_IN_PLACE is for the root alone");
    CheckCount(kCall, sent_count);
    PackedElements given(CheckedElements(kCall, sent, static_cast<uint64_t>(sent_count), sent_type));
    given.Pack();
    return Answer(kCall, in->collectives.Gather(given.data(), nullptr, given.bytes(), to));
  }
  PackedElements all(CheckedFromAll(kCall, *in, received, received_count, received_type));
  PackedElements given(CheckedGiven(kCall, *in, sent, sent_count, sent_type, received, received_count, received_type));
  given.Pack();
  const int code = Answer(kCall, in->collectives.Gather(given.data(), all.data(), given.bytes(), to));
  if (code == FMI_SUCCESS) all.Unpack(all.bytes());
  return code;
}

int FMI_Allgather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                  FMI_Datatype received_type, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Allgather";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  PackedElements all(CheckedFromAll(kCall, *in, received, received_count, received_type));
  PackedElements given(CheckedGiven(kCall, *in, sent, sent_count, sent_type, received, received_count, received_type));
  given.Pack();
  const int code = Answer(kCall, in->collectives.Allgather(given.data(), all.data(), given.bytes()));
  if (code == FMI_SUCCESS) all.Unpack(all.bytes());
  return code;
}

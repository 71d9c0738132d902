// The C ABI of libkedge-fmi (kedge/fmi.h): what all ranks do together with a piece for each rank.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fmi/api/checks.h"
#include "fmi/collectives.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

// Where the pieces of all ranks lie in the program's memory: as many elements for each, or by lists.
struct Layout {
  int count = 0;
  const int* counts = nullptr;
  const int* places = nullptr;
};

// The pieces of all ranks in one buffer, in which they lie side by side.
class Pieces {
 public:
  // None: this rank has no part in them.
  Pieces() = default;
  Pieces(const char* call, const Communicator& in, const void* data, const Layout& layout, FMI_Datatype type) : offsets_{0} {
    const ptrdiff_t extent = ExtentOf(call, type);
    for (uint32_t rank = 0; rank < in.channel.ranks(); ++rank) {
      const int count = layout.counts != nullptr ? layout.counts[rank] : layout.count;
      CheckCount(call, count);
      const int64_t place = layout.places != nullptr ? layout.places[rank] : int64_t{count} * rank;
      const auto* begin = static_cast<const std::byte*>(data);
      if (count > 0 && data != nullptr) begin += place * extent;
      pieces_.emplace_back(CheckedElements(call, begin, static_cast<uint64_t>(count), type));
      offsets_.push_back(offsets_.back() + pieces_.back().bytes());
    }
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(offsets_.back());
  }

  std::byte* data() const { return buffer_.get(); }
  const Collectives::Offsets& offsets() const { return offsets_; }
  size_t bytes(uint32_t rank) const { return offsets_[rank + 1] - offsets_[rank]; }
  // From the program's memory.
  void Pack() {
    for (size_t rank = 0; rank < pieces_.size(); ++rank) pieces_[rank].PackInto(buffer_.get() + offsets_[rank]);
  }
  // To it.
  void Unpack() {
    for (size_t rank = 0; rank < pieces_.size(); ++rank) pieces_[rank].UnpackFrom(buffer_.get() + offsets_[rank]);
  }

 private:
  std::vector<PackedElements> pieces_;
  Collectives::Offsets offsets_;
  std::unique_ptr<std::byte[]> buffer_;
};

void CheckLists(const char* call, const int* counts, const int* places) {
  CheckNotNull(call, counts, "the list of counts");
  CheckNotNull(call, places, "the list of places");
}

void CheckEqual(const char* call, size_t sent, size_t received) {
  if (sent != received) Die(call, fmt::format("{} bytes are sent, and {} received from each rank", sent, received));
}

PackedElements CheckedOwn(const char* call, const void* data, int count, FMI_Datatype type) {
  CheckCount(call, count);
  return PackedElements(CheckedElements(call, data, static_cast<uint64_t>(count), type));
}

// What this rank gives to `all`: where `sent` says, or its piece as it lies there.
PackedElements Given(const char* call, const Communicator& in, Pieces* all, const void* sent, int count, FMI_Datatype type) {
  const uint32_t rank = in.channel.rank();
  if (sent != FMI_IN_PLACE) {
    PackedElements given = CheckedOwn(call, sent, count, type);
    given.Pack();
    CheckEqual(call, given.bytes(), all->bytes(rank));
    return given;
  }
  all->Pack();
  Elements own;
  own.data = all->data() + all->offsets()[rank];
  own.bytes = all->bytes(rank);
  return PackedElements(std::move(own));
}

int Scatter(const char* call, const void* sent, const Layout& layout, FMI_Datatype sent_type, void* received, int received_count,
            FMI_Datatype received_type, int root, FMI_Comm comm) {
  Communicator* in = CommunicatorIn(call, comm);
  if (in == nullptr) return AnswerFailed();
  const uint32_t from = CheckedRank(call, *in, root, "root");
  const bool is_root = in->channel.rank() == from;
  Pieces all = is_root ? Pieces(call, *in, sent, layout, sent_type) : Pieces();
  all.Pack();
  if (received == FMI_IN_PLACE) {
    if (!is_root) Die(call, "FMI_IN_PLACE is for the root alone");
    return Answer(call, in->collectives.ScatterPieces(all.data(), all.offsets(), nullptr, 0, from));
  }
  PackedElements own = CheckedOwn(call, received, received_count, received_type);
  if (is_root) CheckEqual(call, all.bytes(from), own.bytes());
  const int code = Answer(call, in->collectives.ScatterPieces(all.data(), all.offsets(), own.data(), own.bytes(), from));
  if (code == FMI_SUCCESS) own.Unpack(own.bytes());
  return code;
}

int Exchange(const char* call, const void* sent, const Layout& sent_layout, FMI_Datatype sent_type, void* received,
             const Layout& received_layout, FMI_Datatype received_type, FMI_Comm comm) {
  Communicator* in = CommunicatorIn(call, comm);
  if (in == nullptr) return AnswerFailed();
  const bool is_in_place = sent == FMI_IN_PLACE;
  Pieces from(call, *in, is_in_place ? received : sent, is_in_place ? received_layout : sent_layout,
              is_in_place ? received_type : sent_type);
  Pieces to(call, *in, received, received_layout, received_type);
  CheckEqual(call, from.bytes(in->channel.rank()), to.bytes(in->channel.rank()));
  from.Pack();
  const int code = Answer(call, in->collectives.Exchange(from.data(), from.offsets(), to.data(), to.offsets()));
  if (code == FMI_SUCCESS) to.Unpack();
  return code;
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Gatherv(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, const int* received_counts,
                const int* places, FMI_Datatype received_type, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Gatherv";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  const uint32_t to = CheckedRank(kCall, *in, root, "root");
  if (in->channel.rank() != to) {
    if (sent == FMI_IN_PLACE) Die(kCall, "FMI_IN_PLACE is for the root alone");
    PackedElements given = CheckedOwn(kCall, sent, sent_count, sent_type);
    given.Pack();
    return Answer(kCall, in->collectives.GatherPieces(given.data(), given.bytes(), nullptr, {}, to));
  }
  CheckLists(kCall, received_counts, places);
  Pieces all(kCall, *in, received, {0, received_counts, places}, received_type);
  const PackedElements given = Given(kCall, *in, &all, sent, sent_count, sent_type);
  const int code = Answer(kCall, in->collectives.GatherPieces(given.data(), given.bytes(), all.data(), all.offsets(), to));
  if (code == FMI_SUCCESS) all.Unpack();
  return code;
}

int FMI_Allgatherv(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, const int* received_counts,
                   const int* places, FMI_Datatype received_type, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Allgatherv";
  Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  CheckLists(kCall, received_counts, places);
  Pieces all(kCall, *in, received, {0, received_counts, places}, received_type);
  const PackedElements given = Given(kCall, *in, &all, sent, sent_count, sent_type);
  const int code = Answer(kCall, in->collectives.AllgatherPieces(given.data(), given.bytes(), all.data(), all.offsets()));
  if (code == FMI_SUCCESS) all.Unpack();
  return code;
}

int FMI_Scatter(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                FMI_Datatype received_type, int root, FMI_Comm comm) {
  return Scatter("FMI_Scatter", sent, {sent_count, nullptr, nullptr}, sent_type, received, received_count, received_type, root,
                 comm);
}

int FMI_Scatterv(const void* sent, const int* sent_counts, const int* places, FMI_Datatype sent_type, void* received,
                 int received_count, FMI_Datatype received_type, int root, FMI_Comm comm) {
  return Scatter("FMI_Scatterv", sent, {0, sent_counts, places}, sent_type, received, received_count, received_type, root, comm);
}

int FMI_Alltoall(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                 FMI_Datatype received_type, FMI_Comm comm) {
  return Exchange("FMI_Alltoall", sent, {sent_count, nullptr, nullptr}, sent_type, received, {received_count, nullptr, nullptr},
                  received_type, comm);
}

int FMI_Alltoallv(const void* sent, const int* sent_counts, const int* sent_places, FMI_Datatype sent_type, void* received,
                  const int* received_counts, const int* received_places, FMI_Datatype received_type, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Alltoallv";
  if (sent != FMI_IN_PLACE) CheckLists(kCall, sent_counts, sent_places);
  CheckLists(kCall, received_counts, received_places);
  return Exchange(kCall, sent, {0, sent_counts, sent_places}, sent_type, received, {0, received_counts, received_places},
                  received_type, comm);
}

// The C ABI of libkedge-fmi (kedge/fmi.h): communicators whose ranks lie in a grid.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fmi/api/checks.h"
#include "fmi/api/making.h"
#include "fmi/communicators.h"
#include "fmi/handles/grid.h"
#include "fmi/handles/group.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

// So that products of sizes stay numbers.
constexpr int kDimensionsMax = 16;

size_t CheckedDimensions(const char* call, int dimensions) {
  if (dimensions < 0 || dimensions > kDimensionsMax) {
    Die(call, fmt::format("there are {} dimensions, and at most {} are possible", dimensions, kDimensionsMax));
  }
  return static_cast<size_t>(dimensions);
}

std::vector<char> Flags(const int* flags, size_t count) {
  std::vector<char> found(count);
  for (size_t i = 0; i < count; ++i) found[i] = flags[i] != 0 ? 1 : 0;
  return found;
}

// Its grid; null where a failure has kept the communicator from being made.
const Grid* GridIn(const char* call, FMI_Comm comm) {
  const Communicator* in = CommunicatorIn(call, comm);
  if (in == nullptr) return nullptr;
  if (!in->grid) Die(call, fmt::format("communicator {} is no grid", comm));
  return &*in->grid;
}

void CheckRoom(const char* call, const Grid& grid, int dimensions) {
  if (dimensions < static_cast<int>(grid.sizes.size())) {
    Die(call, fmt::format("there is room for {} dimensions, and the grid has {}", dimensions, grid.sizes.size()));
  }
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Dims_create(int ranks, int dimensions, int* sizes) {
  constexpr char kCall[] = "FMI_Dims_create";
  if (ranks < 1) Die(kCall, fmt::format("there are {} ranks", ranks));
  const size_t count = CheckedDimensions(kCall, dimensions);
  if (count == 0) return FMI_SUCCESS;
  std::vector<int> filled(sizes, sizes + count);
  const kedge::Status status = FillSizes(ranks, &filled);
  if (!status.ok()) Die(kCall, status.message());
  std::copy(filled.begin(), filled.end(), sizes);
  return FMI_SUCCESS;
}

int FMI_Cart_create(FMI_Comm comm, int dimensions, const int* sizes, const int* periods, int, FMI_Comm* made) {
  constexpr char kCall[] = "FMI_Cart_create";
  const size_t count = CheckedDimensions(kCall, dimensions);
  Communicator* parent = CommunicatorIn(kCall, comm);
  if (parent == nullptr) return TakeUnknownCommunicator(made);
  auto grid = Grid::Checked(std::vector<int>(sizes, sizes + count), Flags(periods, count), parent->channel.ranks());
  if (!grid.ok()) Die(kCall, grid.status().message());
  const uint32_t places = grid->places();
  const auto& ranks = parent->group->ranks();
  Wish wish;
  if (parent->channel.rank() < places) wish = {0, static_cast<int32_t>(parent->channel.rank())};
  Group group(std::vector<uint32_t>(ranks.begin(), ranks.begin() + places));
  return MakeCommunicator(kCall, parent, {Making::Call::kCartCreate, wish, std::move(group), std::move(*grid)}, made);
}

int FMI_Cart_sub(FMI_Comm comm, const int* keeps, FMI_Comm* made) {
  constexpr char kCall[] = "FMI_Cart_sub";
  const Grid* grid = GridIn(kCall, comm);
  if (grid == nullptr) return TakeUnknownCommunicator(made);
  Communicator* parent = CommunicatorIn(kCall, comm);
  const std::vector<char> kept = Flags(keeps, grid->sizes.size());
  std::vector<Wish> wishes;
  for (uint32_t rank = 0; rank < parent->channel.ranks(); ++rank) wishes.push_back(grid->WishForKept(rank, kept));
  std::vector<uint32_t> ranks;
  for (const uint32_t member : Split(wishes, parent->channel.rank())) ranks.push_back(parent->channel.InJob(member));
  const Wish wish = wishes[parent->channel.rank()];
  return MakeCommunicator(kCall, parent, {Making::Call::kCartSub, wish, Group(std::move(ranks)), grid->Kept(kept)}, made);
}

int FMI_Cartdim_get(FMI_Comm comm, int* dimensions) {
  const Grid* grid = GridIn("FMI_Cartdim_get", comm);
  if (grid == nullptr) return AnswerFailed();
  *dimensions = static_cast<int>(grid->sizes.size());
  return FMI_SUCCESS;
}

int FMI_Cart_get(FMI_Comm comm, int dimensions, int* sizes, int* periods, int* coordinates) {
  constexpr char kCall[] = "FMI_Cart_get";
  const Grid* grid = GridIn(kCall, comm);
  if (grid == nullptr) return AnswerFailed();
  CheckRoom(kCall, *grid, dimensions);
  const std::vector<int> own = grid->CoordinatesOf(CommunicatorIn(kCall, comm)->channel.rank());
  for (size_t i = 0; i < own.size(); ++i) {
    sizes[i] = grid->sizes[i];
    periods[i] = grid->wraps[i];
    coordinates[i] = own[i];
  }
  return FMI_SUCCESS;
}

int FMI_Cart_coords(FMI_Comm comm, int rank, int dimensions, int* coordinates) {
  constexpr char kCall[] = "FMI_Cart_coords";
  const Grid* grid = GridIn(kCall, comm);
  if (grid == nullptr) return AnswerFailed();
  CheckRoom(kCall, *grid, dimensions);
  const std::vector<int> found = grid->CoordinatesOf(CheckedRank(kCall, *CommunicatorIn(kCall, comm), rank, "rank"));
  std::copy(found.begin(), found.end(), coordinates);
  return FMI_SUCCESS;
}

int FMI_Cart_rank(FMI_Comm comm, const int* coordinates, int* rank) {
  constexpr char kCall[] = "FMI_Cart_rank";
  const Grid* grid = GridIn(kCall, comm);
  if (grid == nullptr) return AnswerFailed();
  const std::vector<int> wanted(coordinates, coordinates + grid->sizes.size());
  const auto found = grid->RankOf(wanted);
  if (!found) Die(kCall, fmt::format("({}) lies outside the grid {}", fmt::join(wanted, ", "), fmt::join(grid->sizes, " x ")));
  *rank = static_cast<int>(*found);
  return FMI_SUCCESS;
}

int FMI_Cart_shift(FMI_Comm comm, int dimension, int by, int* source, int* destination) {
  constexpr char kCall[] = "FMI_Cart_shift";
  const Grid* grid = GridIn(kCall, comm);
  if (grid == nullptr) return AnswerFailed();
  if (dimension < 0 || dimension >= static_cast<int>(grid->sizes.size())) {
    Die(kCall, fmt::format("the dimension is {}, and the grid has {}", dimension, grid->sizes.size()));
  }
  const uint32_t own = CommunicatorIn(kCall, comm)->channel.rank();
  const auto neighbour = [&](int64_t distance) {
    const auto found = grid->Shifted(own, static_cast<uint32_t>(dimension), distance);
    return found ? static_cast<int>(*found) : FMI_PROC_NULL;
  };
  *source = neighbour(-int64_t{by});
  *destination = neighbour(by);
  return FMI_SUCCESS;
}

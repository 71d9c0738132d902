#include "fmi/handles/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace kedge::fmi {
namespace {

// Those of the divisors (rising) whose product is `ranks`, at most `largest` each, falling; the first is as small as can be, then
// the second, and so on.
bool Factor(int ranks, int largest, size_t count, const std::vector<int>& divisors, std::vector<int>* factors) {
  if (count == 0) return ranks == 1;
  for (const int divisor : divisors) {
    if (divisor > largest) return false;
    // All are at most this one, and must make up for the rest.
    int64_t reach = 1;
    for (size_t i = 0; i < count && reach < ranks; ++i) reach *= divisor;
    if (reach < ranks || ranks % divisor != 0) continue;
    factors->push_back(divisor);
    if (Factor(ranks / divisor, divisor, count - 1, divisors, factors)) return true;
    factors->pop_back();
  }
  return false;
}

std::vector<int> DivisorsOf(int number) {
  std::vector<int> divisors;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    divisors.push_back(static_cast<int>(divisor));
    if (divisor * divisor != number) divisors.push_back(static_cast<int>(number / divisor));
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

}  // namespace

Result<Grid> Grid::Checked(std::vector<int> sizes, std::vector<char> wraps, uint32_t ranks) {
  int64_t places = 1;
  for (const int size : sizes) {
    if (size < 1)
      return Status(Code::kInvalidArgument, fmt::format("the grid {} has an empty dimension", fmt::join(sizes, " x ")));
    places *= size;
    if (places > ranks) {
      return Status(Code::kInvalidArgument, fmt::format("the grid {} has more places than the communicator has ranks, {}",
                                                        fmt::join(sizes, " x "), ranks));
    }
  }
  return Grid{std::move(sizes), std::move(wraps)};
}

uint32_t Grid::places() const {
  uint32_t places = 1;
  for (const int size : sizes) places *= static_cast<uint32_t>(size);
  return places;
}

std::vector<int> Grid::CoordinatesOf(uint32_t rank) const {
  std::vector<int> coordinates(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    const auto size = static_cast<uint32_t>(sizes[i]);
    coordinates[i] = static_cast<int>(rank % size);
    rank /= size;
  }
  return coordinates;
}

std::optional<uint32_t> Grid::RankOf(const std::vector<int>& coordinates) const {
  uint32_t rank = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int at = coordinates[i];
    if (wraps[i] != 0) at = (at % sizes[i] + sizes[i]) % sizes[i];
    if (at < 0 || at >= sizes[i]) return std::nullopt;
    rank = rank * static_cast<uint32_t>(sizes[i]) + static_cast<uint32_t>(at);
  }
  return rank;
}

std::optional<uint32_t> Grid::Shifted(uint32_t rank, uint32_t dimension, int64_t by) const {
  std::vector<int> coordinates = CoordinatesOf(rank);
  const int size = sizes[dimension];
  const int64_t at = coordinates[dimension] + by;
  if (wraps[dimension] == 0 && (at < 0 || at >= size)) return std::nullopt;
  coordinates[dimension] = static_cast<int>((at % size + size) % size);
  return RankOf(coordinates);
}

Grid Grid::Kept(const std::vector<char>& keeps) const {
  Grid kept;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (keeps[i] == 0) continue;
    kept.sizes.push_back(sizes[i]);
    kept.wraps.push_back(wraps[i]);
  }
  return kept;
}

Wish Grid::WishForKept(uint32_t rank, const std::vector<char>& keeps) const {
  const std::vector<int> coordinates = CoordinatesOf(rank);
  Wish wish{0, 0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    int32_t& number = keeps[i] != 0 ? wish.key : wish.colour;
    number = number * sizes[i] + coordinates[i];
  }
  return wish;
}

Status FillSizes(int ranks, std::vector<int>* sizes) {
  int left = ranks;
  size_t open = 0;
  for (const int size : *sizes) {
    if (size < 0) return Status(Code::kInvalidArgument, fmt::format("a dimension is {}", size));
    if (size == 0) {
      ++open;
    } else if (left % size == 0) {
      left /= size;
    } else {
      return Status(Code::kInvalidArgument, fmt::format("{} ranks do not divide into {}", ranks, fmt::join(*sizes, " x ")));
    }
  }
  std::vector<int> factors;
  if (!Factor(left, left, open, DivisorsOf(left), &factors)) {
    return Status(Code::kInvalidArgument, fmt::format("{} ranks are not {}", ranks, fmt::join(*sizes, " x ")));
  }
  auto next = factors.begin();
  for (int& size : *sizes) {
    if (size == 0) size = *next++;
  }
  return Status::Ok();
}

}  // namespace kedge::fmi

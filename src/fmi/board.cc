#include "fmi/board.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "os/files/unique_fd.h"
#include "os/memory/futex.h"

namespace kedge::fmi {
namespace {

constexpr uint64_t kMagic = 0x3130'494d'4645'444b;  // KDEFMI01: changes with the layout
constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(BoardHeader) <= kHeaderBytes);

constexpr Duration kSleepMax = std::chrono::seconds(1);

size_t BoardBytes(uint32_t ranks) {
  return kHeaderBytes + ranks * sizeof(BoardRow) + size_t{ranks} * ranks * sizeof(RingMemory);
}

}  // namespace

// Some 50 microseconds, which is what a sleep and a wake take, and then some milliseconds in which others may run: who sleeps
// while other processes are busy is woken on the processor of whoever wakes it, and both share that one for a while.
const Board::Patience Board::kPatient{2'000, 5'000};
const Board::Patience Board::kCrowded{0, 20};

Board::Board(os::SharedMapping memory, uint32_t ranks)
    : memory_(std::move(memory)), patience_(ranks > std::thread::hardware_concurrency() ? kCrowded : kPatient) {}

Result<Board> Board::Create(uint32_t ranks) {
  KEDGE_CHECK(ranks >= 1 && ranks <= kRanksMax);
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping memory, os::SharedMapping::CreateSealed("kedge-fmi", BoardBytes(ranks)));
  Board board(std::move(memory), ranks);
  board.header().magic = kMagic;
  board.header().ranks = ranks;
  board.header().epoch = 1;
  return board;
}

Result<Board> Board::Attach(int descriptor) {
  // The inherited one would go on to this process's own children.
  const os::UniqueFd inherited(descriptor);
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd own, os::DuplicateDescriptor(descriptor));
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping memory, os::SharedMapping::FromDescriptor(std::move(own), "fmirun's memory"));
  if (memory.bytes() < kHeaderBytes) return Status(Code::kMismatch, "fmirun's memory is too small");
  const auto& header = *reinterpret_cast<const BoardHeader*>(memory.data());
  const uint32_t ranks = header.ranks;
  if (header.magic != kMagic || ranks < 1 || ranks > kRanksMax || memory.bytes() != BoardBytes(ranks)) {
    return Status(Code::kMismatch, "fmirun and libkedge-fmi are of different versions");
  }
  return Board(std::move(memory), ranks);
}

BoardRow& Board::row(uint32_t rank) const {
  KEDGE_CHECK(rank < ranks());
  return reinterpret_cast<BoardRow*>(memory_.data() + kHeaderBytes)[rank];
}

RingMemory* Board::ring(uint32_t from, uint32_t to) const {
  KEDGE_CHECK(from < ranks() && to < ranks());
  std::byte* rings = memory_.data() + kHeaderBytes + ranks() * sizeof(BoardRow);
  return reinterpret_cast<RingMemory*>(rings) + size_t{from} * ranks() + to;
}

bool Board::BeginEpoch() {
  uint32_t epoch = header().epoch.load();
  while ((epoch & kFinished) == 0) {
    if (!header().epoch.compare_exchange_weak(epoch, epoch + 1)) continue;
    RingAll();
    return true;
  }
  return false;
}

bool Board::Finish(uint32_t epoch) {
  uint32_t expected = epoch;
  if (!header().epoch.compare_exchange_strong(expected, epoch | kFinished)) return expected == (epoch | kFinished);
  RingAll();
  return true;
}

std::vector<Place> Board::places() const {
  std::vector<Place> all(ranks());
  for (uint32_t rank = 0; rank < all.size(); ++rank) all[rank] = place(rank);
  return all;
}

void Board::SetPlace(uint32_t rank, Place place) {
  row(rank).place.store(Pack(place), std::memory_order_release);
  RingAll();
}

void Board::Ring(uint32_t rank) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  BoardRow& its = row(rank);
  if (its.sleeps.load(std::memory_order_relaxed) == 0) return;
  its.bell.fetch_add(1);
  os::FutexWakeAll(&its.bell);
}

void Board::RingAll() {
  for (uint32_t rank = 0; rank < ranks(); ++rank) Ring(rank);
}

void Board::Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Board::Sleep(uint32_t rank, uint32_t bell) const {
  os::FutexWait(&row(rank).bell, bell, kSleepMax);
}

}  // namespace kedge::fmi

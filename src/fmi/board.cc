#include "fmi/board.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "os/events/poll_set.h"
#include "os/files/unique_fd.h"

namespace kedge::fmi {
namespace {

constexpr uint64_t kMagic = 0x3530'494d'4645'444b;  // KDEFMI05: changes with the layout
constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(BoardHeader) <= kHeaderBytes);

size_t BoardBytes(uint32_t ranks) {
  return kHeaderBytes + ranks * sizeof(BoardRow) + size_t{ranks} * ranks * sizeof(RingMemory);
}

// The inherited one would go on to this process's own children.
Result<os::UniqueFd> TakeInherited(int descriptor) {
  const os::UniqueFd inherited(descriptor);
  return os::DuplicateDescriptor(descriptor);
}

}  // namespace

// Some 50 microseconds, which is what a sleep and a wake take, and then some milliseconds in which others may run: who sleeps
// while other processes are busy is woken on the processor of whoever wakes it, and both share that one for a while.
const Board::Patience Board::kPatient{2'000, 5'000};
const Board::Patience Board::kCrowded{0, 20};

Board::Board(os::SharedMapping memory, std::vector<os::EventFd> bells, os::EventFd task_bell)
    : memory_(std::move(memory)),
      bells_(std::move(bells)),
      task_bell_(std::move(task_bell)),
      patience_(header().ranks > std::thread::hardware_concurrency() ? kCrowded : kPatient) {}

Result<Board> Board::Create(uint32_t ranks) {
  KEDGE_CHECK(ranks >= 1 && ranks <= kRanksMax);
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping memory, os::SharedMapping::CreateSealed("kedge-fmi", BoardBytes(ranks)));
  std::vector<os::EventFd> bells;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    KEDGE_ASSIGN_OR_RETURN(os::EventFd bell, os::EventFd::Create());
    bells.push_back(std::move(bell));
  }
  KEDGE_ASSIGN_OR_RETURN(os::EventFd task_bell, os::EventFd::Create());
  auto& header = *reinterpret_cast<BoardHeader*>(memory.data());
  header.magic = kMagic;
  header.ranks = ranks;
  header.task_bell = task_bell.descriptor();
  Board board(std::move(memory), std::move(bells), std::move(task_bell));
  for (uint32_t rank = 0; rank < ranks; ++rank) board.row(rank).bell = board.bell(rank).descriptor();
  return board;
}

Result<Board> Board::Attach(int descriptor) {
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd own, TakeInherited(descriptor));
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping memory, os::SharedMapping::FromDescriptor(std::move(own), "fmirun's memory"));
  if (memory.bytes() < kHeaderBytes) return Status(Code::kMismatch, "fmirun's memory is too small");
  const auto& header = *reinterpret_cast<const BoardHeader*>(memory.data());
  const uint32_t ranks = header.ranks;
  if (header.magic != kMagic || ranks < 1 || ranks > kRanksMax || memory.bytes() != BoardBytes(ranks)) {
    return Status(Code::kMismatch, "fmirun and libkedge-fmi are of different versions");
  }
  std::vector<os::EventFd> bells;
  const auto* rows = reinterpret_cast<const BoardRow*>(memory.data() + kHeaderBytes);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    KEDGE_ASSIGN_OR_RETURN(os::UniqueFd bell, TakeInherited(rows[rank].bell));
    bells.push_back(os::EventFd::FromDescriptor(std::move(bell)));
  }
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd task_bell, TakeInherited(header.task_bell));
  return Board(std::move(memory), std::move(bells), os::EventFd::FromDescriptor(std::move(task_bell)));
}

std::vector<int> Board::descriptors() const {
  std::vector<int> all = {descriptor(), task_bell_.descriptor()};
  for (const os::EventFd& bell : bells_) all.push_back(bell.descriptor());
  return all;
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

void Board::SetEpoch(uint32_t epoch, bool has_finished) {
  header().epoch = epoch | (has_finished ? kFinished : 0);
  RingAll();
}

std::vector<Place> Board::places() const {
  std::vector<Place> all(ranks());
  for (uint32_t rank = 0; rank < all.size(); ++rank) all[rank] = place(rank);
  return all;
}

void Board::SetPlace(uint32_t rank, Place place) {
  row(rank).place.store(Pack(place), std::memory_order_release);
  RingAll();
  RingTask();
}

void Board::Ring(uint32_t rank) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  BoardRow& its = row(rank);
  if (its.sleeps.load(std::memory_order_relaxed) == 0) return;
  bells_[rank].Signal();
}

void Board::RingAll() {
  for (uint32_t rank = 0; rank < ranks(); ++rank) Ring(rank);
}

void Board::Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Board::SleepForBell(uint32_t rank) const {
  os::PollSet bell_alone;
  bell_alone.Add(bell(rank).descriptor());
  bell_alone.Wait(kSleepMax);
}

}  // namespace kedge::fmi

#include "agent/protect/set_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "os/process/kill_point.h"
#include "redundancy/block_table.h"

namespace kedge {
namespace {

// `bytes` more have been written. kUnavailable: in vain.
Status NoteMade(const MakeNotes& notes, uint64_t bytes) {
  const std::shared_ptr<Making> making = notes.making.lock();
  if (making == nullptr) return Status(Code::kUnavailable, "nobody wants it any more");
  making->begun.store(true, std::memory_order_relaxed);
  making->bytes.fetch_add(bytes, std::memory_order_relaxed);
  return Status::Ok();
}

}  // namespace

SetSource::SetSource(PeerLink link, SetRecord set, Duration timeout)
    : link_(std::move(link)),
      set_(std::move(set)),
      timeout_(timeout),
      streams_(set_.members.size()),
      objects_(set_.members.size()) {}

SetSource::Place& SetSource::PlaceOf(const redundancy::BlockRef& block) {
  return block.parity ? objects_[block.member] : streams_[block.member];
}

bool SetSource::Has(uint32_t member, bool parity) {
  const Place& place = parity ? objects_[member] : streams_[member];
  return place.here.has_value() || !place.node.empty();
}

RemoteObject& SetSource::RemoteOf(const redundancy::BlockRef& block) {
  std::unique_ptr<RemoteObject>& remote = remote_[{block.member, block.parity}];
  if (remote == nullptr) {
    ReadRequest what;
    what.of_object = block.parity;
    what.set = set_.identity;
    what.member = block.member;
    what.generation = set_.identity.generation;
    what.rank = set_.members[block.member].rank.value_or(0);
    remote = std::make_unique<RemoteObject>(link_, PlaceOf(block).node, what, timeout_);
  }
  return *remote;
}

void SetSource::Expect(const redundancy::BlockRef& block, uint32_t bytes) {
  const Place& place = PlaceOf(block);
  if (place.here.has_value() || place.node.empty()) return;
  // The reads go out with the next ReadBlocks, which follows soon: they wait for leases, which all nodes are asked for by then.
  RemoteOf(block).AskForLease();
  plan_.Add({block, bytes});
}

void SetSource::LetGo() {
  arrived_.clear();
  remote_.clear();
  plan_.Clear();
}

void SetSource::BeginPlanned() {
  size_t buffers = arrived_.size();
  for (const auto& [key, remote] : remote_) buffers += remote->expected();
  while (const auto next = plan_.Next(buffers)) {
    if (PlaceOf(next->block).node.empty()) continue;  // it has failed meanwhile
    RemoteOf(next->block).Expect(next->block.offset, next->bytes);
    ++buffers;
  }
}

void SetSource::ReadHere(const HeldStream& held, Read& read) const {
  if (read.block.offset + read.to.size() > held.bytes()) {
    read.status = Status(Code::kCorrupt, "it is shorter here than it should be");
  } else {
    read.status = held.Read(read.block.offset, read.to.size(), read.to.data());
  }
}

// Waits for a block of another node; its bytes stay where they arrive if they may.
void SetSource::Arrive(Read& read, bool keep) {
  const std::string node = PlaceOf(read.block).node;
  if (node.empty()) {
    read.status = Status(Code::kUnavailable, "it is on no node that answers");
    return;
  }
  plan_.Remove({read.block, static_cast<uint32_t>(read.to.size())});
  Result<ArrivedBytes> arrived = RemoteOf(read.block).Read(read.block.offset, read.to.size());
  read.status = arrived.status();
  // Who does not answer once is waited for no more: each wait is long.
  if (read.status.code() == Code::kTimeout || read.status.code() == Code::kUnavailable) GiveUp(node);
  if (!arrived.ok()) return;
  if (keep) {
    read.view = arrived->bytes();
    arrived_.push_back(std::move(*arrived));
  } else {
    std::memcpy(read.to.data(), arrived->bytes().data(), read.to.size());
  }
}

void SetSource::GiveUp(const std::string& node) {
  for (auto* places : {&streams_, &objects_}) {
    for (Place& place : *places) {
      if (place.node == node) place.node.clear();
    }
  }
  std::erase_if(remote_, [&](const auto& entry) { return entry.second->node() == node; });
}

void SetSource::ReadBlocks(std::span<Read> reads) {
  arrived_.clear();
  // Where there are more than buffers, each is copied and let go at once.
  const bool keep = reads.size() <= kBuffersMax;
  std::vector<ReadPlan::Entry> now;
  for (const Read& read : reads) {
    if (Has(read.block.member, read.block.parity) && !PlaceOf(read.block).here.has_value()) {
      now.push_back({read.block, static_cast<uint32_t>(read.to.size())});
    }
  }
  plan_.Want(now,
             [this](const ReadPlan::Entry& entry) { return RemoteOf(entry.block).IsExpected(entry.block.offset, entry.bytes); });
  BeginPlanned();
  for (Read& read : reads) {
    const Place& place = PlaceOf(read.block);
    if (place.here.has_value()) {
      ReadHere(*place.here, read);
    } else {
      Arrive(read, keep);
      BeginPlanned();
    }
  }
}

Result<BlockTable> MakeParity(const SetRecord& set, uint32_t member, SetSource& source, const HeldStream& object,
                              MakeNotes* notes) {
  KEDGE_ASSIGN_OR_RETURN(const redundancy::SetArithmetic arithmetic, redundancy::SetArithmetic::Make(set));
  const redundancy::ParityTables no_parity(set.members.size());
  redundancy::Assembler assembler(set, arithmetic, no_parity, source);
  const uint32_t block_bytes = arithmetic.geometry().block_bytes();
  const uint64_t bytes = arithmetic.geometry().parity_bytes();
  redundancy::BlockTableBuilder table(bytes, block_bytes);
  Buffer buffer(std::min<uint64_t>(bytes, kBlockBytesMax));
  uint64_t expected = 0;
  for (uint64_t offset = 0, run_bytes = 0; offset < bytes; offset += run_bytes) {
    while (expected < bytes && expected <= offset + SetSource::kAheadBytes) {
      const redundancy::BlockRef next{member, true, expected};
      assembler.Expect(next, arithmetic.RunBytesAt(next));
      expected += arithmetic.RunBytesAt(next);
    }
    run_bytes = arithmetic.RunBytesAt({member, true, offset});
    const std::span<std::byte> run = std::span(buffer).first(run_bytes);
    Status made = assembler.Assemble({member, true, offset}, run);
    for (const redundancy::BadBlock& bad : assembler.TakeBadBlocks()) {
      if (bad.status.code() == Code::kCorrupt) notes->doubted.insert(bad.block.member);
    }
    KEDGE_RETURN_IF_ERROR(made);
    KEDGE_RETURN_IF_ERROR(object.WriteTo(&table, run));
    KEDGE_RETURN_IF_ERROR(NoteMade(*notes, run.size()));
    os::KillPoint("protect-block");
  }
  return table.Finish();
}

Result<BlockTable> MakeCopy(const SetRecord& set, uint32_t member, SetSource& source, const HeldStream& object,
                            MakeNotes* notes) {
  const BlockTable& table = set.members[member].blocks;
  redundancy::BlockTableBuilder written(table.bytes, table.block_bytes);
  const auto run_at = [&](uint64_t offset) { return std::min<uint64_t>(kBlockBytesMax, table.bytes - offset); };
  Buffer buffer(std::min<uint64_t>(kBlockBytesMax, table.bytes));
  uint64_t expected = 0;
  for (uint64_t offset = 0; offset < table.bytes; offset += kBlockBytesMax) {
    for (; expected < table.bytes && expected <= offset + SetSource::kAheadBytes; expected += kBlockBytesMax) {
      source.Expect({member, false, expected}, static_cast<uint32_t>(run_at(expected)));
    }
    const std::span<std::byte> to = std::span(buffer).first(run_at(offset));
    std::array<SetSource::Read, 1> read{SetSource::Read{{member, false, offset}, to, Status::Ok(), {}}};
    source.ReadBlocks(read);
    KEDGE_RETURN_IF_ERROR(read[0].status);
    KEDGE_RETURN_IF_ERROR(object.WriteTo(&written, read[0].bytes()));
    // What was written counts for nothing until it is on file.
    if (const auto wrong = written.FirstDifference(table, offset)) {
      notes->doubted.insert(member);
      return Status(Code::kCorrupt, fmt::format("{}: the block at {} of member {} ({}) fails its checksum",
                                                set.identity.ToString(), *wrong, member, set.members[member].node));
    }
    KEDGE_RETURN_IF_ERROR(NoteMade(*notes, to.size()));
    os::KillPoint("protect-block");
  }
  return written.Finish();
}

}  // namespace kedge

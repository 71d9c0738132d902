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
      objects_(set_.members.size()) {
  for (const SetMember& member : set_.members) thin_.emplace_back(member);
}

SetSource::Place& SetSource::PlaceOf(const redundancy::BlockRef& block) {
  return block.parity ? objects_[block.member] : streams_[block.member];
}

bool SetSource::Has(uint32_t member, bool parity) {
  const Place& place = parity ? objects_[member] : streams_[member];
  return place.here.has_value() || !place.node.empty();
}

std::vector<ReadPlan::Entry> SetSource::InStream(const redundancy::BlockRef& block, uint32_t bytes) const {
  if (block.parity) return {{block, bytes}};
  std::vector<ReadPlan::Entry> entries;
  for (const redundancy::ThinStream::Piece& piece : thin_[block.member].OfThin(block.offset, bytes)) {
    entries.push_back({{block.member, false, piece.stream_offset}, static_cast<uint32_t>(piece.bytes)});
  }
  return entries;
}

std::unique_ptr<RemoteObject> SetSource::MakeRemote(uint32_t member, bool of_object, const std::string& node) const {
  ReadRequest what;
  what.of_object = of_object;
  what.set = set_.identity;
  what.member = member;
  what.generation = set_.identity.generation;
  what.rank = set_.members[member].rank.value_or(0);
  return std::make_unique<RemoteObject>(link_, node, what, timeout_);
}

RemoteObject& SetSource::RemoteOf(const redundancy::BlockRef& block) {
  std::unique_ptr<RemoteObject>& remote = remote_[{block.member, block.parity}];
  if (remote == nullptr) remote = MakeRemote(block.member, block.parity, PlaceOf(block).node);
  return *remote;
}

void SetSource::Expect(const redundancy::BlockRef& block, uint32_t bytes) {
  const Place& place = PlaceOf(block);
  if (place.here.has_value() || place.node.empty()) return;
  // The reads go out with the next ReadBlocks, which follows soon: they wait for leases, which all nodes are asked for by then.
  RemoteOf(block).AskForLease();
  for (const ReadPlan::Entry& entry : InStream(block, bytes)) plan_.Add(entry);
}

void SetSource::LetGo() {
  arrived_.clear();
  remote_.clear();
  replicas_.clear();
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

Status SetSource::ReadHere(const HeldStream& held, uint64_t offset, std::span<std::byte> to) {
  if (offset > held.bytes() || to.size() > held.bytes() - offset) {
    return Status(Code::kCorrupt, "it is shorter here than it should be");
  }
  return held.Read(offset, to.size(), to.data());
}

// Each wait is long.
Status SetSource::GiveUpWhereSilent(const std::string& node, Status status) {
  if (status.code() == Code::kTimeout || status.code() == Code::kUnavailable) GiveUp(node);
  return status;
}

Status SetSource::Arrive(const ReadPlan::Entry& entry, std::span<std::byte> to, ByteSpan* view) {
  const std::string node = PlaceOf(entry.block).node;
  if (node.empty()) return Status(Code::kUnavailable, "it is on no node that answers");
  plan_.Remove(entry);
  Result<ArrivedBytes> arrived = RemoteOf(entry.block).Read(entry.block.offset, entry.bytes);
  if (!arrived.ok()) return GiveUpWhereSilent(node, arrived.status());
  if (view != nullptr) {
    *view = arrived->bytes();
    arrived_.push_back(std::move(*arrived));
  } else {
    std::memcpy(to.data(), arrived->bytes().data(), to.size());
  }
  return Status::Ok();
}

Status SetSource::ReadStream(uint32_t member, uint64_t offset, std::span<std::byte> to) {
  const Place& place = streams_[member];
  if (place.here.has_value()) return ReadHere(*place.here, offset, to);
  if (place.node.empty()) return Status(Code::kUnavailable, "it is on no node that answers");
  const std::string node = place.node;
  std::unique_ptr<RemoteObject>& remote = replicas_[member];
  if (remote == nullptr) remote = MakeRemote(member, /*of_object=*/false, node);
  const Result<ArrivedBytes> arrived = remote->Read(offset, to.size());
  if (!arrived.ok()) return GiveUpWhereSilent(node, arrived.status());
  std::memcpy(to.data(), arrived->bytes().data(), to.size());
  return Status::Ok();
}

void SetSource::GiveUp(const std::string& node) {
  for (auto* places : {&streams_, &objects_}) {
    for (Place& place : *places) {
      if (place.node == node) place.node.clear();
    }
  }
  std::erase_if(remote_, [&](const auto& entry) { return entry.second->node() == node; });
  std::erase_if(replicas_, [&](const auto& entry) { return entry.second->node() == node; });
}

void SetSource::ReadBlocks(std::span<Read> reads) {
  arrived_.clear();
  std::vector<std::vector<ReadPlan::Entry>> parts;
  std::vector<ReadPlan::Entry> now;
  for (const Read& read : reads) {
    parts.push_back(InStream(read.block, static_cast<uint32_t>(read.to.size())));
    const bool is_there = Has(read.block.member, read.block.parity) && !PlaceOf(read.block).here.has_value();
    if (is_there) now.insert(now.end(), parts.back().begin(), parts.back().end());
  }
  // Where there are more than buffers, each is copied and let go at once.
  const bool keep = now.size() <= kBuffersMax;
  plan_.Want(now,
             [this](const ReadPlan::Entry& entry) { return RemoteOf(entry.block).IsExpected(entry.block.offset, entry.bytes); });
  BeginPlanned();
  for (size_t i = 0; i < reads.size(); ++i) {
    Read& read = reads[i];
    std::span<std::byte> left = read.to;
    for (const ReadPlan::Entry& part : parts[i]) {
      const std::span<std::byte> to = left.first(part.bytes);
      left = left.subspan(part.bytes);
      const Place& place = PlaceOf(read.block);
      if (place.here.has_value()) {
        read.status = ReadHere(*place.here, part.block.offset, to);
      } else {
        read.status = Arrive(part, to, keep && parts[i].size() == 1 ? &read.view : nullptr);
        BeginPlanned();
      }
      if (!read.status.ok()) break;
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

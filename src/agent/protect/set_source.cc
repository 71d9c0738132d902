#include "agent/protect/set_source.h"

#include <cstring>
#include <utility>

namespace kedge {

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

}  // namespace kedge

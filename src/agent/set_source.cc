#include "agent/set_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "os/kill_point.h"
#include "redundancy/block_table.h"

namespace kedge {

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

uint64_t SetSource::EndOf(const redundancy::BlockRef& block) const {
  return block.parity ? UINT64_MAX : set_.members[block.member].blocks.bytes;
}

SetSource::~SetSource() {
  while (!leases_.empty()) DropLease({leases_.begin()->first.first, leases_.begin()->first.second, 0});
}

ReadRequest SetSource::RequestFor(const redundancy::BlockRef& block) const {
  ReadRequest request;
  request.of_object = block.parity;
  request.set = set_.identity;
  request.member = block.member;
  request.generation = set_.identity.generation;
  request.rank = set_.members[block.member].rank.value_or(0);
  return request;
}

const SetSource::Leased& SetSource::LeaseOf(const redundancy::BlockRef& block, const std::string& node) {
  auto [lease, is_new] = leases_.try_emplace({block.member, block.parity}, Leased{node, {}});
  if (!is_new) return lease->second;
  auto answer = link_.Ask(node, PeerKind::kLease, Encode(RequestFor(block)), timeout_);
  auto reply = answer.ok() ? DecodeLeaseReply(*answer) : Result<LeaseReply>(answer.status());
  if (reply.ok()) lease->second.parts = std::move(reply->parts);
  return lease->second;
}

void SetSource::DropLease(const redundancy::BlockRef& block) {
  auto lease = leases_.extract({block.member, block.parity});
  if (lease.empty()) return;
  for (const LeasedPart& part : lease.mapped().parts) link_.EndLease(lease.mapped().node, part.memory);
}

PendingAnswer SetSource::Ask(const redundancy::BlockRef& block, uint64_t bytes, const std::string& node) {
  PendingAnswer answer;
  for (const LeasedPart& part : LeaseOf(block, node).parts) {
    if (block.offset < part.offset || block.offset + bytes > part.offset + part.memory.bytes) continue;
    link_.ReadAsync(node, part.memory, block.offset - part.offset, bytes, timeout_, answer.Setter());
    return answer;
  }
  ReadRequest request = RequestFor(block);
  request.offset = block.offset;
  request.bytes = static_cast<uint32_t>(bytes);
  link_.AskAsync(node, PeerKind::kRead, Encode(request), timeout_, answer.Setter());
  return answer;
}

void SetSource::ReadBlocks(std::span<Read> reads) {
  std::vector<std::optional<PendingAnswer>> answers(reads.size());
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto& block = reads[i].block;
    Place& place = PlaceOf(block);
    if (place.here.has_value()) {
      if (block.offset + reads[i].to.size() > place.here->bytes()) {
        reads[i].status = Status(Code::kCorrupt, "it is shorter here than it should be");
      } else {
        reads[i].status = place.here->Read(block.offset, reads[i].to.size(), reads[i].to.data());
      }
      continue;
    }
    if (place.node.empty()) {
      reads[i].status = Status(Code::kUnavailable, "it is on no node that answers");
      continue;
    }
    auto ahead = ahead_.find({block.member, block.parity});
    if (ahead != ahead_.end() && ahead->second.offset == block.offset && ahead->second.bytes == reads[i].to.size()) {
      answers[i] = std::move(ahead->second.answer);
    } else {
      answers[i] = Ask(block, reads[i].to.size(), place.node);
    }
    if (ahead != ahead_.end()) ahead_.erase(ahead);
    // The next block of the same member is most likely what is wanted next.
    const redundancy::BlockRef next{block.member, block.parity, block.offset + reads[i].to.size()};
    const uint64_t end = EndOf(next);
    if (!block.parity && next.offset < end) {
      const uint64_t bytes = std::min<uint64_t>(reads[i].to.size(), end - next.offset);
      ahead_[{next.member, next.parity}] = Ahead{next.offset, static_cast<uint32_t>(bytes), Ask(next, bytes, place.node)};
    }
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!answers[i].has_value()) continue;
    // The margin is for a loop that is busy, or gone.
    Result<Buffer> reply = answers[i]->Wait(timeout_ + std::chrono::seconds(5));
    const Code failed = reply.status().code();
    if (!reply.ok() && failed != Code::kTimeout && failed != Code::kUnavailable &&
        leases_.contains({reads[i].block.member, reads[i].block.parity})) {
      // The lease may have run out: asked once more, the plain way.
      const std::string node = PlaceOf(reads[i].block).node;
      DropLease(reads[i].block);
      leases_[{reads[i].block.member, reads[i].block.parity}].node = node;
      if (!node.empty()) reply = Ask(reads[i].block, reads[i].to.size(), node).Wait(timeout_ + std::chrono::seconds(5));
    }
    if (reply.ok() && reply->size() != reads[i].to.size()) reply = Status(Code::kCorrupt, "an answer of another length");
    reads[i].status = reply.status();
    if (reply.ok()) std::memcpy(reads[i].to.data(), reply->data(), reply->size());
    // Who does not answer once is waited for no more: each wait is long.
    const Code code = reads[i].status.code();
    if (code == Code::kTimeout || code == Code::kUnavailable) {
      const std::string node = PlaceOf(reads[i].block).node;
      for (auto* places : {&streams_, &objects_}) {
        for (Place& place : *places) {
          if (place.node == node) place.node.clear();
        }
      }
    }
  }
}

Status SetSource::ReadStream(uint32_t member, uint64_t offset, std::span<std::byte> to) {
  std::array<Read, 1> reads{Read{{member, false, offset}, to, Status::Ok()}};
  ReadBlocks(reads);
  return reads[0].status;
}

Result<BlockTable> MakeParity(const SetRecord& set, uint32_t member, SetSource& source, const HeldStream& object) {
  KEDGE_ASSIGN_OR_RETURN(const redundancy::SetArithmetic arithmetic, redundancy::SetArithmetic::Make(set));
  const redundancy::ParityTables no_parity(set.members.size());
  redundancy::Assembler assembler(set, arithmetic, no_parity, source);
  const uint32_t block_bytes = arithmetic.geometry().block_bytes();
  const uint64_t bytes = arithmetic.geometry().parity_bytes();
  redundancy::BlockTableBuilder table(bytes, block_bytes);
  Buffer block(block_bytes);
  for (uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    KEDGE_RETURN_IF_ERROR(assembler.Assemble({member, true, offset}, block));
    KEDGE_RETURN_IF_ERROR(object.Write(offset, block_bytes, block.data()));
    table.Add(block);
    os::KillPoint("protect-block");
  }
  return table.Finish();
}

Result<BlockTable> MakeCopy(const SetRecord& set, uint32_t member, SetSource& source, const HeldStream& object) {
  const BlockTable& table = set.members[member].blocks;
  Buffer block(table.block_bytes);
  for (uint64_t offset = 0; offset < table.bytes; offset += table.block_bytes) {
    const std::span<std::byte> part(block.data(), redundancy::BlockLength(table, offset));
    KEDGE_RETURN_IF_ERROR(source.ReadStream(member, offset, part));
    if (!redundancy::BlockIsRight(table, offset, part)) {
      return Status(Code::kCorrupt, fmt::format("{}: the block at {} of member {} ({}) fails its checksum",
                                                set.identity.ToString(), offset, member, set.members[member].node));
    }
    KEDGE_RETURN_IF_ERROR(object.Write(offset, part.size(), part.data()));
    os::KillPoint("protect-block");
  }
  return table;
}

}  // namespace kedge

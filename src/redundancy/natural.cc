#include "redundancy/natural.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "reduce/fingerprint.h"
#include "redundancy/block_table.h"

namespace kedge::redundancy {
namespace {

// What parity or copies must get shorter by: each natural block costs some bytes of the set record, and a read of its own at a
// restart.
constexpr uint64_t kWorthOneIn = 16;

// What is encoded against one loss: the longest stream, as parity, or all of them, as copies.
struct EncodedBytes {
  uint64_t whole = 0;
  uint64_t thin = 0;

  void Add(Scheme scheme, const SetMember& member) {
    const bool copies = scheme == Scheme::kPartner;
    whole = copies ? whole + member.blocks.bytes : std::max(whole, member.blocks.bytes);
    thin = copies ? thin + member.thin_bytes() : std::max(thin, member.thin_bytes());
  }
};

// Blocks of different sizes are different, whatever their fingerprints.
struct SizedBlock {
  uint32_t bytes = 0;
  Fingerprint fingerprint;
  friend bool operator==(const SizedBlock&, const SizedBlock&) = default;
};
struct HashOfSizedBlock {
  size_t operator()(const SizedBlock& block) const { return reduce::NumberOf(block.fingerprint); }
};

}  // namespace

void KeepNatural(Scheme scheme, uint32_t parity, std::vector<SetMember>* members) {
  struct Owners {
    uint32_t count = 0;
    const SetMember* last = nullptr;  // a member counts once
  };
  size_t blocks = 0;
  for (const SetMember& member : *members) blocks += member.natural.blocks.size();
  std::unordered_map<SizedBlock, Owners, HashOfSizedBlock> owners;
  owners.reserve(blocks);
  for (const SetMember& member : *members) {
    for (const NaturalBlocks::Block& block : member.natural.blocks) {
      Owners& of_block = owners[{member.natural.block_bytes, block.fingerprint}];
      if (std::exchange(of_block.last, &member) != &member) ++of_block.count;
    }
  }
  EncodedBytes encoded;
  for (SetMember& member : *members) {
    std::erase_if(member.natural.blocks, [&](const NaturalBlocks::Block& block) {
      return owners[{member.natural.block_bytes, block.fingerprint}].count <= parity;
    });
    encoded.Add(scheme, member);
  }
  const bool is_worth_it = encoded.whole - encoded.thin >= encoded.whole / kWorthOneIn;
  for (SetMember& member : *members) {
    if (!is_worth_it || member.natural.blocks.empty()) member.natural = {};
  }
}

ThinStream::ThinStream(const SetMember& member)
    : hole_bytes_(member.natural.block_bytes), bytes_(member.thin_bytes()), stream_bytes_(member.blocks.bytes) {
  holes_.reserve(member.natural.blocks.size());
  uint64_t left_out = 0;
  for (const NaturalBlocks::Block& block : member.natural.blocks) {
    holes_.push_back({block.offset, block.offset - left_out, block.fingerprint});
    left_out += hole_bytes_;
  }
}

std::vector<ThinStream::Hole>::const_iterator ThinStream::HoleFrom(uint64_t stream_offset) const {
  return std::partition_point(holes_.begin(), holes_.end(),
                              [&](const Hole& hole) { return hole.offset + hole_bytes_ <= stream_offset; });
}

uint64_t ThinStream::ThinBefore(uint64_t stream_offset) const {
  const auto next = HoleFrom(stream_offset);
  if (next != holes_.end() && next->offset < stream_offset) return next->thin_offset;
  return stream_offset - static_cast<uint64_t>(next - holes_.begin()) * hole_bytes_;
}

std::vector<ThinStream::Piece> ThinStream::OfThin(uint64_t offset, uint64_t bytes) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  std::vector<Piece> pieces;
  // Holes at the very place lie before it.
  auto next =
      std::upper_bound(holes_.begin(), holes_.end(), offset, [](uint64_t at, const Hole& hole) { return at < hole.thin_offset; });
  while (bytes > 0) {
    const uint64_t left = next == holes_.end() ? bytes : std::min(bytes, next->thin_offset - offset);
    const uint64_t left_out = static_cast<uint64_t>(next - holes_.begin()) * hole_bytes_;
    if (left > 0) pieces.push_back({offset + left_out, left, offset, 0, {}});
    offset += left;
    bytes -= left;
    if (next != holes_.end()) ++next;
  }
  return pieces;
}

std::vector<ThinStream::Piece> ThinStream::OfStream(uint64_t offset, uint64_t bytes) const {
  KEDGE_CHECK(offset <= stream_bytes_ && bytes <= stream_bytes_ - offset);
  std::vector<Piece> pieces;
  auto next = HoleFrom(offset);
  while (bytes > 0) {
    const uint64_t left_out = static_cast<uint64_t>(next - holes_.begin()) * hole_bytes_;
    if (next != holes_.end() && next->offset <= offset) {
      const uint64_t within = offset - next->offset;
      const uint64_t length = std::min(bytes, hole_bytes_ - within);
      pieces.push_back({offset, length, std::nullopt, within, next->fingerprint});
      ++next;
    } else {
      const uint64_t length = next == holes_.end() ? bytes : std::min(bytes, next->offset - offset);
      pieces.push_back({offset, length, offset - left_out, 0, {}});
    }
    offset += pieces.back().bytes;
    bytes -= pieces.back().bytes;
  }
  return pieces;
}

BlockTable ThinTable(const SetMember& member) {
  if (member.natural.blocks.empty()) return member.blocks;
  const BlockTable& all = member.blocks;
  BlockTable thin{member.thin_bytes(), all.block_bytes, {}};
  thin.crc32c.reserve(thin.BlockCount());
  auto from = all.crc32c.begin();
  for (const NaturalBlocks::Block& block : member.natural.blocks) {
    const auto hole = all.crc32c.begin() + static_cast<std::ptrdiff_t>(block.offset / all.block_bytes);
    thin.crc32c.insert(thin.crc32c.end(), from, hole);
    from = hole + member.natural.block_bytes / all.block_bytes;
  }
  thin.crc32c.insert(thin.crc32c.end(), from, all.crc32c.end());
  return thin;
}

NaturalReplicas::NaturalReplicas(const SetRecord& set, uint32_t member)
    : set_(set), block_bytes_(set.members[member].natural.block_bytes) {
  for (const NaturalBlocks::Block& block : set.members[member].natural.blocks) places_[block.fingerprint];
  const auto members = static_cast<uint32_t>(set.members.size());
  for (uint32_t step = 1; step < members && !places_.empty(); ++step) {
    const uint32_t other = (member + step) % members;
    if (set.members[other].natural.block_bytes != block_bytes_) continue;
    for (const NaturalBlocks::Block& block : set.members[other].natural.blocks) {
      const auto known = places_.find(block.fingerprint);
      if (known == places_.end() || (!known->second.empty() && known->second.back().member == other)) continue;
      known->second.push_back({other, block.offset});
    }
  }
}

Status NaturalReplicas::FillBlock(const ThinStream::Piece& piece, std::span<std::byte> to, const Read& read) const {
  Status last(Code::kIncomplete, "no other member has it");
  Buffer whole(to.size() < block_bytes_ ? block_bytes_ : 0);
  const std::span<std::byte> block = whole.empty() ? to : std::span(whole);
  for (const Place& place : places_.at(piece.fingerprint)) {
    last = read(place.member, place.offset, block);
    if (last.ok() && reduce::FingerprintOf(block) != piece.fingerprint) {
      last = Status(Code::kCorrupt, fmt::format("node {} has another there", set_.members[place.member].node));
    }
    if (!last.ok()) continue;
    if (!whole.empty()) std::memcpy(to.data(), whole.data() + piece.within, to.size());
    return last;
  }
  return Status(Code::kIncomplete, fmt::format("{}: the natural block at {} is on no node that answers: {}",
                                               set_.identity.ToString(), piece.stream_offset, last.message()));
}

size_t NaturalReplicas::RunAt(std::span<const ThinStream::Piece> pieces) const {
  const auto first_place = [&](const ThinStream::Piece& piece) -> const Place* {
    const bool is_whole = !piece.thin_offset && piece.bytes == block_bytes_;
    const auto places = is_whole ? places_.find(piece.fingerprint) : places_.end();
    return places == places_.end() || places->second.empty() ? nullptr : &places->second.front();
  };
  const Place* const first = first_place(pieces.front());
  size_t run = 1;
  for (; first != nullptr && run < pieces.size(); ++run) {
    const Place* const place = first_place(pieces[run]);
    if (place == nullptr || place->member != first->member || place->offset != first->offset + run * block_bytes_) break;
  }
  return run;
}

Status NaturalReplicas::Fill(std::span<const ThinStream::Piece> pieces, uint64_t offset, std::span<std::byte> to,
                             const Read& read) const {
  for (size_t i = 0; i < pieces.size();) {
    if (pieces[i].thin_offset) {
      ++i;
      continue;
    }
    const size_t end = i + RunAt(pieces.subspan(i));
    const uint64_t run_bytes = pieces[end - 1].stream_offset + pieces[end - 1].bytes - pieces[i].stream_offset;
    if (end > i + 1) {
      const Place& first = places_.at(pieces[i].fingerprint).front();
      const Status came = read(first.member, first.offset, to.subspan(pieces[i].stream_offset - offset, run_bytes));
      while (came.ok() && i < end &&
             reduce::FingerprintOf(ByteSpan(to).subspan(pieces[i].stream_offset - offset, block_bytes_)) == pieces[i].fingerprint)
        ++i;
    }
    for (; i < end; ++i) {
      KEDGE_RETURN_IF_ERROR(FillBlock(pieces[i], to.subspan(pieces[i].stream_offset - offset, pieces[i].bytes), read));
    }
  }
  return Status::Ok();
}

}  // namespace kedge::redundancy

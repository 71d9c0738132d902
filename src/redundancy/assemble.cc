#include "redundancy/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "redundancy/block_table.h"

namespace kedge::redundancy {

namespace {

std::string Describe(const SetRecord& set, const BlockRef& block) {
  return fmt::format("the {} of node {} at {}", block.parity ? "parity" : "image", set.members[block.member].node, block.offset);
}

}  // namespace

Result<SetArithmetic> SetArithmetic::Make(const SetRecord& set) {
  KEDGE_RETURN_IF_ERROR(Validate(set));
  if (set.scheme != Scheme::kXor && set.scheme != Scheme::kReedSolomon) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: scheme {} has no parity", set.identity.ToString(), SchemeName(set.scheme)));
  }
  const Geometry geometry(set);
  std::vector<uint64_t> image_bytes;
  for (const SetMember& member : set.members) {
    if (member.blocks.block_bytes > geometry.block_bytes()) {
      return Status(Code::kInvalidArgument, fmt::format("{}: the blocks of node {} are larger than those of its set",
                                                        set.identity.ToString(), member.node));
    }
    image_bytes.push_back(member.blocks.bytes);
  }
  return SetArithmetic(geometry, std::move(image_bytes));
}

uint32_t SetArithmetic::BytesOf(const BlockRef& block) const {
  const uint64_t end = block.parity ? geometry_.parity_bytes() : image_bytes_[block.member];
  if (block.offset >= end) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(geometry_.block_bytes(), end - block.offset));
}

Result<std::vector<Term>> SetArithmetic::TermsOf(const BlockRef& wanted, const std::function<bool(const BlockRef&)>& usable,
                                                 FactorCache* cache) const {
  const CodePlace place = geometry_.PlaceOf(wanted);
  std::vector<uint32_t> chosen;
  const auto consider = [&](uint32_t position) {
    if (chosen.size() == code_.data() || position == place.position) return;
    const BlockRef block = geometry_.At({place.stripe, position, place.within});
    if (BytesOf(block) == 0 || usable(block)) chosen.push_back(position);
  };
  for (uint32_t position = code_.parity(); position < code_.members(); ++position) consider(position);
  for (uint32_t position = 0; position < code_.parity(); ++position) consider(position);
  if (chosen.size() < code_.data()) {
    return Status(Code::kIncomplete, fmt::format("{} of {} blocks that are needed are left", chosen.size(), code_.data()));
  }
  FactorCache fresh;
  FactorCache& known = cache != nullptr ? *cache : fresh;
  if (known.factors.empty() || known.wanted != place.position || known.available != chosen) {
    known = {chosen, place.position, code_.Factors(chosen, place.position)};
  }
  const std::vector<uint8_t>& factors = known.factors;
  std::vector<Term> terms;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const BlockRef block = geometry_.At({place.stripe, chosen[i], place.within});
    const uint32_t bytes = BytesOf(block);
    if (bytes > 0 && factors[i] != 0) terms.push_back({block, bytes, factors[i]});
  }
  return terms;
}

Assembler::Assembler(const SetRecord& set, const SetArithmetic& arithmetic, const ParityTables& parity_tables,
                     BlockSource& source)
    : set_(set), arithmetic_(arithmetic), parity_tables_(parity_tables), source_(source) {
  KEDGE_CHECK(parity_tables.size() == set.members.size());
  const Geometry& geometry = arithmetic.geometry();
  for (const SetMember& member : set.members) coarse_.push_back(Coarsen(member.blocks, geometry.block_bytes()));
  for (uint32_t i = 0; i < geometry.data(); ++i) {
    buffers_.push_back(std::make_unique_for_overwrite<std::byte[]>(geometry.block_bytes()));
  }
}

bool Assembler::Usable(const BlockRef& block) const {
  if (std::find(bad_in_stripe_.begin(), bad_in_stripe_.end(), block) != bad_in_stripe_.end()) return false;
  if (block.parity) {
    const BlockTable& table = parity_tables_[block.member];
    const Geometry& geometry = arithmetic_.geometry();
    if (table.bytes != geometry.parity_bytes() || table.block_bytes != geometry.block_bytes()) return false;
  }
  return source_.Has(block.member, block.parity);
}

Status Assembler::Verify(const BlockRef& block, ByteSpan bytes) const {
  const BlockTable& table = block.parity ? parity_tables_[block.member] : coarse_[block.member];
  if (BlockIsRight(table, block.offset, bytes)) return Status::Ok();
  return Status(Code::kCorrupt,
                fmt::format("{}: {} does not have its checksum", set_.identity.ToString(), Describe(set_, block)));
}

bool Assembler::ReadTerms(const std::vector<Term>& terms) {
  std::vector<BlockSource::Read> reads;
  reads.reserve(terms.size());
  for (size_t i = 0; i < terms.size(); ++i)
    reads.push_back({terms[i].block, {buffers_[i].get(), terms[i].bytes}, Status::Ok(), {}});
  source_.ReadBlocks(reads);
  bool good = true;
  views_.clear();
  for (BlockSource::Read& read : reads) {
    views_.push_back(read.bytes());
    Status status = read.status.ok() ? Verify(read.block, read.bytes()) : read.status;
    if (status.ok()) continue;
    good = false;
    bad_in_stripe_.push_back(read.block);
    bad_.push_back({read.block, std::move(status)});
  }
  return good;
}

void Assembler::AddUp(const std::vector<Term>& terms, std::span<std::byte> to) const {
  // All the bytes that every term has in one pass; then the rest of the longer ones.
  size_t common = to.size();
  for (const Term& term : terms) common = std::min<size_t>(common, term.bytes);
  std::vector<uint8_t> factors;
  std::vector<const std::byte*> sources;
  for (size_t i = 0; i < terms.size(); ++i) {
    factors.push_back(terms[i].factor);
    sources.push_back(views_[i].data());
  }
  if (terms.empty()) common = 0;
  if (common > 0) LinearSum(factors, sources, to.data(), common);
  std::memset(to.data() + common, 0, to.size() - common);
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t end = std::min<size_t>(terms[i].bytes, to.size());
    if (end > common) MultiplyAdd(factors[i], sources[i] + common, to.data() + common, end - common);
  }
}

void Assembler::Expect(const BlockRef& wanted) {
  const auto terms = arithmetic_.TermsOf(
      wanted, [this](const BlockRef& block) { return Usable(block); }, &expected_factors_);
  if (!terms.ok()) return;  // it is found out when it is assembled
  for (const Term& term : *terms) source_.Expect(term.block, term.bytes);
}

Status Assembler::Assemble(const BlockRef& wanted, std::span<std::byte> to) {
  KEDGE_CHECK(to.size() == arithmetic_.BytesOf(wanted));
  bad_in_stripe_.clear();
  const size_t bad_before = bad_.size();
  for (;;) {
    // Ends: each turn that does not succeed leaves at least one more block of the stripe out.
    const auto terms = arithmetic_.TermsOf(
        wanted, [this](const BlockRef& block) { return Usable(block); }, &factors_);
    if (!terms.ok()) {
      std::string bad;
      for (size_t i = bad_before; i < bad_.size(); ++i) bad += "; " + bad_[i].status.message();
      return Status(terms.status().code(), fmt::format("{}: {} cannot be made: {}{}", set_.identity.ToString(),
                                                       Describe(set_, wanted), terms.status().message(), bad));
    }
    if (!ReadTerms(*terms)) continue;
    AddUp(*terms, to);
    const Status made = wanted.parity ? Status::Ok() : Verify(wanted, to);
    if (made.ok()) return made;
    // All inputs were right, so a parity block was made wrong, and its table from it. Try without the last one.
    if (!terms->empty() && terms->back().block.parity) {
      const BlockRef& suspect = terms->back().block;
      bad_in_stripe_.push_back(suspect);
      bad_.push_back({suspect, Status(Code::kCorrupt,
                                      fmt::format("{}: with {}, which has its checksum, {} comes out wrong",
                                                  set_.identity.ToString(), Describe(set_, suspect), Describe(set_, wanted)))});
      continue;
    }
    return made;
  }
}

}  // namespace kedge::redundancy

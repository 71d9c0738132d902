#include "redundancy/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "redundancy/block_table.h"
#include "redundancy/natural.h"

namespace kedge::redundancy {

namespace {

// What is checked and added up at a time: of all the blocks of a sum together it stays in a processor's own cache.
constexpr size_t kSummedBytes = size_t{64} << 10;

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
  for (const SetMember& member : set.members) image_bytes.push_back(member.thin_bytes());
  return SetArithmetic(geometry, std::move(image_bytes));
}

uint32_t SetArithmetic::BytesOf(const BlockRef& block, uint32_t run_bytes) const {
  const uint64_t end = block.parity ? geometry_.parity_bytes() : image_bytes_[block.member];
  if (block.offset >= end) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(run_bytes, end - block.offset));
}

uint32_t SetArithmetic::RunBytesAt(const BlockRef& block) const {
  const uint64_t left = geometry_.segment_bytes() - block.offset % geometry_.segment_bytes();
  return static_cast<uint32_t>(std::min<uint64_t>(kBlockBytesMax, left));
}

Result<std::vector<Term>> SetArithmetic::TermsOf(const BlockRef& wanted, const std::function<bool(const BlockRef&)>& usable,
                                                 FactorCache* cache, uint32_t run_bytes) const {
  if (run_bytes == 0) run_bytes = geometry_.block_bytes();
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
    const uint32_t bytes = BytesOf(block, run_bytes);
    if (bytes > 0 && factors[i] != 0) terms.push_back({block, bytes, factors[i]});
  }
  return terms;
}

Assembler::Assembler(const SetRecord& set, const SetArithmetic& arithmetic, const ParityTables& parity_tables,
                     BlockSource& source)
    : set_(set), arithmetic_(arithmetic), parity_tables_(parity_tables), source_(source) {
  KEDGE_CHECK(parity_tables.size() == set.members.size());
  const Geometry& geometry = arithmetic.geometry();
  for (const SetMember& member : set.members) coarse_.push_back(Coarsen(ThinTable(member), geometry.block_bytes()));
  for (uint32_t i = 0; i < geometry.data(); ++i) {
    buffers_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlockBytesMax));
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

Status Assembler::Verify(const BlockRef& block, size_t bytes, uint32_t crc32c) const {
  const BlockTable& table = block.parity ? parity_tables_[block.member] : coarse_[block.member];
  if (bytes == BlockLength(table, block.offset) && crc32c == table.crc32c[block.offset / table.block_bytes]) return Status::Ok();
  return Status(Code::kCorrupt,
                fmt::format("{}: {} does not have its checksum", set_.identity.ToString(), Describe(set_, block)));
}

Status Assembler::VerifyMade(const BlockRef& wanted, ByteSpan to) const {
  if (wanted.parity) return Status::Ok();
  const uint32_t block_bytes = arithmetic_.geometry().block_bytes();
  for (size_t begin = 0; begin < to.size(); begin += block_bytes) {
    const size_t bytes = std::min<size_t>(block_bytes, to.size() - begin);
    KEDGE_RETURN_IF_ERROR(
        Verify({wanted.member, false, wanted.offset + begin}, bytes, crc32c::Compute(to.data() + begin, bytes)));
  }
  return Status::Ok();
}

void Assembler::NoteBad(const BlockRef& of, const BlockRef& block, Status status) {
  bad_in_stripe_.push_back(of);
  bad_.push_back({block, std::move(status)});
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
    if (read.status.ok() && read.bytes().size() != read.to.size())
      read.status = Status(Code::kCorrupt, "a block of another length");
    if (read.status.ok()) continue;
    good = false;
    NoteBad(read.block, read.block, std::move(read.status));
  }
  return good;
}

bool Assembler::AddUpVerified(const std::vector<Term>& terms, std::span<std::byte> to) {
  const uint32_t block_bytes = arithmetic_.geometry().block_bytes();
  // The ends of blocks that are longer than what is wanted of them count in their checksums, too.
  size_t end = to.size();
  for (const Term& term : terms) end = std::max<size_t>(end, term.bytes);
  bool good = true;
  std::vector<uint32_t> checksums(terms.size());
  for (size_t begin = 0; begin < end; begin += block_bytes) {
    const size_t block_end = std::min<size_t>(end, begin + block_bytes);
    std::fill(checksums.begin(), checksums.end(), 0);
    for (size_t at = begin; at < block_end; at += kSummedBytes) {
      const size_t part_end = std::min(block_end, at + kSummedBytes);
      for (size_t i = 0; i < terms.size(); ++i) {
        const size_t bytes = std::min<size_t>(terms[i].bytes, part_end) - std::min<size_t>(terms[i].bytes, at);
        if (bytes > 0) checksums[i] = crc32c::Extend(checksums[i], views_[i].data() + at, bytes);
      }
      if (at < to.size()) AddUp(terms, at, to.subspan(at, std::min(part_end, to.size()) - at));
    }
    for (size_t i = 0; i < terms.size(); ++i) {
      if (terms[i].bytes <= begin) continue;
      const BlockRef block{terms[i].block.member, terms[i].block.parity, terms[i].block.offset + begin};
      Status status = Verify(block, std::min<size_t>(terms[i].bytes, block_end) - begin, checksums[i]);
      if (status.ok()) continue;
      good = false;
      NoteBad(terms[i].block, block, std::move(status));
    }
  }
  return good;
}

void Assembler::AddUp(const std::vector<Term>& terms, size_t at, std::span<std::byte> to) const {
  // All the bytes that every term has in one pass; then the rest of the longer ones.
  const auto bytes_of = [&](const Term& term) {
    return std::min<size_t>(term.bytes - std::min<size_t>(term.bytes, at), to.size());
  };
  size_t common = terms.empty() ? 0 : to.size();
  for (const Term& term : terms) common = std::min(common, bytes_of(term));
  std::vector<uint8_t> factors;
  std::vector<const std::byte*> sources;
  for (size_t i = 0; i < terms.size(); ++i) {
    factors.push_back(terms[i].factor);
    sources.push_back(views_[i].data() + std::min<size_t>(at, terms[i].bytes));
  }
  if (common > 0) LinearSum(factors, sources, to.data(), common);
  std::memset(to.data() + common, 0, to.size() - common);
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t bytes = bytes_of(terms[i]);
    if (bytes > common) MultiplyAdd(factors[i], sources[i] + common, to.data() + common, bytes - common);
  }
}

void Assembler::Expect(const BlockRef& wanted, uint32_t run_bytes) {
  const auto terms = arithmetic_.TermsOf(
      wanted, [this](const BlockRef& block) { return Usable(block); }, &expected_factors_, run_bytes);
  if (!terms.ok()) return;  // it is found out when it is assembled
  for (const Term& term : *terms) source_.Expect(term.block, term.bytes);
}

Status Assembler::Assemble(const BlockRef& wanted, std::span<std::byte> to) {
  const size_t bad_before = bad_.size();
  Status status = AssembleRun(wanted, to);
  const uint32_t block_bytes = arithmetic_.geometry().block_bytes();
  if (status.ok() || to.size() <= block_bytes) return status;
  // Bad blocks of several members in one run need not be of one code word.
  bad_.erase(bad_.begin() + static_cast<std::ptrdiff_t>(bad_before), bad_.end());
  for (size_t begin = 0; begin < to.size(); begin += block_bytes) {
    const BlockRef block{wanted.member, wanted.parity, wanted.offset + begin};
    KEDGE_RETURN_IF_ERROR(AssembleRun(block, to.subspan(begin, std::min<size_t>(block_bytes, to.size() - begin))));
  }
  return Status::Ok();
}

Status Assembler::AssembleRun(const BlockRef& wanted, std::span<std::byte> to) {
  const uint32_t block_bytes = arithmetic_.geometry().block_bytes();
  const auto run_bytes = static_cast<uint32_t>((to.size() + block_bytes - 1) / block_bytes * block_bytes);
  KEDGE_CHECK(run_bytes <= arithmetic_.RunBytesAt(wanted) && to.size() == arithmetic_.BytesOf(wanted, run_bytes));
  bad_in_stripe_.clear();
  const size_t bad_before = bad_.size();
  for (;;) {
    // Ends: each turn that does not succeed leaves at least one more block of the stripe out.
    const auto terms = arithmetic_.TermsOf(
        wanted, [this](const BlockRef& block) { return Usable(block); }, &factors_, run_bytes);
    if (!terms.ok()) {
      std::string bad;
      for (size_t i = bad_before; i < bad_.size(); ++i) bad += "; " + bad_[i].status.message();
      return Status(terms.status().code(), fmt::format("{}: {} cannot be made: {}{}", set_.identity.ToString(),
                                                       Describe(set_, wanted), terms.status().message(), bad));
    }
    if (!ReadTerms(*terms) || !AddUpVerified(*terms, to)) continue;
    Status made = VerifyMade(wanted, to);
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

// Making a block of a set out of other blocks of its stripe: encoding and rebuilding are the same thing. Blocks are of the
// members' thin streams (natural.h), which are called their streams here.
//
// Blocks of small images are small, too, and each read of another node costs the same whatever it brings: so blocks are made in
// *runs*, several that follow each other in their segment, and only where that fails one by one. Every block that goes in is held
// against its table first, and what comes out against its own where there is one. A block that cannot be had or is wrong is left
// out from then on, and another combination of the stripe is tried, until it works or too few are left. Memory is bounded: data()
// + 1 runs for each Assembler. Who reads the blocks, from where and how many at once, is the caller's (BlockSource).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/set_records.h"
#include "redundancy/code.h"
#include "redundancy/geometry.h"

namespace kedge::redundancy {

// A block of a sum, or a run that begins with it. `bytes` less than block or run: the rest of it is zeros (the end of a shorter
// image), which nobody reads.
struct Term {
  BlockRef block;
  uint32_t bytes = 0;
  uint8_t factor = 0;
  friend bool operator==(const Term&, const Term&) = default;
};

// The factors of the last code word, which are those of all the others of its stripe: finding them costs the cube of data().
struct FactorCache {
  std::vector<uint32_t> available;
  uint32_t wanted = 0;
  std::vector<uint8_t> factors;  // empty: none yet
};

// What the arithmetic of a set needs of its record. Immutable; shared by threads.
class SetArithmetic {
 public:
  // Of a valid set record, scheme XOR or Reed-Solomon. kInvalidArgument otherwise.
  static Result<SetArithmetic> Make(const SetRecord& set);

  const Geometry& geometry() const { return geometry_; }
  const StripeCode& code() const { return code_; }
  // Of a member's stream, as the set record says.
  uint64_t image_bytes(uint32_t member) const { return image_bytes_[member]; }
  // How many bytes of a block are not zeros beyond the image's end: none, some, or a whole block.
  uint32_t BytesOf(const BlockRef& block) const { return BytesOf(block, geometry_.block_bytes()); }
  // The same of the `run_bytes` that begin with it.
  uint32_t BytesOf(const BlockRef& block, uint32_t run_bytes) const;
  // How long a run may be that begins with the block: whole blocks up to kBlockBytesMax, and no further than its segment.
  uint32_t RunBytesAt(const BlockRef& block) const;

  // The terms whose sum is `wanted`, or the run of `run_bytes` that begins with it; only of blocks that `usable` says may be
  // used; blocks of zeros are not listed and need no asking. Data come before parity rows, lower rows before higher ones, so that
  // encoding takes data alone and one loss costs an XOR. kIncomplete: too few blocks are left; the message counts them. `cache`,
  // one for each thread, may be left out; `run_bytes` 0 is one block.
  Result<std::vector<Term>> TermsOf(const BlockRef& wanted, const std::function<bool(const BlockRef&)>& usable,
                                    FactorCache* cache = nullptr, uint32_t run_bytes = 0) const;

 private:
  SetArithmetic(Geometry geometry, std::vector<uint64_t> image_bytes)
      : geometry_(geometry), code_(geometry.members(), geometry.parity()), image_bytes_(std::move(image_bytes)) {}

  Geometry geometry_;
  StripeCode code_;
  std::vector<uint64_t> image_bytes_;
};

// Where an Assembler gets blocks from.
class BlockSource {
 public:
  struct Read {
    BlockRef block;           // or the first of a run
    std::span<std::byte> to;  // exactly the bytes wanted
    Status status;            // set by ReadBlocks
    ByteSpan view;            // set where the bytes lie elsewhere than in `to`: they stay there until the next ReadBlocks
    ByteSpan bytes() const { return view.empty() ? ByteSpan(to) : view; }
  };
  virtual ~BlockSource() = default;
  // Whether the member's stream (or parity object) can be had at all: of no node that is known to be lost.
  virtual bool Has(uint32_t member, bool parity) = 0;
  // Reads all, best at once, and sets each one's status. Waits are bounded. Nothing needs to be verified here.
  virtual void ReadBlocks(std::span<Read> reads) = 0;
  // `bytes` from the block's begin on will be read soon: what can be on its way meanwhile may be.
  virtual void Expect(const BlockRef& /*block*/, uint32_t /*bytes*/) {}
};

// A block that was left out, for the log, the counters, and the repair of what it belongs to.
struct BadBlock {
  BlockRef block;
  Status status;  // kCorrupt: wrong checksum; else as it was read
};

// Tables of parity objects, by member; empty where that object is not there.
using ParityTables = std::vector<BlockTable>;

class Assembler {
 public:
  // All must outlive it. `parity_tables` has an entry for each member; a parity object whose table is empty is not used.
  Assembler(const SetRecord& set, const SetArithmetic& arithmetic, const ParityTables& parity_tables, BlockSource& source);

  // Makes `wanted` (never read itself), or a run that begins with it, in `to`: arithmetic.BytesOf(wanted, run) bytes. A block of
  // a stream has the checksum of the set's table when Ok is returned, also when it was made by wrong arithmetic or memory.
  // kIncomplete: too few good blocks; the message says which were bad. kCorrupt: the result is wrong although all inputs
  // were right. Not thread safe; each thread has its own.
  Status Assemble(const BlockRef& wanted, std::span<std::byte> to);

  // `wanted`, or so long a run, will be assembled soon, after what was expected before: its source is told.
  void Expect(const BlockRef& wanted, uint32_t run_bytes = 0);

  // Everything that was found bad since the last call.
  std::vector<BadBlock> TakeBadBlocks() { return std::move(bad_); }

 private:
  Status AssembleRun(const BlockRef& wanted, std::span<std::byte> to);
  bool Usable(const BlockRef& block) const;
  // Reads all terms into `views_`; false when one could not be read (and is now noted).
  bool ReadTerms(const std::vector<Term>& terms);
  // Adds the terms up and verifies them in the same pass, part by part, so that each byte comes into the cache once. False when
  // one was bad (and is now noted): `to` is of no use then.
  bool AddUpVerified(const std::vector<Term>& terms, std::span<std::byte> to);
  // Of what was made, for which `to` is whole blocks but for the image's end.
  Status VerifyMade(const BlockRef& wanted, ByteSpan to) const;
  // Bytes from `at` on of the sum; `to` are these.
  void AddUp(const std::vector<Term>& terms, size_t at, std::span<std::byte> to) const;
  // `block` is that block, or one of the run that begins with `of`.
  void NoteBad(const BlockRef& of, const BlockRef& block, Status status);
  // Against the table of the set or of the parity object.
  Status Verify(const BlockRef& block, size_t bytes, uint32_t crc32c) const;

  const SetRecord& set_;
  const SetArithmetic& arithmetic_;
  const ParityTables& parity_tables_;
  BlockSource& source_;
  std::vector<BlockTable> coarse_;  // streams' tables in the set's blocks, where their own are smaller
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::vector<ByteSpan> views_;  // of the terms that were read last
  FactorCache factors_;
  FactorCache expected_factors_;
  std::vector<BadBlock> bad_;
  std::vector<BlockRef> bad_in_stripe_;  // of the block being made
};

}  // namespace kedge::redundancy

// A cluster of nodes in memory: images, copies, parity objects and records lie in maps, and can be lost or damaged. It does
// what agents do, over the same functions and in the same order, with memory in place of tiers and network: block tables by
// the owners, set records by every member, parity and copies by their holders, restart from the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "redundancy/assemble.h"
#include "redundancy/layout.h"
#include "redundancy/plan.h"

namespace kedge::redundancy::testing {

struct MemoryNode {
  std::map<uint32_t, Buffer> images;  // by rank: its own and whole copies, as streams
  struct Parity {
    HeldParity held;
    BlockTable table;
    Buffer bytes;
  };
  std::vector<Parity> parity;       // or copies of thin streams
  std::vector<Buffer> set_records;  // encoded
};

class MemoryCluster {
 public:
  // `image_bytes`, by rank: at least 8 each.
  MemoryCluster(Layout layout, const std::vector<uint64_t>& image_bytes, uint64_t seed);

  const Layout& layout() const { return layout_; }
  uint32_t ranks() const { return static_cast<uint32_t>(originals_.size()); }
  const Buffer& original(uint32_t rank) const { return originals_[rank]; }
  std::map<std::string, MemoryNode>& nodes() { return nodes_; }
  const Generation& generation() const { return generation_; }

  // Some blocks of `block_bytes` become equal to some of other images, and are looked for when sets are made (natural.h). They
  // begin at multiples of kBlockBytesMin. Before Protect.
  void ShareBlocks(uint32_t block_bytes, double chance);

  // Called between the making of a set's record and its encoding: for a test that damages something then.
  std::function<void()> before_encoding;

  // Makes records, parity objects and copies of all sets. An error names what is wrong with a block that was read.
  Status Protect();
  void Lose(const std::string& node) { nodes_.erase(node); }

  std::vector<NodeInventory> Inventories() const;
  // What came back, and how.
  struct Restored {
    Status status;
    Buffer bytes;  // when status is Ok
    SourceKind from = SourceKind::kLocal;
    std::vector<BadBlock> bad;  // what was passed over on the way
  };
  // As restart on `here` (a node, or none) does: the plan's sources in order, each block verified, a bad one made from the
  // others of its stripe where the scheme can.
  Restored Restore(uint32_t rank, const std::string& here = {});

  // The decoded record of a set that a rank's image is in, from any survivor; null when none is left.
  std::shared_ptr<const SetRecord> FindSet(uint32_t rank) const;
  // The survivors' bytes, for an Assembler of a set.
  std::unique_ptr<BlockSource> MakeSource(const SetRecord& set) const;
  ParityTables TablesOf(const SetRecord& set) const;

 private:
  Status ProtectSet(uint32_t group, uint32_t index);
  Status MakeCopies(const SetRecord& set, uint32_t record_crc32c);
  Status MakeParity(const SetRecord& set, uint32_t record_crc32c);
  // A block of a stream, made of what survives of thin streams, parity and other members' natural blocks.
  static Status RebuildBlock(const SetRecord& set, const SetArithmetic& arithmetic, Assembler* assembler, BlockSource* source,
                             const BlockRef& block, std::span<std::byte> to);
  // The same of the copy of the thin stream that lies on `holder`.
  Status CopyBlock(const SetRecord& set, const std::string& holder, BlockSource* source, const BlockRef& block,
                   std::span<std::byte> to) const;
  static Status FillNatural(const SetRecord& set, BlockSource* source, const BlockRef& block, std::span<std::byte> to);
  // One block, from the first of the plan's sources that gives it rightly.
  using Rebuild = std::function<Status(const Source& source, const BlockRef& block, std::span<std::byte> to)>;
  Status RestoreBlock(const SetRecord& set, const RankPlan& plan, const Rebuild& rebuild, const BlockRef& block,
                      std::span<std::byte> to, Restored* restored);

  Layout layout_;
  Generation generation_;
  std::vector<Buffer> originals_;
  uint32_t natural_block_bytes_ = 0;
  std::vector<uint64_t> natural_begins_;  // by rank
  std::map<std::string, MemoryNode> nodes_;
};

}  // namespace kedge::redundancy::testing

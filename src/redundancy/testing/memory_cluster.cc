#include "redundancy/testing/memory_cluster.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"
#include "reduce/fingerprint.h"
#include "redundancy/block_table.h"
#include "redundancy/natural.h"

namespace kedge::redundancy::testing {

namespace {

constexpr size_t kRecordBytes = 8;  // what stands for the image record

BlockTable TableOf(ByteSpan bytes, uint32_t block_bytes) {
  BlockTableBuilder builder(bytes.size(), block_bytes);
  builder.Add(bytes);
  return builder.Finish();
}

NaturalBlocks CandidatesOf(ByteSpan image, uint64_t begin, uint32_t block_bytes) {
  NaturalBlocks found{block_bytes, {}};
  for (uint64_t at = begin; at + block_bytes + kRecordBytes <= image.size(); at += block_bytes) {
    found.blocks.push_back({at, reduce::FingerprintOf(image.subspan(at, block_bytes))});
  }
  if (found.blocks.empty()) found.block_bytes = 0;
  return found;
}

// Reads what the surviving nodes have of one set.
class ClusterSource : public BlockSource {
 public:
  ClusterSource(const SetRecord& set, const std::map<std::string, MemoryNode>& nodes) : set_(set), nodes_(nodes) {}

  bool Has(uint32_t member, bool parity) override { return Find(member, parity) != nullptr; }
  void ReadBlocks(std::span<Read> reads) override {
    for (Read& read : reads) {
      const Buffer* bytes = Find(read.block.member, read.block.parity);
      if (read.block.parity || bytes == nullptr) {
        read.status = Copy(bytes, read.block.offset, read.to);
        continue;
      }
      std::span<std::byte> left = read.to;
      for (const auto& piece : ThinStream(set_.members[read.block.member]).OfThin(read.block.offset, read.to.size())) {
        if (read.status.ok()) read.status = Copy(bytes, piece.stream_offset, left.first(piece.bytes));
        left = left.subspan(piece.bytes);
      }
    }
  }
  Status ReadStream(uint32_t member, uint64_t offset, std::span<std::byte> to) const {
    return Copy(Find(member, false), offset, to);
  }

 private:
  static Status Copy(const Buffer* from, uint64_t offset, std::span<std::byte> to) {
    if (from == nullptr || offset + to.size() > from->size()) return Status(Code::kUnavailable, "not there");
    std::memcpy(to.data(), from->data() + offset, to.size());
    return Status::Ok();
  }
  const Buffer* Find(uint32_t member, bool parity) const {
    for (const auto& [name, node] : nodes_) {
      if (parity) {
        for (const MemoryNode::Parity& held : node.parity) {
          if (held.held.set == set_.identity && held.held.member == member) return &held.bytes;
        }
      } else if (set_.members[member].rank) {
        const auto image = node.images.find(*set_.members[member].rank);
        if (image != node.images.end()) return &image->second;
      }
    }
    return nullptr;
  }

  const SetRecord& set_;
  const std::map<std::string, MemoryNode>& nodes_;
};

}  // namespace

MemoryCluster::MemoryCluster(Layout layout, const std::vector<uint64_t>& image_bytes, uint64_t seed)
    : layout_(std::move(layout)), generation_{{1, seed}, "job", "checkpoint", 7, 1, 1} {
  Random random(seed);
  for (const uint64_t bytes : image_bytes) {
    KEDGE_CHECK(bytes >= kRecordBytes);
    random.Fill(originals_.emplace_back(bytes).data(), bytes);
  }
  for (const auto& group : layout_.groups) {
    for (const Node& node : group) {
      for (const uint32_t rank : node.ranks) nodes_[node.name].images[rank] = originals_[rank];
      nodes_.try_emplace(node.name);
    }
  }
}

void MemoryCluster::ShareBlocks(uint32_t block_bytes, double chance) {
  natural_block_bytes_ = block_bytes;
  Random random(generation_.store_id.low);
  std::vector<Buffer> common(6, Buffer(block_bytes));
  for (Buffer& block : common) random.Fill(block.data(), block_bytes);
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    Buffer& image = originals_[rank];
    // Not always at multiples of the block, as behind a small region.
    natural_begins_.push_back(random.Below(2) * kBlockBytesMin);
    for (uint64_t at = natural_begins_.back(); at + block_bytes + kRecordBytes <= image.size(); at += block_bytes) {
      if (random.Chance(chance))
        std::ranges::copy(common[random.Below(common.size())], image.begin() + static_cast<ptrdiff_t>(at));
    }
    for (auto& [name, node] : nodes_) {
      if (node.images.contains(rank)) node.images[rank] = image;
    }
  }
}

Status MemoryCluster::Protect() {
  for (uint32_t group = 0; group < layout_.groups.size(); ++group) {
    for (uint32_t index = 0; index < layout_.SetCount(group); ++index) KEDGE_RETURN_IF_ERROR(ProtectSet(group, index));
  }
  return Status::Ok();
}

Status MemoryCluster::ProtectSet(uint32_t group, uint32_t index) {
  SetRecord set;
  set.identity = {generation_, ranks(), layout_.id, group, index};
  set.scheme = layout_.scheme;
  set.parity = layout_.parity;
  for (uint32_t m = 0; m < layout_.groups[group].size(); ++m) {
    const Node& node = layout_.groups[group][m];
    SetMember& member = set.members.emplace_back(SetMember{node.name, node.domain, layout_.RankAt(group, m, index), {}, {}});
    if (!member.rank) continue;
    const Buffer& image = nodes_[node.name].images.at(*member.rank);
    member.blocks = TableOf(image, natural_block_bytes_ > 0 ? kBlockBytesMin : BlockBytesFor(image.size()));
    if (natural_block_bytes_ > 0) member.natural = CandidatesOf(image, natural_begins_[*member.rank], natural_block_bytes_);
    member.image_record.assign(image.end() - kRecordBytes, image.end());
  }
  KeepNatural(set.scheme, set.parity, &set.members);
  Buffer record;
  KEDGE_RETURN_IF_ERROR(EncodeSetRecord(set, &record));
  for (const SetMember& member : set.members) nodes_[member.node].set_records.push_back(record);
  if (before_encoding) before_encoding();
  const uint32_t record_crc32c = crc32c::Compute(record.data(), record.size());
  return set.scheme == Scheme::kPartner ? MakeCopies(set, record_crc32c) : MakeParity(set, record_crc32c);
}

Status MemoryCluster::MakeCopies(const SetRecord& set, uint32_t record_crc32c) {
  for (uint32_t holder = 0; holder < set.members.size(); ++holder) {
    for (const uint32_t held : layout_.HeldBy(set.identity.group, holder)) {
      const SetMember& member = set.members[held];
      if (!member.rank) continue;
      const Buffer& image = nodes_[member.node].images.at(*member.rank);
      const ThinStream thin(member);
      const BlockTable table = ThinTable(member);
      Buffer copy;
      for (const ThinStream::Piece& piece : thin.OfThin(0, thin.bytes()))
        std::ranges::copy(ByteSpan(image).subspan(piece.stream_offset, piece.bytes), std::back_inserter(copy));
      if (FirstWrongBlock(table, 0, copy)) return Status(Code::kCorrupt, member.node + ": a block does not have its checksum");
      MemoryNode& node = nodes_[set.members[holder].node];
      if (member.natural.blocks.empty()) {
        node.images[*member.rank] = std::move(copy);
      } else {
        node.parity.push_back({{set.identity, held, record_crc32c}, table, std::move(copy)});
      }
    }
  }
  return Status::Ok();
}

Status MemoryCluster::MakeParity(const SetRecord& set, uint32_t record_crc32c) {
  KEDGE_ASSIGN_OR_RETURN(const SetArithmetic arithmetic, SetArithmetic::Make(set));
  const uint32_t block_bytes = arithmetic.geometry().block_bytes();
  const ParityTables no_parity_yet(set.members.size());
  for (uint32_t m = 0; m < set.members.size(); ++m) {
    const auto source = MakeSource(set);
    Assembler assembler(set, arithmetic, no_parity_yet, *source);
    MemoryNode::Parity parity{{set.identity, m, record_crc32c}, {}, Buffer(arithmetic.geometry().parity_bytes())};
    BlockTableBuilder table(parity.bytes.size(), block_bytes);
    for (uint64_t offset = 0, run_bytes = 0; offset < parity.bytes.size(); offset += run_bytes) {
      run_bytes = arithmetic.RunBytesAt({m, true, offset});
      const std::span<std::byte> run(parity.bytes.data() + offset, run_bytes);
      KEDGE_RETURN_IF_ERROR(assembler.Assemble({m, true, offset}, run));
      table.Add(run);
    }
    parity.table = table.Finish();
    nodes_[set.members[m].node].parity.push_back(std::move(parity));
  }
  return Status::Ok();
}

std::vector<NodeInventory> MemoryCluster::Inventories() const {
  std::vector<NodeInventory> inventories;
  for (const auto& [name, node] : nodes_) {
    NodeInventory& inventory = inventories.emplace_back();
    inventory.node = name;
    for (const auto& [rank, image] : node.images) inventory.images.push_back(rank);
    for (const MemoryNode::Parity& parity : node.parity) inventory.parity.push_back(parity.held);
    for (const Buffer& record : node.set_records) {
      const SetSummary summary = Summarize(*DecodeSetRecord(record), crc32c::Compute(record.data(), record.size()));
      inventory.sets.push_back(std::make_shared<const SetSummary>(summary));
    }
  }
  return inventories;
}

std::shared_ptr<const SetRecord> MemoryCluster::FindSet(uint32_t rank) const {
  for (const auto& [name, node] : nodes_) {
    for (const Buffer& record : node.set_records) {
      auto set = DecodeSetRecord(record);
      for (const SetMember& member : set->members) {
        if (member.rank == rank) return std::make_shared<const SetRecord>(std::move(*set));
      }
    }
  }
  return nullptr;
}

std::unique_ptr<BlockSource> MemoryCluster::MakeSource(const SetRecord& set) const {
  return std::make_unique<ClusterSource>(set, nodes_);
}

ParityTables MemoryCluster::TablesOf(const SetRecord& set) const {
  ParityTables tables(set.members.size());
  for (const auto& [name, node] : nodes_) {
    for (const MemoryNode::Parity& parity : node.parity) {
      if (parity.held.set == set.identity) tables[parity.held.member] = parity.table;
    }
  }
  return tables;
}

Status MemoryCluster::RebuildBlock(const SetRecord& set, const SetArithmetic& arithmetic, Assembler* assembler,
                                   BlockSource* source, const BlockRef& block, std::span<std::byte> to) {
  const ThinStream thin(set.members[block.member]);
  const uint64_t set_block = arithmetic.geometry().block_bytes();
  for (const ThinStream::Piece& piece : thin.OfStream(block.offset, to.size())) {
    for (uint64_t done = 0; piece.thin_offset && done < piece.bytes;) {
      const uint64_t at = *piece.thin_offset + done;
      const BlockRef wanted{block.member, false, at / set_block * set_block};
      Buffer made(arithmetic.BytesOf(wanted));
      KEDGE_RETURN_IF_ERROR(assembler->Assemble(wanted, made));
      const uint64_t bytes = std::min(piece.bytes - done, wanted.offset + made.size() - at);
      std::memcpy(&to[piece.stream_offset + done - block.offset], &made[at - wanted.offset], bytes);
      done += bytes;
    }
  }
  return FillNatural(set, source, block, to);
}

Status MemoryCluster::CopyBlock(const SetRecord& set, const std::string& holder, BlockSource* source, const BlockRef& block,
                                std::span<std::byte> to) const {
  const auto& held = nodes_.at(holder).parity;
  const auto copy = std::ranges::find_if(
      held, [&](const MemoryNode::Parity& one) { return one.held.set == set.identity && one.held.member == block.member; });
  const ThinStream thin(set.members[block.member]);
  for (const ThinStream::Piece& piece : thin.OfStream(block.offset, to.size())) {
    if (piece.thin_offset) std::memcpy(&to[piece.stream_offset - block.offset], &copy->bytes[*piece.thin_offset], piece.bytes);
  }
  return FillNatural(set, source, block, to);
}

Status MemoryCluster::FillNatural(const SetRecord& set, BlockSource* source, const BlockRef& block, std::span<std::byte> to) {
  const auto pieces = ThinStream(set.members[block.member]).OfStream(block.offset, to.size());
  const NaturalReplicas replicas(set, block.member);
  return replicas.Fill(pieces, block.offset, to, [&](uint32_t member, uint64_t offset, std::span<std::byte> into) {
    return static_cast<ClusterSource*>(source)->ReadStream(member, offset, into);
  });
}

Status MemoryCluster::RestoreBlock(const SetRecord& set, const RankPlan& plan, const Rebuild& rebuild, const BlockRef& block,
                                   std::span<std::byte> to, Restored* restored) {
  const SetMember& member = set.members[block.member];
  Status last(Code::kNotFound, plan.why_lost);
  for (const Source& source : plan.sources) {
    if (source.kind == SourceKind::kRebuild) {
      last = rebuild(source, block, to);
      if (last.ok() && FirstWrongBlock(member.blocks, block.offset, to)) {
        last = Status(Code::kCorrupt, "it is made wrong");
        if (!source.node.empty()) restored->bad.push_back({block, last});
      }
    } else {
      std::memcpy(to.data(), nodes_.at(source.node).images.at(plan.rank).data() + block.offset, to.size());
      last = Status::Ok();
      for (uint64_t at = 0; at < to.size(); at += member.blocks.block_bytes) {
        const uint64_t offset = block.offset + at;
        if (BlockIsRight(member.blocks, offset, ByteSpan(to).subspan(at, BlockLength(member.blocks, offset)))) continue;
        last = Status(Code::kCorrupt, source.node + ": a block does not have its checksum");
      }
      if (!last.ok()) restored->bad.push_back({block, last});
    }
    if (last.ok()) {
      restored->from = std::max(restored->from, source.kind);
      return last;
    }
  }
  return last;
}

MemoryCluster::Restored MemoryCluster::Restore(uint32_t rank, const std::string& here) {
  Restored restored;
  const RankPlan plan = PlanRank(generation_, ranks(), rank, Inventories(), false, here);
  const auto set = FindSet(rank);
  if (plan.sources.empty() || set == nullptr) {
    restored.status = Status(Code::kNotFound, plan.why_lost);
    return restored;
  }
  const auto member = static_cast<uint32_t>(
      std::find_if(set->members.begin(), set->members.end(), [&](const SetMember& m) { return m.rank == rank; }) -
      set->members.begin());
  const auto arithmetic = SetArithmetic::Make(*set);
  const auto source = MakeSource(*set);
  const ParityTables tables = TablesOf(*set);
  std::unique_ptr<Assembler> assembler;
  if (arithmetic.ok()) assembler = std::make_unique<Assembler>(*set, *arithmetic, tables, *source);
  const Rebuild rebuild = [&](const Source& from, const BlockRef& block, std::span<std::byte> to) {
    if (assembler == nullptr) return CopyBlock(*set, from.node, source.get(), block, to);
    Status rebuilt = RebuildBlock(*set, *arithmetic, assembler.get(), source.get(), block, to);
    std::ranges::move(assembler->TakeBadBlocks(), std::back_inserter(restored.bad));
    return rebuilt;
  };
  const uint32_t block_bytes = arithmetic.ok() ? arithmetic->geometry().block_bytes() : set->members[member].blocks.block_bytes;
  restored.bytes.resize(set->members[member].blocks.bytes);
  for (uint64_t offset = 0; offset < restored.bytes.size() && restored.status.ok(); offset += block_bytes) {
    const uint64_t bytes = std::min<uint64_t>(block_bytes, restored.bytes.size() - offset);
    restored.status =
        RestoreBlock(*set, plan, rebuild, {member, false, offset}, {restored.bytes.data() + offset, bytes}, &restored);
  }
  if (!restored.status.ok()) restored.bytes.clear();
  return restored;
}

}  // namespace kedge::redundancy::testing

#include "agent/protect/make_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "os/process/kill_point.h"
#include "redundancy/block_table.h"
#include "redundancy/natural.h"

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
  const BlockTable table = redundancy::ThinTable(set.members[member]);
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

}  // namespace

Result<std::vector<BlockTable>> MakeObjects(const SetRecord& set, const std::vector<uint32_t>& members,
                                            const std::vector<HeldStream>& objects, SetSource& source, MakeNotes* notes) {
  if (const auto making = notes->making.lock()) making->begun = true;
  std::vector<BlockTable> tables;
  for (size_t i = 0; i < members.size(); ++i) {
    auto table = set.scheme == Scheme::kPartner ? MakeCopy(set, members[i], source, objects[i], notes)
                                                : MakeParity(set, members[i], source, objects[i], notes);
    if (!table.ok()) return table.status();
    tables.push_back(std::move(*table));
  }
  os::KillPoint("protect-made");
  return tables;
}

}  // namespace kedge

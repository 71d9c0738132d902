// The bytes of an image as they are protected: its chunks at their object offsets, gaps as zeros, then the image record.
//
// A view of slots and files that others keep in place (a pin, a reader); it holds their tiers, not their slots. Whoever reads
// what may have changed since compares checksums. Used by workers: const functions may be called from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "agent/tables/flush_object.h"
#include "agent/tables/held_set.h"
#include "agent/tables/image.h"
#include "base/status.h"
#include "format/image_record.h"
#include "format/set_records.h"
#include "redundancy/block_table.h"

namespace kedge {

class HeldStream {
 public:
  HeldStream() = default;
  // REQUIRES: the image has ended.
  static HeldStream Of(const Image& image);
  // Of an object that lies in `ranges`, one after the other.
  static HeldStream Of(const std::vector<OwnRange>& ranges);

  // One more range at its place in the stream.
  void AddRange(uint64_t offset, const OwnRange& range);

  uint64_t bytes() const { return bytes_; }
  // REQUIRES: offset + bytes <= bytes(). By system calls: a file cut short is an error, never a signal.
  Status Read(uint64_t offset, uint64_t bytes, std::byte* out) const;
  // Into the slots. kInvalidArgument where the stream has a gap or a file.
  Status Write(uint64_t offset, uint64_t bytes, const std::byte* from) const;
  // The same, and adds the bytes that arrived to `table`, which is of this stream: in one pass where the slots are mapped.
  Status WriteTo(redundancy::BlockTableBuilder* table, ByteSpan from) const;
  // The parts of it that lie in memory that this process has mapped; `tier` keeps it mapped.
  struct MemoryPart {
    uint64_t offset = 0;  // in the stream
    std::span<const std::byte> memory;
    std::shared_ptr<Tier> tier;
  };
  std::vector<MemoryPart> InMemory() const;

 private:
  struct Part {
    uint64_t offset = 0;  // in the stream
    PieceSource source;
    uint64_t end() const { return offset + source.bytes; }
  };
  void Add(uint64_t offset, PieceSource source);
  // The first part that ends behind `offset`.
  std::vector<Part>::const_iterator PartAt(uint64_t offset) const;

  std::vector<Part> parts_;  // in order of offset, disjoint
  uint64_t bytes_ = 0;
};

// The stream's block table by the checksums of capture, without reading what these cover block by block (redundancy/stream.h):
// whoever reads a block finds what has changed since. What must be read is proved as below. Blocking.
Result<BlockTable> MakeTable(const HeldStream& held, const ImageRecord& record, uint64_t record_bytes, uint32_t block_bytes);

// Reads the stream once and makes its block table, proved against the checksums of capture: kCorrupt when a byte has changed
// since then, so that it is found before it spreads. `record_bytes`: of the encoded record. Blocking.
Result<BlockTable> MakeProvedTable(const HeldStream& held, const ImageRecord& record, uint64_t record_bytes,
                                   uint32_t block_bytes);

// The same for an image as it lies here, its record included. kCorrupt: the message names region and place.
Status ProveImage(const HeldStream& held, uint64_t record_offset, uint64_t record_bytes);

}  // namespace kedge

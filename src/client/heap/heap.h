// Memory that the library gives out (kedge_alloc), and brings back at the same addresses: a restart in another process finds each
// block where it was, so that pointers from block to block stay right.
//
// All of it lies in one range of addresses, reserved at the first use, which a version's annotation kHeapKey names. A named
// block, and one of more than 16 KiB, has units of 64 KiB of its own, and is a region of the default group: its id says where it
// lies (IdOf), so that a version needs no other table. Smaller ones without a name lie in one area, which is one region
// (small_blocks.h) and grows upwards from the begin of the range, towards the others. The range's first unit belongs to no
// version.
//
// A restart (Check, Make, Adopt) makes the heap what it was in the version. What the program has asked for by its name, or says
// that it holds, it may have a pointer to: such a block is never moved or taken away; where the version has another one, Check
// refuses.
//
// An allocator on top of the heap (Take) gets the memory back that it has freed last: new pages cost more than most uses of them.
//
// The context's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/heap/small_blocks.h"
#include "client/heap/units.h"
#include "client/regions/region_table.h"
#include "format/image_record.h"
#include "os/memory/reserved_range.h"
#include "session/config_keys.h"

namespace kedge::client {

class Heap {
 public:
  // `group` outlives the heap: the default one.
  explicit Heap(RegionGroup* group) : group_(group) {}
  // Blocks go, unless Link was asked for: then data that the heap holds may still be ended by whoever made them.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Before anything else.
  void Configure(const HeapKeys& keys) { keys_ = keys; }
  // The context that the heap's link names, from now on.
  void SetOwner(kedge_context* owner);

  // Null when the heap's context has ended. It lies at the begin of the range, in each process that has it.
  Result<kedge_context* const*> Link();
  // `name` may be null. kAlreadyExists: a block has this name; kInvalidArgument: what is wrong with the description; kNoSpace:
  // range or memory are full; kFailedPrecondition: no range can be reserved.
  Result<void*> Allocate(const char* name, size_t count, size_t element_bytes, const kedge_region_info* info);
  // For an allocator: a block of more than kSmallBytesMax without a name, which the program holds, and whose bytes are undefined
  // unless `zeroed`. When it is freed its memory is kept for the next one, up to kKeptUnitsMax of all. Errors as Allocate.
  Result<void*> Take(size_t bytes, bool zeroed);
  // `block` may be null: a new one without a name. On an error it is as it was.
  Result<void*> Reallocate(void* block, size_t bytes);
  // `block` may be null. kInvalidArgument: it is none.
  Status Free(void* block);
  // The same, and its units stay mapped, as the caller's memory, whose addresses the heap does not use any more.
  // kInvalidArgument: it is none, or a small one.
  Status Detach(void* block);
  // kNotFound.
  Result<const DeclaredRegion*> Find(const std::string& name);
  // The program has a pointer to it from now on. Returns its bytes. kInvalidArgument: it is none, or a small one.
  Result<uint64_t> Hold(const void* block);
  // Its range and the bytes of it; null: none is reserved yet.
  std::pair<void*, size_t> range() const { return {range_.data(), range_.bytes()}; }

  // What a version says of the heap beside its regions; nothing: no heap is in use.
  std::optional<std::string> Note() const;

  // Whether the image's heap can be had here: reserves its addresses, and changes no block. kMismatch says why not.
  Status Check(const ImageRecord& image);
  // After Check of the same image: the blocks are those of the image, their bytes undefined.
  Status Make(const ImageRecord& image);
  // The blocks' bytes are those of the image that Make was called with.
  Status Adopt();

 private:
  struct Block {
    uint64_t units = 0;
    bool is_known = false;  // the program may have a pointer to it: by its name, or because it holds it
    bool is_taken = false;  // by Take
  };
  // What an image has of a heap.
  struct Saved {
    uint64_t address = 0;                       // 0: nothing
    uint64_t units = 1;                         // that reach to the end of the last block
    std::map<uint64_t, const Region*> regions;  // by first unit; that of the small blocks, too

    bool Overlaps(uint64_t unit, uint64_t count) const;
  };
  struct Header {
    kedge_context* owner;
  };

  static int IdOf(uint64_t unit);
  static Result<Saved> ReadSaved(const ImageRecord& image);
  Header* header() const { return reinterpret_cast<Header*>(range_.data()); }
  void* AddressOf(uint64_t unit) const { return range_.data() + unit * kUnitBytes; }
  // kInvalidArgument: no block with units of its own begins there.
  Result<uint64_t> UnitOf(const void* block) const;
  bool IsSmall(const void* block) const;

  Status Reserve();
  Status Use(os::ReservedRange range);
  // The range goes, but for what outlives the heap.
  void Leave();
  Status CheckUsable() const;
  Status CheckKnown(const Saved& saved) const;
  Status CheckDetached(const Saved& saved) const;
  Result<void*> AllocateUnits(Region region, Block block);
  void FreeUnits(uint64_t unit);
  // Of a block that was taken: for the next one of its size.
  void Keep(uint64_t first, uint64_t units);
  void GiveBackKept(uint64_t units_most);
  Result<void*> ReallocateSmall(void* block, size_t bytes);
  Result<void*> ReallocateUnits(uint64_t unit, size_t bytes);
  // Where a block is that large; a smaller one would have memory that it does not use.
  void UseLargePages(uint64_t first, uint64_t units);
  // Gets the block so many units where it lies; false: those behind it are not free.
  Result<bool> ResizeUnits(uint64_t unit, uint64_t units);
  Status ResizeSmallArea(uint64_t bytes);
  // So many units from this one on, with memory.
  Status TakeAt(uint64_t first, uint64_t units);
  void GiveBack(uint64_t first, uint64_t units);
  // All blocks that `saved` has not in the same units, but for held ones.
  void RemoveAllBut(const Saved& saved);

  RegionGroup* group_;
  HeapKeys keys_;
  kedge_context* owner_ = nullptr;
  os::ReservedRange range_;
  Units units_;
  std::map<uint64_t, Block> blocks_;        // by first unit
  std::map<uint64_t, uint64_t> detached_;   // units, by the first
  std::multimap<uint64_t, uint64_t> kept_;  // first units of what is free but for its memory, by how many
  uint64_t kept_units_ = 0;
  bool is_linked_ = false;
  std::vector<Header*> former_headers_;  // of ranges that a restart has left, whose links somebody keeps
  std::optional<SmallBlocks> small_;
  uint64_t small_units_ = 0;
  os::ReservedRange next_;     // where a restart wants the heap, when that is elsewhere
  bool is_undefined_ = false;  // between Make and Adopt
};

}  // namespace kedge::client

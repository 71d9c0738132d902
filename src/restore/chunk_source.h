// One place from which the chunks of an image can be read: the node's tiers, or the store.
//
// Nothing is verified here: whoever reads compares the extent's checksum and turns to the next source when it is wrong.
// Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "session/mailbox.h"
#include "store/catalog.h"
#include "store/sharing/image_object.h"
#include "store/versions.h"
#include "tier/tier.h"

namespace kedge {

enum class SourceKind { kMemory, kDirectory, kStore };

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Whether this source has the chunk at all.
  virtual bool Has(uint32_t chunk) const = 0;
  virtual SourceKind KindOf(uint32_t chunk) const = 0;
  // The chunk's bytes in this process's memory; nullptr: use Read.
  virtual const std::byte* Memory(uint32_t chunk) const = 0;
  virtual Status Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) = 0;
  // Reading the chunk costs processor time rather than the device's: several threads at once are faster.
  virtual bool Decompresses(uint32_t) { return false; }
  // For messages: "pool slot 3", "/store/jobs/...".
  virtual std::string Describe(uint32_t chunk) const = 0;
};

// Slots of local tiers that an agent has pinned for this reader. `tiers` outlive the source.
class SlotSource final : public ChunkSource {
 public:
  // `places` in the order of the chunk table; a tier index that is not there means that the chunk does not lie here.
  // kCorrupt: a place is outside its slot, or shorter than its chunk.
  static Result<std::unique_ptr<SlotSource>> Make(const ImageRecord& record, std::vector<Tier*> tiers,
                                                  std::vector<SlotRange> places);

  bool Has(uint32_t chunk) const override { return places_[chunk].tier < tiers_.size(); }
  SourceKind KindOf(uint32_t chunk) const override;
  const std::byte* Memory(uint32_t chunk) const override;
  Status Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) override;
  std::string Describe(uint32_t chunk) const override;

 private:
  SlotSource(std::vector<Tier*> tiers, std::vector<SlotRange> places) : tiers_(std::move(tiers)), places_(std::move(places)) {}

  std::vector<Tier*> tiers_;
  std::vector<SlotRange> places_;
};

// The image's objects in the store, looked up when the first byte is needed: a restart from the node asks the store nothing.
class StoreSource final : public ChunkSource {
 public:
  // `catalog` outlives the source. `record` is the node's: chunks that were written through are found by it, though the
  // version never gets to the store; for the others the store's image is looked up when the first is read.
  StoreSource(const Catalog* catalog, ImageRecord record);
  // The same when the image's record has been read from the store already. `open` (may be empty): as OpenChunkObject has it.
  StoreSource(const Catalog* catalog, StoredImage image, OpenObject open = {});

  bool Has(uint32_t) const override { return true; }
  SourceKind KindOf(uint32_t) const override { return SourceKind::kStore; }
  const std::byte* Memory(uint32_t) const override { return nullptr; }
  Status Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) override;
  bool Decompresses(uint32_t chunk) override;
  std::string Describe(uint32_t chunk) const override;

 private:
  struct Place {
    ObjectReader* reader = nullptr;
    uint64_t offset = 0;
    bool is_compressed = false;  // some of it may be
  };
  Result<Place> PlaceOf(uint32_t chunk);

  const Catalog* catalog_;
  const ImageIdentity identity_;
  const OpenObject open_;
  std::mutex mutex_;   // guards the two below
  StoredImage image_;  // without a key: the node's record, the store has not been asked
  std::map<std::string, std::unique_ptr<ObjectReader>> readers_;
};

}  // namespace kedge

// See chunk_source.h.
#include "restore/chunk_source.h"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace kedge {

Result<std::unique_ptr<SlotSource>> SlotSource::Make(const ImageRecord& record, std::vector<Tier*> tiers,
                                                     std::vector<SlotRange> places) {
  if (places.size() != record.chunks.size()) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: {} places for {} chunks", record.identity.ToString(), places.size(), record.chunks.size()));
  }
  for (size_t chunk = 0; chunk < places.size(); ++chunk) {
    const SlotRange& place = places[chunk];
    if (place.tier >= tiers.size()) continue;
    const TierInfo& info = tiers[place.tier]->info();
    if (place.slot >= info.slots || place.offset > info.slot_bytes || place.bytes > info.slot_bytes - place.offset ||
        place.bytes < record.chunks[chunk].bytes) {
      return Status(Code::kCorrupt, fmt::format("{}: chunk {} of {} bytes lies at slot {} offset {} length {} of tier {}",
                                                record.identity.ToString(), chunk, record.chunks[chunk].bytes, place.slot,
                                                place.offset, place.bytes, info.name));
    }
  }
  return std::unique_ptr<SlotSource>(new SlotSource(std::move(tiers), std::move(places)));
}

SourceKind SlotSource::KindOf(uint32_t chunk) const {
  return tiers_[places_[chunk].tier]->info().kind == TierKind::kMemory ? SourceKind::kMemory : SourceKind::kDirectory;
}

const std::byte* SlotSource::Memory(uint32_t chunk) const {
  const std::byte* slot = tiers_[places_[chunk].tier]->SlotMemory(places_[chunk].slot);
  return slot == nullptr ? nullptr : slot + places_[chunk].offset;
}

Status SlotSource::Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) {
  const SlotRange& place = places_[chunk];
  return tiers_[place.tier]->Read(place.slot, place.offset + offset, to, bytes);
}

std::string SlotSource::Describe(uint32_t chunk) const {
  const SlotRange& place = places_[chunk];
  return fmt::format("slot {} of tier {}, offset {}", place.slot, tiers_[place.tier]->info().name, place.offset);
}

StoreSource::StoreSource(const Catalog* catalog, ImageRecord record) : catalog_(catalog), identity_(record.identity) {
  image_.record = std::move(record);
}

StoreSource::StoreSource(const Catalog* catalog, StoredImage image, OpenObject open)
    : catalog_(catalog), identity_(image.record.identity), open_(std::move(open)), image_(std::move(image)) {}

Result<StoreSource::Place> StoreSource::PlaceOf(uint32_t chunk) {
  const std::lock_guard lock(mutex_);
  const std::vector<Chunk>& chunks = image_.record.chunks;
  const bool went_through = chunk < chunks.size() && chunks[chunk].object != 0;
  if (!went_through && image_.object_key.empty()) {
    KEDGE_ASSIGN_OR_RETURN(image_, ReadImage(*catalog_, identity_.generation, identity_.rank));
  }
  if (chunk >= chunks.size()) {
    return Status(Code::kCorrupt, fmt::format("{}: the store's image has {} chunks, chunk {} is wanted", identity_.ToString(),
                                              chunks.size(), chunk));
  }
  const std::string key = ChunkObjectKey(image_, chunks[chunk]);
  std::unique_ptr<ObjectReader>& reader = readers_[key];
  if (!reader) {
    KEDGE_ASSIGN_OR_RETURN(reader, OpenChunkObject(*catalog_, image_, chunks[chunk], open_));
  }
  const bool is_compressed = chunks[chunk].object == 0 && image_.map && !image_.map->stored_bytes.empty();
  return Place{reader.get(), chunks[chunk].object_offset, is_compressed};
}

Status StoreSource::Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Place place, PlaceOf(chunk));
  return place.reader->ReadAt(place.offset + offset, {static_cast<std::byte*>(to), bytes});
}

// What keeps it from being read is said when it is.
bool StoreSource::Decompresses(uint32_t chunk) {
  const auto place = PlaceOf(chunk);
  return place.ok() && place->is_compressed;
}

std::string StoreSource::Describe(uint32_t chunk) const {
  return fmt::format("store {}, {}, chunk {}", catalog_->store().description(), identity_.ToString(), chunk);
}

}  // namespace kedge

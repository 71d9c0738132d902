// See chunk_source.h.
#include "restore/chunk_source.h"

#include <fmt/format.h>

#include <span>

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

StoreSource::StoreSource(const Catalog* catalog, StoredImage image)
    : catalog_(catalog), local_(image.record), image_(std::move(image)) {}

Result<StoreSource::Place> StoreSource::PlaceOf(uint32_t chunk) {
  const std::lock_guard lock(mutex_);
  const Chunk* place = chunk < local_.chunks.size() ? &local_.chunks[chunk] : nullptr;
  std::string key;
  if (place != nullptr && place->object != 0) {
    key = ChunkObjectKey(local_, *place);
  } else {
    if (!image_) {
      KEDGE_ASSIGN_OR_RETURN(image_, ReadImage(*catalog_, local_.identity.generation, local_.identity.rank));
    }
    if (chunk >= image_->record.chunks.size()) {
      return Status(Code::kCorrupt, fmt::format("{}: the store's image has {} chunks, chunk {} is wanted",
                                                local_.identity.ToString(), image_->record.chunks.size(), chunk));
    }
    place = &image_->record.chunks[chunk];
    key = ChunkObjectKey(*image_, *place);
  }
  std::unique_ptr<ObjectReader>& reader = readers_[key];
  if (!reader) {
    KEDGE_ASSIGN_OR_RETURN(reader, catalog_->store().OpenObject(key));
  }
  return Place{reader.get(), place->object_offset};
}

Status StoreSource::Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Place place, PlaceOf(chunk));
  return place.reader->ReadAt(place.offset + offset, {static_cast<std::byte*>(to), bytes});
}

std::string StoreSource::Describe(uint32_t chunk) const {
  return fmt::format("store {}, {}, chunk {}", catalog_->store().description(), local_.identity.ToString(), chunk);
}

}  // namespace kedge

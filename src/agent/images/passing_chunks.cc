#include "agent/images/passing_chunks.h"

#include <algorithm>

#include "agent/images/image_table.h"
#include "agent/space/throughput.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "os/process/kill_point.h"

namespace kedge {

bool PassingChunks::MayRelease(const Image& image, const ImageChunk& chunk) const {
  // What goes to other nodes is read from its slot after the image has ended.
  if (image.ended || image.doomed || image.version->to_node) return false;
  // A chunk that is whole is not written any more: its writer has no further use of the slot (session/mailbox.h).
  if (chunk.unit == nullptr || !chunk.in_own_object || chunk.captured_bytes < chunk.bytes) return false;
  const Session* session = core_.sessions().Find(image.session_id);
  return session != nullptr && session->full_slots.contains(SlotId{chunk.unit->id, chunk.slot});
}

void PassingChunks::Release(const Image& image, ImageChunk& chunk) {
  Session* session = core_.sessions().Find(image.session_id);
  TierUnit& unit = *chunk.unit;
  chunk.CountAsFlushing(false);
  unit.bytes_captured += chunk.bytes;
  throughput_.OnReleased(*session, unit, chunk.slot);
  unit.space->Return(chunk.slot, chunk.slot_generation, session->id);
  unit.space->RemoveChunk(chunk.slot, image.pinned);
  chunk.unit = nullptr;
  chunk.released = true;
  ++core_.counters().chunks_released;
  os::KillPoint("chunk-released");
}

bool PassingChunks::ReleaseFlushed(const TierUnit* unit) {
  Image* oldest = nullptr;
  ImageChunk* first = nullptr;
  for (const auto& entry : images_.all()) {
    Image* image = entry.second;
    if (image->ended || image->flush != FlushState::kFlushing || image->object == nullptr || !image->flush_error.ok()) continue;
    if (oldest != nullptr && oldest->id < image->id) continue;
    const auto flushed = std::find_if(image->chunks.begin(), image->chunks.end(), [&](const ImageChunk& chunk) {
      return chunk.unit == unit && chunk.written_bytes == chunk.bytes && MayRelease(*image, chunk);
    });
    if (flushed == image->chunks.end()) continue;
    oldest = image;
    first = &*flushed;
  }
  if (oldest == nullptr) return false;
  Release(*oldest, *first);
  return true;
}

}  // namespace kedge

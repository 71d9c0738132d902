// Images that are written, on their way to a part of their version: their records behind their pieces, then the commit
// (store/publish.h).
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "agent/tables/flush_object.h"
#include "base/clock.h"
#include "base/status.h"
#include "format/store_records.h"
#include "store/publish.h"

namespace kedge {

struct WrittenImage {
  std::shared_ptr<FlushObject> object;
  std::variant<PieceSource, Buffer> record;  // encoded: where it lies, or itself
  ImageEntry entry;                          // without the object's name
  // Another node has written it, with its record, in a share of this one (FinishShare): `entry` is whole, and there is no
  // `object`.
  std::shared_ptr<ObjectUnderWay> shared = nullptr;
};

struct Publication {
  // One for each image. kIncomplete: another one that has blocks of it is not published with it.
  std::vector<Status> images;
  Status commit;    // of part and version record
  PartRecord part;  // of the images whose objects stand, to be committed again when that failed
  FinishOutcome finish;
  Duration syncing{};  // of all objects
};

// What this node writes of another one's object.
struct FinishedShare {
  std::vector<Status> images;       // one for each image
  std::vector<ImageEntry> entries;  // where they lie now, for the other node to publish; of one that has failed: nothing
  Duration syncing{};
};

// Blocking. Records behind their images, and the share is durable. REQUIRES: all lie in one object, which is borrowed.
FinishedShare FinishShare(std::vector<WrittenImage> written, const Clock& clock);

// Blocking. `ranks`: of the whole version.
Publication Publish(StoreContext& store, const Generation& generation, uint32_t ranks, std::vector<WrittenImage> written,
                    const Clock& clock);

}  // namespace kedge

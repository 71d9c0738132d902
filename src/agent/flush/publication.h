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
};

struct Publication {
  // One for each image. kIncomplete: another one that has blocks of it is not published with it.
  std::vector<Status> images;
  Status commit;    // of part and version record
  PartRecord part;  // of the images whose objects stand, to be committed again when that failed
  FinishOutcome finish;
  Duration syncing{};  // of all objects
};

// Blocking. `ranks`: of the whole version.
Publication Publish(StoreContext& store, const Generation& generation, uint32_t ranks, std::vector<WrittenImage> written,
                    const Clock& clock);

}  // namespace kedge

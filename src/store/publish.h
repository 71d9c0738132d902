// Publishing: image objects, then a part record, then the version record, each durable before the next (rule 2).
//
//   PrepareGeneration                  folders, job and name records
//   Store::CreateObject(layout::ImageKey(...)), WriteAt..., Store::Publish
//   PublishPart                        these ranks' images are in the store
//   FinishVersion                      all n ranks are: complete from here on
//
// Whoever has published a part calls FinishVersion; whoever sees all parts creates the version record. No collective and no
// leader. A generation that has been removed meanwhile does not come back: PublishPart and FinishVersion then fail with
// kNotFound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

// Makes the folders of a generation, and the records of its job and name where they are missing. Call it before the first
// CreateObject of the generation in this process.
Status PrepareGeneration(const Catalog& catalog, const Generation& generation);

// Publishes `part`, whose objects are published already. Again is ok: images that a part in the store covers are left
// out. kMismatch: a part there says another number of ranks.
Status PublishPart(const Catalog& catalog, const PartRecord& part);

struct FinishOutcome {
  bool complete = false;
  bool created = false;                 // by this call
  std::vector<uint32_t> missing_ranks;  // the first few that have no image
  uint32_t missing_count = 0;
};

// Creates the version record when the parts there cover all ranks and their objects exist. kNotFound: the generation is not there.
Result<FinishOutcome> FinishVersion(const Catalog& catalog, const Generation& generation);

// The whole sequence from written objects on: Store::Publish, PublishPart for those that succeeded, FinishVersion.
// `writers` and part.images correspond one to one. Returns one status for each image; `outcome` (may be null) is filled in
// when a part was published. An image whose status is not ok must be written again.
std::vector<Status> PublishImages(const Catalog& catalog, std::span<ObjectWriter* const> writers, const PartRecord& part,
                                  FinishOutcome* outcome);

}  // namespace kedge

// Publishing: image objects, then a part record, then the version record, each durable before the next. The version record has
// the part record inside where one part has all images, and the store can show it in place (Store::ShowInPlace).
//
//   PrepareGeneration                  folders, job and name records
//   Store::CreateObject(keys::ImageKey(...)), WriteAt..., Store::Publish (PublishImages does this and the next)
//   CommitPart                         these ranks' images are in the store; all n ranks are: complete from here on
//
// Whoever has published a part looks whether all are there, and creates the version record then. No collective and no leader. A
// generation that has been removed meanwhile does not come back: CommitPart and FinishVersion then fail with kNotFound.
//
// A node that has all images waits for two commits of the store's journal, whatever the number of its ranks: of objects, their
// folders and the drafted version record; and of the version record's name. Any other waits for three at most: of objects, their
// folders and the drafted part record; of the part record's name and the drafted version record; of the version record's name.
// What of it is seen before it is durable nobody builds on (Store::EnsureDurable).
//
// What is published counts where a restart looks for it. So the store at the path is confirmed (Catalog::Confirm) before
// anything of a generation is made, before its objects appear, and after its records stand. kUnavailable: it is not there, and
// the same may succeed when it is back. kMismatch: another store lies there.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

// Makes the folders of a generation, and the records of its job and name where they are missing. Call it before the
// first CreateObject of the generation in this process.
Status PrepareGeneration(const Catalog& catalog, const Generation& generation);

struct FinishOutcome {
  bool complete = false;
  bool created = false;        // by this call
  uint32_t missing_count = 0;  // images; 0 also while there is no part at all
};

// Creates the version record when the parts there cover all ranks and their objects exist. While parts are missing it
// costs one listing and two small reads; versions.h says which ranks are missing. Right before, it looks whether a newer
// attempt is there: another listing. kNotFound: the generation is not there. kBusy: a newer attempt goes on from elsewhere,
// and the generation is abandoned (lineage.h).
Result<FinishOutcome> FinishVersion(const Catalog& catalog, const Generation& generation);

// Of an image, the other objects of its generation that blocks of it lie in, as ImageEntry::object names them.
using LeansOn = std::set<std::string>;

struct PublishOutcome {
  // One for each writer: not ok, and the image must be written again, as a new object. kIncomplete: nothing is wrong with it but
  // that another image that it leans on is not published with it.
  std::vector<Status> images;
  Status commit;         // of part and version record: not ok, and CommitPart is to be called again, no more
  PartRecord published;  // the part, with the images that were published
  FinishOutcome finish;
};

// The whole sequence from written objects on. `writers` and part.images correspond one to one, and `leans_on` where it is not
// empty; images that lie in one object have the same writer. A part names no image without all the objects that it leans on:
// whoever is published later finds them there.
PublishOutcome PublishImages(const Catalog& catalog, std::span<ObjectWriter* const> writers, const PartRecord& part,
                             std::span<const LeansOn> leans_on = {});

// Publishes `part`, whose objects are published already, and finishes the version where it can. Again is ok: images that a part
// in the store covers are left out, and those of a version that is complete with its part inside. kMismatch: a part there says
// another number of ranks.
Result<FinishOutcome> CommitPart(const Catalog& catalog, const PartRecord& part);

}  // namespace kedge

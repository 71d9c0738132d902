// Routed files at their original paths: what an application wrote through a routed path appears, whole and synced, where
// it asked for it, once the version is complete in the store.
#pragma once

#include <vector>

#include "agent/flush_object.h"

namespace kedge {

// `record` is the image record, `chunks` its chunk table's bytes on the node, in order. Each file is written beside its
// place, verified against the record's checksums on the way, synced and renamed. The first error ends it, naming the path.
// Blocks: for a worker.
Status PublishRoutedFiles(const PieceSource& record, const std::vector<PieceSource>& chunks);

}  // namespace kedge

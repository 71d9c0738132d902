// Routed files at their original paths: what an application wrote through a routed path appears, whole and synced, where
// it asked for it, once the version is complete in the store.
#pragma once

#include <vector>

#include "agent/tables/flush_object.h"
#include "restore/file_publisher.h"

namespace kedge {

// `record` is the image record, `chunks` its chunk table's bytes on the node, in order. Each file is verified against the
// record's checksums on the way. The first error ends it, naming the path. Blocks: for a worker.
Status PublishRoutedFiles(FilePublisher& publisher, const FileOrigin& origin, const PieceSource& record,
                          const std::vector<PieceSource>& chunks);

}  // namespace kedge

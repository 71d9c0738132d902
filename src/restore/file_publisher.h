// Puts routed files at their original paths, once their image is safe in the store.
//
// Each file appears whole or not at all: it is written beside its path, synced, and renamed there with its permission bits.
// Used by whoever carries the image to the store: the agent, or a client without one.
#pragma once

#include <string>

#include "base/status.h"
#include "os/file_system.h"
#include "restore/image_reader.h"
#include "store/store.h"

namespace kedge {

// All files of the image. Goes on after an error and returns the first.
Status PublishFiles(os::FileSystem& file_system, ImageReader& image, const TemporaryOwner& owner);

// One file that still lies at `routed`.
Status PublishFileCopy(os::FileSystem& file_system, const std::string& routed, const std::string& original, uint32_t mode,
                       const TemporaryOwner& owner);

// Writes the file that is region `region` of the image to `path`, without syncing: for a reader on this node.
Status WriteFileRegion(os::FileSystem& file_system, ImageReader& image, uint32_t region, const std::string& path);

}  // namespace kedge

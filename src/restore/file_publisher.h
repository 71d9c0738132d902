// Puts routed files at their original paths, once their image is safe in the store.
//
// Each file appears whole or not at all: it is written beside its path, gets the permission bits that the application gave it,
// is synced, and renamed there. What is beside the path meanwhile is named NAME.JOB-NODE-ATTEMPT-WRITER.RANDOM.tmp. A publisher
// that dies leaves it there, and whoever next publishes in that folder for the same job removes it: the successor of that agent
// or client on its node, or any of a later attempt, which no rank of an earlier one outlives; of another node's agent only
// once its attempt is silent (store/attempts.h), because it may still carry files of its attempt there.
//
// What is at a path is never replaced by what was taken before it: of two versions that one process publishes the later one
// stays, and an attempt that was taken over from puts its files only where there are none.
//
// Used by whoever carries the image to the store: the agent, or a client without one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/status.h"
#include "os/files/file_system.h"
#include "restore/image_reader.h"
#include "store/lineage.h"
#include "store/store.h"

namespace kedge {

// On whose behalf a file is published.
struct FileOrigin {
  StoreId store_id;
  std::string job;
  TemporaryOwner owner;                             // node, attempt, writer
  std::function<bool(uint32_t attempt)> is_silent;  // whether nobody works for that attempt of the job any more
  Moment taken;                                     // when the version was
  // Whether a newer attempt has begun, which may have put files there. While that cannot be told no file is put anywhere.
  std::function<Result<bool>()> is_taken_over;
};

// All threads of a process that publish share one: what is in hand in one of them is no leftover.
class FilePublisher {
 public:
  explicit FilePublisher(os::FileSystem& fs) : fs_(fs) {}

  // Creates or replaces `path` with what `write` puts into the file; ok, too, when a later version's is there already.
  Status Publish(const FileOrigin& origin, const std::string& path, uint32_t mode, const std::function<Status(os::File&)>& write);

 private:
  void RemoveLeftovers(const FileOrigin& origin, const std::string& folder);
  Status WriteBeside(const std::string& temporary, const std::string& path, uint32_t mode,
                     const std::function<Status(os::File&)>& write);

  // Waits until no other thread has the path in hand. False: a later version's file is there.
  bool BeginPath(const FileOrigin& origin, const std::string& path);
  void EndPath(const FileOrigin& origin, const std::string& path, bool is_published);

  os::FileSystem& fs_;
  std::mutex mutex_;
  std::condition_variable path_free_;
  std::set<std::string> paths_in_hand_;
  std::map<std::string, Moment> published_;  // of paths, when what is there was taken; the latest ones
  std::set<std::string> in_hand_;            // paths of temporaries
  std::set<std::string> clean_folders_;      // by job: nothing of others is left there that may become a leftover
};

// Everything that is in `from`.
Status CopyFile(os::File& from, os::File& to);

// Writes the bytes of the file that is region `region` of the image, each verified.
Status WriteFileBytes(ImageReader& image, uint32_t region, os::File& file);

// Writes that file to `path`, without syncing: for a reader on this node. It gets its bits
// back, and may be read by its owner whatever they were.
Status WriteFileRegion(os::FileSystem& file_system, ImageReader& image, uint32_t region, const std::string& path);

}  // namespace kedge

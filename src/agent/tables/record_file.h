// An image on file in the run folder: what a successor must know to go on with it. One file an image, replaced whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "format/node_records.h"
#include "schedule/schedule.h"
#include "session/messages.h"

namespace kedge {

// The numbers of levels are those of the protocol (kProtocolVersion): an agent takes up images of jobs whose Hello is of its own.
inline constexpr uint32_t kImageFileMagic = 0x696c646b;  // "kdli"

struct ImageFile {
  LocalRecord local;          // where its chunks and its image record lie
  uint64_t record_bytes = 0;  // of the image record alone; the placement table follows it
  uint32_t session_id = 0;
  uint64_t serial = 0;
  uint32_t node_ranks = 1;
  Level scheduled = Level::kNone;
  bool passing = false;                      // chunks of it are only in the object under way: it goes with its agent
  std::optional<ScheduledLevels> undecided;  // among these by count: which levels its version is to reach (turns.h)
  bool stored = false;                       // its object and part record are durable
  bool in_store = false;                     // its version is complete in the store
  bool skipped = false;
  bool to_node = false;          // level NODE is among those that its version is to reach
  bool at_node = false;          // its version has reached it
  bool at_local = false;         // level LOCAL, over all nodes
  bool weakened = false;         // a node of those that made it survive their loss has lost its part since
  bool damaged = false;          // its bytes here are not those that were captured
  bool files_published = false;  // its routed files are at their paths, or could not be put there
};

Result<Buffer> EncodeImageFile(const ImageFile& file);
Result<ImageFile> DecodeImageFile(ByteSpan bytes);

// Atomic with respect to the death of the agent.
Status WriteImageFile(const std::string& path, const ImageFile& file);
Result<ImageFile> ReadImageFile(const std::string& path);

}  // namespace kedge

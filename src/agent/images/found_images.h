// Images that nobody captured under this agent: a predecessor's, and those that come from other nodes or the store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/tables/held_set.h"
#include "agent/tables/job.h"
#include "agent/tables/record_file.h"
#include "agent/tables/session.h"
#include "base/status.h"
#include "format/image_record.h"

namespace kedge {

class AgentCore;
class GapFiller;
class ImageFlusher;
class ImageTable;
class Tiers;

// An image that lies in slots of the agent's own.
struct BroughtImage {
  const ImageRecord* record = nullptr;
  uint64_t record_bytes = 0;
  uint32_t record_crc32c = 0;
  std::vector<OwnRange> chunks;  // of the record's chunk table; no unit: not on the node
  OwnRange record_range;
  bool for_store = false;   // it is owed to the store
  bool in_store = false;    // the version is complete there
  bool from_store = false;  // and it came from there, at least in part
  bool replace = false;     // in place of one that is here and bad
};

class FoundImages {
 public:
  FoundImages(AgentCore& core, ImageFlusher& flush, GapFiller& gaps, ImageTable& images, Tiers& tiers)
      : core_(core), flush_(flush), gaps_(gaps), images_(images), tiers_(tiers) {}

  // An image that came from other nodes: its ranges are the image's from here on, unless an error is returned.
  Status PutBrought(const BroughtImage& brought);

  // A predecessor's image; kCorrupt or kNotFound when its chunks are not there any more.
  Status Recover(const std::string& path, const ImageFile& file);
  // A predecessor's session goes on: what it waits for is known again. Its client is told of images that went with the
  // predecessor though they had been handed over whole (passing_chunks.h), and its next image may be built on the same one as
  // before.
  void Resume(Session& session);
  // The greatest number of a session that has captured what was recovered; 0: none has.
  uint32_t LastSession() const;

 private:
  struct FoundPlaces {
    std::vector<ImageChunk> chunks;  // of the record's chunk table
    ImageChunk record;
    uint64_t record_bytes = 0;
    uint32_t record_crc32c = 0;
  };
  // From its record and the places of record and chunks; in no table yet.
  Result<std::unique_ptr<Image>> MakeFound(const ImageRecord& record, FoundPlaces places) const;
  void TellGone(Session& session);

  AgentCore& core_;
  ImageFlusher& flush_;
  GapFiller& gaps_;
  ImageTable& images_;
  Tiers& tiers_;
  struct Gone {
    ImageIdentity identity;
    uint32_t session_id = 0;
    uint64_t serial = 0;
  };
  std::vector<Gone> gone_;  // from Recover to Resume
};

}  // namespace kedge

// Slots that come free before their image ends: so an image greater than all tiers passes through them, a flushed chunk making
// room for the next ([VeloC] algorithm 2 waits for any flush).
//
// Only when somebody wants a slot, and only of images that have not ended: an image that is whole on the node stays so until
// the store has it. From then on the object under way holds the only copy of such a chunk; the image is not at level LOCAL
// before it is stored (Image::IsHeld), and if its flush fails or its agent dies it is gone, which its client is told; a client
// that has not ended it takes it again (sessions_recovery.cc, AttachAgain).
#pragma once

#include "agent/tables/image.h"

namespace kedge {

class AgentCore;
class ImageTable;
class Throughput;

class PassingChunks {
 public:
  PassingChunks(AgentCore& core, ImageTable& images, Throughput& throughput)
      : core_(core), images_(images), throughput_(throughput) {}

  // Its slot may go once the chunk is flushed.
  bool MayRelease(const Image& image, const ImageChunk& chunk) const;
  // Makes a slot of the unit free, of the image that began first; false: there is none.
  bool ReleaseFlushed(const TierUnit* unit);

 private:
  void Release(const Image& image, ImageChunk& chunk);

  AgentCore& core_;
  ImageTable& images_;
  Throughput& throughput_;
};

}  // namespace kedge

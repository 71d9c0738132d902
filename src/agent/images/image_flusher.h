// What images, and those who decide about them, ask of whoever carries them to the store (flush/flush.h).
#pragma once

#include <cstdint>

#include "agent/tables/version.h"

namespace kedge {

class ImageFlusher {
 public:
  virtual ~ImageFlusher() = default;
  // Whole pieces of the chunk, as far as it is captured. REQUIRES: the image is kFlushing.
  virtual void QueueCaptured(Image& image, uint32_t chunk) = 0;
  // All its chunks are known now.
  virtual void SetEnded(Image& image) = 0;
  // All that is left of an image that has ended.
  virtual void QueueEnded(Image& image) = 0;
  // An image that a predecessor left unflushed.
  virtual void Start(Image& image) = 0;
  // Whatever its turn said: the images of the version that are here go to the store, which may have the others. Returns how many
  // are to go.
  virtual uint32_t SendToStore(Version& version) = 0;
  virtual void SetState(Image& image, FlushState state) = 0;
  // Whether any of its bytes have been given to a worker.
  virtual bool HasBegun(const Image& image) const = 0;
  // Takes the image out: it is dropped, or its version skipped.
  virtual void Forget(Image& image) = 0;
};

}  // namespace kedge

// Captures an image straight into an object of the store and publishes it: checkpoints without an agent, and job.mode=sync.
//
// When End returns ok the image is durable and, if it was the last one of its version, so is the version. The bytes are
// carried to the device while the capture goes on (FlushHint after each piece).
#pragma once

#include <memory>

#include "capture/image_sink.h"
#include "store/catalog.h"
#include "store/publish.h"

namespace kedge {

class StoreSink final : public ImageSink {
 public:
  // `catalog` must outlive the sink.
  StoreSink(const Catalog* catalog, LayoutLimits limits) : catalog_(catalog), limits_(limits) {}

  const LayoutLimits& limits() const override { return limits_; }
  Status Begin(const ImageIdentity& identity, uint64_t announced_bytes) override;
  Result<ChunkTarget> OpenChunk(uint32_t chunk, uint64_t bytes) override;
  void ExpectChunk(uint64_t) override {}
  bool GrowChunk(uint64_t extra_bytes) override;
  Status Write(uint64_t offset, const std::byte* data, uint64_t bytes) override;
  void Progress(uint64_t) override {}
  Status CloseChunk(uint64_t bytes, ImageRecord* record) override;
  Status End(const ImageRecord& record) override;
  void Abort() override;

  // Of the last End that returned ok: whether the version is complete, and who is missing.
  const FinishOutcome& outcome() const { return outcome_; }

 private:
  const Catalog* catalog_;
  const LayoutLimits limits_;
  ImageIdentity identity_;
  std::unique_ptr<ObjectWriter> writer_;
  uint64_t object_offset_ = 0;  // of the open chunk, or of the next one
  uint64_t planned_bytes_ = 0;
  Buffer buffer_;
  FinishOutcome outcome_;
};

}  // namespace kedge

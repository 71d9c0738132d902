// What an object's call-backs write to and read from: the bodies of kedge_writer and kedge_reader.
//
// A stream fails once and stays failed; the status says why, also when the application's call-back swallowed the code.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "capture/image_capture.h"
#include "restore/image_reader.h"

struct kedge_writer {
  kedge::ImageCapture* capture = nullptr;
  kedge::Status status;
};

// Hands out a region's bytes, extent by extent: each is verified before the first of its bytes is seen.
struct kedge_reader {
  kedge::ImageReader* image = nullptr;
  uint32_t next_extent = 0;
  uint32_t last_extent = 0;
  std::vector<std::byte> buffer;
  size_t used = 0;  // of the buffer
  uint64_t bytes_left = 0;
  kedge::Status status;

  kedge::Status Read(void* data, uint64_t bytes);
};

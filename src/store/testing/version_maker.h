// Takes whole versions through the catalog as agents do, with contents that follow from who they belong to, so that any
// reader can tell whether it got the right bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "store/catalog.h"
#include "store/publish.h"
#include "store/versions.h"

namespace kedge::testing {

struct MakerOptions {
  uint32_t ranks = 2;
  uint32_t ranks_per_part = 1;
  std::vector<uint64_t> region_bytes = {5000, 0, 77};
  uint64_t chunk_bytes = 4096;
  uint64_t piece_bytes = 1500;
  bool one_object = false;  // of all images of a part
};

// The byte at `offset` of a region of an image; no two images of a test agree in many.
std::byte ContentByte(const ImageIdentity& identity, uint32_t region, uint64_t offset);

// The record of an image whose chunks lie one after the other in its own object, and the bytes of that object before
// the record: `object` may be null.
ImageRecord MakeImage(const ImageIdentity& identity, const MakerOptions& options, Buffer* object);

// Writes the image's object. The entry is what a part record needs.
Status WriteImage(ObjectWriter& writer, const ImageRecord& image, ByteSpan object, ImageEntry* entry);

// The same into an object of several images, from `offset` on; where the next one may begin. The entry's object is the caller's.
Result<uint64_t> WriteImageAt(ObjectWriter& writer, uint64_t offset, const ImageRecord& image, ByteSpan object,
                              ImageEntry* entry);

// Creates, writes and publishes the images of [first, first + count) as one part, and finishes the version when it can.
// Retries nothing; abandons what failed.
Result<FinishOutcome> PublishRanks(const Catalog& catalog, const Generation& generation, uint32_t first, uint32_t count,
                                   const MakerOptions& options);

// All ranks, part by part. Ok when the version is complete.
Status TakeVersion(const Catalog& catalog, const Generation& generation, const MakerOptions& options);

// A version of one rank whose only new bytes are its records: its blocks lie in rank 0's object of `base`, which must be there,
// or where those of `base` lie, and its content is that of `base`.
Status TakeOnTop(const Catalog& catalog, const Generation& generation, const Generation& base);
// The same on the image that was read before. REQUIRES: PrepareGeneration.
Status TakeOnTop(const Catalog& catalog, const Generation& generation, const StoredImage& below);
// As an agent takes a version of one rank: on top of the base that it has claimed (base_version.h), or whole when there is none.
Status TakeSharing(const Catalog& catalog, const Generation& generation, const MakerOptions& options);

// Reads every rank of a complete version and compares every byte of every region.
Status CheckVersion(const Catalog& catalog, const Generation& generation);

}  // namespace kedge::testing

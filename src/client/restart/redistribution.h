// A restart on another number of ranks: each region that is part of a global array comes from all images that have some of it.
//
// The ranks share the reading of what the images have; each then reads of the bytes what it wants, and begins with the images
// that it has open from before. Guarded by the context's lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/core/core.h"
#include "client/restart/image_opener.h"
#include "restore/array_parts.h"

namespace kedge::client {

class Redistribution {
 public:
  // All outlive this.
  Redistribution(Core* core, ImageOpener* opener, std::string name, RestoreCandidate candidate)
      : core_(core), opener_(opener), name_(std::move(name)), candidate_(candidate) {}

  // What this rank's share of the images has.
  Result<std::vector<SavedPart>> ReadShare();
  // With what all ranks have read: whether all that is declared can be had. Nothing is overwritten yet. kMismatch: why not.
  Status Plan(std::vector<SavedPart> parts);
  // `count` is called with each image that is not read any more. What is bad on this node and in the store is read from a copy
  // of other nodes.
  Status Read(const std::function<void(const OpenImage&)>& count);

 private:
  struct Step {
    uint32_t rank = 0;
    int32_t id = 0;
    DeclaredRegion* declared = nullptr;
    std::vector<ArrayBox> boxes;
  };
  void WarnOfTheRest(const SavedArrays& saved) const;
  // The first image of that rank's share; the last one's ends where the next one's begins.
  uint32_t FirstOf(uint32_t rank) const { return static_cast<uint32_t>(uint64_t{rank} * candidate_.ranks / core_->ranks()); }
  Result<std::unique_ptr<OpenImage>> TakeOpen(uint32_t rank);
  // What these want, which is all of this image.
  Status ReadOnce(const OpenImage& image, std::span<const Step> steps);

  Core* core_;
  ImageOpener* opener_;
  const std::string name_;
  const RestoreCandidate candidate_;
  std::vector<Step> steps_;                              // those of one image one after the other
  std::map<uint32_t, std::unique_ptr<OpenImage>> open_;  // by rank: those of the share that are read in a moment
  PartBuffers buffers_;
};

}  // namespace kedge::client

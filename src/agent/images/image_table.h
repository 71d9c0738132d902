// All images of this node: by number, with their local records and pins, until nothing uses them any more.
//
// An image is put here when it begins, is recovered, or comes from elsewhere. Once its local record is on file it survives its
// client and this agent. An image that is doomed is in no successor's way from then on; its slots are free as soon as nobody
// reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/tables/image.h"
#include "agent/tables/version.h"

namespace kedge {

class AgentCore;
class Assignment;
class ImageFlusher;

class ImageTable {
 public:
  ImageTable(AgentCore& core, Assignment& assignment, ImageFlusher& flush)
      : core_(core), assignment_(assignment), flush_(flush) {}

  // Null: there is none of that number any more.
  Image* Find(uint64_t id) const;
  const std::unordered_map<uint64_t, Image*>& all() const { return by_id_; }

  // Into the tables, with the next number. REQUIRES: the version has none of that rank.
  Image& Put(Version& version, uint32_t rank, std::unique_ptr<Image> image);
  // Takes the image out at once, with its record, slots and files: another is to be in its place. REQUIRES: nothing uses it.
  void Discard(Version& version, uint32_t rank);
  // Takes the image out of all tables and frees its slots, as soon as nothing reads it. Its version may go with it.
  void Doom(Image& image);
  // `image` lets go of what held it back from removal (pieces in flight, a publication).
  void OnReleased(Image& image);
  // As long as it has a reader, an image is pinned and not removed.
  void AddReader(Image& image);
  void RemoveReader(Image& image);
  // As retention decides: one that is owed is pinned.
  void SetOwed(Image& image, bool owed);

  // A local record's path, which no other has had.
  std::string NewRecordPath(const Image& image) const;
  // Writes the local record of an image that has ended.
  void Save(Image& image);
  // The first records that could not be written (a full run folder) are tried again; until then no level is reported of their
  // images. Returns the numbers of those that have one now.
  std::vector<uint64_t> SaveUnsaved();

  // The image reached its last level, or failed for good (image.failure): its session hears of it.
  void OnSettled(Image& image);
  // The version has reached level NODE, or will not (version.node_failure).
  void OnProtected(Version& version);

 private:
  void UpdatePin(Image& image);
  void RemoveNow(Image& image);
  // Its slots and files; the image is in no table any more.
  void FreePlaces(const Image& image);

  AgentCore& core_;
  Assignment& assignment_;
  ImageFlusher& flush_;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Image*> by_id_;
  std::set<uint64_t> unsaved_;  // images
};

}  // namespace kedge

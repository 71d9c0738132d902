#include "agent/tables/model.h"

#include <algorithm>
#include <utility>

namespace kedge {
namespace {
constexpr size_t kRestoredKept = 64;  // of all names of a job
}

std::pair<Version*, bool> Job::AddVersion(const ImageIdentity& identity) {
  const Generation& generation = identity.generation;
  auto& version = versions[generation];
  if (version != nullptr) return {version.get(), false};
  version = std::make_unique<Version>();
  version->generation = generation;
  version->job = this;
  version->ranks = identity.ranks;
  taken.emplace(generation.name, generation.attempt, generation.take, generation.version);
  return {version.get(), true};
}

void Job::RemoveVersion(const Generation& generation) {
  taken.erase({generation.name, generation.attempt, generation.take, generation.version});
  versions.erase(generation);
}

bool Job::LearnRestored(const RestoredRecord& record) {
  const bool is_known = std::any_of(restored.begin(), restored.end(), [&](const RestoredRecord& known) {
    return known.origin == record.origin && known.attempt == record.attempt && known.take == record.take;
  });
  if (is_known) return false;
  const auto is_before = [](const RestoredRecord& one, const RestoredRecord& other) {
    return std::pair(one.attempt, one.take) < std::pair(other.attempt, other.take);
  };
  if (restored.size() == kRestoredKept && is_before(record, restored.front())) return false;
  restored.insert(std::upper_bound(restored.begin(), restored.end(), record, is_before), record);
  if (restored.size() > kRestoredKept) restored.erase(restored.begin());
  return true;
}

void Job::NoteDisagreement(const Generation& generation, const Status& why) {
  if (generation.attempt == hello.attempt) disagreements[generation.name] = {MomentOf(generation), why};
}

std::set<std::string> Job::Names() const {
  std::set<std::string> names;
  for (const auto& [generation, version] : versions) names.insert(generation.name);
  return names;
}

Lineage Job::LineageOf(const std::string& checkpoint) const {
  std::vector<RestoredRecord> restarts;
  for (const RestoredRecord& record : restored) {
    if (record.origin.name == checkpoint) restarts.push_back(record);
  }
  std::vector<Taken> complete;
  for (auto entry = versions.rbegin(); entry != versions.rend(); ++entry) {
    const auto& [generation, version] = *entry;
    const bool is_complete = generation.name == checkpoint && (version->IsComplete() || version->IsAtLocal());
    if (is_complete) complete.push_back({MomentOf(generation), generation.version});
  }
  return Lineage::Of(restarts, complete);
}

const JobNode* Job::LeadingNode() const {
  const auto found = std::find_if(members.nodes.begin(), members.nodes.end(), [](const JobNode& node) {
    return std::find(node.ranks.begin(), node.ranks.end(), 0u) != node.ranks.end();
  });
  return found == members.nodes.end() ? nullptr : &*found;
}

const JobNode* Job::ReachableLeader(uint32_t attempt) const {
  if (members.attempt != attempt) return nullptr;
  const bool all =
      std::all_of(members.nodes.begin(), members.nodes.end(), [](const JobNode& node) { return !node.address.empty(); });
  return all ? LeadingNode() : nullptr;
}

bool Job::HasPassedOver(const Generation& generation, uint32_t rank) const {
  const auto has_image = [&](const Version& version) {
    const auto image = version.images.find(rank);
    return image != version.images.end() && image->second->ended;
  };
  // What is from an earlier attempt may be on its way here from other nodes.
  if (generation.attempt != members.attempt) return false;
  const auto own = versions.find(generation);
  if (own != versions.end() && own->second->images.contains(rank)) return false;
  return std::any_of(versions.begin(), versions.end(), [&](const auto& entry) {
    const Generation& later = entry.first;
    return later.name == generation.name && later.attempt == generation.attempt && later.take >= generation.take &&
           later != generation && has_image(*entry.second);
  });
}

void ImageChunk::CountAsFlushing(bool is_one) {
  if (unit == nullptr || is_flushing == is_one) return;
  is_flushing = is_one;
  unit->flushing_chunks += is_one ? 1u : -1u;
}

PieceSource ImageChunk::Source(uint64_t at, uint64_t source_bytes) const {
  PieceSource source;
  if (unit != nullptr) source.tier = unit->tier;
  source.slot = slot;
  source.file = file;
  source.offset = offset + at;
  source.bytes = source_bytes;
  return source;
}

void Image::Describe(const ImageRecord& by) {
  for (const ImageChunk& chunk : chunks) {
    if (chunk.in_own_object)
      record_object_offset = std::max(record_object_offset, AlignChunkOffset(chunk.object_offset + chunk.bytes));
  }
  image_bytes = by.RegionBytes();
  has_files =
      std::any_of(by.regions.begin(), by.regions.end(), [](const Region& region) { return region.kind == RegionKind::kFile; });
}

bool Image::IsOnItsWay() const {
  switch (flush) {
    case FlushState::kFlushing:
    case FlushState::kWritten:
    case FlushState::kPublishing:
    case FlushState::kWaiting:
    case FlushState::kShipped: return true;
    default: return false;
  }
}

bool Image::HasReleased() const {
  return std::any_of(chunks.begin(), chunks.end(), [](const ImageChunk& chunk) { return chunk.released; });
}

bool Image::HasNoOtherCopy() const {
  return flush == FlushState::kNone && !version->at_node;
}

bool Image::IsLost() const {
  auto is_lost = [](const ImageChunk& chunk) {
    return (chunk.unit != nullptr && chunk.unit->lost) || (chunk.file_unit != nullptr && chunk.file_unit->lost);
  };
  return is_lost(record) || std::any_of(chunks.begin(), chunks.end(), is_lost);
}

bool HeldObject::IsLost() const {
  return std::any_of(ranges.begin(), ranges.end(), [](const OwnRange& range) { return range.unit->lost; });
}

bool Version::HasLost() const {
  const bool of_images = std::any_of(images.begin(), images.end(), [](const auto& entry) { return entry.second->IsLost(); });
  return of_images || std::any_of(sets.begin(), sets.end(), [](const auto& set) {
           const auto& objects = set.second->objects;
           return std::any_of(objects.begin(), objects.end(), [](const auto& entry) { return entry.second.IsLost(); });
         });
}

const char* FlushStateName(FlushState state) {
  switch (state) {
    case FlushState::kNone: return "none";
    case FlushState::kFlushing: return "flushing";
    case FlushState::kWritten: return "written";
    case FlushState::kPublishing: return "publishing";
    case FlushState::kStored: return "stored";
    case FlushState::kWaiting: return "waiting";
    case FlushState::kShipped: return "shipped";
    case FlushState::kFailed: return "failed";
  }
  return "unknown";
}

bool Version::IsWhole() const {
  return std::count_if(images.begin(), images.end(), [](const auto& entry) { return entry.second->IsHeld(); }) >= node_ranks;
}

bool Version::IsPromised() const {
  const auto promises = job->promises.find(generation.name);
  return promises != job->promises.end() && promises->second.own == generation;
}

bool Version::IsOnBufferOnly() const {
  return in_store && !drained && job->store->store().has_buffer();
}

bool Version::IsAbandoned() const {
  return !job->LineageOf(generation.name).Has(generation);
}

void Version::Weaken(const std::string& why) {
  node_failure =
      Status(Code::kUnavailable, why).WithContext(generation.ToString() + " would not survive the loss of a node any more");
}

bool Version::IsOwedToNodes() const {
  if (!to_node || at_node || !node_failure.ok() || job->layout == nullptr) return false;
  return generation.attempt == job->members.attempt || restored;
}

void Version::Skip() {
  skipped = true;
  scheduled = to_node ? Level::kNode : Level::kLocal;
}

bool Session::CloseWindow(uint64_t handle) {
  if (shown.window == nullptr || shown.handle != handle) return false;
  shown.window = nullptr;
  return true;
}

}  // namespace kedge

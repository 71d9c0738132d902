#include "agent/tables/job.h"

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

}  // namespace kedge

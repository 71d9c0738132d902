#include "agent/tables/protection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "redundancy/layout.h"

namespace kedge {
namespace {

constexpr size_t kNodesNamedMax = 16;
constexpr size_t kGroupsNamedMax = 4;

}  // namespace

bool SetProgress::IsKnown() const {
  return std::all_of(members.begin(), members.end(), [](const auto& member) { return member.has_value(); });
}

bool SetProgress::IsToAsk(uint32_t self, uint32_t member, int64_t now_ns) const {
  const Contact& contact = contacts[member];
  const bool is_open = !members[member].has_value() || !done[member] || (done[self] && !contact.told_done);
  if (member == self || !is_open) return false;
  // That we are done does not wait for the answer to what was asked before: once all are done nobody tells it any more.
  return contact.asking ? done[self] && !contact.telling_done : now_ns >= contact.next_ns;
}

bool SetProgress::IsDone() const {
  return std::all_of(done.begin(), done.end(), [](bool one) { return one; });
}

bool SetProgress::GetsOn() {
  if (making == nullptr) return false;
  if (!making->begun) {
    // Once: what fails again and again is not to count as getting on between its tries.
    turns_waited += failures == 0 ? 1 : 0;
    return failures == 0;
  }
  const uint64_t bytes = making->bytes;
  if (bytes <= made_bytes) return false;
  made_bytes = bytes;
  return true;
}

const redundancy::Node& Protection::NodeOf(uint32_t of_member) const {
  return layout->groups[group][of_member];
}

Status Protection::Missing() const {
  std::set<std::string> missing;
  std::string reason;
  for (const SetProgress& set : sets) {
    for (uint32_t at = 0; at < set.members.size() && missing.size() < kNodesNamedMax; ++at) {
      if (set.members[at].has_value() && set.done[at]) continue;
      missing.insert(NodeOf(at).name);
      if (reason.empty() && !set.contacts[at].error.ok()) reason = "; " + set.contacts[at].error.message();
    }
  }
  if (!missing.empty()) return Status(Code::kTimeout, fmt::format("still missing: nodes {}{}", fmt::join(missing, ", "), reason));
  std::vector<std::string> groups;
  for (uint32_t other = 0; other < layout->groups.size() && groups.size() < kGroupsNamedMax; ++other) {
    if (groups_done.contains(other)) continue;
    std::vector<std::string> names;
    for (const redundancy::Node& node : layout->groups[other]) {
      if (names.size() < kNodesNamedMax) names.push_back(node.name);
    }
    groups.push_back(fmt::format("group {} (nodes {})", other, fmt::join(names, ", ")));
  }
  return Status(Code::kTimeout, fmt::format("still missing: {}", fmt::join(groups, ", ")));
}

}  // namespace kedge

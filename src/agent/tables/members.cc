#include "agent/tables/members.h"

#include <algorithm>

#include "redundancy/layout.h"

namespace kedge {

bool IsAmong(const std::vector<JobNode>& nodes, const std::string& name) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const JobNode& node) { return node.name == name; });
}

std::vector<std::string> MembersWithin(const Job& job, const std::string& self, Reach reach) {
  std::vector<std::string> names;
  const auto position = job.layout == nullptr || reach == Reach::kJob ? std::nullopt : job.layout->Find(self);
  if (position.has_value()) {
    for (const redundancy::Node& node : job.layout->groups[position->group]) names.push_back(node.name);
  } else {
    for (const JobNode& node : job.members.nodes) names.push_back(node.name);
  }
  std::erase(names, self);
  return names;
}

}  // namespace kedge

#include "redundancy/layout.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace kedge::redundancy {

namespace {

constexpr uint32_t kDataMembersDefault = 8;

uint32_t ParityOf(const LayoutOptions& options) {
  switch (options.scheme) {
    case Scheme::kPartner: return options.copies;
    case Scheme::kReedSolomon: return options.losses;
    default: return 1;
  }
}

Status CheckNodes(const std::vector<Node>& nodes) {
  std::set<std::string_view> names;
  std::set<uint32_t> ranks;
  for (const Node& node : nodes) {
    if (node.name.empty() || node.name.size() > kNodeNameBytesMax || node.domain.empty() ||
        node.domain.size() > kNodeNameBytesMax) {
      return Status(Code::kInvalidArgument, fmt::format("node \"{}\" in failure domain \"{}\": a name is empty or longer than {}",
                                                        node.name, node.domain, kNodeNameBytesMax));
    }
    if (!names.insert(node.name).second) {
      return Status(Code::kInvalidArgument, fmt::format("two nodes have the name \"{}\"", node.name));
    }
    for (const uint32_t rank : node.ranks) {
      if (!ranks.insert(rank).second) {
        return Status(Code::kInvalidArgument, fmt::format("rank {} is on two nodes, one of them \"{}\"", rank, node.name));
      }
    }
    if (!std::is_sorted(node.ranks.begin(), node.ranks.end())) {
      return Status(Code::kInvalidArgument, fmt::format("the ranks of node \"{}\" are not in order", node.name));
    }
  }
  return Status::Ok();
}

Status CheckOptions(const LayoutOptions& options, uint32_t parity) {
  if (options.scheme < Scheme::kPartner || options.scheme > Scheme::kReedSolomon) {
    return Status(Code::kInvalidArgument, "no scheme of protection is chosen");
  }
  if (parity < 1 || parity >= kSetMembersMax) {
    return Status(Code::kInvalidArgument, fmt::format("scheme {}: {} losses a group cannot be protected against; 1 to {} can",
                                                      SchemeName(options.scheme), parity, kSetMembersMax - 1));
  }
  if (options.group_size != 0 && (options.group_size <= parity || options.group_size > kSetMembersMax)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("scheme {} with {} losses needs groups of {} to {} nodes; {} are asked for",
                              SchemeName(options.scheme), parity, parity + 1, kSetMembersMax, options.group_size));
  }
  return Status::Ok();
}

// The domain with the most nodes, and how many. `nodes` is not empty and sorted by domain.
std::pair<std::string, size_t> LargestDomain(const std::vector<Node>& nodes) {
  std::map<std::string, size_t> counts;
  for (const Node& node : nodes) ++counts[node.domain];
  return *std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
}

// How many groups: the number that makes them nearest to `group_size`, of those that the domains and bounds allow.
Result<size_t> GroupCount(const std::vector<Node>& nodes, const LayoutOptions& options, uint32_t parity, uint32_t group_size) {
  const size_t nodes_min = parity + 1;
  if (nodes.size() < nodes_min) {
    return Status(
        Code::kFailedPrecondition,
        fmt::format("{} node{} cannot be protected by scheme {} against {} loss{}: it needs at least {} nodes in different "
                    "failure domains. Launch on more nodes, or set protect.scheme = \"none\"",
                    nodes.size(), nodes.size() == 1 ? "" : "s", SchemeName(options.scheme), parity, parity == 1 ? "" : "es",
                    nodes_min));
  }
  const auto [domain, in_domain] = LargestDomain(nodes);
  const size_t most = nodes.size() / nodes_min;
  if (in_domain > most) {
    return Status(
        Code::kFailedPrecondition,
        fmt::format("{} of {} nodes are in failure domain \"{}\": with at most one of them in a group there are {} groups, "
                    "but {} nodes make at most {} groups of {} (scheme {}, {} losses). Use more nodes of other domains, "
                    "or a finer node.failure_domain",
                    in_domain, nodes.size(), domain, in_domain, nodes.size(), most, nodes_min, SchemeName(options.scheme),
                    parity));
  }
  const size_t nearest = std::max<size_t>((nodes.size() + group_size / 2) / group_size, 1);
  const size_t least = std::max(in_domain, (nodes.size() + kSetMembersMax - 1) / kSetMembersMax);
  if (least > most) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("{} nodes cannot be cut into groups of {} to {}", nodes.size(), nodes_min, kSetMembersMax));
  }
  return std::clamp(nearest, least, most);
}

uint64_t HashOf(const Layout& layout) {
  Buffer bytes;
  Encoder encoder(bytes);
  encoder.U8(static_cast<uint8_t>(layout.scheme));
  encoder.Varint(layout.parity);
  encoder.Varint(layout.groups.size());
  for (const std::vector<Node>& group : layout.groups) {
    encoder.Varint(group.size());
    for (const Node& node : group) {
      encoder.String(node.name);
      encoder.String(node.domain);
      encoder.Varint(node.ranks.size());
      for (const uint32_t rank : node.ranks) encoder.Varint(rank);
    }
  }
  encoder.Finish();
  return XXH3_64bits(bytes.data(), bytes.size());
}

// "0-3,7"
std::string RankRanges(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

uint32_t DefaultGroupSize(const LayoutOptions& options) {
  const uint32_t parity = ParityOf(options);
  switch (options.scheme) {
    case Scheme::kPartner: return parity + 1;
    case Scheme::kReedSolomon: return std::min(parity + kDataMembersDefault, kSetMembersMax);
    default: return kDataMembersDefault;
  }
}

std::optional<Position> Layout::Find(std::string_view node) const {
  for (uint32_t group = 0; group < groups.size(); ++group) {
    for (uint32_t member = 0; member < groups[group].size(); ++member) {
      if (groups[group][member].name == node) return Position{group, member};
    }
  }
  return std::nullopt;
}

std::optional<RankPosition> Layout::FindRank(uint32_t rank) const {
  for (uint32_t group = 0; group < groups.size(); ++group) {
    for (uint32_t member = 0; member < groups[group].size(); ++member) {
      const std::vector<uint32_t>& ranks = groups[group][member].ranks;
      const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
      if (at != ranks.end() && *at == rank) return RankPosition{group, member, static_cast<uint32_t>(at - ranks.begin())};
    }
  }
  return std::nullopt;
}

uint32_t Layout::SetCount(uint32_t group) const {
  size_t count = 0;
  for (const Node& node : groups[group]) count = std::max(count, node.ranks.size());
  return static_cast<uint32_t>(count);
}

std::optional<uint32_t> Layout::RankAt(uint32_t group, uint32_t member, uint32_t index) const {
  const std::vector<uint32_t>& ranks = groups[group][member].ranks;
  if (index >= ranks.size()) return std::nullopt;
  return ranks[index];
}

std::vector<uint32_t> Layout::Holders(uint32_t group, uint32_t member) const {
  const auto size = static_cast<uint32_t>(groups[group].size());
  std::vector<uint32_t> holders;
  for (uint32_t step = 1; step <= parity; ++step) holders.push_back((member + step) % size);
  return holders;
}

std::vector<uint32_t> Layout::HeldBy(uint32_t group, uint32_t member) const {
  const auto size = static_cast<uint32_t>(groups[group].size());
  std::vector<uint32_t> held;
  for (uint32_t step = 1; step <= parity; ++step) held.push_back((member + size - step) % size);
  return held;
}

Result<Layout> MakeLayout(std::vector<Node> nodes, const LayoutOptions& options) {
  KEDGE_RETURN_IF_ERROR(CheckNodes(nodes));
  const uint32_t parity = ParityOf(options);
  KEDGE_RETURN_IF_ERROR(CheckOptions(options, parity));
  const uint32_t group_size = options.group_size != 0 ? options.group_size : DefaultGroupSize(options);
  KEDGE_ASSIGN_OR_RETURN(const size_t count, GroupCount(nodes, options, parity, group_size));
  std::sort(nodes.begin(), nodes.end(),
            [](const Node& a, const Node& b) { return std::tie(a.domain, a.name) < std::tie(b.domain, b.name); });
  Layout layout;
  layout.scheme = options.scheme;
  layout.parity = parity;
  layout.groups.resize(count);
  // A domain's nodes follow each other and are no more than there are groups: dealt in turn, no group gets two. Nodes of
  // neighbouring names, which often share what is not written down as a domain, end up in different groups too.
  for (size_t i = 0; i < nodes.size(); ++i) layout.groups[i % count].push_back(std::move(nodes[i]));
  layout.id = HashOf(layout);
  return layout;
}

std::string Describe(const Layout& layout) {
  std::string text;
  for (size_t group = 0; group < layout.groups.size(); ++group) {
    std::string members;
    for (const Node& node : layout.groups[group]) {
      if (!members.empty()) members += ", ";
      members += node.name;
      if (node.domain != node.name) members += " [" + node.domain + "]";
      members += node.ranks.empty() ? " no ranks" : " ranks " + RankRanges(node.ranks);
    }
    text += fmt::format("group {} ({}, survives {}): {}\n", group, SchemeName(layout.scheme), layout.parity, members);
  }
  return text;
}

}  // namespace kedge::redundancy

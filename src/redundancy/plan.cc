#include "redundancy/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "redundancy/geometry.h"

namespace kedge::redundancy {

namespace {

// More than a set record can describe: its parity's length would not fit a number.
constexpr uint64_t kImageBytesMax = uint64_t{1} << 50;
// Of the ranks of a version: to fit a line that people read.
constexpr size_t kLostNamed = 8;

bool HasParity(Scheme scheme) {
  return scheme == Scheme::kXor || scheme == Scheme::kReedSolomon;
}

uint64_t LongestOf(const SetSummary& set) {
  uint64_t longest = 0;
  for (const SetSummary::Member& member : set.members) longest = std::max(longest, member.bytes);
  return longest;
}

// What is known of one generation, and from whom.
class Survey {
 public:
  Survey(const Generation& generation, uint32_t ranks, const std::vector<NodeInventory>& inventories, const std::string& here)
      : inventories_(inventories), here_(here) {
    for (const NodeInventory& inventory : inventories) {
      for (const uint32_t rank : inventory.images) {
        std::vector<const std::string*>& nodes = nodes_of_[rank];
        nodes.insert(inventory.node == here ? nodes.begin() : nodes.end(), &inventory.node);
      }
      for (const auto& set : inventory.sets) {
        if (set == nullptr || set->identity.generation != generation || set->identity.ranks != ranks || !Validate(*set).ok())
          continue;
        sets_.try_emplace({set->identity, set->record_crc32c}, set);
      }
    }
  }

  RankPlan Plan(uint32_t rank, bool in_store) {
    RankPlan plan;
    plan.rank = rank;
    AddWholeCopies(&plan);
    std::string why;
    for (const auto& [key, set] : sets_) AddRebuild(set, &plan, &why);
    if (in_store) plan.sources.push_back({SourceKind::kStore, {}, nullptr, 0});
    if (plan.sources.empty()) plan.why_lost = why.empty() ? "no node that can be reached has it or knows of a set with it" : why;
    return plan;
  }

 private:
  using Key = std::pair<SetIdentity, uint32_t>;

  void AddWholeCopies(RankPlan* plan) const {
    const auto nodes = nodes_of_.find(plan->rank);
    if (nodes == nodes_of_.end()) return;
    for (const std::string* node : nodes->second) {
      plan->sources.push_back({*node == here_ ? SourceKind::kLocal : SourceKind::kNode, *node, nullptr, 0});
    }
  }

  void AddRebuild(const std::shared_ptr<const SetSummary>& set, RankPlan* plan, std::string* why) {
    const auto member =
        std::find_if(set->members.begin(), set->members.end(), [&](const auto& m) { return m.rank == plan->rank; });
    if (member == set->members.end()) return;
    const auto index = static_cast<uint32_t>(member - set->members.begin());
    const std::shared_ptr<const SetSurvivors> survivors = SurvivorsOf(set);
    const Status status = CanRebuild(*survivors, index, false);
    if (!status.ok()) {
      *why += (why->empty() ? "" : "; ") + status.message();
    } else if (HasParity(set->scheme)) {
      plan->sources.push_back({SourceKind::kRebuild, {}, survivors, index});
    } else {
      for (const std::string& node : survivors->parity_nodes[index])
        plan->sources.push_back({SourceKind::kRebuild, node, survivors, index});
    }
  }

  std::shared_ptr<const SetSurvivors> SurvivorsOf(const std::shared_ptr<const SetSummary>& set) {
    const Key key{set->identity, set->record_crc32c};
    auto& known = survivors_[key];
    if (known != nullptr) return known;
    auto survivors = std::make_shared<SetSurvivors>();
    survivors->set = set;
    survivors->image_node.resize(set->members.size());
    survivors->parity_nodes.resize(set->members.size());
    for (size_t i = 0; i < set->members.size(); ++i) {
      if (!set->members[i].rank) continue;
      const auto nodes = nodes_of_.find(*set->members[i].rank);
      if (nodes != nodes_of_.end()) survivors->image_node[i] = *nodes->second.front();
    }
    for (const NodeInventory& inventory : inventories_) {
      for (const HeldParity& parity : inventory.parity) {
        if (Key{parity.set, parity.set_record_crc32c} != key || parity.member >= set->members.size()) continue;
        std::vector<std::string>& nodes = survivors->parity_nodes[parity.member];
        nodes.insert(inventory.node == here_ ? nodes.begin() : nodes.end(), inventory.node);
      }
    }
    return known = std::move(survivors);
  }

  const std::vector<NodeInventory>& inventories_;
  const std::string& here_;
  std::map<uint32_t, std::vector<const std::string*>> nodes_of_;  // by rank: who has its image, `here` first
  std::map<Key, std::shared_ptr<const SetSummary>> sets_;
  std::map<Key, std::shared_ptr<const SetSurvivors>> survivors_;
};

// Whether a block of the set can be read: an image's zeros beyond its end always.
bool Survives(const SetSurvivors& survivors, const BlockRef& block) {
  if (block.parity) return !survivors.parity_nodes[block.member].empty();
  return block.offset >= survivors.set->members[block.member].bytes || !survivors.image_node[block.member].empty();
}

// The nodes whose images had natural blocks, and are lost.
std::vector<std::string> NaturalLost(const SetSurvivors& survivors) {
  std::vector<std::string> nodes;
  for (size_t i = 0; i < survivors.set->members.size(); ++i) {
    const SetSummary::Member& member = survivors.set->members[i];
    if (member.natural_bytes > 0 && survivors.image_node[i].empty()) nodes.push_back(member.node);
  }
  return nodes;
}

// "n1, n3 and n4"
std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

// Whoever asks knows the version and the image: so it is the same sentence for all images of the set.
Status TooManyLost(const SetSurvivors& survivors) {
  std::vector<std::string> images;
  std::vector<std::string> parity;
  const SetSummary& set = *survivors.set;
  for (size_t i = 0; i < set.members.size(); ++i) {
    if (set.members[i].bytes > 0 && survivors.image_node[i].empty()) images.push_back(set.members[i].node);
    if (survivors.parity_nodes[i].empty()) parity.push_back(set.members[i].node);
  }
  return Status(
      Code::kIncomplete,
      fmt::format("set {} of group {} ({}, survives {} of {}) cannot give it back: missing are the images of {} and the "
                  "parity of {}",
                  set.identity.index, set.identity.group, SchemeName(set.scheme), set.parity, set.members.size(),
                  images.empty() ? "none" : Join(images), parity.empty() ? "none" : Join(parity)));
}

// The same of copies. Only those of thin streams need more than themselves.
Status NoCopy(const SetSurvivors& survivors, uint32_t member) {
  const SetSummary& set = *survivors.set;
  if (!survivors.parity_nodes[member].empty()) {
    return Status(
        Code::kIncomplete,
        fmt::format("its copy is without blocks that others of set {} of group {} (partner, survives {} of {}) had: "
                    "missing are the images of {}",
                    set.identity.index, set.identity.group, set.parity, set.members.size(), Join(NaturalLost(survivors))));
  }
  std::string holders;
  const auto members = static_cast<uint32_t>(set.members.size());
  for (uint32_t step = 1; step <= set.parity; ++step)
    holders += (step > 1 ? ", " : "") + set.members[(member + step) % members].node;
  return Status(Code::kIncomplete,
                fmt::format("neither its node {} nor {} that held copies has it", set.members[member].node, holders));
}

}  // namespace

const char* SourceKindName(SourceKind kind) {
  switch (kind) {
    case SourceKind::kLocal: return "local";
    case SourceKind::kNode: return "node";
    case SourceKind::kRebuild: return "rebuild";
    case SourceKind::kStore: return "store";
  }
  return "unknown";
}

SetSummary Summarize(const SetRecord& set, uint32_t record_crc32c) {
  SetSummary summary{set.identity, set.scheme, set.parity, LargestBlockOf(set), {}, record_crc32c};
  for (const SetMember& member : set.members) {
    summary.members.push_back({member.node, member.rank, member.thin_bytes(), member.natural.bytes()});
  }
  return summary;
}

bool CopiesAreWhole(const SetSummary& set, uint32_t member) {
  return set.scheme == Scheme::kPartner && set.members[member].natural_bytes == 0;
}

Status Validate(const SetSummary& set) {
  const auto bad = [&](const char* why) { return Status(Code::kInvalidArgument, set.identity.ToString() + ": " + why); };
  if (set.members.size() < 2 || set.members.size() > kSetMembersMax) return bad("its number of members is out of range");
  if (set.scheme < Scheme::kPartner || set.scheme > Scheme::kReedSolomon) return bad("its scheme is unknown");
  if (set.parity < 1 || set.parity >= set.members.size()) return bad("its parity is out of range");
  if (set.scheme == Scheme::kXor && set.parity != 1) return bad("its parity is out of range");
  if (!std::has_single_bit(set.block_bytes) || set.block_bytes < kBlockBytesMin || set.block_bytes > kBlockBytesMax)
    return bad("its block size is out of bounds");
  for (const SetSummary::Member& member : set.members) {
    if (member.rank.has_value() ? *member.rank >= set.identity.ranks : member.bytes != 0)
      return bad("a member's rank is out of range");
    if (member.bytes > kImageBytesMax || member.natural_bytes > kImageBytesMax) return bad("an image is too large");
  }
  return Status::Ok();
}

Status CanRebuild(const SetSurvivors& survivors, uint32_t member, bool parity) {
  const SetSummary& set = *survivors.set;
  // Natural blocks are in more streams than there is parity: while no more of these are lost, one is left of each.
  const bool has_natural = set.members[member].natural_bytes == 0 || NaturalLost(survivors).size() <= set.parity;
  if (!HasParity(set.scheme)) {
    return has_natural && !survivors.parity_nodes[member].empty() ? Status::Ok() : NoCopy(survivors, member);
  }
  if (!parity && !has_natural) return TooManyLost(survivors);
  const Geometry geometry(static_cast<uint32_t>(set.members.size()), set.parity, LongestOf(set), set.block_bytes);
  const uint32_t segments = parity ? geometry.parity() : geometry.data();
  // What is zeros in one block of a segment may be data in another: the first block has the most data.
  for (uint32_t segment = 0; segment < segments && geometry.segment_bytes() > 0; ++segment) {
    const BlockRef wanted{member, parity, segment * geometry.segment_bytes()};
    if (!parity && wanted.offset >= set.members[member].bytes) break;
    const CodePlace place = geometry.PlaceOf(wanted);
    uint32_t left = 0;
    for (uint32_t position = 0; position < geometry.members(); ++position) {
      if (position != place.position && Survives(survivors, geometry.At({place.stripe, position, place.within}))) ++left;
    }
    if (left < geometry.data()) return TooManyLost(survivors);
  }
  return Status::Ok();
}

bool RestorePlan::complete() const {
  return std::none_of(ranks.begin(), ranks.end(), [](const RankPlan& plan) { return plan.sources.empty(); });
}

std::string RestorePlan::WhatIsLost() const {
  std::map<std::string, std::vector<std::string>> named;  // ranks by why
  std::vector<std::string> order;
  size_t lost = 0;
  for (const RankPlan& plan : ranks) {
    if (!plan.sources.empty() || ++lost > kLostNamed) continue;
    auto& same = named[plan.why_lost];
    if (same.empty()) order.push_back(plan.why_lost);
    same.push_back(fmt::format("{}", plan.rank));
  }
  std::string text;
  for (const std::string& why : order)
    text += fmt::format("{} {}: {}\n", named[why].size() == 1 ? "rank" : "ranks", Join(named[why]), why);
  if (lost > kLostNamed) text += fmt::format("and {} more ranks\n", lost - kLostNamed);
  return text;
}

RankPlan PlanRank(const Generation& generation, uint32_t ranks, uint32_t rank, const std::vector<NodeInventory>& inventories,
                  bool in_store, const std::string& here) {
  return Survey(generation, ranks, inventories, here).Plan(rank, in_store);
}

RestorePlan PlanRestore(const Generation& generation, uint32_t ranks, const std::vector<NodeInventory>& inventories,
                        bool in_store, const std::string& here) {
  Survey survey(generation, ranks, inventories, here);
  RestorePlan plan;
  for (uint32_t rank = 0; rank < ranks; ++rank) plan.ranks.push_back(survey.Plan(rank, in_store));
  return plan;
}

}  // namespace kedge::redundancy

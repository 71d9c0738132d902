// See prospects.h.
#include "tools/prospects.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "store/lineage.h"

namespace kedge::tools {
namespace {

constexpr char kElsewhere[] =
    "whole, but not on the nodes of its ranks, and without protect.scheme nodes bring each other nothing: kedge drain "
    "carries it to the store";

bool Covers(const std::vector<RankRun>& runs, uint32_t ranks) {
  uint64_t count = 0;
  for (const RankRun& run : runs) count += run.count;
  return ranks > 0 && count == ranks;
}

// One generation, wherever its images are.
struct Held {
  uint32_t ranks = 0;
  std::vector<RankRun> on_nodes;
  std::vector<RankRun> in_store;
  const SurvivingVersion* told = nullptr;  // by the nodes

  bool OnNodes() const { return Covers(on_nodes, ranks); }
  bool InStore() const { return Covers(in_store, ranks); }
  bool IsWhole() const {
    if (OnNodes() || InStore()) return true;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (!Contains(on_nodes, rank) && !Contains(in_store, rank)) return false;
    }
    return ranks > 0;
  }
};

// Newest first, as a restart tries them.
using Generations = std::map<Generation, Held, std::greater<>>;

Prospect ForeseeOne(const Generations& generations, const std::vector<RestoredRecord>& restored, const AskedVersion& asked) {
  std::vector<Generation> whole, there;
  for (const auto& [generation, held] : generations) {
    if (held.IsWhole()) whole.push_back(generation);
    if (!held.on_nodes.empty() || !held.in_store.empty()) there.push_back(generation);
  }
  const Lineage lineage(restored, whole);
  const Eligible eligible(lineage, asked, restored, there);
  Prospect prospect;
  for (const auto& [generation, held] : generations) {
    if (!eligible.Has(generation)) continue;
    if (held.IsWhole()) {
      prospect.generation = generation;
      prospect.on_nodes = held.OnNodes();
      prospect.in_store = held.InStore();
      break;
    }
    if (eligible.goes_back()) prospect.lost.push_back({generation, true, "asked for by restart.version, and not whole"});
    if (eligible.goes_back() || held.told == nullptr) continue;
    const bool is_elsewhere = Covers(held.told->given, held.ranks);
    prospect.lost.push_back({generation, held.told->was_safe || is_elsewhere, is_elsewhere ? kElsewhere : held.told->why_lost});
  }
  return prospect;
}

// Where there is none: the newest of those that cannot be had and that were safe.
std::string WhatWasSafe(const Prospect& prospect) {
  if (prospect.generation) return {};
  for (const LostVersion& one : prospect.lost) {
    if (one.was_safe) return TextOf(one);
  }
  return {};
}

}  // namespace

std::string TextOf(const LostVersion& lost) {
  return fmt::format("{}: {}", lost.generation.ToString(), lost.why);
}

std::string Prospect::WhatWasLost() const {
  return silent_nodes.empty() ? WhatWasSafe(*this) : std::string();
}

std::string Prospect::WhatSilentNodesMayHave() const {
  return silent_nodes.empty() ? std::string() : WhatWasSafe(*this);
}

Prospects Foresee(const RebuildReply& on_nodes, const StoredJob& stored, Asker asker, const AskedVersion& asked) {
  std::map<std::string, Generations> names;
  for (const std::string& name : stored.names) names[name];
  for (const StoredVersion& version : stored.versions) {
    Held& held = names[version.generation.name][version.generation];
    held.ranks = version.ranks;
    held.in_store = version.given;
  }
  for (const SurvivingVersion& version : on_nodes.versions) {
    const auto& withdrawn = stored.withdrawn;
    if (std::find(withdrawn.begin(), withdrawn.end(), version.generation) != withdrawn.end()) continue;
    Held& held = names[version.generation.name][version.generation];
    held.ranks = version.ranks;
    held.on_nodes = asker == Asker::kStore ? version.given : version.at_hand;
    held.told = &version;
  }
  Prospects prospects;
  for (const auto& [name, generations] : names) {
    std::vector<RestoredRecord> restored;
    for (const auto* records : {&on_nodes.restored, &stored.restored}) {
      for (const RestoredRecord& record : *records) {
        if (record.origin.name == name) restored.push_back(record);
      }
    }
    Prospect prospect = ForeseeOne(generations, restored, asked);
    const auto safe = stored.safe.find(name);
    prospect.silent_nodes = on_nodes.silent_nodes;
    if (!prospect.generation && WhatWasSafe(prospect).empty() && safe != stored.safe.end()) {
      prospect.lost.push_back({safe->second, true, "was safe on its nodes"});
    }
    prospects.emplace(name, std::move(prospect));
  }
  return prospects;
}

}  // namespace kedge::tools

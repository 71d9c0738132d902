// See prospects.h.
#include "tools/prospects.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "store/lineage.h"

namespace kedge::tools {
namespace {

bool Covers(const std::vector<RankRun>& runs, uint32_t ranks) {
  uint64_t count = 0;
  for (const RankRun& run : runs) count += run.count;
  return ranks > 0 && count == ranks;
}

// One generation, wherever its images are.
struct Held {
  uint32_t ranks = 0;
  const SurvivingVersion* on_nodes = nullptr;
  const StoredVersion* in_store = nullptr;

  bool OnNodes() const { return on_nodes != nullptr && Covers(on_nodes->given, ranks); }
  bool InStore() const { return in_store != nullptr && Covers(in_store->given, ranks); }
  bool IsWhole() const {
    if (OnNodes() || InStore()) return true;
    if (on_nodes == nullptr || in_store == nullptr) return false;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (!Contains(on_nodes->given, rank) && !Contains(in_store->given, rank)) return false;
    }
    return true;
  }
};

// Newest first, as a restart tries them.
using Generations = std::map<Generation, Held, std::greater<>>;

Prospect ForeseeOne(const Generations& generations, const std::vector<RestoredRecord>& restored, uint32_t attempt) {
  std::vector<Generation> whole;
  for (const auto& [generation, held] : generations) {
    if (held.IsWhole()) whole.push_back(generation);
  }
  const Lineage lineage(restored, whole);
  Prospect prospect;
  for (const auto& [generation, held] : generations) {
    if (attempt > 0 ? generation.attempt != attempt : !lineage.Has(generation)) continue;
    if (held.IsWhole()) {
      prospect.generation = generation;
      prospect.on_nodes = held.OnNodes();
      prospect.in_store = held.InStore();
      break;
    }
    if (held.on_nodes != nullptr) prospect.lost.push_back({generation, held.on_nodes->was_safe, held.on_nodes->why_lost});
  }
  return prospect;
}

}  // namespace

std::string TextOf(const LostVersion& lost) {
  return fmt::format("{}: {}", lost.generation.ToString(), lost.why);
}

std::string Prospect::WhatWasLost() const {
  if (generation) return {};
  for (const LostVersion& one : lost) {
    if (one.was_safe) return TextOf(one);
  }
  return {};
}

Prospects Foresee(const RebuildReply& on_nodes, const StoredJob& stored, uint32_t attempt) {
  std::map<std::string, Generations> names;
  for (const std::string& name : stored.names) names[name];
  for (const StoredVersion& version : stored.versions) {
    Held& held = names[version.generation.name][version.generation];
    held.ranks = version.ranks;
    held.in_store = &version;
  }
  for (const SurvivingVersion& version : on_nodes.versions) {
    Held& held = names[version.generation.name][version.generation];
    held.ranks = version.ranks;
    held.on_nodes = &version;
  }
  Prospects prospects;
  for (const auto& [name, generations] : names) {
    std::vector<RestoredRecord> restored;
    for (const auto* records : {&on_nodes.restored, &stored.restored}) {
      for (const RestoredRecord& record : *records) {
        if (record.origin.name == name) restored.push_back(record);
      }
    }
    Prospect prospect = ForeseeOne(generations, restored, attempt);
    const auto safe = stored.safe.find(name);
    if (!prospect.generation && prospect.WhatWasLost().empty() && safe != stored.safe.end()) {
      prospect.lost.push_back({safe->second, true, "was safe on its nodes"});
    }
    prospects.emplace(name, std::move(prospect));
  }
  return prospects;
}

}  // namespace kedge::tools

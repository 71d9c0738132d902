// Restorability: from where each rank's image of a generation can come, given what the reachable nodes say they have.
//
// A pure function of the inventories. Sources are listed nearest first, so that a bad copy leads to the next one: the own
// node, a partner or another node with a whole copy, a rebuild from the survivors of a set, the store. No source: lost,
// and the plan says why, naming nodes. A rebuild is planned stripe by stripe, for image and parity of one member may be lost
// apart from each other; what is bad only in places is found later, by Assembler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/set_records.h"

namespace kedge::redundancy {

// A set record without its block tables and image records: what planning needs, small enough for a message.
struct SetSummary {
  struct Member {
    std::string node;
    std::optional<uint32_t> rank;
    uint64_t bytes = 0;          // of the thin stream (natural.h)
    uint64_t natural_bytes = 0;  // of the rest of it
    friend bool operator==(const Member&, const Member&) = default;
  };
  SetIdentity identity;
  Scheme scheme = Scheme::kNone;
  uint32_t parity = 0;
  uint32_t block_bytes = kBlockBytesMin;  // no block of the set is smaller
  std::vector<Member> members;
  uint32_t record_crc32c = 0;  // of the encoded set record: summaries are of the same set only when it agrees

  friend bool operator==(const SetSummary&, const SetSummary&) = default;
};
SetSummary Summarize(const SetRecord& set, uint32_t record_crc32c);

// Whether the fields are within the bounds of a set record: to be asked of a summary that came from another node.
Status Validate(const SetSummary& set);

// Whether a copy of the member's stream (scheme partner) is all of it. Otherwise it is of the thin stream (natural.h).
bool CopiesAreWhole(const SetSummary& set, uint32_t member);

// A parity object, or a copy of a thin stream, that is whole on a node.
struct HeldParity {
  SetIdentity set;
  uint32_t member = 0;
  uint32_t set_record_crc32c = 0;
};

// What one reachable node has of one generation. What was found to be bad or incomplete is not listed.
struct NodeInventory {
  std::string node;
  std::vector<uint32_t> images;  // ranks whose image is whole in slots of this node: its own, whole copies, rebuilt ones
  std::vector<HeldParity> parity;
  std::vector<std::shared_ptr<const SetSummary>> sets;  // whose records it keeps
};

enum class SourceKind : uint8_t { kLocal, kNode, kRebuild, kStore };
// "local", "node", "rebuild", "store".
const char* SourceKindName(SourceKind kind);

// Where the parts of a set survive.
struct SetSurvivors {
  std::shared_ptr<const SetSummary> set;
  // By member: a node that has its image (empty image: none is needed), and all that have its parity object, or a copy of its
  // thin stream, `here` first. Empty: lost.
  std::vector<std::string> image_node;
  std::vector<std::vector<std::string>> parity_nodes;
};

struct Source {
  SourceKind kind = SourceKind::kLocal;
  std::string node;  // kLocal, kNode: which has the whole image; kRebuild: the copy of its thin stream
  std::shared_ptr<const SetSurvivors> survivors;  // kRebuild
  uint32_t member = 0;                            // kRebuild: which of its members
};

struct RankPlan {
  uint32_t rank = 0;
  std::vector<Source> sources;  // nearest first; empty: lost
  std::string why_lost;         // of a lost one: "its node n3 and 2 of ..."; else empty
};

struct RestorePlan {
  std::vector<RankPlan> ranks;  // in order, 0 to ranks - 1
  bool complete() const;
  // The first few lost ranks and why, one line for those that are lost for the same reason, and how many more there are; empty
  // when complete.
  std::string WhatIsLost() const;
};

// `generation` and `ranks` name it; inventories are of it. `in_store`: it is complete there. Summaries of another
// generation or that are not valid are passed over. `here` is the node for which local is local; empty: none.
RestorePlan PlanRestore(const Generation& generation, uint32_t ranks, const std::vector<NodeInventory>& inventories,
                        bool in_store, const std::string& here = {});

// One rank's part of it, without the cost of the others.
RankPlan PlanRank(const Generation& generation, uint32_t ranks, uint32_t rank, const std::vector<NodeInventory>& inventories,
                  bool in_store, const std::string& here = {});

// Whether all of `member`'s stream (or of its parity object) can be made from the survivors without itself, and if not, why. Of a
// scheme without parity: whether its stream can be made of a copy of its thin stream.
Status CanRebuild(const SetSurvivors& survivors, uint32_t member, bool parity);

}  // namespace kedge::redundancy

// What a launch would go on from: of each checkpoint name the version that a restart finds now, on the nodes and in the store
// together, by the rule that the ranks go by (restore/candidates.h). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/store_records.h"
#include "session/messages.h"
#include "store/eligible.h"

namespace kedge::tools {

// What the store has of a job.
struct StoredVersion {
  Generation generation;
  uint32_t ranks = 0;
  std::vector<RankRun> given;  // whose images it has
};
struct StoredJob {
  std::vector<std::string> names;
  std::vector<StoredVersion> versions;     // complete or not
  std::vector<RestoredRecord> restored;    // what its attempts went on from
  std::vector<Generation> withdrawn;       // somebody has removed them: they are not gone on from, whoever has them
  std::map<std::string, Generation> safe;  // by name: one that was safe once, wherever
};

// Of one name.
struct Prospect {
  std::optional<Generation> generation;   // nothing: there is none
  bool on_nodes = false;                  // the nodes give all of it
  bool in_store = false;                  // the store has all of it
  std::vector<LostVersion> lost;          // newer ones that cannot be had, the newest first; some may never have been whole
  std::vector<std::string> silent_nodes;  // of the job: what they hold is not known, and may be what is missing

  // There is none, and there was one that was safe: what is known of it. Else empty. Nothing is lost while nodes are silent.
  std::string WhatWasLost() const;
  // The same while nodes are silent; empty where none is.
  std::string WhatSilentNodesMayHave() const;
};
using Prospects = std::map<std::string, Prospect>;

// Who asks for it.
enum class Asker {
  kLaunch,  // ranks, where they were last
  kStore,   // takes what any node has
};
// `asked`: restart.version and restart.attempt.
Prospects Foresee(const RebuildReply& on_nodes, const StoredJob& stored, Asker asker, const AskedVersion& asked);

std::string TextOf(const LostVersion& lost);

}  // namespace kedge::tools

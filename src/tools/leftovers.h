// What an agent that is gone has left of a node: read from its files, as its successor would (agent/daemon/recovery.h), without
// becoming one. Whoever looks holds the agent's lock (os/sockets/socket_lock.h), so that no agent changes anything meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/identity.h"

namespace kedge::tools {

struct LeftVersion {
  std::string store;        // the path that its job's store was configured with; empty: not known
  bool was_stored = false;  // as its agent has noted: what is here of it came to the store, or all of it did
};

struct Leftovers {
  std::set<std::string> jobs;
  std::map<Generation, LeftVersion> versions;  // of which an image or redundancy lies here
  std::vector<std::string> unread;             // images that were handed over, and that no agent has taken
  std::vector<std::string> owners;             // live processes that were attached
  std::vector<std::string> folders;            // of this node's own on tiers and scratches, beside the run folder
  uint64_t bytes = 0;                          // of files and folders, as they take space
};

// `tiers`: folders that the configuration names for tiers. What cannot be read counts as unread.
Result<Leftovers> ReadLeftovers(const std::string& node, const std::string& run_folder, const std::vector<std::string>& tiers);

// Those that are only here, and why: the store does not have them whole, has not let go of them, or cannot be asked.
std::map<Generation, std::string> OnlyHere(const Leftovers& left);

// Removes all of it but the lock: tiers first, the records last. The first error.
Status RemoveLeftovers(const std::string& run_folder, const Leftovers& left);

}  // namespace kedge::tools

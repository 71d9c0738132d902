// Many histories, one seed each, over several processes at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/histories/history.h"
#include "tests/histories/player.h"
#include "tests/histories/promises.h"

namespace kedge::histories {

struct CampaignOptions {
  bool real = false;
  uint64_t first_seed = 1;
  uint64_t last_seed = UINT64_MAX;
  double seconds = 0;  // no further history begins after so long; 0: until the last seed
  int processes = 1;
  bool shrinks = false;           // the first history of each kind of violation
  std::string found_folder;       // where those go, one file each; empty: nowhere
  std::set<std::string> ignored;  // kinds of violation that are passed over
};

struct CampaignResult {
  uint64_t played = 0;
  uint64_t in_bucket = 0;  // of them
  uint64_t on_buffer = 0;  // of them
  double seconds = 0;
  std::map<std::string, uint64_t> violations;  // by kind
};

// The folder of this program, where those that real histories start lie, too.
std::string ProgramFolder();

// That of a seed. Without a server for buckets on this machine its store is in a folder.
History GenerateHere(uint64_t seed, bool real);

// In a fresh world that goes with it.
std::optional<Violation> PlayFresh(const History& history, bool real, const PlayOptions& options);

// Prints each violation with its seed, and from time to time how far it is.
CampaignResult RunCampaign(const CampaignOptions& options);

// A violation with its history, as a file that replays and says by itself what it shows.
std::string Documented(const History& history, const Violation& violation, uint64_t seed, bool real);

}  // namespace kedge::histories

// A history: one life of a job as plain text, to be generated from a seed, played, shrunk, read and kept.
//
//   ranks 2                       the setup: how many ranks, on how many virtual nodes, and keys of the configuration
//   nodes 2
//   divided                       what ranks have are parts of global arrays: launches may have other numbers of ranks
//   key schedule.store 2
//   tier beside|alone|scratch     each node has a directory tier, beside a small pool or alone; or the job has a job.scratch;
//                                 without the line there is a pool alone (real only)
//   bucket small|large            the store is a bucket on a server of the world's own, instead of a folder; an image is smaller
//                                 than a part of an upload, or larger (real only)
//   buffer [drains [partner]]     the store is on a burst buffer, a server of the world's own, instead of a folder; or the buffer
//                                 lies before the folder, and drains to it; or two, which both have all of it (real only)
//   launch [ranks 3] [on 0,1]     rank r on the r-th of these nodes; without a list on node r modulo nodes. As many ranks as
//                                 the setup has, or where they have parts (divided) so many
//   restart [40] [parts]          of all ranks, at most that version; region by region (not of parts, which come back whole)
//   read 30                       of all ranks: into memory, without going on from it (not of parts)
//   newest [40]                   of all ranks: which version would that be?
//   look                          kedge rebuild --look: what a restart right after it brings back (real only, not of parts)
//   checkpoint 3 [by 0,1] [overwrite] [parts] [some] [file] [abandon]
//                                 region by region; of some regions only; with a routed file; ended without a version.
//                                 With "key capture.mode cow" ranks write to their memory when the call has returned
//   wait 3 local|node|store|last  of all ranks
//   test 3                        of all ranks: the level that it has reached
//   pending                       of all ranks; where all say that nothing is, the newest version is at its last level
//   end [drain]                   all ranks finalize; without it they are killed when the next launch begins
//   kill                          all ranks at once
//   freeze, thaw                  all ranks stop (SIGSTOP) and go on; a launch meanwhile makes the frozen one the late one
//   late STEP                     a step (checkpoint, wait, test, restart) of the late launch, after its thaw
//   rival                         the same job is launched from another PID namespace while this launch lives
//   kill-agent 0, stop-agent 0, continue-agent 0
//   lose-node 0                   its agent, its ranks (and with them the launch) and all its local copies
//   cut-node 0, join-node 0       its agent's connections to other nodes carry nothing (not with a burst buffer, which is one)
//   step-clock 0 -3600            the node's clock on the wall steps by so many seconds
//   delete-pool 0                 the pool's file, under the agent
//   fail-rank 1 list EIO [2]      that call on the store fails once on that rank, after so many (0) more of them,
//                                 in the next call
//   die-rank 1 20                 the rank's process dies: at its 20th call on files from here (simulated),
//                                 or so many times 20 us into its next checkpoint (real)
//   die-node 0 20                 as lose-node, so many times 20 us into the next checkpoint (real only)
//   stop-rank 1, continue-rank 1  the rank's process stands still; it goes on at the latest when it is to do something
//                                 (real only)
//   buffer-away, buffer-still, buffer-lost, buffer-back
//                                 the server of a buffer that drains is killed; it stands still; it is killed, and its files are
//                                 gone; it is started again, or goes on
//   partner-away, partner-still, partner-lost, partner-back
//                                 the same of its partner's server
//   gc                            kedge gc --yes
//   power-cut                     all processes die, and what was not synced is lost (simulated only)
//   store away|back|full|broken|read-only|mended
//                                 away: the folder has another name; or the store's server is killed, and back: started again
//   store still|cut               the store's server stands still; some of a bucket's connections are cut, before a request has
//                                 had its effect or after. Until it is mended
//   flip pool 0 3, flip tier 0 3, flip store 3, flip parity 0
//                                 the copies of version 3 on node 0: in its pool, or in its directory tier or job.scratch
//   settle                        until the agents have nothing to do
//   # a comment
//
// Steps that make no sense where they stand (a wait before a launch) are passed over, so that a history may be cut anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace kedge::histories {

// Its value is a folder of the world's own.
inline constexpr const char kStagingKey[] = "staging.folder";
// Its value where that agent writes slowly: nodes that leave are long gone before it has written what they had.
inline constexpr const char kSlowStaging[] = "slow";

struct Setup {
  int ranks = 1;
  int nodes = 1;
  bool divided = false;
  std::string tier;      // beside, alone or scratch; empty: nodes have a pool and nothing else
  std::string bucket;    // small or large; empty: the store is a folder
  bool buffer = false;   // the store is on a burst buffer
  bool drains = false;   // or one lies before it, which drains to it
  bool partner = false;  // which has a partner
  std::vector<std::pair<std::string, std::string>> keys;

  // The key's value, or what it is without one.
  std::string Key(const std::string& name, const std::string& otherwise) const;
  int64_t Number(const std::string& name, int64_t otherwise) const;
  // Some chunks find no room in the nodes' pools.
  bool HasSmallPools() const { return tier == "beside" || !Key("pool.size", "").empty(); }
  // Ranks have memory whose writes are tracked.
  bool Tracks() const { return Key("capture.track", "off") != "off"; }
  // Ranks write to their memory while it is captured, after the call.
  bool CopiesLater() const { return Key("capture.mode", "copy") == "cow"; }
  // An image needs more slots than a rank has ready.
  bool HasLargeImages() const { return Tracks() || CopiesLater() || bucket == "large"; }
  // A staging agent writes the nodes' images.
  bool Stages() const { return !Key(kStagingKey, "").empty(); }
  // It has the number that follows the nodes'.
  int Agents() const { return nodes + (Stages() ? 1 : 0); }
  bool Protects() const { return Key("protect.scheme", "none") != "none"; }
  // How many nodes of a group may be lost at level NODE.
  int LossesSurvived() const;
};

struct Step {
  std::string verb;
  std::vector<std::string> words;  // what follows it
  bool late = false;

  bool Has(const std::string& word) const;
  // The n-th word as a number, or `otherwise`.
  int64_t Number(size_t n, int64_t otherwise = -1) const;
  // The numbers after the word `before`; empty: it is not there.
  std::vector<int> List(const std::string& before) const;
  std::string ToString() const;
};

struct History {
  Setup setup;
  std::vector<Step> steps;

  std::string ToString() const;
};

Step ParseStep(const std::string& line);
// kInvalidArgument names the line.
Result<History> ParseHistory(const std::string& text);

}  // namespace kedge::histories

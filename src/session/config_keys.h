// Every key of the configuration, node and job, in one registry that client, agent and tools share; and the same keys read
// into structs, with paths made absolute (the agent runs in "/").
//
// Node keys belong to the running agent; a job that sets one explicitly to something else is refused. Job keys travel in
// Hello.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "session/messages.h"
#include "store/posix/posix_folders.h"

namespace kedge {

inline constexpr uint64_t kChunkBytesDefault = uint64_t{64} << 20;
inline constexpr uint64_t kChunkBytesMin = uint64_t{1} << 20;
inline constexpr uint64_t kPieceBytesMin = uint64_t{64} << 10;
inline constexpr uint32_t kProtectGroupMax = 64;
inline constexpr size_t kFailureDomainBytesMax = 255;
inline constexpr uint64_t kHeapAlignment = uint64_t{2} << 20;
inline constexpr uint64_t kHeapBytesMin = uint64_t{16} << 20;
inline constexpr uint64_t kMallocFromMin = uint64_t{32} << 10;  // smaller blocks share a region, and cannot be held
inline constexpr uint64_t kHeapBytesMax = uint64_t{64} << 40;

ConfigRegistry KedgeConfigRegistry();

struct TierSettings {
  std::string name;
  TierKind kind = TierKind::kDirectory;
  std::string path;
  uint64_t capacity_bytes = 0;
};

struct NodeSettings {
  std::string node;                     // valid as one path component
  std::string failure_domain;           // what fails together with this node; its own name where nothing is known
  std::string run_folder;               // absolute
  std::optional<uint64_t> pool_bytes;   // nothing: computed from the machine; 0: no pool
  std::optional<uint64_t> chunk_bytes;  // nothing: kChunkBytesDefault, less for a small pool
  uint64_t piece_bytes = 0;
  std::vector<TierSettings> tiers;      // besides the pool, fastest first
  uint32_t flush_workers = 0;           // at most
  uint64_t flush_bytes_per_second = 0;  // 0: no limit
  uint32_t writers_least = 1;           // of other nodes' images at once
  uint32_t writers_most = 8;
  Duration idle_timeout{};
  std::string net_provider;        // between nodes
  std::string net_interface;       // empty: the provider's first
  bool net_encrypt = false;        // images are read sealed, here and from here
  Duration net_pause{};            // of reads at most, while an application communicates
  std::string staging_folder;      // absolute: where this agent says that it writes for other nodes; empty: it does not
  bool awaits_protection = false;  // protect.scheme names one where the agent reads its configuration: jobs will need the network
  uint32_t metrics_port = 0;       // 0: none
  std::string placement_policy;
  std::string calibration_folder;  // absolute; empty (tests only): nothing is read or kept

  std::string SocketPath() const { return run_folder + "/agent.sock"; }
};
// kInvalidArgument names the key, what was found and what is allowed.
Result<NodeSettings> ReadNodeSettings(const Config& config);

// The abandoned version that the job is to go back to; attempt 0: none.
struct RestartKeys {
  int64_t version = -1;
  uint32_t attempt = 0;
};
// kInvalidArgument: one of the two alone.
Result<RestartKeys> ReadRestartKeys(const Config& config);

// Where the heap of kedge_alloc lies.
struct HeapKeys {
  uint64_t bytes = uint64_t{256} << 30;  // of addresses; a multiple of kHeapAlignment
  uint64_t address = 0;                  // a multiple of kHeapAlignment; 0: chosen
};

// Which allocations of a program are blocks of the heap, under libkedge-malloc.
struct MallocKeys {
  uint64_t from = kMallocFromMin;
  std::string by;  // names of libraries, beside the program itself
};

struct JobSettings {
  std::string job;
  bool synchronous = false;  // job.mode = "sync": every checkpoint goes straight to the store
  Duration lease{};
  Duration wait_timeout{};
  RootMaking store_making = RootMaking::kLast;  // the agent makes no store
  bool makes_store_anew = false;                // store.create = "anew": also where the nodes know of one that lay there
  bool begins_if_lost = false;                  // restart.if_lost = "begin": what is lost is taken for what never was
  RestartKeys restart;
  HeapKeys heap;
  MallocKeys malloc;
  Feature tracking = Feature::kOff;  // of regions, for their changes from image to image
  bool copies_later = false;         // capture.mode = cow: memory is copied after the call, and its writers held back until then
  JobKeys keys;
};
Result<JobSettings> ReadJobSettings(const Config& config);

// Node keys whose value does not come from the default, as (key, Config::TextOf): for Hello, and for the arguments of an
// agent that is started (`--set key=text`). Relative paths in them are made absolute first.
Result<std::vector<std::pair<std::string, std::string>>> ExplicitNodeKeys(const Config& config);

}  // namespace kedge

#include "session/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "format/block_map.h"
#include "os/files/files.h"
#include "os/machine/machine.h"
#include "store/places/store_path.h"

namespace kedge {
namespace {

using enum KeyType;
using enum KeyScope;

void AddNodeKeys(ConfigRegistry& registry) {
  registry.Add({"node.name", kString, "auto", kNode, "name of this node; KEDGE_NODE wins; auto: the host's name", "", true});
  registry.Add({"node.run_folder", kString, "auto", kNode,
                "the agent's folder (socket, pool, records); %n: the node's name; auto: /dev/shm/kedge-UID/NODE", "", true});
  registry.Add(
      {"pool.size", kBytes, "auto", kNode,
       "most that all memory tiers take together; auto: least of 1/4 of memory, 1/2 of the free /dev/shm, 1/2 of what the "
       "cgroup leaves; 0: none",
       "", true});
  registry.Add({"node.failure_domain", kString, "auto", kNode,
                "the part that fails with this node (a rack, a power supply): protection groups never hold two nodes of one; "
                "auto: the node by itself; slurm: its lowest switch in SLURM's topology",
                "", true});
  registry.Add(
      {"net.provider", kString, "tcp", kNode, "libfabric's provider between the nodes' agents: tcp, verbs, cxi, efa, ..."});
  registry.Add(
      {"net.interface", kString, "", kNode, "host name or address to be reached at by other nodes; empty: the provider's first"});
  registry.Add(
      {"net.encrypt", kBool, "false", kNode,
       "reads of images by other nodes are sealed, too, and so are FMI's messages between ranks; those of agents always are. "
       "Costs processor time and bandwidth"});
  KeySpec pause{"net.pause", kDuration, "500ms", kNode,
                "how long reads of images pause at most while the application says that it communicates (kedge_phase); 0: not"};
  pause.maximum = 1;
  registry.Add(pause);
  KeySpec chunk{
      "chunk.size", kBytes, "auto", kNode, "largest chunk, and size of a slot; auto: 64MiB, less for a pool under 16 of them",
      "",           true};
  chunk.minimum = static_cast<double>(kPieceBytesMin);
  chunk.maximum = static_cast<double>(uint64_t{1} << 32);
  registry.Add(chunk);
  KeySpec piece{"chunk.piece", kBytes, "8MiB", kNode, "size of the piece that is captured, flushed and verified at a time"};
  piece.minimum = static_cast<double>(kPieceBytesMin);
  piece.maximum = static_cast<double>(uint64_t{256} << 20);
  registry.Add(piece);
  KeySpec workers{"flush.workers", kInt64, "4", kNode, "flushes at a time, at most", "threads"};
  workers.minimum = 1;
  workers.maximum = 256;
  registry.Add(workers);
  registry.Add({"flush.rate", kBytes, "0", kNode, "ceiling of the node's flush rate; 0: none", "per second"});
  registry.Add({"agent.staging", kString, "", kNode,
                "folder where this agent says that it writes images of other nodes to their stores (staging.folder); empty: it "
                "does not"});
  registry.Add({"agent.idle_timeout", kDuration, "60s", kNode, "how long an agent without sessions and work stays"});
  KeySpec least{"agent.writers_least", kInt64, "1", kNode, "least images of other nodes that are written at once", "images"};
  least.minimum = 1;
  least.maximum = 256;
  registry.Add(least);
  KeySpec most{"agent.writers_most",
               kInt64,
               "8",
               kNode,
               "most of them: between the two, as many as make it faster, beginning with flush.workers",
               "images"};
  most.minimum = 1;
  most.maximum = 256;
  registry.Add(most);
  KeySpec port{"agent.metrics_port", kInt64, "0", kNode, "loopback TCP port of the metrics; 0: only the unix socket"};
  port.minimum = 0;
  port.maximum = 65535;
  registry.Add(port);
  KeySpec policy{"placement.policy", kString, "adaptive", kNode, "which tier takes the next chunk"};
  policy.choices = {"adaptive", "paper", "naive", "ssd-only", "cache-only"};
  registry.Add(policy);
  registry.Add(
      {"placement.calibrations", kString, "auto", kNode,
       "folder of the tiers' calibrations; auto: $XDG_STATE_HOME/kedge/calibrations, else ~/.local/state/kedge/calibrations", "",
       true});

  KeySpec name{"name", kString, "", kNode, "the tier's name"};
  name.required = true;
  KeySpec kind{"kind", kString, "directory", kNode, "memory (a pool file) or directory (one file for each slot)"};
  kind.choices = {"memory", "directory"};
  KeySpec path{"path", kString, "", kNode, "its folder"};
  path.required = true;
  KeySpec capacity{"capacity", kBytes, "", kNode, "how much it may hold"};
  capacity.default_text = "1GiB";
  registry.AddTableList({"tier", kNode, "local storage besides the pool, fastest first", {name, kind, path, capacity}});
}

KeySpec Count(const char* name, const char* text, const char* doc, const char* unit, double minimum) {
  KeySpec spec{name, kInt64, text, kJob, doc, unit};
  spec.minimum = minimum;
  spec.maximum = 1e9;
  return spec;
}

KeySpec Mtbf(const char* name, const char* text, const char* doc) {
  KeySpec spec{name, kDuration, text, kJob, doc};
  spec.minimum = 1;
  return spec;
}

KeySpec FeatureKey(const char* name, const char* what) {
  KeySpec key{name, kString, "off", kJob, what};
  key.choices = {"off", "auto", "on"};
  return key;
}

void AddJobKeys(ConfigRegistry& registry) {
  registry.Add(
      {"job.name", kString, "auto", kJob, "the name that the job's checkpoints have; auto: the program's name", "", true});
  registry.Add(
      {"job.scratch", kString, "", kJob, "folder of the job's local copies, a tier of its own; empty: the node's tiers"});
  KeySpec mode{"job.mode", kString, "async", kJob, "async, or sync: every checkpoint goes straight to the store"};
  mode.choices = {"async", "sync"};
  registry.Add(mode);
  KeySpec lease{"job.lease", kDuration, "60s", kJob, "how long a silent holder keeps its job"};
  lease.minimum = 1;
  registry.Add(lease);
  KeySpec version{"restart.version", kInt64, "-1", kJob,
                  "with restart.attempt: an abandoned version that the job goes back to, once; -1: none"};
  version.minimum = -1;
  registry.Add(version);
  registry.Add(Count("restart.attempt", "0", "the attempt that has taken restart.version; 0: none", "", 0));
  registry.Add(
      {"store.path", kString, "./kedge-store", kJob, "external storage: a folder, s3://BUCKET/PREFIX or bb://SERVER/PREFIX"});
  registry.Add({"store.mode", kString, "0700", kJob, "permissions of the store's folders, octal; files lack the x bits"});
  KeySpec create{"store.create", kString, "last", kJob,
                 "which folders of a missing store are made: the last component, its parents too, or none; anew: the last "
                 "component, also where nodes have versions of the job from a store that was there"};
  create.choices = {"last", "parents", "never", "anew"};
  registry.Add(create);
  registry.Add({"store.direct", kBool, "true", kJob, "write to the store around the page cache, where it can be done"});
  KeySpec layout{
      "store.layout", kString, "file", kJob,
      "objects that agents write of a version: file (one for each rank), node (one for each node), posix (one, which all "
      "nodes write), or leaders (one for each of store.leaders nodes, which write for the others)"};
  layout.choices = {"file", "node", "posix", "leaders"};
  registry.Add(layout);
  registry.Add(
      Count("store.leaders", "0", "objects, with store.layout = leaders (0: one for each node) or posix (0: one)", "objects", 0));
  KeySpec stripe{"store.stripe", kBytes, "16MiB", kJob,
                 "with store.layout = leaders or posix, the least that an object is worth while for"};
  stripe.minimum = 4096;
  registry.Add(stripe);
  KeySpec targets = Count("store.targets", "0",
                          "targets of the store's file system that each object lies on, in stripes of store.stripe (Lustre); "
                          "65535: all; 0: as the file system has it",
                          "targets", 0);
  targets.maximum = 65535;
  registry.Add(targets);
  registry.Add(
      {"staging.folder", kString, "", kJob,
       "folder that all nodes see, where staging agents say where they are: they write the job's versions; empty: none do"});
  KeySpec alpha =
      Count("staging.alpha", "5", "by how much a step (kedge_checkpoint_due) may take longer while staging agents read; 0: any",
            "percent", 0);
  alpha.maximum = 1000;
  registry.Add(alpha);
  registry.Add(Count("keep.versions", "2", "complete versions of a name that stay in the store", "versions", 1));
  registry.Add(Count("keep.local", "1", "complete versions of a name that stay on the node while there is room", "versions", 0));
  registry.Add(Count("schedule.store", "1", "every n-th version goes to the store; 0: none", "versions", 0));
  registry.Add({"schedule.store_interval", kDuration, "0s", kJob, "versions go to the store no more often than this"});
  registry.Add(
      Count("schedule.node", "1", "every n-th version is protected across nodes, by protect.scheme; 0: none", "versions", 0));
  registry.Add({"schedule.node_interval", kDuration, "0s", kJob, "versions are protected across nodes no more often than this"});
  KeySpec scheme{"protect.scheme", kString, "none", kJob,
                 "how versions survive the loss of nodes: partner (copies), xor (one loss a group), rs (protect.losses a group)"};
  scheme.choices = {"none", "partner", "xor", "rs"};
  registry.Add(scheme);
  KeySpec group = Count("protect.group", "0", "nodes that protect each other; 0: chosen", "nodes", 0);
  group.maximum = kProtectGroupMax;
  registry.Add(group);
  KeySpec losses = Count("protect.losses", "2", "losses in a group that rs survives", "nodes", 1);
  losses.maximum = kProtectGroupMax - 1;
  registry.Add(losses);
  KeySpec copies = Count("protect.copies", "1", "nodes that hold a copy for partner", "nodes", 1);
  copies.maximum = kProtectGroupMax - 1;
  registry.Add(copies);
  KeySpec patience{"protect.timeout", kDuration, "60s", kJob,
                   "how long a version on its way to other nodes may make no progress"};
  patience.minimum = 1;
  registry.Add(patience);
  registry.Add({"protect.required", kBool, "true", kJob,
                "a job whose nodes cannot protect each other is refused; false: it runs without, with a warning"});
  registry.Add({"schedule.interval", kDuration, "0s", kJob,
                "computation between two checkpoints, for kedge_checkpoint_due; 0: it always says yes"});
  registry.Add({"schedule.adapt", kBool, "false", kJob,
                "the interval follows measurements of the running job; schedule.interval holds until there are some"});
  registry.Add({"schedule.adapt_levels", kBool, "false", kJob,
                "with schedule.adapt: schedule.node and schedule.store follow too, and say where to begin; 0 stays 0"});
  registry.Add(
      Mtbf("schedule.mtbf_local", "24h", "assumed time between failures that leave the node's copies, until some are observed"));
  registry.Add(Mtbf("schedule.mtbf_node", "240h",
                    "assumed time between failures that other nodes' copies answer, where protect.scheme makes some"));
  registry.Add(Mtbf("schedule.mtbf_store", "240h", "assumed time between failures that need the store, until some are observed"));
  KeySpec heap{"heap.size", kBytes, "256GiB", kJob, "addresses that are reserved for blocks of kedge_alloc, at its first use"};
  heap.minimum = static_cast<double>(kHeapBytesMin);
  heap.maximum = static_cast<double>(kHeapBytesMax);
  registry.Add(heap);
  registry.Add({"heap.address", kString, "auto", kJob,
                "where they are, in hexadecimal, such as 0x550000000000: a multiple of 2MiB; auto: where nothing else lies", "",
                true});
  KeySpec large{"heap.malloc_from", kBytes, "64KiB", kJob,
                "with kedge run --protect-heap: allocations of the program of so many bytes and more are blocks of the heap"};
  large.minimum = static_cast<double>(kMallocFromMin);
  registry.Add(large);
  registry.Add({"heap.malloc_by", kString, "", kJob,
                "names of libraries, with spaces between them, whose allocations are blocks, too: libsolver.so"});
  registry.Add(FeatureKey(
      "capture.track",
      "pages that were not written since the image before are not read by a checkpoint: off, on, or auto, by what it saves"));
  KeySpec capture{"capture.mode", kString, "copy", kJob,
                  "a checkpoint returns when its memory is copied: copy; or when writes to it are held back until it is: cow"};
  capture.choices = {"copy", "cow"};
  registry.Add(capture);
  registry.Add(
      FeatureKey("reduce.incremental",
                 "blocks that the version before has are not written to the store again: off, on, or auto, by what it saves"));
  KeySpec deduplicate{
      "reduce.deduplicate", kString, "off", kJob,
      "equal blocks are written to the store once: off, rank (of one image), node (of all ranks there), or job (of all nodes)"};
  deduplicate.choices = {"off", "rank", "node", "job"};
  registry.Add(deduplicate);
  KeySpec common{"reduce.common", kInt64, "65536", kJob,
                 "with reduce.deduplicate = job: blocks, the most frequent ones, that the nodes agree on for a version"};
  common.minimum = 1;
  common.maximum = kCommonBlocksMost;
  registry.Add(common);
  KeySpec verify{"reduce.verify", kString, "off", kJob,
                 "bytes are compared, too, before a block is taken for equal to one that is on the node: off, or on"};
  verify.choices = {"off", "on"};
  registry.Add(verify);
  registry.Add(
      FeatureKey("reduce.compress", "blocks are compressed on their way to the store: off, on, or auto, where that is faster"));
  KeySpec block{"reduce.block", kBytes, "64KiB", kJob,
                "size of the blocks that are compared with the version before, or compressed: a power of two"};
  block.minimum = kMapBlockBytesMin;
  block.maximum = kMapBlockBytesMax;
  registry.Add(block);
  registry.Add({"checkpoint.skip_queued", kBool, "false", kJob,
                "a version that still waits for its flush is left out when a newer one is captured"});
  registry.Add({"buffer.folder", kString, "", kJob,
                "where burst buffers say where they are (kedge-buffer --folder); empty: in the store (kedge-buffer --store)"});
  registry.Add({"buffer.owner", kString, "", kJob, "in whose name files of burst buffers are read and written"});
  registry.Add({"buffer.secret", kString, "", kJob, "the file with that owner's secret, of mode 0600"});
  registry.Add({"files.publish", kBool, "true", kJob, "routed files also stand at their original paths once in the store"});
  KeySpec if_lost{"restart.if_lost", kString, "stop", kJob,
                  "where all versions are lost: stop, with KEDGE_ERROR_LOST, or begin anew, as if there never was one"};
  if_lost.choices = {"stop", "begin"};
  registry.Add(if_lost);
  KeySpec timeout{"wait.timeout", kDuration, "600s", kJob, "bound of waits for which the caller gives none"};
  timeout.minimum = 0.001;
  registry.Add(timeout);
}

Feature FeatureOf(const std::string& value) {
  return value == "on" ? Feature::kOn : value == "off" ? Feature::kOff : Feature::kAuto;
}

StoreLayout LayoutOf(const std::string& text) {
  if (text == "posix") return StoreLayout::kPosix;
  return text == "leaders" ? StoreLayout::kLeaders : text == "node" ? StoreLayout::kNode : StoreLayout::kFile;
}

Deduplication DeduplicationOf(const std::string& value) {
  if (value == "job") return Deduplication::kJob;
  return value == "node" ? Deduplication::kNode : value == "rank" ? Deduplication::kRank : Deduplication::kOff;
}

Status BadKey(const Config& config, const char* key, const std::string& found, const char* allowed) {
  return Status(Code::kInvalidArgument,
                fmt::format("{} = \"{}\" ({}): allowed is {}", key, found, config.OriginOf(key).text, allowed));
}

bool IsNodeName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; });
}

Result<std::string> NodeName(const Config& config) {
  using Kind = ConfigOrigin::Kind;
  const Kind origin = config.OriginOf("node.name").kind;
  std::string name = config.IsAuto("node.name") ? "" : config.GetString("node.name");
  const char* variable = std::getenv("KEDGE_NODE");
  if (variable != nullptr && *variable != '\0' && origin != Kind::kProgram && origin != Kind::kEnvironment) {
    if (!IsNodeName(variable)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("KEDGE_NODE = \"{}\": allowed are 1 to 64 letters, digits and .-_", variable));
    }
    return std::string(variable);
  }
  if (config.IsAuto("node.name")) {
    name = os::HostName();
    for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ? c : '_';
    if (!IsNodeName(name)) name = "node";
  }
  if (!IsNodeName(name)) return BadKey(config, "node.name", name, "1 to 64 letters, digits and .-_");
  return name;
}

// SLURM_TOPOLOGY_ADDR names switches and node, outermost first: "s0.s1.n3", with SLURM_TOPOLOGY_ADDR_PATTERN
// "switch.switch.node".
std::string LowestSwitch() {
  const char* address = std::getenv("SLURM_TOPOLOGY_ADDR");
  const char* pattern = std::getenv("SLURM_TOPOLOGY_ADDR_PATTERN");
  if (address == nullptr || pattern == nullptr) return "";
  std::string_view left = address, kinds = pattern, found;
  while (!kinds.empty() && !left.empty()) {
    const size_t kind_end = std::min(kinds.find('.'), kinds.size());
    const bool is_last = kind_end == kinds.size();
    const size_t end = is_last ? left.size() : std::min(left.find('.'), left.size());  // a host's name may hold dots
    if (kinds.substr(0, kind_end) == "switch") found = left.substr(0, end);
    kinds.remove_prefix(std::min(kind_end + 1, kinds.size()));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return std::string(found);
}

Result<std::string> FailureDomain(const Config& config, const std::string& node) {
  if (config.IsAuto("node.failure_domain")) return node;
  std::string domain = config.GetString("node.failure_domain");
  if (domain == "slurm") {
    domain = LowestSwitch();
    if (domain.empty()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("node.failure_domain = \"slurm\" ({}): SLURM_TOPOLOGY_ADDR names no switch; name the domain, or "
                                "leave the key out",
                                config.OriginOf("node.failure_domain").text));
    }
  }
  if (domain.empty() || domain.size() > kFailureDomainBytesMax || domain.find('\0') != std::string::npos) {
    return BadKey(config, "node.failure_domain", domain, "auto, slurm, or 1 to 255 bytes");
  }
  return domain;
}

ProtectScheme SchemeOf(const std::string& name) {
  for (const ProtectScheme scheme : {ProtectScheme::kPartner, ProtectScheme::kXor, ProtectScheme::kReedSolomon}) {
    if (name == ProtectSchemeName(scheme)) return scheme;
  }
  return ProtectScheme::kNone;
}

// An empty path would be taken for the root's folder further on, and a NUL cuts one short.
bool IsPath(const std::string& path) {
  return !path.empty() && path.find('\0') == std::string::npos;
}

Result<std::string> PathOf(const Config& config, const char* key) {
  const std::string& path = config.GetString(key);
  if (!IsPath(path)) return BadKey(config, key, path, "the path of a folder");
  return os::AbsolutePath(path);
}

Result<std::string> RunFolder(const Config& config, const std::string& node) {
  constexpr std::string_view kNode = "%n";
  KEDGE_ASSIGN_OR_RETURN(std::string path, PathOf(config, "node.run_folder"));
  for (size_t at = 0; (at = path.find(kNode, at)) != std::string::npos; at += node.size()) path.replace(at, kNode.size(), node);
  return path;
}

Result<std::string> TierPath(const ConfigTable& table) {
  const std::string& path = table.GetString("path");
  if (!IsPath(path)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("tier.path = \"{}\" ({}): allowed is the path of a folder", path, table.origin().text));
  }
  return os::AbsolutePath(path);
}

// Absolute; without a home folder, one of the user's that outlives a reboot.
std::string DefaultCalibrationFolder() {
  for (const auto& [variable, below] :
       {std::pair("XDG_STATE_HOME", "kedge/calibrations"), std::pair("HOME", ".local/state/kedge/calibrations")}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && *folder == '/') return os::JoinPath(folder, below);
  }
  return fmt::format("/var/tmp/kedge-{}/calibrations", os::EffectiveUser());
}

}  // namespace

ConfigRegistry KedgeConfigRegistry() {
  ConfigRegistry registry;
  AddNodeKeys(registry);
  AddJobKeys(registry);
  registry.AddVariable("KEDGE_AGENT", "path of the kedge-agent program to start");
  registry.AddVariable("KEDGE_RUN_LAUNCH", "set by kedge run: which launch this is");
  registry.AddVariable("KEDGE_RUN_RANKS", "set by kedge run: how many ranks it has launched");
  return registry;
}

Result<NodeSettings> ReadNodeSettings(const Config& config) {
  NodeSettings settings;
  KEDGE_ASSIGN_OR_RETURN(settings.node, NodeName(config));
  KEDGE_ASSIGN_OR_RETURN(settings.failure_domain, FailureDomain(config, settings.node));
  settings.run_folder = fmt::format("/dev/shm/kedge-{}/{}", os::EffectiveUser(), settings.node);
  if (!config.IsAuto("node.run_folder")) {
    KEDGE_ASSIGN_OR_RETURN(settings.run_folder, RunFolder(config, settings.node));
  }
  if (!config.IsAuto("pool.size")) settings.pool_bytes = config.GetBytes("pool.size");
  if (!config.IsAuto("chunk.size")) {
    settings.chunk_bytes = config.GetBytes("chunk.size");
    if (*settings.chunk_bytes % kSlotAlignment != 0) {
      return BadKey(config, "chunk.size", config.TextOf("chunk.size"), "a multiple of 4KiB");
    }
  }
  settings.piece_bytes = config.GetBytes("chunk.piece");
  if (settings.piece_bytes % kSlotAlignment != 0) {
    return BadKey(config, "chunk.piece", config.TextOf("chunk.piece"), "a multiple of 4KiB");
  }
  for (const ConfigTable& table : config.GetTables("tier")) {
    KEDGE_ASSIGN_OR_RETURN(std::string path, TierPath(table));
    TierSettings tier{table.GetString("name"), TierKind::kDirectory, std::move(path), table.GetBytes("capacity")};
    if (table.GetString("kind") == "memory") tier.kind = TierKind::kMemory;
    if (!IsNodeName(tier.name) || tier.name == "pool") {
      return Status(Code::kInvalidArgument,
                    fmt::format("tier.name = \"{}\" ({}): allowed are 1 to 64 letters, digits and .-_, and not \"pool\"",
                                tier.name, table.origin().text));
    }
    for (const TierSettings& other : settings.tiers) {
      if (other.name == tier.name || other.path == tier.path) {
        return Status(Code::kInvalidArgument,
                      fmt::format("tier \"{}\" ({}): another tier has that name or path", tier.name, table.origin().text));
      }
    }
    settings.tiers.push_back(std::move(tier));
  }
  if (settings.tiers.size() + 2 > kControlTiersMax) {
    return Status(Code::kInvalidArgument, fmt::format("{} tiers; allowed are {}", settings.tiers.size(), kControlTiersMax - 2));
  }
  settings.flush_workers = static_cast<uint32_t>(config.GetInt64("flush.workers"));
  settings.flush_bytes_per_second = config.GetBytes("flush.rate");
  settings.writers_least = static_cast<uint32_t>(config.GetInt64("agent.writers_least"));
  settings.writers_most = static_cast<uint32_t>(config.GetInt64("agent.writers_most"));
  if (settings.writers_least > settings.writers_most) {
    return Status(Code::kInvalidArgument,
                  fmt::format("agent.writers_least: expected at most agent.writers_most, which is {}; found {}",
                              settings.writers_most, settings.writers_least));
  }
  settings.idle_timeout = config.GetDuration("agent.idle_timeout");
  settings.net_provider = config.GetString("net.provider");
  settings.net_interface = config.GetString("net.interface");
  settings.net_encrypt = config.GetBool("net.encrypt");
  settings.net_pause = config.GetDuration("net.pause");
  if (!config.GetString("agent.staging").empty()) {
    KEDGE_ASSIGN_OR_RETURN(settings.staging_folder, PathOf(config, "agent.staging"));
  }
  settings.awaits_protection = SchemeOf(config.GetString("protect.scheme")) != ProtectScheme::kNone;
  settings.metrics_port = static_cast<uint32_t>(config.GetInt64("agent.metrics_port"));
  settings.placement_policy = config.GetString("placement.policy");
  settings.calibration_folder = DefaultCalibrationFolder();
  if (!config.IsAuto("placement.calibrations")) {
    KEDGE_ASSIGN_OR_RETURN(settings.calibration_folder, PathOf(config, "placement.calibrations"));
  }
  return settings;
}

Result<RestartKeys> ReadRestartKeys(const Config& config) {
  const RestartKeys keys{config.GetInt64("restart.version"), static_cast<uint32_t>(config.GetInt64("restart.attempt"))};
  if ((keys.version >= 0) == (keys.attempt > 0)) return keys;
  return Status(Code::kInvalidArgument,
                fmt::format("restart.version = {} and restart.attempt = {}: expected both or none; kedge ls --all shows versions "
                            "and attempts",
                            keys.version, keys.attempt));
}

namespace {

Result<HeapKeys> ReadHeapKeys(const Config& config) {
  HeapKeys keys;
  keys.bytes = (config.GetBytes("heap.size") + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  if (config.IsAuto("heap.address")) return keys;
  const std::string& text = config.GetString("heap.address");
  const char* const end = text.data() + text.size();
  const bool is_hexadecimal = text.starts_with("0x");
  const auto read = std::from_chars(text.data() + (is_hexadecimal ? 2 : 0), end, keys.address, 16);
  const bool is_address = is_hexadecimal && read.ec == std::errc() && read.ptr == end && keys.address > 0;
  if (is_address && keys.address % kHeapAlignment == 0) return keys;
  return BadKey(config, "heap.address", text, "0x and a multiple of 2 MiB in hexadecimal, such as 0x550000000000, or auto");
}

}  // namespace

Result<JobSettings> ReadJobSettings(const Config& config) {
  JobSettings settings;
  settings.job = config.IsAuto("job.name") ? program_invocation_short_name : config.GetString("job.name");
  KEDGE_RETURN_IF_ERROR(ValidateName(settings.job, "job name"));
  settings.synchronous = config.GetString("job.mode") == "sync";
  settings.lease = config.GetDuration("job.lease");
  KEDGE_ASSIGN_OR_RETURN(settings.restart, ReadRestartKeys(config));
  settings.wait_timeout = config.GetDuration("wait.timeout");
  KEDGE_ASSIGN_OR_RETURN(settings.heap, ReadHeapKeys(config));
  settings.malloc = {config.GetBytes("heap.malloc_from"), config.GetString("heap.malloc_by")};
  settings.tracking = FeatureOf(config.GetString("capture.track"));
  settings.copies_later = config.GetString("capture.mode") == "cow";
  if (settings.copies_later && settings.tracking != Feature::kOff) {
    return BadKey(config, "capture.track", config.GetString("capture.track"), "off, with capture.mode = \"cow\"");
  }
  settings.begins_if_lost = config.GetString("restart.if_lost") == "begin";
  JobKeys& keys = settings.keys;
  const std::string& path = config.GetString("store.path");
  const Result<std::string> store_path = ResolveStorePath(path, &config);
  if (!store_path.ok())
    return store_path.status().WithContext(fmt::format("store.path ({})", config.OriginOf("store.path").text));
  keys.store_path = *store_path;
  const std::string& mode = config.GetString("store.mode");
  const bool octal = mode.size() >= 3 && mode.size() <= 4 && mode.find_first_not_of("01234567") == std::string::npos;
  keys.store_mode = octal ? static_cast<uint32_t>(std::stoul(mode, nullptr, 8)) : 0;
  if ((keys.store_mode & 0700) != 0700) return BadKey(config, "store.mode", mode, "three or four octal digits, 0700 or more");
  keys.store_direct = config.GetBool("store.direct");
  const std::string& create = config.GetString("store.create");
  settings.store_making = create == "parents" ? RootMaking::kParents : create == "never" ? RootMaking::kNever : RootMaking::kLast;
  settings.makes_store_anew = create == "anew";
  if (!config.GetString("staging.folder").empty()) {
    KEDGE_ASSIGN_OR_RETURN(keys.staging_folder, PathOf(config, "staging.folder"));
  }
  keys.staging_alpha_percent = static_cast<uint32_t>(config.GetInt64("staging.alpha"));
  if (!config.GetString("job.scratch").empty()) {
    KEDGE_ASSIGN_OR_RETURN(keys.scratch, PathOf(config, "job.scratch"));
  }
  keys.keep_versions = static_cast<uint32_t>(config.GetInt64("keep.versions"));
  keys.keep_local = static_cast<uint32_t>(config.GetInt64("keep.local"));
  keys.schedule_store = static_cast<uint32_t>(config.GetInt64("schedule.store"));
  keys.schedule_store_interval = config.GetDuration("schedule.store_interval");
  keys.schedule_node = static_cast<uint32_t>(config.GetInt64("schedule.node"));
  keys.schedule_node_interval = config.GetDuration("schedule.node_interval");
  keys.protect_scheme = SchemeOf(config.GetString("protect.scheme"));
  keys.protect_group = static_cast<uint32_t>(config.GetInt64("protect.group"));
  if (keys.protect_group == 1) return BadKey(config, "protect.group", "1", "0 (chosen), or 2 and more");
  keys.protect_losses = static_cast<uint32_t>(config.GetInt64("protect.losses"));
  keys.protect_copies = static_cast<uint32_t>(config.GetInt64("protect.copies"));
  keys.protect_timeout = config.GetDuration("protect.timeout");
  keys.protect_required = config.GetBool("protect.required");
  keys.schedule_interval = config.GetDuration("schedule.interval");
  keys.schedule_adapt = config.GetBool("schedule.adapt");
  keys.schedule_adapt_levels = config.GetBool("schedule.adapt_levels");
  if (keys.schedule_adapt_levels && !keys.schedule_adapt) {
    return BadKey(config, "schedule.adapt_levels", "true", "false, or true with schedule.adapt = true");
  }
  keys.schedule_mtbf_local = config.GetDuration("schedule.mtbf_local");
  keys.schedule_mtbf_node = config.GetDuration("schedule.mtbf_node");
  keys.schedule_mtbf_store = config.GetDuration("schedule.mtbf_store");
  keys.skip_queued = config.GetBool("checkpoint.skip_queued");
  keys.reduce_incremental = FeatureOf(config.GetString("reduce.incremental"));
  keys.reduce_deduplicate = DeduplicationOf(config.GetString("reduce.deduplicate"));
  keys.store_layout = LayoutOf(config.GetString("store.layout"));
  keys.store_leaders = static_cast<uint32_t>(config.GetInt64("store.leaders"));
  keys.store_stripe_bytes = config.GetBytes("store.stripe");
  keys.store_targets = static_cast<uint32_t>(config.GetInt64("store.targets"));
  keys.reduce_common_most = static_cast<uint32_t>(config.GetInt64("reduce.common"));
  keys.reduce_verify = config.GetString("reduce.verify") == "on";
  keys.reduce_compress = FeatureOf(config.GetString("reduce.compress"));
  keys.reduce_block_bytes = static_cast<uint32_t>(config.GetBytes("reduce.block"));
  if (!std::has_single_bit(keys.reduce_block_bytes)) {
    return BadKey(config, "reduce.block", config.TextOf("reduce.block"), "a power of two");
  }
  keys.files_publish = config.GetBool("files.publish");
  return settings;
}

Result<std::vector<std::pair<std::string, std::string>>> ExplicitNodeKeys(const Config& config) {
  Config absolute = config;
  if (!config.IsAuto("node.run_folder")) {
    KEDGE_ASSIGN_OR_RETURN(const std::string node, NodeName(config));
    KEDGE_ASSIGN_OR_RETURN(const std::string path, RunFolder(config, node));
    KEDGE_RETURN_IF_ERROR(absolute.Set("node.run_folder", path, config.OriginOf("node.run_folder")));
  }
  if (!config.IsAuto("placement.calibrations")) {
    KEDGE_ASSIGN_OR_RETURN(const std::string path, PathOf(config, "placement.calibrations"));
    KEDGE_RETURN_IF_ERROR(absolute.Set("placement.calibrations", path, config.OriginOf("placement.calibrations")));
  }
  if (!config.GetString("agent.staging").empty()) {
    KEDGE_ASSIGN_OR_RETURN(const std::string path, PathOf(config, "agent.staging"));
    KEDGE_RETURN_IF_ERROR(absolute.Set("agent.staging", path, config.OriginOf("agent.staging")));
  }
  if (!config.GetTables("tier").empty()) {
    std::string text = "[";
    for (const ConfigTable& table : config.GetTables("tier")) {
      KEDGE_ASSIGN_OR_RETURN(const std::string path, TierPath(table));
      text += fmt::format("{}{{name={}, kind={}, path={}, capacity=\"{}B\"}}", text.size() > 1 ? ", " : "",
                          QuoteToml(table.GetString("name")), QuoteToml(table.GetString("kind")), QuoteToml(path),
                          table.GetBytes("capacity"));
    }
    KEDGE_RETURN_IF_ERROR(absolute.Set("tier", text + "]", {ConfigOrigin::Kind::kProgram, "program"}));
  }
  std::vector<std::pair<std::string, std::string>> keys;
  for (const ConfigEntry& entry : absolute.Entries()) {
    // The name is which agent is meant, not how it is set up.
    if (entry.scope != kNode || entry.origin.kind == ConfigOrigin::Kind::kDefault || entry.key == "node.name") continue;
    keys.emplace_back(entry.key, absolute.TextOf(entry.key));
  }
  return keys;
}

}  // namespace kedge

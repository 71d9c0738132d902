// kedge doctor: what this machine can do for Kedge, what Kedge will therefore do, and what to change.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include <optional>

#include "base/byte_size.h"
#include "base/json.h"
#include "net/measure.h"
#include "os/files/direct_io.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/files/striping.h"
#include "os/machine/machine.h"
#include "os/machine/probes.h"
#include "os/memory/held_writes.h"
#include "os/memory/write_tracking.h"
#include "session/own_folder.h"
#include "store/places/make_store.h"
#include "store/places/probe.h"
#include "store/places/store_path.h"
#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/network_view.h"

namespace kedge::tools {
namespace {

constexpr double kSlowSyncSeconds = 0.05;
constexpr uint64_t kSmallRoomBytes = uint64_t{256} << 20;
constexpr double kSlowRecordSeconds = 0.5;
constexpr uint64_t kProbeBytes = uint64_t{32} << 20;
constexpr size_t kSyncBytes = 4096;
constexpr int kSyncRounds = 5;
constexpr int kNetworkRequests = 500;
constexpr uint64_t kNetworkBytes = uint64_t{1} << 30;
// Other nodes: what has not been measured by then is not.
constexpr Duration kNodesTimeout = std::chrono::minutes(5);
constexpr Duration kNodesMargin = std::chrono::minutes(1);
constexpr const char* kHowToMeasureNodes =
    "between nodes: run it on a node whose agent knows a job with protect.scheme, while the job runs or its agents stay";

void ExamineMachine(std::vector<Finding>* findings) {
  const auto memory = os::MachineMemory();
  findings->push_back({State::kOk, "kernel", os::KernelRelease(), ""});
  findings->push_back({State::kOk, "processors", fmt::format("{} usable", os::UsableCpuCount()), ""});
  if (memory.ok()) {
    findings->push_back(
        {State::kOk, "memory",
         fmt::format("{}, {} available", FormatByteSize(memory->total_bytes), FormatByteSize(memory->available_bytes)), ""});
  }
  const auto cgroup = os::CgroupMemoryLimit();
  if (cgroup.has_value()) {
    findings->push_back({State::kNote, "cgroup memory limit",
                         fmt::format("{}, {} left", FormatByteSize(cgroup->limit_bytes), FormatByteSize(cgroup->LeftBytes())),
                         "the pool counts against it, up to half of what is left unless pool.size says otherwise"});
  }
  const auto shm = os::SystemFileSystem().StatVolume("/dev/shm");
  if (!shm.ok()) {
    findings->push_back({State::kBad, "/dev/shm", shm.status().message(),
                         "mount a tmpfs there, or name tiers in the configuration and set pool.size = 0"});
  } else {
    const bool small = shm->available_bytes < kSmallRoomBytes;
    findings->push_back(
        {small ? State::kNote : State::kOk, "/dev/shm",
         fmt::format("{}, {} free", FormatByteSize(shm->total_bytes), FormatByteSize(shm->available_bytes)),
         small ? "small: in a container give it more (docker run --shm-size=8g), or checkpoints wait for the store" : ""});
  }
}

void ExamineKernelFeatures(std::vector<Finding>* findings) {
  os::DirectIoOptions ring;
  ring.engine = os::DirectIoOptions::Engine::kIoUring;
  const auto direct = os::DirectIo::Create(ring);
  if (direct.ok()) {
    const bool registered = (*direct)->has_registered_buffers();
    findings->push_back({registered ? State::kOk : State::kNote, "io_uring",
                         registered ? "with registered buffers" : "without registered buffers",
                         registered ? "" : "raise the locked-memory limit (ulimit -l) for a little less CPU"});
  } else {
    findings->push_back({State::kNote, "io_uring", direct.status().message(),
                         "plain reads and writes are used instead; a container's seccomp profile may forbid it"});
  }
  const uint64_t locked = os::LockedMemoryLimitBytes();
  findings->push_back({State::kOk, "locked memory limit", locked == UINT64_MAX ? "none" : FormatByteSize(locked), ""});
  const Status tracking = os::WriteTracking::Create().status();
  findings->push_back({tracking.ok() ? State::kOk : State::kNote, "page tracking",
                       tracking.ok() ? "the kernel tells which pages were written" : tracking.message(),
                       tracking.ok() ? "" : "nothing is lost: pages are compared by their content"});
  const Status holds = os::HeldWrites::Probe();
  findings->push_back({holds.ok() ? State::kOk : State::kNote, "held writes",
                       holds.ok() ? "writes can be held back while memory is copied" : holds.message(),
                       holds.ok() ? "" : "nothing is lost: with capture.mode = cow, checkpoints copy in their call"});
  findings->push_back({State::kOk, "huge pages",
                       fmt::format("anonymous: {}, /dev/shm: {}, hugetlb: {}", os::TransparentHugePages(),
                                   os::SharedMemoryHugePages(), os::HugetlbPagesTotal()),
                       ""});
}

// A folder that Kedge reaches through `fs`: not refused, writable, how fast a sync is, whether O_DIRECT works.
void ExamineFolder(const std::string& subject, const std::string& path, os::FileSystem& fs, bool syncs,
                   std::vector<Finding>* findings) {
  // What does not exist yet will be made: look at the nearest parent that does.
  std::string folder = path;
  Status error = fs.Stat(folder).status();
  while (error.code() == Code::kNotFound && folder != "/" && !folder.empty()) {
    folder = os::ParentPath(folder);
    error = fs.Stat(folder).status();
  }
  const bool is_there = folder == path;
  const std::string where = is_there ? path : fmt::format("{} (will be made in {})", path, folder);
  if (error.ok() && is_there) error = fs.CheckNotPlanted(path);
  // In a parent that it may share Kedge makes folders only: what it can do there is measured with files all the same.
  os::FileSystem& measured = is_there ? fs : os::SystemFileSystem();
  const auto volume = measured.StatVolume(folder);
  if (error.ok()) error = volume.status();
  const auto seconds = error.ok() ? os::MeasureSyncSeconds(measured, folder, kSyncBytes, kSyncRounds) : Result<double>(error);
  if (!seconds.ok()) {
    findings->push_back(
        {State::kBad, subject, fmt::format("{}: {}", where, seconds.status().message()), "name a folder that you may write to"});
    return;
  }
  const bool direct = os::ProbeDirectIo(measured, folder).direct;
  const bool slow = syncs && *seconds > kSlowSyncSeconds;
  findings->push_back({slow ? State::kNote : State::kOk, subject,
                       fmt::format("{}: {} free, sync of 4 KiB {:.2f} ms, O_DIRECT {}", where,
                                   FormatByteSize(volume->available_bytes), *seconds * 1e3, direct ? "yes" : "no"),
                       slow ? "syncs are slow here: every version needs a few, whatever its size" : ""});
}

// Tried out, since nothing else tells what a server can do and what one may there.
void ExamineServedStore(const std::string& path, std::vector<Finding>* findings) {
  const bool is_bucket = SchemeOf(path) == "s3";
  const std::unique_ptr<Store> store = MakeStore(os::SystemFileSystem(), {.path = path, .making = RootMaking::kParents});
  const Result<StoreProbe> probe = ProbeStore(*store, {os::HostName(), 0, "tool"}, kProbeBytes);
  if (!probe.ok()) {
    findings->push_back(
        {State::kBad, "store", probe.status().message(),
         is_bucket ? "the keys must allow to list the bucket and its uploads, to read, write and delete objects, and to abort "
                     "uploads"
                   : "kedge ls bb://SERVER says whether the burst buffer can be reached, and what room there is"});
    return;
  }
  const bool slow = probe->record_seconds > kSlowRecordSeconds;
  findings->push_back(
      {slow ? State::kNote : State::kOk, "store",
       fmt::format("{}: record {:.0f} ms, write {}/s, read {}/s", store->description(), probe->record_seconds * 1e3,
                   FormatByteSize(static_cast<uint64_t>(probe->write_bytes_per_second)),
                   FormatByteSize(static_cast<uint64_t>(probe->read_bytes_per_second))),
       slow ? "far away: every version needs a few records, whatever its size" : ""});
  if (!is_bucket) return;
  findings->push_back({State::kOk, "store uploads", "what a killed process leaves goes with kedge gc",
                       "a lifecycle rule (AbortIncompleteMultipartUpload after 7 days) sees to it where nobody runs kedge gc"});
}

// What a parallel file system says of its stripes, and whether it can be told (store.targets).
void ExamineStripes(const JobSettings& job, std::vector<Finding>* findings) {
  const auto striping = os::ReadStriping(job.keys.store_path);
  if (!striping.ok() && striping.status().code() != Code::kUnsupported) return;  // what is wrong with it has been said
  if (!striping.ok()) {
    const bool is_wanted = job.keys.store_targets > 0;
    findings->push_back({is_wanted ? State::kNote : State::kOk, "store stripes", "none that this file system tells of",
                         is_wanted ? "store.targets has no effect here: leave it out" : ""});
    return;
  }
  const std::string targets = striping->targets == os::Striping::kAllTargets ? "all targets"
                              : striping->targets == 0                       ? "targets of the file system's choice"
                                                                             : fmt::format("{} targets", striping->targets);
  findings->push_back({State::kOk, "store stripes",
                       fmt::format("new files lie on {}, in stripes of {}", targets,
                                   striping->stripe_bytes == 0 ? "its own" : FormatByteSize(striping->stripe_bytes)),
                       ""});
}

// Jobs make the store, but for what is missing on the way to it: that may be a file system which is not mounted.
void ExamineStore(const JobSettings& job, std::vector<Finding>* findings) {
  if (!IsFolder(job.keys.store_path)) return ExamineServedStore(job.keys.store_path, findings);
  os::FileSystem& fs = os::SystemFileSystem();
  const std::string& path = job.keys.store_path;
  const auto is_missing = [&](const std::string& one) { return fs.Stat(one).status().code() == Code::kNotFound; };
  const std::string parent = os::ParentPath(path);
  const bool may_make = job.store_making != RootMaking::kNever;
  if (is_missing(path) && (!may_make || (job.store_making == RootMaking::kLast && is_missing(parent)))) {
    findings->push_back({State::kBad, "store", may_make ? parent + ": is not there" : path + ": is not there",
                         may_make ? "mount it or make it; with store.create = \"parents\" jobs make all of it"
                                  : "make it, or let jobs make it (store.create)"});
    return;
  }
  ExamineFolder("store", path, fs, true, findings);
  ExamineStripes(job, findings);
}

// Room for the versions that stay in the store beside the next one, of each name that it knows.
void ExamineStoreRoom(const JobSettings& job, std::vector<Finding>* findings) {
  const auto opened = OpenStoreAt(job.keys.store_path);
  if (!opened.ok()) return;  // what is wrong with it has been said, or there is none yet
  const auto volume = opened->store->Space();
  const auto jobs = SelectJobs(*opened, {});
  if (!volume.ok() || !jobs.ok()) return;
  const int64_t wanted = static_cast<int64_t>(job.keys.keep_versions) + 1;
  for (const std::string& name_of_job : *jobs) {
    std::vector<std::string> skipped;
    const auto names = opened->catalog.Names(name_of_job, &skipped);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      const auto versions = ListVersions(opened->catalog, name_of_job, name);
      if (!versions.ok()) continue;
      int64_t there = 0;
      uint64_t bytes = 0;
      for (const VersionInfo& info : *versions) {
        there += info.complete ? 1 : 0;
        bytes = std::max(bytes, info.complete ? info.image_bytes : 0);
      }
      const uint64_t needed = bytes * static_cast<uint64_t>(std::max<int64_t>(wanted - there, 0));
      if (needed <= volume->available_bytes) continue;
      findings->push_back({State::kNote, "store room",
                           fmt::format("{}/{}: {} versions of {} are to fit ({} there), {} are free", name_of_job, name, wanted,
                                       FormatByteSize(bytes), there, FormatByteSize(volume->available_bytes)),
                           "free some room, or keep fewer versions (keep.versions)"});
    }
  }
}

// Where the agent keeps its pool.
void ExamineRunFolder(const NodeSettings& node, std::vector<Finding>* findings) {
  std::string folder = node.run_folder;
  while (folder.size() > 1 && !os::PrivateFileSystem().Stat(folder).ok()) folder = os::ParentPath(folder);
  const auto volume = os::SystemFileSystem().StatVolume(folder);
  if (!volume.ok()) {
    findings->push_back({State::kBad, "run folder", fmt::format("{}: {}", node.run_folder, volume.status().message()),
                         "name another one (node.run_folder)"});
    return;
  }
  const bool has_pool = node.pool_bytes.value_or(1) > 0;
  const bool is_small = has_pool && volume->available_bytes < node.pool_bytes.value_or(kSmallRoomBytes);
  findings->push_back({is_small ? State::kNote : State::kOk, "run folder",
                       fmt::format("{}: {} free", node.run_folder, FormatByteSize(volume->available_bytes)),
                       is_small ? "small for the pool: name a larger folder in memory (node.run_folder), or a [[tier]]" : ""});
}

// An agent that has not got what the configuration wants says why.
void ExamineTiersOf(const AgentConnection& agent, std::vector<Finding>* findings) {
  const auto reply = agent.connection->Call<StatusReply>(StatusRequest{}, kAnswerTimeout);
  const Json status = reply.ok() ? Json::parse(reply->json, nullptr, /*allow_exceptions=*/false) : Json();
  if (!status.is_object() || !status.contains("unusable_tiers")) {
    findings->push_back({State::kBad, "agent", reply.ok() ? "its answer is no status" : reply.status().message(),
                         "see agent.log in its run folder"});
    return;
  }
  const bool has_none = status.at("tiers").empty();
  for (const Json& tier : status.at("unusable_tiers")) {
    findings->push_back({has_none ? State::kBad : State::kNote, "tier " + tier.at("name").get<std::string>(),
                         "the agent that runs cannot use it: " + tier.at("why").get<std::string>(),
                         has_none ? "checkpoints go straight to the store: make room, then: kedge agent --stop" : ""});
  }
}

void ExamineAgent(const Config& config, std::vector<Finding>* findings) {
  const auto agent = ConnectToAgent(config, false);
  const auto node = ReadNodeSettings(config);
  if (agent.ok()) {
    findings->push_back({State::kOk, "agent", fmt::format("runs for node {}", agent->node.node), ""});
    ExamineTiersOf(*agent, findings);
  } else if (agent.status().code() == Code::kUnavailable) {
    findings->push_back({State::kOk, "agent",
                         node.ok() ? fmt::format("none runs for node {}; applications start it", node->node) : "none runs", ""});
  } else {
    findings->push_back({State::kBad, "agent", agent.status().message(), "see agent.log in its run folder"});
  }
  const auto program = FindAgentProgram();
  if (!program.ok())
    findings->push_back({State::kBad, "agent program", program.status().message(), "set KEDGE_AGENT to its path"});
}

struct NetworkChoice {
  bool wanted = false;
  std::string job;  // empty: the only one
  bool all_nodes = false;
};

// What the node's agent finds on the ways to other nodes. Nothing: there is no agent or no such job, as `why_not` says.
Result<std::optional<MeasureReply>> MeasureNodes(const Config& config, const NetworkChoice& choice, std::string* why_not) {
  const auto agent = ConnectToAgent(config, false);
  const MeasureRequest request{choice.job, choice.all_nodes, kNodesTimeout};
  auto reply = agent.ok() ? agent->connection->Call<MeasureReply>(request, kNodesTimeout + kNodesMargin)
                          : Result<MeasureReply>(agent.status());
  if (reply.ok()) return std::optional<MeasureReply>(std::move(*reply));
  // Of an agent that cannot be asked there is a finding already.
  const bool is_missing = !agent.ok() || reply.status().code() == Code::kNotFound;
  if (!is_missing || !choice.job.empty()) return reply.status();
  *why_not = reply.status().message();
  return std::optional<MeasureReply>();
}

// Two networks as agents have them, on this machine; their numbers say what the provider and the processors give.
Finding ExamineOwnNetwork(const NodeSettings& node, const std::string& why_not_between) {
  net::NetworkOptions options;
  options.provider = node.net_provider;
  options.interface_address = node.net_interface;
  net::SetFabricDefaults();
  net::MeasureBounds bounds;
  bounds.requests = kNetworkRequests;
  bounds.read_bytes = kNetworkBytes;
  const auto measured = net::MeasureNetwork(options, bounds);
  if (!measured.ok()) {
    return {State::kBad, "network", measured.status().message(),
            "set net.provider to one that fi_info lists with reliable datagrams (FI_EP_RDM), net.interface to this "
            "node's address; protection across nodes needs it"};
  }
  return {State::kOk, "network",
          fmt::format("{} at {}: round trip of a request {:.0f} us, remote reads {}/s (two ends on this node: {})",
                      measured->provider, measured->address, measured->figures.round_trip_seconds * 1e6,
                      FormatByteSize(static_cast<uint64_t>(measured->figures.read_bytes_per_second)), why_not_between),
          kHowToMeasureNodes};
}

// Between nodes where the agent knows some, else on this node. What was measured between nodes is in `nodes`.
Status ExamineNetwork(const Config& config, const NodeSettings& node, const NetworkChoice& choice, std::vector<Finding>* findings,
                      std::optional<MeasureReply>* nodes) {
  std::string why_not;
  KEDGE_ASSIGN_OR_RETURN(*nodes, MeasureNodes(config, choice, &why_not));
  if (!nodes->has_value()) {
    findings->push_back(ExamineOwnNetwork(node, why_not));
    return Status::Ok();
  }
  for (Finding& finding : NetworkFindings(**nodes)) findings->push_back(std::move(finding));
  return Status::Ok();
}

Outcome Doctor(const ConfigOptions& options, bool json_wanted, const NetworkChoice& network) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.Load());
  KEDGE_ASSIGN_OR_RETURN(const NodeSettings node, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(const JobSettings job, ReadJobSettings(config));
  std::vector<Finding> findings;
  ExamineMachine(&findings);
  ExamineKernelFeatures(&findings);
  ExamineStore(job, &findings);
  ExamineStoreRoom(job, &findings);
  ExamineRunFolder(node, &findings);
  const auto examine_local = [&](const std::string& subject, const std::string& path) {
    ExamineFolder(subject, OwnFolder(path, node.node), os::PrivateFileSystem(), false, &findings);
  };
  for (const TierSettings& tier : node.tiers) examine_local("tier " + tier.name, tier.path);
  if (!job.keys.scratch.empty()) examine_local("job.scratch", job.keys.scratch);
  ExamineAgent(config, &findings);
  std::optional<MeasureReply> nodes;
  if (network.wanted) KEDGE_RETURN_IF_ERROR(ExamineNetwork(config, node, network, &findings, &nodes));

  Json json{{"findings", Json::array()}};
  bool bad = false;
  for (const Finding& finding : findings) {
    bad = bad || finding.state == State::kBad;
    json["findings"].push_back({{"state", StateName(finding.state)},
                                {"subject", finding.subject},
                                {"found", finding.found},
                                {"advice", finding.advice}});
    if (json_wanted) continue;
    std::string text = WrappedAt(27, fmt::format("{:<5} {:<20} {}", StateName(finding.state), finding.subject, finding.found));
    if (!finding.advice.empty()) text += WrappedAt(30, fmt::format("{:<26} -> {}", "", finding.advice));
    std::fputs(text.c_str(), stdout);
  }
  if (nodes.has_value()) json["network"] = NetworkJson(*nodes);
  json["bad"] = bad;
  if (json_wanted) PrintJson(json);
  if (!json_wanted && nodes.has_value()) std::printf("\n%s", NetworkText(*nodes).c_str());
  return bad ? kExitBad : kExitOk;
}

}  // namespace

Command DoctorCommand() {
  return {
      "doctor", "say what this machine can do for Kedge, and what to change", [](CLI::App& app) {
        auto options = std::make_shared<ConfigOptions>();
        auto json = std::make_shared<bool>(false);
        auto net = std::make_shared<NetworkChoice>();
        auto store = std::make_shared<std::string>();
        options->AddTo(app);
        options->AddNodeTo(app);
        app.add_option("--store", *store, "look at this store (default: store.path of the configuration)")->type_name("FOLDER");
        CLI::Option* const net_flag = app.add_flag(
            "--net", net->wanted, "measure the network between agents, too: round trip and bandwidth of remote reads");
        app.add_option("--job", net->job, "with --net: between the nodes of this job")->needs(net_flag);
        app.add_flag("--all-nodes", net->all_nodes, "with --net: all nodes of the job, not those of this node's group alone")
            ->needs(net_flag);
        app.add_flag("--json", *json, "print JSON");
        app.footer(
            "Exit code 1 when something would keep Kedge from working. Writes and removes a few small files where the store "
            "and the tiers are.\n"
            "Examples:\n  kedge doctor\n  kedge doctor --net --all-nodes");
        return [options, store, json, net] {
          if (!store->empty()) options->settings.push_back("store.path=" + *store);
          return Doctor(*options, *json, *net);
        };
      }};
}

}  // namespace kedge::tools

// See start.h.
#include "client/init/start.h"
#include "client/regions/sized_struct.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "client/core/told_restarts.h"
#include "client/init/known_jobs.h"
#include "format/wire.h"
#include "os/machine/machine.h"
#include "os/process/launch_note.h"
#include "store/attempts.h"
#include "store/keys.h"
#include "store/places/make_store.h"
#include "store/record_io.h"

namespace kedge::client {
namespace {

// "section.key=value" lines.
Status ReadOverrides(std::string_view lines, ConfigSources* sources) {
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (line.empty()) continue;
    const size_t separator = line.find('=');
    if (separator == std::string_view::npos) {
      return Status(Code::kInvalidArgument, fmt::format("option overrides: expected 'section.key=value', found '{}'", line));
    }
    sources->overrides.emplace_back(line.substr(0, separator), line.substr(separator + 1));
  }
  return Status::Ok();
}

constexpr Duration kAskAgainPause = std::chrono::milliseconds(200);
// After a launcher was killed its ranks end by themselves, but for a moment they live, and so does the job's holder.
constexpr Duration kOrphansPatience = std::chrono::seconds(5);
// In seconds: file systems round the times of files.
constexpr double kClockSlack = 2;

// What rank 0 tells the others.
struct Start {
  bool ask_again = false;  // an attempt still lives that only the nodes know of: they are asked again
  std::string job;
  StoreId store_id;
  uint32_t attempt = 0;
  std::string unrecorded;                // as in Hello
  std::vector<RestoredRecord> restored;  // as the nodes know
  bool protects = false;
  bool stages = false;  // staging agents write for the job
  bool has_agents = false;
  std::string secret;

  std::string Encode(const Status& status) const {
    Buffer buffer;
    Encoder encoder(buffer);
    encoder.Varint(static_cast<uint64_t>(status.code()));
    encoder.String(status.message());
    encoder.U8(ask_again ? 1 : 0);
    encoder.String(job);
    encoder.U64(store_id.high);
    encoder.U64(store_id.low);
    encoder.Varint(attempt);
    encoder.String(unrecorded);
    encoder.String(EncodeRestored(restored));
    encoder.U8(protects ? 1 : 0);
    encoder.U8(stages ? 1 : 0);
    encoder.U8(has_agents ? 1 : 0);
    encoder.String(secret);
    encoder.Finish();
    return std::string(AsText(buffer));
  }

  Status Decode(const std::string& text) {
    Decoder decoder(AsBytes(text));
    const auto code = static_cast<Code>(decoder.Varint32());
    const std::string message(decoder.String(1 << 20));
    ask_again = decoder.U8() != 0;
    job = decoder.String(kNameBytesMax);
    store_id.high = decoder.U64();
    store_id.low = decoder.U64();
    attempt = decoder.Varint32();
    unrecorded = decoder.String(1 << 16);
    const std::string known_restored(decoder.String(text.size()));
    protects = decoder.U8() != 0;
    stages = decoder.U8() != 0;
    has_agents = decoder.U8() != 0;
    secret = decoder.String(kSecretBytesMax);
    KEDGE_RETURN_IF_ERROR(decoder.Finish("rank 0's start message"));
    KEDGE_ASSIGN_OR_RETURN(restored, DecodeRestored(known_restored));
    return code == Code::kOk ? Status::Ok() : Status(code, message);
  }
};

TemporaryOwner OwnerOf(const Core& core, uint32_t attempt) {
  return {core.node.node, attempt, fmt::format("r{}", core.rank())};
}

Status HeldOnNodes(const Core& core, const KnownJob& known) {
  return Status(Code::kBusy,
                fmt::format("job '{}' is held by attempt {}, which has {} live ranks on these nodes: end that run, or "
                            "choose another job name (job.name)",
                            core.job.job, known.attempt, known.live_ranks));
}

// Of one of several processes of a launch that have not been made the ranks of one job, and hold it in turn.
Status EachIsAlone(const Status& busy) {
  return Status(
      Code::kFailedPrecondition,
      fmt::format("this process is a job of its own, and kedge run has launched {} of them: begin with kedge_mpi_init, or "
                  "pass a bootstrap or communicator ({})",
                  os::LaunchedRanks(), busy.message()));
}

// A store that lies where the nodes had another one: made anew, or not mounted.
void WarnOfOtherStores(const Core& core, const Catalog& catalog, const std::vector<KnownJob>& known) {
  for (const KnownJob& other : known) {
    if (other.store_id == catalog.id()) continue;
    LogWarning("client",
               "the store at {} knows nothing of job '{}', but these nodes have versions of it for another store ({}) that lay "
               "there: if that one is only not mounted, end this run and mount it",
               core.store->description(), core.job.job, other.store_id.ToHex());
  }
}

// One that began without the store, and ended before it was back: what the nodes hold of it may get there now.
void NoteFormer(const Catalog& catalog, const KnownJob& on_nodes, LeaseWatch* watch, Duration wait) {
  const auto former = DecodeAttemptRecord(AsBytes(on_nodes.unrecorded));
  if (!former.ok()) return;
  const Status noted = RegisterEndedAttempt(catalog, *former, watch, wait);
  if (!noted.ok()) LogWarning("client", "versions of attempt {} do not get to the store: {}", former->attempt, noted.message());
}

// A hint, by the store's clock: whether its lease is worth watching. It is also where a clock was set back, and tells nothing.
bool LooksSilent(const Catalog& catalog, const AttemptRecord& holder) {
  const auto age = catalog.store().AgeSeconds(keys::AttemptKey(holder.job, holder.attempt), catalog.owner());
  return age.ok() && (*age > holder.lease_seconds || *age < -kClockSlack);
}

Status Acquire(const Core& core, const Catalog& catalog, const std::vector<KnownJob>& known, Start* start) {
  AttemptRequest request = OwnRequest(core);
  KEDGE_ASSIGN_OR_RETURN(const std::optional<AttemptState> holder, NewestAttempt(catalog, request));
  const KnownJob on_nodes = KnownIn(known, catalog.id());
  if (on_nodes.live_ranks > 0 && on_nodes.attempt > (holder ? holder->record.attempt : 0)) {
    start->ask_again = true;
    return HeldOnNodes(core, on_nodes);
  }
  if (!holder) WarnOfOtherStores(core, catalog, GoingOn(known));
  request.newer_than = on_nodes.attempt;
  // A holder is seen to live or not, or its lease must tell, which takes as long as that is.
  if (holder && holder->life != Life::kDead && (holder->life == Life::kLeased || LooksSilent(catalog, holder->record))) {
    request.wait = LeasePatience(holder->record.lease_seconds);
    LogWarning("client", "job {}: waiting up to {} to see whether the lease of attempt {} on {} is renewed", request.job,
               FormatDuration(request.wait), holder->record.attempt, holder->record.host);
  } else if (holder && holder->life == Life::kLives) {
    request.wait = kOrphansPatience;
    LogWarning("client", "job {}: attempt {} is alive ({}): waiting up to {} for it to end", request.job, holder->record.attempt,
               holder->why, FormatDuration(request.wait));
  }
  LeaseWatch watch;
  NoteFormer(catalog, on_nodes, &watch, request.wait);
  const Result<AttemptRecord> acquired = AcquireAttempt(catalog, request, &watch);
  if (acquired.status().code() == Code::kBusy && core.ranks() == 1 && os::LaunchedRanks() > 1)
    return EachIsAlone(acquired.status());
  KEDGE_ASSIGN_OR_RETURN(const AttemptRecord record, acquired);
  start->store_id = catalog.id();
  start->attempt = record.attempt;
  return Status::Ok();
}

// Whether a store may be well, and only be out of reach, full or read-only for now.
bool IsOutOfReach(const Status& status) {
  switch (status.code()) {
    case Code::kIo:
    case Code::kNoSpace:
    case Code::kNotFound:
    case Code::kPermission:
    case Code::kTimeout:
    case Code::kUnavailable: return true;
    default: return false;
  }
}

// Where nothing lies at the store's path, though the nodes have something of the job from one that lay there, that one was moved
// or is not mounted. Another in its place would have the job begin anew, and be in its way when it comes back.
Status MissedStore(const Core& core, const std::vector<KnownJob>& going_on) {
  std::vector<std::string> ids;
  for (const KnownJob& job : going_on) ids.push_back(job.store_id.ToHex());
  return Status(
      Code::kUnavailable,
      fmt::format("no store lies at {} any more, where these nodes know job '{}' from one, and nothing is made there. If it was "
                  "removed on purpose, end this run and launch once with store.create = \"anew\" (KEDGE_STORE_CREATE=anew): the "
                  "job begins anew in another. Otherwise mount it, or move it back (its id is {})",
                  core.store->description(), core.job.job, fmt::join(ids, " or ")));
}

Result<Catalog> OpenJobsStore(const Core& core, const std::vector<KnownJob>& going_on) {
  const TemporaryOwner owner = OwnerOf(core, 0);
  if (going_on.empty() || core.job.makes_store_anew) return Catalog::OpenOrCreate(*core.store, owner);
  Result<Catalog> there = Catalog::OpenDurably(*core.store, owner);
  return there.status().code() == Code::kNotFound ? MissedStore(core, going_on) : there;
}

// The attempts that one without the store cannot know of: those that have had it since, elsewhere. `known`: of its nodes.
AttemptRange Beside(const KnownJob& known, uint32_t attempt) {
  const auto former = DecodeAttemptRecord(AsBytes(known.unrecorded));
  return former.ok() ? former->beside : AttemptRange{known.attempt + 1, attempt};
}

// The nodes know which store it is, and which attempts there were. `why`: what is wrong with the store.
Status StartWithoutStore(Core* core, const std::vector<KnownJob>& known, const Status& why, Start* start) {
  if (known.empty()) return why;
  if (known.size() > 1) {
    return why.WithContext(
        fmt::format("the nodes know job '{}' from {} stores that lay at that path, so they cannot tell which it "
                    "is",
                    core->job.job, known.size()));
  }
  const KnownJob& job = known.front();
  if (job.live_ranks > 0) {
    start->ask_again = true;
    return HeldOnNodes(*core, job);
  }
  start->store_id = job.store_id;
  start->attempt = AttemptBeyond(job.attempt);
  if (start->attempt == UINT32_MAX)
    return Status(Code::kUnsupported, "job '" + core->job.job + "' has used up its attempt numbers");
  AttemptRecord record = RecordOf(OwnRequest(*core), job.store_id, start->attempt);
  record.beside = Beside(job, start->attempt);
  start->unrecorded = AsText(Encoded(record));
  LogWarning(
      "client",
      "the store cannot be had: {}. Until it can, job '{}' goes on with what its nodes have, and no version gets to it (as "
      "attempt {}: the number leaps, so that nobody else has it)",
      why.message(), core->job.job, start->attempt);
  return Status::Ok();
}

// Rank 0's part.
Status StartJob(Core* core, const std::vector<KnownJob>& known, Start* start) {
  const std::vector<KnownJob> going_on = GoingOn(known);
  const auto catalog = OpenJobsStore(*core, going_on);
  Status status = catalog.ok() ? Acquire(*core, *catalog, known, start) : catalog.status();
  if (IsOutOfReach(status)) {
    std::vector<KnownJob> candidates = going_on.empty() || catalog.ok() ? known : going_on;
    if (catalog.ok()) std::erase_if(candidates, [&](const KnownJob& job) { return job.store_id != catalog->id(); });
    status = StartWithoutStore(core, candidates, status, start);
  }
  KEDGE_RETURN_IF_ERROR(status);
  start->restored = KnownIn(known, start->store_id).restored;
  start->has_agents = !core->job.synchronous;
  start->protects = core->job.keys.Protects() && start->has_agents;
  start->stages = !core->job.keys.staging_folder.empty() && start->has_agents;
  start->secret = Id128::Generate().ToHex() + Id128::Generate().ToHex();
  if (start->unrecorded.empty()) core->catalog = catalog->WithOwner(OwnerOf(*core, start->attempt));
  return Status::Ok();
}

// Every other rank's part: the same job, and the same store through this rank's eyes.
Status JoinJob(Core* core, const Start& start) {
  if (core->job.job != start.job) {
    return Status(Code::kMismatch, fmt::format("the job is '{}' here and '{}' on rank 0", core->job.job, start.job));
  }
  if (!start.unrecorded.empty()) return Status::Ok();
  const TemporaryOwner owner = OwnerOf(*core, start.attempt);
  auto catalog = Catalog::Open(*core->store, owner);
  if (!catalog.ok()) {
    return catalog.status().WithContext("the store that rank 0 uses cannot be opened here: it must be shared by all ranks");
  }
  if (catalog->id() != start.store_id) {
    return Status(Code::kMismatch, fmt::format("{} is another store here (id {}) than on rank 0 (id {}): store.path must name a "
                                               "folder shared by all ranks",
                                               core->store->description(), catalog->id().ToHex(), start.store_id.ToHex()));
  }
  core->catalog = std::move(*catalog);
  return Status::Ok();
}

// What rank 0 has acquired would otherwise be held for as long as its process lives.
void GiveUp(const Core& core, const Start& start) {
  if (core.rank() == 0 && start.attempt != 0 && start.unrecorded.empty()) {
    (void)EndAttempt(*core.catalog, start.job, start.attempt);
  }
}

// Collective. What rank 0 has found, or its error on all ranks.
Result<Start> AwaitStart(Core* core, Result<std::unique_ptr<Connection>>* agent) {
  const Deadline deadline(SystemClock(), LeasePatience(ToSeconds(core->job.lease)));
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<KnownJob> known, GatherKnownJobs(*core, agent));
    Start start;
    start.job = core->job.job;
    const Status status = core->rank() == 0 ? StartJob(core, known, &start) : Status::Ok();
    start.ask_again = start.ask_again && !deadline.Passed();
    const auto told = core->collective.BroadcastFromFirst(start.Encode(status));
    if (!told.ok()) {
      GiveUp(*core, start);
      return told.status();
    }
    const Status decoded = start.Decode(*told);
    if (!start.ask_again) return decoded.ok() ? Result<Start>(std::move(start)) : decoded;
    std::this_thread::sleep_for(kAskAgainPause);
  }
}

// How many of the ranks share this node's agent.
Status CountRanksOnNode(Core* core) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                         core->collective.AllGather(os::HostName() + ":" + core->node.run_folder));
  core->ranks_on_node = 0;
  for (const std::string& folder : folders) core->ranks_on_node += folder == folders[core->rank()] ? 1 : 0;
  return Status::Ok();
}

std::string EncodeNode(const Welcome* welcome, const Core& core) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.String(welcome != nullptr ? welcome->node : core.node.node);
  encoder.String(welcome != nullptr ? welcome->failure_domain : core.node.failure_domain);
  encoder.String(welcome != nullptr ? welcome->address : std::string());
  encoder.Finish();
  return std::string(AsText(buffer));
}

}  // namespace

AttemptRequest OwnRequest(const Core& core) {
  return RequestOfThisProcess(core.job.job, ToSeconds(core.job.lease), core.ranks());
}

Result<Membership> GatherMembers(const Core& core, const Welcome* welcome) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, core.collective.AllGather(EncodeNode(welcome, core)));
  Membership members{core.attempt, core.ranks(), core.secret, {}};
  std::map<std::string, size_t> index;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    Decoder decoder(AsBytes(all[rank]));
    JobNode node;
    node.name = decoder.String(kNameBytesMax);
    node.failure_domain = decoder.String(kNameBytesMax);
    node.address = decoder.String(kNameBytesMax);
    KEDGE_RETURN_IF_ERROR(decoder.Finish("a rank's node"));
    auto [found, is_new] = index.try_emplace(node.name, members.nodes.size());
    if (is_new) members.nodes.push_back(node);
    JobNode& listed = members.nodes[found->second];
    if (listed.address.empty()) listed = JobNode{node.name, node.failure_domain, node.address, std::move(listed.ranks)};
    listed.ranks.push_back(rank);
  }
  return members;
}

Status ReadSettings(const kedge_options* given, Core* core) {
  constexpr kedge_options kNone = KEDGE_OPTIONS_INIT;
  KEDGE_ASSIGN_OR_RETURN(const kedge_options options, CopySized(given != nullptr ? *given : kNone, "kedge_options"));
  ConfigSources sources = ConfigSources::FromProcess();
  if (options.config_file != nullptr) sources.file = options.config_file;
  if (options.overrides != nullptr) KEDGE_RETURN_IF_ERROR(ReadOverrides(options.overrides, &sources));
  if (options.job != nullptr) sources.overrides.emplace_back("job.name", options.job);
  KEDGE_ASSIGN_OR_RETURN(const Config config, Config::Load(KedgeConfigRegistry(), sources));
  // Of one environment, mostly: one rank tells.
  for (const std::string& warning : config.warnings()) {
    if (core->rank() == 0) LogWarning("client", "{}", warning);
  }
  KEDGE_ASSIGN_OR_RETURN(core->node, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(core->job, ReadJobSettings(config));
  KEDGE_ASSIGN_OR_RETURN(core->node_keys, ExplicitNodeKeys(config));
  core->file_system = &os::SystemFileSystem();
  PosixStoreOptions store;
  store.path = core->job.keys.store_path;
  store.folder_mode = core->job.keys.store_mode;
  store.file_mode = core->job.keys.store_mode & 0666;
  store.direct = core->job.keys.store_direct;
  store.making = core->job.store_making;
  store.stripe_targets = core->job.keys.store_targets;
  store.stripe_bytes = core->job.keys.store_stripe_bytes;
  store.stripes_refused = [](const Status& why) {
    LogWarning("client", "objects lie on targets as the file system has it, not as store.targets says: {}", why.ToString());
  };
  core->store = MakeStore(*core->file_system, store);
  return Status::Ok();
}

Status AgreeOnAttempt(Core* core, Result<std::unique_ptr<Connection>>* agent) {
  KEDGE_ASSIGN_OR_RETURN(const Start start, AwaitStart(core, agent));
  Status agreed = core->collective.Agree(core->rank() == 0 ? Status::Ok() : JoinJob(core, start));
  if (agreed.ok()) agreed = CountRanksOnNode(core);
  if (!agreed.ok()) {
    GiveUp(*core, start);
    return agreed;
  }
  core->attempt = start.attempt;
  core->restored = start.restored;
  if (!start.unrecorded.empty()) {
    KEDGE_ASSIGN_OR_RETURN(core->attempt_record, DecodeAttemptRecord(AsBytes(start.unrecorded)));
    core->attempt_unrecorded = true;
    core->catalog = Catalog::Assume(*core->store, start.store_id, OwnerOf(*core, start.attempt));
    core->catalog->Await(core->attempt_record);
  }
  core->protects = start.protects;
  core->brings_images = start.protects || start.stages;
  core->secret = start.secret;
  core->joins_nodes = core->brings_images || (start.has_agents && core->ranks_on_node < core->ranks());
  return Status::Ok();
}

}  // namespace kedge::client

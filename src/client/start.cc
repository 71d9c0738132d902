// See start.h.
#include "client/start.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <string_view>

#include "base/log.h"
#include "format/wire.h"
#include "os/machine.h"
#include "store/attempts.h"
#include "store/posix_store.h"

namespace kedge::client {
namespace {

kedge_options CopySized(const kedge_options* given) {
  kedge_options options = KEDGE_OPTIONS_INIT;
  if (given == nullptr) return options;
  std::memcpy(static_cast<void*>(&options), given, std::min(given->struct_size, sizeof options));
  return options;
}

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

// What rank 0 tells the others.
struct Start {
  std::string job;
  StoreId store_id;
  uint32_t attempt = 0;
  bool protects = false;
  bool has_intervals = false;
  std::string secret;

  std::string Encode(const Status& status) const {
    Buffer buffer;
    Encoder encoder(buffer);
    encoder.Varint(static_cast<uint64_t>(status.code()));
    encoder.String(status.message());
    encoder.String(job);
    encoder.U64(store_id.high);
    encoder.U64(store_id.low);
    encoder.Varint(attempt);
    encoder.U8(protects ? 1 : 0);
    encoder.U8(has_intervals ? 1 : 0);
    encoder.String(secret);
    encoder.Finish();
    return std::string(AsText(buffer));
  }

  Status Decode(const std::string& text) {
    Decoder decoder(AsBytes(text));
    const auto code = static_cast<Code>(decoder.Varint32());
    const std::string message(decoder.String(1 << 20));
    job = decoder.String(kNameBytesMax);
    store_id.high = decoder.U64();
    store_id.low = decoder.U64();
    attempt = decoder.Varint32();
    protects = decoder.U8() != 0;
    has_intervals = decoder.U8() != 0;
    secret = decoder.String(kSecretBytesMax);
    KEDGE_RETURN_IF_ERROR(decoder.Finish("rank 0's start message"));
    return code == Code::kOk ? Status::Ok() : Status(code, message);
  }
};

TemporaryOwner OwnerOf(const Core& core, uint32_t attempt) {
  return {core.node.node, attempt, fmt::format("r{}", core.rank())};
}

Result<AttemptRecord> Acquire(const Core& core, const Catalog& catalog) {
  AttemptRequest request = RequestOfThisProcess(core.job.job, ToSeconds(core.job.lease), core.ranks());
  KEDGE_ASSIGN_OR_RETURN(const std::optional<AttemptState> holder, NewestAttempt(catalog, request));
  // Here a holder is seen to live or not; on another host only its lease tells, so its end is waited for.
  if (holder && holder->live && holder->record.host != request.host) {
    request.wait = FromSeconds(holder->record.lease_seconds * 1.25);
    LogWarning("client", "job {}: waiting up to {} for the lease of attempt {} on {} to run out", request.job,
               FormatDuration(request.wait), holder->record.attempt, holder->record.host);
  }
  return AcquireAttempt(catalog, request);
}

// Rank 0's part.
Status StartJob(Core* core, Start* start) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::OpenOrCreate(*core->store, OwnerOf(*core, 0)));
  KEDGE_ASSIGN_OR_RETURN(const AttemptRecord record, Acquire(*core, catalog));
  start->store_id = catalog.id();
  start->attempt = record.attempt;
  start->protects = core->job.keys.Protects() && !core->job.synchronous;
  start->has_intervals = core->job.keys.HasStoreInterval() && !core->job.synchronous;
  start->secret = Id128::Generate().ToHex() + Id128::Generate().ToHex();
  core->catalog = catalog.WithOwner(OwnerOf(*core, record.attempt));
  return Status::Ok();
}

// Every other rank's part: the same job, and the same store through this rank's eyes.
Status JoinJob(Core* core, const Start& start) {
  if (core->job.job != start.job) {
    return Status(Code::kMismatch, fmt::format("the job is '{}' here and '{}' on rank 0", core->job.job, start.job));
  }
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

// How many of the ranks share this node's agent.
Status CountRanksOnNode(Core* core) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                         core->collective.AllGather(os::HostName() + ":" + core->node.run_folder));
  core->ranks_on_node = 0;
  for (const std::string& folder : folders) core->ranks_on_node += folder == folders[core->rank()] ? 1 : 0;
  return Status::Ok();
}

}  // namespace

namespace {

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
  const kedge_options options = CopySized(given);
  ConfigSources sources = ConfigSources::FromProcess();
  if (options.config_file != nullptr) sources.file = options.config_file;
  if (options.overrides != nullptr) KEDGE_RETURN_IF_ERROR(ReadOverrides(options.overrides, &sources));
  if (options.job != nullptr) sources.overrides.emplace_back("job.name", options.job);
  KEDGE_ASSIGN_OR_RETURN(const Config config, Config::Load(KedgeConfigRegistry(), sources));
  for (const std::string& warning : config.warnings()) LogWarning("client", "{}", warning);
  KEDGE_ASSIGN_OR_RETURN(core->node, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(core->job, ReadJobSettings(config));
  KEDGE_ASSIGN_OR_RETURN(core->node_keys, ExplicitNodeKeys(config));
  core->file_system = &os::SystemFileSystem();
  PosixStoreOptions store;
  store.path = core->job.keys.store_path;
  store.folder_mode = core->job.keys.store_mode;
  store.file_mode = core->job.keys.store_mode & 0666;
  store.direct = core->job.keys.store_direct;
  core->store = MakePosixStore(*core->file_system, store);
  return Status::Ok();
}

Status AgreeOnAttempt(Core* core) {
  Start start;
  start.job = core->job.job;
  Status status = core->rank() == 0 ? StartJob(core, &start) : Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const std::string told, core->collective.BroadcastFromFirst(start.Encode(status)));
  KEDGE_RETURN_IF_ERROR(start.Decode(told));
  if (core->rank() != 0) status = JoinJob(core, start);
  Status agreed = core->collective.Agree(status);
  if (!agreed.ok()) {
    if (core->rank() == 0) (void)EndAttempt(*core->catalog, start.job, start.attempt);
    return agreed;
  }
  core->attempt = start.attempt;
  core->protects = start.protects;
  core->secret = start.secret;
  KEDGE_RETURN_IF_ERROR(CountRanksOnNode(core));
  core->joins_nodes = start.protects || (start.has_intervals && core->ranks_on_node < core->ranks());
  return Status::Ok();
}

}  // namespace kedge::client

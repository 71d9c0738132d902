#include "agent/tables/agent_core.h"

#include <fmt/format.h>

#include "base/log.h"
#include "os/machine/machine.h"
#include "os/process/process.h"
#include "store/places/make_store.h"

namespace kedge {
namespace {

// Beside the flushes: retention, looks into the store.
constexpr uint32_t kOtherWorkers = 3;
constexpr uint32_t kPublishers = 4;  // beside flushes that are waited for
constexpr Duration kPublishersIdle = std::chrono::seconds(2);
constexpr uint32_t kBringers = 2;
constexpr Duration kBringersIdle = std::chrono::seconds(2);
constexpr uint32_t kServers = 2;

}  // namespace

AgentCore::AgentCore(AgentOptions options)
    : options_(std::move(options)),
      boot_id_(os::BootId()),
      started_ns_(SystemClock().NowNs()),
      flush_rate_(SystemClock(), options_.node.flush_bytes_per_second),
      wake_(os::EventFd::FromDescriptor(os::UniqueFd())) {}

Result<std::unique_ptr<AgentCore>> AgentCore::Create(AgentOptions options) {
  std::unique_ptr<AgentCore> core(new AgentCore(std::move(options)));
  const NodeSettings& node = core->options_.node;
  core->policy_ = MakePlacementPolicy(node.placement_policy, core->clock());
  if (core->policy_ == nullptr) {
    return Status(Code::kInvalidArgument,
                  fmt::format("placement.policy = \"{}\": there is none of that name", node.placement_policy));
  }
  KEDGE_ASSIGN_OR_RETURN(core->wake_, os::EventFd::Create());
  KEDGE_ASSIGN_OR_RETURN(core->loop_, os::EventLoop::Create());
  core->workers_ = std::make_unique<Workers>(node.flush_workers + kOtherWorkers);
  core->publishers_ = std::make_unique<Workers>(node.flush_workers + kPublishers, kPublishersIdle, Workers::Priority::kAwaited);
  core->bringers_ = std::make_unique<Workers>(kBringers, kBringersIdle, Workers::Priority::kAwaited);
  core->servers_ = std::make_unique<Workers>(kServers);
  return core;
}

void AgentCore::StopWorkers() {
  bringers_.reset();
  servers_.reset();
  publishers_.reset();
  workers_.reset();
}

Status AgentCore::OpenControl() {
  KEDGE_ASSIGN_OR_RETURN(control_, CreateControlBlock(os::OwnIdentity()));
  return Status::Ok();
}

Version* AgentCore::FindVersion(const Generation& generation) {
  Job* const job = FindJobOf(generation);
  if (job == nullptr) return nullptr;
  const auto found = job->versions.find(generation);
  return found == job->versions.end() ? nullptr : found->second.get();
}

const Image* AgentCore::FindWhole(const Generation& generation, uint32_t rank) {
  const Version* const version = FindVersion(generation);
  return version == nullptr ? nullptr : version->FindWhole(rank);
}

Job* AgentCore::FindJob(const JobKey& key) {
  auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : found->second.get();
}

std::shared_ptr<StoreContext> AgentCore::MakeStore(const StoreId& id, const JobKeys& keys) const {
  PosixStoreOptions options;
  options.path = keys.store_path;
  options.folder_mode = keys.store_mode;
  options.file_mode = keys.store_mode & 0666;
  options.direct = keys.store_direct;
  options.making = RootMaking::kNever;
  options.stripe_targets = keys.store_targets;
  options.stripe_bytes = keys.store_stripe_bytes;
  options.stripes_refused = [](const Status& why) {
    LogWarning("agent", "objects lie on targets as the file system has it, not as store.targets says: {}", why.ToString());
  };
  return std::make_shared<StoreContext>(kedge::MakeStore(os::SystemFileSystem(), options), id, options_.node.node);
}

}  // namespace kedge

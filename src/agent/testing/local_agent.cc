#include "agent/testing/local_agent.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <utility>

#include "agent/door/sessions.h"
#include "agent/flush/flush.h"
#include "agent/space/tiers.h"
#include "agent/tables/session.h"
#include "base/status.h"
#include "store/catalog.h"
#include "store/posix/posix_store.h"

namespace kedge::testing {
namespace {
constexpr Duration kPatience = std::chrono::seconds(20);
}

LocalAgent::LocalAgent(uint32_t slots, uint64_t slot_bytes, const std::string& calibrations, uint64_t flush_bytes_per_second)
    : slots_(slots) {
  std::string name = std::filesystem::temp_directory_path() / "kedge-local-agent-XXXXXX";
  KEDGE_CHECK(mkdtemp(name.data()) != nullptr);
  folder_ = name;
  const auto store = MakePosixStore(os::SystemFileSystem(), {store_path(), 0600, 0700, false});
  auto catalog = Catalog::OpenOrCreate(*store, {"local", 0, "test"});
  KEDGE_CHECK(catalog.ok());
  store_id_ = catalog->id();
  options_.node.node = "local";
  options_.node.run_folder = folder_ + "/run";
  options_.node.pool_bytes = slots * slot_bytes;
  options_.node.chunk_bytes = slot_bytes;
  options_.node.piece_bytes = slot_bytes / 4;
  options_.node.flush_workers = 2;
  options_.node.idle_timeout = std::chrono::hours(1);
  options_.node.calibration_folder = calibrations;
  options_.node.flush_bytes_per_second = flush_bytes_per_second;
  options_.node.placement_policy = "adaptive";
  Start();
}

void LocalAgent::Start() {
  auto agent = Agent::Start(options_);
  KEDGE_CHECK(agent.ok());
  agent_ = std::move(*agent);
  // Its memory is made, as it would be after a while: nobody has to wait for it.
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    KEDGE_CHECK(pool().tier->ReserveAll(slot).ok());
    pool().space->SetBacked(slot, pool().info().slot_bytes);
  }
}

void LocalAgent::Succeed() {
  agent_.reset();
  Start();
}

LocalAgent::~LocalAgent() {
  agent_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

TierUnit& LocalAgent::pool() {
  return *agent_->tiers().units()[0];
}

Session& LocalAgent::Attach(uint32_t rank, uint32_t ranks, JobKeys keys) {
  Hello hello;
  hello.job = "job";
  hello.store_id = store_id_;
  hello.attempt = 1;
  hello.rank = rank;
  hello.ranks = hello.ranks_on_node = ranks;
  hello.keys = std::move(keys);
  hello.keys.store_path = store_path();
  auto admission = agent_->sessions().Attach(hello, getpid(), 1000 + rank);
  KEDGE_CHECK(admission.ok());
  return *agent_->core().sessions().Find(admission->session_id);
}

void LocalAgent::Turn() {
  agent_->sessions().DrainAll();
  agent_->flush().Dispatch();
  KEDGE_CHECK(agent_->core().loop().RunOnce(Duration::zero()).ok());
}

bool LocalAgent::TurnUntil(const std::function<bool()>& condition) {
  const Deadline deadline(SystemClock(), kPatience);
  for (Turn(); !condition(); Turn()) {
    if (deadline.Passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace kedge::testing

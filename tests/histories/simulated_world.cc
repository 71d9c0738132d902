// See simulated_world.h.
#include "tests/histories/simulated_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "os/files/files.h"
#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "tests/histories/calls_and_errors.h"
#include "tests/histories/leftovers.h"

namespace kedge::histories {
namespace {

constexpr const char* kStore = "/store";
constexpr const char* kAway = "/away";
constexpr size_t kSimulatedImageBytes = 3000;
constexpr uint64_t kCapacity = uint64_t{1} << 40;
constexpr int kLaunchesMax = 20;  // until the lease of a frozen launch has run out
constexpr Duration kLaunchPause = std::chrono::seconds(1);

}  // namespace

SimulatedWorld::SimulatedWorld(const Setup& setup) : setup_(setup), machine_(1) {
  machine_.OnPassing([this] { RenewLease(); });
  // Without them nobody is on this machine, and no process is seen to be dead or alive.
  auto& disk = machine_.disk();
  for (const char* path : {"/proc/sys/kernel/random/boot_id", "/etc/machine-id"}) {
    KEDGE_CHECK(os::MakeFolders(disk, os::ParentPath(path), 0755, false).ok());
    KEDGE_CHECK(os::WriteFileDurably(disk, path, "0123456789abcdef0123456789abcdef\n", "world").ok());
  }
}

SimulatedWorld::~SimulatedWorld() {
  while (!launches_.empty()) Kill(launches_.begin()->first);
}

std::string SimulatedWorld::Overrides(int node) const {
  std::string text = fmt::format(
      "store.path={}\nstore.direct=false\nnode.name=n{}\nnode.run_folder=/run/n{}\nwait.timeout=20s\njob.name={}\n"
      "placement.calibrations=/calibrations\nprotect.required=false\n",
      kStore, node, node, kJob);
  for (const auto& [key, value] : setup_.keys) text += key + "=" + value + "\n";
  return text;
}

// What the watcher of rank 0 does in real time: the newest attempt's record is touched while its launch lives and moves.
void SimulatedWorld::RenewLease() {
  const auto holder = launches_.find(holder_);
  if (holder == launches_.end() || holder->second.frozen) return;
  auto& disk = machine_.disk();
  const std::string folder = fmt::format("{}/{}", kStore, keys::AttemptsFolder(kJob));
  const auto entries = disk.List(folder);
  if (!entries.ok()) return;
  uint32_t newest = 0;
  for (const auto& entry : *entries) newest = std::max(newest, keys::ParseNumber(entry.name).value_or(0));
  if (newest == 0) return;
  // Some file systems stamp with the clock of the node that writes.
  const int64_t stamp_ns = disk.NowNs() + machine_.ClockStepOf(holder->second.first_node).count();
  (void)disk.SetModifiedTime(fmt::format("{}/{}", kStore, keys::AttemptKey(kJob, newest)), stamp_ns);
}

std::vector<Answer> SimulatedWorld::TryLaunch(int launch, const std::vector<int>& places, bool rival) {
  Launched& launched = launches_[launch];
  launched.first_node = places.front();
  const Share share{.bytes = kSimulatedImageBytes * static_cast<size_t>(setup_.divided ? setup_.ranks : 1),
                    .divided = setup_.divided};
  launched.ranks =
      std::make_unique<RankThreads>(machine_, places, launch, share, next_process_, rival ? static_cast<uint64_t>(launch) : 0);
  next_process_ += static_cast<int>(places.size());
  RankThreads& ranks = *launched.ranks;
  return ranks.DoAll([&](RankCalls& calls, int rank) {
    const kedge_bootstrap bootstrap = ranks.Bootstrap(rank);
    return calls.Begin(places.size() > 1 ? &bootstrap : nullptr, Overrides(places[static_cast<size_t>(rank)]));
  });
}

std::vector<Answer> SimulatedWorld::Launch(int launch, const std::vector<int>& places, bool rival) {
  const bool waits = !launches_.empty() && !rival;  // for the lease of one that is frozen
  for (int tries = 1;; ++tries) {
    std::vector<Answer> answers = TryLaunch(launch, places, rival);
    const bool began = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
    const bool busy =
        std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.code == KEDGE_ERROR_BUSY; });
    if (!began || rival) {
      Kill(launch);
    } else {
      holder_ = launch;
    }
    if (!busy || !waits || tries == kLaunchesMax) return answers;
    machine_.Pass(kLaunchPause);
  }
}

std::vector<Answer> SimulatedWorld::Restart(int launch, int64_t at_most, bool in_parts) {
  return Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.Restart(at_most, in_parts); });
}

std::vector<Answer> SimulatedWorld::Read(int launch, int64_t version) {
  return Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.Read(version); });
}

std::vector<Answer> SimulatedWorld::Checkpoint(int launch, const std::vector<int>& ranks, const std::vector<int>& takings,
                                               const CheckpointCall& call) {
  CheckpointCall plain = call;
  plain.file = false;  // routed files are written by the application, past the simulated disk
  return Ranks(launch).Do(ranks, [&](RankCalls& calls, int rank) {
    const auto index = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    (void)calls.Write(plain.version, takings[index]);
    return calls.Checkpoint(plain, "");
  });
}

std::vector<Answer> SimulatedWorld::Wait(int launch, int64_t version, kedge_level level) {
  return Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.Wait(version, level); });
}

std::vector<Answer> SimulatedWorld::Test(int launch, int64_t version) {
  return Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.Test(version); });
}

std::vector<Answer> SimulatedWorld::Newest(int launch, int64_t at_most) {
  return Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.Newest(at_most); });
}

std::vector<Answer> SimulatedWorld::Pending(int launch) {
  return Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.Pending(); });
}

std::vector<Answer> SimulatedWorld::End(int launch, bool drain) {
  std::vector<Answer> answers = Ranks(launch).DoAll([&](RankCalls& calls, int) { return calls.End(drain); });
  launches_.erase(launch);
  return answers;
}

// Nothing that the context's end does gets to the disk.
void SimulatedWorld::Kill(int launch) {
  const auto found = launches_.find(launch);
  if (found == launches_.end()) return;
  RankThreads& ranks = *found->second.ranks;
  for (int rank = 0; rank < ranks.size(); ++rank) ranks.process(rank).Die();
  (void)ranks.DoAll([&](RankCalls& calls, int) { return calls.End(false); });
  launches_.erase(found);
}

void SimulatedWorld::Freeze(int launch) {
  launches_.at(launch).frozen = true;
}

void SimulatedWorld::Thaw(int launch) {
  launches_.at(launch).frozen = false;
}

bool SimulatedWorld::Fault(const Step& step) {
  if (step.verb == "fail-rank" || step.verb == "die-rank") return FailRank(step);
  if (step.verb == "store") return BreakStore(step.words.empty() ? "" : step.words[0]);
  if (step.verb == "flip") return step.Has("store") && FlipInStore(step.Number(1));
  if (step.verb == "power-cut") {
    while (!launches_.empty()) Kill(launches_.begin()->first);
    machine_.disk().Crash(++power_cuts_);
    return true;
  }
  if (step.verb == "step-clock") {
    machine_.StepClock(static_cast<int>(step.Number(0)), std::chrono::seconds(step.Number(1, 0)));
    return true;
  }
  if (step.verb == "gc") return CollectAtLeisure(*MakePosixStore(machine_.disk(), {.path = kStore}), Duration::zero());
  if (step.verb == "settle") {
    machine_.Pass(std::chrono::seconds(1));
    return true;
  }
  return step.verb == "lose-node";  // nothing but processes, which have been killed
}

bool SimulatedWorld::FailRank(const Step& step) {
  const int rank = static_cast<int>(step.Number(0));
  if (launches_.empty()) return false;
  RankThreads& ranks = Ranks(launches_.rbegin()->first);
  if (rank < 0 || rank >= ranks.size()) return false;
  os::testing::FaultPlan& faults = ranks.process(rank).faults();
  faults.Clear();
  if (step.verb == "die-rank") {
    faults.KillAfter(static_cast<uint64_t>(step.Number(1, 0)));
    return true;
  }
  const auto call = step.words.size() < 3 ? std::nullopt : CallNamed(step.words[1]);
  const auto error = step.words.size() < 3 ? std::nullopt : ErrorNamed(step.words[2]);
  if (!call || !error) return false;
  os::testing::FaultRule rule;
  rule.calls = *call;
  rule.errno_value = *error;
  rule.skip = static_cast<uint64_t>(step.Number(3, 0));
  rule.path_contains = kStore;
  faults.Add(rule);
  return true;
}

bool SimulatedWorld::BreakStore(const std::string& how) {
  auto& disk = machine_.disk();
  const bool is_away = disk.Stat(kAway).ok();
  // What a mount shows does not change with a power cut.
  const auto move = [&](const char* from, const char* to) {
    return disk.Rename(from, to).ok() && os::SyncFolder(disk, "/").ok();
  };
  if (how == "away") return !is_away && move(kStore, kAway);
  if (how == "back" || how == "mended") {
    disk.faults().Clear();
    disk.SetCapacity(kCapacity);
    disk.SetReadOnly(false);
    if (!is_away) return true;
    // What was made in its place meanwhile is covered by the mount, so to say.
    (void)os::RemoveTree(disk, kStore);
    return move(kAway, kStore);
  }
  if (is_away) return false;
  if (how == "full") {
    disk.SetCapacity(disk.UsedBytes());
  } else if (how == "read-only") {
    disk.SetReadOnly(true);
  } else {
    const auto fault = StoreFaultNamed(how);
    if (!fault) return false;
    os::testing::FaultRule rule;
    rule.calls = fault->calls;
    rule.errno_value = fault->errno_value;
    rule.path_contains = kStore;
    rule.count = os::testing::kForEver;
    disk.faults().Add(rule);
  }
  return true;
}

bool SimulatedWorld::FlipInStore(int64_t version) {
  auto& disk = machine_.disk();
  const std::string names = fmt::format("{}/{}", kStore, keys::NamesFolder(kJob));
  const std::string text = fmt::format(" version {} launch ", version);
  bool flipped = false;
  const std::function<void(const std::string&)> look = [&](const std::string& folder) {
    const auto entries = disk.List(folder);
    if (!entries.ok()) return;
    for (const auto& entry : *entries) {
      const std::string path = folder + "/" + entry.name;
      if (entry.kind == os::FileKind::kFolder) {
        look(path);
        continue;
      }
      if (path.find("/data/") == std::string::npos) continue;
      auto file = disk.Open(path, os::OpenFlags::kReadWrite);
      if (!file.ok()) continue;
      std::string content(2 * kSimulatedImageBytes * static_cast<size_t>(setup_.ranks), '\0');
      const auto bytes = os::ReadUpTo(**file, content.data(), content.size(), 0);
      const size_t at = bytes.ok() ? content.find(text) : std::string::npos;
      if (at == std::string::npos) continue;
      const char flipped_byte = static_cast<char>(content[at + 3] ^ 0x10);
      flipped = (*file)->Pwrite(&flipped_byte, 1, at + 3).ok() || flipped;
    }
  };
  look(names);
  return flipped;
}

void SimulatedWorld::MendRanks(int launch) {
  for (int rank = 0; rank < Ranks(launch).size(); ++rank) Ranks(launch).process(rank).faults().Clear();
}

void SimulatedWorld::Mend() {
  (void)BreakStore("mended");
}

std::vector<std::string> SimulatedWorld::Leftovers() {
  const auto store = MakePosixStore(machine_.disk(), {.path = kStore});
  std::vector<std::string> found =
      UnwantedGenerations(*store, kJob, kName, static_cast<size_t>(setup_.Number("keep.versions", 2)));
  for (std::string& one : TemporariesAfterCollection(*store, Duration::zero())) found.push_back(std::move(one));
  return found;
}

}  // namespace kedge::histories

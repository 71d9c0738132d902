// See real_world.h.
#include "tests/histories/real_world.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "format/set_records.h"
#include "os/testing/steering.h"
#include "session/own_folder.h"
#include "store/posix/posix_store.h"
#include "tests/histories/calls_and_errors.h"
#include "tests/histories/leftovers.h"
#include "tests/histories/node_faults.h"
#include "tests/histories/pattern.h"
#include "tests/histories/rank_calls.h"
#include "tests/support/child_process.h"

namespace kedge::histories {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
namespace filesystem = std::filesystem;

constexpr uint64_t kSlotBytes = 1 << 20;
constexpr seconds kPatience{90};        // of a call: waits of its own end after 20 s
constexpr seconds kHolderPatience{30};  // until the lease of a frozen launch has run out
constexpr size_t kRealImageBytes = 20000;
// Of less, writes are not tracked (capture.track).
constexpr size_t kTrackedImageBytes = (size_t{2} << 20) + 20000;
// Less is captured in the call (capture.mode = cow).
constexpr size_t kLateImageBytes = (size_t{4} << 20) + 20000;
// Two parts of an upload.
constexpr size_t kPartsImageBytes = (size_t{6} << 20) + 20000;
constexpr std::chrono::microseconds kDeathStep{20};
constexpr seconds kLeasePatience{15};         // some leases long
constexpr seconds kDefaultLeasePatience{75};  // the lease of a job that does not set it, and more
constexpr seconds kCollectPatience{4};        // a lease and more
constexpr seconds kLeavePatience{15};         // of agents that have nothing to do

std::string FileName(int rank, int64_t version) {
  return fmt::format("rank-{}-version-{}", rank, version);
}

std::string ReadAll(const filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void FlipByte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

// A bit in every line of every image of that version which the file holds (pattern.h); whether there was one.
bool FlipImages(const std::string& path, int64_t version) {
  const std::string text = fmt::format(" version {} launch ", version), content = ReadAll(path);
  bool flipped = false;
  for (size_t at = content.find(text); at != std::string::npos; at = content.find(text, at + text.size())) {
    FlipByte(path, at + 3);
    flipped = true;
  }
  return flipped;
}

// Agents remove files meanwhile.
std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code gone;
  for (filesystem::recursive_directory_iterator entry(folder, gone), end; !gone && entry != end; entry.increment(gone))
    files.push_back(entry->path());
  return files;
}

// As FlipImages, in all files below a folder whose path has `part` in it.
bool FlipImagesBelow(const std::string& folder, const std::string& part, int64_t version) {
  bool flipped = false;
  for (const std::string& path : FilesBelow(folder)) {
    const bool is_meant = path.find(part) != std::string::npos && filesystem::is_regular_file(path);
    flipped = (is_meant && FlipImages(path, version)) || flipped;
  }
  return flipped;
}

// Where a slot begins: in the one file of a pool, or in a file of its own.
std::pair<std::string, uint64_t> PlaceOfSlot(const std::string& tier, uint32_t slot) {
  if (filesystem::is_directory(tier)) return {fmt::format("{}/slot-{:06}", tier, slot), 0};
  return {tier, slot * kSlotBytes};
}

// What a command is to follow. unshare's --mount-proc would do where "/" is a mount point, which it is not after a chroot.
std::vector<std::string> InAnotherPidNamespace() {
  std::vector<std::string> words = {"unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation", "unchanged"};
  if (geteuid() != 0) words.insert(words.end(), {"--user", "--map-root-user"});
  words.insert(words.end(), {"sh", "-c", R"(mount --make-private /proc && mount -t proc proc /proc && exec "$@")", "sh"});
  return words;
}

}  // namespace

RealWorld::RealWorld(const Setup& setup, std::string programs) : setup_(setup), programs_(std::move(programs)) {
  filesystem::create_directory(UsersFolder());
  if (!setup_.bucket.empty()) bucket_.emplace();
  const std::string drains_to = setup_.drains ? StoreFolder() : "";
  const std::string of_buffers = folder_.path() + "/burst";
  const std::string partner = setup_.partner ? "copied" : "";
  if (setup_.buffer) burst_.emplace("kept", programs_, of_buffers, drains_to, partner, Environment());
  if (setup_.partner) partner_.emplace(partner, programs_, of_buffers, drains_to, "", Environment());
}

RealWorld::~RealWorld() {
  launches_.clear();
  stager_.reset();
  // Agents, those that the ranks were starting included.
  const auto end = steady_clock::now() + kLeavePatience;
  for (auto left = ProcessesWith(folder_.memory_folder()); !left.empty() && steady_clock::now() < end;
       left = ProcessesWith(folder_.memory_folder())) {
    for (const auto& [pid, line] : left) kill(pid, SIGKILL);
    std::this_thread::sleep_for(milliseconds(3));
  }
}

std::string RealWorld::OwnTierFolder(int node) const {
  return OwnFolder(TierFolder(/*rival=*/false), "n" + std::to_string(node));
}

size_t RealWorld::ImageBytes() const {
  const size_t of_rank = setup_.bucket == "large" ? kPartsImageBytes
                         : setup_.CopiesLater()   ? kLateImageBytes
                         : setup_.Tracks()        ? kTrackedImageBytes
                                                  : kRealImageBytes;
  return setup_.divided ? of_rank * static_cast<size_t>(setup_.ranks) : of_rank;
}

// Beside a tier the pool is so small that some chunks go to the tier.
std::string RealWorld::TierKeys(bool rival) const {
  if (setup_.tier.empty()) return "";
  const std::string folder = TierFolder(rival);
  if (setup_.tier == "scratch") return "job.scratch=" + folder + "\n";
  return fmt::format("tier=[{{name=\"disk\", path=\"{}\", capacity=\"32MiB\"}}]\npool.size={}\n", folder,
                     setup_.tier == "beside" ? "2MiB" : "0");
}

std::string RealWorld::Overrides(int node, bool rival) const {
  std::string text = fmt::format(
      "store.path={}\nnode.name=n{}\nnode.run_folder={}{}\npool.size={}MiB\nchunk.size={}B\nchunk.piece=256KiB\nwait.timeout="
      "20s\n"
      "job.name={}\nplacement.calibrations={}/calibrations\nprotect.timeout=10s\n"
      "agent.idle_timeout=20s\n",
      StorePath(), node, RunFolder(node), rival ? "-rival" : "", setup_.HasLargeImages() ? 256 : 32, kSlotBytes, kJob,
      folder_.path());
  text += TierKeys(rival);
  for (const auto& [key, value] : setup_.keys) text += key + "=" + (key == kStagingKey ? StagingFolder() : value) + "\n";
  return text;
}

std::unique_ptr<Store> RealWorld::OpenStore() const {
  if (burst_) return burst_->Open();
  return bucket_ ? bucket_->Open() : MakePosixStore(os::SystemFileSystem(), {.path = StoreFolder()});
}

std::map<std::string, std::string> RealWorld::Environment() const {
  auto environment = bucket_ ? bucket_->Environment() : std::map<std::string, std::string>();
  environment.emplace(os::testing::kSteeringVariable, Steering());
  return environment;
}

void RealWorld::StartStager() {
  if (!setup_.Stages() || (stager_ != nullptr && !stager_->Wait(milliseconds(0)).has_value())) return;
  const int node = setup_.nodes;
  std::vector<std::string> command = {programs_ + "/histories_agent", "--configured"};
  for (const std::string& key :
       {fmt::format("node.name=n{}", node), "node.run_folder=" + RunFolder(node), std::string("pool.size=8MiB"),
        fmt::format("chunk.size={}B", kSlotBytes), std::string("chunk.piece=256KiB"),
        fmt::format("placement.calibrations={}/calibrations", folder_.path()), "agent.staging=" + StagingFolder(),
        std::string(setup_.Key(kStagingKey, "") == kSlowStaging ? "flush.rate=1MiB" : "flush.rate=0")}) {
    command.insert(command.end(), {"--set", key});
  }
  stager_ = std::make_unique<testing::ChildProcess>(command, Environment(), folder_.NewOutput());
}

std::vector<Answer> RealWorld::HearAll(Ranks& ranks) {
  std::vector<Answer> answers;
  for (const auto& rank : ranks) answers.push_back(rank->Hear(kPatience));
  return answers;
}

std::vector<Answer> RealWorld::TellAll(int launch, const std::string& line) {
  Ranks& ranks = launches_.at(launch);
  for (const auto& rank : ranks) rank->Tell(line);
  return HearAll(ranks);
}

std::vector<Answer> RealWorld::TryLaunch(int launch, const std::vector<int>& places, bool rival) {
  const std::string rendezvous = fmt::format("{}/launch-{}", folder_.path(), ++rendezvous_);
  auto environment = Environment();
  environment.emplace("KEDGE_AGENT", programs_ + "/histories_agent");
  StartStager();
  Ranks& ranks = launches_[launch];
  ranks.clear();
  places_[launch] = places;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    std::vector<std::string> command;
    if (rival) command = InAnotherPidNamespace();
    for (const std::string& word :
         {programs_ + "/histories_actor", rendezvous, std::to_string(rank), std::to_string(places.size()), std::to_string(launch),
          std::to_string(ImageBytes()), std::string(setup_.divided ? "divided" : "own"), Overrides(places[rank], rival)}) {
      command.push_back(word);
    }
    ranks.push_back(std::make_unique<RankProcess>(command, environment, fmt::format("{}/rank-{}", folder_.path(), rank)));
  }
  return HearAll(ranks);
}

std::vector<Answer> RealWorld::Launch(int launch, const std::vector<int>& places, bool rival) {
  const bool waits = launches_.size() > 0 && !rival;  // for the lease of one that is frozen
  const auto deadline = steady_clock::now() + kHolderPatience;
  for (;;) {
    std::vector<Answer> answers = TryLaunch(launch, places, rival);
    const bool busy =
        std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.code == KEDGE_ERROR_BUSY; });
    const bool began = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
    if (!began || rival) launches_.erase(launch);
    if (!busy || !waits || steady_clock::now() > deadline) return answers;
    std::this_thread::sleep_for(milliseconds(200));
  }
}

std::vector<Answer> RealWorld::Restart(int launch, int64_t at_most, bool in_parts) {
  return TellAll(launch, fmt::format("{} {}", in_parts ? "restart-parts" : "restart", at_most));
}

std::vector<Answer> RealWorld::Read(int launch, int64_t version) {
  return TellAll(launch, fmt::format("read {}", version));
}

std::vector<Answer> RealWorld::Checkpoint(int launch, const std::vector<int>& ranks, const std::vector<int>& takings,
                                          const CheckpointCall& call) {
  Ranks& all = launches_.at(launch);
  const std::string flags = std::string("-") + (call.overwrite ? "o" : "") + (call.parts ? "p" : "") + (call.some ? "s" : "") +
                            (call.file ? "f" : "") + (call.abandon ? "a" : "") + (call.goes_on ? "w" : "");
  for (size_t i = 0; i < ranks.size(); ++i)
    all[static_cast<size_t>(ranks[i])]->Tell(fmt::format("write {} {}", call.version, takings[i]));
  std::vector<Answer> answers;
  for (const int rank : ranks) answers.push_back(all[static_cast<size_t>(rank)]->Hear(kPatience));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!answers[i].ok()) continue;
    all[static_cast<size_t>(ranks[i])]->Tell(
        fmt::format("checkpoint {} {} {}/{}", call.version, flags, UsersFolder(), FileName(ranks[i], call.version)));
  }
  const bool any_dies = dying_ && std::ranges::any_of(ranks, [&](int rank) { return dying_->ranks.contains(rank); });
  if (any_dies) {
    std::this_thread::sleep_for(dying_->after);
    for (const int rank : dying_->ranks) all[static_cast<size_t>(rank)]->Signal(SIGKILL);
    if (dying_->node) LoseNode(*dying_->node);
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (answers[i].ok()) answers[i] = all[static_cast<size_t>(ranks[i])]->Hear(kPatience);
    if (any_dies && dying_->ranks.contains(ranks[i])) answers[i].came = answers[i].died = true;
  }
  if (any_dies) dying_.reset();
  return answers;
}

std::vector<Answer> RealWorld::Wait(int launch, int64_t version, kedge_level level) {
  return TellAll(launch, fmt::format("wait {} {}", version, static_cast<int>(level)));
}

std::vector<Answer> RealWorld::Test(int launch, int64_t version) {
  return TellAll(launch, fmt::format("test {}", version));
}

std::vector<Answer> RealWorld::Newest(int launch, int64_t at_most) {
  return TellAll(launch, fmt::format("newest {}", at_most));
}

std::vector<Answer> RealWorld::Pending(int launch) {
  return TellAll(launch, "pending");
}

std::optional<Answer> RealWorld::Look(int node) {
  std::vector<std::string> command = {programs_ + "/../bin/kedge", "rebuild", "--look", "--patience", "1s"};
  std::istringstream keys(Overrides(node, /*rival=*/false));
  for (std::string key; std::getline(keys, key);) command.insert(command.end(), {"--set", key});
  testing::ChildProcess look(command, bucket_ ? bucket_->Environment() : std::map<std::string, std::string>(),
                             fmt::format("{}/look-{}", folder_.path(), ++looks_));
  const auto ended = look.Wait(kPatience);
  Answer answer;
  answer.came = ended.has_value();
  answer.code = ended && ended->exited && ended->exit_code == 0 ? KEDGE_OK : KEDGE_ERROR_INTERNAL;
  answer.message = look.Output();
  std::istringstream said(answer.message);
  for (std::string line; std::getline(said, line);) {
    const std::string name = std::string(kName) + ": ";
    int64_t version = -1;
    // Else "none", or "lost".
    if (line.starts_with(name) && std::istringstream(line.substr(name.size())) >> version) answer.version = version;
  }
  return answer;
}

std::vector<Answer> RealWorld::End(int launch, bool drain) {
  std::vector<Answer> answers = TellAll(launch, fmt::format("end {}", drain ? 1 : 0));
  launches_.erase(launch);
  return answers;
}

void RealWorld::Kill(int launch) {
  const auto found = launches_.find(launch);
  if (found == launches_.end()) return;
  for (const auto& rank : found->second) rank->Signal(SIGKILL);
  launches_.erase(found);
}

void RealWorld::Freeze(int launch) {
  for (const auto& rank : launches_.at(launch)) rank->Signal(SIGSTOP);
}

void RealWorld::Thaw(int launch) {
  for (const auto& rank : launches_.at(launch)) rank->Signal(SIGCONT);
  std::this_thread::sleep_for(seconds(1));  // its watcher looks at the lease
}

bool RealWorld::Fault(const Step& step) {
  const int node = static_cast<int>(step.Number(0));
  if (step.verb == "fail-rank") return FailRank(step);
  if (step.verb == "die-rank" || step.verb == "die-node") return Die(step);
  if (step.verb == "stop-rank") return SignalRank(step, SIGSTOP);
  if (step.verb == "continue-rank") return SignalRank(step, SIGCONT);
  if (step.verb == "gc") {
    const auto store = OpenStore();
    return CollectAtLeisure(*store, kCollectPatience);
  }
  if (step.verb == "store") return BreakStore(step.words.empty() ? "" : step.words[0]);
  if (step.verb.starts_with("buffer-")) return setup_.drains && BreakBuffer(*burst_, step.verb.substr(strlen("buffer-")));
  if (step.verb.starts_with("partner-")) return setup_.partner && BreakBuffer(*partner_, step.verb.substr(strlen("partner-")));
  if (step.verb == "flip") return Flip(step);
  if (step.verb == "kill-agent") {
    stopped_agents_.erase(node);
    return testing::KillAgentAt(RunFolder(node));
  }
  if (step.verb == "stop-agent") return SignalAgent(node, SIGSTOP);
  if (step.verb == "continue-agent") {
    const auto stopped = stopped_agents_.find(node);
    if (stopped == stopped_agents_.end()) return false;
    kill(stopped->second, SIGCONT);
    stopped_agents_.erase(stopped);
    return true;
  }
  if (step.verb == "cut-node") {
    if (burst_) return false;
    std::ofstream(CutFile(RunFolder(node)));
    return true;
  }
  if (step.verb == "join-node") return filesystem::remove(CutFile(RunFolder(node)));
  if (step.verb == "step-clock") return StepClock(node, step.Number(1, 0));
  if (step.verb == "lose-node") {
    LoseNode(node);
    return true;
  }
  if (step.verb == "delete-pool") {
    std::error_code gone;
    return filesystem::remove(RunFolder(node) + "/pool/pool", gone);
  }
  if (step.verb == "settle") {
    std::this_thread::sleep_for(milliseconds(1500));  // agents look after their tiers every second
    return true;
  }
  return false;
}

bool RealWorld::StepClock(int node, int64_t seconds) const {
  const std::string path = ClockStepFile(RunFolder(node));
  int64_t before = 0;
  std::ifstream(path) >> before;
  std::ofstream(path) << before + seconds;
  return true;
}

bool RealWorld::SignalAgent(int node, int signal) {
  const int pid = testing::AgentPidAt(RunFolder(node));
  if (pid <= 0 || stopped_agents_.contains(node)) return false;
  kill(pid, signal);
  stopped_agents_[node] = pid;
  return true;
}

void RealWorld::ContinueAgents() {
  for (const auto& [node, pid] : stopped_agents_) kill(pid, SIGCONT);
  stopped_agents_.clear();
}

void RealWorld::LoseNode(int node) {
  stopped_agents_.erase(node);
  testing::KillAgentAt(RunFolder(node));
  std::error_code ignored;
  filesystem::remove_all(RunFolder(node), ignored);
  filesystem::remove_all(OwnTierFolder(node), ignored);
}

bool RealWorld::FailRank(const Step& step) {
  const auto rank = static_cast<size_t>(step.Number(0));
  if (bucket_ || burst_ || launches_.empty() || rank >= launches_.rbegin()->second.size() || step.words.size() < 3) return false;
  const auto call = CallNamed(step.words[1]);
  const auto error = ErrorNamed(step.words[2]);
  if (!call || !error) return false;
  RankProcess& process = *launches_.rbegin()->second[rank];
  process.Tell(fmt::format("fail {} {} {} {}", *call, *error, step.Number(3, 0), StoreFolder()));
  return process.Hear(kPatience).ok();
}

bool RealWorld::Die(const Step& step) {
  if (launches_.empty()) return false;
  const int number = static_cast<int>(step.Number(0));
  Dying dying{{}, {}, step.Number(1, 0) * kDeathStep};
  if (step.verb == "die-node") dying.node = number;
  const std::vector<int>& places = places_.at(launches_.rbegin()->first);
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if ((dying.node ? places[rank] : static_cast<int>(rank)) == number) dying.ranks.insert(static_cast<int>(rank));
  }
  if (dying.ranks.empty()) return false;
  dying_ = std::move(dying);
  return true;
}

bool RealWorld::SignalRank(const Step& step, int signal) {
  const auto rank = static_cast<size_t>(step.Number(0));
  if (launches_.empty() || rank >= launches_.rbegin()->second.size()) return false;
  launches_.rbegin()->second[rank]->Signal(signal);
  return true;
}

bool RealWorld::BreakBuffer(BurstServer& server, const std::string& how) {
  if (how == "back") return server.Mend(), true;
  return server.Break(how);
}

bool RealWorld::BreakStore(const std::string& how) {
  if (bucket_ && how != "back" && how != "mended") return bucket_->Break(how);
  if (bucket_) {
    bucket_->Mend();
    return true;
  }
  const bool is_on_buffer = burst_.has_value() && !setup_.drains;
  if (is_on_buffer && (how == "away" || how == "still")) return burst_->Break(how);
  if (is_on_buffer && (how == "back" || how == "mended")) {
    os::testing::StopSteering(Steering());
    burst_->Mend();
    return true;
  }
  const std::string away = StoreFolder() + ".away";
  const bool is_away = filesystem::exists(away);
  if (how == "away") {
    if (is_away || !filesystem::exists(StoreFolder())) return false;
    filesystem::rename(StoreFolder(), away);
    return true;
  }
  if (how == "back" || how == "mended") {
    os::testing::StopSteering(Steering());
    if (!is_away) return true;
    // What was made in its place meanwhile is covered by the mount, so to say.
    another_store_stood_ = filesystem::remove_all(StoreFolder()) > 0 || another_store_stood_;
    filesystem::rename(away, StoreFolder());
    return true;
  }
  const auto fault = StoreFaultNamed(how);
  if (!fault || is_away) return false;
  os::testing::FaultRule rule;
  rule.calls = fault->calls;
  rule.errno_value = fault->errno_value;
  rule.path_contains = StoreFolder();
  os::testing::Steer(Steering(), {rule});
  return true;
}

bool RealWorld::Flip(const Step& step) {
  const std::string where = step.words.empty() ? "" : step.words[0];
  if (where == "pool") return FlipImages(RunFolder(static_cast<int>(step.Number(1))) + "/pool/pool", step.Number(2));
  if (where == "tier") return FlipImagesBelow(OwnTierFolder(static_cast<int>(step.Number(1))), "", step.Number(2));
  if (where == "parity") return FlipParity(static_cast<int>(step.Number(1)));
  return where == "store" && FlipImagesBelow(StoreFolder(), "/data/", step.Number(1));
}

bool RealWorld::FlipParity(int node) const {
  bool flipped = false;
  std::error_code none;
  for (const auto& entry : filesystem::directory_iterator(RunFolder(node) + "/sets", none)) {
    if (entry.path().extension() == ".set") continue;
    const std::string bytes = ReadAll(entry.path());
    const auto record = DecodeParityRecord(AsBytes(bytes));
    if (!record.ok()) continue;
    for (const ParitySlot& slot : record->slots) {
      const auto [path, begin] = PlaceOfSlot(record->tiers.at(slot.tier), slot.slot);
      for (uint64_t at = 0; at < slot.bytes; at += 4096) FlipByte(path, begin + slot.offset + at);
    }
    flipped = true;
  }
  return flipped;
}

void RealWorld::MendRanks(int launch) {
  dying_.reset();
  (void)TellAll(launch, "mend");
}

void RealWorld::Mend() {
  ContinueAgents();
  for (int node = 0; node < setup_.Agents(); ++node) filesystem::remove(CutFile(RunFolder(node)));
  BreakStore("mended");
  if (burst_) burst_->Mend();
  if (partner_) partner_->Mend();
}

std::vector<std::string> RealWorld::Leftovers() {
  const auto store = OpenStore();
  // What an attempt has left incomplete goes when nobody has worked on it for a lease; files are published last.
  const bool publishes = setup_.Number("schedule.store", 1) == 1;
  std::vector<std::string> found;
  for (const auto end = steady_clock::now() + kLeasePatience;;) {
    found = UnwantedGenerations(*store, kJob, kName, static_cast<size_t>(setup_.Number("keep.versions", 2)));
    if (publishes) std::ranges::move(FileTemporaries(), std::back_inserter(found));
    if (found.empty() || steady_clock::now() >= end) break;
    std::this_thread::sleep_for(milliseconds(200));
  }
  for (std::string& one : TemporariesAfterCollection(*store, kDefaultLeasePatience)) found.push_back(std::move(one));
  for (std::string& one : BadFiles()) found.push_back(std::move(one));
  return found;
}

std::vector<std::string> RealWorld::LeftByAgents(Held held) {
  const bool is_drained = held != Held::kPending && !another_store_stood_;
  std::vector<int> told;
  for (int node = 0; node < setup_.Agents(); ++node) {
    if (TellAgentToLeave(RunFolder(node), is_drained)) told.push_back(node);
  }
  std::vector<std::string> found;
  for (const auto end = steady_clock::now() + kLeavePatience;;) {
    found.clear();
    for (const auto& [pid, line] : ProcessesWith(folder_.memory_folder())) {
      found.push_back(fmt::format("process {} is there still: {}", pid, line));
    }
    if (found.empty() || steady_clock::now() >= end) break;
    std::this_thread::sleep_for(milliseconds(10));
    // One that a rank was starting when it was killed comes up a moment later.
    for (int node = 0; node < setup_.Agents(); ++node) (void)TellAgentToLeave(RunFolder(node), is_drained);
  }
  for (const int node : told) {
    // One that keeps versions keeps its run folder with them.
    const bool keeps_nothing = (is_drained && held == Held::kStored) || !filesystem::exists(RunFolder(node));
    for (const std::string& folder : {RunFolder(node), OwnTierFolder(node)}) {
      if (!keeps_nothing || !filesystem::exists(folder)) continue;
      found.push_back(fmt::format("the agent has left, and {} is there still: {}", folder, fmt::join(FilesBelow(folder), " ")));
    }
  }
  std::ranges::move(StrayMemory(), std::back_inserter(found));
  return found;
}

std::vector<std::string> RealWorld::StrayMemory() const {
  const filesystem::path own = folder_.memory_folder();
  std::set<std::string> known = {filesystem::path(StoreFolder()).filename(), filesystem::path(StagingFolder()).filename()};
  for (int node = 0; node < setup_.Agents(); ++node) {
    for (const std::string& path : {RunFolder(node), RunFolder(node) + "-rival", ClockStepFile(RunFolder(node))})
      known.insert(filesystem::path(path).filename());
  }
  std::vector<std::string> found;
  const auto find = [&](const filesystem::path& path) { found.push_back("nobody owns " + path.string()); };
  for (const auto& entry : filesystem::directory_iterator(own)) {
    if (!known.contains(entry.path().filename())) find(entry.path());
  }
  for (const auto& entry : filesystem::directory_iterator(own.parent_path())) {
    if (entry.path() != own && entry.path().string().find(own.filename().string()) != std::string::npos) find(entry.path());
  }
  return found;
}

std::vector<std::string> RealWorld::FileTemporaries() const {
  std::vector<std::string> found;
  for (const auto& entry : filesystem::directory_iterator(UsersFolder())) {
    if (entry.path().extension() == ".tmp") found.push_back(entry.path().string());
  }
  return found;
}

std::vector<std::string> RealWorld::BadFiles() const {
  std::vector<std::string> bad;
  for (const auto& entry : filesystem::directory_iterator(UsersFolder())) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".tmp") continue;
    const std::string content = ReadAll(entry.path());
    std::string problem;
    const auto tag = ReadContent(content, &problem);
    const bool is_whole = tag && content.size() == kFileBytes && name == FileName(tag->rank, tag->version);
    const bool may_be_read = (entry.status().permissions() & filesystem::perms::owner_all) ==
                             (filesystem::perms::owner_read | filesystem::perms::owner_write);
    if (!is_whole || !may_be_read) bad.push_back(fmt::format("{} of {} bytes: {}", name, content.size(), problem));
  }
  return bad;
}

std::string RealWorld::Logs() const {
  std::string text;
  for (const auto& entry : filesystem::directory_iterator(folder_.path())) {
    if (entry.path().filename().string().starts_with("rank-"))
      text += "---- " + entry.path().filename().string() + "\n" + ReadAll(entry.path());
  }
  for (int node = 0; node < setup_.Agents(); ++node)
    text += fmt::format("---- agent of node {}\n{}", node, ReadAll(RunFolder(node) + "/agent.log"));
  return text;
}

}  // namespace kedge::histories

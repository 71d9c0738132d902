// See player.h.
#include "tests/histories/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace kedge::histories {
namespace {

class Player {
 public:
  Player(const History& history, World& world, const PlayOptions& options)
      : setup_(history.setup),
        world_(world),
        tell_(options.tell),
        stopping_(options.stopping),
        promises_(history.setup, options.ignored) {}

  std::optional<Violation> Play(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (promises_.violation() || IsStopping()) break;
      Take(step);
    }
    if (!promises_.violation() && !IsStopping()) Close();
    // What was cut short proves nothing.
    return IsStopping() ? std::nullopt : promises_.violation();
  }

 private:
  struct Running {
    int launch = 0;
    std::vector<int> places;
    bool frozen = false;
    std::map<std::pair<int, int64_t>, int> takings;  // by rank and version
  };

  bool IsStopping() const { return stopping_ != nullptr && stopping_->load(); }
  void Tell(const std::string& what) {
    if (tell_) tell_(what);
  }
  void TellAnswers(const std::vector<Answer>& answers) {
    if (!tell_) return;
    for (size_t i = 0; i < answers.size(); ++i) {
      const Answer& answer = answers[i];
      tell_(fmt::format("    {}: {}{}{}", i,
                        answer.died   ? "died"
                        : answer.came ? kedge_status_name(answer.code)
                                      : "no answer",
                        answer.version >= 0 ? fmt::format(" version {}", answer.version) : "",
                        answer.message.empty() ? "" : " (" + answer.message + ")"));
    }
  }
  static std::vector<int> AllRanks(const Running& running) {
    std::vector<int> ranks(running.places.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  // How many a launch has.
  size_t RanksOf(const Step& launch) const {
    const std::vector<int> said = launch.List("ranks");
    return static_cast<size_t>(setup_.divided && !said.empty() && said.front() > 0 ? said.front() : setup_.ranks);
  }
  bool IsNode(int64_t node) const { return node >= 0 && node < setup_.nodes; }
  bool HasAgent(int64_t node) const { return node >= 0 && node < setup_.Agents(); }

  void Take(const Step& step) {
    promises_.NextStep();
    Tell(step.ToString());
    auto& running = step.late ? late_ : current_;
    if (step.verb == "launch" || step.verb == "rival") return Launch(step);
    if (step.verb == "gc" || step.verb == "stop-rank" || step.verb == "continue-rank") return Harmless(step);
    if (step.verb == "settle" || step.verb == "store" || step.verb == "flip" || step.verb.find('-') != std::string::npos) {
      return Fault(step);
    }
    if (step.verb == "thaw") return Thaw();
    if (!running || running->frozen) return Tell("    nobody is there to do it");
    // Those that the step does not ask may go on standing.
    if (step.verb != "checkpoint") ContinueRanks(AllRanks(*running));
    Call(*running, step);
    if (!std::exchange(rank_is_to_fail_, false)) return;
    if (current_) world_.MendRanks(current_->launch);
    promises_.RanksMended();
  }

  void Call(Running& running_launch, const Step& step) {
    Running* const running = &running_launch;
    if (step.verb == "restart") return Restart(*running, step);
    if (step.verb == "read") return Read(*running, step.Number(0));
    if (step.verb == "checkpoint") return Checkpoint(*running, step);
    if (step.verb == "wait") return Wait(*running, step);
    if (step.verb == "test") return Test(*running, step.Number(0));
    if (step.verb == "newest") return Newest(*running, step.Number(0));
    if (step.verb == "pending") return Pending(*running);
    if (step.late) return;
    if (step.verb == "look") return Look();
    if (step.verb == "end") return End(step.Has("drain"));
    if (step.verb == "kill") return Kill();
    if (step.verb == "freeze") {
      standing_.clear();
      world_.Freeze(current_->launch);
      current_->frozen = true;
    }
  }

  void Launch(const Step& step) {
    const bool rival = step.verb == "rival";
    if (rival && (!current_ || current_->frozen)) return Tell("    nobody is there to be rivalled");
    Running next;
    next.launch = ++launches_;
    next.places = step.List("on");
    const size_t ranks = RanksOf(step);
    const bool fits = next.places.size() == ranks &&
                      std::all_of(next.places.begin(), next.places.end(), [&](int node) { return IsNode(node); });
    if (!fits) {
      next.places.clear();
      for (size_t rank = 0; rank < ranks; ++rank) next.places.push_back(static_cast<int>(rank) % setup_.nodes);
    }
    if (current_ && current_->frozen) {
      DropLate();
      late_ = std::move(current_);
      current_.reset();
    } else if (current_ && !rival) {
      Kill();
    }
    const std::vector<Answer> answers = world_.Launch(next.launch, next.places, rival);
    TellAnswers(answers);
    promises_.Launched(next.launch, next.places, answers, rival, rival);
    const bool began = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
    if (began && !rival) current_ = std::move(next);
  }

  void Fault(const Step& step) {
    const bool about_node = step.verb.ends_with("-node") || step.verb.ends_with("-agent") || step.verb.ends_with("-pool") ||
                            step.verb == "step-clock";
    if (about_node && !HasAgent(step.Number(0))) return;
    const bool about_rank = step.verb.ends_with("-rank") || step.verb == "die-node";
    if (about_rank && (!current_ || current_->frozen)) return;
    if (about_rank) ContinueRanks(AllRanks(*current_));
    if (step.verb == "lose-node" || step.verb == "power-cut") {
      if (current_) Kill();
      DropLate();
    }
    if (!world_.Fault(step)) return Tell("    nothing is there to be broken");
    rank_is_to_fail_ = rank_is_to_fail_ || about_rank;
    if (step.verb == "settle") return promises_.Settled();
    promises_.Fault(step);
  }

  // What no call may be different for.
  void Harmless(const Step& step) {
    const bool about_rank = step.verb.ends_with("-rank");
    if (about_rank && (!current_ || current_->frozen)) return;
    if (!world_.Fault(step)) return Tell("    nothing is there to do it to");
    const int rank = static_cast<int>(step.Number(0));
    if (step.verb == "stop-rank") standing_.insert(rank);
    if (step.verb == "continue-rank") standing_.erase(rank);
  }

  void ContinueRanks(const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      if (standing_.erase(rank) > 0) (void)world_.Fault(ParseStep(fmt::format("continue-rank {}", rank)));
    }
  }

  void Restart(Running& running, const Step& step) {
    const int64_t at_most = step.Number(0);
    const bool in_parts = step.Has("parts") && !setup_.divided;
    const auto answers = world_.Restart(running.launch, at_most, in_parts);
    TellAnswers(answers);
    promises_.Restarted(running.launch, at_most, in_parts, answers);
    if (EndIfAnyDied(answers)) return;
    // An application that hears of an error, other than that there is nothing, ends.
    const bool ends = std::any_of(answers.begin(), answers.end(),
                                  [](const Answer& answer) { return !answer.ok() && answer.code != KEDGE_ERROR_NOT_FOUND; });
    if (ends && current_ && &*current_ == &running) Kill();
  }

  void Read(Running& running, int64_t version) {
    if (setup_.divided) return Tell("    parts are not read alone");
    const auto answers = world_.Read(running.launch, version);
    TellAnswers(answers);
    promises_.Read(running.launch, version, answers);
    EndIfAnyDied(answers);
  }

  void Checkpoint(Running& running, const Step& step) {
    CheckpointCall call;
    call.version = step.Number(0);
    call.overwrite = step.Has("overwrite");
    call.parts = step.Has("parts");
    call.some = step.Has("some") && !setup_.divided;
    call.file = step.Has("file");
    call.abandon = step.Has("abandon");
    call.goes_on = setup_.CopiesLater();
    std::vector<int> ranks = step.List("by");
    const std::vector<int> all = AllRanks(running);
    std::erase_if(ranks, [&](int rank) { return rank < 0 || rank > all.back(); });
    if (ranks.empty()) ranks = all;
    ContinueRanks(ranks);
    std::vector<int> takings;
    for (const int rank : ranks) takings.push_back(++running.takings[{rank, call.version}]);
    const auto answers = world_.Checkpoint(running.launch, ranks, takings, call);
    TellAnswers(answers);
    promises_.Captured(running.launch, ranks, takings, call, answers);
    EndIfAnyDied(answers);
  }

  void Wait(Running& running, const Step& step) {
    const std::string level = step.words.size() > 1 ? step.words[1] : "last";
    const kedge_level wanted = level == "local"   ? KEDGE_LEVEL_LOCAL
                               : level == "node"  ? KEDGE_LEVEL_NODE
                               : level == "store" ? KEDGE_LEVEL_STORE
                                                  : KEDGE_LEVEL_LAST;
    const auto answers = world_.Wait(running.launch, step.Number(0), wanted);
    TellAnswers(answers);
    promises_.Waited(running.launch, step.Number(0), wanted, answers);
    EndIfAnyDied(answers);
  }

  void Test(Running& running, int64_t version) {
    const auto answers = world_.Test(running.launch, version);
    TellAnswers(answers);
    promises_.Tested(running.launch, version, answers);
    EndIfAnyDied(answers);
  }

  void Newest(Running& running, int64_t at_most) {
    const auto answers = world_.Newest(running.launch, at_most);
    TellAnswers(answers);
    promises_.SaidNewest(running.launch, at_most, answers);
    EndIfAnyDied(answers);
  }

  void Look() {
    if (setup_.divided) return Tell("    the tool does not know how many ranks there will be");
    const std::optional<Answer> answer = world_.Look(current_->places.front());
    if (!answer) return Tell("    there are no tools");
    TellAnswers({*answer});
    promises_.Foretold(*answer);
  }

  void Pending(Running& running) {
    const auto answers = world_.Pending(running.launch);
    TellAnswers(answers);
    if (!std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); })) return;
    promises_.NothingPending(running.launch);
  }

  void End(bool drain) {
    const auto answers = world_.End(current_->launch, drain);
    TellAnswers(answers);
    promises_.Ended(current_->launch, drain, answers);
    is_drained_ = drain && std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
    current_.reset();
  }

  void Kill() {
    standing_.clear();
    world_.Kill(current_->launch);
    current_.reset();
  }
  // As an MPI launcher does it.
  bool EndIfAnyDied(const std::vector<Answer>& answers) {
    const bool any = std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.died; });
    if (any && current_) Kill();
    return any;
  }
  void DropLate() {
    if (late_) world_.Kill(late_->launch);
    late_.reset();
  }
  void Thaw() {
    auto& frozen = current_ && current_->frozen ? current_ : late_;
    if (!frozen || !frozen->frozen) return;
    world_.Thaw(frozen->launch);
    frozen->frozen = false;
  }

  void Close() {
    Tell("closing");
    if (current_) Kill();
    DropLate();
    world_.Mend();
    promises_.FaultsEnd();
    Take(ParseStep("launch"));
    Take(ParseStep("restart"));
    if (!current_) return;
    GoOn();
    if (promises_.violation() || !current_) return;
    // Of two that are to stay on a node the older one may have been left out of the store for the newer.
    const bool may_be_skipped = setup_.Key("checkpoint.skip_queued", "false") == "true" && setup_.Number("keep.local", 1) > 1;
    const bool all_go_to_store = setup_.Number("schedule.store", 1) == 1 && !may_be_skipped;
    Take(ParseStep("end drain"));
    if (promises_.violation()) return;
    promises_.LeftOver(world_.Leftovers());
    if (promises_.violation()) return;
    if (setup_.Stages() && all_go_to_store) HandOver();
    if (promises_.violation()) return;
    const bool is_pending = !is_drained_ || promises_.MayWaitForDrain();
    AgentsLeave(is_pending ? Held::kPending : all_go_to_store ? Held::kStored : Held::kDrained);
    if (promises_.violation() || setup_.Number("schedule.store", 1) == 0) return;
    for (int node = 0; node < setup_.nodes; ++node) Take(ParseStep(fmt::format("lose-node {}", node)));
    Take(ParseStep("launch"));
    Take(ParseStep("restart"));
    if (!current_ || promises_.violation()) return;
    Take(ParseStep("end"));
    if (!promises_.violation()) AgentsLeave(Held::kStored);
  }
  // One more version, for which nobody waits: the nodes leave with it, and it is in the store when all agents have gone.
  void HandOver() {
    Take(ParseStep("launch"));
    Take(ParseStep("restart"));
    if (promises_.violation() || !current_) return;
    Take(ParseStep(fmt::format("checkpoint {} file", std::max<int64_t>(promises_.NewestOfAll(), 0) + 1)));
    if (promises_.violation() || !current_) return;
    const int launch = current_->launch;
    const auto answers = world_.End(launch, /*drain=*/false);
    TellAnswers(answers);
    current_.reset();
    is_drained_ = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
    AgentsLeave(is_drained_ ? Held::kStored : Held::kPending);
    if (is_drained_) promises_.Ended(launch, /*drain=*/true, answers);
  }
  void AgentsLeave(Held held) {
    Tell("the agents leave");
    promises_.LeftOver(world_.LeftByAgents(held));
  }

  // Two more versions, so that a level that only every other one gets is seen.
  void GoOn() {
    const int64_t newest = std::max<int64_t>(promises_.NewestOfAll(), 0);
    for (int64_t version = newest + 1; version <= newest + 2 && !promises_.violation(); ++version) {
      for (int lease = 0; lease < 3 && version == newest + 2 && world_.HasFileTemporaries(); ++lease) Take(ParseStep("settle"));
      Take(ParseStep(fmt::format("checkpoint {} file", version)));
      if (!promises_.violation()) Take(ParseStep(fmt::format("wait {} last", version)));
    }
  }

  const Setup setup_;
  World& world_;
  const std::function<void(const std::string&)> tell_;
  const std::atomic<bool>* const stopping_;
  Promises promises_;
  int launches_ = 0;
  bool rank_is_to_fail_ = false;
  std::set<int> standing_;   // ranks of the current launch
  bool is_drained_ = false;  // the last launch that ended has said so on all ranks
  std::optional<Running> current_;
  std::optional<Running> late_;
};

}  // namespace

std::optional<Violation> Play(const History& history, World& world, const PlayOptions& options) {
  return Player(history, world, options).Play(history.steps);
}

}  // namespace kedge::histories

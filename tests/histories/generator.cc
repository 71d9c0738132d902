// See generator.h.
#include "tests/histories/generator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/random.h"

namespace kedge::histories {
namespace {

class Generator {
 public:
  Generator(uint64_t seed, bool real)
      : random_(MixSeed(seed, 1)),
        later_(MixSeed(seed, 2)),
        of_bucket_(MixSeed(seed, 3)),
        of_buffer_(MixSeed(seed, 4)),
        of_partner_(MixSeed(seed, 5)),
        of_job_(MixSeed(seed, 6)),
        of_shares_(MixSeed(seed, 7)),
        of_copies_(MixSeed(seed, 8)),
        real_(real) {}

  History Make() {
    MakeSetup();
    const int launches = 1 + static_cast<int>(random_.Below(3));
    for (int launch = 0; launch < launches; ++launch) Live();
    if (real_ && of_bucket_.Chance(0.25)) MoveToBucket();
    if (real_ && history_.setup.bucket.empty() && of_buffer_.Chance(0.2)) MoveToBuffer();
    return std::move(history_);
  }

 private:
  template <size_t n>
  const char* Pick(const char* const (&among)[n]) {
    return among[random_.Below(n)];
  }
  int Below(int bound) { return static_cast<int>(random_.Below(static_cast<uint64_t>(std::max(bound, 1)))); }
  bool Chance(double probability) { return random_.Chance(probability); }
  int UsedNodes() const { return std::min(ranks_, history_.setup.nodes); }  // by most launches with so many ranks
  int Node() { return Below(history_.setup.nodes); }
  int Agent() { return Below(history_.setup.Agents()); }
  int Rank() { return Below(ranks_); }

  template <typename... Arguments>
  void Say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    history_.steps.push_back(ParseStep(fmt::format(text, std::forward<Arguments>(arguments)...)));
  }
  void Key(const char* name, const std::string& value) { history_.setup.keys.emplace_back(name, value); }

  void MakeSetup() {
    Setup& setup = history_.setup;
    constexpr int kRanks[] = {1, 2, 2, 2, 3, 4, 4, 5, 6, 7, 8};
    ranks_ = setup.ranks = kRanks[random_.Below(std::size(kRanks))];
    setup.nodes = 1 + Below(std::min(setup.ranks, 4));
    if (setup.nodes == setup.ranks && Chance(0.3)) ++setup.nodes;  // a spare
    Key("job.lease", "3s");
    if (Chance(0.4)) Key("keep.versions", Pick({"1", "1", "3"}));
    if (Chance(0.2)) Key("keep.local", Pick({"0", "2"}));
    if (Chance(0.5)) Key("schedule.store", Pick({"2", "2", "3", "100", "0"}));
    if (real_ && UsedNodes() > 1 && Chance(0.35)) {
      Key("protect.scheme", UsedNodes() > 2 ? Pick({"partner", "xor", "rs"}) : Pick({"partner", "xor"}));
      if (setup.Key("protect.scheme", "") == "rs") Key("protect.losses", "1");
      if (Chance(0.3)) Key("schedule.node", Pick({"2", "3"}));
    }
    if (real_ && Chance(0.5)) {
      Key("reduce.incremental", Pick({"on", "on", "on", "auto"}));
      Key("reduce.block", "4KiB");
    }
    if (real_ && Chance(0.3)) Key("reduce.compress", Pick({"on", "on", "auto"}));
    if (Chance(0.15)) Key("flush.rate", "200KiB");
    if (Chance(0.1)) Key("checkpoint.skip_queued", "true");
    if (real_ && Chance(0.3)) setup.tier = Pick({"beside", "alone", "scratch"});
    const bool deduplicates = real_ && later_.Chance(0.25);
    if (deduplicates && setup.Key("reduce.block", "").empty()) Key("reduce.block", "4KiB");
    // Its memory is large: it needs room on the nodes, and a way to the store.
    const bool is_roomy = setup.tier.empty() && setup.Key("flush.rate", "").empty();
    if (real_ && is_roomy && later_.Chance(0.2)) Key("capture.track", later_.Chance(0.8) ? "on" : "auto");
    if (real_ && is_roomy && !setup.Tracks() && later_.Chance(0.2)) Key("capture.mode", "cow");
    if (deduplicates) {
      const char* const among = later_.Chance(0.7) ? "node" : "rank";
      Key("reduce.deduplicate", UsedNodes() > 1 && of_job_.Chance(0.6) ? "job" : among);
    }
    if (deduplicates && later_.Chance(0.3)) Key("reduce.verify", "on");
    setup.divided = !setup.Tracks() && later_.Chance(0.25);
    if (real_ && later_.Chance(0.5)) ChooseLayout();
    ChooseCopies();
    if (real_ && later_.Chance(0.15)) Key(kStagingKey, later_.Chance(0.5) && !setup.CopiesLater() ? kSlowStaging : "beside");
  }

  // Partners leave out what enough nodes have.
  void ChooseCopies() {
    const Setup& setup = history_.setup;
    if (setup.Key("protect.scheme", "") != "partner") return;
    if (setup.Key("reduce.deduplicate", "").empty() && of_copies_.Chance(0.4)) {
      if (setup.Key("reduce.block", "").empty()) Key("reduce.block", "4KiB");
      Key("reduce.deduplicate", "job");
    }
    if (UsedNodes() < 3 || of_copies_.Chance(0.4)) return;
    of_copies_.Chance(0.5) ? Key("protect.copies", "2") : Key("protect.group", "4");
  }

  void ChooseLayout() {
    const bool has_leaders = UsedNodes() > 1 && later_.Chance(0.6);
    const bool is_shared = has_leaders && of_shares_.Chance(0.5);
    // What is reduced goes to an object of its node.
    const auto reduces = [](const auto& key) { return key.first.starts_with("reduce."); };
    if (is_shared && of_shares_.Chance(0.8)) std::erase_if(history_.setup.keys, reduces);
    Key("store.layout", is_shared ? "posix" : has_leaders ? "leaders" : "node");
    if (!has_leaders) return;
    Key("store.stripe", "4KiB");  // so that small versions have them, too
    if (later_.Chance(0.7)) Key("store.leaders", later_.Chance(0.6) ? "1" : "2");
  }

  // The same life with its store in a bucket, whose server has faults of its own while a version is taken.
  void MoveToBucket() {
    Setup& setup = history_.setup;
    const bool is_slow = !setup.Key("flush.rate", "").empty() || setup.Key(kStagingKey, "") == kSlowStaging;
    const bool is_roomy = setup.tier.empty() && !is_slow;
    setup.bucket = is_roomy && of_bucket_.Chance(0.3) ? "large" : "small";
    for (int faults = static_cast<int>(of_bucket_.Below(3)); faults > 0; --faults)
      BreakServer({"store away", "store still", "store cut", "store cut"}, "store mended", of_bucket_);
  }

  // The same life with its store on a burst buffer.
  void MoveToBuffer() {
    history_.setup.buffer = true;
    history_.setup.drains = of_buffer_.Chance(0.5);
    for (int faults = static_cast<int>(of_buffer_.Below(3)); faults > 0; --faults) {
      if (history_.setup.drains) {
        BreakServer({"buffer-away", "buffer-still", "buffer-lost"}, "buffer-back", of_buffer_);
      } else {
        BreakServer({"store away", "store away", "store still"}, "store mended", of_buffer_);
      }
    }
    history_.setup.partner = history_.setup.drains && of_partner_.Chance(0.5);
    for (int faults = static_cast<int>(of_partner_.Below(3)); history_.setup.partner && faults > 0; --faults)
      BreakServer({"partner-away", "partner-still", "partner-lost"}, "partner-back", of_partner_);
  }

  void BreakServer(const std::vector<const char*>& kinds, const char* mended, Random& random) {
    std::vector<Step>& steps = history_.steps;
    std::vector<size_t> checkpoints;
    for (size_t at = 0; at < steps.size(); ++at) {
      if (steps[at].verb == "checkpoint" && !steps[at].late) checkpoints.push_back(at);
    }
    if (checkpoints.empty()) return;
    const size_t begin = checkpoints[random.Below(checkpoints.size())];
    const size_t end = std::min(begin + 1 + random.Below(3), steps.size());
    const char* fault = kinds[random.Below(kinds.size())];
    steps.insert(steps.begin() + static_cast<ptrdiff_t>(end), ParseStep(mended));
    steps.insert(steps.begin() + static_cast<ptrdiff_t>(begin), ParseStep(fault));
  }

  // Those of a launch: of parts, whatever number uses as many nodes, since they may protect each other.
  void ChooseRanks() {
    constexpr int kRanksMax = 8;
    if (!history_.setup.divided || later_.Chance(0.3)) return;
    const int least = std::min(history_.setup.ranks, history_.setup.nodes);
    ranks_ = least + static_cast<int>(later_.Below(static_cast<uint64_t>(kRanksMax - least + 1)));
  }
  std::string RanksWord() const { return ranks_ == history_.setup.ranks ? "" : fmt::format(" ranks {}", ranks_); }

  void Launch() {
    ChooseRanks();
    std::string places = RanksWord();
    if (history_.setup.nodes > 1 && Chance(0.25)) {
      const int shift = 1 + Below(history_.setup.nodes - 1);
      for (int rank = 0; rank < ranks_; ++rank)
        places += fmt::format("{}{}", rank == 0 ? " on " : ",", (rank + shift) % history_.setup.nodes);
    }
    Say("launch{}", places);
    places_ = places;
  }

  void Restart() {
    if (!taken_.empty() && Chance(0.35)) {
      const int64_t at_most = taken_[random_.Below(taken_.size())];
      if (Chance(0.2)) Say("newest {}", at_most);
      Say("restart {}{}", at_most, Chance(0.15) ? " parts" : "");
      version_ = at_most;  // goes on from there, as far as this can tell
    } else {
      if (Chance(0.2)) Say("newest");
      if (real_ && Chance(0.3)) Say("look");
      Say("restart{}", Chance(0.15) ? " parts" : "");
    }
  }

  void Live() {
    Launch();
    Restart();
    const int motifs = 1 + Below(4);
    for (int i = 0; i < motifs; ++i) {
      is_undisturbed_ = i == 0;
      if (Motif()) return;  // it has ended this life
    }
    if (!taken_.empty() && Chance(0.15)) Say("read {}", taken_[random_.Below(taken_.size())]);
    Finish();
  }

  void Checkpoint(const std::string& how = "") {
    version_ += 1 + Below(3);
    std::string more;
    if (Chance(0.1)) more += " parts";
    if (how.empty() && Chance(0.1)) more += " some";  // of the same regions on all ranks
    if (Chance(0.1)) more += " file";
    Say("checkpoint {}{}{}", version_, how, more);
    taken_.push_back(version_);
  }

  void Wait() {
    const Setup& setup = history_.setup;
    const char* level = "last";
    if (Chance(0.25)) level = "local";
    if (Chance(0.2) && setup.Number("schedule.store", 1) == 1) level = "store";
    if (Chance(0.3) && setup.Protects() && setup.Number("schedule.node", 1) == 1) level = "node";
    Say("wait {} {}", version_, level);
  }

  void MaybeWait() {
    if (Chance(0.15)) Say("test {}", version_);
    if (Chance(0.7)) Wait();
    if (Chance(0.15)) Say("test {}", version_);
  }

  // Where a node's copies lie, or may lie.
  const char* LocalPlace() {
    const std::string& tier = history_.setup.tier;
    if (tier.empty()) return "pool";
    return tier == "beside" && Chance(0.5) ? "pool" : "tier";
  }

  // True: the launch is over with it.
  bool Motif() {
    if (history_.setup.CopiesLater() && later_.Chance(0.25)) return later_.Chance(0.5) ? KilledBeforeCaptured() : DyingRank();
    // Without agents only these mean anything.
    constexpr int kSimulated[] = {0, 0, 1, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 19, 20};
    switch (real_ ? Below(23) : kSimulated[random_.Below(std::size(kSimulated))]) {
      case 0: return FailingRank();
      case 1: return BadStore();
      case 2: return StandingAgent();
      case 3: return KilledAgent();
      case 4: return FlippedBeforeTheFlush();
      case 5: return DeletedPool();
      case 6: return Abandoned();
      case 7: return Retaken();
      case 8: return HalfTaken();
      case 9: return TakenOverWhileFrozen();
      case 10: return Rivalled();
      case 11: return GoesOnElsewhere();
      case 12: return FlippedLater();
      case 13: return DyingRank();
      case 14: return real_ ? Plain() : DyingRank();
      case 17: return SteppedClock();
      case 18: return CutOff();
      case 19: return FailingCall();
      case 20: return LaunchedWithBadStore();
      case 21: return StandingRank();
      case 22: return DyingNode();
      default: return Plain();
    }
  }

  bool Plain() {
    for (int i = 1 + Below(3); i > 0; --i) {
      Checkpoint();
      if (Chance(0.04)) Say("gc");
      if (Chance(0.04)) Say("read {}", taken_[random_.Below(taken_.size())]);
      MaybeWait();
    }
    return false;
  }

  void FailRank() {
    Say("fail-rank {} {} {}{}", Rank(), Pick({"any", "list", "open", "pwrite", "fsync", "pread"}),
        Pick({"EIO", "ENOSPC", "ESTALE"}), Chance(0.3) ? fmt::format(" {}", Below(6)) : std::string());
  }

  // One store call of one rank, in a call that is not a checkpoint.
  bool FailingCall() {
    Checkpoint();
    MaybeWait();
    switch (Below(6)) {
      case 0:
        FailRank();
        Wait();
        return Plain();
      case 1:
        FailRank();
        Say("newest");
        return Plain();
      case 2:
        FailRank();
        Say("end{}", Chance(0.7) ? " drain" : "");
        return true;
      default:
        Say("kill");
        Launch();
        FailRank();
        Restart();
        return Plain();
    }
  }

  bool LaunchedWithBadStore() {
    Checkpoint();
    MaybeWait();
    Say("kill");
    // Where no node has anything of the job nobody knows that there was a store, and another is made in its place.
    const Setup& setup = history_.setup;
    const bool is_kept =
        real_ && is_undisturbed_ && !has_lost_node_ && !setup.HasSmallPools() && setup.Number("keep.local", 1) > 0;
    const bool away = is_kept && Chance(0.6);
    const bool may_share_no_node = (setup.ranks == 1 || setup.divided) && setup.nodes > 1;
    if (is_kept) Say("wait {} local", version_);
    if (away || Chance(0.5)) {
      Say("store {}", away ? "away" : Pick({"full", "broken", "read-only"}));
      if (away && may_share_no_node) {
        Say("launch{}", places_);
      } else {
        Launch();
      }
      Restart();
    } else {
      Launch();
      Say("store {}", Pick({"full", "broken", "read-only"}));
      Restart();
    }
    for (int i = Below(3); i > 0; --i) Checkpoint();
    if (Chance(0.2)) Wait();
    Say("store {}", away ? "back" : "mended");
    if (Chance(0.3)) {
      Say("kill");
      Launch();
      Say("restart");
    }
    return Plain();
  }

  // A rank stands still, as in a debugger, and its slots are its own all the while.
  bool StandingRank() {
    if (ranks_ < 2) return Plain();
    const int rank = Rank();
    std::vector<int> others;
    for (int other = 0; other < ranks_; ++other) {
      if (other != rank) others.push_back(other);
    }
    Checkpoint();
    Say("stop-rank {}", rank);
    Checkpoint(fmt::format(" by {}", fmt::join(others, ",")));
    if (Chance(0.3)) Say("settle");
    if (Chance(0.2)) Say("kill-agent {}", Node());
    Say("continue-rank {}", rank);
    Say("checkpoint {} by {}", version_, rank);
    MaybeWait();
    return false;
  }

  bool FailingRank() {
    FailRank();
    Checkpoint();
    if (Chance(0.6)) Say("checkpoint {} overwrite", version_);
    MaybeWait();
    return Plain();
  }

  bool BadStore() {
    const bool away = Chance(0.4);
    Say("store {}", away ? "away" : Pick({"full", "broken", "read-only"}));
    for (int i = Below(3); i > 0; --i) {
      Checkpoint();
      if (Chance(0.3)) Wait();
    }
    const bool ends = Chance(0.2);
    if (ends) Finish();
    Say("store {}", away ? "back" : "mended");
    return ends || Plain();
  }

  bool StandingAgent() {
    const int node = Agent();
    Say("stop-agent {}", node);
    Checkpoint();
    if (Chance(0.5)) Checkpoint();
    if (Chance(0.3)) Say("pending");
    if (Chance(0.3)) Say("kill-agent {}", node);
    Say("continue-agent {}", node);
    MaybeWait();
    return false;
  }

  bool KilledAgent() {
    Checkpoint();
    if (Chance(0.3)) Wait();
    if (Chance(0.1)) Say("gc");
    Say("kill-agent {}", Agent());
    if (Chance(0.5)) Checkpoint();
    MaybeWait();
    return false;
  }

  bool FlippedBeforeTheFlush() {
    const int node = Node();
    Say("stop-agent {}", node);
    Checkpoint();
    Say("flip {} {} {}", LocalPlace(), node, version_);
    Say("continue-agent {}", node);
    Wait();
    return false;
  }

  bool FlippedLater() {
    if (taken_.empty()) return Plain();
    const Setup& setup = history_.setup;
    const bool has_parity = setup.Protects() && setup.Number("schedule.node", 1) == 1;
    if (Chance(0.5)) {
      Checkpoint();
      Say("wait {} {}", version_, has_parity ? "node" : "local");
    }
    const int64_t version = Chance(0.5) ? taken_.back() : taken_[random_.Below(taken_.size())];
    switch (Below(has_parity ? 3 : 2)) {
      case 0: Say("flip {} {} {}", LocalPlace(), Node(), version); break;
      case 1: Say("flip store {}", version); break;
      case 2: Say("flip parity {}", Node()); break;
    }
    return Chance(0.5) ? Plain() : false;
  }

  bool DeletedPool() {
    Checkpoint();
    if (Chance(0.4)) Wait();
    Say("delete-pool {}", Node());
    if (Chance(0.5)) Wait();
    return Plain();
  }

  bool Abandoned() {
    const int node = Node();
    const bool stands = Chance(0.5);
    if (Chance(0.7)) Say("checkpoint {} abandon", version_ + 1);
    if (stands) Say("settle");
    if (stands) Say("stop-agent {}", node);
    Checkpoint();
    if (Chance(0.3)) Say("checkpoint {} abandon", version_ + 1);
    Say("pending");
    if (stands) Say("continue-agent {}", node);
    return false;
  }

  bool Retaken() {
    Checkpoint();
    if (Chance(0.5)) Wait();
    Say("checkpoint {} overwrite", version_);
    MaybeWait();
    return false;
  }

  // Some ranks take it, and then the others do, or the job dies.
  bool HalfTaken() {
    std::vector<int> some, others;
    for (int rank = 0; rank < ranks_; ++rank) (Chance(0.5) ? some : others).push_back(rank);
    if (some.empty() || others.empty()) return Plain();
    Checkpoint();
    MaybeWait();
    Checkpoint(fmt::format(" by {}", fmt::join(some, ",")));
    if (Chance(0.4)) Say("wait {} {}", version_, Pick({"local", "local", "last"}));
    if (Chance(0.6)) {
      taken_.pop_back();
      Finish();
      return true;
    }
    Say("checkpoint {} by {}", version_, fmt::join(others, ","));
    MaybeWait();
    return false;
  }

  bool TakenOverWhileFrozen() {
    Checkpoint();
    MaybeWait();
    Say("freeze");
    Launch();
    Say("restart");
    Checkpoint();
    Wait();
    Say("thaw");
    if (Chance(0.2)) Say("late restart");
    Say("late checkpoint {}", version_ + 1);
    Say("late wait {} {}", version_ + 1, Pick({"store", "last"}));
    version_ += 1;
    return Plain();
  }

  bool Rivalled() {
    Checkpoint();
    MaybeWait();
    Say("rival");
    return Chance(0.5) ? Plain() : false;
  }

  // A node's agent stands still (it is out of reach), and the job goes on without it; then it comes back.
  bool GoesOnElsewhere() {
    const Setup& setup = history_.setup;
    const int needed = setup.Protects() ? 3 : 2;  // nobody else is left on one of two that could protect it
    if (UsedNodes() < needed) return Plain();
    Checkpoint();
    Wait();
    const int node = Node();
    Say("stop-agent {}", node);
    Checkpoint();
    if (Chance(0.5)) Say("wait {} local", version_);
    Say("kill");
    std::string places;
    for (int rank = 0; rank < ranks_; ++rank) {
      int other = rank % setup.nodes;
      if (other == node) other = (node + 1) % setup.nodes;
      places += fmt::format("{}{}", rank == 0 ? "" : ",", other);
    }
    version_ = taken_[taken_.size() - 2];
    Say("launch{} on {}", RanksWord(), places);
    Say("restart");
    Checkpoint();
    Wait();
    Say("continue-agent {}", node);
    Say("settle");
    if (Chance(0.5)) Wait();
    return Chance(0.5) ? Plain() : false;
  }

  // Leases and lineage go by attempts, not by what the clocks of nodes say.
  bool SteppedClock() {
    Say("step-clock {} {}", Node(), Pick({"-86400", "-30", "-2", "2", "30", "86400"}));
    return Chance(0.5) ? TakenOverWhileFrozen() : Plain();
  }

  // Its agent hears from no other node, and none from it; the store it reaches. The job goes on, or elsewhere.
  bool CutOff() {
    if (history_.setup.nodes < 2) return Plain();
    const int node = Node();
    Checkpoint();
    MaybeWait();
    Say("cut-node {}", node);
    Checkpoint();
    if (Chance(0.5)) Wait();
    if (Chance(0.3)) {
      Say("kill");
      Launch();
      Say("restart");
      Checkpoint();
    }
    Say("join-node {}", node);
    return Plain();
  }

  // Ranks have gone on, and nobody has heard that the version was captured.
  bool KilledBeforeCaptured() {
    Checkpoint();
    MaybeWait();
    Checkpoint();
    Say("kill");
    return true;
  }

  bool DyingRank() {
    Say("die-rank {} {}", Rank(), Below(120));
    Checkpoint();
    if (Chance(0.5)) Checkpoint();
    return true;
  }

  bool DyingNode() {
    Checkpoint();
    MaybeWait();
    has_lost_node_ = true;
    Say("die-node {} {}", Node(), Below(120));
    Checkpoint();
    return true;
  }

  void Finish() {
    switch (Below(8)) {
      case 0:
      case 1:
      case 2: Say("kill"); break;
      case 3: Say("end"); break;
      case 4:
      case 5: Say("end drain"); break;
      default:
        Say("kill");
        if (!real_ && Chance(0.5)) return Say("power-cut");
        has_lost_node_ = true;
        for (int lost = 1 + Below(2); lost > 0; --lost) Say("lose-node {}", Node());
    }
  }

  Random random_;
  Random later_;       // for what came later: other histories of a seed stay as they were
  Random of_bucket_;   // as later_
  Random of_buffer_;   // as later_
  Random of_partner_;  // as later_
  Random of_job_;      // as later_
  Random of_shares_;   // as later_
  Random of_copies_;   // as later_
  const bool real_;
  History history_;
  int ranks_ = 1;                // of the last launch
  std::string places_;           // of the last launch, as it was said
  bool is_undisturbed_ = false;  // nothing was done to the agents since the launch
  bool has_lost_node_ = false;   // in this life: a launch may find nothing, and take nothing before its numbers are new
  int64_t version_ = 0;
  std::vector<int64_t> taken_;
};

}  // namespace

History Generate(uint64_t seed, bool real) {
  return Generator(seed, real).Make();
}

}  // namespace kedge::histories

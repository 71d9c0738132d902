// See promises.h.
#include "tests/histories/promises.h"

#include <fmt/format.h>

#include <algorithm>

namespace kedge::histories {
namespace {

constexpr const char* kLevels[] = {"NONE", "LOCAL", "NODE", "BUFFER", "STORE"};

std::string LevelName(kedge_level level) {
  return level == KEDGE_LEVEL_LAST ? "LAST" : kLevels[level];
}

// Whether ranks on these nodes ask their own nodes for all that was taken by ranks on those: other numbers of ranks do so where
// there is one node.
bool IsAskedThere(const std::vector<int>& taken, const std::vector<int>& now) {
  const auto is_first = [&](int node) { return node == now.front(); };
  return taken == now || (std::ranges::all_of(taken, is_first) && std::ranges::all_of(now, is_first));
}

std::string Said(const Answer& answer) {
  return fmt::format("{} ({})", kedge_status_name(answer.code), answer.message);
}

}  // namespace

std::string Promises::Name(const Key& key) {
  return fmt::format("version {} of launch {}, taking {}", key.version, key.launch, key.taking);
}

void Promises::Break(const std::string& kind, const std::string& sentence) {
  if (!violation_ && !ignored_.contains(kind)) violation_ = Violation{kind, sentence};
}

bool Promises::AllCame(const std::string& call, const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    if (!answer.came) Break("call-never-ended", fmt::format("{}: {}", call, answer.message));
  }
  return !violation_;
}

std::set<int> Promises::UnnoticedSince(int step) const {
  std::set<int> nodes;
  for (const auto& [node, since] : unnoticed_) {
    if (since >= step) nodes.insert(node);
  }
  return nodes;
}

void Promises::FaultsEnd() {
  active_.clear();
  silent_.clear();
  unnoticed_.clear();
  store_bad_since_ = -1;
  buffers_away_.clear();
  last_fault_ = last_harm_ = now_;
}

void Promises::RanksMended() {
  if (active_.erase("rank") > 0) last_fault_ = last_harm_ = now_;
}

void Promises::EndSilence(int node) {
  if (!active_.contains(fmt::format("silent {}", node)) && !active_.contains(fmt::format("cut {}", node))) silent_.erase(node);
}

void Promises::Fault(const Step& step) {
  last_fault_ = now_;
  // What is captured waits until the store is back, or the agent; protection gives up in the end.
  const bool is_only_wait =
      step.verb == "store" || (!setup_.Protects() && (step.verb == "stop-agent" || step.verb == "continue-agent"));
  if (!is_only_wait) last_harm_ = now_;
  const int node = static_cast<int>(step.Number(0));
  // One that stood still has a successor.
  if ((step.verb == "kill-agent" || step.verb == "lose-node") && active_.erase(fmt::format("silent {}", node)) > 0)
    EndSilence(node);
  if (step.verb == "stop-agent" || step.verb == "cut-node") {
    silent_.emplace(node, now_);
    active_.insert(fmt::format("{} {}", step.verb == "cut-node" ? "cut" : "silent", node));
  } else if (step.verb == "continue-agent" || step.verb == "join-node") {
    active_.erase(fmt::format("{} {}", step.verb == "join-node" ? "cut" : "silent", node));
    EndSilence(node);
  } else if (step.verb.starts_with("buffer-") || step.verb.starts_with("partner-")) {
    const std::string server = step.verb.substr(0, step.verb.find('-'));
    const bool is_back = step.verb.ends_with("-back");
    is_back ? (void)active_.erase(server) : (void)active_.insert(server);
    is_back ? (void)buffers_away_.erase(server) : (void)buffers_away_.insert(server);
    for (auto& [key, generation] : generations_) {
      if (step.verb.ends_with("-lost")) generation.lost_on.insert(server);
    }
  } else if (step.verb == "power-cut") {
    for (auto& [key, generation] : generations_) generation.is_unsynced = true;
  } else if (step.verb == "fail-rank" || step.verb == "die-rank") {
    active_.insert("rank");
  } else if (step.verb == "store") {
    const bool good = step.Has("back") || step.Has("mended");
    if (good) {
      active_.erase("store");
      store_bad_since_ = -1;
    } else {
      active_.insert("store");
      // Requests whose connection is cut are made again.
      if (store_bad_since_ < 0 && !step.Has("cut")) store_bad_since_ = now_;
    }
  } else if (step.verb == "lose-node" || step.verb == "die-node" || step.verb == "delete-pool") {
    if (step.verb == "die-node") active_.insert("rank");
    if (step.verb == "delete-pool") unnoticed_.insert_or_assign(node, now_);
    for (auto& [key, generation] : generations_) {
      generation.lost_since_capture.insert(node);
      generation.lost_since_node.insert(node);
    }
  } else if (step.verb == "flip") {
    const bool in_store = step.Has("store");
    for (auto& [key, generation] : generations_) {
      if (step.Has("parity")) {
        generation.lost_since_node.insert(static_cast<int>(step.Number(1)));
      } else if (!in_store && key.version == step.Number(2)) {
        generation.flipped_local = true;
        generation.builds_on_flipped = false;
        generation.lost_since_node.insert(static_cast<int>(step.Number(1)));
      } else if (in_store && key.version == step.Number(1)) {
        generation.flipped_store = true;
      }
    }
    if (setup_.Tracks() && !in_store && !step.Has("parity")) FlipWhatBuildsOnIt(static_cast<int>(step.Number(1)));
  }
}

// Images hold what has not changed since those before them: a bit of an older version's bytes flips in all of these.
void Promises::FlipWhatBuildsOnIt(int node) {
  for (bool has_spread = true; has_spread;) {
    has_spread = false;
    for (auto& [key, generation] : generations_) {
      const Generation* const before = TakenBefore(key);
      if (generation.flipped_local || before == nullptr || !before->flipped_local) continue;
      generation.flipped_local = generation.builds_on_flipped = has_spread = true;
      generation.lost_since_node.insert(node);
    }
  }
}

void Promises::Launched(int launch, const std::vector<int>& places, const std::vector<Answer>& answers, bool holder_lives,
                        bool rival) {
  if (!AllCame("launch", answers)) return;
  const bool began = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
  if (began && holder_lives) {
    return Break("live-job-taken-over", fmt::format("launch {} has got the job while the launch before it lives{}", launch,
                                                    rival ? ", in another PID namespace" : ""));
  }
  if (!began) {
    const auto failed = std::find_if(answers.begin(), answers.end(), [](const Answer& answer) { return !answer.ok(); });
    // One that began without the store has no lease there that could run out.
    const bool is_held = failed->code == KEDGE_ERROR_BUSY && !lives_.empty() && lives_.rbegin()->second.may_be_unrecorded;
    if (!holder_lives && Quiet() && !is_held) Break("launch-failed", fmt::format("launch {}: {}", launch, Said(*failed)));
    return;
  }
  for (auto& [number, life] : lives_) {
    const bool is_known = std::ranges::any_of(
        places, [&](int node) { return std::find(life.places.begin(), life.places.end(), node) != life.places.end(); });
    if (!life.superseded && life.may_be_unrecorded && !is_known) life.stands_beside = true;
    life.superseded = true;
  }
  lives_[launch].places = places;
  lives_[launch].launched_at = now_;
  lives_[launch].may_be_unrecorded = store_bad_since_ >= 0;
}

bool Promises::MayWaitForDrain() const {
  return std::ranges::any_of(lives_, [](const auto& life) { return life.second.stands_beside && life.second.takings_begun > 0; });
}

bool Promises::IsTurn(const char* key, int turn) const {
  const int64_t every = setup_.Number(key, 1);
  return every > 0 && turn % every == 0;
}

void Promises::Schedule(int turn, Generation* generation) const {
  const bool has_agents = setup_.Key("job.mode", "async") != "sync";
  generation->is_protected_in_turn = has_agents && setup_.Protects() && IsTurn("schedule.node", turn);
  if (!has_agents || IsTurn("schedule.store", turn)) {
    generation->scheduled = KEDGE_LEVEL_STORE;
  } else {
    generation->scheduled = generation->is_protected_in_turn ? KEDGE_LEVEL_NODE : KEDGE_LEVEL_LOCAL;
  }
}

void Promises::ReachedAll(Generation* generation) {
  // A buffer that lies before the store goes on by itself.
  const kedge_level reached = setup_.drains ? std::min(generation->scheduled, KEDGE_LEVEL_BUFFER) : generation->scheduled;
  generation->acknowledged = std::max(generation->acknowledged, reached);
  generation->was_at_node = generation->was_at_node || generation->is_protected_in_turn;
}

void Promises::CaptureEnded(int launch, int rank) {
  for (auto& [key, generation] : generations_) {
    if (key.launch == launch && QuietSince(generation.touched_at) && unnoticed_.empty()) generation.started.erase(rank);
  }
}

void Promises::CapturesEnded(int launch, const std::vector<Answer>& answers) {
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].ok()) CaptureEnded(launch, static_cast<int>(rank));
  }
}

void Promises::Captured(int launch, const std::vector<int>& ranks, const std::vector<int>& takings, const CheckpointCall& call,
                        const std::vector<Answer>& answers) {
  if (!AllCame(fmt::format("checkpoint {}", call.version), answers)) return;
  Life& life = lives_[launch];
  const bool was_quiet = Quiet();
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (answers[i].ok()) CaptureEnded(launch, ranks[i]);
    const Key key{call.version, launch, takings[i]};
    const bool is_first = !generations_.contains(key);
    Generation& generation = generations_[key];
    if (is_first) {
      // What has not changed, and the checksums, come from the one before.
      const Generation* const before = TakenBefore(key);
      generation.flipped_local = generation.builds_on_flipped = setup_.Tracks() && before != nullptr && before->flipped_local;
      generation.places = life.places;
      Schedule(life.takings_begun++, &generation);
      generation.lost_since_capture = generation.lost_since_node = UnnoticedSince(0);
    }
    if (!call.abandon) generation.may_have.insert(ranks[i]);
    generation.touched_at = now_;
    generation.is_partial = call.some;
    if (answers[i].ok() && !call.abandon) {
      generation.captured.insert(ranks[i]);
      if (setup_.CopiesLater() && call.IsWhole()) generation.started.insert(ranks[i]);
      generation.is_void = generation.is_void || (life.superseded && !life.stands_beside);
      life.began = true;
    }
    if (generation.captured.size() == generation.places.size() && generation.captured_at < 0) generation.captured_at = now_;
    generation.may_be_in_store_only = generation.may_be_in_store_only || !Quiet() || last_fault_ >= 0;
    // A pool that is found to be gone takes the checkpoint under way with it. A launch that began without the store writes there
    // itself, without an agent, only once the store has been told of it: some seconds after it is back.
    const bool is_refused_for_now = life.may_be_unrecorded && answers[i].code == KEDGE_ERROR_UNAVAILABLE;
    if (!answers[i].ok() && !answers[i].died && was_quiet && unnoticed_.empty() && !life.superseded && !is_refused_for_now &&
        answers[i].code != KEDGE_ERROR_ALREADY_EXISTS) {
      Break("checkpoint-failed",
            fmt::format("rank {} takes version {}, nothing is broken: {}", ranks[i], call.version, Said(answers[i])));
    }
  }
}

const Promises::Generation* Promises::TakenBefore(const Key& key) const {
  const Generation* before = nullptr;
  const int touched_at = generations_.at(key).touched_at;  // -1: now
  for (const auto& [other, generation] : generations_) {
    if (other.launch != key.launch || !(other < key || key < other)) continue;
    if (touched_at >= 0 && generation.touched_at >= touched_at) continue;
    if (before == nullptr || generation.touched_at > before->touched_at) before = &generation;
  }
  return before;
}

bool Promises::MayBeWhole(const Generation& generation) const {
  return generation.may_have.size() == generation.places.size();
}

bool Promises::GoesTo(kedge_level level, const Generation& generation) const {
  if (level == KEDGE_LEVEL_LAST) return true;
  if (level == KEDGE_LEVEL_NODE) return setup_.Protects() && setup_.Number("schedule.node", 1) == 1;
  return generation.scheduled >= level;
}

bool Promises::IsBelowAnother(const Key& key) const {
  return std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    return entry.first.version > key.version && MayBeWhole(entry.second) && InChainOf(entry.first, key.launch, true);
  });
}

Promises::Generation* Promises::FindLast(int launch, int64_t version, Key* key) {
  Generation* found = nullptr;
  for (auto& [candidate, generation] : generations_) {
    if (candidate.launch != launch || candidate.version != version) continue;
    found = &generation;
    *key = candidate;
  }
  const Life& life = lives_[launch];
  if (found == nullptr && life.base && life.base->version == version) {
    *key = *life.base;
    found = &generations_[*life.base];
  }
  return found;
}

void Promises::Waited(int launch, int64_t version, kedge_level level, const std::vector<Answer>& answers) {
  const std::string call = fmt::format("wait {} {}", version, LevelName(level));
  if (!AllCame(call, answers)) return;
  Key key;
  Generation* generation = FindLast(launch, version, &key);
  if (generation == nullptr) return;
  Life& life = lives_[launch];
  // Where no rank has captured it, another launch's version of that number may have been meant.
  if (generation->captured.empty()) return;
  const kedge_level meant = level == KEDGE_LEVEL_LAST ? generation->scheduled : level;
  const bool is_owed = GoesTo(level, *generation);
  const auto said_no = std::find_if(answers.begin(), answers.end(), [](const Answer& answer) { return !answer.ok(); });
  // A wait of the worlds takes longer than protect.timeout: it runs out, or hears that the nodes have given up.
  const bool is_over = std::any_of(answers.begin(), answers.end(), [](const Answer& answer) {
    return answer.code == KEDGE_ERROR_TIMEOUT || answer.code == KEDGE_ERROR_UNAVAILABLE;
  });
  generation->may_be_given_up = generation->may_be_given_up || (!WasTaken(*generation) && is_over);
  const bool is_given_up = meant == KEDGE_LEVEL_NODE && generation->may_be_given_up;
  // A pool that was deleted before may be noticed with it.
  const bool is_quiet = UnharmedSince(generation->captured_at) && generation->lost_since_capture.empty();
  if (said_no != answers.end() && WasTaken(*generation) && is_quiet && is_owed && !generation->builds_on_flipped &&
      !is_given_up && !life.superseded && key.launch == launch && !IsBelowAnother(key)) {
    return Break("level-never-reached", fmt::format("rank {}, {}, nothing is broken and all ranks have captured {}: {}",
                                                    said_no - answers.begin(), call, Name(key), Said(*said_no)));
  }
  const auto said_ok = std::find_if(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
  if (said_ok == answers.end()) return;
  if (!WasTaken(*generation)) {
    return Break("level-without-all-ranks",
                 fmt::format("rank {} hears OK for {} of {}, which {} of {} ranks have captured", said_ok - answers.begin(), call,
                             Name(key), generation->captured.size(), generation->places.size()));
  }
  if (meant >= KEDGE_LEVEL_STORE && store_bad_since_ >= 0 && generation->captured_at > store_bad_since_) {
    return Break("store-level-without-store", fmt::format("{} says OK; the store is away or broken since before {} was "
                                                          "captured",
                                                          call, Name(key)));
  }
  if (meant >= KEDGE_LEVEL_STORE && life.superseded && (generation->is_void || !MayComeBack(key, *generation))) {
    return Break("superseded-reported-safe",
                 fmt::format("{} of launch {} says OK for {}; another launch has taken the job over", call, launch, Name(key)));
  }
  generation->acknowledged = std::max(generation->acknowledged, meant);
  generation->started.clear();
  // What went to the store was right on the nodes.
  if (meant >= KEDGE_LEVEL_STORE && generation->builds_on_flipped)
    generation->flipped_local = generation->builds_on_flipped = false;
  // What is in the store is at every level.
  if (meant == KEDGE_LEVEL_NODE && generation->scheduled < KEDGE_LEVEL_STORE) {
    generation->was_at_node = true;
    generation->lost_since_node = UnnoticedSince(generation->captured_at);
  }
  life.committed = life.committed || (key.launch == launch && !life.superseded);
}

void Promises::Tested(int launch, int64_t version, const std::vector<Answer>& answers) {
  if (!AllCame(fmt::format("test {}", version), answers)) return;
  for (const Answer& answer : answers) {
    if (answer.ok() && answer.version >= KEDGE_LEVEL_LOCAL)
      Waited(launch, version, static_cast<kedge_level>(answer.version), {answer});
  }
}

// What a restart would be held to; which version it is in the end, a bad copy of it may decide.
void Promises::SaidNewest(int launch, int64_t at_most, const std::vector<Answer>& answers) {
  if (!AllCame("newest", answers)) return;
  CapturesEnded(launch, answers);
  const Life& life = lives_[launch];
  const auto must = MustComeBack(at_most, life.places);
  for (const Answer& answer : answers) {
    if (answer.died || life.superseded) return;
    if (answer.ok() && at_most >= 0 && answer.version > at_most) {
      return Break("newer-than-asked", fmt::format("at most {} was asked for, the newest is {}", at_most, answer.version));
    }
    const bool says_none = answer.code == KEDGE_ERROR_NOT_FOUND || answer.code == KEDGE_ERROR_LOST;
    if (must && (says_none || (answer.ok() && answer.version < must->version))) {
      return Break("acknowledged-lost", fmt::format("launch {} asks for the newest: {}, version {}; {} is there", launch,
                                                    Said(answer), answer.version, Name(*must)));
    }
    if (!must && answer.code == KEDGE_ERROR_NOT_FOUND && IsRemembered(at_most, life.places)) {
      return Break("lost-said-not-found",
                   fmt::format("launch {} asks for the newest and hears that there was no version: {}", launch, Said(answer)));
    }
    if (!answer.ok()) CheckWhyNone("asks for the newest", launch, answer);
  }
}

// There is none to restore, as far as is promised.
void Promises::CheckWhyNone(const char* call, int launch, const Answer& answer) {
  const bool was_any =
      std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) { return MayBeWhole(entry.second); });
  if (answer.code == KEDGE_ERROR_LOST && !was_any) {
    return Break("never-was-said-lost",
                 fmt::format("launch {} {}: {}; no version was ever taken by all ranks", launch, call, Said(answer)));
  }
  const bool says_none = answer.code == KEDGE_ERROR_NOT_FOUND || answer.code == KEDGE_ERROR_LOST;
  if (!says_none && last_fault_ < 0)
    Break("restart-failed", fmt::format("launch {} {}, nothing was ever broken: {}", launch, call, Said(answer)));
}

void Promises::NothingPending(int launch) {
  Key key;
  Generation* generation = FindLast(launch, NewestOf(launch), &key);
  if (generation == nullptr || !WasWhole(*generation) || generation->scheduled < KEDGE_LEVEL_STORE) return;
  if (setup_.HasLargeImages()) return;  // ranks write to the store themselves where their slots do not do
  for (const auto& [node, since] : silent_) {
    const auto& places = generation->places;
    if (std::find(places.begin(), places.end(), node) == places.end() || generation->captured_at <= since) continue;
    // So they do where their agent has stood still since before it gave them any.
    const bool had_slots = std::any_of(generations_.begin(), generations_.end(), [launch, since = since](const auto& entry) {
      return entry.first.launch == launch && !entry.second.captured.empty() && entry.second.touched_at <= since;
    });
    if (!had_slots) continue;
    return Break(
        "pending-says-done",
        fmt::format("kedge_pending says OK on all ranks; the agent of node {} has stood still since before {} was captured", node,
                    Name(key)));
  }
  // Its flush may also have failed, or another launch's version stand in its place.
  if (QuietSince(generation->captured_at) && !lives_[launch].superseded && !IsBelowAnother(key)) ReachedAll(generation);
}

int64_t Promises::NewestOf(int launch) const {
  int64_t newest = -1;
  for (const auto& [key, generation] : generations_) {
    if (key.launch == launch && !generation.captured.empty()) newest = std::max(newest, key.version);
  }
  return newest;
}

int Promises::LastBegun() const {
  int last = 0;
  for (const auto& [launch, life] : lives_) {
    if (life.began) last = launch;
  }
  return last;
}

// Whether the generation is what `launch` has gone on from, or has taken itself. `otherwise`: where a launch on the way began
// without a restart, so that nobody can say.
bool Promises::InChainOf(const Key& key, int launch, bool otherwise) const {
  std::optional<Key> limit;
  // Two launches that stand beside each other may have restored a version of each other's.
  std::set<int> passed;
  while (launch > 0 && passed.insert(launch).second) {
    if (key.launch == launch) return !limit || key <= *limit;
    const Life& life = lives_.at(launch);
    if (!life.base) return otherwise;
    limit = life.base;
    launch = limit->launch;
  }
  return otherwise;
}

bool Promises::MayComeBack(const Key& key, const Generation& generation) const {
  if (generation.is_void) return false;
  if (lives_.at(key.launch).stands_beside) return true;
  const int committed = LastCommitted();
  return key.launch >= committed || InChainOf(key, committed, true) || InChainOf(key, LastBegun(), true);
}

int Promises::LastCommitted() const {
  int committed = 0;
  for (const auto& [launch, life] : lives_) {
    if (life.committed) committed = launch;
  }
  return committed;
}

bool Promises::AnyKnowsOfLast(const std::vector<int>& places) const {
  const int committed = LastCommitted();
  return std::ranges::any_of(generations_, [&](const auto& entry) {
    const auto& [key, generation] = entry;
    return key.launch == committed && std::ranges::any_of(generation.places, [&](int node) {
             return !generation.lost_since_capture.contains(node) && !Unavailable(node, places);
           });
  });
}

bool Promises::Unavailable(int node, const std::vector<int>& places) const {
  return silent_.contains(node) || std::find(places.begin(), places.end(), node) == places.end();
}

bool Promises::HasLocalCopies(const Generation& generation, const std::vector<int>& places) const {
  // What the store has need not be on the nodes, too: ranks without an agent write there alone, and copies make room.
  const bool is_kept_here =
      setup_.Key("job.mode", "async") != "sync" && !setup_.HasSmallPools() && !generation.may_be_in_store_only;
  const bool has_some = is_kept_here || (!generation.flipped_store && store_bad_since_ < 0);
  return has_some && !generation.flipped_local && !generation.is_unsynced && IsAskedThere(generation.places, places) &&
         std::none_of(generation.places.begin(), generation.places.end(),
                      [&](int node) { return generation.lost_since_capture.contains(node) || Unavailable(node, places); });
}

// What the store has makes room on the nodes where there is little of it, and its level NODE goes with it. What ranks without an
// agent took is there alone, and at level NODE by that.
bool Promises::IsGoneWithStore(const Generation& generation) const {
  const bool may_be_there_alone =
      (setup_.HasSmallPools() && generation.scheduled >= KEDGE_LEVEL_STORE) || generation.may_be_in_store_only;
  return may_be_there_alone && (store_bad_since_ >= 0 || generation.flipped_store);
}

bool Promises::Survives(const Key& key, const Generation& generation, int64_t at_most, const std::vector<int>& places) const {
  if (!WasWhole(generation) || generation.is_void) return false;
  // Later ones may have taken its place: in the store after `keep` of them, on the nodes after the first. Where a rank died or
  // failed in the call, nobody can tell whether it was one.
  int later_not_its_successors = 0;
  bool is_replaced_here = false, may_be_replaced_for_nothing = false;
  for (const auto& [other, candidate] : generations_) {
    if (!MayBeWhole(candidate) || candidate.touched_at <= generation.captured_at) continue;
    const bool is_asked_for = at_most < 0 || other.version <= at_most;
    const bool in_chain = InChainOf(other, LastBegun(), false) && is_asked_for && other > key;
    if (!in_chain || !WasWhole(candidate) || candidate.flipped_store || candidate.is_void) ++later_not_its_successors;
    const bool may_come_itself = is_asked_for && HasLocalCopies(candidate, places);
    is_replaced_here = is_replaced_here || WasWhole(candidate) || !may_come_itself;
    may_be_replaced_for_nothing =
        may_be_replaced_for_nothing || candidate.flipped_local || !in_chain || IsGoneWithStore(candidate);
  }
  // On one that is there, and had not lost it.
  std::set<std::string> without = generation.lost_on;
  without.insert(buffers_away_.begin(), buffers_away_.end());
  const bool is_on_buffer = generation.acknowledged == KEDGE_LEVEL_BUFFER && without.size() < (setup_.partner ? 2 : 1);
  if ((generation.acknowledged >= KEDGE_LEVEL_STORE || is_on_buffer) && store_bad_since_ < 0 && !generation.flipped_store &&
      later_not_its_successors < setup_.Number("keep.versions", 2)) {
    return true;
  }
  if (generation.was_at_node && !may_be_replaced_for_nothing && !IsGoneWithStore(generation)) {
    std::set<int> missing = generation.lost_since_node;
    for (const int node : generation.places) {
      if (Unavailable(node, places)) missing.insert(node);
    }
    if (static_cast<int>(missing.size()) <= setup_.LossesSurvived()) return true;
  }
  return !is_replaced_here && HasLocalCopies(generation, places);
}

std::optional<Promises::Key> Promises::MustComeBack(int64_t at_most, const std::vector<int>& places) const {
  for (auto entry = generations_.rbegin(); entry != generations_.rend(); ++entry) {
    const auto& [key, generation] = *entry;
    if (at_most >= 0 && key.version > at_most) continue;
    if (!InChainOf(key, LastBegun(), false)) continue;
    if (Survives(key, generation, at_most, places)) return key;
  }
  return std::nullopt;
}

// Whether somebody is left who knows that there was a version: the store, or a node that had a part of it.
bool Promises::IsRemembered(int64_t at_most, const std::vector<int>& places) const {
  if (at_most >= 0) return false;
  return std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    const Generation& generation = entry.second;
    if (!WasWhole(generation) || generation.is_void) return false;
    if (generation.acknowledged >= KEDGE_LEVEL_STORE) return true;
    // On other nodes than it was taken on, and without a scheme, nobody asks for it.
    const bool is_asked_for = setup_.Protects() || IsAskedThere(generation.places, places);
    return generation.acknowledged >= (setup_.Protects() ? KEDGE_LEVEL_NODE : KEDGE_LEVEL_LOCAL) && is_asked_for &&
           std::any_of(generation.places.begin(), generation.places.end(),
                       [&](int node) { return !generation.lost_since_capture.contains(node) && !Unavailable(node, places); });
  });
}

void Promises::Foretold(const Answer& answer) {
  if (!AllCame("look", {answer})) return;
  if (!answer.ok() && Quiet())
    return Break("look-failed", fmt::format("kedge rebuild --look, nothing is broken: {}", Said(answer)));
  if (!answer.ok()) return;
  foretold_at_ = now_;
  foretold_ = answer.version;
}

// A copy that is bad, or a pool that nobody has missed yet, makes an older one come back.
void Promises::CompareWithForetold(const Answer& answer, const std::vector<int>& places) {
  const bool says_none = answer.code == KEDGE_ERROR_NOT_FOUND || answer.code == KEDGE_ERROR_LOST;
  const bool any_is_bad = std::any_of(generations_.begin(), generations_.end(),
                                      [](const auto& entry) { return entry.second.flipped_local || entry.second.flipped_store; });
  if (foretold_at_ + 1 != now_ || !Quiet() || !unnoticed_.empty() || any_is_bad || !(answer.ok() || says_none)) return;
  const int64_t version = answer.ok() ? answer.version : -1;
  if (version == foretold_) return;
  // Flushes go on meanwhile: of what lies on other nodes than its ranks', a launch has what the store has by then.
  const bool may_have_come = std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    return entry.first.version == version && version > foretold_ && entry.second.places != places;
  });
  if (may_have_come && !setup_.Protects()) return;
  Break("foretold-otherwise", fmt::format("kedge rebuild --look says that a launch goes on from {}, and {} comes back: {}",
                                          foretold_, version, Said(answer)));
}

std::optional<Promises::Key> Promises::WhatCameBack(const std::vector<Answer>& answers) {
  std::optional<Key> back;
  const auto broken = [&](const char* kind, const std::string& sentence) -> std::optional<Key> {
    Break(kind, sentence);
    return std::nullopt;
  };
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    const Answer& answer = answers[rank];
    if (!answer.ok()) return broken("ranks-disagree", fmt::format("rank {} fails where others restart: {}", rank, Said(answer)));
    if (!answer.content || answer.content->version != answer.version || answer.content->rank != static_cast<int>(rank)) {
      return broken("wrong-bytes", fmt::format("rank {} restores version {}, and its memory is not that: {}", rank,
                                               answer.version, answer.message));
    }
    const Key key{answer.version, answer.content->launch, answer.content->taking};
    if (back && key != *back) {
      return broken("mixed-generations", fmt::format("rank 0 restores {}, rank {} restores {}", Name(*back), rank, Name(key)));
    }
    back = key;
  }
  const auto found = generations_.find(*back);
  if (found == generations_.end() || !MayBeWhole(found->second)) {
    return broken("never-whole", fmt::format("restored is {}, which not all ranks have captured", Name(*back)));
  }
  for (const Answer& answer : answers) {
    if (answer.partial == found->second.is_partial) continue;
    return broken("wrong-regions", fmt::format("{} is of {} regions, restored are {}", Name(*back),
                                               found->second.is_partial ? "some" : "all", answer.partial ? "some" : "all"));
  }
  return back;
}

void Promises::Read(int launch, int64_t version, const std::vector<Answer>& answers) {
  if (!AllCame(fmt::format("read {}", version), answers)) return;
  if (std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); })) {
    (void)WhatCameBack(answers);
    return;
  }
  const Life& life = lives_[launch];
  const bool any_died = std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.died; });
  const auto must = MustComeBack(version, life.places);
  if (!any_died && !life.superseded && Quiet() && must && must->version == version) {
    Break("read-failed",
          fmt::format("launch {} reads version {}, which is there as {}: {}", launch, version, Name(*must), Said(answers[0])));
  }
}

void Promises::Restarted(int launch, int64_t at_most, bool in_parts, const std::vector<Answer>& answers) {
  if (!AllCame("restart", answers)) return;
  CapturesEnded(launch, answers);
  Life& life = lives_[launch];
  if (at_most < 0 && !life.superseded && !answers[0].died) CompareWithForetold(answers[0], life.places);
  const bool any_ok = std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
  if (life.superseded && any_ok && Quiet()) {
    return Break("superseded-restarts", fmt::format("launch {} restarts; another launch has taken the job over", launch));
  }
  if (life.superseded) return;
  if (std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.died; })) return;
  const auto must = MustComeBack(at_most, life.places);
  if (!any_ok) {
    const Answer& answer = answers[0];
    // Of nodes that do not answer nobody can say what they hold; the next restart can.
    if (answer.code == KEDGE_ERROR_UNAVAILABLE && !silent_.empty()) return;
    // One that begins at a version goes back to no older one.
    const bool says_none = answer.code == KEDGE_ERROR_NOT_FOUND || answer.code == KEDGE_ERROR_LOST;
    if (in_parts && !says_none && last_fault_ >= 0) return;
    if (must) {
      return Break("acknowledged-lost", fmt::format("launch {} restarts: {}; {} was acknowledged at level {} and nothing that "
                                                    "this does not cover has happened",
                                                    launch, Said(answer), Name(*must),
                                                    LevelName(std::max(KEDGE_LEVEL_LOCAL, generations_[*must].acknowledged))));
    }
    if (answer.code == KEDGE_ERROR_NOT_FOUND && IsRemembered(at_most, life.places)) {
      return Break("lost-said-not-found",
                   fmt::format("launch {} restarts and hears that there was no version: {}", launch, Said(answer)));
    }
    CheckWhyNone("restarts", launch, answer);
    if (answer.code == KEDGE_ERROR_NOT_FOUND) life.began = true;
    return;
  }
  const std::optional<Key> back = WhatCameBack(answers);
  if (!back) return;
  const auto found = generations_.find(*back);
  if (at_most >= 0 && back->version > at_most)
    return Break("newer-than-asked", fmt::format("at most {} was asked for, restored is {}", at_most, Name(*back)));
  // That the job went on from an older one elsewhere, the store alone knows.
  const bool is_told = store_bad_since_ < 0 || AnyKnowsOfLast(life.places);
  if (is_told && !MayComeBack(*back, found->second)) {
    return Break("abandoned-came-back", fmt::format("restored is {}, which the job has abandoned{}", Name(*back),
                                                    must ? "; its newest is " + Name(*must) : std::string()));
  }
  if (must && *back < *must && !lives_.at(back->launch).stands_beside) {
    return Break(
        "acknowledged-lost",
        fmt::format("launch {} restores {}; {} was acknowledged at level {}, and nothing that this does not cover has "
                    "happened",
                    launch, Name(*back), Name(*must), LevelName(std::max(KEDGE_LEVEL_LOCAL, generations_[*must].acknowledged))));
  }
  // Ranks that died in the call that took it had handed it over.
  if (!WasWhole(found->second)) {
    found->second.captured = found->second.may_have;
    found->second.captured_at = found->second.touched_at;
    found->second.started.clear();
  }
  life.base = back;
  life.began = true;
}

void Promises::Ended(int launch, bool drain, const std::vector<Answer>& answers) {
  if (!AllCame("finalize", answers)) return;
  CapturesEnded(launch, answers);
  if (!drain) return;
  Life& life = lives_[launch];
  const bool all_ok = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.ok(); });
  for (auto& [key, generation] : generations_) {
    Key last;
    if (key.launch != launch || !WasTaken(generation) || FindLast(launch, key.version, &last) != &generation) continue;
    if (!all_ok || life.superseded) continue;
    generation.started.clear();
    if (generation.scheduled >= KEDGE_LEVEL_STORE && store_bad_since_ >= 0 && generation.captured_at > store_bad_since_) {
      return Break(
          "store-level-without-store",
          fmt::format("finalize with drain says OK; the store is away or broken since before {} was captured", Name(key)));
    }
    // Flushes of those before it may have been left out for it.
    const bool may_be_skipped = setup_.Key("checkpoint.skip_queued", "false") == "true" && key.version < NewestOf(launch);
    if (!may_be_skipped) ReachedAll(&generation);
    life.committed = true;
  }
  // What only some ranks have taken gets nowhere, and nodes give up what others take much later; who ends hears that.
  const bool all_in_time = std::all_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    return entry.first.launch != launch || (WasTaken(entry.second) && !entry.second.may_be_given_up);
  });
  // Nodes flush what earlier launches left them, too: of copies that were damaged before this launch, who ends hears as well.
  const bool is_left_damaged = std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    return entry.first.launch < launch && entry.second.flipped_local && entry.second.acknowledged < KEDGE_LEVEL_STORE;
  });
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (is_left_damaged && answers[rank].code == KEDGE_ERROR_CORRUPT) continue;
    if (!answers[rank].ok() && QuietSince(life.launched_at) && !life.superseded && all_in_time)
      Break("finalize-failed", fmt::format("rank {} ends, nothing was broken since its launch: {}", rank, Said(answers[rank])));
  }
}

void Promises::LeftOver(const std::vector<std::string>& what) {
  for (const std::string& one : what) Break("left-over", one);
}

}  // namespace kedge::histories

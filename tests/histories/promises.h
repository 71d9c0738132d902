// The checker. It knows what was promised (kedge.h, docs/failures.md), and of a history only what an application sees and
// what a test does to it; nothing of how Kedge works.
//
// - What all ranks have captured survives every loss of processes (LOCAL); what was said to be at level NODE the loss of as
//   many nodes as the scheme survives; at level STORE everything but the store.
// - What comes back is one generation, that is one taking of one version in one launch, on all ranks and bit for bit; one
//   that all ranks have captured; of the job's lineage; and none older than the newest that a promise covers.
// - Lineage: a launch that goes on from a version has abandoned what is above it. That is certain as soon as a version of
//   the new launch was acknowledged; before that, either is right.
// - What was acknowledged and is lost is never said not to have been.
// - Where ranks go on while their memory is captured (capture.mode = cow), all of this holds from when they have heard that it
//   was; before that, the version comes back as the memory was at the call, or not at all.
// - Calls end; what they say is true; where nothing is broken, they succeed.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/histories/history.h"
#include "tests/histories/world.h"

namespace kedge::histories {

struct Violation {
  std::string kind;  // one word with dashes: what a shrunken history must break, too
  std::string sentence;
};

class Promises {
 public:
  // `ignored`: kinds of violation that are passed over.
  Promises(const Setup& setup, std::set<std::string> ignored) : setup_(setup), ignored_(std::move(ignored)) {}

  // The history goes on by a step.
  void NextStep() { ++now_; }
  // Nothing is broken from here on, until the next fault.
  void FaultsEnd();
  // The agents have had the time to see what has happened.
  void Settled() { unnoticed_.clear(); }
  // What a step breaks or mends.
  void Fault(const Step& step);
  // A rank that was to fail or to die has done so in its last call, or does not any more.
  void RanksMended();

  void Launched(int launch, const std::vector<int>& places, const std::vector<Answer>& answers, bool holder_lives, bool rival);
  void Captured(int launch, const std::vector<int>& ranks, const std::vector<int>& takings, const CheckpointCall& call,
                const std::vector<Answer>& answers);
  void Waited(int launch, int64_t version, kedge_level level, const std::vector<Answer>& answers);
  // As Waited for the level that a rank hears, where it hears one.
  void Tested(int launch, int64_t version, const std::vector<Answer>& answers);
  void SaidNewest(int launch, int64_t at_most, const std::vector<Answer>& answers);
  // A tool said what a restart brings back, which holds for the next step.
  void Foretold(const Answer& answer);
  // All ranks said that nothing is pending.
  void NothingPending(int launch);
  void Restarted(int launch, int64_t at_most, bool in_parts, const std::vector<Answer>& answers);
  void Read(int launch, int64_t version, const std::vector<Answer>& answers);
  void Ended(int launch, bool drain, const std::vector<Answer>& answers);
  void LeftOver(const std::vector<std::string>& what);

  // The first promise that was broken.
  const std::optional<Violation>& violation() const { return violation_; }
  // The version that a launch captured last, by any rank; -1: none.
  int64_t NewestOf(int launch) const;
  // The greatest version that any launch has captured; -1: none.
  int64_t NewestOfAll() const { return generations_.empty() ? -1 : generations_.rbegin()->first.version; }
  // Whether agents may hold what an attempt has taken that the store never heard of: it waits there for `kedge drain`.
  bool MayWaitForDrain() const;

 private:
  // By version first: that is what "newest" means to an application.
  struct Key {
    int64_t version = 0;
    int launch = 0;
    int taking = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Generation {
    std::set<int> captured;   // ranks
    std::set<int> may_have;   // and those that died or failed in the call: what they had handed over counts
    std::set<int> started;    // of the captured ones: while their process lives, as far as was said (capture.mode = cow)
    int captured_at = -1;     // the step by which all had
    int touched_at = -1;      // the last step that took any of it
    std::vector<int> places;  // of its ranks
    kedge_level acknowledged = KEDGE_LEVEL_NONE;
    std::set<std::string> lost_on;  // these lost their files since, which may not have been drained: buffer, partner
    kedge_level scheduled = KEDGE_LEVEL_LOCAL;
    bool is_protected_in_turn = false;  // level NODE is scheduled for it, perhaps beside STORE
    bool was_at_node = false;           // acknowledged at NODE: STORE alone says nothing of it, for its turns are others
    std::set<int> lost_since_capture;   // nodes
    std::set<int> lost_since_node;
    bool flipped_local = false;
    bool builds_on_flipped = false;  // flipped_local for this reason: it was taken where only changes are (capture.track)
    bool flipped_store = false;
    bool is_unsynced = false;           // the power went since; what was not in the store may be gone
    bool is_void = false;               // taken by a launch that another had taken over from
    bool is_partial = false;            // of some regions
    bool may_be_in_store_only = false;  // ranks may have had no agent
    bool may_be_given_up = false;       // ranks waited so long for others to take it that its protection may have ended
  };
  struct Life {
    std::vector<int> places;
    std::optional<Key> base;  // what it went on from
    bool began = false;       // it has restarted, or captured
    bool committed = false;   // something of it was acknowledged
    bool superseded = false;
    int takings_begun = 0;
    int launched_at = -1;
    bool may_be_unrecorded = false;  // the store was bad at its launch
    // A launch that has taken over from it on other nodes may not have known of it: neither knows that it is to end, and which
    // one the job goes on from their numbers decide.
    bool stands_beside = false;
  };

  void Break(const std::string& kind, const std::string& sentence);
  bool AllCame(const std::string& call, const std::vector<Answer>& answers);
  void FlipWhatBuildsOnIt(int node);
  // What is in the store alone perhaps, which is away or damaged.
  bool IsGoneWithStore(const Generation& generation) const;
  // Its agent answers again, unless something else keeps it from that.
  void EndSilence(int node);
  bool Quiet() const { return active_.empty(); }
  bool QuietSince(int step) const { return active_.empty() && last_fault_ < step; }
  // Nothing is broken, and nothing was since but what flushes wait for.
  bool UnharmedSince(int step) const { return active_.empty() && last_harm_ < step; }
  bool WasTaken(const Generation& generation) const { return generation.captured_at >= 0; }
  bool WasWhole(const Generation& generation) const { return WasTaken(generation) && generation.started.empty(); }
  // A call of the rank has returned that waits until what it takes is captured. It was, if nothing was broken meanwhile.
  void CaptureEnded(int launch, int rank);
  void CapturesEnded(int launch, const std::vector<Answer>& answers);
  // Null: it is the first of its launch.
  const Generation* TakenBefore(const Key& key) const;
  bool MayBeWhole(const Generation& generation) const;
  // Whether it was taken where a greater version is, which nobody has abandoned: an overwriting application goes on below it, and
  // nothing says which of them retention keeps.
  bool IsBelowAnother(const Key& key) const;
  bool GoesTo(kedge_level level, const Generation& generation) const;
  Generation* FindLast(int launch, int64_t version, Key* key);
  // Whether the launch's taking number `turn` is one for what that key schedules.
  bool IsTurn(const char* key, int turn) const;
  void Schedule(int turn, Generation* generation) const;
  // Of it the job has heard that all is done that was scheduled.
  void ReachedAll(Generation* generation);
  bool InChainOf(const Key& key, int launch, bool otherwise) const;
  bool MayComeBack(const Key& key, const Generation& generation) const;
  // Whether one of these nodes was of the launch that was last acknowledged something, and is still as it was.
  bool AnyKnowsOfLast(const std::vector<int>& places) const;
  int LastCommitted() const;
  bool HasLocalCopies(const Generation& generation, const std::vector<int>& places) const;
  bool Survives(const Key& key, const Generation& generation, int64_t at_most, const std::vector<int>& places) const;
  std::optional<Key> MustComeBack(int64_t at_most, const std::vector<int>& places) const;
  bool IsRemembered(int64_t at_most, const std::vector<int>& places) const;
  void CheckWhyNone(const char* call, int launch, const Answer& answer);
  std::set<int> UnnoticedSince(int step) const;
  void CompareWithForetold(const Answer& answer, const std::vector<int>& places);
  // The one generation that all ranks have in their memory now. Nothing: a promise is broken.
  std::optional<Key> WhatCameBack(const std::vector<Answer>& answers);
  bool Unavailable(int node, const std::vector<int>& places) const;
  int LastBegun() const;
  static std::string Name(const Key& key);

  const Setup setup_;
  const std::set<std::string> ignored_;
  int now_ = 0;
  std::set<std::string> active_;  // faults that have not ended
  int last_fault_ = -1;
  int last_harm_ = -1;  // of these, but for what ends with itself
  int store_bad_since_ = -1;
  std::set<std::string> buffers_away_;  // of those that drain: buffer, partner
  // Nodes whose pool was deleted, and at which step, until their agents have had the time to see it: what is captured there
  // meanwhile is lost, too. They look before they say that they have done their part of level NODE.
  std::map<int, int> unnoticed_;
  std::map<int, int> silent_;  // nodes whose agents are stopped or cut off, and since which step
  std::map<Key, Generation> generations_;
  std::map<int, Life> lives_;
  int foretold_at_ = -2;
  int64_t foretold_ = -1;  // -1: nothing
  std::optional<Violation> violation_;
};

}  // namespace kedge::histories

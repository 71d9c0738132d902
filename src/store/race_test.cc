// Two processes on one store: the first is stopped before each of its calls in turn, the second does all of its work,
// and the first goes on, or dies there and the power with it. The promises of both hold, at that moment and afterwards.
//
// One switch between two processes finds most ordering mistakes, and a failure names the call at which it happens.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <future>
#include <thread>

#include "base/crc32c.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/record_io.h"
#include "store/testing/promise_ledger.h"
#include "store/testing/racer.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using os::testing::Call;
using os::testing::InterposedFileSystem;
using os::testing::Interposition;
using os::testing::SimulatedFileSystem;
using testing::kRacedImages;
using testing::Ledger;
using testing::MakerOptions;
using testing::PublishRanks;
using testing::Racer;

// A racer with a store of its own over a file system.
struct Actor : Racer {
  Actor(os::FileSystem& fs, const std::string& node, Ledger* promises)
      : Actor(MakePosixStore(fs, {.path = "/store"}), node, promises) {}

  Status Take(int64_t version) {
    KEDGE_RETURN_IF_ERROR(PublishRank(version, 0));
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, PublishRanks(*catalog, At(version), 1, 1, kRacedImages));
    if (!outcome.complete) return Status(Code::kIncomplete, "the other part has gone");
    ledger->Acknowledge(At(version));
    return Status::Ok();
  }
  Status Pin(int64_t version) {
    const Status status = PinVersion(*catalog, At(version));
    if (status.ok()) ledger->Pin(At(version));
    return status;
  }
  // As though every attempt had been silent for long, also those that are not: the zombie's case.
  Status CollectAll() {
    GarbageOptions options;
    options.incomplete_age_seconds = 0;
    KEDGE_ASSIGN_OR_RETURN(const GarbageReport report, CollectGarbage(*catalog, options));
    return report.problems.empty() ? Status::Ok() : Status(Code::kInternal, report.problems.front());
  }

 private:
  Actor(std::unique_ptr<Store> its_own, const std::string& node, Ledger* promises)
      : Racer(*its_own, node, promises), own_(std::move(its_own)) {}
  std::unique_ptr<Store> own_;
};

struct Scenario {
  std::function<Status(Actor&)> before;  // by the first, undisturbed
  std::function<Status(Actor&)> first;   // interrupted; its errors may be what the second's work means for it
  std::function<Status(Actor&)> second;  // must succeed
  // What must hold at the end when the first was not killed; its status is the first's.
  std::function<void(Actor& reader, const Status& first)> after = [](Actor&, const Status&) {};
};

enum class Ending { kGoesOn, kDies, kDiesWithThePower };

// Runs the scenario with the switch before call `at` of the first. False when the first makes no such call.
bool RunOnce(const Scenario& scenario, uint64_t at, Ending ending) {
  SimulatedFileSystem fs({.seed = at});
  Ledger ledger;
  bool armed = false;
  bool switched = false;
  uint64_t calls = 0;
  Status second_status;
  const auto check = [&](os::FileSystem& seen, const char* when) {
    Actor reader(seen, "reader", &ledger);
    const Status opened = reader.Open();
    EXPECT_TRUE(opened.ok()) << when << ": " << opened.ToString();
    const Status kept = ledger.Check(*reader.catalog);
    EXPECT_TRUE(kept.ok()) << when << ": " << kept.ToString();
  };
  InterposedFileSystem interposed(fs, [&](Call, const std::string&) {
    if (!armed) return Interposition::kPass;
    if (switched) return ending == Ending::kGoesOn ? Interposition::kPass : Interposition::kDie;
    if (calls++ < at) return Interposition::kPass;
    switched = true;
    check(fs, "before the second");
    Actor second(fs, "node2", &ledger);
    second_status = second.Open();
    if (second_status.ok()) second_status = scenario.second(second);
    return ending == Ending::kGoesOn ? Interposition::kPass : Interposition::kDie;
  });
  Actor first(interposed, "node1", &ledger);
  Status first_status = first.Open();
  if (first_status.ok() && scenario.before) first_status = scenario.before(first);
  EXPECT_TRUE(first_status.ok()) << first_status.ToString();
  armed = true;
  first_status = scenario.first(first);
  if (!switched) return false;
  EXPECT_TRUE(second_status.ok()) << "the second: " << second_status.ToString();
  check(fs, "at the end");
  for (uint64_t seed = 0; ending == Ending::kDiesWithThePower && seed < 4; ++seed) {
    const std::unique_ptr<SimulatedFileSystem> crashed = fs.Clone();
    crashed->Crash(MixSeed(at, seed));
    check(*crashed, "after the power loss");
  }
  if (ending == Ending::kGoesOn) {
    Actor reader(fs, "reader", &ledger);
    EXPECT_TRUE(reader.Open().ok());
    scenario.after(reader, first_status);
  }
  return true;
}

void RunAll(const Scenario& scenario) {
  for (const Ending ending : {Ending::kGoesOn, Ending::kDies, Ending::kDiesWithThePower}) {
    uint64_t at = 0;
    for (;; ++at) {
      const char* const names[] = {"goes on", "dies", "dies with the power"};
      SCOPED_TRACE("switch before call " + std::to_string(at) + ", the first " + names[static_cast<int>(ending)]);
      if (!RunOnce(scenario, at, ending) || ::testing::Test::HasFailure()) break;
    }
    EXPECT_GT(at, 10u);
  }
}

bool IsComplete(Actor& reader, int64_t version) {
  const auto info = InspectGeneration(*reader.catalog, reader.At(version));
  return info.ok() && info->complete;
}

TEST(Race, TwoNodesPublishTheirPartsOfOneVersion) {
  Scenario scenario;
  scenario.before = [](Actor& actor) { return actor.Take(1); };
  scenario.first = [](Actor& actor) { return actor.PublishRank(2, 0); };
  scenario.second = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.PublishRank(2, 1));
    return actor.Retain(1);
  };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(IsComplete(reader, 2)) << "the last of the two sees it whole, whoever it is";
  };
  RunAll(scenario);
}

// Of one node that has all images, once more by the successor of an agent that was killed.
TEST(Race, TwoPublishTheWholeVersion) {
  Scenario scenario;
  scenario.before = [](Actor& actor) { return actor.PublishWhole(1); };
  scenario.first = [](Actor& actor) { return actor.PublishWhole(2); };
  scenario.second = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.PublishWhole(2));
    return actor.Retain(1);
  };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(IsComplete(reader, 2));
  };
  RunAll(scenario);
}

// A rank has published its image itself, and so has the node's agent that has them all.
TEST(Race, APartMeetsTheWholeVersion) {
  for (const bool part_is_first : {true, false}) {
    SCOPED_TRACE(part_is_first ? "the part is interrupted" : "the whole is interrupted");
    const auto part = [](Actor& actor) { return actor.PublishRank(1, 1); };
    const auto whole = [](Actor& actor) { return actor.PublishWhole(1); };
    Scenario scenario;
    scenario.first = [&](Actor& actor) { return part_is_first ? part(actor) : whole(actor); };
    scenario.second = [&](Actor& actor) { return part_is_first ? whole(actor) : part(actor); };
    scenario.after = [](Actor& reader, const Status& first) {
      EXPECT_TRUE(first.ok()) << first.ToString();
      EXPECT_TRUE(IsComplete(reader, 1));
      EXPECT_TRUE(FinishVersion(*reader.catalog, reader.At(1))->complete);
    };
    RunAll(scenario);
  }
}

// Before its version record is shown, or right after that, the generation goes, and a late object of it makes the folder anew.
void RemakeFolder(bool is_prepared, bool is_shown) {
  SimulatedFileSystem fs;
  Ledger ledger;
  Actor other(fs, "node2", &ledger);
  ASSERT_TRUE(other.Open().ok());
  const Generation generation = other.At(1);
  const std::string folder = "/store/" + keys::GenerationFolder(generation);
  int met = 0;
  bool is_linked = false;
  InterposedFileSystem interposed(fs, [&](Call call, const std::string& path) {
    const bool is_linking = call == Call::kLink && path.starts_with(folder + "/version");
    is_linked = is_linked || is_linking;
    const bool is_it = is_shown ? is_linked && call == Call::kFsync && path == folder : is_linking;
    if (!is_it || met > 0) return Interposition::kPass;
    ++met;
    EXPECT_TRUE(other.store.RemoveFolder(keys::GenerationFolder(generation), {}, other.owner).ok());
    const Status prepared = is_prepared ? PrepareGeneration(*other.catalog, generation) : Status::Ok();
    EXPECT_TRUE(prepared.ok()) << prepared.ToString();
    const auto late = other.store.CreateObject(keys::ImageKey(generation, 1), other.owner, 0);
    EXPECT_TRUE(late.ok() && (*late)->Commit().ok());
    return Interposition::kPass;
  });
  Actor whole(interposed, "node1", &ledger);
  ASSERT_TRUE(whole.Open().ok());
  const Status published = whole.PublishWhole(1);
  EXPECT_EQ(published.code(), Code::kNotFound) << published.ToString();
  EXPECT_EQ(met, 1);
  EXPECT_FALSE(IsComplete(other, 1));
}

TEST(Race, AWholeVersionDoesNotComeToBeInAFolderThatWasMadeAnew) {
  for (const bool is_prepared : {false, true}) {
    SCOPED_TRACE(is_prepared ? "with all its folders" : "with one folder");
    RemakeFolder(is_prepared, /*is_shown=*/false);
    RemakeFolder(is_prepared, /*is_shown=*/true);
  }
}

TEST(Race, AZombieThatHasAllImagesMeetsGarbageCollection) {
  Scenario scenario;
  scenario.first = [](Actor& actor) { return actor.PublishWhole(1); };
  scenario.second = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.PublishWhole(2, /*attempt=*/2));
    return actor.CollectAll();
  };
  scenario.after = [](Actor& reader, const Status& first) { EXPECT_EQ(IsComplete(reader, 1), first.ok()) << first.ToString(); };
  RunAll(scenario);
}

TEST(Race, ALatePublisherMeetsRetention) {
  Scenario scenario;
  scenario.before = [](Actor& actor) { return actor.PublishRank(1, 0); };
  scenario.first = [](Actor& actor) { return actor.PublishRank(1, 1); };
  scenario.second = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.Take(2));
    return actor.Retain(1);
  };
  scenario.after = [](Actor& reader, const Status&) { EXPECT_TRUE(IsComplete(reader, 2)); };
  RunAll(scenario);
}

// An attempt that was taken over, and whose generation was collected as garbage, wakes up.
TEST(Race, AZombieMeetsGarbageCollection) {
  Scenario scenario;
  scenario.first = [](Actor& actor) { return actor.Take(1); };
  scenario.second = [](Actor& actor) {
    const Generation newer = actor.At(2, 2);
    KEDGE_RETURN_IF_ERROR(testing::TakeVersion(*actor.catalog, newer, kRacedImages));
    actor.ledger->Acknowledge(newer);
    return actor.CollectAll();
  };
  scenario.after = [](Actor& reader, const Status& first) {
    // Removed under its hands, or not: either way it knows.
    EXPECT_EQ(IsComplete(reader, 1), first.ok()) << first.ToString();
  };
  RunAll(scenario);
}

TEST(Race, RetentionMeetsRetention) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    for (int64_t version = 1; version <= 3; ++version) KEDGE_RETURN_IF_ERROR(actor.Take(version));
    return Status::Ok();
  };
  scenario.first = [](Actor& actor) { return actor.Retain(1); };
  scenario.second = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.Take(4));
    return actor.Retain(1);
  };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(IsComplete(reader, 4));
  };
  RunAll(scenario);
}

TEST(Race, RetentionMeetsAPin) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    for (int64_t version = 1; version <= 2; ++version) KEDGE_RETURN_IF_ERROR(actor.Take(version));
    return Status::Ok();
  };
  scenario.first = [](Actor& actor) { return actor.Retain(1); };
  scenario.second = [](Actor& actor) {
    // Fails when it comes too late; when it says done, it holds.
    if (actor.Pin(1).ok()) actor.ledger->Require(actor.At(1));
    return Status::Ok();
  };
  RunAll(scenario);
}

TEST(Race, APinMeetsRetention) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    for (int64_t version = 1; version <= 2; ++version) KEDGE_RETURN_IF_ERROR(actor.Take(version));
    return Status::Ok();
  };
  scenario.first = [](Actor& actor) { return actor.Pin(1); };
  scenario.second = [](Actor& actor) { return actor.Retain(1); };
  scenario.after = [](Actor& reader, const Status& first) { EXPECT_EQ(first.ok(), IsComplete(reader, 1)) << first.ToString(); };
  RunAll(scenario);
}

// Each would leave the version that the other removes.
TEST(Race, RemovalMeetsRetention) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    for (int64_t version = 1; version <= 2; ++version) KEDGE_RETURN_IF_ERROR(actor.Take(version));
    actor.ledger->AllowRemoval("grid", 0);  // either of them, but not both
    return Status::Ok();
  };
  scenario.first = [](Actor& actor) { return RemoveVersion(*actor.catalog, actor.At(2), {}); };
  scenario.second = [](Actor& actor) { return ApplyRetention(*actor.catalog, "job", "grid", {1, {}}, nullptr); };
  scenario.after = [](Actor& reader, const Status&) { EXPECT_TRUE(IsComplete(reader, 1) || IsComplete(reader, 2)); };
  RunAll(scenario);
}

// Both have looked at the list before either has put its mark, and both die, the first between its mark and its look, the
// second at any call: all versions may bear a mark, and yet there is one, for readers and for whoever tidies up later.
TEST(Race, TwoRemoversDieBetweenMarkAndLook) {
  SimulatedFileSystem made;
  Ledger ledger;
  Actor maker(made, "node0", &ledger);
  ASSERT_TRUE(maker.Open().ok());
  for (int64_t version = 1; version <= 2; ++version) ASSERT_TRUE(maker.Take(version).ok());
  const auto newest = [](Actor& actor) { return NewestAtOrBelow(*actor.catalog, "job", "grid", -1); };
  int reprieved = 0;
  uint64_t calls = 0;
  for (uint64_t switch_at = 0; switch_at <= calls; ++switch_at) {
    for (uint64_t death_at = switch_at + 1; death_at <= std::max(calls, switch_at + 1); ++death_at) {
      SCOPED_TRACE("switch before call " + std::to_string(switch_at) + ", death at " + std::to_string(death_at));
      const std::unique_ptr<SimulatedFileSystem> fs = made.Clone();
      bool first_is_dead = false;
      InterposedFileSystem first_fs(*fs, [&](Call call, const std::string& path) {
        first_is_dead = first_is_dead || (call == Call::kOpen && path.ends_with("/pinned"));
        return first_is_dead ? Interposition::kDie : Interposition::kPass;
      });
      uint64_t call_number = 0;
      InterposedFileSystem second_fs(*fs, [&](Call, const std::string&) {
        if (call_number++ == switch_at) {
          Actor first(first_fs, "node1", &ledger);
          EXPECT_TRUE(first.Open().ok());
          static_cast<void>(RemoveVersion(*first.catalog, first.At(2), {}));
        }
        return call_number > death_at ? Interposition::kDie : Interposition::kPass;
      });
      Actor second(second_fs, "node2", &ledger);
      static_cast<void>(second.Open());
      if (second.catalog) static_cast<void>(ApplyRetention(*second.catalog, "job", "grid", {1, {}}, nullptr));
      calls = std::max(calls, call_number);

      Actor later(*fs, "node3", &ledger);
      ASSERT_TRUE(later.Open().ok());
      const auto found = newest(later);
      ASSERT_TRUE(found.ok()) << found.status().ToString();
      ASSERT_TRUE(testing::CheckVersion(*later.catalog, found->generation).ok());
      reprieved += found->reprieved ? 1 : 0;
      ASSERT_TRUE(later.Retain(1).ok());
      ASSERT_TRUE(later.CollectAll().ok());
      static_cast<void>(RemoveVersion(*later.catalog, found->generation, {}));
      const auto kept = newest(later);
      ASSERT_TRUE(kept.ok()) << "tidied away: " << kept.status().ToString();
      ASSERT_TRUE(testing::CheckVersion(*later.catalog, kept->generation).ok());
      ASSERT_TRUE(later.Take(3).ok());
      ASSERT_TRUE(later.Retain(1).ok());
      const auto versions = ListVersions(*later.catalog, "job", "grid");
      ASSERT_TRUE(versions.ok());
      ASSERT_EQ(versions->size(), 1u) << "marked ones go once another stands";
      EXPECT_EQ(versions->front().generation.version, 3);
    }
  }
  EXPECT_GT(reprieved, 0) << "it never came to that";
}

// A remover has looked, and is slow; another has marked the version that the first counts on. Whoever tidies up meanwhile,
// and whoever else wants to remove it, must count on neither.
TEST(Race, ARemoverThatHasLookedMeetsOthers) {
  for (const int64_t removed : {1, 2}) {
    SCOPED_TRACE("the slow one removes version " + std::to_string(removed));
    SimulatedFileSystem fs;
    Ledger ledger;
    Actor maker(fs, "node0", &ledger);
    ASSERT_TRUE(maker.Open().ok());
    for (int64_t version = 1; version <= 2; ++version) ASSERT_TRUE(maker.Take(version).ok());
    const std::string removed_path = "/store/" + keys::GenerationFolder(maker.At(removed));
    const Generation other = maker.At(3 - removed);
    int met = 0;
    InterposedFileSystem slow_fs(fs, [&](Call call, const std::string& path) {
      if (call != Call::kRename || path != removed_path) return Interposition::kPass;
      ++met;
      EXPECT_TRUE(
          maker.store.PutIfAbsent(keys::RemovedKey(other), Encoded(RemovedRecord{other, 1}), maker.owner, Folders::kMustExist)
              .ok());
      EXPECT_TRUE(maker.Retain(1).ok());
      EXPECT_TRUE(maker.CollectAll().ok());
      static_cast<void>(RemoveVersion(*maker.catalog, other, {}));
      return Interposition::kPass;
    });
    Actor slow(slow_fs, "node1", &ledger);
    ASSERT_TRUE(slow.Open().ok());
    static_cast<void>(RemoveVersion(*slow.catalog, maker.At(removed), {}));
    EXPECT_EQ(met, 1);
    const auto kept = NewestAtOrBelow(*maker.catalog, "job", "grid", -1);
    ASSERT_TRUE(kept.ok()) << kept.status().ToString();
    EXPECT_TRUE(testing::CheckVersion(*maker.catalog, kept->generation).ok());
  }
}

const MakerOptions kOneRank{.ranks = 1, .ranks_per_part = 1, .region_bytes = {700, 9}, .chunk_bytes = 512, .piece_bytes = 300};

Status TakeAlone(Actor& actor, int64_t version) {
  KEDGE_RETURN_IF_ERROR(testing::TakeVersion(*actor.catalog, actor.At(version), kOneRank));
  actor.ledger->Acknowledge(actor.At(version));
  return Status::Ok();
}

Status TakeSharing(Actor& actor, int64_t version) {
  KEDGE_RETURN_IF_ERROR(testing::TakeSharing(*actor.catalog, actor.At(version), kOneRank));
  actor.ledger->Acknowledge(actor.At(version));
  return Status::Ok();
}

// A version is taken on top of another, while that one, and what it refers to, is let go of by `remove`.
void RunSharing(const std::function<Status(Actor&)>& before, int64_t taken, const std::function<Status(Actor&)>& remove) {
  Scenario scenario;
  scenario.before = before;
  scenario.first = [&](Actor& actor) { return TakeSharing(actor, taken); };
  scenario.second = [&](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(TakeAlone(actor, taken + 1));
    return remove(actor);
  };
  scenario.after = [&](Actor& reader, const Status& first) {
    // Once it was complete, it may have gone itself. The ledger has read it if it is there.
    const bool has_gone = InspectGeneration(*reader.catalog, reader.At(taken)).status().code() == Code::kNotFound;
    const bool is_collected = first.message().find("has been removed") != std::string::npos;
    EXPECT_TRUE(has_gone || is_collected || (first.ok() && IsComplete(reader, taken))) << first.ToString();
    if (is_collected) return;
    // What was kept for its sake goes with it.
    EXPECT_TRUE(reader.Retain(1).ok());
    EXPECT_EQ(ListGenerations(*reader.catalog, "job", "grid").value(), std::vector<Generation>{reader.At(taken + 1)});
  };
  RunAll(scenario);
}

TEST(Race, RetentionMeetsAVersionOnItsBase) {
  RunSharing([](Actor& actor) { return TakeAlone(actor, 1); }, 2, [](Actor& actor) { return actor.Retain(1); });
}

TEST(Race, ATakingOnItsBaseMeetsRemovalByHand) {
  RunSharing([](Actor& actor) { return TakeAlone(actor, 1); }, 2,
             [](Actor& actor) {
               actor.ledger->AllowRemoval("grid", 1);
               return RemoveVersion(*actor.catalog, actor.At(1), {});
             });
}

// The other way round: who removes has looked who refers to the version, and then one is taken on top of it.
TEST(Race, RemovalByHandMeetsATakingOnThatBase) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(TakeAlone(actor, 1));
    // Not acknowledged: it may go.
    return testing::TakeVersion(*actor.catalog, actor.At(2), kOneRank);
  };
  scenario.first = [](Actor& actor) {
    const Status removed = RemoveVersion(*actor.catalog, actor.At(2), {});
    return removed.code() == Code::kNotFound ? Status::Ok() : removed;
  };
  scenario.second = [](Actor& actor) { return TakeSharing(actor, 3); };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(testing::CheckVersion(*reader.catalog, reader.At(3)).ok());
    EXPECT_FALSE(IsComplete(reader, 2));
  };
  RunAll(scenario);
}

// Of the base of one under way, and of one that another is about to take for its base: the only one there, so that no retention
// would let go of it.
Scenario WithdrawalBesideATakingOnIt() {
  Scenario scenario;
  // Not acknowledged: it may go.
  scenario.before = [](Actor& actor) { return testing::TakeVersion(*actor.catalog, actor.At(1), kOneRank); };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_FALSE(IsComplete(reader, 1));
    EXPECT_TRUE(testing::CheckVersion(*reader.catalog, reader.At(2)).ok());
    // Once nothing needs it any more, nothing is left of it.
    EXPECT_TRUE(TakeAlone(reader, 3).ok());
    EXPECT_TRUE(reader.Retain(1).ok());
    EXPECT_EQ(ListGenerations(*reader.catalog, "job", "grid").value(), std::vector<Generation>{reader.At(3)});
  };
  return scenario;
}

Status WithdrawTheBase(Actor& actor) {
  return WithdrawVersion(*actor.catalog, actor.At(1)).status();
}

TEST(Race, ATakingOnItsBaseMeetsItsWithdrawal) {
  Scenario scenario = WithdrawalBesideATakingOnIt();
  scenario.first = [](Actor& actor) { return TakeSharing(actor, 2); };
  scenario.second = WithdrawTheBase;
  RunAll(scenario);
}

TEST(Race, AWithdrawalMeetsATakingOnThatBase) {
  Scenario scenario = WithdrawalBesideATakingOnIt();
  scenario.first = WithdrawTheBase;
  scenario.second = [](Actor& actor) { return TakeSharing(actor, 2); };
  RunAll(scenario);
}

// A later Kedge takes version 3, which may refer to any.
Status PutNewerRecord(Actor& actor) {
  KEDGE_ASSIGN_OR_RETURN(Buffer bytes, actor.store.Get(keys::VersionKey(actor.At(1)), kSmallRecordBytesMax));
  const std::span payload = std::span(bytes).first(bytes.size() - sizeof(uint32_t));
  bytes[10] = std::byte{99};
  const uint32_t crc32c = crc32c::Compute(payload.data(), payload.size());
  std::memcpy(&bytes[payload.size()], &crc32c, sizeof(crc32c));
  return actor.store.PutIfAbsent(keys::VersionKey(actor.At(3)), bytes, actor.owner, Folders::kCreate);
}

TEST(Race, AWithdrawalMeetsWhatItDoesNotUnderstand) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(TakeAlone(actor, 1));
    return testing::TakeVersion(*actor.catalog, actor.At(2), kOneRank);
  };
  scenario.first = [](Actor& actor) { return WithdrawVersion(*actor.catalog, actor.At(2)).status(); };
  scenario.second = PutNewerRecord;
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok() || first.code() == Code::kUnsupported) << first.ToString();
    EXPECT_EQ(IsComplete(reader, 2), !first.ok()) << "it takes its mark away where it does not go on";
  };
  RunAll(scenario);
}

// The base is itself on top of one that is no version any more, and whose objects are there for its sake alone.
TEST(Race, RetentionMeetsAVersionWhoseBaseRefersToAnother) {
  const auto before = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(TakeAlone(actor, 1));
    KEDGE_RETURN_IF_ERROR(TakeSharing(actor, 2));
    KEDGE_RETURN_IF_ERROR(actor.Retain(1));
    return Status::Ok();
  };
  RunSharing(before, 3, [](Actor& actor) { return actor.Retain(1); });
  RunSharing(before, 3, [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.Retain(1));
    return actor.CollectAll();
  });
}

TEST(Race, OfTwoLaunchesOneGetsTheJob) {
  Scenario scenario;
  std::optional<uint32_t> second_attempt;
  const auto acquire = [](Actor& actor) {
    AttemptRequest request = RequestOfThisProcess("job", 60, 2);
    request.host = actor.owner.node;
    LeaseWatch watch;
    return AcquireAttempt(*actor.catalog, request, &watch);
  };
  scenario.first = [&](Actor& actor) { return acquire(actor).status(); };
  scenario.second = [&](Actor& actor) {
    const auto record = acquire(actor);
    second_attempt.reset();
    if (record.ok()) second_attempt = record->attempt;
    return record.ok() || record.status().code() == Code::kBusy ? Status::Ok() : record.status();
  };
  scenario.after = [&](Actor&, const Status& first) {
    EXPECT_NE(first.ok(), second_attempt.has_value()) << first.ToString();
    EXPECT_TRUE(first.ok() || first.code() == Code::kBusy) << first.ToString();
  };
  RunAll(scenario);
}

// A restart, or gc, finishes what it finds whole while the publisher is at it, and relies on what it sees.
TEST(Race, AnotherFinishesTheVersion) {
  Scenario scenario;
  scenario.before = [](Actor& actor) { return PrepareGeneration(*actor.catalog, actor.At(1)); };
  scenario.first = [](Actor& actor) { return actor.Take(1); };
  scenario.second = [](Actor& actor) {
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, FinishVersion(*actor.catalog, actor.At(1)));
    if (outcome.complete) actor.ledger->Acknowledge(actor.At(1));
    return Status::Ok();
  };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(IsComplete(reader, 1));
  };
  RunAll(scenario);
}

// What is removed on the strength of a newer version stays replaced by it, though its publisher has not yet made it
// durable.
TEST(Race, RetentionReliesOnANewerVersion) {
  Scenario scenario;
  scenario.before = [](Actor& actor) { return actor.Take(1); };
  scenario.first = [](Actor& actor) { return actor.Take(2); };
  scenario.second = [](Actor& actor) {
    if (IsComplete(actor, 2)) actor.ledger->Acknowledge(actor.At(2));
    return actor.Retain(1);
  };
  scenario.after = [](Actor& reader, const Status& first) {
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(IsComplete(reader, 2));
  };
  RunAll(scenario);
}

// A generation that is removed does not come back in part.
TEST(Race, FinishingMeetsRemoval) {
  Scenario scenario;
  scenario.before = [](Actor& actor) {
    KEDGE_RETURN_IF_ERROR(actor.Take(1));
    actor.ledger->AllowRemoval("grid", 0);
    KEDGE_RETURN_IF_ERROR(actor.Take(2));
    return actor.store.Remove(keys::VersionKey(actor.At(1)));
  };
  scenario.first = [](Actor& actor) { return FinishVersion(*actor.catalog, actor.At(1)).status(); };
  scenario.second = [](Actor& actor) {
    const Status removed = RemoveVersion(*actor.catalog, actor.At(1), {});
    return removed.code() == Code::kNotFound ? Status::Ok() : removed;
  };
  scenario.after = [](Actor& reader, const Status&) {
    EXPECT_EQ(InspectGeneration(*reader.catalog, reader.At(1)).status().code(), Code::kNotFound);
  };
  RunAll(scenario);
}

// Three steps in turn: the pinner has looked, the remover marks and looks, the pinner pins, the remover removes. The
// pinner must look once more.
TEST(Race, APinBetweenTheLookAndTheRemoval) {
  SimulatedFileSystem fs;
  Ledger ledger;
  Actor first(fs, "node1", &ledger);
  ASSERT_TRUE(first.Open().ok());
  for (int64_t version = 1; version <= 2; ++version) ASSERT_TRUE(first.Take(version).ok());
  const std::string generation_path = "/store/" + keys::GenerationFolder(first.At(1));

  std::promise<void> remover_is_at_removal;
  std::promise<void> pinner_is_done;
  InterposedFileSystem remover_fs(fs, [&](Call call, const std::string& path) {
    if (call == Call::kRename && path == generation_path) {
      remover_is_at_removal.set_value();
      EXPECT_EQ(pinner_is_done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    }
    return Interposition::kPass;
  });
  std::thread remover;
  Status removed;
  InterposedFileSystem pinner_fs(fs, [&](Call call, const std::string& path) {
    if (call == Call::kOpen && path.starts_with(generation_path + "/pinned.") && !remover.joinable()) {
      remover = std::thread([&] {
        Actor actor(remover_fs, "node2", &ledger);
        removed = actor.Open();
        if (removed.ok()) removed = ApplyRetention(*actor.catalog, "job", "grid", {1, {}}, nullptr);
      });
      EXPECT_EQ(remover_is_at_removal.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    }
    return Interposition::kPass;
  });
  Actor pinner(pinner_fs, "node3", &ledger);
  ASSERT_TRUE(pinner.Open().ok());
  const Status pinned = pinner.Pin(1);
  pinner_is_done.set_value();
  ASSERT_TRUE(remover.joinable());
  remover.join();
  EXPECT_TRUE(removed.ok()) << removed.ToString();
  EXPECT_EQ(pinned.code(), Code::kNotFound) << pinned.ToString();
  EXPECT_FALSE(IsComplete(first, 1));
}

// Both end up with one identity, and a power loss does not take it away once one of them has begun to write with it.
TEST(Race, TwoMakeTheStore) {
  for (const bool dies : {false, true}) {
    for (uint64_t at = 0;; ++at) {
      SCOPED_TRACE("switch before call " + std::to_string(at) + (dies ? ", the first dies" : ""));
      SimulatedFileSystem fs;
      Ledger ledger;
      std::optional<StoreId> second_id;
      uint64_t calls = 0;
      InterposedFileSystem interposed(fs, [&](Call, const std::string&) {
        if (calls++ == at) {
          Actor second(fs, "node2", &ledger);
          const Status opened = second.Open();
          EXPECT_TRUE(opened.ok()) << opened.ToString();
          if (opened.ok()) second_id = second.catalog->id();
        }
        return dies && second_id ? Interposition::kDie : Interposition::kPass;
      });
      Actor first(interposed, "node1", &ledger);
      const Status opened = first.Open();
      if (!second_id) break;
      EXPECT_EQ(opened.ok(), !dies) << opened.ToString();
      if (opened.ok()) {
        ASSERT_EQ(first.catalog->id(), *second_id);
      }
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const std::unique_ptr<SimulatedFileSystem> crashed = fs.Clone();
        crashed->Crash(seed);
        const auto store = MakePosixStore(*crashed, {.path = "/store"});
        const Result<Catalog> catalog = Catalog::Open(*store, {});
        ASSERT_TRUE(catalog.ok()) << catalog.status().ToString();
        ASSERT_EQ(catalog->id(), *second_id);
      }
    }
  }
}

}  // namespace
}  // namespace kedge

// Two processes with one store on a burst buffer: the first is stopped before each of its requests in turn, the second does all
// of its work, and the first goes on, or dies there. The promises of both hold. What happens between the calls of the server's
// own file system src/store/race_test.cc has.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "buffer/testing/local_server.h"
#include "os/testing/simulated_file_system.h"
#include "store/garbage.h"
#include "store/retention.h"
#include "store/testing/ledger.h"
#include "store/testing/version_maker.h"
#include "store/testing/watched_store.h"
#include "store/versions.h"

namespace kedge::buffer {
namespace {

using ::kedge::testing::Adds;
using ::kedge::testing::Ledger;
using ::kedge::testing::MakerOptions;
using ::kedge::testing::PublishRanks;
using ::kedge::testing::WatchedStore;

const MakerOptions kRacedImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {700, 9}, .chunk_bytes = 512, .piece_bytes = 300};

struct Racer {
  Racer(Store& its_store, const std::string& node, Ledger* promises)
      : store(its_store), owner{node, 1, "agent"}, ledger(promises) {}

  Status Open() {
    KEDGE_ASSIGN_OR_RETURN(const Catalog opened, Catalog::OpenOrCreate(store, owner));
    catalog.emplace(opened);
    return Status::Ok();
  }
  Generation At(int64_t version, uint32_t attempt = 1) const { return {catalog->id(), "job", "grid", version, attempt, 1}; }
  Status PublishRank(int64_t version, uint32_t rank) {
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, PublishRanks(*catalog, At(version), rank, 1, kRacedImages));
    if (outcome.complete) ledger->Acknowledge(At(version));
    return Status::Ok();
  }
  Status Take(int64_t version) {
    KEDGE_RETURN_IF_ERROR(PublishRank(version, 0));
    return PublishRank(version, 1);
  }
  Status Retain(uint32_t keep) {
    ledger->AllowRemoval("grid", keep);
    return ApplyRetention(*catalog, "job", "grid", {keep, {}}, nullptr);
  }

  Store& store;
  TemporaryOwner owner;
  Ledger* ledger;
  std::optional<Catalog> catalog;
};

struct Race {
  std::function<Status(Racer&)> before;  // by the first, undisturbed
  std::function<Status(Racer&)> first;   // interrupted
  std::function<Status(Racer&)> second;  // must succeed
  bool first_must_succeed = false;       // where it goes on
};

// False when the first makes no such request.
bool RunRace(Store& of_first, Store& of_others, const Race& race, uint64_t at, bool dies) {
  Ledger ledger;
  bool armed = false;
  bool switched = false;
  uint64_t requests = 0;
  Status second_status;
  const auto check = [&](const char* when) {
    Racer reader(of_others, "reader", &ledger);
    const Status opened = reader.Open();
    EXPECT_TRUE(opened.ok()) << when << ": " << opened.ToString();
    const Status kept = ledger.Check(*reader.catalog);
    EXPECT_TRUE(kept.ok()) << when << ": " << kept.ToString();
  };
  const Status dead(Code::kUnavailable, "this process is dead");
  WatchedStore watched(of_first, [&](Adds) {
    if (!armed) return Status::Ok();
    if (switched) return dies ? dead : Status::Ok();
    if (requests++ < at) return Status::Ok();
    switched = true;
    Racer second(of_others, "node2", &ledger);
    second_status = second.Open();
    if (second_status.ok()) second_status = race.second(second);
    return dies ? dead : Status::Ok();
  });
  Racer first(watched, "node1", &ledger);
  Status first_status = first.Open();
  if (first_status.ok() && race.before) first_status = race.before(first);
  EXPECT_TRUE(first_status.ok()) << first_status.ToString();
  armed = true;
  first_status = race.first(first);
  if (!switched) {
    EXPECT_TRUE(of_others.RemoveFolder("jobs", {}, {"node3", 0, "tool"}).ok());
    return false;
  }
  EXPECT_TRUE(second_status.ok()) << "the second: " << second_status.ToString();
  if (!dies && race.first_must_succeed) {
    EXPECT_TRUE(first_status.ok()) << "the first: " << first_status.ToString();
  }
  check("at the end");
  EXPECT_TRUE(of_others.RemoveFolder("jobs", {}, {"node3", 0, "tool"}).ok());
  return true;
}

void RunRaces(const Race& race) {
  os::testing::SimulatedFileSystem disk;
  const testing::LocalServer server(disk, {.path = "/data"});
  const auto of_first = server.Open("race"), of_others = server.Open("race");
  for (const bool dies : {false, true}) {
    uint64_t at = 0;
    for (;; ++at) {
      SCOPED_TRACE("switch before request " + std::to_string(at) + (dies ? ", the first dies" : ", the first goes on"));
      if (!RunRace(*of_first, *of_others, race, at, dies) || ::testing::Test::HasFailure()) break;
    }
    EXPECT_GT(at, 4u);
  }
}

TEST(BufferStoreRace, TwoNodesPublishTheirPartsOfOneVersion) {
  Race race;
  race.before = [](Racer& racer) { return racer.Take(1); };
  race.first = [](Racer& racer) { return racer.PublishRank(2, 0); };
  race.second = [](Racer& racer) {
    KEDGE_RETURN_IF_ERROR(racer.PublishRank(2, 1));
    return racer.Retain(1);
  };
  race.first_must_succeed = true;
  RunRaces(race);
}

TEST(BufferStoreRace, ALatePublisherMeetsRetention) {
  Race race;
  race.before = [](Racer& racer) { return racer.PublishRank(1, 0); };
  race.first = [](Racer& racer) { return racer.PublishRank(1, 1); };
  race.second = [](Racer& racer) {
    KEDGE_RETURN_IF_ERROR(racer.Take(2));
    return racer.Retain(1);
  };
  RunRaces(race);
}

// An attempt that was taken over, and whose generation was collected as garbage, wakes up.
TEST(BufferStoreRace, AZombieMeetsGarbageCollection) {
  Race race;
  race.first = [](Racer& racer) { return racer.Take(1); };
  race.second = [](Racer& racer) {
    const Generation newer = racer.At(2, 2);
    KEDGE_RETURN_IF_ERROR(::kedge::testing::TakeVersion(*racer.catalog, newer, kRacedImages));
    racer.ledger->Acknowledge(newer);
    GarbageOptions options;
    options.incomplete_age_seconds = 0;
    KEDGE_ASSIGN_OR_RETURN(const GarbageReport report, CollectGarbage(*racer.catalog, options));
    return report.problems.empty() ? Status::Ok() : Status(Code::kInternal, report.problems.front());
  };
  RunRaces(race);
}

TEST(BufferStoreRace, RetentionMeetsRetention) {
  Race race;
  race.before = [](Racer& racer) {
    for (int64_t version = 1; version <= 3; ++version) KEDGE_RETURN_IF_ERROR(racer.Take(version));
    return Status::Ok();
  };
  race.first = [](Racer& racer) { return racer.Retain(1); };
  race.second = [](Racer& racer) {
    KEDGE_RETURN_IF_ERROR(racer.Take(4));
    return racer.Retain(1);
  };
  race.first_must_succeed = true;
  RunRaces(race);
}

}  // namespace
}  // namespace kedge::buffer

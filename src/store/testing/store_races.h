// Two processes with one store: the first is stopped before each of its requests in turn, the second does all of its work, and
// the first goes on, or dies there. The promises of both hold. A suite that each kind of store instantiates with a course, in one
// file of a test program: each file that includes it has the suite. What happens between the calls of a store's own file system
// race_test.cc has.
//
// A promise is one to readers: a version that was acknowledged is there, whole, until retention was told to remove it. What a
// store with weaker folders may leave of a generation that was removed (store_conformance.h) breaks none.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "store/garbage.h"
#include "store/testing/ground.h"
#include "store/testing/racer.h"
#include "store/testing/watched_store.h"

namespace kedge::testing {

// Where races are run: one server, for example, on which each race has a store of its own.
struct RaceCourse {
  virtual ~RaceCourse() = default;
  virtual std::unique_ptr<Ground> Fresh() = 0;
};
struct RaceCase {
  std::string name;
  std::function<std::unique_ptr<RaceCourse>()> make;
  uint64_t step = 1;  // the first is stopped before each so-manieth of its requests; 1: each, and of long races, too
};

// In every program that includes it.
namespace {

struct Race {
  std::function<Status(Racer&)> before;  // by the first, undisturbed
  std::function<Status(Racer&)> first;   // interrupted
  std::function<Status(Racer&)> second;  // must succeed
  bool first_must_succeed = false;       // where it goes on
  bool is_long = false;                  // three times the steps, where requests are left out
};

class StoreRaces : public ::testing::TestWithParam<RaceCase> {
 protected:
  StoreRaces() : course_(GetParam().make()) {}

  void Run(const Race& race) {
    const uint64_t step = GetParam().step;
    for (const bool dies : {false, true}) {
      uint64_t at = 0;
      for (;; at += race.is_long && step > 1 ? 3 * step : step) {
        SCOPED_TRACE("switch before request " + std::to_string(at) + (dies ? ", the first dies" : ", the first goes on"));
        if (!RunOne(race, at, dies) || ::testing::Test::HasFailure()) break;
      }
      EXPECT_GT(at, 4u);
    }
  }

 private:
  // False when the first makes no such request.
  bool RunOne(const Race& race, uint64_t at, bool dies) {
    const std::unique_ptr<Ground> ground = course_->Fresh();
    const std::unique_ptr<Store> of_others = ground->OtherProcess();
    Ledger ledger;
    bool armed = false;
    bool switched = false;
    uint64_t requests = 0;
    Status second_status;
    const Status dead(Code::kUnavailable, "this process is dead");
    WatchedStore watched(ground->store(), [&](Adds) {
      if (!armed) return Status::Ok();
      if (switched) return dies ? dead : Status::Ok();
      if (requests++ < at) return Status::Ok();
      switched = true;
      Racer second(*of_others, "node2", &ledger);
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
    if (!switched) return false;
    EXPECT_TRUE(second_status.ok()) << "the second: " << second_status.ToString();
    if (!dies && race.first_must_succeed) {
      EXPECT_TRUE(first_status.ok()) << "the first: " << first_status.ToString();
    }
    Racer reader(*of_others, "reader", &ledger);
    const Status opened = reader.Open();
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    if (!opened.ok()) return true;
    const Status kept = ledger.Check(*reader.catalog);
    EXPECT_TRUE(kept.ok()) << kept.ToString();
    return true;
  }

  const std::unique_ptr<RaceCourse> course_;
};

inline std::string NameOfRaceCase(const ::testing::TestParamInfo<RaceCase>& info) {
  return info.param.name;
}

TEST_P(StoreRaces, TwoNodesPublishTheirPartsOfOneVersion) {
  Race race;
  race.before = [](Racer& racer) { return racer.Take(1); };
  race.first = [](Racer& racer) { return racer.PublishRank(2, 0); };
  race.second = [](Racer& racer) {
    KEDGE_RETURN_IF_ERROR(racer.PublishRank(2, 1));
    return racer.Retain(1);
  };
  race.first_must_succeed = true;
  Run(race);
}

TEST_P(StoreRaces, ALatePublisherMeetsRetention) {
  Race race;
  race.before = [](Racer& racer) { return racer.PublishRank(1, 0); };
  race.first = [](Racer& racer) { return racer.PublishRank(1, 1); };
  race.second = [](Racer& racer) {
    KEDGE_RETURN_IF_ERROR(racer.Take(2));
    return racer.Retain(1);
  };
  Run(race);
}

// A killed agent's successor publishes all that the agent had, whose last requests are still on their way.
TEST_P(StoreRaces, TwoPublishTheWholeVersion) {
  Race race;
  race.before = [](Racer& racer) { return racer.Take(1); };
  race.first = [](Racer& racer) { return racer.PublishWhole(2); };
  race.second = [](Racer& racer) {
    KEDGE_RETURN_IF_ERROR(racer.PublishWhole(2));
    return racer.Retain(1);
  };
  race.first_must_succeed = true;
  Run(race);
}

// An attempt that was taken over, and whose generation was collected as garbage, wakes up.
TEST_P(StoreRaces, AZombieMeetsGarbageCollection) {
  Race race;
  race.first = [](Racer& racer) { return racer.Take(1); };
  race.second = [](Racer& racer) {
    const Generation newer = racer.At(2, 2);
    KEDGE_RETURN_IF_ERROR(TakeVersion(*racer.catalog, newer, kRacedImages));
    racer.ledger->Acknowledge(newer);
    GarbageOptions options;
    options.incomplete_age_seconds = 0;
    KEDGE_ASSIGN_OR_RETURN(const GarbageReport report, CollectGarbage(*racer.catalog, options));
    return report.problems.empty() ? Status::Ok() : Status(Code::kInternal, report.problems.front());
  };
  Run(race);
}

TEST_P(StoreRaces, RetentionMeetsRetention) {
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
  race.is_long = true;
  Run(race);
}

}  // namespace
}  // namespace kedge::testing

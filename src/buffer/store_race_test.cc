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
#include "store/versions.h"

namespace kedge::buffer {
namespace {

using ::kedge::testing::Ledger;
using ::kedge::testing::MakerOptions;
using ::kedge::testing::PublishRanks;

const MakerOptions kRacedImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {700, 9}, .chunk_bytes = 512, .piece_bytes = 300};

// A store with a function of the test called before each operation: not ok, and the operation fails with that.
class WatchedStore final : public Store {
 public:
  using Before = std::function<Status()>;
  WatchedStore(Store& store, Before before) : store_(store), before_(std::move(before)) {}

  const std::string& description() const override { return store_.description(); }
  Result<std::string> Place() override {
    return Watched<std::string>([&] { return store_.Place(); });
  }
  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override {
    return Watched<std::unique_ptr<ObjectWriter>>([&] { return store_.CreateObject(key, owner, expected_bytes); });
  }
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override {
    return Watched<std::unique_ptr<ObjectWriter>>([&] { return store_.AdoptObject(key, handle); });
  }
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override {
    return Watched<std::unique_ptr<ObjectContributor>>([&] { return store_.JoinObject(handle); });
  }
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override {
    const Status may = before_();
    return may.ok() ? store_.Publish(writers) : std::vector<Status>(writers.size(), may);
  }
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override {
    return Watched<std::unique_ptr<ObjectReader>>([&] { return store_.OpenObject(key); });
  }
  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return WatchedStatus([&] { return store_.PutIfAbsent(key, bytes, owner, folders); });
  }
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return WatchedStatus([&] { return store_.Replace(key, bytes, owner, folders); });
  }
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override {
    return Watched<Buffer>([&] { return store_.Get(key, bytes_max); });
  }
  Status EnsureDurable(std::span<const std::string> keys) override {
    return WatchedStatus([&] { return store_.EnsureDurable(keys); });
  }
  Status MakeFolder(const std::string& folder) override {
    return WatchedStatus([&] { return store_.MakeFolder(folder); });
  }
  Result<std::vector<StoreEntry>> List(const std::string& folder) override {
    return Watched<std::vector<StoreEntry>>([&] { return store_.List(folder); });
  }
  Status Remove(const std::string& key) override {
    return WatchedStatus([&] { return store_.Remove(key); });
  }
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override {
    return WatchedStatus([&] { return store_.RemoveFolder(folder, first, owner); });
  }
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override {
    return Watched<std::vector<Temporary>>([&] { return store_.ListTemporaries(folder, self); });
  }
  Status RemoveTemporary(const std::string& handle) override {
    return WatchedStatus([&] { return store_.RemoveTemporary(handle); });
  }
  Status Touch(const std::string& key, const TemporaryOwner& owner) override {
    return WatchedStatus([&] { return store_.Touch(key, owner); });
  }
  Result<int64_t> Stamp(const std::string& key) override {
    return Watched<int64_t>([&] { return store_.Stamp(key); });
  }
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override {
    return Watched<double>([&] { return store_.AgeSeconds(key, owner); });
  }
  Result<StoreSpace> Space() override {
    return Watched<StoreSpace>([&] { return store_.Space(); });
  }

 private:
  template <typename Value, typename Call>
  Result<Value> Watched(Call call) {
    KEDGE_RETURN_IF_ERROR(before_());
    return call();
  }
  template <typename Call>
  Status WatchedStatus(Call call) {
    KEDGE_RETURN_IF_ERROR(before_());
    return call();
  }

  Store& store_;
  const Before before_;
};

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
  WatchedStore watched(of_first, [&] {
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

// Versions that are brought from a burst buffer's store to the store behind it, on simulated file systems: whole, in order, by a
// server that dies at each of its calls, and against whoever removes them meanwhile.
#include "store/drained/mirror.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "os/testing/interposed_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "store/drained/drained_store.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/retention.h"
#include "store/temporary_tag.h"
#include "store/testing/promise_ledger.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using os::testing::Call;
using os::testing::InterposedFileSystem;
using os::testing::Interposition;
using os::testing::SimulatedFileSystem;
using testing::CheckVersion;
using testing::Ledger;
using testing::MakerOptions;
using testing::TakeOnTop;
using testing::TakeVersion;
using State = BufferedGeneration::State;

const TemporaryOwner kDrain{"buffer-fast", 0, "drain"};
const TemporaryOwner kProgram{"node1", 1, "agent"};
const MakerOptions kBroughtImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {700, 9}, .chunk_bytes = 512, .piece_bytes = 300};

// The disks of the buffer and of the store.
struct Disks {
  std::unique_ptr<SimulatedFileSystem> buffer = std::make_unique<SimulatedFileSystem>(os::testing::SimulatedOptions{.seed = 1});
  std::unique_ptr<SimulatedFileSystem> store = std::make_unique<SimulatedFileSystem>(os::testing::SimulatedOptions{.seed = 2});
  Disks Clone() const { return {buffer->Clone(), store->Clone()}; }
};

// The stores on them as one process sees them.
struct Sight {
  Sight(os::FileSystem& of_buffer, os::FileSystem& of_store)
      : buffer(MakePosixStore(of_buffer, {.path = "/buffer"})),
        store(MakePosixStore(of_store, {.path = "/store"})),
        both(MakeDrainedStore(buffer, store)) {}
  explicit Sight(Disks& disks) : Sight(*disks.buffer, *disks.store) {}

  Catalog Open() const { return Catalog::OpenOrCreate(*both, kProgram).value(); }
  // As those who know nothing of the buffer.
  Catalog OpenStore() const { return Catalog::Open(*store, kProgram).value(); }
  Result<Mirror> OpenMirror(const MirrorOptions& options = {}) const {
    return Mirror::Open(*buffer, *store, *both, kDrain, options);
  }
  Status Bring(const Generation& generation, uint64_t* bytes = nullptr) const {
    uint64_t ignored = 0;
    KEDGE_ASSIGN_OR_RETURN(const Mirror mirror, OpenMirror({.piece_bytes = 600}));
    return mirror.Bring(generation, bytes == nullptr ? &ignored : bytes);
  }
  std::vector<std::string> InStore(const std::string& folder) const {
    std::vector<std::string> names;
    const auto entries = ListIfThere(*store, folder);
    EXPECT_TRUE(entries.ok());
    for (const StoreEntry& entry : *entries) names.push_back(entry.name);
    return names;
  }

  std::shared_ptr<Store> buffer, store;
  std::unique_ptr<Store> both;
};

Generation VersionOf(const StoreId& store_id, int64_t version) {
  return {store_id, "job", "grid", version, 1, 1};
}

class MirrorTest : public ::testing::Test {
 protected:
  MirrorTest() : sight_(disks_), catalog_(sight_.Open()) {}

  Generation At(int64_t version) const { return VersionOf(catalog_.id(), version); }
  void Take(int64_t version) {
    const Status taken = TakeVersion(catalog_, At(version), kBroughtImages);
    ASSERT_TRUE(taken.ok()) << taken.ToString();
  }
  std::vector<std::pair<int64_t, State>> Listed() {
    std::vector<std::pair<int64_t, State>> listed;
    const auto found = sight_.OpenMirror().value().List();
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    for (const BufferedGeneration& one : *found) listed.emplace_back(one.generation.version, one.state);
    return listed;
  }
  void ExpectWholeInStore(int64_t version) {
    const Status whole = CheckVersion(sight_.OpenStore(), At(version));
    EXPECT_TRUE(whole.ok()) << whole.ToString();
  }
  void FlipByte(SimulatedFileSystem& disk, const std::string& path) {
    const auto file = disk.Open(path, os::OpenFlags::kReadWrite);
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    char byte = 0;
    ASSERT_TRUE((*file)->Pread(&byte, 1, 100).ok());
    byte = static_cast<char>(byte ^ 1);
    ASSERT_TRUE((*file)->Pwrite(&byte, 1, 100).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  Disks disks_;
  Sight sight_;
  Catalog catalog_;
};

TEST_F(MirrorTest, AVersionIsBroughtVerbatimAndWhole) {
  Take(1);
  EXPECT_EQ(InspectGeneration(sight_.OpenStore(), At(1)).status().code(), Code::kNotFound);
  EXPECT_EQ(Listed(), (std::vector<std::pair<int64_t, State>>{{1, State::kWaits}}));
  uint64_t bytes = 0;
  ASSERT_TRUE(sight_.Bring(At(1), &bytes).ok());
  EXPECT_GT(bytes, 1400u);
  ExpectWholeInStore(1);
  for (const std::string& key : {keys::VersionKey(At(1)), keys::PartKey(At(1), 0, 1), keys::ImageKey(At(1), 1)})
    EXPECT_EQ(sight_.buffer->Get(key, 1 << 20).value(), sight_.store->Get(key, 1 << 20).value()) << key;
  EXPECT_EQ(Listed(), (std::vector<std::pair<int64_t, State>>{{1, State::kBrought}}));
  ASSERT_TRUE(sight_.Bring(At(1), &bytes).ok()) << "again";
  EXPECT_EQ(bytes, 0u);
  // It is durable, and the buffer is not needed any more.
  disks_.store->Crash(7);
  ASSERT_TRUE(sight_.buffer->RemoveFolder(keys::GenerationFolder(At(1)), {}, kDrain).ok());
  Sight after(disks_);
  EXPECT_TRUE(CheckVersion(after.Open(), At(1)).ok());
  EXPECT_TRUE(CheckVersion(after.OpenStore(), At(1)).ok());
}

TEST_F(MirrorTest, AVersionWithItsPartInsideIsBroughtVerbatimAndWhole) {
  MakerOptions images = kBroughtImages;
  images.ranks_per_part = images.ranks;
  ASSERT_TRUE(
      sight_.buffer->PutIfAbsent(keys::kStoreKey, *sight_.store->Get(keys::kStoreKey, 1 << 20), {}, Folders::kCreate).ok());
  const Catalog in_buffer = Catalog::Assume(*sight_.buffer, catalog_.id(), kProgram);
  ASSERT_TRUE(PrepareGeneration(catalog_, At(2)).ok());
  ASSERT_TRUE(TakeVersion(in_buffer, At(2), images).ok());
  ASSERT_FALSE(ReadVersionRecord(in_buffer, At(2))->part_inside.empty());
  ASSERT_TRUE(sight_.Bring(At(2)).ok());
  ExpectWholeInStore(2);
  const std::string key = keys::VersionKey(At(2));
  EXPECT_EQ(sight_.buffer->Get(key, 1 << 20).value(), sight_.store->Get(key, 1 << 20).value());
  EXPECT_EQ(Listed(), (std::vector<std::pair<int64_t, State>>{{2, State::kBrought}}));
  disks_.store->Crash(7);
  ASSERT_TRUE(sight_.buffer->RemoveFolder(keys::GenerationFolder(At(2)), {}, kDrain).ok());
  EXPECT_TRUE(CheckVersion(Sight(disks_).OpenStore(), At(2)).ok());
}

TEST_F(MirrorTest, WhatIsNotCompleteIsNotBrought) {
  ASSERT_TRUE(testing::PublishRanks(catalog_, At(1), 0, 1, kBroughtImages).ok());
  EXPECT_EQ(Listed(), (std::vector<std::pair<int64_t, State>>{{1, State::kUnderWay}}));
  EXPECT_EQ(sight_.Bring(At(1)).code(), Code::kNotFound);
  EXPECT_TRUE(sight_.InStore(keys::GenerationFolder(At(1))).empty());
}

TEST_F(MirrorTest, WhatIsCompletedFirstIsListedFirst) {
  Take(7);
  Take(3);
  EXPECT_EQ(Listed(), (std::vector<std::pair<int64_t, State>>{{7, State::kWaits}, {3, State::kWaits}}));
}

TEST_F(MirrorTest, AVersionBringsAlongWhatItRefersTo) {
  Take(1);
  ASSERT_TRUE(TakeOnTop(catalog_, At(2), At(1)).ok());
  ASSERT_TRUE(TakeOnTop(catalog_, At(3), At(2)).ok());
  ASSERT_TRUE(RemoveVersion(catalog_, At(1), {}).ok());
  ASSERT_TRUE(RemoveVersion(catalog_, At(2), {}).ok());
  const Mirror mirror = sight_.OpenMirror().value();
  EXPECT_FALSE(mirror.HasObjectsOf(At(1)).value());
  ASSERT_TRUE(sight_.Bring(At(3)).ok());
  ExpectWholeInStore(3);
  EXPECT_TRUE(mirror.HasObjectsOf(At(1)).value());
  const auto one = InspectGeneration(sight_.OpenStore(), At(1));
  EXPECT_TRUE(one.ok() && one->removed) << "objects for others, and no version";
  // The buffer is emptied, and the next one refers to what the store alone has.
  for (const int64_t version : {1, 2, 3})
    ASSERT_TRUE(sight_.buffer->RemoveFolder(keys::GenerationFolder(At(version)), {}, kDrain).ok());
  ASSERT_TRUE(TakeOnTop(catalog_, At(4), At(3)).ok());
  ASSERT_TRUE(sight_.Bring(At(4)).ok());
  ExpectWholeInStore(4);
  Sight after(disks_);
  EXPECT_TRUE(CheckVersion(after.Open(), At(4)).ok());
}

TEST_F(MirrorTest, AFlippedByteIsNeverBrought) {
  Take(1);
  Take(2);
  FlipByte(*disks_.buffer, "/buffer/" + keys::ImageKey(At(1), 1));
  const Status refused = sight_.Bring(At(1));
  EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.ToString();
  EXPECT_NE(refused.message().find("rank 1"), std::string::npos) << refused.message();
  EXPECT_TRUE(sight_.InStore(keys::GenerationFolder(At(1))).empty());
  EXPECT_TRUE(sight_.Bring(At(2)).ok());
  EXPECT_TRUE(Ledger().Check(sight_.OpenStore()).ok());
}

// An object was written to the store while the buffer was away, and once more to the buffer.
TEST_F(MirrorTest, AnOlderCopyInTheStoreIsReplaced) {
  Take(1);
  const std::string key = keys::ImageKey(At(1), 0);
  Buffer older = sight_.buffer->Get(key, 1 << 20).value();
  older[5] ^= std::byte{1};
  const auto writer = sight_.store->CreateObject(key, kProgram, older.size());
  ASSERT_TRUE(writer.ok() && (*writer)->WriteAt(0, older).ok() && (*writer)->Commit().ok());
  ASSERT_TRUE(sight_.Bring(At(1)).ok());
  ExpectWholeInStore(1);
}

TEST_F(MirrorTest, AStoreThatIsFullOrReadOnlyHasNothingHalf) {
  Take(1);
  disks_.store->SetReadOnly(true);
  EXPECT_EQ(sight_.Bring(At(1)).code(), Code::kPermission);
  disks_.store->SetReadOnly(false);
  disks_.store->SetCapacity(disks_.store->UsedBytes() + 900);
  EXPECT_EQ(sight_.Bring(At(1)).code(), Code::kNoSpace);
  EXPECT_TRUE(Ledger().Check(sight_.OpenStore()).ok());
  const auto half = InspectGeneration(sight_.OpenStore(), At(1));
  EXPECT_FALSE(half.ok() && half->complete);
  disks_.store->SetCapacity(uint64_t{1} << 40);
  ASSERT_TRUE(sight_.Bring(At(1)).ok());
  ExpectWholeInStore(1);
}

TEST_F(MirrorTest, WhoeverStopsItIsObeyed) {
  Take(1);
  int pieces = 0;
  const Mirror mirror = sight_.OpenMirror({.piece_bytes = 100, .goes_on = [&pieces] { return ++pieces < 30; }}).value();
  uint64_t bytes = 0;
  EXPECT_EQ(mirror.Bring(At(1), &bytes).code(), Code::kTimeout);
  ASSERT_TRUE(sight_.Bring(At(1)).ok());
  ExpectWholeInStore(1);
}

// --- at each call -------------------------------------------------------------------------------------------------------------

// What the server does, with a function of the test before its call `at`; nothing: it makes no such call.
std::optional<Status> BringWithSwitch(Disks& disks, const Generation& generation, uint64_t at, bool dies,
                                      const std::function<void(uint64_t call)>& other) {
  uint64_t calls = 0;
  bool dead = false;
  const auto before = [&](Call, const std::string&) {
    if (dead) return Interposition::kDie;
    const uint64_t call = calls++;
    if (other) other(call);
    dead = dies && call == at;
    return dead ? Interposition::kDie : Interposition::kPass;
  };
  InterposedFileSystem buffer(*disks.buffer, before);
  InterposedFileSystem store(*disks.store, before);
  const Status brought = Sight(buffer, store).Bring(generation);
  if (calls <= at) return std::nullopt;
  return brought;
}

void ExpectRightStore(Disks& disks) {
  const Status right = Ledger().Check(Sight(disks).OpenStore());
  EXPECT_TRUE(right.ok()) << right.ToString();
}

void ExpectNothingOfServer(const Sight& sight) {
  for (const auto& store : {sight.buffer, sight.store}) {
    const auto temporaries = store->ListTemporaries("jobs", kProgram);
    ASSERT_TRUE(temporaries.ok());
    for (const Temporary& one : *temporaries) EXPECT_NE(one.tag, MakeTemporaryTag(kDrain)) << one.handle;
  }
}

TEST_F(MirrorTest, ASuccessorGoesOnWhereTheServerDied) {
  Take(1);
  ASSERT_TRUE(TakeOnTop(catalog_, At(2), At(1)).ok());
  ASSERT_TRUE(RemoveVersion(catalog_, At(1), {}).ok());
  uint64_t at = 0;
  for (; !HasFailure(); ++at) {
    for (const bool with_power : {false, true}) {
      SCOPED_TRACE("dies at call " + std::to_string(at) + (with_power ? " with the power" : ""));
      Disks disks = disks_.Clone();
      if (!BringWithSwitch(disks, At(2), at, true, {})) {
        EXPECT_GT(at, 40u);
        return;
      }
      if (with_power) disks.store->Crash(at);
      ExpectRightStore(disks);
      Sight sight(disks);
      const Status brought = sight.Bring(At(2));
      EXPECT_TRUE(brought.ok()) << brought.ToString();
      EXPECT_TRUE(CheckVersion(sight.OpenStore(), At(2)).ok());
      ExpectNothingOfServer(sight);
    }
  }
}

using Removal = std::function<Status(const Catalog&)>;

// At each call of the server, which goes on or dies there, somebody removes the generation. `after` looks at what is left.
void RemoveAtEachCall(const Disks& before, const Generation& generation, const Removal& remove,
                      const std::function<void(const Sight&, const Status& brought)>& after) {
  uint64_t at = 0;
  for (bool ended = false; !ended && !::testing::Test::HasFailure(); ++at) {
    for (const bool dies : {false, true}) {
      SCOPED_TRACE("removed at call " + std::to_string(at) + (dies ? ", where the server dies" : ""));
      Disks disks = before.Clone();
      const auto brought = BringWithSwitch(disks, generation, at, dies, [&](uint64_t call) {
        if (call != at) return;
        const Status removed = remove(Sight(disks).Open());
        EXPECT_TRUE(removed.ok()) << removed.ToString();
        ExpectRightStore(disks);
      });
      ended = !brought;
      if (ended) break;
      ExpectRightStore(disks);
      const Sight sight(disks);
      const auto left = InspectGeneration(sight.OpenStore(), generation);
      EXPECT_FALSE(left.ok() && left->complete) << "it has come back";
      if (dies) continue;
      EXPECT_TRUE(brought->ok() || brought->code() == Code::kNotFound) << brought->ToString();
      after(sight, *brought);
      ExpectNothingOfServer(sight);
    }
  }
  EXPECT_GT(at, 40u);
}

TEST_F(MirrorTest, ARemovedVersionDoesNotComeBack) {
  Take(1);
  Take(2);
  const Removal removal = [&](const Catalog& catalog) { return RemoveVersion(catalog, At(1), {}); };
  RemoveAtEachCall(disks_, At(1), removal, [&](const Sight& sight, const Status&) {
    EXPECT_TRUE(sight.InStore(keys::GenerationFolder(At(1))).empty());
    EXPECT_EQ(sight.store->List(keys::GenerationFolder(At(1))).status().code(), Code::kNotFound);
    EXPECT_TRUE(CheckVersion(sight.Open(), At(2)).ok());
  });
}

TEST_F(MirrorTest, AWithdrawnVersionLeavesItsMarkAlone) {
  Take(1);
  const Removal removal = [&](const Catalog& catalog) { return WithdrawVersion(catalog, At(1)).status(); };
  RemoveAtEachCall(disks_, At(1), removal, [&](const Sight& sight, const Status&) {
    EXPECT_EQ(sight.InStore(keys::GenerationFolder(At(1))), std::vector<std::string>{"removed"});
    EXPECT_EQ(ReadWithdrawn(sight.Open(), "job", "grid").value(), std::vector<Generation>{At(1)});
  });
}

TEST_F(MirrorTest, AnEmptiedVersionKeepsWhatOthersNeed) {
  Take(1);
  ASSERT_TRUE(TakeOnTop(catalog_, At(2), At(1)).ok());
  const Removal removal = [&](const Catalog& catalog) { return RemoveVersion(catalog, At(1), {}); };
  RemoveAtEachCall(disks_, At(1), removal, [&](const Sight& sight, const Status&) {
    EXPECT_TRUE(CheckVersion(sight.Open(), At(2)).ok());
    const Status brought = sight.Bring(At(2));
    EXPECT_TRUE(brought.ok()) << brought.ToString();
    EXPECT_TRUE(CheckVersion(sight.OpenStore(), At(2)).ok());
    const auto emptied = InspectGeneration(sight.OpenStore(), At(1));
    EXPECT_TRUE(emptied.ok() && emptied->removed);
  });
}

// The version that is brought is removed, and what it alone referred to with it.
TEST_F(MirrorTest, WhatARemovedVersionReferredToGoesWithIt) {
  Take(1);
  ASSERT_TRUE(TakeOnTop(catalog_, At(2), At(1)).ok());
  ASSERT_TRUE(RemoveVersion(catalog_, At(1), {}).ok());
  Take(3);
  const Removal removal = [&](const Catalog& catalog) { return ApplyRetention(catalog, "job", "grid", {1, {}}, nullptr); };
  RemoveAtEachCall(disks_, At(2), removal, [&](const Sight& sight, const Status&) {
    for (const int64_t version : {1, 2})
      EXPECT_EQ(sight.store->List(keys::GenerationFolder(At(version))).status().code(), Code::kNotFound) << version;
    EXPECT_TRUE(CheckVersion(sight.Open(), At(3)).ok());
  });
}

// Whoever removes has come as far as the buffer at one call of the server, and gets to the store at a later one, or when the
// server has ended.
TEST_F(MirrorTest, ARemoverThatIsSlowTakesAllOfIt) {
  Take(1);
  Take(2);
  const std::string folder = keys::GenerationFolder(At(1));
  uint64_t at = 0;
  for (bool ended = false; !ended && !HasFailure(); ++at) {
    for (const uint64_t later : {1, 2, 3, 5, 8, 13, 21, 34, 1000}) {
      SCOPED_TRACE("buffer at call " + std::to_string(at) + ", store " + std::to_string(later) + " calls later");
      Disks disks = disks_.Clone();
      const Sight remover(disks);
      bool has_ended = false;
      const auto remove_from_store = [&] {
        EXPECT_TRUE(remover.store->RemoveFolder(folder, keys::VersionKey(At(1)), kProgram).ok());
        has_ended = true;
      };
      const auto brought = BringWithSwitch(disks, At(1), at, false, [&](uint64_t call) {
        if (call == at) {
          const Buffer mark(10);
          EXPECT_TRUE(remover.both->PutIfAbsent(keys::RemovedKey(At(1)), mark, kProgram, Folders::kMustExist).ok());
          EXPECT_TRUE(remover.buffer->RemoveFolder(folder, keys::VersionKey(At(1)), kProgram).ok());
        } else if (call == at + later) {
          remove_from_store();
        }
      });
      ended = !brought;
      if (ended) break;
      if (!has_ended) remove_from_store();
      EXPECT_EQ(remover.store->List(folder).status().code(), Code::kNotFound);
      ExpectRightStore(disks);
      ExpectNothingOfServer(remover);
    }
  }
  EXPECT_GT(at, 40u);
}

}  // namespace
}  // namespace kedge

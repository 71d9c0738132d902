// What a PosixStore does beyond the conformance suite: errors of single calls, modes, and how many calls a publication
// costs.
#include "store/posix/posix_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <utility>

#include "os/files/files.h"
#include "os/files/striping.h"
#include "os/testing/other_user.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

using os::testing::Call;
using os::testing::CallsOf;
using os::testing::FaultRule;
using os::testing::SimulatedFileSystem;

const TemporaryOwner kOwner{"node1", 1, "agent"};

class PosixStoreTest : public ::testing::Test {
 protected:
  PosixStoreTest() : store_(MakePosixStore(fs_, {.path = "/store"})) {}

  void Fail(Call call, int errno_value, const std::string& path = {}) {
    FaultRule rule;
    rule.calls = CallsOf(call);
    rule.path_contains = path;
    rule.errno_value = errno_value;
    fs_.faults().Add(rule);
  }
  std::unique_ptr<ObjectWriter> Begin(const std::string& key) {
    auto writer = store_->CreateObject(key, kOwner, 0);
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return std::move(*writer);
  }
  void ExpectNothingThere(const std::string& key) {
    EXPECT_EQ(store_->OpenObject(key).status().code(), Code::kNotFound);
    EXPECT_TRUE(store_->ListTemporaries("", kOwner).value().empty());
  }

  SimulatedFileSystem fs_;
  std::unique_ptr<Store> store_;
};

// Something else happens when a path was found missing so many times, and the asker does not know it yet.
class FileSystemWithARace final : public SimulatedFileSystem {
 public:
  FileSystemWithARace(std::string path, int looks, std::function<void()> meanwhile)
      : path_(std::move(path)), looks_(looks), meanwhile_(std::move(meanwhile)) {}
  Result<os::FileInfo> Stat(const std::string& path) override {
    Result<os::FileInfo> info = SimulatedFileSystem::Stat(path);
    if (path == path_ && !info.ok() && --looks_ == 0) meanwhile_();
    return info;
  }

 private:
  const std::string path_;
  int looks_;
  const std::function<void()> meanwhile_;
};

TEST(PosixStoreRoot, ThatAnotherThreadMakesMeanwhileHasNotBeenMovedAway) {
  bool raced = true;
  int looks = 0;
  while (raced) {
    raced = false;
    std::unique_ptr<Store> store;
    FileSystemWithARace fs("/store", ++looks, [&] {
      raced = true;
      EXPECT_TRUE(store->PutIfAbsent("other", AsBytes("x"), kOwner, Folders::kCreate).ok());
    });
    store = MakePosixStore(fs, {.path = "/store"});
    const Status made = store->PutIfAbsent("record", AsBytes("x"), kOwner, Folders::kCreate);
    EXPECT_TRUE(made.ok()) << "found missing " << looks << " times: " << made.ToString();
  }
  EXPECT_GT(looks, 2) << "it is looked at before it is made";
}

TEST_F(PosixStoreTest, AFailedWriteIsRememberedByCommit) {
  const auto writer = Begin("f/object");
  Fail(Call::kPwrite, ENOSPC);
  const Status written = writer->WriteAt(0, AsBytes("abc"));
  EXPECT_EQ(written.code(), Code::kNoSpace);
  EXPECT_EQ(written.errno_value(), ENOSPC);
  EXPECT_TRUE(written.message().starts_with("write /store/f/object: ")) << "not the temporary file: " << written.message();
  EXPECT_TRUE(writer->WriteAt(3, AsBytes("def")).ok());
  EXPECT_EQ(writer->Commit().errno_value(), ENOSPC);
  ExpectNothingThere("f/object");
}

// Some file systems open a file with O_DIRECT and then refuse each write to it.
TEST_F(PosixStoreTest, ARefusedDirectWriteGoesThroughThePageCache) {
  store_ = MakePosixStore(fs_, {.path = "/store", .direct = true});
  const auto writer = Begin("f/object");
  FaultRule refuse;
  refuse.calls = CallsOf(Call::kPwrite);
  refuse.errno_value = EINVAL;
  fs_.faults().Add(refuse);
  alignas(4096) static const std::array<std::byte, 8192> bytes = [] {
    std::array<std::byte, 8192> made;
    made.fill(std::byte{7});
    return made;
  }();
  ASSERT_TRUE(writer->WriteAt(0, bytes).ok());
  EXPECT_EQ(fs_.faults().faults(), 1u);
  ASSERT_TRUE(writer->Commit().ok());
  std::array<std::byte, 8192> read;
  ASSERT_TRUE(store_->OpenObject("f/object").value()->ReadAt(0, read).ok());
  EXPECT_EQ(read, bytes);
}

TEST_F(PosixStoreTest, AFailedWriteBackIsRememberedByCommit) {
  const auto writer = Begin("f/object");
  ASSERT_TRUE(writer->WriteAt(0, AsBytes("abc")).ok());
  Fail(Call::kSyncFileRange, EIO);
  EXPECT_EQ(writer->FlushHint(0, 3, true).errno_value(), EIO);
  EXPECT_EQ(writer->Commit().errno_value(), EIO);
  ExpectNothingThere("f/object");
}

TEST_F(PosixStoreTest, AHintThatTheFileSystemDoesNotKnowIsNoError) {
  const auto writer = Begin("f/object");
  ASSERT_TRUE(writer->WriteAt(0, AsBytes("abc")).ok());
  Fail(Call::kSyncFileRange, EINVAL);
  EXPECT_TRUE(writer->FlushHint(0, 3, true).ok());
  EXPECT_TRUE(writer->Commit().ok());
}

TEST_F(PosixStoreTest, FailedSyncsAndClosesGiveTheObjectUp) {
  for (const Call call : {Call::kFsync, Call::kClose, Call::kLink}) {
    const auto writer = Begin("f/object");
    ASSERT_TRUE(writer->WriteAt(0, AsBytes("abc")).ok());
    Fail(call, EDQUOT, "object");
    const Status status = writer->Commit();
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.ToString();
    EXPECT_EQ(status.errno_value(), EDQUOT);
    ExpectNothingThere("f/object");
    fs_.faults().Clear();
    EXPECT_FALSE(writer->Commit().ok()) << "nothing is retried";
    ExpectNothingThere("f/object");
  }
}

TEST_F(PosixStoreTest, WhatIsToBeReplacedStaysUntilTheNewOneIsDurable) {
  const auto content = [&] {
    std::array<std::byte, 3> read{};
    EXPECT_TRUE(store_->OpenObject("f/object").value()->ReadAt(0, read).ok());
    return std::string(AsText(read));
  };
  const auto first = Begin("f/object");
  ASSERT_TRUE(first->WriteAt(0, AsBytes("abc")).ok());
  ASSERT_TRUE(first->Commit().ok());
  for (const Call call : {Call::kFsync, Call::kClose, Call::kRename}) {
    const auto writer = Begin("f/object");
    ASSERT_TRUE(writer->WriteAt(0, AsBytes("def")).ok());
    Fail(call, EIO, "object");
    EXPECT_EQ(writer->Commit().errno_value(), EIO) << CallName(call);
    fs_.faults().Clear();
    EXPECT_EQ(content(), "abc") << CallName(call);
    EXPECT_TRUE(store_->ListTemporaries("", kOwner).value().empty());
  }
  bool is_published = false;
  for (uint64_t calls = 0; !is_published; ++calls) {
    const std::unique_ptr<SimulatedFileSystem> machine = fs_.Clone();
    {
      const auto store = MakePosixStore(*machine, {.path = "/store"});
      const auto writer = store->CreateObject("f/object", kOwner, 0).value();
      ASSERT_TRUE(writer->WriteAt(0, AsBytes("def")).ok());
      machine->faults().KillAfter(calls);
      is_published = writer->Commit().ok();
    }
    machine->Crash(calls);
    const auto after = MakePosixStore(*machine, {.path = "/store"});
    std::array<std::byte, 3> read{};
    ASSERT_TRUE(after->OpenObject("f/object").value()->ReadAt(0, read).ok());
    EXPECT_TRUE(AsText(read) == "def" || (!is_published && AsText(read) == "abc")) << "dies and the power goes at call " << calls;
  }
}

// As one has no links: it is synced and renamed.
TEST_F(PosixStoreTest, ObjectsNeedNoLinks) {
  FaultRule rule;
  rule.calls = CallsOf(Call::kLink);
  rule.count = os::testing::kForEver;
  rule.errno_value = EPERM;
  fs_.faults().Add(rule);
  const auto writer = Begin("f/object");
  ASSERT_TRUE(writer->WriteAt(0, AsBytes("abc")).ok());
  ASSERT_TRUE(writer->Commit().ok());
  fs_.Crash(1);
  store_ = MakePosixStore(fs_, {.path = "/store"});
  EXPECT_EQ(store_->OpenObject("f/object").value()->size_bytes(), 3u);
}

TEST_F(PosixStoreTest, AFailedSyncOfTheFolderTakesTheObjectBack) {
  const auto writer = Begin("f/object");
  ASSERT_TRUE(writer->WriteAt(0, AsBytes("abc")).ok());
  FaultRule rule;
  rule.calls = CallsOf(Call::kFsync);
  rule.skip = 1;
  rule.errno_value = EIO;
  fs_.faults().Add(rule);
  EXPECT_EQ(writer->Commit().errno_value(), EIO);
  ExpectNothingThere("f/object");
}

TEST_F(PosixStoreTest, AContributorReportsWhatItsSyncSays) {
  const auto writer = Begin("f/object");
  for (const Call call : {Call::kPwrite, Call::kFsync, Call::kClose}) {
    const auto contributor = store_->JoinObject(writer->handle()).value();
    Fail(call, EIO);
    const Status written = contributor->WriteAt(0, AsBytes("abc"));
    EXPECT_EQ(written.ok(), call != Call::kPwrite);
    EXPECT_EQ(contributor->Finish().errno_value(), EIO) << CallName(call);
    fs_.faults().Clear();
  }
}

TEST_F(PosixStoreTest, PublishingTogetherSyncsEachFolderOnce) {
  constexpr size_t kObjects = 8;
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  std::vector<ObjectWriter*> pointers;
  for (size_t i = 0; i < kObjects; ++i) {
    writers.push_back(Begin("f/data/r" + std::to_string(i)));
    pointers.push_back(writers.back().get());
    ASSERT_TRUE(writers.back()->WriteAt(0, AsBytes("abc")).ok());
  }
  const uint64_t before = fs_.faults().calls(Call::kFsync);
  for (const Status& status : store_->Publish(pointers)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(fs_.faults().calls(Call::kFsync) - before, kObjects + 1 + 3) << "and the store, f and data into their parents";
  const auto another = Begin("f/data/another");
  ASSERT_TRUE(another->Commit().ok());
  EXPECT_EQ(fs_.faults().calls(Call::kFsync) - before, kObjects + 1 + 3 + 2);
}

// On a file system that takes attributes of users as Lustre takes its own.
TEST(PosixStripes, AreSetBeforeAnObjectIsMade) {
  const os::testing::TemporaryFolder folder;
  setenv("KEDGE_TEST_STRIPING_ATTRIBUTE", "user.kedge-test", 1);
  const auto store =
      MakePosixStore(os::SystemFileSystem(), {.path = folder.path() + "/store", .stripe_targets = 4, .stripe_bytes = 1 << 20});
  const auto object = store->CreateObject("f/data/object", kOwner, 3);
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  const auto told = os::ReadStriping(folder.path() + "/store/f/data");
  const auto not_told = os::ReadStriping(folder.path() + "/store/f");
  unsetenv("KEDGE_TEST_STRIPING_ATTRIBUTE");
  if (told.status().code() == Code::kUnsupported) GTEST_SKIP() << folder.path() << " takes no attributes of users";
  ASSERT_TRUE(told.ok()) << told.status().ToString();
  EXPECT_EQ(*told, (os::Striping{1 << 20, 4, {}}));
  EXPECT_FALSE(not_told.ok());
}

TEST(PosixStripes, AreNoneWhereTheFileSystemHasNone) {
  const os::testing::TemporaryFolder folder;
  std::vector<Status> refused;
  const auto store = MakePosixStore(
      os::SystemFileSystem(),
      {.path = folder.path() + "/store", .stripe_targets = 4, .stripe_bytes = 1 << 20, .stripes_refused = [&](const Status& why) {
         refused.push_back(why);
       }});
  for (const char* key : {"f/data/one", "f/data/two", "g/data/three"}) {
    const auto object = store->CreateObject(key, kOwner, 3);
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    ASSERT_TRUE((*object)->WriteAt(0, AsBytes("abc")).ok());
    EXPECT_TRUE((*object)->Commit().ok());
  }
  ASSERT_EQ(refused.size(), 1u) << "it is said once";
  EXPECT_EQ(refused.front().code(), Code::kUnsupported);
}

// A record that follows on them is written in the same step, and is not seen before it is shown.
TEST_F(PosixStoreTest, ADraftIsWrittenBesideWhatItFollowsOn) {
  ASSERT_TRUE(store_->MakeFolder("f/parts").ok());
  const auto writer = Begin("f/data/object");
  ObjectWriter* const pointer = writer.get();
  auto draft = store_->Draft("f/parts/record", AsBytes("x"), kOwner, Folders::kMustExist);
  ASSERT_TRUE(draft.ok()) << draft.status().ToString();
  ASSERT_TRUE(store_->PublishBeside(draft->get(), std::span(&pointer, 1)).front().ok());
  EXPECT_EQ(store_->Get("f/parts/record", 10).status().code(), Code::kNotFound);
  const uint64_t before = fs_.faults().calls(Call::kFsync);
  ASSERT_TRUE(store_->Show(**draft).ok());
  EXPECT_EQ(fs_.faults().calls(Call::kFsync), before);
  const std::string key = "f/parts/record";
  ASSERT_TRUE(store_->EnsureDurable(std::span(&key, 1)).ok());
  fs_.Crash(1);
  store_ = MakePosixStore(fs_, {.path = "/store"});
  EXPECT_EQ(store_->Get(key, 10).value().size(), 1u);
}

TEST_F(PosixStoreTest, ADraftWhoseSyncFailsIsNeverShown) {
  ASSERT_TRUE(store_->MakeFolder("f").ok());
  auto draft = store_->Draft("f/record", AsBytes("x"), kOwner, Folders::kMustExist).value();
  Fail(Call::kFsync, EIO, "record");
  EXPECT_TRUE(store_->EnsureDurableBeside(draft.get(), {}).ok()) << "it is not the draft's";
  EXPECT_EQ(store_->Show(*draft).errno_value(), EIO) << "also now that a sync would say ok";
  draft = nullptr;
  ExpectNothingThere("f/record");
}

TEST_F(PosixStoreTest, ADraftOutlivesItsTemporary) {
  ASSERT_TRUE(store_->MakeFolder("f").ok());
  const auto draft = store_->Draft("f/record", AsBytes("x"), kOwner, Folders::kMustExist).value();
  for (const Temporary& one : store_->ListTemporaries("", kOwner).value()) {
    ASSERT_TRUE(store_->RemoveTemporary(one.handle).ok());
  }
  EXPECT_TRUE(store_->Show(*draft).ok());
  EXPECT_EQ(store_->Get("f/record", 10).value().size(), 1u);
}

TEST_F(PosixStoreTest, FoldersAreSyncedOnceByEachProcess) {
  ASSERT_TRUE(store_->PutIfAbsent("f/g/one", {}, kOwner, Folders::kCreate).ok());
  const uint64_t before = fs_.faults().calls(Call::kFsync);
  ASSERT_TRUE(store_->PutIfAbsent("f/g/two", {}, kOwner, Folders::kCreate).ok());
  EXPECT_EQ(fs_.faults().calls(Call::kFsync) - before, 2u) << "the record and its folder";
  const auto other = MakePosixStore(fs_, {.path = "/store"});
  ASSERT_TRUE(other->PutIfAbsent("f/g/three", {}, kOwner, Folders::kMustExist).ok());
  EXPECT_EQ(fs_.faults().calls(Call::kFsync) - before, 2u + 2u + 3u) << "and the store, f and g into their parents";
}

TEST_F(PosixStoreTest, ListsOfTemporariesPassOverForeignNames) {
  ASSERT_TRUE(store_->MakeFolder("f").ok());
  for (const char* name : {"/store/f/x.notatag.0123456789abcdef.tmp", "/store/f/x.tmp", "/store/f/x.a-b-c.zz.tmp"}) {
    ASSERT_TRUE(os::WriteFileDurably(fs_, name, "x", "tag").ok());
  }
  EXPECT_TRUE(store_->ListTemporaries("", kOwner).value().empty());
}

TEST(PosixStoreRoot, IsMadeOnceAsFarAsAsked) {
  for (const RootMaking making : {RootMaking::kNever, RootMaking::kLast, RootMaking::kParents}) {
    SimulatedFileSystem fs;
    const auto make = [&](const std::string& path) {
      const auto store = MakePosixStore(fs, {.path = path, .making = making});
      return store->PutIfAbsent("record", {}, kOwner, Folders::kCreate);
    };
    EXPECT_EQ(make("/store").ok(), making != RootMaking::kNever);
    const Status deep = make("/scratch/user/store");
    EXPECT_EQ(deep.ok(), making == RootMaking::kParents) << deep.ToString();
    if (deep.ok()) continue;
    EXPECT_EQ(deep.code(), Code::kNotFound);
    EXPECT_FALSE(os::Exists(fs, "/scratch").value());
    if (making != RootMaking::kLast) continue;
    EXPECT_NE(deep.message().find("/scratch/user"), std::string::npos) << deep.ToString();
    EXPECT_NE(deep.message().find("store.create"), std::string::npos) << deep.ToString();
  }
}

// Whoever has read in it or made it does not make it again.
TEST(PosixStoreRoot, IsNotMadeAnewAfterItWasSeen) {
  SimulatedFileSystem fs;
  const auto maker = MakePosixStore(fs, {.path = "/store"});
  ASSERT_TRUE(maker->PutIfAbsent("record", {}, kOwner, Folders::kCreate).ok());
  const auto reader = MakePosixStore(fs, {.path = "/store"});
  ASSERT_TRUE(reader->Get("record", 10).ok());
  ASSERT_TRUE(fs.Rename("/store", "/away").ok());
  for (const auto* store : {&maker, &reader}) {
    EXPECT_EQ((*store)->PutIfAbsent("other", {}, kOwner, Folders::kCreate).code(), Code::kNotFound);
    EXPECT_EQ((*store)->MakeFolder("f").code(), Code::kNotFound);
    EXPECT_EQ((*store)->CreateObject("f/object", kOwner, 0).status().code(), Code::kNotFound);
    EXPECT_FALSE(os::Exists(fs, "/store").value());
  }
}

// Between the look whether this is the store and what is made for a version.
TEST(PosixStoreRoot, AnotherFolderInItsPlaceIsLeftAsItIsUntilSomethingWasReadThere) {
  SimulatedFileSystem fs;
  const auto store = MakePosixStore(fs, {.path = "/store"});
  ASSERT_TRUE(store->PutIfAbsent("record", AsBytes("x"), kOwner, Folders::kCreate).ok());
  ASSERT_TRUE(store->Get("record", 10).ok());
  ASSERT_TRUE(fs.Rename("/store", "/away").ok());
  ASSERT_TRUE(fs.Mkdir("/store").ok());
  EXPECT_EQ(store->PutIfAbsent("folder/key", AsBytes("x"), kOwner, Folders::kCreate).errno_value(), ENOENT);
  EXPECT_TRUE(fs.List("/store")->empty()) << "it would be taken for the store";
  // It failed over to a copy.
  const auto other = MakePosixStore(fs, {.path = "/store"});
  ASSERT_TRUE(other->PutIfAbsent("record", AsBytes("x"), kOwner, Folders::kCreate).ok());
  ASSERT_TRUE(store->Get("record", 10).ok());
  EXPECT_TRUE(store->PutIfAbsent("folder/key", AsBytes("x"), kOwner, Folders::kCreate).ok());
}

TEST(PosixStoreModes, ArePrivateUnlessAskedOtherwise) {
  const os::testing::TemporaryFolder folder;
  os::FileSystem& fs = os::SystemFileSystem();
  const auto modes = [&](const std::string& name, uint32_t file_mode, uint32_t folder_mode) {
    const std::string path = folder / name;
    const auto store = MakePosixStore(fs, {.path = path, .file_mode = file_mode, .folder_mode = folder_mode});
    auto writer = store->CreateObject("f/object", kOwner, 0).value();
    EXPECT_TRUE(writer->Commit().ok());
    EXPECT_TRUE(store->PutIfAbsent("f/record", {}, kOwner, Folders::kCreate).ok());
    EXPECT_TRUE(store->Replace("f/other", {}, kOwner, Folders::kCreate).ok());
    std::vector<uint32_t> found;
    for (const char* key : {"", "/f", "/f/object", "/f/record", "/f/other"}) found.push_back(fs.Stat(path + key)->mode);
    return found;
  };
  EXPECT_EQ(modes("private", 0600, 0700), (std::vector<uint32_t>{0700, 0700, 0600, 0600, 0600}));
  EXPECT_EQ(modes("group", 0660, 0770), (std::vector<uint32_t>{0770, 0770, 0660, 0660, 0660})) << "whatever the umask";
}

// A root that another user may have made for us.
class PlantedStoreRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!os::testing::CanPlayAnotherUser()) GTEST_SKIP() << "only root can be several users";
  }
  // What writing and reading there say.
  static std::vector<Status> Use(const std::string& path) {
    const auto writer = MakePosixStore(os::SystemFileSystem(), {.path = path});
    const auto reader = MakePosixStore(os::SystemFileSystem(), {.path = path});
    const Status got = reader->Get("other", 100).status();
    return {writer->Replace("record", AsBytes("x"), kOwner, Folders::kCreate),
            got.code() == Code::kNotFound ? Status::Ok() : got};
  }
  static void ExpectUsed(const std::string& path) {
    for (const Status& status : Use(path)) EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(os::Exists(os::SystemFileSystem(), path + "/record").value());
  }
  static void ExpectRefused(const std::string& path, const std::string& part) {
    for (const Status& status : Use(path)) {
      EXPECT_EQ(status.code(), Code::kPermission) << status.ToString();
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
  }
  const os::testing::SharedFolder shared_;
  const os::testing::TemporaryFolder ours_;
};

TEST_F(PlantedStoreRoot, OfAnotherUserIsRefusedWhereEverybodyMayMakeOne) {
  const std::string his = shared_ / "store";
  ASSERT_TRUE(os::testing::AsAnotherUser([&] { return mkdir(his.c_str(), 0777) == 0; }));
  ASSERT_EQ(symlink(his.c_str(), (ours_ / "link").c_str()), 0);
  for (const std::string& path : {his, ours_ / "link"}) ExpectRefused(path, his + " belongs to user 65534 (mode 0777)");
  EXPECT_TRUE(os::SystemFileSystem().List(his)->empty());
}

TEST_F(PlantedStoreRoot, BehindALinkOfAnotherUserIsRefused) {
  const std::string his = shared_ / "store";
  ASSERT_TRUE(os::testing::AsAnotherUser([&] { return symlink(ours_.path().c_str(), his.c_str()) == 0; }));
  ExpectRefused(his, his + " is a symbolic link of user 65534");
  EXPECT_TRUE(os::SystemFileSystem().List(ours_.path())->empty());
  ExpectRefused(his + "/below", his + " is a symbolic link of user 65534");
}

TEST_F(PlantedStoreRoot, MayBeOfThisUserOrOfWhoeverOwnsTheFolderAbove) {
  ExpectUsed(shared_ / "ours");
  ASSERT_EQ(symlink((shared_ / "ours").c_str(), (shared_ / "link").c_str()), 0);
  ExpectUsed(shared_ / "link");
  // A project's folder and store: everybody may write there, or its members alone.
  constexpr uid_t kLeader = 12345;
  const std::string project = shared_ / "project";
  for (const std::string& folder : {project, project + "/store"}) {
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
    ASSERT_EQ(chown(folder.c_str(), kLeader, kLeader), 0);
  }
  ASSERT_EQ(chmod(project.c_str(), 0777), 0);
  ExpectUsed(project + "/store");
  ASSERT_EQ(chmod(project.c_str(), 0770), 0);
  ASSERT_EQ(chown((project + "/store").c_str(), os::testing::kOtherUser, os::testing::kOtherUser), 0);
  ExpectUsed(project + "/store");
  ExpectUsed(project + "/new");
}

// Whoever may write in a shared store puts a link in the place of a folder: what is removed behind it would not be the store's.
TEST(PosixStoreRemoval, FollowsNoLinkBelowTheRoot) {
  const os::testing::TemporaryFolder folder;
  os::FileSystem& fs = os::SystemFileSystem();
  const std::string temporary = os::BaseName(os::TemporaryPath("f", "node1-1-agent"));
  ASSERT_TRUE(os::MakeFolders(fs, folder / ("elsewhere/" + temporary + "/deep")).ok());
  ASSERT_TRUE(os::MakeFolders(fs, folder / "store").ok());
  ASSERT_EQ(symlink((folder / "store").c_str(), (folder / "root").c_str()), 0);
  ASSERT_EQ(symlink((folder / "elsewhere").c_str(), (folder / "store/jobs").c_str()), 0);
  const auto store = MakePosixStore(fs, {.path = folder / "root"});
  EXPECT_FALSE(store->RemoveTemporary("jobs/" + temporary).ok());
  EXPECT_TRUE(os::Exists(fs, folder / ("elsewhere/" + temporary + "/deep")).value());
  // A root that is a link is meant, and its folders are removed.
  ASSERT_TRUE(os::MakeFolders(fs, folder / "store/names/1/data").ok());
  EXPECT_TRUE(store->RemoveFolder("names/1", "", kOwner).ok());
  EXPECT_TRUE(fs.List(folder / "store/names")->empty());
}

}  // namespace
}  // namespace kedge

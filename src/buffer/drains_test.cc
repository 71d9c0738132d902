// A burst buffer that drains its owners' stores: where to, in which order, what leaves it, and what is tried again.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "buffer/testing/local_server.h"
#include "store/drained/drained_store.h"
#include "store/drained/mirror.h"
#include "store/posix/posix_store.h"
#include "store/retention.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::buffer {
namespace {

using namespace std::chrono_literals;
using ::kedge::testing::CheckVersion;
using ::kedge::testing::MakerOptions;
using ::kedge::testing::TakeVersion;
using testing::LocalServer;

const TemporaryOwner kProgram{"node1", 1, "agent"};
const MakerOptions kDrainedImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {70000, 9}, .chunk_bytes = 8192, .piece_bytes = 8192};

class DrainsTest : public ::testing::Test {
 protected:
  DrainsTest() : server_(os::PrivateFileSystem(), {.drains = {{"alice", place_.path()}}}) { See(); }

  std::string Target() const { return place_ / "store"; }
  // As a program does that begins.
  void See() {
    buffer_ = server_.Open("ckpt");
    store_ = MakePosixStore(os::SystemFileSystem(), {.path = Target()});
    both_ = MakeDrainedStore(buffer_, store_);
    catalog_ = Catalog::OpenOrCreate(*both_, kProgram).value();
  }
  Generation At(int64_t version, const std::string& name = "grid") const { return {catalog_->id(), "job", name, version, 1, 1}; }
  void Take(int64_t version, const std::string& name = "grid") {
    const Status taken = TakeVersion(*catalog_, At(version, name), kDrainedImages);
    ASSERT_TRUE(taken.ok()) << taken.ToString();
  }
  bool IsWholeInStore(int64_t version, const std::string& name = "grid") const {
    const Result<Catalog> alone = Catalog::Open(*store_, kProgram);
    return alone.ok() && CheckVersion(*alone, At(version, name)).ok();
  }
  bool IsOnBuffer(int64_t version) const {
    return std::filesystem::exists(server_.StorePath("ckpt") + "/" + keys::GenerationFolder(At(version)));
  }
  // To the store, as the server of the same versions does.
  void BringAsAnother(int64_t version) {
    const auto mirror = Mirror::Open(*buffer_, *store_, *both_, {"buffer-other", 0, "drain"}, {});
    ASSERT_TRUE(mirror.ok()) << mirror.status().ToString();
    uint64_t bytes = 0;
    const Status brought = mirror->Bring(At(version), &bytes);
    ASSERT_TRUE(brought.ok()) << brought.ToString();
  }
  Json Drain() const { return Json::parse(server_.Describe())["owners"][0]["drains"].at(0); }
  static ::testing::AssertionResult Comes(const std::function<bool()>& holds) {
    for (int i = 0; i < 1500; ++i) {
      if (holds()) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(20ms);
    }
    return ::testing::AssertionFailure() << "it did not come true in time";
  }
  std::string LastError() const { return Drain()["last_error"].get<std::string>(); }
  // What lies in the owner's stores, by the disk.
  uint64_t BytesOnDisk() const { return BytesBelow(os::PrivateFileSystem(), server_.Path() + "/owners/alice/stores").value(); }
  void FlipByte(const std::string& path) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(3000);
    const int byte = file.get();
    file.seekp(3000);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.flush().good()) << path;
  }

  os::testing::TemporaryFolder place_;
  LocalServer server_;
  std::shared_ptr<Store> buffer_, store_;
  std::unique_ptr<Store> both_;
  std::optional<Catalog> catalog_;
};

TEST_F(DrainsTest, VersionsAreBroughtToTheStoreAndLeaveTheBuffer) {
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  for (const int64_t version : {1, 2, 3}) Take(version);
  Take(1, "other");
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(3) && IsWholeInStore(1, "other") && !IsOnBuffer(2); }));
  EXPECT_TRUE(IsWholeInStore(1) && IsWholeInStore(2));
  EXPECT_FALSE(IsOnBuffer(1));
  EXPECT_TRUE(IsOnBuffer(3)) << "the newest stays for a restart";
  for (const int64_t version : {1, 2, 3}) EXPECT_TRUE(CheckVersion(*catalog_, At(version)).ok()) << version;
  EXPECT_TRUE(Comes([&] { return Drain()["drained_versions"] == 4; }));
  EXPECT_TRUE(Comes([&] { return server_.UsedBytes() == BytesOnDisk(); })) << server_.UsedBytes() << ' ' << BytesOnDisk();
  const Json said = Drain();
  EXPECT_EQ(said["store"], "ckpt");
  EXPECT_EQ(said["target"], Target());
  EXPECT_EQ(said["waiting_versions"], 0);
  EXPECT_EQ(said["last_error"], "");
  EXPECT_GT(said["drained_bytes"], 4 * 2 * 70000);
  EXPECT_GT(said["bytes_per_second"], 0);
}

TEST_F(DrainsTest, APartnerDrainsWhatTheOtherDoesNot) {
  ASSERT_TRUE(DrainTo(*buffer_, Target(), Drainer::kPartner).ok());
  // What the other one has brought is not brought again, and leaves.
  Take(1);
  Take(2);
  for (const int64_t version : {1, 2}) BringAsAnother(version);
  EXPECT_TRUE(Comes([&] { return Drain()["waiting_versions"] == 0 && !IsOnBuffer(1); }));
  EXPECT_EQ(Drain()["drained_versions"], 0);
  EXPECT_TRUE(IsOnBuffer(2));
  // What has waited long enough is.
  Take(3);
  EXPECT_FALSE(IsWholeInStore(3)) << "it waits";
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(3) && !IsOnBuffer(2); }));
  EXPECT_EQ(Drain()["drained_versions"], 1);
}

TEST_F(DrainsTest, OnlyWhatTheOperatorAllowsIsWrittenTo) {
  const Status elsewhere = DrainTo(*buffer_, "/elsewhere");
  EXPECT_EQ(elsewhere.code(), Code::kPermission);
  EXPECT_NE(elsewhere.message().find("--drain alice:"), std::string::npos) << elsewhere.message();
  EXPECT_EQ(DrainTo(*buffer_, place_.path() + "-not").code(), Code::kPermission);
  EXPECT_EQ(DrainTo(*buffer_, place_ / "a/../../b").code(), Code::kInvalidArgument);
  EXPECT_EQ(DrainTo(*buffer_, "bb://other/x").code(), Code::kInvalidArgument);
  EXPECT_EQ(Json::parse(server_.Describe())["owners"][0]["drains"].size(), 0u);
}

TEST_F(DrainsTest, APrefixIsDrainedToOneStore) {
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok()) << "again";
  for (const bool again : {false, true}) {
    if (again) server_.Stop(), server_.Start();
    const Status other = DrainTo(*server_.Open("ckpt"), place_ / "other");
    EXPECT_EQ(other.code(), Code::kMismatch);
    EXPECT_NE(other.message().find(Target()), std::string::npos) << other.message();
    EXPECT_NE(other.message().find(place_ / "other"), std::string::npos) << other.message();
  }
  EXPECT_TRUE(DrainTo(*server_.Open("ckpt2"), place_ / "other").ok());
}

TEST_F(DrainsTest, AServerThatIsStartedAgainGoesOn) {
  Take(1);
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  ASSERT_TRUE(Comes([&] { return IsWholeInStore(1); }));
  server_.Stop();
  server_.Start();
  See();
  Take(2);
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(2) && !IsOnBuffer(1); }));
}

TEST_F(DrainsTest, AStoreThatIsAwayIsWaitedFor) {
  Take(1);
  Take(2);
  std::filesystem::rename(Target(), place_ / "away");
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  EXPECT_TRUE(Comes([&] { return !LastError().empty(); }));
  EXPECT_TRUE(IsOnBuffer(1) && IsOnBuffer(2));
  // What an unmounted file system leaves is not taken for the store.
  std::filesystem::create_directory(Target());
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(std::filesystem::is_empty(Target()));
  EXPECT_FALSE(LastError().empty());
  std::filesystem::remove(Target());
  std::filesystem::rename(place_ / "away", Target());
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(1) && IsWholeInStore(2) && LastError().empty(); }));
}

TEST_F(DrainsTest, ACorruptVersionStaysAndIsTold) {
  Take(1);
  Take(2);
  const std::string path = server_.StorePath("ckpt") + "/" + keys::ImageKey(At(1), 1);
  FlipByte(path);
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(2) && Drain()["waiting_versions"] == 1; }));
  EXPECT_NE(LastError().find("corrupt"), std::string::npos) << LastError();
  EXPECT_TRUE(IsOnBuffer(1));
  EXPECT_FALSE(std::filesystem::exists(Target() + "/" + keys::GenerationFolder(At(1))));
  EXPECT_GT(Drain()["waiting_bytes"], 2 * 70000);
  FlipByte(path);
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(1) && LastError().empty(); }));
}

TEST_F(DrainsTest, ObjectsOfRemovedVersionsLeaveWhenTheStoreHasThem) {
  const MakerOptions one{.ranks = 1, .ranks_per_part = 1, .region_bytes = {70000}, .chunk_bytes = 8192, .piece_bytes = 8192};
  ASSERT_TRUE(TakeVersion(*catalog_, At(1), one).ok());
  ASSERT_TRUE(::kedge::testing::TakeOnTop(*catalog_, At(2), At(1)).ok());
  ASSERT_TRUE(RemoveVersion(*catalog_, At(1), {}).ok());
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(2) && !IsOnBuffer(1); }));
  EXPECT_TRUE(CheckVersion(*catalog_, At(2)).ok());
  EXPECT_TRUE(Comes([&] { return server_.UsedBytes() == BytesOnDisk(); }));
}

// Versions are removed as they come, while they are brought.
TEST_F(DrainsTest, WhatRetentionHasTakenIsInNeitherStore) {
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  constexpr int64_t kLast = 25;
  for (int64_t version = 1; version <= kLast; ++version) {
    Take(version);
    const Status retained = ApplyRetention(*catalog_, "job", "grid", {2, {}}, nullptr);
    ASSERT_TRUE(retained.ok()) << retained.ToString();
  }
  EXPECT_TRUE(Comes([&] { return IsWholeInStore(kLast) && IsWholeInStore(kLast - 1) && !IsOnBuffer(kLast - 1); }));
  EXPECT_TRUE(Comes([&] { return Drain()["waiting_versions"] == 0; }));
  const Catalog alone = Catalog::Open(*store_, kProgram).value();
  EXPECT_EQ(ListGenerations(alone, "job", "grid").value(), (std::vector<Generation>{At(kLast - 1), At(kLast)}));
  EXPECT_EQ(ListGenerations(*catalog_, "job", "grid").value(), (std::vector<Generation>{At(kLast - 1), At(kLast)}));
  EXPECT_TRUE(Comes([&] { return server_.UsedBytes() == BytesOnDisk(); })) << server_.UsedBytes() << ' ' << BytesOnDisk();
}

TEST_F(DrainsTest, WhatIsNoLongerAllowedIsNotWrittenTo) {
  ASSERT_TRUE(DrainTo(*buffer_, Target()).ok());
  Take(1);
  ASSERT_TRUE(Comes([&] { return IsWholeInStore(1); }));
  server_.Stop();
  server_.Forbid();
  server_.Start();
  See();
  Take(2);
  EXPECT_NE(LastError().find("--drain alice:"), std::string::npos) << LastError();
  std::this_thread::sleep_for(200ms);
  EXPECT_FALSE(IsWholeInStore(2));
  EXPECT_TRUE(IsOnBuffer(2));
}

}  // namespace
}  // namespace kedge::buffer

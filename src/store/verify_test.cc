// Verification finds every flipped byte, and a copy is whole or not there.
#include "store/verify.h"

#include <gtest/gtest.h>

#include <cstring>

#include "os/testing/simulated_file_system.h"
#include "store/copy.h"
#include "store/posix/posix_store.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using testing::CheckVersion;
using testing::MakerOptions;
using testing::TakeVersion;

class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest()
      : store_(MakePosixStore(fs_, {.path = "/store"})),
        target_store_(MakePosixStore(target_fs_, {.path = "/target"})),
        catalog_(Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value()),
        target_(Catalog::OpenOrCreate(*target_store_, {"login", 0, "copy"}).value()),
        generation_{catalog_.id(), "job", "wave", 7, 3, 2} {
    EXPECT_TRUE(TakeVersion(catalog_, generation_, options_).ok());
  }
  Buffer Read(const std::string& key) {
    const auto object = store_->OpenObject(key).value();
    Buffer bytes(object->size_bytes());
    EXPECT_TRUE(object->ReadAt(0, bytes).ok());
    return bytes;
  }
  void Write(const std::string& key, ByteSpan bytes) {
    const auto writer = store_->CreateObject(key, {}, 0).value();
    ASSERT_TRUE(writer->WriteAt(0, bytes).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  Generation Copied() const {
    Generation copied = generation_;
    copied.store_id = target_.id();
    return copied;
  }

  os::testing::SimulatedFileSystem fs_;
  os::testing::SimulatedFileSystem target_fs_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Store> target_store_;
  Catalog catalog_;
  Catalog target_;
  Generation generation_;
  MakerOptions options_{.ranks = 3, .ranks_per_part = 2};
};

TEST_F(VerifyTest, AGoodVersionHasNoProblems) {
  for (const uint64_t buffer_bytes : {7u, 4096u, 1u << 20}) {
    VerifyOptions options;
    options.buffer_bytes = buffer_bytes;
    uint32_t ranks_seen = 0;
    options.progress = [&](const VerifyProgress& progress) {
      EXPECT_LE(progress.bytes_done, progress.bytes_total);
      EXPECT_EQ(progress.ranks, 3u);
      ranks_seen = progress.ranks_done;
      return true;
    };
    const auto report = VerifyVersion(catalog_, generation_, options);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->problems.empty()) << report->problems.front().what;
    EXPECT_EQ(report->bytes, 3u * 5077);
    EXPECT_EQ(report->ranks, 3u);
    EXPECT_EQ(ranks_seen, 3u);
  }
}

TEST_F(VerifyTest, EveryFlippedByteIsFound) {
  const std::string key = keys::ImageKey(generation_, 1);
  const StoredImage image = ReadImage(catalog_, generation_, 1).value();
  const Buffer good = Read(key);
  for (size_t at = 0; at < good.size(); at += at < 64 ? 1 : 41) {
    const bool padding = [&] {
      for (const Chunk& chunk : image.record.chunks) {
        if (at >= chunk.object_offset && at < chunk.object_offset + chunk.bytes) return false;
      }
      return at < image.entry.record_offset;
    }();
    Buffer bad = good;
    bad[at] ^= std::byte{0x10};
    Write(key, bad);
    const auto report = VerifyVersion(catalog_, generation_, {.buffer_bytes = 1000, .progress = {}});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    ASSERT_EQ(report->problems.size(), padding ? 0u : 1u) << "byte " << at;
    if (padding) continue;
    EXPECT_EQ(report->problems[0].rank, 1u);
    EXPECT_NE(report->problems[0].what.find(key), std::string::npos) << report->problems[0].what;
    EXPECT_EQ(CopyVersion(catalog_, generation_, target_, {}).code(), Code::kCorrupt) << "byte " << at;
    EXPECT_FALSE(InspectGeneration(target_, Copied()).ok() && InspectGeneration(target_, Copied())->complete);
  }
}

TEST_F(VerifyTest, TruncatedAndMissingObjectsAreProblems) {
  const std::string key = keys::ImageKey(generation_, 2);
  const Buffer good = Read(key);
  Write(key, ByteSpan(good).first(100));
  EXPECT_EQ(VerifyVersion(catalog_, generation_, {}).value().problems.size(), 1u);
  ASSERT_TRUE(store_->Remove(key).ok());
  const auto report = VerifyVersion(catalog_, generation_, {});
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(report->problems[0].rank, 2u);
  ASSERT_TRUE(store_->Remove(keys::PartKey(generation_, 2, 1)).ok());
  EXPECT_EQ(VerifyVersion(catalog_, generation_, {}).status().code(), Code::kIncomplete);
}

TEST_F(VerifyTest, TheCallerMayStop) {
  VerifyOptions options;
  options.buffer_bytes = 100;
  options.progress = [](const VerifyProgress& progress) { return progress.bytes_done < 500; };
  const auto report = VerifyVersion(catalog_, generation_, options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->bytes, 500u);
}

TEST_F(VerifyTest, ACopyIsAVersionOfItsOwn) {
  const Status status = CopyVersion(catalog_, generation_, target_, {.buffer_bytes = 1000, .progress = {}});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(CheckVersion(target_, Copied()).ok());
  EXPECT_TRUE(VerifyVersion(target_, Copied(), {}).value().problems.empty());
  EXPECT_EQ(NewestAtOrBelow(target_, "job", "wave", -1).value().generation, Copied());
  EXPECT_EQ(ReadImage(target_, Copied(), 0)->record.identity.generation.store_id, target_.id());
  EXPECT_EQ(CopyVersion(catalog_, generation_, target_, {}).code(), Code::kAlreadyExists);
  EXPECT_EQ(CopyVersion(catalog_, {catalog_.id(), "job", "wave", 8, 3, 2}, target_, {}).code(), Code::kNotFound);
}

TEST_F(VerifyTest, ACopyBringsAlongWhatLiesElsewhere) {
  // Version 8 of rank 0 has its blocks in version 7's object.
  options_ = {.ranks = 1, .ranks_per_part = 1};
  Generation on_top = generation_;
  on_top.version = 8;
  Generation base = generation_;
  base.name = "single";
  on_top.name = "single";
  ASSERT_TRUE(TakeVersion(catalog_, base, options_).ok());
  ASSERT_TRUE(testing::TakeOnTop(catalog_, on_top, base).ok());
  ASSERT_TRUE(VerifyVersion(catalog_, on_top, {}).value().problems.empty());

  ASSERT_TRUE(CopyVersion(catalog_, on_top, target_, {}).ok());
  Generation copied = on_top;
  copied.store_id = target_.id();
  EXPECT_TRUE(VerifyVersion(target_, copied, {}).value().problems.empty());
  EXPECT_FALSE(ReadImage(target_, copied, 0)->map.has_value());
  EXPECT_TRUE(ReadVersionRecord(target_, copied)->references.empty());
  EXPECT_EQ(VerifyVersion(target_, copied, {}).value().bytes, 5077u);
}

TEST_F(VerifyTest, AFullTargetSaysSoAndWorksOnceThereIsSpace) {
  target_fs_.SetCapacity(target_fs_.UsedBytes() + 20000);
  const Status status = CopyVersion(catalog_, generation_, target_, {});
  EXPECT_EQ(status.code(), Code::kNoSpace) << status.ToString();
  EXPECT_EQ(status.errno_value(), ENOSPC);
  EXPECT_TRUE(target_store_->ListTemporaries("", {}).value().empty());
  target_fs_.SetCapacity(1 << 30);
  EXPECT_TRUE(CopyVersion(catalog_, generation_, target_, {}).ok());
  EXPECT_TRUE(CheckVersion(target_, Copied()).ok());
}

TEST_F(VerifyTest, AStoppedCopyLeavesNothing) {
  CopyOptions options;
  options.buffer_bytes = 100;
  options.progress = [](const VerifyProgress& progress) { return progress.bytes_done < 6000; };
  EXPECT_EQ(CopyVersion(catalog_, generation_, target_, options).code(), Code::kTimeout);
  EXPECT_TRUE(target_store_->ListTemporaries("", {}).value().empty());
  EXPECT_TRUE(target_store_->List(keys::GenerationFolder(Copied()) + "/data").value().empty());
}

}  // namespace
}  // namespace kedge

#include "os/files/striping.h"

#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

// The attribute as lustre_user.h lays it out, byte by byte.
class LovBytes {
 public:
  template <typename T>
  LovBytes& Put(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
    return *this;
  }
  LovBytes& Zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  LovBytes& Append(const LovBytes& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& get() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// lov_user_md_v1, or _v3 with the name of a pool, and a lov_user_ost_data_v1 for each target.
LovBytes LovOf(uint32_t magic, uint32_t stripe_bytes, uint16_t count, const std::vector<uint32_t>& targets) {
  LovBytes bytes;
  bytes.Put(magic).Put(uint32_t{1}).Zeros(16).Put(stripe_bytes).Put(count).Put(uint16_t{0});
  if (magic != 0x0bd10bd0) bytes.Zeros(16);
  for (const uint32_t target : targets) bytes.Zeros(16).Put(uint32_t{0}).Put(target);
  return bytes;
}

LovBytes LovOfComponents(const std::vector<LovBytes>& blobs) {
  LovBytes bytes, tail;
  const auto entries_end = static_cast<uint32_t>(32 + 48 * blobs.size());
  bytes.Put(uint32_t{0x0bd60bd0}).Put(uint32_t{0}).Put(uint32_t{1}).Put(uint16_t{0});
  bytes.Put(static_cast<uint16_t>(blobs.size())).Zeros(16);
  for (const LovBytes& blob : blobs) {
    bytes.Put(uint32_t{1}).Put(uint32_t{0}).Zeros(16).Put(static_cast<uint32_t>(entries_end + tail.size()));
    bytes.Put(static_cast<uint32_t>(blob.size())).Zeros(16);
    tail.Append(blob);
  }
  return bytes.Append(tail);
}

Striping DecodedLov(const LovBytes& bytes) {
  auto striping = DecodeStriping(bytes.get());
  EXPECT_TRUE(striping.ok()) << striping.status().ToString();
  return striping.ok() ? *striping : Striping();
}

TEST(StripingTest, OfAFileIsRead) {
  EXPECT_EQ(DecodedLov(LovOf(0x0bd10bd0, 1 << 20, 3, {7, 2, 11})), (Striping{1 << 20, 3, {7, 2, 11}}));
  EXPECT_EQ(DecodedLov(LovOf(0x0bd30bd0, 4 << 20, 2, {0, 5})), (Striping{4 << 20, 2, {0, 5}})) << "of a pool";
}

TEST(StripingTest, OfAFolderIsWhatItsFilesAreToHave) {
  EXPECT_EQ(DecodedLov(LovOf(0x0bd10bd0, 1 << 20, 4, {})), (Striping{1 << 20, 4, {}}));
  EXPECT_EQ(DecodedLov(LovOf(0x0bd10bd0, 1 << 20, 0xffff, {})), (Striping{1 << 20, Striping::kAllTargets, {}}));
  EXPECT_EQ(DecodedLov(LovOf(0x0bd30bd0, 0, 0, {})), Striping());
}

TEST(StripingTest, OfComponentsIsTheLast) {
  const LovBytes first = LovOf(0x0bd10bd0, 1 << 20, 1, {3}), last = LovOf(0x0bd30bd0, 16 << 20, 4, {1, 2, 3, 4});
  EXPECT_EQ(DecodedLov(LovOfComponents({first, last})), (Striping{16 << 20, 4, {1, 2, 3, 4}}));
  EXPECT_EQ(DecodedLov(LovOfComponents({first})), (Striping{1 << 20, 1, {3}}));
}

TEST(StripingTest, WhatIsCutShortOrMakesNoSenseIsRefused) {
  for (const LovBytes& whole : {LovOf(0x0bd10bd0, 1 << 20, 3, {7, 2, 11}),
                                LovOfComponents({LovOf(0x0bd10bd0, 1 << 20, 1, {3}), LovOf(0x0bd30bd0, 16 << 20, 2, {1, 2})})}) {
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const auto striping = DecodeStriping(std::span<const std::byte>(whole.get()).first(bytes));
      // Where all targets are missing it is a folder's.
      EXPECT_TRUE(!striping.ok() || striping->on.empty()) << bytes;
    }
  }
  EXPECT_EQ(DecodeStriping(LovOf(0x0bd20bd0, 1, 1, {}).get()).status().code(), Code::kCorrupt);
  EXPECT_EQ(DecodeStriping(LovOfComponents({}).get()).status().code(), Code::kCorrupt);
  LovBytes beyond;
  beyond.Put(uint32_t{0x0bd60bd0}).Put(uint32_t{0}).Put(uint32_t{1}).Put(uint16_t{0}).Put(uint16_t{1}).Zeros(16);
  beyond.Zeros(24).Put(UINT32_MAX).Put(UINT32_MAX).Zeros(16);
  EXPECT_EQ(DecodeStriping(beyond.get()).status().code(), Code::kCorrupt);
}

TEST(StripingTest, WhatAFolderIsToldIsReadAsTheSame) {
  const std::vector<std::byte> bytes = EncodeStriping({4 << 20, 8, {}});
  EXPECT_EQ(bytes, LovBytes()
                       .Put(uint32_t{0x0bd10bd0})
                       .Put(uint32_t{1})
                       .Zeros(16)
                       .Put(uint32_t{4 << 20})
                       .Put(uint16_t{8})
                       .Put(uint16_t{0xffff})
                       .get());
  for (const Striping& striping : {Striping{4 << 20, 8, {}}, Striping{0, Striping::kAllTargets, {}}, Striping{64 << 10, 0, {}}}) {
    const auto read = DecodeStriping(EncodeStriping(striping));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, striping);
  }
}

class StripingOf : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Disk, StripingOf, ::testing::Values("/tmp", "/dev/shm"),
                         [](const auto& folder) { return std::string(folder.param) == "/tmp" ? "Tmp" : "Shm"; });

// No machine that these tests run on has Lustre.
TEST_P(StripingOf, AFileSystemWithoutIsUnsupported) {
  const std::string folder = std::filesystem::path(GetParam()) / ("kedge-striping-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  EXPECT_EQ(ReadStriping(folder).status().code(), Code::kUnsupported) << ReadStriping(folder).status().ToString();
  EXPECT_EQ(SetStriping(folder, {1 << 20, 4, {}}).code(), Code::kUnsupported);
  std::filesystem::remove(folder);
  const auto gone = ReadStriping(folder).status();
  EXPECT_NE(gone.code(), Code::kUnsupported) << gone.ToString();
}

// The same by an attribute that other file systems have.
TEST(StripingTest, IsSetAndRead) {
  const testing::TemporaryFolder folder;
  setenv("KEDGE_TEST_STRIPING_ATTRIBUTE", "user.kedge-test", 1);
  const Status set = SetStriping(folder.path(), {1 << 20, 4, {}});
  const auto read = ReadStriping(folder.path());
  unsetenv("KEDGE_TEST_STRIPING_ATTRIBUTE");
  if (set.code() == Code::kUnsupported) GTEST_SKIP() << folder.path() << " takes no attributes of users";
  ASSERT_TRUE(set.ok()) << set.ToString();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, (Striping{1 << 20, 4, {}}));
}

}  // namespace
}  // namespace kedge::os

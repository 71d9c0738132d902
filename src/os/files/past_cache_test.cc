// What goes past the page cache is what goes through it: the same bytes, the same errors, the same ends.
#include "os/files/past_cache.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/random.h"
#include "os/files/direct_io.h"
#include "os/files/files.h"
#include "os/testing/fault_plan.h"
#include "os/testing/faulty_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::Call;
using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::kForEver;
using testing::SimulatedFileSystem;
using testing::TemporaryFolder;

constexpr size_t kBlock = kDirectAlignmentBytes;
constexpr size_t kLeast = 4 * kBlock;
constexpr OpenFlags kReadWrite = OpenFlags::kReadWrite;

// Aligned memory with a random content.
class Memory {
 public:
  explicit Memory(size_t bytes, uint64_t seed = 1)
      : bytes_(static_cast<char*>(std::aligned_alloc(kBlock, (bytes / kBlock + 1) * kBlock)), std::free) {
    Random(seed).Fill(bytes_.get(), bytes);
  }
  char* at(size_t offset) const { return bytes_.get() + offset; }

 private:
  std::unique_ptr<char, void (*)(void*)> bytes_;
};

std::unique_ptr<File> Create(FileSystem& fs, const std::string& path) {
  auto file = fs.Open(path, kReadWrite | OpenFlags::kCreate, 0600);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return PastCache(fs, std::move(*file), kReadWrite, kLeast);
}

void ExpectContent(FileSystem& fs, const std::string& path, const Memory& memory, size_t bytes) {
  const auto content = ReadFile(fs, path, bytes + 1);
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  EXPECT_TRUE(*content == std::string(memory.at(0), bytes));
}

// The direct file refuses what is not aligned, so that a transfer that should go through the cache shows.
TEST(PastCacheTest, TransfersOfAnyAlignmentArriveWhole) {
  TemporaryFolder folder;
  SimulatedFileSystem simulated;
  for (FileSystem* fs : {&SystemFileSystem(), static_cast<FileSystem*>(&simulated)}) {
    const std::string path = fs == &simulated ? "/file" : folder / "file";
    const size_t bytes = 11 * kBlock + 77;
    const Memory memory(bytes);
    auto file = Create(*fs, path);
    // Whole blocks and a rest, then the blocks before it in small parts, then from memory that is not aligned.
    ASSERT_TRUE(WriteAll(*file, memory.at(5 * kBlock), 6 * kBlock + 77, 5 * kBlock).ok());
    ASSERT_TRUE(WriteAll(*file, memory.at(0), 3 * kBlock - 5, 0).ok());
    ASSERT_TRUE(WriteAll(*file, memory.at(3 * kBlock - 5), 2 * kBlock + 5, 3 * kBlock - 5).ok());
    ExpectContent(*fs, path, memory, bytes);
    const Memory read(bytes, 2);
    ASSERT_TRUE(ReadAll(*file, read.at(0), bytes, 0).ok());
    ExpectContent(*fs, path, read, bytes);
    ASSERT_TRUE(ReadAll(*file, read.at(1), bytes - kBlock, kBlock).ok());
    EXPECT_TRUE(std::string(read.at(1), bytes - kBlock) == std::string(memory.at(kBlock), bytes - kBlock));
    const auto end = ReadUpTo(*file, read.at(0), 8 * kBlock, 8 * kBlock);
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(*end, 3 * kBlock + 77);
    ASSERT_TRUE(file->Fsync().ok());
    ASSERT_TRUE(file->Close().ok());
    EXPECT_FALSE(file->Fsync().ok());
  }
}

// One file system, where calls on files that were opened with O_DIRECT are counted and fail apart from the others.
class ApartFileSystem : public FaultyFileSystem {
 public:
  ApartFileSystem() : FaultyFileSystem(disk_, buffered_), direct_(disk_, direct_plan_) {}
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode) override {
    return Has(flags, OpenFlags::kDirect) ? direct_.Open(path, flags, mode) : FaultyFileSystem::Open(path, flags, mode);
  }
  FaultPlan& direct() { return direct_plan_; }
  FaultPlan& buffered() { return buffered_; }

 private:
  SimulatedFileSystem disk_;
  FaultPlan buffered_;
  FaultPlan direct_plan_;
  FaultyFileSystem direct_;
};

TEST(PastCacheTest, MuchGoesPastItAndLittleThroughIt) {
  ApartFileSystem fs;
  const Memory memory(kLeast);
  auto file = Create(fs, "/file");
  ASSERT_TRUE(WriteAll(*file, memory.at(0), kLeast, 0).ok());
  ASSERT_TRUE(ReadAll(*file, memory.at(0), kLeast, 0).ok());
  EXPECT_EQ(fs.direct().calls(Call::kPwrite), 1U);
  EXPECT_EQ(fs.direct().calls(Call::kPread), 1U);
  EXPECT_EQ(fs.buffered().calls(Call::kPwrite), 0U);
  EXPECT_EQ(fs.buffered().calls(Call::kPread), 0U);
  ASSERT_TRUE(WriteAll(*file, memory.at(0), kLeast - kBlock, 0).ok());
  ASSERT_TRUE(ReadAll(*file, memory.at(0), kLeast - kBlock, 0).ok());
  EXPECT_EQ(fs.direct().calls(Call::kPwrite), 1U);
  EXPECT_EQ(fs.direct().calls(Call::kPread), 1U);
}

// A file system may take O_DIRECT when it opens a file, and refuse each transfer.
TEST(PastCacheTest, WhatIsRefusedThereGoesThroughTheCache) {
  ApartFileSystem fs;
  const size_t bytes = 8 * kBlock + 5;
  const Memory memory(bytes);
  auto file = Create(fs, "/file");
  fs.direct().Add({.count = kForEver, .errno_value = EINVAL});
  ASSERT_TRUE(WriteAll(*file, memory.at(0), bytes, 0).ok());
  const Memory read(bytes, 2);
  ASSERT_TRUE(ReadAll(*file, read.at(0), bytes, 0).ok());
  ExpectContent(fs, "/file", read, bytes);
  ExpectContent(fs, "/file", memory, bytes);
}

TEST(PastCacheTest, ErrorsOfTheDeviceAreTold) {
  ApartFileSystem fs;
  const Memory memory(kLeast);
  auto file = Create(fs, "/file");
  fs.direct().Add({.count = 2, .errno_value = EIO});
  EXPECT_EQ(WriteAll(*file, memory.at(0), kLeast, 0).errno_value(), EIO);
  EXPECT_EQ(ReadAll(*file, memory.at(0), kLeast, 0).errno_value(), EIO);
}

TEST(PastCacheTest, AFileWithoutSuchAFileSystemIsItself) {
  ApartFileSystem fs;
  fs.direct().Add({.calls = testing::CallsOf(Call::kOpen), .errno_value = EINVAL});
  auto buffered = fs.Open("/file", kReadWrite | OpenFlags::kCreate, 0600);
  ASSERT_TRUE(buffered.ok());
  const File* const self = buffered->get();
  EXPECT_EQ(PastCache(fs, std::move(*buffered), kReadWrite, kLeast).get(), self);
}

// The name is another file's by the time at which it is opened again.
TEST(PastCacheTest, AnotherFileOfThatNameIsNotRead) {
  ApartFileSystem fs;
  const Memory former(kLeast);
  const Memory next(kLeast, 2);
  ASSERT_TRUE(WriteFileDurably(fs, "/file", std::string(former.at(0), kLeast), "test").ok());
  auto buffered = fs.Open("/file", OpenFlags::kRead, 0600);
  ASSERT_TRUE(buffered.ok());
  ASSERT_TRUE(WriteFileDurably(fs, "/file", std::string(next.at(0), kLeast), "test").ok());
  auto file = PastCache(fs, std::move(*buffered), OpenFlags::kRead, kLeast);
  const Memory read(kLeast, 3);
  ASSERT_TRUE(ReadAll(*file, read.at(0), kLeast, 0).ok());
  EXPECT_TRUE(std::string(read.at(0), kLeast) == std::string(former.at(0), kLeast));
}

}  // namespace
}  // namespace kedge::os

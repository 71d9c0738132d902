#include "buffer/disk_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/crc32c.h"
#include "base/random.h"
#include "burst/protocol.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/testing/temporary_folder.h"

namespace kedge::buffer {
namespace {

TEST(BufferPath, StaysWithinItsFolder) {
  for (const char* good : {"a", "run7/heat.120", "a b/c-d_e", "a..b"}) EXPECT_TRUE(CheckPath(good).ok()) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", ".hidden", "a/.b", "a\nb"})
    EXPECT_EQ(CheckPath(bad).code(), Code::kInvalidArgument) << bad;
  EXPECT_FALSE(CheckPath(std::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(CheckPath(std::string(256, 'a')).ok());
  EXPECT_FALSE(CheckPath(std::string(kPathBytesMax + 1, 'a')).ok());
}

TEST(BlockSums, AreThoseOfTheFileHoweverItCame) {
  Random random(3);
  std::vector<std::byte> file(3 * kBlockBytes + 77);
  random.Fill(file.data(), file.size());
  std::vector<RunPart> runs;
  for (uint64_t at = 0; at < file.size();) {
    const uint64_t bytes = std::min<uint64_t>(1 + random.Below(kBlockBytes / 3), file.size() - at);
    for (const RunPart& part : CutAtBlocks(at, bytes)) runs.push_back({at + part.at, part.bytes});
    at += bytes;
  }
  std::shuffle(runs.begin(), runs.end(), random);
  BlockSums sums;
  for (const RunPart& run : runs) sums.Add(run.at, run.bytes, crc32c::Compute(file.data() + run.at, run.bytes));
  const auto whole = sums.OfFile(file.size());
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  ASSERT_EQ(whole->size(), 4u);
  for (size_t block = 0; block < 4; ++block) {
    const uint64_t bytes = std::min<uint64_t>(kBlockBytes, file.size() - block * kBlockBytes);
    EXPECT_EQ((*whole)[block], crc32c::Compute(file.data() + block * kBlockBytes, bytes));
  }
  EXPECT_FALSE(sums.OfFile(file.size() - 1).ok());
  EXPECT_FALSE(sums.OfFile(file.size() + 1).ok());
  EXPECT_TRUE(BlockSums().OfFile(0).ok());
}

TEST(BlockSums, HolesAndWhatCameTwiceAreSeen) {
  BlockSums hole;
  hole.Add(0, 10, 1);
  hole.Add(11, 10, 2);
  EXPECT_EQ(hole.OfFile(21).status().code(), Code::kIncomplete);
  BlockSums twice;
  twice.Add(0, 10, 1);
  twice.Add(0, 10, 1);
  EXPECT_FALSE(twice.OfFile(10).ok());
  BlockSums overlap;
  overlap.Add(5, 10, 1);
  overlap.Add(0, 6, 2);
  EXPECT_FALSE(overlap.OfFile(15).ok());
}

class OwnerFolderTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(folder_.Prepare().ok()); }

  void Write(const std::string& path, const std::string& content) {
    auto file = folder_.CreateTemporary("1.tmp");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE(os::WriteAll(**file, content.data(), content.size(), 0).ok());
    const FileTable table{content.size(), {crc32c::Compute(content.data(), content.size())}};
    const auto replaced = folder_.Publish("1.tmp", **file, table, path, true);
    ASSERT_TRUE(replaced.ok()) << replaced.status().ToString();
  }
  std::string Path(const std::string& path) const { return root_.path() + "/owner/files/" + path; }
  Status Damage(const std::string& path, const std::function<void(std::string*)>& change) {
    KEDGE_ASSIGN_OR_RETURN(std::string content, os::ReadFile(os::PrivateFileSystem(), Path(path), 1 << 20));
    change(&content);
    KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(os::PrivateFileSystem(), Path(path), content, "test"));
    KEDGE_ASSIGN_OR_RETURN(const auto file, folder_.Open(path));
    return ReadTable(*file).status();
  }

  os::testing::TemporaryFolder root_;
  OwnerFolder folder_{os::PrivateFileSystem(), root_.path() + "/owner"};
};

TEST_F(OwnerFolderTest, AFileIsThereWithItsTable) {
  Write("a/b", "0123456789");
  const auto file = folder_.Open("a/b");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto table = ReadTable(**file);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(table->bytes, 10u);
  EXPECT_EQ(table->sums, std::vector<uint32_t>{crc32c::Compute("0123456789", 10)});
  EXPECT_EQ(*folder_.UsedBytes(), 10 + TableBytes(10));
  EXPECT_EQ(*folder_.Remove("a/b"), 10 + TableBytes(10));
  EXPECT_EQ(folder_.Open("a/b").status().code(), Code::kNotFound);
  EXPECT_EQ(folder_.Remove("a/b").status().code(), Code::kNotFound);
  EXPECT_EQ(*folder_.UsedBytes(), 0u);
}

TEST_F(OwnerFolderTest, AListHasPages) {
  std::vector<std::string> expected;
  for (int i = 0; i < 1205; ++i) {
    expected.push_back("run" + std::to_string(i % 7) + "/file" + std::to_string(i));
    const std::string path = Path(expected.back());
    ASSERT_TRUE(os::MakeFolders(os::PrivateFileSystem(), os::ParentPath(path), 0700, false).ok());
    ASSERT_TRUE(os::PrivateFileSystem().Open(path, os::OpenFlags::kWrite | os::OpenFlags::kCreate).ok());
  }
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> found;
  ListRequest request;
  for (bool has_more = true; has_more;) {
    const auto list = folder_.List(request);
    ASSERT_TRUE(list.ok()) << list.status().ToString();
    EXPECT_LE(list->entries.size(), kListEntriesMax);
    has_more = list->has_more;
    for (const FileEntry& entry : list->entries) found.push_back(entry.path);
    request.after = found.back();
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(folder_.List({"run3/", "run3/file5"})->entries.front().path, "run3/file500");
  EXPECT_EQ(folder_.List({"run3", "run4"})->entries.size(), 0u);
  EXPECT_GT(*folder_.FreeBytes(), 0u);
}

TEST(FileTable, ItsSizeIsTakenOffAgain) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1, 5 * kBlockBytes,
                               5 * kBlockBytes + 1, uint64_t{1} << 40})
    EXPECT_EQ(BytesWithoutTable(bytes + TableBytes(bytes)), bytes);
  EXPECT_EQ(BytesWithoutTable(3), 0u);
}

TEST_F(OwnerFolderTest, ADamagedTableIsFound) {
  Write("a", "0123456789");
  EXPECT_TRUE(Damage("a", [](std::string*) {}).ok());
  const size_t bytes = 10 + TableBytes(10);
  for (size_t at = 10; at < bytes; ++at) {
    EXPECT_EQ(Damage("a", [at](std::string* content) { (*content)[at] ^= 4; }).code(), Code::kCorrupt) << at;
    EXPECT_TRUE(Damage("a", [at](std::string* content) { (*content)[at] ^= 4; }).ok()) << at;
  }
  EXPECT_EQ(Damage("a", [](std::string* content) { content->pop_back(); }).code(), Code::kCorrupt);
  EXPECT_EQ(Damage("a", [](std::string* content) { content->resize(3); }).code(), Code::kCorrupt);
  EXPECT_EQ(Damage("a", [](std::string* content) { content->clear(); }).code(), Code::kCorrupt);
}

TEST_F(OwnerFolderTest, ASuccessorRemovesWhatWasBeingWritten) {
  Write("a", "0123456789");
  ASSERT_TRUE(folder_.CreateTemporary("2.tmp").ok());
  ASSERT_TRUE(folder_.Prepare().ok());
  EXPECT_TRUE(os::PrivateFileSystem().List(root_.path() + "/owner/incoming")->empty());
  EXPECT_TRUE(folder_.Open("a").ok());
}

}  // namespace
}  // namespace kedge::buffer

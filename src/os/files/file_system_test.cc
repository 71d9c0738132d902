// One conformance suite for every FileSystem: the real one, the private one in both of its ways, the simulated one, and the
// faulty one without faults.
#include "os/files/file_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>

#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/testing/faulty_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::SimulatedFileSystem;
using testing::TemporaryFolder;

struct Subject {
  virtual ~Subject() = default;
  virtual FileSystem& fs() = 0;
  virtual std::string root() = 0;
};
struct Real : Subject {
  TemporaryFolder folder;
  FileSystem& fs() override { return SystemFileSystem(); }
  std::string root() override { return folder.path(); }
};
template <Step kStep>
struct Private : Real {
  const std::unique_ptr<FileSystem> files = MakePrivateFileSystem(BestStep() == Step::kPlain ? Step::kPlain : kStep);
  FileSystem& fs() override { return *files; }
};
struct Faulty : Real {
  FaultPlan plan;
  FaultyFileSystem faulty{SystemFileSystem(), plan};
  FileSystem& fs() override { return faulty; }
};
struct Simulated : Subject {
  SimulatedFileSystem simulated;
  FileSystem& fs() override { return simulated; }
  std::string root() override { return "/"; }
};

using MakeSubject = std::function<std::unique_ptr<Subject>()>;
class FileSystemConformance : public ::testing::TestWithParam<std::pair<const char*, MakeSubject>> {
 protected:
  FileSystemConformance() : subject_(GetParam().second()), fs_(subject_->fs()) {}
  std::string At(const std::string& name) { return JoinPath(subject_->root(), name); }
  void Write(const std::string& name, const std::string& content) {
    const auto file = fs_.Open(At(name), OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kTruncate);
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE(WriteAll(**file, content.data(), content.size(), 0).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  std::string Read(const std::string& name) {
    const auto content = ReadFile(fs_, At(name), 1 << 20);
    return content.ok() ? *content : "error: " + content.status().ToString();
  }

  std::unique_ptr<Subject> subject_;
  FileSystem& fs_;
};

TEST_P(FileSystemConformance, ReadsBackWhatWasWritten) {
  const auto file = fs_.Open(At("f"), OpenFlags::kReadWrite | OpenFlags::kCreate, 0640);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->Pwrite("hello", 5, 0).value(), 5u);
  EXPECT_EQ((*file)->Pwrite("world", 5, 8).value(), 5u);
  char buffer[32] = {};
  EXPECT_EQ((*file)->Pread(buffer, sizeof buffer, 0).value(), 13u);
  EXPECT_EQ(std::string(buffer, 13), std::string("hello\0\0\0world", 13)) << "the hole reads as zeros";
  EXPECT_EQ((*file)->Pread(buffer, 2, 11).value(), 2u);
  EXPECT_EQ((*file)->Pread(buffer, 2, 13).value(), 0u) << "the end of the file";
  EXPECT_EQ((*file)->Pread(buffer, 2, 1000).value(), 0u);
  EXPECT_TRUE((*file)->Fsync().ok());
  EXPECT_TRUE((*file)->Fdatasync().ok());
  EXPECT_TRUE((*file)->SyncFileRange(0, 4096, SyncRange::kStart).ok());
  const FileInfo info = (*file)->Fstat().value();
  EXPECT_EQ(info.kind, FileKind::kFile);
  EXPECT_EQ(info.size_bytes, 13u);
  EXPECT_EQ(info.mode, 0640u);
  EXPECT_EQ(info.link_count, 1u);
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_EQ((*file)->Close().errno_value(), EBADF);
  EXPECT_EQ((*file)->Pwrite("x", 1, 0).status().errno_value(), EBADF);
}

TEST_P(FileSystemConformance, OpensAsTheFlagsSay) {
  EXPECT_EQ(fs_.Open(At("f"), OpenFlags::kRead).status().errno_value(), ENOENT);
  Write("f", "abc");
  EXPECT_EQ(fs_.Open(At("f"), OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kExclusive).status().code(),
            Code::kAlreadyExists);
  const auto reader = fs_.Open(At("f"), OpenFlags::kRead);
  EXPECT_EQ((*reader)->Pwrite("x", 1, 0).status().errno_value(), EBADF);
  const auto writer = fs_.Open(At("f"), OpenFlags::kWrite);
  char byte = 0;
  EXPECT_EQ((*writer)->Pread(&byte, 1, 0).status().errno_value(), EBADF);
  EXPECT_EQ(Read("f"), "abc");
  ASSERT_TRUE(fs_.Open(At("f"), OpenFlags::kWrite | OpenFlags::kTruncate).ok());
  EXPECT_EQ(Read("f"), "");
  ASSERT_TRUE(fs_.Mkdir(At("d"), 0700).ok());
  EXPECT_EQ(fs_.Open(At("d"), OpenFlags::kWrite).status().errno_value(), EISDIR);
  EXPECT_EQ(fs_.Open(At("f"), OpenFlags::kRead | OpenFlags::kFolder).status().errno_value(), ENOTDIR);
  EXPECT_EQ(fs_.Open(At("f/x"), OpenFlags::kRead).status().errno_value(), ENOTDIR);
  EXPECT_EQ(fs_.Open(At(std::string(300, 'n')), OpenFlags::kWrite | OpenFlags::kCreate).status().errno_value(), ENAMETOOLONG);
}

TEST_P(FileSystemConformance, TruncatesAndAllocates) {
  const auto file = fs_.Open(At("f"), OpenFlags::kReadWrite | OpenFlags::kCreate);
  ASSERT_TRUE(WriteAll(**file, "abcdef", 6, 0).ok());
  ASSERT_TRUE((*file)->Ftruncate(3).ok());
  ASSERT_TRUE((*file)->Ftruncate(5).ok());
  EXPECT_EQ(Read("f"), std::string("abc\0\0", 5)) << "cut bytes do not come back";
  ASSERT_TRUE((*file)->Fallocate(0, 100'000, /*keep_size=*/true).ok());
  EXPECT_EQ((*file)->Fstat()->size_bytes, 5u);
  EXPECT_GE((*file)->Fstat()->allocated_bytes, 100'000u);
  ASSERT_TRUE((*file)->Fallocate(0, 10, /*keep_size=*/false).ok());
  EXPECT_EQ((*file)->Fstat()->size_bytes, 10u);
}

TEST_P(FileSystemConformance, RenamesReplacingAtomically) {
  Write("a", "new");
  Write("b", "old");
  const auto open_old = fs_.Open(At("b"), OpenFlags::kRead);
  ASSERT_TRUE(fs_.Rename(At("a"), At("b")).ok());
  EXPECT_EQ(Read("b"), "new");
  EXPECT_EQ(fs_.Stat(At("a")).status().errno_value(), ENOENT);
  char buffer[3];
  EXPECT_EQ((*open_old)->Pread(buffer, 3, 0).value(), 3u) << "a replaced file stays readable where it is open";
  EXPECT_EQ(std::string(buffer, 3), "old");
  EXPECT_EQ(fs_.Rename(At("a"), At("c")).errno_value(), ENOENT);
  ASSERT_TRUE(fs_.Mkdir(At("d"), 0700).ok());
  EXPECT_EQ(fs_.Rename(At("b"), At("d")).errno_value(), EISDIR);
  EXPECT_EQ(fs_.Rename(At("d"), At("b")).errno_value(), ENOTDIR);
  EXPECT_EQ(fs_.Rename(At("d"), At("d/e")).errno_value(), EINVAL);
  ASSERT_TRUE(fs_.Rename(At("b"), At("d/b")).ok());
  ASSERT_TRUE(fs_.Mkdir(At("e"), 0700).ok());
  EXPECT_EQ(fs_.Rename(At("e"), At("d")).errno_value(), ENOTEMPTY);
  ASSERT_TRUE(fs_.Rename(At("d"), At("e")).ok());
  EXPECT_EQ(Read("e/b"), "new");
}

TEST_P(FileSystemConformance, LinksAndUnlinks) {
  Write("a", "text");
  ASSERT_TRUE(fs_.Link(At("a"), At("b")).ok());
  EXPECT_EQ(fs_.Link(At("a"), At("b")).code(), Code::kAlreadyExists);
  EXPECT_EQ(fs_.Stat(At("a"))->link_count, 2u);
  EXPECT_EQ(fs_.Stat(At("a"))->inode, fs_.Stat(At("b"))->inode);
  ASSERT_TRUE(fs_.Rename(At("a"), At("b")).ok());
  EXPECT_EQ(Read("a"), "text") << "renaming onto another name of the same file does nothing";
  ASSERT_TRUE(fs_.Unlink(At("a")).ok());
  EXPECT_EQ(Read("b"), "text");
  const auto open = fs_.Open(At("b"), OpenFlags::kRead);
  ASSERT_TRUE(fs_.Unlink(At("b")).ok());
  EXPECT_EQ((*open)->Fstat()->link_count, 0u);
  EXPECT_EQ(fs_.Unlink(At("b")).errno_value(), ENOENT);
  ASSERT_TRUE(fs_.Mkdir(At("d"), 0700).ok());
  EXPECT_EQ(fs_.Unlink(At("d")).errno_value(), EISDIR);
}

TEST_P(FileSystemConformance, MakesListsAndRemovesFolders) {
  ASSERT_TRUE(fs_.Mkdir(At("d"), 0750).ok());
  EXPECT_EQ(fs_.Stat(At("d"))->kind, FileKind::kFolder);
  EXPECT_EQ(fs_.Stat(At("d"))->mode, 0750u);
  EXPECT_EQ(fs_.Mkdir(At("d"), 0700).code(), Code::kAlreadyExists);
  EXPECT_EQ(fs_.Mkdir(At("x/y"), 0700).errno_value(), ENOENT);
  ASSERT_TRUE(fs_.Mkdir(At("d/e"), 0700).ok());
  Write("d/f", "1");
  auto entries = fs_.List(At("d")).value();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "e");
  EXPECT_EQ(entries[0].kind, FileKind::kFolder);
  EXPECT_EQ(entries[1].name, "f");
  EXPECT_EQ(entries[1].kind, FileKind::kFile);
  EXPECT_EQ(fs_.List(At("d/f")).status().errno_value(), ENOTDIR);
  EXPECT_EQ(fs_.Rmdir(At("d")).errno_value(), ENOTEMPTY);
  EXPECT_EQ(fs_.Rmdir(At("d/f")).errno_value(), ENOTDIR);
  ASSERT_TRUE(fs_.Rmdir(At("d/e")).ok());
  EXPECT_TRUE(SyncFolder(fs_, At("d")).ok());
}

TEST_P(FileSystemConformance, ChangesModeAndTime) {
  Write("f", "1");
  ASSERT_TRUE(fs_.Chmod(At("f"), 0400).ok());
  EXPECT_EQ(fs_.Stat(At("f"))->mode, 0400u);
  for (const int64_t time_ns : {int64_t{1'700'000'000'123'456'789}, int64_t{-1'500'000'000}}) {
    ASSERT_TRUE(fs_.SetModifiedTime(At("f"), time_ns).ok());
    EXPECT_EQ(fs_.Stat(At("f"))->modified_ns, time_ns);
  }
  EXPECT_EQ(fs_.Chmod(At("x"), 0400).errno_value(), ENOENT);
}

TEST_P(FileSystemConformance, LocksExcludeOtherOpenFiles) {
  const OpenFlags flags = OpenFlags::kReadWrite | OpenFlags::kCreate;
  auto first = fs_.Open(At("lock"), flags).value();
  auto second = fs_.Open(At("lock"), flags).value();
  EXPECT_TRUE(first->TryLock(true).value());
  EXPECT_TRUE(first->TryLock(true).value());
  EXPECT_FALSE(second->TryLock(true).value());
  EXPECT_FALSE(second->TryLock(false).value());
  EXPECT_TRUE(first->TryLock(false).value()) << "downgraded";
  EXPECT_TRUE(second->TryLock(false).value());
  EXPECT_FALSE(second->TryLock(true).value());
  first.reset();
  EXPECT_TRUE(second->TryLock(true).value()) << "freed with the file";
}

TEST_P(FileSystemConformance, TellsTheVolume) {
  const auto volume = fs_.StatVolume(At(""));
  ASSERT_TRUE(volume.ok());
  EXPECT_GT(volume->block_bytes, 0u);
  EXPECT_GE(volume->total_bytes, volume->available_bytes);
  EXPECT_GT(volume->available_bytes, 0u);
  EXPECT_FALSE(volume->read_only);
}

TEST_P(FileSystemConformance, HelpersReplaceCreateAndRemove) {
  ASSERT_TRUE(MakeFolders(fs_, At("a/b/c")).ok());
  ASSERT_TRUE(MakeFolders(fs_, At("a/b/c")).ok());
  ASSERT_TRUE(WriteFileDurably(fs_, At("a/b/r"), "one", "tag").ok());
  ASSERT_TRUE(WriteFileDurably(fs_, At("a/b/r"), "two", "tag").ok());
  EXPECT_EQ(Read("a/b/r"), "two");
  ASSERT_TRUE(CreateIfAbsent(fs_, At("a/b/c/once"), "first", "tag").ok());
  EXPECT_EQ(CreateIfAbsent(fs_, At("a/b/c/once"), "second", "tag").code(), Code::kAlreadyExists);
  EXPECT_EQ(Read("a/b/c/once"), "first");
  EXPECT_EQ(fs_.List(At("a/b/c"))->size(), 1u) << "no temporary file stays";
  EXPECT_EQ(MakeFolders(fs_, At("a/b/r")).errno_value(), ENOTDIR);
  EXPECT_EQ(ReadFile(fs_, At("a/b/r"), 2).status().code(), Code::kCorrupt) << "longer than allowed";
  EXPECT_TRUE(*Exists(fs_, At("a/b/r")));
  ASSERT_TRUE(RemoveTree(fs_, At("a")).ok());
  EXPECT_FALSE(*Exists(fs_, At("a")));
  EXPECT_TRUE(RemoveTree(fs_, At("a")).ok());
}

INSTANTIATE_TEST_SUITE_P(
    All, FileSystemConformance,
    ::testing::Values(
        std::pair<const char*, MakeSubject>("System", [] { return std::make_unique<Real>(); }),
        std::pair<const char*, MakeSubject>("PrivateBeneath", [] { return std::make_unique<Private<Step::kBeneath>>(); }),
        std::pair<const char*, MakeSubject>("PrivatePlain", [] { return std::make_unique<Private<Step::kPlain>>(); }),
        std::pair<const char*, MakeSubject>("Faulty", [] { return std::make_unique<Faulty>(); }),
        std::pair<const char*, MakeSubject>("Simulated", [] { return std::make_unique<Simulated>(); })),
    [](const auto& param) { return std::string(param.param.first); });

}  // namespace
}  // namespace kedge::os

// The commit helpers under every kill, crash and fault that the simulated file system can make.
#include "os/files/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "os/testing/faulty_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::Call;
using testing::CallsOf;
using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::SimulatedFileSystem;
using testing::TemporaryFolder;

constexpr uint64_t kCrashesPerKill = 25;
const std::string kOld(3000, 'o');
const std::string kNew(9000, 'n');

std::string ReadOr(FileSystem& fs, const std::string& path, const std::string& missing) {
  const auto content = ReadFile(fs, path, 1 << 20);
  return content.ok() ? *content : missing;
}

struct Schedule {
  uint64_t kill_after;
  uint64_t crash_seed;
  bool finished;  // `work` said ok before the machine failed
};

// Runs `work` with a kill at each of its calls in turn, then lets the machine crash in several ways, and checks.
void ForEveryKillAndCrash(const std::function<void(FileSystem&)>& prepare, const std::function<Status(FileSystem&)>& work,
                          const std::function<void(FileSystem&, const Schedule&)>& check) {
  for (uint64_t kill_after = 0;; ++kill_after) {
    SimulatedFileSystem fs({.seed = kill_after});
    prepare(fs);
    fs.faults().KillAfter(kill_after);
    const Status status = work(fs);
    const bool survived = !fs.faults().IsKilled();
    for (uint64_t seed = 0; seed <= kCrashesPerKill; ++seed) {
      SCOPED_TRACE("kill after " + std::to_string(kill_after) + ", crash seed " + std::to_string(seed));
      const auto after = fs.Clone();
      if (seed > 0) after->Crash(seed);  // 0: only the process died
      check(*after, {kill_after, seed, status.ok()});
    }
    if (survived) {
      ASSERT_TRUE(status.ok()) << status.ToString();
      return;
    }
    ASSERT_LT(kill_after, 1000u);
  }
}

void PrepareOld(FileSystem& fs) {
  ASSERT_TRUE(MakeFolders(fs, "/d").ok());
  ASSERT_TRUE(WriteFileDurably(fs, "/d/f", kOld, "prepare").ok());
}

TEST(WriteFileDurably, ShowsOldOrNewWhateverHappens) {
  ForEveryKillAndCrash(
      PrepareOld, [](FileSystem& fs) { return WriteFileDurably(fs, "/d/f", kNew, "t"); },
      [](FileSystem& fs, const Schedule& schedule) {
        const std::string content = ReadOr(fs, "/d/f", "<missing>");
        ASSERT_TRUE(content == kNew || (content == kOld && !schedule.finished))
            << content.substr(0, 20) << " of " << content.size();
      });
}

// The simulator must see what leaving a step out breaks, or the test above would prove nothing.
int BrokenSchedules(const std::function<Status(FileSystem&)>& work) {
  int broken = 0;
  ForEveryKillAndCrash(PrepareOld, work, [&](FileSystem& fs, const Schedule& schedule) {
    const std::string content = ReadOr(fs, "/d/f", "<missing>");
    if (content != kNew && (content != kOld || schedule.finished)) ++broken;
  });
  return broken;
}

TEST(WriteFileDurably, NeedsEachOfItsSteps) {
  const auto write = [](FileSystem& fs, bool sync_file, bool sync_folder) -> Status {
    {
      KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open("/d/f.tmp", OpenFlags::kWrite | OpenFlags::kCreate));
      KEDGE_RETURN_IF_ERROR(WriteAll(*file, kNew.data(), kNew.size(), 0));
      if (sync_file) KEDGE_RETURN_IF_ERROR(file->Fsync());
      KEDGE_RETURN_IF_ERROR(file->Close());
    }
    KEDGE_RETURN_IF_ERROR(fs.Rename("/d/f.tmp", "/d/f"));
    return sync_folder ? SyncFolder(fs, "/d") : Status::Ok();
  };
  EXPECT_EQ(BrokenSchedules([&](FileSystem& fs) { return write(fs, true, true); }), 0);
  EXPECT_GT(BrokenSchedules([&](FileSystem& fs) { return write(fs, false, true); }), 0) << "without fsync of the file";
  EXPECT_GT(BrokenSchedules([&](FileSystem& fs) { return write(fs, true, false); }), 0) << "without fsync of the folder";
  EXPECT_GT(BrokenSchedules([&](FileSystem& fs) -> Status {
              KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open("/d/f", OpenFlags::kWrite));
              KEDGE_RETURN_IF_ERROR(WriteAll(*file, kNew.data(), kNew.size(), 0));
              KEDGE_RETURN_IF_ERROR(file->Fsync());
              return file->Close();
            }),
            0)
      << "written in place";
}

TEST(ReplaceFile, ShowsOldOrNewWhenItsProcessDies) {
  ForEveryKillAndCrash(
      PrepareOld, [](FileSystem& fs) { return ReplaceFile(fs, "/d/f", kNew, "t"); },
      [](FileSystem& fs, const Schedule& schedule) {
        if (schedule.crash_seed > 0) return;
        const std::string content = ReadOr(fs, "/d/f", "<missing>");
        ASSERT_TRUE(content == kNew || (content == kOld && !schedule.finished)) << content.size();
      });
}

TEST(ReplaceFile, LeavesTheOldOneAndNothingElseAfterAnError) {
  for (const Call call : {Call::kOpen, Call::kPwrite, Call::kClose, Call::kRename}) {
    SimulatedFileSystem fs;
    PrepareOld(fs);
    testing::FaultRule rule;
    rule.calls = CallsOf(call);
    rule.errno_value = ENOSPC;
    fs.faults().Add(rule);
    EXPECT_EQ(ReplaceFile(fs, "/d/f", kNew, "t").code(), Code::kNoSpace);
    fs.faults().Clear();
    EXPECT_EQ(ReadOr(fs, "/d/f", "<missing>"), kOld);
    EXPECT_EQ(fs.List("/d").value().size(), 1u) << testing::CallName(call);
  }
}

TEST(AbsolutePath, IsTheSameInEachSpelling) {
  for (const char* path : {"/a/b", "/a/b/", "//a/b", "/a//b", "/a/./b", "/a/b/.", "/a/c/../b", "/../a/b"}) {
    EXPECT_EQ(AbsolutePath(path), "/a/b") << path;
  }
  EXPECT_EQ(AbsolutePath("/"), "/");
  EXPECT_EQ(AbsolutePath("/.."), "/");
  EXPECT_EQ(AbsolutePath("/a/..b/.c"), "/a/..b/.c");
  EXPECT_EQ(AbsolutePath("x/y"), JoinPath(AbsolutePath("."), "x/y"));
}

TEST(CreateIfAbsent, IsWholeOrAbsentWhateverHappens) {
  ForEveryKillAndCrash([](FileSystem& fs) { ASSERT_TRUE(MakeFolders(fs, "/d").ok()); },
                       [](FileSystem& fs) { return CreateIfAbsent(fs, "/d/record", kNew, "t"); },
                       [](FileSystem& fs, const Schedule& schedule) {
                         const std::string content = ReadOr(fs, "/d/record", "<missing>");
                         ASSERT_TRUE(content == kNew || (content == "<missing>" && !schedule.finished)) << content.size();
                         // Whoever comes next finishes it, exactly once, and the dead one's temporary is recognised as such.
                         const Status again = CreateIfAbsent(fs, "/d/record", kNew, "t");
                         ASSERT_EQ(again.code(), content == kNew ? Code::kAlreadyExists : Code::kOk) << again.ToString();
                         const auto entries = fs.List("/d").value();
                         for (const FolderEntry& entry : entries) {
                           std::string tag;
                           ASSERT_TRUE(entry.name == "record" || (IsTemporaryName(entry.name, &tag) && tag == "t")) << entry.name;
                         }
                       });
}

TEST(CreateIfAbsent, LeavesNoTraceOfAFailure) {
  for (const Call call : {Call::kOpen, Call::kPwrite, Call::kFsync, Call::kClose, Call::kLink}) {
    SCOPED_TRACE(testing::CallName(call));
    SimulatedFileSystem fs;
    ASSERT_TRUE(fs.Mkdir("/d").ok());
    fs.faults().Add({.calls = CallsOf(call), .errno_value = ENOSPC});
    EXPECT_EQ(CreateIfAbsent(fs, "/d/record", kNew, "t").code(), Code::kNoSpace);
    EXPECT_TRUE(fs.List("/d")->empty());
    EXPECT_TRUE(CreateIfAbsent(fs, "/d/record", kNew, "t").ok()) << "and the next one works";
    EXPECT_TRUE(ReadOr(fs, "/d/record", "") == kNew);
  }
}

TEST(CreateIfAbsent, ReportsAFolderThatCannotBeSynced) {
  SimulatedFileSystem fs;
  ASSERT_TRUE(fs.Mkdir("/d").ok());
  fs.faults().Add({.calls = CallsOf(Call::kFsync), .skip = 1, .errno_value = EIO});
  EXPECT_EQ(CreateIfAbsent(fs, "/d/record", kNew, "t").errno_value(), EIO);
}

TEST(CreateIfAbsent, WorksWithoutHardLinks) {
  for (const int no_links : {EPERM, EOPNOTSUPP, ENOSYS, EMLINK}) {
    SimulatedFileSystem fs;
    ASSERT_TRUE(MakeFolders(fs, "/d").ok());
    fs.faults().Add({.calls = CallsOf(Call::kLink), .count = testing::kForEver, .errno_value = no_links});
    ASSERT_TRUE(CreateIfAbsent(fs, "/d/record", kNew, "t").ok());
    EXPECT_TRUE(ReadOr(fs, "/d/record", "") == kNew);
    EXPECT_EQ(CreateIfAbsent(fs, "/d/record", kOld, "t").code(), Code::kAlreadyExists);
    EXPECT_TRUE(ReadOr(fs, "/d/record", "") == kNew);
    EXPECT_EQ(fs.List("/d")->size(), 1u);
    fs.Crash(1);
    EXPECT_TRUE(ReadOr(fs, "/d/record", "") == kNew);
  }
}

// A link(2) over a network may be done although its answer was lost.
class LostLinkAnswer final : public FileSystem {
 public:
  explicit LostLinkAnswer(FileSystem& wrapped) : wrapped_(wrapped) {}
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode) override {
    return wrapped_.Open(path, flags, mode);
  }
  Status Rename(const std::string& from, const std::string& to) override { return wrapped_.Rename(from, to); }
  Status Link(const std::string& from, const std::string& to) override {
    KEDGE_RETURN_IF_ERROR(wrapped_.Link(from, to));
    return Status::FromErrno(EEXIST, "link " + to);  // the retransmitted request found the first one's work
  }
  Status Unlink(const std::string& path) override { return wrapped_.Unlink(path); }
  Status Mkdir(const std::string& path, uint32_t mode) override { return wrapped_.Mkdir(path, mode); }
  Status Rmdir(const std::string& path) override { return wrapped_.Rmdir(path); }
  Result<std::vector<FolderEntry>> List(const std::string& path) override { return wrapped_.List(path); }
  Result<FileInfo> Stat(const std::string& path) override { return wrapped_.Stat(path); }
  Result<VolumeInfo> StatVolume(const std::string& path) override { return wrapped_.StatVolume(path); }
  Status Chmod(const std::string& path, uint32_t mode) override { return wrapped_.Chmod(path, mode); }
  Status SetModifiedTime(const std::string& path, int64_t modified_ns) override {
    return wrapped_.SetModifiedTime(path, modified_ns);
  }

 private:
  FileSystem& wrapped_;
};

TEST(CreateIfAbsent, BelievesTheLinkCountMoreThanALostAnswer) {
  SimulatedFileSystem simulated;
  LostLinkAnswer fs(simulated);
  EXPECT_TRUE(CreateIfAbsent(fs, "/record", kNew, "t").ok()) << "we did create it";
}

TEST(CreateIfAbsent, HasOneWinnerAmongRacingThreads) {
  const TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    const std::string path = folder / std::to_string(round);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        const std::string mine(5000, static_cast<char>('a' + i));
        const Status status = CreateIfAbsent(SystemFileSystem(), path, mine, "t");
        if (status.ok()) {
          ++winners;
          EXPECT_TRUE(ReadOr(SystemFileSystem(), path, "") == mine);
        } else {
          EXPECT_EQ(status.code(), Code::kAlreadyExists);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(winners, 1);
  }
  EXPECT_EQ(SystemFileSystem().List(folder.path())->size(), 20u);
}

TEST(Files, FinishPartialTransfersAndReportFullDisks) {
  SimulatedFileSystem fs;
  fs.faults().ShortTransfers(0.9, 5);
  ASSERT_TRUE(WriteFileDurably(fs, "/f", kNew, "t").ok());
  EXPECT_TRUE(ReadOr(fs, "/f", "") == kNew);
  fs.faults().Clear();
  fs.faults().Add({.calls = CallsOf(Call::kPwrite), .byte_budget = 5000, .errno_value = EDQUOT});
  const Status full = WriteFileDurably(fs, "/g", kNew, "t");
  EXPECT_EQ(full.errno_value(), EDQUOT);
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_NE(full.message().find("/g"), std::string::npos);
  EXPECT_EQ(fs.List("/")->size(), 1u) << "what was begun is removed";
}

TEST(Files, NeverSyncAgainAfterAFailedSync) {
  for (const Call call : {Call::kFsync, Call::kClose}) {
    SimulatedFileSystem fs;
    fs.faults().Add({.calls = CallsOf(call), .errno_value = EIO});
    EXPECT_EQ(WriteFileDurably(fs, "/f", kNew, "t").errno_value(), EIO);
    EXPECT_EQ(fs.faults().calls(Call::kFsync), 1u);
    EXPECT_EQ(fs.faults().calls(Call::kRename), 0u);
  }
}

TEST(MakeFolders, IsDurableWhenItSaysSo) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimulatedFileSystem fs;
    ASSERT_TRUE(MakeFolders(fs, "/a/b/c").ok());
    fs.Crash(seed);
    ASSERT_TRUE(*Exists(fs, "/a/b/c")) << "seed " << seed;
  }
}

// Somebody who may write in the folder above exchanges the tree for a link all the while.
TEST(RemoveTree, FollowsNoLinkThatTakesAFoldersPlace) {
  constexpr int kRefusedEnough = 100;
  FileSystem& fs = SystemFileSystem();
  const TemporaryFolder folder("/dev/shm");
  const std::string tree = folder / "tree", link = folder / "link", elsewhere = folder / "elsewhere";
  ASSERT_TRUE(fs.Mkdir(elsewhere).ok());
  ASSERT_TRUE(WriteFileDurably(fs, elsewhere + "/file", "ours", "t").ok());
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) (void)renameat2(AT_FDCWD, tree.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
  });
  int refused = 0;
  for (int i = 0; i < 20000 && refused < kRefusedEnough; ++i) {
    (void)fs.Mkdir(tree);
    (void)fs.Open(tree + "/file", OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kExclusive);
    (void)symlink(elsewhere.c_str(), link.c_str());
    if (!RemoveTree(fs, tree).ok()) ++refused;
    (void)RemoveTree(fs, tree);
    (void)RemoveTree(fs, link);
  }
  ends = true;
  other.join();
  EXPECT_EQ(ReadOr(fs, elsewhere + "/file", "gone"), "ours");
  EXPECT_GT(refused, 0) << "nothing was exchanged while it was removed";
}

TEST(RemoveTree, RemovesLinksAndFollowsThoseAboveAlone) {
  FileSystem& fs = SystemFileSystem();
  const TemporaryFolder folder;
  const std::string elsewhere = folder / "elsewhere";
  ASSERT_TRUE(MakeFolders(fs, elsewhere + "/a/b").ok());
  ASSERT_TRUE(MakeFolders(fs, folder / "tree/deep").ok());
  for (const char* name : {"tree/deep/link", "link"}) ASSERT_EQ(symlink(elsewhere.c_str(), (folder / name).c_str()), 0);
  EXPECT_TRUE(RemoveTree(fs, folder / "tree").ok());
  EXPECT_FALSE(fs.RemoveBeneath(folder.path(), "link/a/b").ok()) << "a link beneath the folder";
  EXPECT_TRUE(*Exists(fs, elsewhere + "/a/b"));
  EXPECT_TRUE(fs.RemoveBeneath(folder / "link", "a/b").ok()) << "a link above";
  EXPECT_FALSE(*Exists(fs, elsewhere + "/a/b"));
  EXPECT_TRUE(RemoveTree(fs, folder / "link/a").ok());
  EXPECT_TRUE(RemoveTree(fs, folder / "link").ok());
  EXPECT_EQ(fs.List(folder.path())->size(), 1u) << "of the link's target only the link went";
}

TEST(ReadFile, ReadsFilesThatStatDoesNotMeasure) {
  const auto content = ReadFile(SystemFileSystem(), "/proc/self/maps", 1 << 20);
  ASSERT_TRUE(content.ok());
  EXPECT_GT(content->size(), 100u);
  EXPECT_EQ(ReadFile(SystemFileSystem(), "/proc/self/maps", 10).status().code(), Code::kCorrupt);
  EXPECT_EQ(ReadFile(SystemFileSystem(), "/tmp", 10).status().errno_value(), EISDIR);
  // Such files say what they say only to who reads from their first byte on.
  const auto setting = ReadFile(SystemFileSystem(), "/proc/sys/net/ipv4/ip_local_port_range", 256);
  ASSERT_TRUE(setting.ok());
  EXPECT_TRUE(setting->ends_with("\n")) << *setting;
}

TEST(RemoveTree, RemovesSymbolicLinksWithoutFollowing) {
  const TemporaryFolder folder;
  auto& fs = SystemFileSystem();
  ASSERT_TRUE(MakeFolders(fs, folder / "keep/inside").ok());
  ASSERT_TRUE(MakeFolders(fs, folder / "tree/a/b").ok());
  ASSERT_EQ(symlink((folder / "keep").c_str(), (folder / "tree/a/link").c_str()), 0);
  ASSERT_TRUE(RemoveTree(fs, folder / "tree").ok());
  EXPECT_FALSE(*Exists(fs, folder / "tree"));
  EXPECT_TRUE(*Exists(fs, folder / "keep/inside"));
}

TEST(Paths, JoinAndSplit) {
  EXPECT_EQ(JoinPath("/a", "b"), "/a/b");
  EXPECT_EQ(JoinPath("/a/", "/b"), "/a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(ParentPath("/a/b"), "/a");
  EXPECT_EQ(ParentPath("/a/b/"), "/a");
  EXPECT_EQ(ParentPath("/a//b"), "/a");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("a"), ".");
  EXPECT_EQ(ParentPath("/"), "/");
  EXPECT_EQ(BaseName("/a/b/"), "b");
  EXPECT_EQ(BaseName("b"), "b");
}

TEST(TemporaryPath, IsUniqueAndRecognised) {
  const std::string path = TemporaryPath("/d/chunk.v2", "n1-a7");
  EXPECT_NE(path, TemporaryPath("/d/chunk.v2", "n1-a7"));
  std::string tag;
  EXPECT_TRUE(IsTemporaryName(BaseName(path), &tag));
  EXPECT_EQ(tag, "n1-a7");
  for (const char* name :
       {"chunk", "chunk.tmp", "a.b.tmp", "a.b.0123456789abcdeg.tmp", ".0123456789abcdef.tmp", "a.0123456789abcdef.tmp"}) {
    EXPECT_FALSE(IsTemporaryName(name)) << name;
  }
}

}  // namespace
}  // namespace kedge::os

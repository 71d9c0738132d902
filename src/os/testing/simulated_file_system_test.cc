// The simulator itself: it keeps what POSIX promises, and loses, somewhere in a few hundred seeds, everything else. A
// simulator that loses too little would let broken commit rules pass; hence the tests that look for each kind of loss.
#include "os/testing/simulated_file_system.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>
#include <string>

#include "os/files/files.h"

namespace kedge::os::testing {
namespace {

constexpr uint64_t kSeeds = 400;

void WriteSynced(FileSystem& fs, const std::string& path, const std::string& content) {
  const auto file = fs.Open(path, OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kTruncate);
  ASSERT_TRUE(WriteAll(**file, content.data(), content.size(), 0).ok());
  ASSERT_TRUE((*file)->Fsync().ok());
  ASSERT_TRUE((*file)->Close().ok());
}

void WriteUnsynced(FileSystem& fs, const std::string& path, const std::string& content, uint64_t offset = 0) {
  const auto file = fs.Open(path, OpenFlags::kWrite | OpenFlags::kCreate);
  ASSERT_TRUE(WriteAll(**file, content.data(), content.size(), offset).ok());
  ASSERT_TRUE((*file)->Close().ok());
}

std::string ReadOr(FileSystem& fs, const std::string& path, const std::string& missing) {
  const auto content = ReadFile(fs, path, 1 << 24);
  return content.ok() ? *content : missing;
}

// What is left of `path` after crashes of one prepared state, over all seeds.
std::set<std::string> Outcomes(const std::function<void(FileSystem&)>& prepare, const std::string& path) {
  SimulatedFileSystem prepared;
  prepare(prepared);
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto fs = prepared.Clone();
    fs->Crash(seed);
    outcomes.insert(ReadOr(*fs, path, "<missing>"));
  }
  return outcomes;
}

TEST(SimulatedCrash, KeepsWhatWasSyncedWithItsFolder) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteSynced(fs, "/f", "precious");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"precious"}));
}

TEST(SimulatedCrash, MayLoseAnEntryWhoseFolderWasNotSynced) {
  const auto outcomes = Outcomes([](FileSystem& fs) { WriteSynced(fs, "/f", "precious"); }, "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"precious", "<missing>"}));
}

TEST(SimulatedCrash, MayLoseDataThatWasNotSynced) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteUnsynced(fs, "/f", "data");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"data", "", std::string(4, '\0')}));
}

TEST(SimulatedCrash, TearsUnsyncedWritesAtBlocksAndReordersThem) {
  const std::string old(16384, 'o');
  const std::string fresh(16384, 'n');
  bool torn_at_512 = false;
  bool later_without_earlier = false;
  const auto outcomes = Outcomes(
      [&](FileSystem& fs) {
        WriteSynced(fs, "/f", old);
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
        WriteUnsynced(fs, "/f", fresh.substr(0, 8192));
        WriteUnsynced(fs, "/f", fresh.substr(0, 8192), 8192);
      },
      "/f");
  EXPECT_TRUE(outcomes.count(old) == 1 && outcomes.count(fresh) == 1);
  for (const std::string& outcome : outcomes) {
    ASSERT_EQ(outcome.size(), old.size());
    for (size_t begin = 0; begin < outcome.size(); begin += 512) {
      const std::string sector = outcome.substr(begin, 512);
      ASSERT_TRUE(sector == std::string(512, 'o') || sector == std::string(512, 'n')) << "torn within a sector";
      if (begin % 4096 != 0 && sector[0] != outcome[begin - 1]) torn_at_512 = true;
    }
    if (outcome.substr(0, 8192) == old.substr(0, 8192) && outcome.substr(8192) == fresh.substr(8192))
      later_without_earlier = true;
  }
  EXPECT_TRUE(torn_at_512);
  EXPECT_TRUE(later_without_earlier);
}

TEST(SimulatedCrash, MayKeepAnIntermediateValue) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteSynced(fs, "/f", "1");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
        WriteUnsynced(fs, "/f", "2");
        WriteUnsynced(fs, "/f", "3");
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"1", "2", "3"}));
}

TEST(SimulatedCrash, RenamesAtomicallyButNotDurably) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteSynced(fs, "/f", "old");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
        WriteSynced(fs, "/f.tmp", "new");
        ASSERT_TRUE(fs.Rename("/f.tmp", "/f").ok());
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"old", "new"}));
}

TEST(SimulatedCrash, MayKeepARenameBeforeTheDataItBrought) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteSynced(fs, "/f", "old");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
        WriteUnsynced(fs, "/f.tmp", "new");
        ASSERT_TRUE(fs.Rename("/f.tmp", "/f").ok());
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"", "new", std::string(3, '\0')}));
}

TEST(SimulatedCrash, MayBringBackARemovedFile) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteSynced(fs, "/f", "x");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
        ASSERT_TRUE(fs.Unlink("/f").ok());
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"x", "<missing>"}));
}

TEST(SimulatedCrash, KeepsLaterOfTwoRemovalsWithoutTheEarlier) {
  SimulatedFileSystem prepared;
  WriteSynced(prepared, "/first", "1");
  WriteSynced(prepared, "/second", "2");
  ASSERT_TRUE(SyncFolder(prepared, "/").ok());
  ASSERT_TRUE(prepared.Unlink("/first").ok());
  ASSERT_TRUE(prepared.Unlink("/second").ok());
  int reordered = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto fs = prepared.Clone();
    fs->Crash(seed);
    if (*Exists(*fs, "/first") && !*Exists(*fs, "/second")) ++reordered;
  }
  EXPECT_GT(reordered, 0);
}

TEST(SimulatedCrash, SyncingAFolderKeepsARenameIntoItWhole) {
  SimulatedFileSystem prepared;
  ASSERT_TRUE(MakeFolders(prepared, "/a").ok());
  ASSERT_TRUE(MakeFolders(prepared, "/b").ok());
  WriteSynced(prepared, "/a/f", "x");
  ASSERT_TRUE(prepared.Rename("/a/f", "/b/f").ok());
  ASSERT_TRUE(SyncFolder(prepared, "/b").ok());
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto fs = prepared.Clone();
    fs->Crash(seed);
    ASSERT_EQ(ReadOr(*fs, "/b/f", "<missing>"), "x") << "seed " << seed;
    ASSERT_FALSE(*Exists(*fs, "/a/f")) << "seed " << seed;
  }
}

TEST(SimulatedCrash, LosesWhatLiesInAFolderThatWasNotSyncedItself) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        ASSERT_TRUE(fs.Mkdir("/d").ok());
        WriteSynced(fs, "/d/f", "x");
        ASSERT_TRUE(SyncFolder(fs, "/d").ok());
      },
      "/d/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"x", "<missing>"}));
}

TEST(SimulatedCrash, TruncationMayOrMayNotSurvive) {
  const auto outcomes = Outcomes(
      [](FileSystem& fs) {
        WriteSynced(fs, "/f", "abcdef");
        ASSERT_TRUE(SyncFolder(fs, "/").ok());
        const auto file = fs.Open("/f", OpenFlags::kWrite);
        ASSERT_TRUE((*file)->Ftruncate(2).ok());
        ASSERT_TRUE((*file)->Ftruncate(4).ok());
      },
      "/f");
  EXPECT_EQ(outcomes, std::set<std::string>({"abcdef", "ab", std::string("ab\0\0", 4)}));
}

TEST(SimulatedSync, AfterAFailureTheNextSuccessCoversNothingOld) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulatedFileSystem fs({.seed = seed});
    WriteSynced(fs, "/f", "old");
    ASSERT_TRUE(SyncFolder(fs, "/").ok());
    const auto file = fs.Open("/f", OpenFlags::kWrite);
    ASSERT_TRUE(WriteAll(**file, "new", 3, 0).ok());
    fs.faults().Add({.calls = CallsOf(Call::kFsync), .errno_value = EIO});
    ASSERT_EQ((*file)->Fsync().errno_value(), EIO);
    ASSERT_TRUE((*file)->Fsync().ok()) << "as Linux does: the pages are clean now";
    fs.Crash(seed);
    outcomes.insert(ReadOr(fs, "/f", "<missing>"));
  }
  EXPECT_EQ(outcomes, std::set<std::string>({"old", "new"}));
}

TEST(SimulatedSync, AFailedCloseMayLoseData) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulatedFileSystem fs({.seed = seed});
    WriteSynced(fs, "/f", "old");
    ASSERT_TRUE(SyncFolder(fs, "/").ok());
    fs.faults().Add({.calls = CallsOf(Call::kClose), .errno_value = EDQUOT});
    const auto file = fs.Open("/f", OpenFlags::kWrite);
    ASSERT_TRUE(WriteAll(**file, "new", 3, 0).ok());
    ASSERT_EQ((*file)->Close().errno_value(), EDQUOT);
    ASSERT_EQ((*file)->Close().errno_value(), EBADF) << "closed all the same";
    outcomes.insert(ReadOr(fs, "/f", "<missing>"));
  }
  EXPECT_EQ(outcomes, std::set<std::string>({"old", "new"}));
}

TEST(SimulatedSpace, FillsUpWithShortWritesAndFreesWhatIsRemoved) {
  SimulatedFileSystem fs({.capacity_bytes = 8192});
  const auto file = fs.Open("/f", OpenFlags::kWrite | OpenFlags::kCreate);
  const std::string data(10'000, 'x');
  EXPECT_EQ((*file)->Pwrite(data.data(), data.size(), 0).value(), 8192u);
  EXPECT_EQ((*file)->Pwrite(data.data(), 1, 8192).status().code(), Code::kNoSpace);
  EXPECT_EQ((*file)->Pwrite(data.data(), 100, 0).value(), 100u) << "rewriting needs no space";
  EXPECT_EQ(fs.StatVolume("/")->available_bytes, 0u);
  ASSERT_TRUE(fs.Unlink("/f").ok());
  EXPECT_EQ(fs.StatVolume("/")->available_bytes, 0u) << "still open";
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(fs.StatVolume("/")->available_bytes, 8192u);
  const auto reserved = fs.Open("/r", OpenFlags::kWrite | OpenFlags::kCreate);
  EXPECT_EQ((*reserved)->Fallocate(0, 9000, true).code(), Code::kNoSpace);
  EXPECT_TRUE((*reserved)->Fallocate(0, 8192, true).ok());
  EXPECT_EQ(fs.UsedBytes(), 8192u);
  EXPECT_EQ((*reserved)->Pwrite(data.data(), 8192, 0).value(), 8192u) << "into the reservation";
}

TEST(SimulatedSpace, CountsTheSameAfterACrash) {
  Random random(3);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedFileSystem fs({.seed = seed});
    for (int i = 0; i < 40; ++i) {
      const std::string path = "/f" + std::to_string(random.Below(5));
      switch (random.Below(4)) {
        case 0: WriteUnsynced(fs, path, std::string(random.Below(9000) + 1, 'x')); break;
        case 1: static_cast<void>(fs.Unlink(path)); break;
        case 2: static_cast<void>(fs.Rename(path, "/f" + std::to_string(random.Below(5)))); break;
        default: static_cast<void>(fs.Link(path, "/l" + std::to_string(random.Below(5)))); break;
      }
    }
    for (int round = 0; round < 2; ++round) {
      uint64_t bytes = 0;
      std::set<uint64_t> inodes;
      const auto entries = fs.List("/").value();
      for (const FolderEntry& entry : entries) {
        const FileInfo info = fs.Stat("/" + entry.name).value();
        if (inodes.insert(info.inode).second) bytes += info.allocated_bytes;
      }
      ASSERT_EQ(fs.UsedBytes(), bytes) << "seed " << seed << " round " << round;
      fs.Crash(seed);
    }
  }
}

TEST(SimulatedKill, LeavesTheStateAndFailsEverythingAfter) {
  SimulatedFileSystem fs;
  WriteSynced(fs, "/f", "abc");
  const auto file = fs.Open("/f", OpenFlags::kReadWrite);
  fs.faults().KillAfter(1);
  ASSERT_TRUE((*file)->Pwrite("X", 1, 0).ok());
  EXPECT_EQ((*file)->Pwrite("YYY", 3, 0).status().errno_value(), kKilledErrno);
  EXPECT_EQ((*file)->Fsync().errno_value(), kKilledErrno);
  EXPECT_EQ(fs.Unlink("/f").errno_value(), kKilledErrno);
  EXPECT_EQ(fs.Stat("/f").status().errno_value(), kKilledErrno);
  EXPECT_TRUE(fs.faults().IsKilled());
  fs.Restart();
  const std::string left = ReadOr(fs, "/f", "<missing>");
  EXPECT_TRUE(left == "Xbc" || left == "Ybc" || left == "YYc" || left == "YYY") << left;
  EXPECT_EQ((*file)->Fsync().errno_value(), EBADF) << "the dead process's file";
}

TEST(SimulatedKill, MayStrikeWithinAWrite) {
  std::set<size_t> sizes;
  for (size_t bytes = 100; bytes < 140; ++bytes) {
    SimulatedFileSystem fs;
    const auto file = fs.Open("/f", OpenFlags::kReadWrite | OpenFlags::kCreate);
    fs.faults().KillAfter(0);
    ASSERT_FALSE((*file)->Pwrite(std::string(bytes, 'x').data(), bytes, 0).ok());
    fs.Restart();
    sizes.insert(ReadOr(fs, "/f", "").size());
  }
  EXPECT_GT(sizes.size(), 10u);
}

TEST(SimulatedFileSystem, FreesLocksWhenTheProcessDies) {
  SimulatedFileSystem fs;
  const auto file = fs.Open("/f", OpenFlags::kReadWrite | OpenFlags::kCreate);
  ASSERT_TRUE(*(*file)->TryLock(true));
  fs.Restart();
  const auto next = fs.Open("/f", OpenFlags::kReadWrite);
  EXPECT_TRUE(*(*next)->TryLock(true));
}

TEST(SimulatedFileSystem, ReadOnlyRefusesEveryChange) {
  SimulatedFileSystem fs;
  WriteSynced(fs, "/f", "x");
  fs.SetReadOnly(true);
  EXPECT_EQ(fs.Open("/g", OpenFlags::kWrite | OpenFlags::kCreate).status().errno_value(), EROFS);
  EXPECT_EQ(fs.Open("/f", OpenFlags::kWrite).status().errno_value(), EROFS);
  EXPECT_EQ(fs.Unlink("/f").errno_value(), EROFS);
  EXPECT_EQ(fs.Rename("/f", "/g").errno_value(), EROFS);
  EXPECT_EQ(fs.Mkdir("/d").errno_value(), EROFS);
  EXPECT_EQ(ReadOr(fs, "/f", ""), "x");
}

TEST(SimulatedFileSystem, ReplaysFromItsSeed) {
  const auto run = [](uint64_t seed) {
    SimulatedFileSystem fs({.seed = seed});
    fs.faults().ShortTransfers(0.5, seed);
    Random random(seed);
    for (int i = 0; i < 30; ++i) {
      const std::string path = "/f" + std::to_string(random.Below(4));
      WriteUnsynced(fs, path, std::string(random.Below(20'000) + 1, static_cast<char>('a' + i % 26)));
      if (random.Chance(0.3)) static_cast<void>(fs.Rename(path, "/g" + std::to_string(random.Below(3))));
    }
    fs.Crash(seed);
    std::string all;
    const auto entries = fs.List("/").value();
    for (const FolderEntry& entry : entries) all += entry.name + "=" + ReadOr(fs, "/" + entry.name, "") + "\n";
    return all;
  };
  std::set<std::string> distinct;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(run(seed), run(seed)) << "seed " << seed;
    distinct.insert(run(seed));
  }
  EXPECT_GT(distinct.size(), 15u);
}

TEST(SimulatedFileSystem, CollectsWhatNobodyCanReach) {
  SimulatedFileSystem fs;
  for (int i = 0; i < 5000; ++i) {
    WriteUnsynced(fs, "/f", "x");
    ASSERT_TRUE(fs.Unlink("/f").ok());
    ASSERT_TRUE(SyncFolder(fs, "/").ok());
  }
  EXPECT_EQ(fs.UsedBytes(), 0u);
  EXPECT_TRUE(fs.List("/")->empty());
}

}  // namespace
}  // namespace kedge::os::testing

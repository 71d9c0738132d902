#include "os/memory/mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "os/files/files.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::TemporaryFolder;

constexpr size_t kBytes = size_t{3} << 20;

class Mapping : public ::testing::Test {
 protected:
  TemporaryFolder folder_{"/dev/shm"};
  const std::string path_ = folder_ / "pool";

  static size_t ResidentPages(const SharedMapping& mapping) {
    std::vector<unsigned char> pages(mapping.bytes() / 4096);
    EXPECT_EQ(mincore(mapping.data(), mapping.bytes(), pages.data()), 0);
    size_t resident = 0;
    for (const unsigned char page : pages) resident += page & 1;
    return resident;
  }
};

TEST_F(Mapping, SharesBytesBetweenMappings) {
  auto first = SharedMapping::Create(path_, kBytes).value();
  auto second = SharedMapping::Open(path_, kBytes).value();
  EXPECT_EQ(second.bytes(), kBytes);
  EXPECT_NE(first.data(), second.data());
  std::memset(first.data(), 0x5A, kBytes);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), kBytes), 0);
  auto third = SharedMapping::FromDescriptor(UniqueFd(dup(first.descriptor())), path_).value();
  EXPECT_EQ(third.data()[kBytes - 1], std::byte{0x5A});
}

// Large pages of a file in memory that this process has mapped, in bytes.
size_t LargePageBytes(const SharedMapping& mapping) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool is_it = false;
  while (std::getline(maps, line)) {
    if (line.find(' ') != std::string::npos && line.find('-') < line.find(' ')) {
      is_it = std::stoull(line, nullptr, 16) == reinterpret_cast<uintptr_t>(mapping.data());
    }
    if (is_it && line.starts_with("ShmemPmdMapped:")) return std::stoull(line.substr(line.find(':') + 1)) << 10;
  }
  return 0;
}

// MADV_COLLAPSE of files in memory came with Linux 6.1.
bool KernelHasThem() {
  utsname name{};
  int major = 0;
  int minor = 0;
  return uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 1)) && std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
}

// Where the kernel has them; the content and the space are right in any case.
TEST_F(Mapping, MakesLargePagesWhereTheyLieWholeInTheRange) {
  constexpr size_t kLarge = size_t{2} << 20;
  std::ofstream(path_).close();
  ASSERT_EQ(truncate(path_.c_str(), 5 * kLarge), 0);
  auto mapping = SharedMapping::Open(path_, 5 * kLarge).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.data()) % kLarge, 0u);
  std::memset(mapping.data() + 2 * kLarge, 0x5A, 4096);
  mapping.MakeLargePages(1, 4 * kLarge);
  EXPECT_EQ(LargePageBytes(mapping), KernelHasThem() ? 3 * kLarge : 0);
  EXPECT_EQ(mapping.data()[kLarge], std::byte{0});
  EXPECT_EQ(mapping.data()[2 * kLarge + 4095], std::byte{0x5A});
  EXPECT_EQ(mapping.data()[2 * kLarge + 4096], std::byte{0});
  EXPECT_LE(ResidentPages(mapping), 3 * kLarge / 4096);
}

TEST_F(Mapping, SurvivesItsMaker) {
  {
    const auto made = SharedMapping::Create(path_, kBytes).value();
    std::memcpy(made.data(), "kept", 4);
  }
  EXPECT_EQ(std::memcmp(SharedMapping::Open(path_).value().data(), "kept", 4), 0);
}

TEST_F(Mapping, RefusesWhatIsNotTheFileItExpects) {
  EXPECT_EQ(SharedMapping::Open(path_).status().code(), Code::kNotFound);
  const auto made = SharedMapping::Create(path_, kBytes).value();
  EXPECT_EQ(SharedMapping::Create(path_, kBytes).status().code(), Code::kAlreadyExists);
  EXPECT_EQ(SharedMapping::Open(path_, kBytes + 4096).status().code(), Code::kCorrupt);
  EXPECT_EQ(SharedMapping::Create(folder_ / "none", 0).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(symlink(path_.c_str(), (folder_ / "link").c_str()), 0);
  EXPECT_FALSE(SharedMapping::Open(folder_ / "link").ok()) << "a symbolic link could lead anywhere";
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(SharedMapping::Open(folder_ / "fifo").status().code(), Code::kPermission);
  const int empty = open((folder_ / "empty").c_str(), O_CREAT | O_RDWR, 0600);
  close(empty);
  EXPECT_EQ(SharedMapping::Open(folder_ / "empty").status().code(), Code::kCorrupt);
}

TEST_F(Mapping, RefusesAFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  { const auto made = SharedMapping::Create(path_, kBytes).value(); }
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  const Status refused = SharedMapping::Open(path_).status();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_NE(refused.message().find("12345"), std::string::npos);
}

TEST_F(Mapping, ReservesItsSpaceOrLeavesNothing) {
  const auto volume = SystemFileSystem().StatVolume(folder_.path()).value();
  const auto made = SharedMapping::Create(path_, kBytes).value();
  EXPECT_GE(SystemFileSystem().Stat(path_)->allocated_bytes, kBytes);
  const auto too_large = SharedMapping::Create(folder_ / "large", volume.total_bytes + (size_t{1} << 30));
  EXPECT_EQ(too_large.status().code(), Code::kNoSpace) << too_large.status().ToString();
  EXPECT_FALSE(*Exists(SystemFileSystem(), folder_ / "large"));
}

TEST_F(Mapping, PopulatesWithoutDisturbing) {
  auto mapping = SharedMapping::Create(path_, kBytes).value();
  std::memcpy(mapping.data() + 4096 * 5 + 100, "content", 7);
  ASSERT_TRUE(mapping.Populate(100, kBytes - 100).ok());
  EXPECT_EQ(ResidentPages(mapping), kBytes / 4096);
  EXPECT_EQ(std::memcmp(mapping.data() + 4096 * 5 + 100, "content", 7), 0);
  ASSERT_TRUE(mapping.PunchHole(0, kBytes).ok());
  EXPECT_EQ(mapping.data()[4096 * 5 + 100], std::byte{0});
  mapping.data()[4096 * 5 + 100] = mapping.data()[4096 * 8] = std::byte{1};
  EXPECT_EQ(mapping.WrittenBytes(0, kBytes), 2u * 4096);
  EXPECT_EQ(mapping.WrittenBytes(4096, 4096 * 5), 4096u);
}

TEST_F(Mapping, StopsPopulatingWhenCancelled) {
  auto mapping = SharedMapping::Create(path_, size_t{64} << 20).value();
  // fallocate has made the pages, so this looks at this process's own page tables.
  const std::atomic<bool> cancelled{true};
  const auto faults_before = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const long before = faults_before();
  ASSERT_TRUE(mapping.Populate(0, mapping.bytes(), &cancelled).ok());
  EXPECT_LT(faults_before() - before, 1000);
}

TEST_F(Mapping, NoticesWhenItsFileIsGone) {
  auto mapping = SharedMapping::Create(path_, kBytes).value();
  EXPECT_TRUE(mapping.CheckLinked().ok());
  ASSERT_EQ(rename(path_.c_str(), (folder_ / "moved").c_str()), 0);
  EXPECT_EQ(mapping.CheckLinked().code(), Code::kNotFound);
  const auto other = SharedMapping::Create(path_, kBytes).value();
  EXPECT_EQ(mapping.CheckLinked().code(), Code::kNotFound) << "another file has the name now";
  ASSERT_EQ(unlink((folder_ / "moved").c_str()), 0);
  EXPECT_EQ(mapping.CheckLinked().code(), Code::kNotFound);
  mapping.data()[0] = std::byte{1};  // still ours
}

TEST_F(Mapping, MovesItsOwnership) {
  auto first = SharedMapping::Create(path_, kBytes).value();
  std::byte* data = first.data();
  SharedMapping second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.data(), data);
  first = std::move(second);
  EXPECT_EQ(first.data(), data);
  first.data()[0] = std::byte{1};
}

TEST_F(Mapping, IsNotInheritedByForkedChildren) {
  const auto mapping = SharedMapping::Create(path_, kBytes).value();
  const pid_t child = fork();
  if (child == 0) {  // looks for the file, not the address: a sanitizer may have put memory of its own there
    std::ifstream maps("/proc/self/maps");
    const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
    _exit(text.empty() || text.find(path_) != std::string::npos ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kedge::os

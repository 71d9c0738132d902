#include "os/machine/machine.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "os/files/files.h"
#include "os/machine/cgroup.h"
#include "os/process/thread.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::TemporaryFolder;

TEST(Machine, DescribesThisOne) {
  EXPECT_EQ(BootId().size(), 36u);
  EXPECT_FALSE(HostName().empty());
  EXPECT_EQ(MachineId().empty(), access("/etc/machine-id", R_OK) != 0);
  struct stat of_namespace {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &of_namespace), 0);
  EXPECT_EQ(PidNamespace(), of_namespace.st_ino) << "of the namespace, not of the link in this process's folder";
  EXPECT_EQ(EffectiveUser(), geteuid());
  EXPECT_NE(KernelRelease().find('.'), std::string::npos);
  const MemoryInfo memory = MachineMemory().value();
  EXPECT_EQ(memory.total_bytes / 4096,
            static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 4096);
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  EXPECT_GE(UsableCpuCount(), 1);
  EXPECT_LE(UsableCpuCount(), sysconf(_SC_NPROCESSORS_ONLN));
}

TEST(Machine, MeasuresPrivateMemory) {
  const ProcessMemory before = OwnMemory().value();
  EXPECT_GT(before.resident_bytes, before.private_bytes);
  std::vector<char> memory(size_t{64} << 20);
  std::memset(memory.data(), 1, memory.size());
  const ProcessMemory after = OwnMemory().value();
  EXPECT_GE(after.private_bytes, before.private_bytes + memory.size() / 2);
}

// A /proc/self and a /sys/fs/cgroup made of files.
class Cgroups : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& content) {
    auto& fs = SystemFileSystem();
    ASSERT_TRUE(MakeFolders(fs, ParentPath(folder_ / path), 0700, false).ok());
    const auto file = fs.Open(folder_ / path, OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kTruncate);
    ASSERT_TRUE(WriteAll(**file, content.data(), content.size(), 0).ok());
  }
  std::optional<CgroupMemory> Limit() { return CgroupMemoryLimit(folder_ / "proc", folder_.path()); }
  double Pressure() { return PressurePercent("memory", folder_ / "proc", folder_.path()); }
  std::optional<int> Quota() { return CgroupCpuQuota(folder_ / "proc", folder_.path()); }
  TemporaryFolder folder_;
};

TEST_F(Cgroups, TakesTheTightestLimitOfVersionTwo) {
  Put("proc/cgroup", "0::/job/step\n");
  Put("proc/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  Put("sys/fs/cgroup/job/step/memory.max", "max\n");
  Put("sys/fs/cgroup/job/memory.max", "1000000\n");
  Put("sys/fs/cgroup/job/memory.current", "600000\n");
  Put("sys/fs/cgroup/job/memory.stat", "anon 100000\ninactive_file 200000\nactive_file 50000\nfile 1\n");
  Put("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  Put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  ASSERT_TRUE(Limit().has_value());
  EXPECT_EQ(Limit()->limit_bytes, 1'000'000u);
  EXPECT_EQ(Limit()->used_bytes, 600'000u);
  EXPECT_EQ(Limit()->LeftBytes(), 650'000u) << "file cache can be dropped";
  EXPECT_EQ(Quota(), 2) << "one and a half, rounded up";
}

TEST_F(Cgroups, TakesTheTightestLimitOfVersionOne) {
  Put("proc/cgroup", "9:name=systemd:/\n4:memory:/slurm/job_7\n1:cpu,cpuacct:/slurm\n0::/\n");
  Put("proc/mountinfo",
      "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  Put("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "5000000\n");
  Put("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "1000000\n");
  Put("sys/fs/cgroup/memory/slurm/job_7/memory.stat", "total_inactive_file 400000\n");
  Put("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
  Put("sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "300000\n");
  Put("sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
  ASSERT_TRUE(Limit().has_value());
  EXPECT_EQ(Limit()->limit_bytes, 5'000'000u);
  EXPECT_EQ(Limit()->LeftBytes(), 4'400'000u);
  EXPECT_EQ(Quota(), 3);
}

TEST_F(Cgroups, UnderstandsWhatAContainerSees) {
  // The container's own group is mounted as the root.
  Put("proc/cgroup", "4:memory:/docker/abc\n");
  Put("proc/mountinfo", "30 25 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  Put("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n");
  ASSERT_TRUE(Limit().has_value());
  EXPECT_EQ(Limit()->limit_bytes, 700u);
  // A private namespace, and a process moved in from outside.
  Put("proc/cgroup", "0::/../other\n");
  Put("proc/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Put("sys/fs/cgroup/memory.max", "800\n");
  ASSERT_TRUE(Limit().has_value());
  EXPECT_EQ(Limit()->limit_bytes, 800u);
}

TEST_F(Cgroups, TellsOfItsOwnPressureAndElseOfTheMachines) {
  EXPECT_EQ(Pressure(), 0);
  Put("proc/pressure/memory",
      "some avg10=12.50 avg60=3.00 avg300=1.00 total=5\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n");
  EXPECT_EQ(Pressure(), 12.5);
  Put("proc/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Put("proc/cgroup", "0::/\n");
  EXPECT_EQ(Pressure(), 12.5) << "the root group tells nothing";
  Put("proc/cgroup", "0::/job\n");
  Put("sys/fs/cgroup/job/memory.pressure", "some avg10=0.75 avg60=3.00 avg300=1.00 total=5\n");
  EXPECT_EQ(Pressure(), 0.75) << "somebody else waits";
  Put("sys/fs/cgroup/job/memory.pressure", "garbage\n");
  EXPECT_EQ(Pressure(), 0);
}

TEST_F(Cgroups, HasNoLimitWhereNoneIsToldOrReadable) {
  EXPECT_FALSE(Limit().has_value());
  Put("proc/cgroup", "garbage\n::::\n4:memory\n");
  Put("proc/mountinfo", "nonsense - cgroup\n - \n");
  EXPECT_FALSE(Limit().has_value());
  EXPECT_FALSE(Quota().has_value());
  Put("proc/cgroup", "0::/a\n");
  Put("proc/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Put("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_FALSE(Limit().has_value());
}

// Of this thread; 0: the kernel tells of none, being older than 6.12, or because the thread has always had the usual one.
uint64_t SliceNs() {
  uint64_t attributes[6] = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0), 0);
  return attributes[3];
}

TEST(Thread, AShortSliceIsInheritedWhereThatIsWanted) {
  const auto slices = [](Slice whose) {
    std::pair<uint64_t, uint64_t> of_both;
    std::thread outer([&] {
      EXPECT_TRUE(SetThreadSlice(std::chrono::microseconds(300), whose).ok());
      of_both.first = SliceNs();
      std::thread([&] { of_both.second = SliceNs(); }).join();
    });
    outer.join();
    return of_both;
  };
  if (slices(Slice::kOfThread).first == 0) GTEST_SKIP() << "this kernel has no slices of threads";
  EXPECT_EQ(slices(Slice::kOfItsThreadsToo), std::pair(uint64_t{300'000}, uint64_t{300'000}));
  EXPECT_NE(slices(Slice::kOfThread).second, 300'000u);
}

TEST(Thread, SettingsBelongToTheThreadAlone) {
  const int nice_before = getpriority(PRIO_PROCESS, 0);
  const int nice_inside = std::min(nice_before + 5, 19);
  std::thread worker([&] {
    SetThreadName("a name that is longer than fits");
    EXPECT_TRUE(SetThreadIoClass(IoClass::kIdle).ok());
    EXPECT_TRUE(SetThreadIoClass(IoClass::kBestEffortLow).ok());
    EXPECT_TRUE(SetThreadNice(nice_inside).ok());
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice_inside);
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    EXPECT_STREQ(name, "a name that is ");
  });
  worker.join();
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice_before);
}

}  // namespace
}  // namespace kedge::os

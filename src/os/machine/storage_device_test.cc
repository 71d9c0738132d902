// Descriptions of storage: from a made-up /proc and /sys, and of the machine that runs the test.
#include "os/machine/storage_device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

class StorageDevice : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // Where the disk of the temporary folder is looked for.
  std::string DeviceFolder() const {
    struct stat info {};
    EXPECT_EQ(stat(root_.path().c_str(), &info), 0);
    return fmt::format("/sys/dev/block/{}:{}", major(info.st_dev), minor(info.st_dev));
  }
  std::string Describe() { return DescribeStorage(root_ / "not/there/yet", root_.path()); }

  testing::TemporaryFolder root_;
};

TEST_F(StorageDevice, ADiskIsNamedByFileSystemModelAndSize) {
  Write("/proc/self/mountinfo", "25 1 8:1 / / rw - ext3 /dev/sdb rw\n26 25 8:2 / /tmp rw,relatime shared:1 - xfs /dev/sda2 rw\n");
  Write(DeviceFolder() + "/device/model", "Example SSD 9000   \n");
  Write(DeviceFolder() + "/size", "1875385008\n");
  Write(DeviceFolder() + "/queue/rotational", "0\n");
  const std::string below_tmp = Describe();
  EXPECT_EQ(below_tmp,
            fmt::format("{}, Example SSD 9000, 894 GiB, solid state", root_.path().starts_with("/tmp/") ? "xfs" : "ext3"));
  Write(DeviceFolder() + "/queue/rotational", "1\n");
  EXPECT_TRUE(Describe().ends_with("rotating"));
}

TEST_F(StorageDevice, ANetworkFileSystemIsNamedByItsSource) {
  Write("/proc/self/mountinfo", "25 1 0:44 / / rw - lustre 10.0.0.1@tcp:/scratch rw\n");
  EXPECT_EQ(Describe(), "lustre, 10.0.0.1@tcp:/scratch");
}

TEST_F(StorageDevice, MemoryIsNamedByItsMachine) {
  Write("/proc/self/mountinfo", "25 1 0:44 / / rw - tmpfs tmpfs rw\n");
  Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Example CPU @ 3.0GHz\nflags\t\t: x\n");
  EXPECT_TRUE(Describe().starts_with("tmpfs, Example CPU @ 3.0GHz, ")) << Describe();
}

TEST_F(StorageDevice, TheLongestAndLastMountCounts) {
  const std::string folder = root_.path();
  Write("/proc/self/mountinfo",
        fmt::format("1 0 0:44 / {0} rw - first a rw\n2 1 0:45 / {0} rw - second b rw\n3 0 0:46 / / rw - third c "
                    "rw\n4 0 0:47 / {0}x rw - fourth d rw\nbroken line\n",
                    folder));
  EXPECT_EQ(Describe(), "second, b");
}

TEST_F(StorageDevice, NothingToReadIsSaidAndOddBytesAreReplaced) {
  EXPECT_TRUE(Describe().starts_with("unknown file system"));
  Write("/proc/self/mountinfo", "25 1 0:44 / / rw - nfs h\xc3\xb6st:/" + std::string(400, 'x') + " rw\n");
  const std::string description = Describe();
  EXPECT_TRUE(description.starts_with("nfs, h??st:/"));
  EXPECT_EQ(description.size(), 255u);
}

TEST(StorageDeviceHere, DescribesThisMachineAlikeEachTime) {
  EXPECT_TRUE(DescribeStorage("/dev/shm").starts_with("tmpfs, "));
  EXPECT_EQ(DescribeStorage("/tmp"), DescribeStorage("/tmp/no-such-folder"));
}

}  // namespace
}  // namespace kedge::os

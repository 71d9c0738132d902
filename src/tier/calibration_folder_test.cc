// Calibrations on file: found again by device, and refused when they are another's, damaged, or of other chunks.
#include "tier/calibration_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "os/files/files.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

class CalibrationFolder : public ::testing::Test {
 protected:
  CalibrationFolder() {
    key_ = CalibrationKeyOf(TierKind::kDirectory, temporary_.path());
    calibration_.kind = key_.kind;
    calibration_.device = key_.device;
    calibration_.chunk_bytes = 64 << 20;
    calibration_.kernel = "6.1";
    calibration_.samples = {{1, 1'000'000, 3, 10}};
  }
  Result<Calibration> Load(uint64_t chunk_bytes = 64 << 20) {
    return LoadCalibration(os::SystemFileSystem(), folder_, key_, CalibrationOrigin::kMeasured, chunk_bytes);
  }
  std::string Path() const { return CalibrationPath(folder_, key_, CalibrationOrigin::kMeasured); }

  os::testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_ / "state/kedge";
  CalibrationKey key_;
  Calibration calibration_;
};

TEST_F(CalibrationFolder, KeepsOneForEachDeviceAndOrigin) {
  EXPECT_EQ(Load().status().code(), Code::kNotFound);
  ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), folder_, calibration_).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(*Load(), calibration_);
  struct stat info {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);

  Calibration learned = calibration_;
  learned.origin = CalibrationOrigin::kLearned;
  ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), folder_, learned).ok());
  EXPECT_EQ(*Load(), calibration_) << "what was learned stands beside what was measured";

  calibration_.samples = {{1, 2'000'000, 3, 10}, {9, 5, 1, 0}};
  ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), folder_, calibration_).ok());
  EXPECT_EQ(*Load(), calibration_) << "replaced";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "no temporary stays behind";
}

TEST_F(CalibrationFolder, WhatKilledProcessesHaveLeftGoes) {
  os::FileSystem& fs = os::SystemFileSystem();
  ASSERT_TRUE(SaveCalibration(fs, folder_, calibration_).ok());
  const std::string old = os::TemporaryPath(Path(), "calibration"), of_another = os::TemporaryPath(Path(), "another");
  const std::string recent = os::TemporaryPath(Path(), "calibration");
  for (const std::string& path : {old, of_another, recent}) {
    std::ofstream(path) << "half";
    const int64_t hours = path == recent ? 0 : 2;
    ASSERT_TRUE(fs.SetModifiedTime(path, WallTimeNs() - Duration(std::chrono::hours(hours)).count()).ok());
  }
  ASSERT_TRUE(SaveCalibration(fs, folder_, calibration_).ok());
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(recent)) << "somebody may be writing it";
  EXPECT_TRUE(std::filesystem::exists(of_another));
  EXPECT_TRUE(Load().ok());
}

TEST_F(CalibrationFolder, AnotherDevicesIsNotUsed) {
  calibration_.device = "another";
  ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), folder_, calibration_).ok());
  EXPECT_EQ(Load().status().code(), Code::kNotFound);
  // A collision of names, or a copy.
  std::filesystem::rename(CalibrationPath(folder_, {key_.kind, "another"}, CalibrationOrigin::kMeasured), Path());
  EXPECT_EQ(Load().status().code(), Code::kMismatch);
}

TEST_F(CalibrationFolder, IsOfChunksOfAboutThatSize) {
  ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), folder_, calibration_).ok());
  EXPECT_TRUE(Load(16 << 20).ok());
  EXPECT_TRUE(Load(256 << 20).ok());
  EXPECT_EQ(Load(8 << 20).status().code(), Code::kMismatch);
  EXPECT_EQ(Load(512 << 20).status().code(), Code::kMismatch);
}

TEST_F(CalibrationFolder, ADamagedOneIsNamed) {
  ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), folder_, calibration_).ok());
  std::ofstream(Path(), std::ios::app) << "sample 3 1 1 1\n";
  EXPECT_EQ(Load().status().code(), Code::kCorrupt);
  EXPECT_NE(Load().status().message().find(Path()), std::string::npos);
}

}  // namespace
}  // namespace kedge

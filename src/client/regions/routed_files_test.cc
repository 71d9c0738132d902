// Files on their way through local storage into an image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <system_error>

#include "capture/store_sink.h"
#include "client/regions/routed_files.h"
#include "client/testing/make_core.h"
#include "os/files/files.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RoutedFilesTest : public ::testing::Test {
 protected:
  static void Write(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
  std::set<std::string> Inside(const std::string& path) const {
    std::set<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) names.insert(entry.path().filename());
    return names;
  }
  // Into a store on a simulated disk.
  Status Capture(RoutedFiles* files) {
    StoreSink sink(&*core_->catalog, {1 << 20, 64 << 10});
    ImageCapture capture;
    KEDGE_RETURN_IF_ERROR(capture.Begin(&sink, identity_, "", 0));
    Status status = files->Capture(&capture);
    if (status.ok()) status = capture.End(1);
    if (!status.ok()) capture.Abort();
    return status;
  }

  os::testing::SimulatedFileSystem disk_;
  const std::unique_ptr<Core> core_ = testing::MakeStartedCore(disk_);
  const ImageIdentity identity_{{core_->catalog->id(), "job", "wave", 1, 1, 1}, 0, 1};
  const os::testing::TemporaryFolder folder_;
  const std::string routes_ = folder_ / "files";
  RoutedFiles files_{os::SystemFileSystem(), routes_};
};

TEST_F(RoutedFilesTest, EachFileHasOnePathOfItsOwnWithItsLastPart) {
  EXPECT_EQ(files_.Route("").status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Inside(folder_.path()), IsEmpty()) << "made at the first use";
  const std::string one = files_.Route(folder_ / "a/out.h5").value();
  const std::string two = files_.Route(folder_ / "b/out.h5").value();
  EXPECT_NE(one, two);
  EXPECT_EQ(os::BaseName(two), "out.h5");
  EXPECT_EQ(files_.Route(folder_ / "b/../a//out.h5").value(), one) << "the same file";
  EXPECT_EQ(files_.OriginalOf(two), folder_ / "b/out.h5");
  EXPECT_EQ(files_.files().size(), 2u);
  for (std::string folder = os::ParentPath(one); folder != folder_.path(); folder = os::ParentPath(folder)) {
    EXPECT_EQ(os::SystemFileSystem().Stat(folder)->mode, 0700u) << folder;
  }
}

TEST_F(RoutedFilesTest, WhatWasNotWrittenOrStillIsFailsTheImageByName) {
  const std::string original = folder_ / "out.h5";
  const std::string routed = files_.Route(original).value();
  const Status missing = Capture(&files_);
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr(original), HasSubstr("not written")));
  Write(routed, "content");
  EXPECT_TRUE(Capture(&files_).ok());
  EXPECT_TRUE(std::filesystem::exists(routed)) << "it is still to be published";

  // Somebody writes on while it is read.
  os::testing::InterposedFileSystem interposed(os::SystemFileSystem(), [&](os::testing::Call call, const std::string& path) {
    if (call == os::testing::Call::kPread) std::ofstream(path, std::ios::app) << "more";
    return os::testing::Interposition::kPass;
  });
  RoutedFiles growing(interposed, folder_ / "growing");
  Write(growing.Route(original).value(), "begin");
  const Status grown = Capture(&growing);
  EXPECT_EQ(grown.code(), Code::kFailedPrecondition);
  EXPECT_THAT(grown.message(), AllOf(HasSubstr(original), HasSubstr("from 5 to 9 bytes")));
}

TEST_F(RoutedFilesTest, TheLastToLeaveRemovesTheFolder) {
  {
    RoutedFiles others(os::SystemFileSystem(), routes_);
    const std::string kept = others.Route("/x/kept").value();
    Write(files_.Route("/x/gone").value(), "1");
    files_.RemoveAll();
    EXPECT_TRUE(files_.empty());
    EXPECT_EQ(Inside(routes_).size(), 1u);
    EXPECT_TRUE(std::filesystem::exists(os::ParentPath(kept))) << "another context's";
    EXPECT_NE(files_.Route("/x/gone").value(), "") << "begins anew";
    files_.RemoveAll();
  }
  EXPECT_THAT(Inside(folder_.path()), IsEmpty());
}

}  // namespace
}  // namespace kedge::client

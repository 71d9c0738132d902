// What one rank keeps by itself: what is declared, what was taken, files on their way, and what it says of an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "capture/store_sink.h"
#include "client/api/error_message.h"
#include "client/core/ledger.h"
#include "client/regions/region_table.h"
#include "client/regions/routed_files.h"
#include "client/restart/second_try.h"
#include "client/testing/core.h"
#include "os/files/files.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RegionGroupTest : public ::testing::Test {
 protected:
  static kedge_region_info Named(const char* name) {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.name = name;
    return info;
  }
  static kedge_object Object() {
    kedge_object object{};
    object.struct_size = sizeof object;
    object.size = [](void*, size_t*) { return 0; };
    object.serialize = [](void*, kedge_writer*) { return 0; };
    object.deserialize = [](void*, kedge_reader*, size_t) { return 0; };
    return object;
  }
  Code Protect(int id, const kedge_region_info& info) { return group_.Protect(id, memory_, 4, 8, &info).code(); }
  std::vector<int> Ids() {
    std::vector<int> ids;
    for (const DeclaredRegion& region : group_.regions()) ids.push_back(region.description.id);
    return ids;
  }

  double memory_[4] = {};
  RegionGroup group_;
};

TEST_F(RegionGroupTest, AnIdIsOneRegionsOrObjectsAndKeepsItsPlace) {
  ASSERT_TRUE(group_.Protect(7, memory_, 4, 8, nullptr).ok());
  ASSERT_TRUE(group_.Protect(-3, memory_, 2, 8, nullptr).ok());
  ASSERT_TRUE(group_.ProtectObject(5, "tree", Object()).ok());
  EXPECT_THAT(Ids(), ElementsAre(7, -3, 5));
  group_.Find(5)->description.bytes = 1000;  // as the last checkpoint found it
  EXPECT_EQ(group_.bytes(), 48u) << "of memory alone";
  kedge_region_info info = Named(nullptr);
  info.reinterpret = 1;
  ASSERT_TRUE(group_.Protect(7, memory_ + 1, 3, 8, &info).ok());
  EXPECT_TRUE(group_.Find(7)->reinterpret);
  ASSERT_TRUE(group_.ProtectObject(7, nullptr, Object()).ok());
  EXPECT_EQ(group_.Find(7)->address, nullptr);
  ASSERT_TRUE(group_.Protect(5, memory_, 1, 8, nullptr).ok());
  EXPECT_EQ(group_.Find(5)->object.size, nullptr);
  EXPECT_THAT(Ids(), ElementsAre(7, -3, 5));
  EXPECT_EQ(group_.size(), 3u);
  EXPECT_EQ(group_.bytes(), 24u);
  EXPECT_TRUE(group_.Unprotect(-3).ok());
  EXPECT_EQ(group_.Unprotect(-3).code(), Code::kNotFound);
  EXPECT_EQ(group_.Find(-3), nullptr);
  EXPECT_THAT(Ids(), ElementsAre(7, 5));
}

TEST_F(RegionGroupTest, ANameIsOneRegionsUntilItLetsGo) {
  ASSERT_EQ(Protect(1, Named("u")), Code::kOk);
  EXPECT_EQ(Protect(2, Named("u")), Code::kInvalidArgument);
  EXPECT_EQ(group_.ProtectObject(2, "u", Object()).code(), Code::kInvalidArgument);
  EXPECT_EQ(Protect(1, Named("u")), Code::kOk) << "its own";
  ASSERT_EQ(Protect(1, Named("v")), Code::kOk);
  EXPECT_EQ(Protect(2, Named("u")), Code::kOk) << "region 1 is called otherwise now";
  EXPECT_EQ(Protect(2, Named("v")), Code::kInvalidArgument);
  EXPECT_EQ(group_.Find(2)->description.name, "u");
  ASSERT_TRUE(group_.Unprotect(1).ok());
  EXPECT_EQ(Protect(3, Named("v")), Code::kOk);
  // None is no name.
  EXPECT_EQ(Protect(4, Named("")), Code::kOk);
  EXPECT_EQ(Protect(5, Named(nullptr)), Code::kOk);
  group_.Clear();
  EXPECT_EQ(Protect(6, Named("u")), Code::kOk);
  EXPECT_THAT(Ids(), ElementsAre(6));
}

TEST_F(RegionGroupTest, WhatIsRefusedLeavesTheRegionAsItWas) {
  ASSERT_EQ(Protect(1, Named("u")), Code::kOk);
  ASSERT_EQ(Protect(2, Named("v")), Code::kOk);
  EXPECT_EQ(group_.Protect(1, memory_, 4, 0, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(group_.Protect(1, memory_, std::numeric_limits<size_t>::max() / 4, 8, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(group_.Protect(1, nullptr, 1, 8, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(Protect(1, Named("v")), Code::kInvalidArgument);
  kedge_region_info info = Named("w");
  info.memory = KEDGE_MEMORY_DEVICE;
  EXPECT_EQ(Protect(1, info), Code::kUnsupported);
  // A program in C may put any number there.
  for (const int number : {-1, KEDGE_TYPE_BOOL + 1, 99}) {
    info = Named("w");
    std::memcpy(&info.type, &number, sizeof number);
    EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << number;
    info = Named("w");
    std::memcpy(&info.memory, &number, sizeof number);
    EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << number;
  }
  for (const int dimensions : {-1, KEDGE_MAX_DIMENSIONS + 1}) {
    info = Named("w");
    info.dimensions = dimensions;
    EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << dimensions;
  }
  info = Named("w");
  info.dimensions = 2;
  info.shape[0] = 2;
  info.shape[1] = 3;
  EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << "4 elements are not 2 x 3";
  kedge_object object = Object();
  object.serialize = nullptr;
  EXPECT_EQ(group_.ProtectObject(1, "w", object).code(), Code::kInvalidArgument);
  EXPECT_EQ(group_.Find(1)->description.name, "u");
  EXPECT_EQ(group_.Find(1)->address, memory_);
  EXPECT_EQ(group_.Find(1)->description.bytes, 32u);
  EXPECT_EQ(Protect(3, Named("w")), Code::kOk) << "nobody has the name";
  EXPECT_TRUE(group_.Protect(4, nullptr, 0, 8, nullptr).ok()) << "an empty region needs no memory";
}

// A program that was built against a header without the later fields.
TEST_F(RegionGroupTest, OfAShorterStructTheRestIsNeitherReadNorWritten) {
  kedge_region_info info = Named("u");
  info.type = KEDGE_TYPE_FLOAT64;
  info.dimensions = 77;
  info.reinterpret = 1;
  info.struct_size = offsetof(kedge_region_info, memory);
  ASSERT_EQ(Protect(1, info), Code::kOk);
  EXPECT_EQ(group_.Find(1)->description.type, ElementType::kFloat64);
  EXPECT_FALSE(group_.Find(1)->reinterpret);
  EXPECT_THAT(group_.Find(1)->description.shape, IsEmpty());

  kedge_region_info full = Named("a");
  full.type = KEDGE_TYPE_INT64;
  full.column_major = 1;
  full.dimensions = 2;
  full.shape[0] = full.shape[1] = 2;
  full.global_shape[0] = 8;
  full.global_shape[1] = 2;
  full.global_offset[0] = 6;
  ASSERT_EQ(Protect(2, full), Code::kOk);
  kedge_region_info told;
  std::memset(static_cast<void*>(&told), 0x77, sizeof told);
  told.struct_size = sizeof told;
  FillRegionInfo(group_.Find(2)->description, &told);
  EXPECT_STREQ(told.name, "a");
  full.name = told.name;
  EXPECT_EQ(std::memcmp(&told, &full, sizeof told), 0);
  std::memset(static_cast<void*>(&told), 0x77, sizeof told);
  told.struct_size = offsetof(kedge_region_info, dimensions);
  FillRegionInfo(group_.Find(2)->description, &told);
  EXPECT_EQ(told.column_major, 1);
  EXPECT_EQ(told.dimensions, 0x77777777);
}

TEST(RegionTable, GroupsAreApartAndKeptWhileAnotherIsSelected) {
  RegionTable table;
  int value = 0;
  ASSERT_TRUE(table.current().Protect(1, &value, 1, sizeof value, nullptr).ok());
  table.Select("other");
  EXPECT_EQ(table.current_name(), "other");
  EXPECT_EQ(table.current().size(), 0u);
  ASSERT_TRUE(table.current().Protect(1, nullptr, 0, 1, nullptr).ok());
  table.current().Clear();
  table.Select("");
  EXPECT_EQ(table.current().bytes(), sizeof value);
}

class LedgerTest : public ::testing::Test {
 protected:
  // A checkpoint that is called for and begins; its capture may fail.
  Result<TakenVersion*> Begin(int64_t version, bool overwrite = false, const std::string& name = "wave") {
    ledger_.Count(name);
    return ledger_.Begin(name, version, overwrite);
  }
  TakenVersion* Take(int64_t version, bool overwrite = false, const std::string& name = "wave") {
    TakenVersion* const taken = Begin(version, overwrite, name).value();
    ledger_.Captured(taken);
    return taken;
  }

  Ledger ledger_{StoreId{.high = 1, .low = 2}, "job", 3, {{"wave", 10}}};
};

TEST_F(LedgerTest, VersionsGrowFromWhatTheStoreHad) {
  EXPECT_EQ(Begin(-1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Begin(10).status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(Begin(0, false, "new").ok()) << "the store had none of that name";
  EXPECT_TRUE(Begin(11).ok());
  EXPECT_TRUE(Begin(11).ok()) << "that capture failed";
  Take(11);
  const Status again = Begin(11).status();
  EXPECT_EQ(again.code(), Code::kAlreadyExists);
  EXPECT_THAT(again.message(), AllOf(HasSubstr("version 11"), HasSubstr("newest, 11"), HasSubstr("KEDGE_OVERWRITE")));
  Take(5, /*overwrite=*/true);
  EXPECT_TRUE(Begin(6).ok()) << "the newest is what was taken last";
  ledger_.Restored({{}, "job", "wave", 40, 1, 1});
  EXPECT_EQ(Begin(40).status().code(), Code::kAlreadyExists);
}

// Generation::take is the same on all ranks, whatever becomes of a taking on one of them.
TEST_F(LedgerTest, EveryCallCountsAndNoTwoTakingsHaveOneNumber) {
  EXPECT_EQ(ledger_.TakesOf("wave"), 0u);
  EXPECT_FALSE(Begin(3).ok());
  const Generation taken = Take(12)->generation;
  EXPECT_EQ(taken, (Generation{{.high = 1, .low = 2}, "job", "wave", 12, 3, 2}));
  EXPECT_EQ(Take(1, false, "other")->generation.take, 1u) << "each name has its own";
  ledger_.CatchUp("wave", 7);
  EXPECT_EQ(Take(13)->generation.take, 8u) << "other ranks had made five more calls";
  ledger_.CatchUp("wave", 2);
  EXPECT_EQ(ledger_.TakesOf("wave"), 8u) << "whoever has counted more goes on";
}

TEST_F(LedgerTest, EachRestartComesBeforeATakingOfItsOwn) {
  Take(11);
  const Generation origin{{}, "job", "wave", 9, 1, 4};
  const RestoredRecord first = ledger_.Restored(origin);
  EXPECT_EQ(first.origin, origin);
  EXPECT_EQ(first.attempt, 3u);
  EXPECT_EQ(first.take, 2u);
  EXPECT_EQ(ledger_.Restored(origin).take, 3u) << "the record of the first stands";
  EXPECT_EQ(Take(10)->generation.take, 3u) << "what the second restart comes before";
  EXPECT_EQ(ledger_.Restored({{}, "job", "wave", 8, 1, 3}).take, 4u);
  EXPECT_EQ(ledger_.FindRestored("wave", 9), nullptr) << "only the last one counts";
  EXPECT_NE(ledger_.FindRestored("wave", 8), nullptr);
  EXPECT_EQ(ledger_.FindRestored("other", 8), nullptr);
}

TEST_F(LedgerTest, AVersionThatIsTakenAgainIsNotTheOldOne) {
  TakenVersion* taken = Take(11);
  taken->session = 1;
  taken->serial = 4;
  taken->in_store = true;
  taken->flush_failure = Status(Code::kIo, "full");
  EXPECT_EQ(ledger_.FindSerial(1, 4), taken);
  EXPECT_EQ(ledger_.FindSerial(2, 4), nullptr) << "another session's fourth";
  EXPECT_EQ(ledger_.Newest(), taken);
  TakenVersion* const again = Begin(11, /*overwrite=*/true).value();
  EXPECT_EQ(ledger_.Newest(), nullptr) << "its content is given up, and the new one is not captured";
  EXPECT_EQ(ledger_.Find("wave", 11), again);
  EXPECT_FALSE(again->captured || again->in_store || !again->flush_failure.ok());
  EXPECT_EQ(ledger_.FindSerial(1, 4), nullptr);
}

TEST_F(LedgerTest, OfEachNameTheVersionsTakenLastAreRemembered) {
  Take(1, false, "other");
  Take(11);
  for (int64_t version = 12; version < 11 + 256; ++version) Take(version);
  Take(11, /*overwrite=*/true);
  EXPECT_NE(ledger_.Find("wave", 12), nullptr);
  Take(300);
  EXPECT_NE(ledger_.Find("wave", 11), nullptr) << "it was taken again since";
  EXPECT_EQ(ledger_.Find("wave", 12), nullptr);
  EXPECT_NE(ledger_.Find("other", 1), nullptr);
  // The newest captured is forgotten by 256 others that are not.
  for (int64_t version = 301; version < 301 + 256; ++version) ASSERT_TRUE(Begin(version).ok());
  EXPECT_EQ(ledger_.Find("wave", 300), nullptr);
  EXPECT_EQ(ledger_.Newest(), nullptr);
}

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

TEST(ErrorMessage, IsTheThreadsLastAndOkClearsIt) {
  EXPECT_EQ(Guarded([] { return Status(Code::kCorrupt, "region 3"); }), KEDGE_ERROR_CORRUPT);
  EXPECT_STREQ(kedge_error_message(), "region 3");
  std::thread([] {
    EXPECT_STREQ(kedge_error_message(), "") << "another thread's";
    EXPECT_EQ(Report(Status(Code::kIo, "elsewhere")), KEDGE_ERROR_IO);
  }).join();
  EXPECT_STREQ(kedge_error_message(), "region 3");
  EXPECT_EQ(Report(Status::Ok()), KEDGE_OK);
  EXPECT_STREQ(kedge_error_message(), "");
}

TEST(ErrorMessage, NothingIsThrownOut) {
  EXPECT_EQ(Guarded([]() -> Status { throw std::bad_alloc(); }), KEDGE_ERROR_NO_SPACE);
  EXPECT_STREQ(kedge_error_message(), "out of memory");
  EXPECT_EQ(Guarded([]() -> Status { throw std::runtime_error("what it says"); }), KEDGE_ERROR_INTERNAL);
  EXPECT_STREQ(kedge_error_message(), "what it says");
  EXPECT_EQ(Guarded([]() -> Status { throw 1; }), KEDGE_ERROR_INTERNAL);
  EXPECT_STREQ(kedge_error_message(), "an unknown exception");
}

TEST(ErrorMessage, ABootstrapReportsItsOwn) {
  EXPECT_EQ(kedge_report_error(KEDGE_ERROR_TIMEOUT, "rank 2 has not come"), KEDGE_ERROR_TIMEOUT);
  EXPECT_STREQ(kedge_error_message(), "rank 2 has not come");
  EXPECT_EQ(kedge_report_error(KEDGE_ERROR_IO, nullptr), KEDGE_ERROR_IO);
  EXPECT_STREQ(kedge_error_message(), "");
  EXPECT_EQ(kedge_report_error(KEDGE_OK, "all is well"), KEDGE_OK);
  EXPECT_STREQ(kedge_error_message(), "");
  EXPECT_STREQ(kedge_status_name(KEDGE_ERROR_LOST), CodeName(Code::kLost));
  EXPECT_STREQ(kedge_status_name(KEDGE_ERROR_LOST + 1), "unknown");
  EXPECT_STREQ(kedge_status_name(-1), "unknown");
}

TEST(SecondTry, AnErrorThatMayPassIsAskedThreeTimesAtMost) {
  // How often `code` is asked, when it is over after `lasting` answers.
  const auto tries = [](Code code, int lasting, Status* last) {
    int asked = 0;
    *last = TryAgain([&] { return asked++ < lasting ? Status(code, "the store") : Status::Ok(); });
    return asked;
  };
  Status last;
  EXPECT_EQ(tries(Code::kOk, 0, &last), 1);
  EXPECT_TRUE(last.ok());
  EXPECT_EQ(tries(Code::kUnavailable, 100, &last), 3);
  EXPECT_EQ(last.code(), Code::kUnavailable);
  for (const Code code : {Code::kNotFound, Code::kCorrupt, Code::kMismatch, Code::kBusy}) {
    EXPECT_EQ(tries(code, 100, &last), 1) << CodeName(code);
  }
  EXPECT_EQ(tries(Code::kTimeout, 100, &last), 1) << "it has waited for long enough";
  EXPECT_TRUE(MayPass(last)) << "and may be there later all the same";
}

}  // namespace
}  // namespace kedge::client

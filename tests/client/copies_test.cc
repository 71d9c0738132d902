// Copies: the pool's, the store's, the next older version's. A bad one is found and passed over; what is wrong is never returned.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

// Flips a bit in every occurrence of `text` in the file; how many there were.
int Damage(const std::string& path, const std::string& text) {
  return FlipBitIn(path, text, text.size() / 2);
}

std::vector<std::string> FilesBelow(const std::string& folder, const std::string& part_of_path) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().string().find(part_of_path) != std::string::npos) files.push_back(entry.path());
  }
  return files;
}

class CopiesTest : public ApiTest {
 protected:
  // Checkpoints of 100 bytes of version-dependent text, all in the store.
  void Take(kedge_context* context, int from, int to) {
    ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, nullptr));
    for (int version = from; version <= to; ++version) {
      text_.replace(0, 100, Text(version));  // in place: the address is protected
      ASSERT_KEDGE_OK(kedge_checkpoint(context, "c", version, 0));
      ASSERT_KEDGE_OK(kedge_wait(context, "c", version, KEDGE_LEVEL_STORE, 60));
    }
  }
  static std::string Text(int version) {
    std::string text = "version-" + std::to_string(1000 + version) + "-";
    while (text.size() < 100) text += static_cast<char>('a' + text.size() % 26);
    return text;
  }
  void DamagePool(int version) { ASSERT_GT(Damage(folder_.run_folder() + "/pool/pool", Text(version)), 0); }
  void DamageStore(int version) {
    int found = 0;
    for (const std::string& file : FilesBelow(folder_.store(), "/data/")) found += Damage(file, Text(version));
    ASSERT_GT(found, 0);
  }
  // Restarts into cleared memory; the version.
  int64_t Restart(kedge_context* context) {
    text_.assign(100, ' ');
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "c", -1, &version));
    EXPECT_EQ(text_, Text(static_cast<int>(version)));
    return version;
  }

  std::string text_ = std::string(100, ' ');
};
INSTANTIATE_TEST_SUITE_P(Modes, CopiesTest, ::testing::Values(kAgent), ModeName);

TEST_P(CopiesTest, ABadByteInThePoolIsReadFromTheStoreInstead) {
  kedge_context* context = Open();
  Take(context, 1, 2);
  EXPECT_EQ(Restart(context), 2);
  EXPECT_EQ(Statistics(context).bytes_restored_pool, 100u);
  DamagePool(2);
  EXPECT_EQ(Restart(context), 2);
  EXPECT_EQ(Statistics(context).corrupt_copies, 1u);
  EXPECT_EQ(Statistics(context).bytes_restored_store, 100u);
}

TEST_P(CopiesTest, WithNoGoodCopyTheNextOlderVersionIsTaken) {
  kedge_context* context = Open();
  Take(context, 1, 2);
  DamagePool(2);
  DamageStore(2);
  EXPECT_EQ(Restart(context), 1);
  DamageStore(1);
  // Version 1 may lie in the pool still.
  (void)Damage(folder_.run_folder() + "/pool/pool", Text(1));
  EXPECT_EQ(kedge_restart(context, "c", -1, nullptr), KEDGE_ERROR_CORRUPT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("region 0"));
  // It goes on from there.
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "c", 3, 0));
}

// An application that hears NOT_FOUND begins anew.
TEST_P(CopiesTest, ABadCopyOfWhatNeverGotToTheStoreIsNotTakenForNoVersion) {
  const std::string name = "the name of this region stands in the image's record";
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.name = name.c_str();
  for (const bool of_record : {false, true}) {
    kedge_context* context = Open("schedule.store=0");
    ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, &info));
    const int version = of_record ? 2 : 1;
    text_.replace(0, 100, Text(version));  // in place
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "c", version, 0));
    ASSERT_KEDGE_OK(kedge_wait(context, "c", version, KEDGE_LEVEL_LOCAL, 20));
    ASSERT_GT(Damage(folder_.run_folder() + "/pool/pool", of_record ? name : Text(version)), 0);
    EXPECT_EQ(kedge_restart(context, "c", -1, nullptr), KEDGE_ERROR_CORRUPT) << kedge_error_message();
    EXPECT_THAT(kedge_error_message(), HasSubstr("checksum"));
    Close(context);
  }
}

TEST_P(CopiesTest, AllLocalCopiesGoneTheStoreHasIt) {
  kedge_context* context = Open();
  Take(context, 1, 3);
  Close(context);
  ASSERT_TRUE(folder_.KillAgent());
  std::filesystem::remove_all(folder_.run_folder());
  context = Open();
  ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, nullptr));
  EXPECT_EQ(Restart(context), 3);
  EXPECT_EQ(Statistics(context).bytes_restored_store, 100u);
}

// What lay on the node alone went with it. That is no first launch.
TEST_P(CopiesTest, WhatTheNodeHasLostIsNotTakenForNoVersion) {
  kedge_context* context = Open("schedule.store=0");
  int64_t version = 0;
  EXPECT_EQ(kedge_newest(context, "c", -1, &version), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, nullptr));
  for (int next = 4; next <= 5; ++next) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "c", next, 0));
    ASSERT_KEDGE_OK(kedge_wait(context, "c", next, KEDGE_LEVEL_LOCAL, 20));
  }
  EXPECT_EQ(kedge_newest(context, "c", 3, &version), KEDGE_ERROR_NOT_FOUND) << "older ones go as newer ones come";
  const auto noted = [&] { return !FilesBelow(folder_.store(), "/names/c/reached").empty(); };
  for (int i = 0; i < 1000 && !noted(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(noted());
  Close(context);
  ASSERT_TRUE(folder_.KillAgent());
  std::filesystem::remove_all(folder_.run_folder());
  for (const char* mode : {"", "job.mode=sync\n"}) {
    context = Open(std::string("schedule.store=0\n") + mode);
    ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, nullptr));
    EXPECT_EQ(kedge_newest(context, "c", -1, &version), KEDGE_ERROR_LOST);
    EXPECT_THAT(kedge_error_message(), HasSubstr("version 4 of attempt 1"));
    EXPECT_EQ(kedge_restart(context, "c", -1, &version), KEDGE_ERROR_LOST);
    EXPECT_EQ(kedge_restart_begin(context, "c", 5), KEDGE_ERROR_LOST);
    EXPECT_EQ(kedge_newest(context, "another", -1, &version), KEDGE_ERROR_NOT_FOUND);
    Close(context);
  }
  context = Open("schedule.store=0\nrestart.if_lost=begin");
  ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, nullptr));
  EXPECT_EQ(kedge_restart(context, "c", -1, &version), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "c", 1, 0));
  EXPECT_KEDGE_OK(kedge_restart(context, "c", -1, &version));
  EXPECT_EQ(version, 1);
}

TEST_P(CopiesTest, ADamagedRecordInTheStoreIsNotBelieved) {
  kedge_context* context = Open("job.mode=sync");
  Take(context, 1, 2);
  Close(context);
  for (const char* record : {"/2-1-2/version", "/2-1-2/parts/"}) {
    for (const std::string& file : FilesBelow(folder_.store(), record)) FlipBit(file, 60);
  }
  context = Open();
  ASSERT_KEDGE_OK(kedge_protect(context, 0, text_.data(), text_.size(), 1, nullptr));
  EXPECT_EQ(Restart(context), 1);
}

TEST_P(CopiesTest, AnotherRanksImageCanBeRead) {
  kedge_context* context = Open();
  Take(context, 1, 1);
  text_.assign(100, ' ');
  ASSERT_KEDGE_OK(kedge_restart_as(context, 0));
  ASSERT_KEDGE_OK(kedge_restart(context, "c", -1, nullptr));
  EXPECT_EQ(text_, Text(1));
  ASSERT_KEDGE_OK(kedge_restart_as(context, 1));
  EXPECT_NE(kedge_restart(context, "c", -1, nullptr), KEDGE_OK);
  ASSERT_KEDGE_OK(kedge_restart_as(context, -1));
  EXPECT_KEDGE_OK(kedge_restart(context, "c", -1, nullptr));
}

TEST_P(CopiesTest, AStoreThatCannotBeWrittenFailsTheFlushAndNothingElse) {
  kedge_context* context = Open();
  Take(context, 1, 1);
  // A file where the folder of the versions should be: nothing new can be made there.
  const std::string names = std::filesystem::path(FilesBelow(folder_.store(), "/names/c/name").at(0)).parent_path();
  std::filesystem::rename(names, names + ".away");
  std::ofstream(names) << "in the way";
  text_.replace(0, 100, Text(2));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "c", 2, 0));
  EXPECT_NE(kedge_wait(context, "c", 2, KEDGE_LEVEL_STORE, 60), KEDGE_OK);
  EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
  char name[8] = "";
  int64_t version = 0;
  EXPECT_NE(kedge_last_flush_error(context, name, sizeof name, &version), KEDGE_OK);
  EXPECT_STREQ(name, "c");
  EXPECT_EQ(version, 2);
  EXPECT_EQ(kedge_last_flush_error(context, nullptr, 0, nullptr), KEDGE_OK) << "told once";
  std::filesystem::remove(names);
  std::filesystem::rename(names + ".away", names);
  Take(context, 3, 3);
  EXPECT_EQ(Restart(context), 3);
}

}  // namespace
}  // namespace kedge::testing

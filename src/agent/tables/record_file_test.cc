// An image on file: what it says comes back, and what no agent writes is refused.
#include "agent/tables/record_file.h"

#include <gtest/gtest.h>

#include "format/testing/sample_records.h"

namespace kedge {
namespace {

Result<ImageFile> Again(Level scheduled) {
  ImageFile file;
  file.local = testing::SampleLocalRecord();
  file.scheduled = scheduled;
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, EncodeImageFile(file));
  return DecodeImageFile(bytes);
}

// A successor that misread it would leave out the way to the store.
TEST(RecordFile, EveryLevelThatAVersionMayBeScheduledForComesBack) {
  for (const Level level : {Level::kNone, Level::kLocal, Level::kNode, Level::kBuffer, Level::kStore}) {
    const auto read = Again(level);
    ASSERT_TRUE(read.ok()) << LevelName(level) << ": " << read.status().ToString();
    EXPECT_EQ(read->scheduled, level);
  }
}

TEST(RecordFile, NoVersionIsScheduledForAnotherLevel) {
  EXPECT_EQ(Again(Level::kLast).status().code(), Code::kCorrupt);
  EXPECT_EQ(Again(static_cast<Level>(static_cast<uint8_t>(Level::kStore) + 1)).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace kedge

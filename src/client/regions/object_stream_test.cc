// An object's bytes as its call-back reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "client/regions/object_stream.h"
#include "client/restart/image_opener.h"
#include "client/testing/stored.h"
#include "store/keys.h"
#include "store/testing/version_maker.h"

namespace kedge::client {
namespace {

using kedge::testing::ContentByte;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StoredTest;

class ObjectStreamTest : public StoredTest {
 protected:
  ObjectStreamTest() {
    Store(3);
    image_ = opener_.Open("wave", {3, 1, At(3).take, 2}, 0).value();
    reader_.image = &image_->reader();
    std::tie(reader_.next_extent, reader_.last_extent) = image_->reader().ExtentsOf(0);
    reader_.bytes_left = image_->record().regions[0].bytes;
  }
  // The first wrong byte of what was read; the length when there is none.
  size_t Matching(const std::string& read, uint64_t offset) const {
    size_t at = 0;
    while (at < read.size() && std::byte(read[at]) == ContentByte({At(3), 0, 2}, 0, offset + at)) ++at;
    return at;
  }

  ImageOpener opener_{core_.get(), &session_};
  std::unique_ptr<OpenImage> image_;
  kedge_reader reader_;
};

TEST_F(ObjectStreamTest, PortionsOfAnySizeAreTheObjectsBytes) {
  ASSERT_GT(reader_.last_extent - reader_.next_extent, 3u);
  uint64_t offset = 0;
  for (const size_t portion : {0u, 1u, 1499u, 1u, 3000u, 499u}) {
    std::string read(portion, '\0');
    ASSERT_TRUE(reader_.Read(read.data(), read.size()).ok());
    EXPECT_EQ(Matching(read, offset), portion) << "from " << offset;
    offset += portion;
  }
  EXPECT_EQ(reader_.bytes_left, 0u);
  EXPECT_EQ(offset, 5000u);
  EXPECT_TRUE(reader_.Read(nullptr, 0).ok());
}

TEST_F(ObjectStreamTest, WhoAsksForMoreThanThereIsHasFailedForGood) {
  std::string read(5001, '\0');
  const Status status = reader_.Read(read.data(), 5001);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("5000 bytes left"), HasSubstr("5001")));
  EXPECT_EQ(reader_.Read(read.data(), 1).code(), Code::kInvalidArgument);
}

TEST_F(ObjectStreamTest, OfABadExtentNoByteIsSeen) {
  const Extent extent = image_->record().extents[1];
  const auto file = fs_.Open("/store/" + keys::ImageKey(At(3), 0), os::OpenFlags::kReadWrite).value();
  const uint64_t last = image_->record().chunks[extent.chunk].object_offset + extent.chunk_offset + extent.bytes - 1;
  char byte = 0;
  ASSERT_TRUE(file->Pread(&byte, 1, last).ok());
  byte = static_cast<char>(byte ^ 1);
  ASSERT_TRUE(file->Pwrite(&byte, 1, last).ok());
  std::string read(3000, '\0');
  EXPECT_EQ(reader_.Read(read.data(), read.size()).code(), Code::kCorrupt);
  EXPECT_EQ(Matching(read, 0), extent.region_offset) << "the extent before it was good";
  EXPECT_EQ(read.substr(extent.region_offset), std::string(3000 - extent.region_offset, '\0'));
  EXPECT_EQ(reader_.Read(read.data(), 1).code(), Code::kCorrupt) << "it stays so";
}

}  // namespace
}  // namespace kedge::client

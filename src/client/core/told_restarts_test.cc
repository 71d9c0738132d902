// What ranks tell each other of restarts, whole or cut short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/core/told_restarts.h"

namespace kedge::client {
namespace {

using ::testing::IsEmpty;

TEST(ToldRestarts, ThatAreCutShortAreNotBelieved) {
  const Generation origin{StoreId{.high = 1, .low = 2}, "job", "wave", 5, 1, 1};
  const std::vector<RestoredRecord> records = {{origin, 2, 1, 7}, {origin, 3, 2, 8}};
  const std::string text = EncodeRestored(records);
  EXPECT_EQ(DecodeRestored(text).value(), records);
  EXPECT_THAT(DecodeRestored(EncodeRestored({})).value(), IsEmpty());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(DecodeRestored(text.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(DecodeRestored(text + "x").ok());
}

}  // namespace
}  // namespace kedge::client

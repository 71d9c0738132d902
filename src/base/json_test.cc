#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace kedge {
namespace {

TEST(Json, KeepsTheOrderOfKeysAndWholeNumbers) {
  const Json json{{"name", "ck"}, {"bytes", uint64_t{1} << 63}, {"at", std::numeric_limits<int64_t>::min()}, {"list", {1, 2}}};
  EXPECT_EQ(ToText(json), R"({"name":"ck","bytes":9223372036854775808,"at":-9223372036854775808,"list":[1,2]})");
  EXPECT_EQ(ToText({{"b", 1}, {"a", Json::array()}}, 2), "{\n  \"b\": 1,\n  \"a\": []\n}");
}

TEST(Json, IsValidWhateverItHolds) {
  EXPECT_EQ(ToText({std::nan(""), -std::numeric_limits<double>::infinity()}), "[null,null]");
  for (const char* broken : {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    const std::string text = ToText({{broken, broken}});
    EXPECT_TRUE(Json::accept(text)) << text;
    EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kedge

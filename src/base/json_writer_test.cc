#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace kedge {
namespace {

TEST(JsonWriter, NestsAndSeparates) {
  JsonWriter json;
  json.BeginObject()
      .Field("name", "ck")
      .Field("version", 7)
      .Field("bytes", uint64_t{1} << 63)
      .Field("ok", true)
      .Field("ratio", 0.1);
  json.Key("list").BeginArray().Int(-1).Null().BeginObject().EndObject().BeginArray().EndArray().String("x").EndArray();
  EXPECT_FALSE(json.IsComplete());
  json.EndObject();
  EXPECT_TRUE(json.IsComplete());
  EXPECT_EQ(json.text(),
            R"({"name":"ck","version":7,"bytes":9223372036854775808,"ok":true,"ratio":0.1,"list":[-1,null,{},[],"x"]})");
}

TEST(JsonWriter, Indents) {
  JsonWriter json(2);
  json.BeginObject().Field("a", 1).Key("b").BeginArray().Int(1).Int(2).EndArray().Key("c").BeginObject().EndObject().EndObject();
  EXPECT_EQ(json.text(), "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": {}\n}");
}

TEST(JsonWriter, EscapesAndMendsStrings) {
  const auto quoted = [](std::string_view text) {
    JsonWriter json;
    json.String(text);
    return json.text();
  };
  EXPECT_EQ(quoted("a\"b\\c\n\t\r\x01\x7F"), R"("a\"b\\c\n\t\u000d\u0001\u007f")");
  EXPECT_EQ(quoted(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(quoted("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x9A\x80"), "\"gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x9A\x80\"");
  for (const char* broken : {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    const std::string mended = quoted(broken);
    EXPECT_NE(mended.find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_EQ(mended.find('\xFF'), std::string::npos);
  }
}

TEST(JsonWriter, NumbersReadBack) {
  for (const double value : {0.0, 1.0, -2.5, 1e300, 5e-324, 1.0 / 3, 123456789.125}) {
    JsonWriter json;
    json.Double(value);
    EXPECT_EQ(std::strtod(json.text().c_str(), nullptr), value) << json.text();
  }
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    JsonWriter json;
    json.Double(value);
    EXPECT_EQ(json.text(), "null");
  }
  JsonWriter json;
  json.Int(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(json.text(), "-9223372036854775808");
}

TEST(JsonWriterDeath, AbortsOnBrokenNesting) {
  EXPECT_DEATH(JsonWriter().BeginObject().Int(1), "invariant");
  EXPECT_DEATH(JsonWriter().BeginArray().Key("x"), "invariant");
  EXPECT_DEATH(JsonWriter().BeginArray().EndObject(), "invariant");
  EXPECT_DEATH(JsonWriter().BeginObject().Key("x").EndObject(), "invariant");
  EXPECT_DEATH(JsonWriter().Int(1).Int(2), "invariant");
}

}  // namespace
}  // namespace kedge

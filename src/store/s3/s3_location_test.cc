#include "store/s3/s3_location.h"

#include <gtest/gtest.h>

#include <map>

#include "os/files/files.h"
#include "store/s3/part_layout.h"
#include "store/s3/written_ranges.h"

namespace kedge::s3 {
namespace {

Result<Location> Parse(std::string_view text, const std::map<std::string, std::string>& variables = {}) {
  return ParseLocation(text, [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(S3Location, OfAmazon) {
  const Location location = Parse("s3://bucket/a/b/").value();
  EXPECT_EQ(location.bucket, "bucket");
  EXPECT_EQ(location.prefix, "a/b");
  EXPECT_EQ(location.BaseUrl(), "https://bucket.s3.us-east-1.amazonaws.com");
  EXPECT_EQ(location.BasePath(), "");
  EXPECT_EQ(location.KeyOf("c/d"), "a/b/c/d");
  EXPECT_EQ(Parse("s3://dotted.bucket")->BaseUrl(), "https://s3.us-east-1.amazonaws.com") << "no certificate holds for it";
  EXPECT_EQ(Parse("s3://bucket")->KeyOf("c"), "c");
}

TEST(S3Location, OfAnotherServer) {
  const Location location = Parse("s3://bucket?endpoint=http://127.0.0.1:9000&region=here&part=16MiB&connections=3").value();
  EXPECT_EQ(location.BaseUrl(), "http://127.0.0.1:9000");
  EXPECT_EQ(location.BasePath(), "/bucket");
  EXPECT_EQ(location.part_bytes, uint64_t{16} << 20);
  EXPECT_EQ(location.connections, 3u);
  EXPECT_EQ(Parse("s3://bucket?endpoint=https://host&addressing=virtual")->BaseUrl(), "https://bucket.host");
}

TEST(S3Location, TheTextBeatsTheEnvironmentAndTheCanonicalTextNeedsNone) {
  const std::map<std::string, std::string> variables = {{"AWS_ENDPOINT_URL", "http://host:1/"},
                                                        {"AWS_REGION", "there"},
                                                        {"AWS_PROFILE", "me"},
                                                        {"AWS_CA_BUNDLE", "/etc/ca.pem"},
                                                        {"AWS_SECRET_ACCESS_KEY", "secret"}};
  const Location location = Parse("s3://bucket/p?region=here", variables).value();
  EXPECT_EQ(location.endpoint, "http://host:1");
  EXPECT_EQ(location.region, "here");
  EXPECT_EQ(location.profile, "me");
  EXPECT_EQ(Parse(location.ToText()).value(), location) << location.ToText();
  EXPECT_EQ(Parse(location.ToText(), {{"AWS_REGION", "elsewhere"}}).value(), location);
  EXPECT_EQ(location.ToText().find("secret"), std::string::npos);
  const Location plain = Parse("s3://bucket").value();
  EXPECT_EQ(Parse(plain.ToText(), variables).value(), plain) << plain.ToText();
  EXPECT_EQ(Parse("s3://bucket", {{"AWS_PROFILE", "me"}, {"AWS_ACCESS_KEY_ID", "key"}})->profile, "") << "keys beat it";
  EXPECT_EQ(Parse("s3://bucket", {{"AWS_CA_BUNDLE", "ca.pem"}})->ca_file, os::AbsolutePath("ca.pem"))
      << "also for an agent elsewhere";
}

TEST(S3Location, WhatIsWrongIsSaid) {
  for (const char* text :
       {"s3://", "s3://ab", "s3://bucket name", "s3://bucket//a", "s3://bucket/a/../b", "s3://bucket?part=1MiB",
        "s3://bucket?colour=red", "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=http://user@host",
        "s3://bucket?addressing=both", "s3://bucket?connections=0", "s3://bucket?connections=many"}) {
    const Result<Location> location = Parse(text);
    ASSERT_FALSE(location.ok()) << text;
    EXPECT_EQ(location.status().code(), Code::kInvalidArgument);
    EXPECT_NE(location.status().message().find(text), std::string::npos);
  }
}

TEST(S3PartLayout, PartsFollowEachOtherAndGrow) {
  const PartLayout layout(kPartBytesMin);
  uint64_t end = 0;
  for (uint32_t number = 1; number <= kPartsMax; ++number) {
    ASSERT_EQ(layout.BeginOf(number), end);
    ASSERT_EQ(layout.NumberOf(end), number);
    end = layout.EndOf(number);
    ASSERT_EQ(layout.NumberOf(end - 1), number);
  }
  EXPECT_EQ(layout.BytesOf(1000), kPartBytesMin);
  EXPECT_EQ(layout.BytesOf(1001), 2 * kPartBytesMin);
  EXPECT_GT(end, uint64_t{4} << 40) << "an object of 4 TiB fits";
  const PartLayout large(kPartBytesMax);
  EXPECT_LE(large.BytesOf(kPartsMax), uint64_t{5} << 30) << "the protocol's limit";
}

TEST(S3WrittenRanges, GapsOfAnAlignmentAreNone) {
  WrittenRanges ranges;
  ranges.Add(0, 5000);
  EXPECT_FALSE(ranges.Cover(0, 8192)) << "somebody may go on at 5000";
  ranges.Add(12288, 20000);
  EXPECT_FALSE(ranges.Cover(0, 8193));
  ranges.Add(8192, 12000);
  EXPECT_TRUE(ranges.Cover(0, 20000));
  EXPECT_EQ(ranges.end(), 20000u);
  ranges.Add(20000, 20001);
  EXPECT_TRUE(ranges.Cover(19999, 20001));
  EXPECT_FALSE(ranges.Cover(0, 20002));
}

}  // namespace
}  // namespace kedge::s3

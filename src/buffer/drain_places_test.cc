#include "buffer/drain_places.h"

#include <gtest/gtest.h>

#include <vector>

#include "store/s3/s3_location.h"

namespace kedge::buffer {
namespace {

Code CodeOf(const std::vector<std::string>& places, const std::string& target) {
  return AllowedTarget(places, target).status().code();
}

TEST(DrainPlaces, AFolderIsAllowedWithAllBelowIt) {
  const std::vector<std::string> places = {ParseDrainPlace("/lustre/alice/").value(), ParseDrainPlace("/archive").value()};
  for (const char* target : {"/lustre/alice", "/lustre/alice/", "/lustre//alice/a/./b", "/archive/x"})
    EXPECT_EQ(CodeOf(places, target), Code::kOk) << target;
  EXPECT_EQ(AllowedTarget(places, "/lustre//alice/./a/").value(), "/lustre/alice/a");
  for (const char* target : {"/lustre/alice2", "/lustre", "/", "/archives", "/scratch/alice"})
    EXPECT_EQ(CodeOf(places, target), Code::kPermission) << target;
  EXPECT_EQ(CodeOf({}, "/lustre/alice"), Code::kPermission);
  EXPECT_EQ(CodeOf({"/"}, "/anywhere"), Code::kOk);
}

TEST(DrainPlaces, NobodyLeavesAPlaceByDots) {
  const std::vector<std::string> places = {"/lustre/alice"};
  for (const char* target :
       {"/lustre/alice/../bob", "/lustre/alice/..", "/lustre/alice/a/../b", "s3://bucket/a/../b", "bb://fast/x"})
    EXPECT_EQ(CodeOf(places, target), Code::kInvalidArgument) << target;
  EXPECT_EQ(ParseDrainPlace("/a/../b").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParseDrainPlace("bb://fast/x").status().code(), Code::kInvalidArgument);
}

TEST(DrainPlaces, HowABucketIsReachedTheOperatorSays) {
  const std::vector<std::string> places = {
      ParseDrainPlace("s3://bucket/alice?endpoint=http://good:9000&profile=service").value()};
  const auto granted = AllowedTarget(places, "s3://bucket/alice/run7?endpoint=http://good:9000&profile=mine");
  ASSERT_TRUE(granted.ok()) << granted.status().ToString();
  const s3::Location location = s3::ParseLocation(*granted, s3::ProcessEnvironment).value();
  EXPECT_EQ(location.prefix, "alice/run7");
  EXPECT_EQ(location.profile, "service");
  for (const char* target :
       {"s3://bucket/alice/x?endpoint=http://evil:9000", "s3://bucket/alice2?endpoint=http://good:9000",
        "s3://bucket?endpoint=http://good:9000", "s3://other/alice?endpoint=http://good:9000", "/bucket/alice"})
    EXPECT_EQ(CodeOf(places, target), Code::kPermission) << target;
}

}  // namespace
}  // namespace kedge::buffer

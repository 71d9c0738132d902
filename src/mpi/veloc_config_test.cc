// VELOC's configuration file: what is understood, what is refused, and by which name.
#include "mpi/veloc_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace kedge {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kMinimal[] = "scratch = /tmp/scratch\npersistent = /tmp/persistent\nmode = async\n";

Result<VelocConfig> Parse(const std::string& text, const std::map<std::string, std::string>& environment = {}) {
  return ParseVelocConfig(text, "veloc.cfg", [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

std::string Overrides(const std::string& text, const std::map<std::string, std::string>& environment = {}) {
  auto config = Parse(text, environment);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? config->overrides : "";
}

std::string Error(const std::string& text) {
  auto config = Parse(text);
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  return config.status().message();
}

TEST(VelocConfig, TheThreeKeysThatMustBeThere) {
  const std::string overrides = Overrides(kMinimal);
  EXPECT_THAT(overrides, HasSubstr("job.scratch=/tmp/scratch\n"));
  EXPECT_THAT(overrides, HasSubstr("store.path=/tmp/persistent\n"));
  EXPECT_THAT(overrides, HasSubstr("job.mode=async\n"));
  EXPECT_THAT(Error("persistent=/p\nmode=sync\n"), HasSubstr("'scratch' is missing"));
  EXPECT_THAT(Error("scratch=/p\nmode=sync\n"), HasSubstr("'persistent' is missing"));
  EXPECT_THAT(Error("scratch=/s\npersistent=/p\n"), HasSubstr("'mode' is missing"));
  EXPECT_THAT(Error("scratch=/s\npersistent=/p\nmode=maybe\n"), HasSubstr("sync or async"));
}

TEST(VelocConfig, CommentsSectionsAndSpaces) {
  EXPECT_THAT(Overrides("# a comment\n[veloc]\n\n  scratch=/a#b;c ; why\nPERSISTENT : /p p\nmode=sync"),
              HasSubstr("job.scratch=/a#b;c\nstore.path=/p p\njob.mode=sync\n"));
}

TEST(VelocConfig, IntervalsAndVersions) {
  EXPECT_THAT(Overrides(std::string(kMinimal) + "max_versions = 3\nscratch_versions = 2\npersistent_interval = 60"),
              HasSubstr("keep.versions=3\nkeep.local=2\nschedule.store_interval=60s\n"));
  EXPECT_THAT(Overrides(std::string(kMinimal) + "persistent_interval = -1"), HasSubstr("schedule.store=0\n"));
  EXPECT_THAT(Overrides(std::string(kMinimal) + "persistent_interval = 0"), Not(HasSubstr("schedule")));
  EXPECT_THAT(Overrides(kMinimal), HasSubstr("keep.versions=1000000000\n")) << "0, the default, keeps all";
  EXPECT_THAT(Error(std::string(kMinimal) + "persistent_interval = -2"), HasSubstr("veloc.cfg:4"));
  EXPECT_THAT(Error(std::string(kMinimal) + "max_versions = few"), HasSubstr("'few'"));
  EXPECT_THAT(Error(std::string(kMinimal) + "chksum = perhaps"), HasSubstr("true or false"));
}

TEST(VelocConfig, KeysWithoutMeaningGiveOneWarning) {
  auto config = Parse(std::string(kMinimal) +
                      "axl_type = x\nthreaded = true\nchksum = true\nmeta = /m\nwatchdog_interval = 5\nec_interval = -1\n");
  ASSERT_TRUE(config.ok());
  ASSERT_EQ(config->warnings.size(), 1u);
  EXPECT_THAT(config->warnings[0], HasSubstr("axl_type, threaded"));
  EXPECT_THAT(Parse(kMinimal)->warnings, IsEmpty());
}

TEST(VelocConfig, AnyOtherKeyIsAnErrorThatNamesIt) {
  EXPECT_THAT(Error(std::string(kMinimal) + "scrtach = /x\n"), HasSubstr("veloc.cfg:4: unknown key 'scrtach'"));
  EXPECT_THAT(Error(std::string(kMinimal) + "no separator\n"), HasSubstr("veloc.cfg:4"));
}

TEST(VelocConfig, NoValueMakesALineOfItsOwn) {
  auto injected = Parse(kMinimal, {{"VELOC_SCRATCH", "/s\nkeep.versions=1"}});
  EXPECT_EQ(injected.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(injected.status().message(), HasSubstr("VELOC_SCRATCH"));
  EXPECT_EQ(Parse(std::string("scratch=/s\0\npersistent=/p\nmode=sync\n", 36)).status().code(), Code::kInvalidArgument);
}

TEST(VelocConfig, TheEnvironmentWins) {
  const std::string overrides = Overrides(kMinimal, {{"VELOC_MODE", "sync"}, {"VELOC_MAX_VERSIONS", "7"}});
  EXPECT_THAT(overrides, HasSubstr("job.mode=sync\n"));
  EXPECT_THAT(overrides, HasSubstr("keep.versions=7\n"));
}

}  // namespace
}  // namespace kedge

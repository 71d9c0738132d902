// What a text means, by what the store has: with '/' and '@' in names, too.
#include "tools/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kedge::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobNames kJobs = {{"climate", {"heat", "ocean/deep", "mail@home"}}, {"heat", {"heat"}}, {"ocean", {"deep", "heat"}}};

std::vector<Target> Find(const std::string& text, TargetForm form = TargetForm::kAny, const JobNames& jobs = kJobs) {
  const auto found = FindTargets(text, jobs, form);
  EXPECT_TRUE(found.ok()) << found.status().ToString();
  return found.ok() ? *found : std::vector<Target>();
}
Target At(const std::string& job, const std::string& name, int64_t version, uint32_t attempt = 0, uint32_t take = 0) {
  return {job, name, TargetVersion{version, attempt, take}};
}

TEST(TargetTest, AWholeOneSaysAll) {
  for (const TargetForm form : {TargetForm::kName, TargetForm::kAny, TargetForm::kFromJob}) {
    EXPECT_THAT(Find("climate/heat@120", form), ElementsAre(At("climate", "heat", 120)));
    EXPECT_THAT(Find("climate/heat@120.3", form), ElementsAre(At("climate", "heat", 120, 3)));
    EXPECT_THAT(Find("climate/heat@120.3.14", form), ElementsAre(At("climate", "heat", 120, 3, 14))) << "as kedge ls shows it";
    EXPECT_THAT(Find("climate/heat", form), ElementsAre(Target{"climate", "heat", {}}));
  }
}

TEST(TargetTest, AJobMayBeLeftOutWhereOthersDoNotHaveTheName) {
  EXPECT_THAT(Find("deep@7"), ElementsAre(At("ocean", "deep", 7)));
  EXPECT_THAT(Find("heat@7", TargetForm::kName),
              ElementsAre(At("climate", "heat", 7), At("heat", "heat", 7), At("ocean", "heat", 7)));
  EXPECT_THAT(Find("deep@7", TargetForm::kFromJob), ElementsAre(At("ocean", "deep", 7)));
  EXPECT_THAT(Find("deep", TargetForm::kFromJob), IsEmpty()) << "all of a name is named with its job";
}

TEST(TargetTest, AJobIsMeantWhereThatMayBe) {
  EXPECT_THAT(Find("climate"), ElementsAre(Target{"climate", {}, {}}));
  EXPECT_THAT(Find("climate", TargetForm::kFromJob), ElementsAre(Target{"climate", {}, {}}));
  EXPECT_THAT(Find("climate", TargetForm::kName), IsEmpty());
  EXPECT_THAT(Find("heat", TargetForm::kFromJob), ElementsAre(Target{"heat", {}, {}}));
  EXPECT_THAT(Find("heat"), ElementsAre(Target{"climate", "heat", {}}, Target{"heat", {}, {}}, Target{"ocean", "heat", {}}))
      << "the job has its checkpoint of that name";
}

TEST(TargetTest, NamesMayHoldWhatSeparates) {
  EXPECT_THAT(Find("climate/mail@home"), ElementsAre(Target{"climate", "mail@home", {}}));
  EXPECT_THAT(Find("mail@home@3"), ElementsAre(At("climate", "mail@home", 3)));
  EXPECT_THAT(Find("ocean/deep@1"), ElementsAre(At("climate", "ocean/deep", 1), At("ocean", "deep", 1))) << "both are told";
  EXPECT_THAT(Find("climate/ocean/deep@1"), ElementsAre(At("climate", "ocean/deep", 1)));
}

TEST(TargetTest, WhatIsNoVersionIsRefused) {
  for (const char* text :
       {"heat@x", "heat@", "heat@1.x", "heat@1.2.", "heat@1.2.3.4", "climate/heat@-1", "heat@1234567890123456789"}) {
    EXPECT_EQ(FindTargets(text, kJobs, TargetForm::kAny).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_THAT(Find("nothing@x"), IsEmpty());
  EXPECT_THAT(Find(""), IsEmpty());
}

TEST(TargetTest, ItIsWrittenAsItIsRead) {
  for (const char* text :
       {"climate", "climate/heat", "climate/heat@120", "climate/heat@120.3", "climate/heat@120.3.14", "climate/mail@home@3"}) {
    EXPECT_EQ(Find(text).at(0).ToString(), text);
  }
}

}  // namespace
}  // namespace kedge::tools

// A context of the C API on a store and run folder of the test's own; with an agent, or without one (inline).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kedge/kedge.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {

struct Mode {
  const char* name;
  const char* overrides;
};
inline constexpr Mode kInline{"Inline", "job.mode=sync\n"};
inline constexpr Mode kAgent{"Agent", ""};

inline std::string ModeName(const ::testing::TestParamInfo<Mode>& info) {
  return info.param.name;
}

class ApiTest : public ::testing::TestWithParam<Mode> {
 protected:
  ~ApiTest() override {
    for (kedge_context* context : open_) kedge_finalize(context, 0);
  }

  std::string Overrides(const std::string& more = "") const {
    return "store.path=" + folder_.store() + "\nnode.run_folder=" + folder_.run_folder() +
           "\npool.size=64MiB\nchunk.size=4MiB\nchunk.piece=1MiB\nwait.timeout=60s\njob.name=api\nagent.idle_timeout=20s\n" +
           GetParam().overrides + more;
  }

  // A context that the fixture ends, unless Close does.
  kedge_context* Open(const std::string& more = "") {
    const std::string overrides = Overrides(more);
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    kedge_context* context = nullptr;
    EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_OK) << kedge_error_message();
    if (context != nullptr) open_.push_back(context);
    return context;
  }

  void Close(kedge_context* context, int drain = 1, int expected = KEDGE_OK) {
    std::erase(open_, context);
    EXPECT_EQ(kedge_finalize(context, drain), expected) << kedge_error_message();
  }

  static kedge_statistics Statistics(kedge_context* context) {
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    EXPECT_EQ(kedge_get_statistics(context, &statistics), KEDGE_OK);
    return statistics;
  }

  ScenarioFolder folder_;

 private:
  std::vector<kedge_context*> open_;
};

#define EXPECT_KEDGE_OK(call) EXPECT_EQ((call), KEDGE_OK) << kedge_error_message()
#define ASSERT_KEDGE_OK(call) ASSERT_EQ((call), KEDGE_OK) << kedge_error_message()

}  // namespace kedge::testing

// Histories as tests: those that once showed a fault, each as it was found and shrunk, and those of many seeds, simulated and
// real. The seeds are the same each time, so that a red run is the fault of a change. KEDGE_TEST_LONG plays fresh ones for hours;
// KEDGE_TEST_SEED is where seeds begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/histories/bucket_server.h"
#include "tests/histories/campaign.h"

namespace kedge::histories {
namespace {

// Names of files, without the suffix. Those named real-... are played with real processes, others in the simulation.
std::vector<std::string> FoundFiles() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(KEDGE_FOUND_HISTORIES)) {
    if (entry.path().extension() == ".history") found.push_back(entry.path().stem());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& found) {
  std::string name = found.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class FoundHistory : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, FoundHistory, ::testing::ValuesIn(FoundFiles()), NameOf);

TEST_P(FoundHistory, KeepsThePromisesNow) {
  SetLogLevel(LogLevel::kOff);
  std::ifstream file(KEDGE_FOUND_HISTORIES "/" + GetParam() + ".history");
  const auto history = ParseHistory({std::istreambuf_iterator<char>(file), {}});
  ASSERT_TRUE(history.ok()) << history.status().ToString();
  if (!history->setup.bucket.empty() && !BucketServer::IsHere())
    GTEST_SKIP() << "its store is in a bucket, and this machine has no versitygw (scripts/setup long makes it)";
  std::string course;
  const auto violation = PlayFresh(*history, GetParam().starts_with("real-"),
                                   {[&](const std::string& what) { course += what + "\n"; }, {}, nullptr});
  EXPECT_FALSE(violation.has_value()) << violation->kind << ": " << violation->sentence << "\n" << course;
}

constexpr uint64_t kSeedsOfARun = 1'000'000;  // at most: no run meets those of another

bool IsLong() {
  return std::getenv("KEDGE_TEST_LONG") != nullptr;
}

uint64_t FirstSeed() {
  if (const char* seed = std::getenv("KEDGE_TEST_SEED"); seed != nullptr) return std::strtoull(seed, nullptr, 10);
  return IsLong() ? static_cast<uint64_t>(std::time(nullptr)) * kSeedsOfARun : 1;
}

void ExpectAllKept(bool real, double seconds, double seconds_long, int processes) {
  SetLogLevel(LogLevel::kOff);
  CampaignOptions options;
  options.real = real;
  options.seconds = IsLong() ? seconds_long : seconds;
  options.processes = processes;
  options.shrinks = true;
  options.first_seed = FirstSeed();
  std::printf("KEDGE_TEST_SEED=%llu\n", static_cast<unsigned long long>(options.first_seed));
  std::fflush(stdout);
  const CampaignResult result = RunCampaign(options);
  std::printf("%llu %s histories in %.0f s, %llu of them with the store in a bucket, %llu with it on a burst buffer\n",
              static_cast<unsigned long long>(result.played), real ? "real" : "simulated", result.seconds,
              static_cast<unsigned long long>(result.in_bucket), static_cast<unsigned long long>(result.on_buffer));
  EXPECT_GT(result.played, 0u);
  for (const auto& [kind, count] : result.violations) ADD_FAILURE() << kind << ": " << count;
}

TEST(SimulatedHistories, KeepThePromises) {
  ExpectAllKept(/*real=*/false, 20, 3600, 1);
}

TEST(RealHistories, KeepThePromises) {
  ExpectAllKept(/*real=*/true, 15, 5400, 3);
}

}  // namespace
}  // namespace kedge::histories

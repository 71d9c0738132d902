// `kedge doctor --net` between the agents of several nodes: figures of each, nodes that are dead or silent named while the others
// are measured, and nothing left on those that were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kPairs[] = "protect.scheme=xor\nprotect.group=2\nschedule.store=0\n";
// One node that says nothing costs a few seconds, and there is only time beside much else on top of it.
constexpr auto kPatience = 60s;

class MeasureTest : public ProtectTest {
 protected:
  // What the command prints on that node, and its exit code. Warnings and errors are in it, too.
  // What it prints, in one line: where lines end depends on names and figures.
  std::string Doctor(int node, std::vector<std::string> options, int expected_code) {
    options.insert(options.begin(), {"doctor", "--net"});
    std::unique_ptr<ChildProcess> doctor;
    {
      const std::lock_guard<std::mutex> lock(starting_);
      doctor = nodes_.Tool(node, options);
    }
    const auto result = doctor->Wait(kPatience);
    EXPECT_TRUE(result.has_value() && result->exited) << doctor->Output();
    EXPECT_EQ(result.value_or(ProcessResult{}).exit_code, expected_code) << doctor->Output();
    return std::regex_replace(doctor->Output(), std::regex("\\s+"), " ");
  }
  Json DoctorJson(int node, std::vector<std::string> options, int expected_code) {
    options.emplace_back("--json");
    const std::string output = Doctor(node, std::move(options), expected_code);
    const Json json = ReportIn(output);
    EXPECT_TRUE(json.is_object() && json.contains("network")) << output;
    return json;
  }
  // Warnings may stand before it.
  static Json ReportIn(const std::string& output) {
    return Json::parse(output.substr(std::min(output.find('{'), output.size())), nullptr, false);
  }
  static std::vector<std::string> NamesIn(const Json& report) {
    std::vector<std::string> names;
    for (const Json& node : report.at("network").at("nodes")) names.push_back(node.at("node"));
    return names;
  }
  static void ExpectFigures(const Json& node) {
    EXPECT_EQ(node.at("connected"), true) << node;
    EXPECT_EQ(node.at("error"), "") << node;
    EXPECT_THAT(node.at("address").get<std::string>(), HasSubstr(":")) << node;
    EXPECT_TRUE(node.at("round_trip_seconds").is_number() && node.at("round_trip_seconds") > 1e-7) << node;
    EXPECT_TRUE(node.at("read_bytes_per_second").is_number() && node.at("read_bytes_per_second") > 1e6) << node;
  }
  // The findings that are bad, by subject: what was found.
  static std::map<std::string, std::string> BadIn(const Json& report) {
    std::map<std::string, std::string> bad;
    for (const Json& finding : report.at("findings")) {
      if (finding.at("state") != "BAD") continue;
      EXPECT_NE(finding.at("advice"), "") << finding;
      bad[finding.at("subject")] = finding.at("found");
    }
    return bad;
  }
  uint64_t LeasesOn(int node) {
    auto status = nodes_.Tool(node, {"status", "--json"});
    EXPECT_TRUE(status->Succeeds(20s));
    return ReportIn(status->Output()).at("leases");
  }
  // The reader says when it is done, and the word travels.
  bool HasNoLeases(int node) {
    for (int i = 0; i < 100; ++i) {
      if (LeasesOn(node) == 0) return true;
      std::this_thread::sleep_for(20ms);
    }
    return false;
  }

 private:
  std::mutex starting_;  // ranks are threads
};

TEST_F(MeasureTest, TheNodesOfAGroupAndOfTheWholeJob) {
  Take(all_, kPairs, 1);
  const Json pair = DoctorJson(0, {}, 0);
  EXPECT_EQ(pair.at("network").at("node"), "n0");
  EXPECT_EQ(pair.at("network").at("job"), "nodes");
  EXPECT_EQ(NamesIn(pair).size(), 1u) << pair;
  for (const Json& node : pair.at("network").at("nodes")) ExpectFigures(node);

  const Json all = DoctorJson(1, {"--all-nodes", "--job", "nodes"}, 0);
  EXPECT_THAT(NamesIn(all), ElementsAre("n0", "n2", "n3"));
  for (const Json& node : all.at("network").at("nodes")) ExpectFigures(node);

  const std::string text = Doctor(2, {"--all-nodes"}, 0);
  EXPECT_THAT(text, AllOf(HasSubstr("3 of 3 nodes of job nodes"), HasSubstr("ROUND TRIP"), HasSubstr("n3"), HasSubstr(" us")));
  for (const int node : all_) EXPECT_TRUE(HasNoLeases(node)) << "node " << node;
}

TEST_F(MeasureTest, ADeadNodeIsNamedWhileTheOthersAreMeasured) {
  Take(all_, std::string(kXorOfFour) + kNoStore, 1);
  nodes_.Lose(2);
  const Json report = DoctorJson(0, {}, 1);
  const auto& nodes = report.at("network").at("nodes");
  ASSERT_THAT(NamesIn(report), ElementsAre("n1", "n2", "n3"));
  ExpectFigures(nodes[0]);
  ExpectFigures(nodes[2]);
  EXPECT_EQ(nodes[1].at("connected"), false);
  EXPECT_TRUE(nodes[1].at("round_trip_seconds").is_null());
  const auto bad = BadIn(report);
  ASSERT_TRUE(bad.contains("node n2")) << report;
  EXPECT_EQ(bad.size(), 1u) << report;
  EXPECT_THAT(bad.at("node n2"), HasSubstr("n2"));
}

// Connected, and stopped: only time can tell. Two ask at once, and one of them is told to come back.
TEST_F(MeasureTest, ASilentNodeCostsSomeSecondsOnce) {
  Take(all_, std::string(kXorOfFour) + kNoStore, 1);
  const int pid = AgentPidAt(nodes_.RunFolder(3));
  ASSERT_GT(pid, 0);
  kill(pid, SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<ChildProcess> doctors[2];
  for (auto& doctor : doctors) doctor = nodes_.Tool(0, {"doctor", "--net", "--json"});
  std::string outputs[2];
  for (int i = 0; i < 2; ++i) {
    const auto result = doctors[i]->Wait(kPatience);
    EXPECT_TRUE(result.has_value() && result->exit_code == 1) << doctors[i]->Output();
    outputs[i] = doctors[i]->Output();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 25s);
  kill(pid, SIGCONT);
  const int busy = outputs[0].find("is measuring for somebody else") != std::string::npos ? 0 : 1;
  EXPECT_THAT(outputs[busy], HasSubstr("is measuring for somebody else"));
  const Json report = ReportIn(outputs[1 - busy]);
  ASSERT_TRUE(report.is_object() && report.contains("network")) << outputs[1 - busy];
  ASSERT_THAT(NamesIn(report), ElementsAre("n1", "n2", "n3"));
  ExpectFigures(report.at("network").at("nodes")[0]);
  ExpectFigures(report.at("network").at("nodes")[1]);
  EXPECT_TRUE(BadIn(report).contains("node n3")) << report;
}

TEST_F(MeasureTest, WhileTheJobRunsAndFromSeveralNodesAtOnce) {
  nodes_.Run(all_, std::string(kXorOfFour) + kNoStore, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    const Json report = DoctorJson(rank, {}, 0);
    EXPECT_EQ(NamesIn(report).size(), 3u);
    for (const Json& node : report.at("network").at("nodes")) ExpectFigures(node);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
}

TEST_F(MeasureTest, OneOfSeveralJobsIsNamed) {
  Take({0, 1}, kPairs, 1);
  Take({0, 2}, std::string(kPairs) + "job.name=another\n", 1);
  EXPECT_THAT(Doctor(0, {}, 2), AllOf(HasSubstr("another, nodes"), HasSubstr("--job")));
  EXPECT_THAT(NamesIn(DoctorJson(0, {"--job", "nodes"}, 0)), ElementsAre("n1"));
  EXPECT_THAT(NamesIn(DoctorJson(0, {"--job", "another"}, 0)), ElementsAre("n2"));
  EXPECT_THAT(Doctor(0, {"--job", "neither"}, 1), HasSubstr("neither"));
}

// An agent without such a job: what this node alone gives, and how to get more.
TEST_F(MeasureTest, WithoutAJobThatProtectsThisNodeIsMeasured) {
  Take({0}, "schedule.store=1\n", 1, KEDGE_LEVEL_STORE);
  const std::string text = Doctor(0, {}, 0);
  EXPECT_THAT(text, AllOf(HasSubstr("two ends on this node: the agent of node n0 knows no job"), HasSubstr("between nodes: ")));
}

}  // namespace
}  // namespace kedge::testing

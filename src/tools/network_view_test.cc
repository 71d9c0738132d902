// What is said of measured nodes: which are named, and which are not.
#include "tools/network_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kedge::tools {
namespace {

using ::testing::HasSubstr;

MeasuredNode Measured(const std::string& name, uint64_t round_trip_us, uint64_t mib_per_second) {
  return {name, name + ":4711", true, round_trip_us * 1000, mib_per_second << 20, Status::Ok()};
}

MeasureReply Reply(std::vector<MeasuredNode> nodes) {
  return {"n0", "climate", 3, "tcp;ofi_rxm", std::move(nodes)};
}

TEST(NetworkView, AllIsWell) {
  const auto findings = NetworkFindings(Reply({Measured("n1", 20, 3000), Measured("n2", 55, 2000), Measured("n3", 30, 1100)}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].state, State::kOk);
  EXPECT_THAT(findings[0].found, HasSubstr("3 of 3 nodes of job climate"));
  EXPECT_THAT(findings[0].found, HasSubstr("20 us to 55 us"));
}

TEST(NetworkView, ANodeThatIsNotReachedIsBadAndNamed) {
  const MeasureReply reply =
      Reply({Measured("n1", 20, 3000), {"n2", "n2:4711", false, 0, 0, Status(Code::kTimeout, "no reply")}});
  const auto findings = NetworkFindings(reply);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0].found, HasSubstr("1 of 2 nodes"));
  EXPECT_EQ(findings[1].state, State::kBad);
  EXPECT_EQ(findings[1].subject, "node n2");
  EXPECT_EQ(findings[1].found, "no reply");
  EXPECT_FALSE(findings[1].advice.empty());
  EXPECT_THAT(NetworkText(reply), HasSubstr("no: no reply"));
  EXPECT_THAT(ToText(NetworkJson(reply)),
              HasSubstr(R"("connected":false,"round_trip_seconds":null,"read_bytes_per_second":null,"error":"no reply")"));
}

TEST(NetworkView, NobodyIsReached) {
  const auto findings = NetworkFindings(Reply({{"n2", "n2:4711", false, 0, 0, Status(Code::kTimeout, "no reply")}}));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0].found, HasSubstr("0 of 1 nodes"));
  EXPECT_EQ(findings[1].state, State::kBad);
}

TEST(NetworkView, ASlowLinkStandsOut) {
  auto findings = NetworkFindings(Reply({Measured("n1", 20, 3000), Measured("n2", 25, 900), Measured("n3", 30, 2800)}));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].state, State::kNote);
  EXPECT_EQ(findings[1].subject, "node n2");
  EXPECT_THAT(findings[1].advice, HasSubstr("slow link"));

  findings = NetworkFindings(Reply({Measured("n1", 20, 3000), Measured("n2", 25, 3000), Measured("n3", 300, 2800)}));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].subject, "node n3");

  EXPECT_EQ(NetworkFindings(Reply({Measured("n1", 20, 3000), Measured("n2", 300, 30)})).size(), 1u) << "of two none is";
}

}  // namespace
}  // namespace kedge::tools

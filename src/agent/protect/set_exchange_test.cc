#include "agent/protect/set_exchange.h"

#include <gtest/gtest.h>

#include "agent/protect/node_level.h"
#include "agent/testing/protected_job.h"

namespace kedge {
namespace {

ExchangeRequest FromOther(const testing::ProtectedJob& nodes, const Generation& generation) {
  ExchangeRequest request{nodes.SetOf(generation), nodes.other(), true, {}};
  request.mine.node = nodes.OtherNode().name;
  request.mine.rank = nodes.OtherNode().ranks[0];
  return request;
}

TEST(SetExchangeTest, WhatAFasterMemberTellsIsKeptForTheVersion) {
  testing::ProtectedJob nodes(2);
  for (const int64_t number : {1, 2}) {
    const auto reply = nodes->set_exchange().OnAsked(nodes.job(), FromOther(nodes, nodes.GenerationOf(number)));
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_FALSE(reply->done || reply->theirs.has_value());
  }
  Version& version = nodes.Put(1);
  nodes.Begin(version);
  nodes->set_exchange().OnBegun(version);
  EXPECT_TRUE(version.protection->sets[0].members[nodes.other()].has_value());
  EXPECT_TRUE(version.protection->sets[0].done[nodes.other()]);
  EXPECT_FALSE(version.protection->sets[0].members[nodes.self().member].has_value());
  Version& gone = nodes.Put(2);
  nodes->set_exchange().OnVersionGone(gone);
  nodes.Begin(gone);
  nodes->set_exchange().OnBegun(gone);
  EXPECT_FALSE(gone.protection->sets[0].members[nodes.other()].has_value());
}

TEST(SetExchangeTest, WhoHasGivenUpSaysSo) {
  testing::ProtectedJob nodes(2);
  const ExchangeRequest request = FromOther(nodes, nodes.GenerationOf(1));
  Version& version = nodes.Put(1);
  nodes.Begin(version);
  EXPECT_TRUE(nodes->set_exchange().OnAsked(nodes.job(), request).ok());
  EXPECT_TRUE(version.protection->sets[0].done[nodes.other()]);
  nodes->node_level().Fail(version, Status(Code::kIo, "a device failed"));
  const Status told = nodes->set_exchange().OnAsked(nodes.job(), request).status();
  EXPECT_EQ(told.code(), Code::kIncomplete);
  EXPECT_EQ(told.message(), "node local: a device failed");
}

TEST(SetExchangeTest, WhatTheLayoutDoesNotSayIsRefused) {
  testing::ProtectedJob nodes(2);
  const ExchangeRequest right = FromOther(nodes, nodes.GenerationOf(1));
  const auto code_of = [&](const ExchangeRequest& request) {
    return nodes->set_exchange().OnAsked(nodes.job(), request).status().code();
  };
  EXPECT_EQ(code_of(right), Code::kOk);
  ExchangeRequest wrong = right;
  ++wrong.set.layout;
  EXPECT_EQ(code_of(wrong), Code::kMismatch);
  wrong = right;
  wrong.mine.node = "another";
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = right;
  wrong.from = nodes.self().member;
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument);
  wrong = right;
  wrong.set.index = 1;
  EXPECT_EQ(code_of(wrong), Code::kInvalidArgument) << "no node has a second rank";
}

}  // namespace
}  // namespace kedge

// Requests find the module that has registered for them; who may not ask, and what nobody answers, is refused.
#include "agent/tables/client_requests.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "agent/tables/session.h"

namespace kedge {
namespace {

constexpr uint64_t kNumberAsked = 5;

// Of connections, number 3 is there.
class SenderThatKeeps : public AnswerSender {
 public:
  void Send(uint64_t connection, uint64_t number, const Message& answer, std::vector<os::UniqueFd> descriptors) override {
    EXPECT_EQ(std::pair(connection, number), std::pair(uint64_t{3}, kNumberAsked));
    answers.push_back(answer);
    descriptors_sent += descriptors.size();
  }
  bool IsConnected(uint64_t connection) const override { return connection == 3; }

  // Of the only answer; kOk: it is no ErrorReply.
  Code TakeCode() {
    EXPECT_EQ(answers.size(), 1u);
    const auto* error = std::get_if<ErrorReply>(&answers.at(0));
    const Code code = error == nullptr ? Code::kOk : error->status.code();
    answers.clear();
    return code;
  }

  std::vector<Message> answers;
  size_t descriptors_sent = 0;
};

class ClientRequestsTest : public ::testing::Test {
 protected:
  void Ask(const Message& request, Session* session = nullptr) { requests_.Handle(request, session, question_); }

  ClientRequests requests_;
  SenderThatKeeps sender_;
  Question question_{sender_, 3, kNumberAsked};
  Session session_;
};

TEST_F(ClientRequestsTest, WhatAHandlerReturnsIsTheAnswer) {
  requests_.On<StatusRequest>([](const StatusRequest&) { return StatusReply{"{}"}; });
  requests_.On<RetainRequest>([](const RetainRequest&) { return Status::Ok(); });
  requests_.On<PendingRequest>([](const PendingRequest& request) -> Result<PendingReply> {
    if (request.rank > 0) return Status(Code::kNotFound, "no such rank");
    return PendingReply{7, 8};
  });
  Ask(StatusRequest{});
  EXPECT_EQ(std::get<StatusReply>(sender_.answers.at(0)).json, "{}");
  Ask(RetainRequest{});
  EXPECT_TRUE(std::holds_alternative<DoneReply>(sender_.answers.at(1)));
  Ask(PendingRequest{});
  EXPECT_EQ(std::get<PendingReply>(sender_.answers.at(2)).images, 7u);
  sender_.answers.clear();
  PendingRequest of_other;
  of_other.rank = 1;
  Ask(of_other);
  EXPECT_EQ(sender_.TakeCode(), Code::kNotFound);
}

TEST_F(ClientRequestsTest, AHandlerThatTakesTheQuestionAnswersLaterOnce) {
  std::vector<Question> asked;
  requests_.On<DrainRequest>([&asked](const DrainRequest&, const Question& question) { asked.push_back(question); });
  Ask(DrainRequest{});
  EXPECT_TRUE(sender_.answers.empty());
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(asked[0] == question_);
  EXPECT_FALSE(asked[0] == Question(sender_, 3, 6));
  EXPECT_TRUE(asked[0].IsWanted());
  EXPECT_FALSE(Question(sender_, 4, kNumberAsked).IsWanted());
  std::vector<os::UniqueFd> descriptors(2);
  asked[0].Answer(Result<DrainReply>(DrainReply{}), std::move(descriptors));
  EXPECT_EQ(sender_.TakeCode(), Code::kOk);
  EXPECT_EQ(sender_.descriptors_sent, 2u);
}

TEST_F(ClientRequestsTest, WhatNeedsASessionIsRefusedWithoutOne) {
  const Session* asking = nullptr;
  requests_.OnSession<CloseImageRequest>([&asking](Session& session, const CloseImageRequest&) {
    asking = &session;
    return Status::Ok();
  });
  Ask(CloseImageRequest{});
  EXPECT_EQ(sender_.TakeCode(), Code::kFailedPrecondition);
  EXPECT_EQ(asking, nullptr);
  Ask(CloseImageRequest{}, &session_);
  EXPECT_EQ(sender_.TakeCode(), Code::kOk);
  EXPECT_EQ(asking, &session_);
}

TEST_F(ClientRequestsTest, WhatNobodyAnswersIsRefused) {
  Ask(DoneReply{}, &session_);
  EXPECT_EQ(sender_.TakeCode(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kedge

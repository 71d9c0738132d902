// What a client meets where its agent should be: another user's process, an agent that speaks another protocol, an agent that
// answers nonsense. It is refused, or gone without; never hung, never trusted.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "client/testing/fake_agent.h"
#include "os/sockets/unix_socket.h"
#include "session/messages.h"
#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

using client::testing::FakeAgent;
using ::testing::HasSubstr;

class NeighbourTest : public ApiTest {
 protected:
  int InitCode() {
    const std::string overrides = Overrides();
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    kedge_context* context = nullptr;
    const int code = kedge_init(&options, nullptr, &context);
    if (context != nullptr) kedge_finalize(context, 0);
    return code;
  }
  std::string Socket() const { return folder_.run_folder() + "/agent.sock"; }
};
INSTANTIATE_TEST_SUITE_P(Modes, NeighbourTest, ::testing::Values(kAgent), ModeName);

// Only root can be several users.
TEST_P(NeighbourTest, AnotherUsersAgentIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else for a moment";
  constexpr uid_t kNobody = 65534;
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(chmod(folder_.memory_folder().c_str(), 01777), 0);
  const pid_t other = fork();
  if (other == 0) {
    bool listens = setgid(kNobody) == 0 && setuid(kNobody) == 0 && mkdir(folder_.run_folder().c_str(), 0700) == 0;
    std::optional<os::UnixListener> listener;
    if (listens) {
      auto made = os::UnixListener::Listen(Socket());
      listens = made.ok();
      if (listens) listener.emplace(std::move(*made));
    }
    const char answer = listens ? 1 : 0;
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char listens = 0;
  ASSERT_EQ(read(ready[0], &listens, 1), 1);
  EXPECT_EQ(listens, 1);
  EXPECT_EQ(InitCode(), KEDGE_ERROR_PERMISSION);
  EXPECT_THAT(kedge_error_message(), HasSubstr("65534"));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_P(NeighbourTest, AnAgentOfAnotherProtocolIsRefused) {
  FakeAgent agent(Socket(), [](uint64_t number) {
    const Buffer frame = EncodeMessage(number, ErrorReply{Status(Code::kMismatch, "you speak protocol 1, this agent 77")});
    return std::string(AsText(frame));
  });
  EXPECT_EQ(InitCode(), KEDGE_ERROR_MISMATCH);
  EXPECT_THAT(kedge_error_message(), HasSubstr("77"));
  EXPECT_GE(agent.asked(), 1);
}

TEST_P(NeighbourTest, AnAgentThatAnswersNonsenseIsGoneWithout) {
  for (const char* answer : {"", "no message at all"}) {
    SCOPED_TRACE(answer);
    FakeAgent agent(Socket(), [answer](uint64_t) { return std::string(answer); });
    kedge_context* context = Open();
    ASSERT_NE(context, nullptr);
    int value = 1;
    EXPECT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "n", answer[0] == '\0' ? 1 : 2, 0));
    EXPECT_EQ(Statistics(context).checkpoints_inline, 1u);
    Close(context, 0);
    EXPECT_GE(agent.asked(), 1);
  }
}

}  // namespace
}  // namespace kedge::testing

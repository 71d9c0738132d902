#include "session/connection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "os/sockets/unix_socket.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(Connection, WhoIsToldToBePatientIsSoForAWhileOnly) {
  const os::testing::TemporaryFolder folder;
  ConnectOptions options;
  options.node.run_folder = folder.path();
  options.start_agent = false;
  auto listener = os::UnixListener::Listen(options.node.SocketPath());
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  std::atomic<bool> stop{false};
  std::thread agent([&] {
    std::optional<os::UnixSocket> client;
    uint64_t number = 0;
    for (; !stop; std::this_thread::sleep_for(milliseconds(20))) {
      if (!client) {
        auto accepted = listener->Accept();
        if (accepted.ok() && accepted->has_value()) client.emplace(std::move(**accepted));
      } else if (number == 0) {
        const auto asked = client->TryReceive();
        if (asked.ok() && asked->has_value()) number = DecodeMessage(AsBytes((*asked)->body)).value().number;
      } else {
        (void)client->Send(AsText(EncodeMessage(number, PatienceReply{})), {}, std::chrono::seconds(1));
      }
    }
  });
  auto connection = Connection::Connect(options);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const auto begin = Clock::now();
  EXPECT_EQ((*connection)->Call<DoneReply>(GoodbyeRequest{}, milliseconds(200)).status().code(), Code::kTimeout);
  EXPECT_GE(Clock::now() - begin, milliseconds(1000));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  stop = true;
  agent.join();
}

}  // namespace
}  // namespace kedge

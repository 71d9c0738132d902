#include "os/sockets/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"
#include "os/files/files.h"
#include "os/sockets/socket_lock.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryFolder;

class UnixSocketTest : public ::testing::Test {
 protected:
  UnixSocket Accept(UnixListener& listener) {
    for (;;) {
      auto accepted = listener.Accept();
      KEDGE_CHECK(accepted.ok());
      if (*accepted) return std::move(**accepted);
      std::this_thread::sleep_for(1ms);
    }
  }
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "run/agent.sock";
};

int CountOpenDescriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

TEST_F(UnixSocketTest, CarriesMessagesBothWays) {
  auto listener = UnixListener::Listen(path_).value();
  auto client = UnixSocket::Connect(path_, 5s).value();
  auto server = Accept(listener);
  ASSERT_TRUE(client.Send("hello", {}, 5s).ok());
  ASSERT_TRUE(client.Send("", {}, 5s).ok());
  EXPECT_EQ(server.Receive(5s)->body, "hello");
  EXPECT_EQ(server.Receive(5s)->body, "");
  ASSERT_TRUE(server.Queue("answer").ok());
  EXPECT_EQ(client.Receive(5s)->body, "answer");
  EXPECT_FALSE(client.TryReceive()->has_value());
  const PeerCredentials peer = server.Peer().value();
  EXPECT_EQ(peer.process_id, getpid());
  EXPECT_EQ(peer.user_id, geteuid());
}

TEST_F(UnixSocketTest, IsTheUsersAlone) {
  auto listener = UnixListener::Listen(path_).value();
  EXPECT_EQ(SystemFileSystem().Stat(ParentPath(path_))->mode, 0700u);
  EXPECT_EQ(SystemFileSystem().Stat(path_)->mode, 0600u);
  ASSERT_EQ(mkdir((folder_ / "open").c_str(), 0700), 0);
  ASSERT_EQ(chmod((folder_ / "open").c_str(), 0755), 0);
  const Status refused = UnixListener::Listen(folder_ / "open/agent.sock").status();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_NE(refused.message().find("0755"), std::string::npos) << refused.message();
  ASSERT_EQ(symlink(ParentPath(path_).c_str(), (folder_ / "link").c_str()), 0);
  EXPECT_EQ(UnixListener::Listen(folder_ / "link/other.sock").status().code(), Code::kPermission);
}

TEST_F(UnixSocketTest, HasOneListenerAtATime) {
  {
    auto listener = UnixListener::Listen(path_).value();
    EXPECT_EQ(UnixListener::Listen(path_).status().code(), Code::kBusy);
    auto moved = std::move(listener);
    EXPECT_TRUE(moved.IsReachable());
    EXPECT_EQ(UnixListener::Listen(path_).status().code(), Code::kBusy);
  }
  EXPECT_TRUE(SystemFileSystem().List(ParentPath(path_))->empty()) << "socket and lock are removed";
  EXPECT_EQ(UnixSocket::Connect(path_, 1s).status().code(), Code::kUnavailable);
  EXPECT_TRUE(UnixListener::Listen(path_).ok());
}

TEST_F(UnixSocketTest, TakesOverFromADeadProcess) {
  const pid_t child = fork();
  if (child == 0) {
    auto listener = UnixListener::Listen(path_);
    _exit(listener.ok() ? 0 : 1);  // without destructors, as a kill would
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(*Exists(SystemFileSystem(), path_)) << "the dead one's socket is there";
  EXPECT_EQ(UnixSocket::Connect(path_, 1s).status().code(), Code::kUnavailable);
  auto listener = UnixListener::Listen(path_).value();
  EXPECT_TRUE(UnixSocket::Connect(path_, 1s).ok());
}

TEST_F(UnixSocketTest, HasOneWinnerAmongRacingListeners) {
  for (int round = 0; round < 30; ++round) {
    std::vector<Result<UnixListener>> results;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        auto result = UnixListener::Listen(path_);
        const std::lock_guard lock(mutex);
        results.push_back(std::move(result));
      });
    }
    for (std::thread& thread : threads) thread.join();
    int winners = 0;
    for (const auto& result : results) {
      winners += result.ok();
      EXPECT_TRUE(result.ok() || result.status().code() == Code::kBusy) << result.status().ToString();
      EXPECT_TRUE(!result.ok() || result->IsReachable());
    }
    EXPECT_EQ(winners, 1);
  }
}

TEST_F(UnixSocketTest, NoticesAndLeavesAloneWhatReplacedIt) {
  auto listener = std::make_unique<UnixListener>(UnixListener::Listen(path_).value());
  EXPECT_TRUE(listener->IsReachable());
  ASSERT_TRUE(RemoveTree(SystemFileSystem(), ParentPath(path_)).ok());
  EXPECT_FALSE(listener->IsReachable());
  auto next = UnixListener::Listen(path_).value();
  EXPECT_FALSE(listener->IsReachable());
  listener.reset();
  EXPECT_TRUE(next.IsReachable()) << "the old one must not remove the new one's files";
}

TEST_F(UnixSocketTest, ReachesLongPaths) {
  std::string folder = folder_.path();
  for (int i = 0; i < 5; ++i) folder = JoinPath(folder, std::string(50, 'd'));
  ASSERT_TRUE(MakeFolders(SystemFileSystem(), folder).ok());
  auto listener = UnixListener::Listen(JoinPath(folder, "agent.sock")).value();
  EXPECT_TRUE(UnixSocket::Connect(JoinPath(folder, "agent.sock"), 1s).ok());
  EXPECT_EQ(UnixListener::Listen(JoinPath(folder, std::string(120, 's'))).status().code(), Code::kInvalidArgument);
}

TEST_F(UnixSocketTest, PassesDescriptorsWithTheirMessage) {
  auto [left, right] = UnixSocket::Pair().value();
  const int before = CountOpenDescriptors();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_TRUE(left.Send("none", {}, 1s).ok());
  ASSERT_TRUE(left.Send("two", {ends[0], ends[1]}, 1s).ok());
  ASSERT_TRUE(left.Send("none again", {}, 1s).ok());
  ASSERT_TRUE(left.Send("one", {ends[1]}, 1s).ok());
  EXPECT_TRUE(right.Receive(1s)->descriptors.empty());
  {
    const auto two = right.Receive(1s).value();
    EXPECT_EQ(two.body, "two");
    ASSERT_EQ(two.descriptors.size(), 2u);
    EXPECT_TRUE(right.Receive(1s)->descriptors.empty());
    const auto one = right.Receive(1s).value();
    ASSERT_EQ(one.descriptors.size(), 1u);
    ASSERT_EQ(write(one.descriptors[0].get(), "x", 1), 1);
    char byte = 0;
    ASSERT_EQ(read(two.descriptors[0].get(), &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
    EXPECT_NE(fcntl(one.descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(CountOpenDescriptors(), before) << "none leaks";
}

TEST_F(UnixSocketTest, KeepsFramesWholeThroughSmallPieces) {
  Random random(5);
  auto [left, right] = UnixSocket::Pair().value();
  std::vector<std::string> sent;
  for (int i = 0; i < 200; ++i) {
    std::string body(random.Chance(0.1) ? random.Below(300'000) : random.Below(2000), '\0');
    random.Fill(body.data(), body.size());
    sent.push_back(std::move(body));
  }
  std::thread sender([&left = left, &sent] {
    for (const std::string& body : sent) ASSERT_TRUE(left.Send(body, {}, 30s).ok());
  });
  for (const std::string& body : sent) {
    const auto received = right.Receive(30s);
    ASSERT_TRUE(received.ok()) << received.status().ToString();
    ASSERT_TRUE(received->body == body);
  }
  sender.join();
}

TEST_F(UnixSocketTest, QueuesWhatThePeerDoesNotTakeYet) {
  auto [left, right] = UnixSocket::Pair({.message_bytes_max = 1 << 20, .queued_bytes_max = 3 << 20}).value();
  const std::string body(1 << 20, 'q');
  int queued = 0;
  Status status;
  while ((status = left.Queue(body)).ok()) ++queued;
  EXPECT_EQ(status.code(), Code::kNoSpace) << "memory for a peer that does not read is bounded";
  EXPECT_GE(queued, 3);
  EXPECT_LE(queued, 5);
  EXPECT_TRUE(left.has_unsent());
  for (int i = 0; i < queued; ++i) {
    for (;;) {
      ASSERT_TRUE(left.Flush().ok());
      auto message = right.TryReceive();
      ASSERT_TRUE(message.ok());
      if (!*message) continue;
      ASSERT_TRUE((*message)->body == body);
      break;
    }
  }
  EXPECT_FALSE(left.has_unsent());
}

TEST_F(UnixSocketTest, BoundsItsWaits) {
  auto listener = UnixListener::Listen(path_).value();
  auto client = UnixSocket::Connect(path_, 1s).value();
  EXPECT_EQ(client.Receive(10ms).status().code(), Code::kTimeout);
  const Status stuck = client.Send(std::string(8 << 20, 'x'), {}, 50ms);
  EXPECT_EQ(stuck.code(), Code::kTimeout);
}

TEST_F(UnixSocketTest, ReportsAPeerThatIsGoneWithoutSigpipe) {
  auto [left, right] = UnixSocket::Pair().value();
  ASSERT_TRUE(right.Send("last words", {}, 1s).ok());
  right.Shutdown();
  EXPECT_EQ(left.Receive(1s)->body, "last words");
  EXPECT_EQ(left.Receive(1s).status().code(), Code::kUnavailable);
  Status sent;
  for (int i = 0; i < 3 && sent.ok(); ++i) sent = left.Send("anybody?", {}, 1s);  // SIGPIPE would end this program
  EXPECT_EQ(sent.code(), Code::kUnavailable);
}

// What a broken or hostile peer sends, as raw bytes.
class RawPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = UnixSocket::Pair({.message_bytes_max = 1000, .descriptors_max = 2}).value();
    socket_ = std::make_unique<UnixSocket>(std::move(pair.first));
    raw_ = std::make_unique<UnixSocket>(std::move(pair.second));
  }
  void SendRaw(const std::string& bytes) {
    ASSERT_EQ(send(raw_->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void SendRawWithDescriptors(const std::string& bytes, int count) {
    iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(static_cast<size_t>(count) * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(static_cast<size_t>(count) * sizeof(int));
    for (int i = 0; i < count; ++i) {
      const int fd = STDERR_FILENO;
      std::memcpy(CMSG_DATA(rights) + static_cast<size_t>(i) * sizeof(int), &fd, sizeof fd);
    }
    ASSERT_EQ(sendmsg(raw_->descriptor(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  std::unique_ptr<UnixSocket> socket_;
  std::unique_ptr<UnixSocket> raw_;
};

TEST_F(RawPeer, MayNotAnnounceTooMuch) {
  SendRaw(std::string("\xE9\x03\0\0\0\0\0\0", 8));  // 1001 bytes
  EXPECT_EQ(socket_->Receive(1s).status().code(), Code::kCorrupt);
}

TEST_F(RawPeer, MayNotSendMoreDescriptorsThanAllowed) {
  const int before = CountOpenDescriptors();
  SendRawWithDescriptors(std::string("\1\0\0\0\3\0\0\0x", 9), 3);
  EXPECT_EQ(socket_->Receive(1s).status().code(), Code::kCorrupt);
  socket_.reset();
  EXPECT_EQ(CountOpenDescriptors(), before - 1) << "what came is closed";
}

TEST_F(RawPeer, MayNotSendOtherDescriptorsThanAnnounced) {
  SendRawWithDescriptors(std::string("\1\0\0\0\2\0\0\0x", 9), 1);
  EXPECT_EQ(socket_->Receive(1s).status().code(), Code::kCorrupt);
}

TEST_F(RawPeer, MayNotStopWithinAMessage) {
  SendRaw(std::string("\5\0\0\0\0\0\0\0abc", 11));
  EXPECT_EQ(socket_->Receive(10ms).status().code(), Code::kTimeout);
  SendRaw("de");
  EXPECT_EQ(socket_->Receive(1s)->body, "abcde") << "a part that came is kept";
  SendRaw(std::string("\5\0\0\0\0\0\0\0abc", 11));
  raw_.reset();
  const Status status = socket_->Receive(1s).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("in the middle"), std::string::npos);
}

TEST_F(RawPeer, GarbageNeverBreaksMore) {
  Random random(9);
  for (int round = 0; round < 300; ++round) {
    SetUp();
    std::string garbage(random.Below(64), '\0');
    random.Fill(garbage.data(), garbage.size());
    if (random.Chance(0.5) && garbage.size() >= 8) std::memset(garbage.data() + 1, 0, 7);
    SendRaw(garbage);
    raw_.reset();
    for (Status status; status.ok();) status = socket_->Receive(1s).status();
  }
}

TEST_F(UnixSocketTest, RefusesMessagesOverTheLimit) {
  auto [left, right] = UnixSocket::Pair({.message_bytes_max = 10, .descriptors_max = 1}).value();
  EXPECT_EQ(left.Send(std::string(11, 'x'), {}, 1s).code(), Code::kInvalidArgument);
  EXPECT_EQ(left.Send("x", {0, 1}, 1s).code(), Code::kInvalidArgument);
  EXPECT_TRUE(left.Send(std::string(10, 'x'), {2}, 1s).ok()) << "the connection is unharmed";
  EXPECT_EQ(right.Receive(1s)->body.size(), 10u);
}

TEST(SocketLock, KeepsListenersAway) {
  const TemporaryFolder folder;
  const std::string path = folder / "run/agent.sock";
  {
    const auto listener = UnixListener::Listen(path);
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    EXPECT_EQ(SocketLock::Take(path).status().code(), Code::kBusy);
  }
  {
    const auto lock = SocketLock::Take(path);
    ASSERT_TRUE(lock.ok()) << lock.status().ToString();
    EXPECT_EQ(UnixListener::Listen(path).status().code(), Code::kBusy);
    EXPECT_EQ(SocketLock::Take(path).status().code(), Code::kBusy);
  }
  EXPECT_FALSE(Exists(SystemFileSystem(), path + ".lock").value()) << "it was not there before";
  for (const char* name : {"", ".lock"}) std::ofstream(path + name) << "left by a process that was killed";
  for (const char* name : {"", ".lock"}) ASSERT_EQ(chmod((path + name).c_str(), 0600), 0);
  {
    auto lock = SocketLock::Take(path);
    ASSERT_TRUE(lock.ok()) << lock.status().ToString();
  }
  EXPECT_TRUE(Exists(SystemFileSystem(), path + ".lock").value()) << "it only looked";
  EXPECT_TRUE(SocketLock::Take(path)->RemoveSocket().ok());
  EXPECT_TRUE(SystemFileSystem().List(folder / "run")->empty());
  EXPECT_TRUE(UnixListener::Listen(path).ok());
}

}  // namespace
}  // namespace kedge::os

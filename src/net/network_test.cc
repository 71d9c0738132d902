// What every provider must do: the conformance suite of Network. KEDGE_NET_PROVIDERS (cmake) names the providers.
#include "net/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "net/measure.h"
#include "net/testing/nodes.h"
#include "os/sockets/tcp_ports.h"

namespace kedge::net {
namespace {

using namespace std::chrono_literals;
using testing::Ask;
using testing::BeginRead;
using testing::Bytes;
using testing::Fetch;
using testing::kJob;
using testing::kPatience;
using testing::Nodes;
using testing::OpenNetwork;
using testing::TestOptions;

std::vector<std::string> Providers() {
  std::vector<std::string> names;
  std::string list = KEDGE_NET_PROVIDERS;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

class NetworkTest : public ::testing::TestWithParam<std::string> {
 protected:
  NetworkOptions options_ = TestOptions(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Provider, NetworkTest, ::testing::ValuesIn(Providers()), [](const auto& provider) {
  std::string name = provider.param;
  std::erase_if(name, [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) == 0; });
  return name;
});

// What is leased is declared before the nodes: it outlives leases that nobody ends.
std::vector<std::byte> RandomBytes(size_t bytes, uint64_t seed) {
  std::vector<std::byte> data(bytes);
  Random(seed).Fill(data.data(), data.size());
  return data;
}

bool Equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST_P(NetworkTest, RequestsAreAnswered) {
  Nodes nodes(2, options_);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{8100}, size_t{8129}, size_t{8192}, size_t{100'000}, kNetMessageBytesMax}) {
    const auto data = RandomBytes(bytes, bytes);
    const auto reply = Ask(nodes[0], nodes.peer(1), 1, Buffer(data.begin(), data.end()));
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_TRUE(Equal(*reply, data)) << bytes;
  }
  const auto back = Ask(nodes[1], nodes.peer(0), 1, Bytes("over the same session"));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_EQ(nodes[1]->Peers().size(), 1U);
  const PeerState state = nodes[1]->Peers()[0];
  EXPECT_TRUE(state.connected);
  EXPECT_EQ(state.sessions, 1U);
  EXPECT_EQ(state.peer.node, "n0");
  EXPECT_GT(state.heard_ns, 0);
}

TEST_P(NetworkTest, AMessageTooLongIsRefused) {
  Nodes nodes(2, options_);
  EXPECT_EQ(Ask(nodes[0], nodes.peer(1), 1, Buffer(kNetMessageBytesMax + 1)).status().code(), Code::kNoSpace);
  nodes[1]->Serve(2, [](const Peer&, ByteSpan, const Answer& answer) { answer(Buffer(kNetMessageBytesMax + 1)); });
  EXPECT_EQ(Ask(nodes[0], nodes.peer(1), 2, {}).status().code(), Code::kNoSpace);
  EXPECT_TRUE(Ask(nodes[0], nodes.peer(1), 1, Bytes("x")).ok());
}

TEST_P(NetworkTest, ErrorsComeBackWithTheirCodeAndThePeersName) {
  Nodes nodes(2, options_);
  nodes[1]->Serve(2, [](const Peer& peer, ByteSpan, const Answer& answer) {
    answer(Status(Code::kIncomplete, "no such image for " + peer.node, EROFS));
  });
  nodes[1]->Serve(3, [](const Peer&, ByteSpan, const Answer&) {});  // takes effect in a moment
  const auto reply = Ask(nodes[0], nodes.peer(1), 2, {});
  EXPECT_EQ(reply.status().code(), Code::kIncomplete);
  EXPECT_EQ(reply.status().errno_value(), EROFS);
  EXPECT_NE(reply.status().message().find("node n1 at "), std::string::npos) << reply.status().message();
  EXPECT_NE(reply.status().message().find("no such image for n0"), std::string::npos);

  EXPECT_EQ(Ask(nodes[0], nodes.peer(1), 77, {}).status().code(), Code::kUnsupported);
  EXPECT_EQ(Ask(nodes[0], nodes.peer(1), 3, {}).status().code(), Code::kInternal) << "dropped without an answer";
  EXPECT_EQ(Ask(nodes[0], {kJob, "n9"}, 1, {}).status().code(), Code::kNotFound);
  EXPECT_EQ(Ask(nodes[0], {"another", "n1"}, 1, {}).status().code(), Code::kNotFound);
}

TEST_P(NetworkTest, AnswersMayComeLateAndInAnyOrder) {
  Nodes nodes(2, options_);
  std::mutex mutex;
  std::vector<Answer> kept;
  nodes[1]->Serve(2, [&](const Peer&, ByteSpan, const Answer& answer) {
    const std::lock_guard<std::mutex> lock(mutex);
    kept.push_back(answer);
  });
  std::promise<Result<Buffer>> first;
  std::promise<Result<Buffer>> second;
  nodes[0]->Call(nodes.peer(1), 2, {}, 30s, [&](Result<Buffer> reply) { first.set_value(std::move(reply)); });
  nodes[0]->Call(nodes.peer(1), 2, {}, 30s, [&](Result<Buffer> reply) { second.set_value(std::move(reply)); });
  const Deadline deadline(SystemClock(), 20s);
  const auto both_kept = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return kept.size() == 2;
  };
  while (!both_kept() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(both_kept());
  kept[1](Bytes("second"));
  kept[1](Bytes("ignored"));
  kept[0](Bytes("first"));
  EXPECT_TRUE(Equal(*second.get_future().get(), Bytes("second")));
  EXPECT_TRUE(Equal(*first.get_future().get(), Bytes("first")));
}

TEST_P(NetworkTest, BothMayBeginAtOnce) {
  for (int round = 0; round < 5; ++round) {
    Nodes nodes(2, options_);
    auto from_0 = std::async(std::launch::async, [&] { return Ask(nodes[0], nodes.peer(1), 1, Bytes("a")); });
    auto from_1 = std::async(std::launch::async, [&] { return Ask(nodes[1], nodes.peer(0), 1, Bytes("b")); });
    const auto reply_0 = from_0.get();
    const auto reply_1 = from_1.get();
    EXPECT_TRUE(reply_0.ok()) << reply_0.status().ToString();
    EXPECT_TRUE(reply_1.ok()) << reply_1.status().ToString();
  }
}

TEST_P(NetworkTest, EveryoneTalksToEveryone) {
  constexpr size_t kNodes = 4;
  constexpr int kRounds = 50;
  Nodes nodes(kNodes, options_);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (size_t from = 0; from < kNodes; ++from) {
    threads.emplace_back([&, from] {
      for (int round = 0; round < kRounds; ++round) {
        for (size_t to = 0; to < kNodes; ++to) {
          if (to == from) continue;
          const auto data = RandomBytes(static_cast<size_t>(round) * 997, from * 100 + to);
          const auto reply = Ask(nodes[from], nodes.peer(to), 1, Buffer(data.begin(), data.end()));
          if (!reply.ok() || !Equal(*reply, data)) ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST_P(NetworkTest, LeasedMemoryIsRead) {
  const auto memory = RandomBytes(10 * kReadBytesMax + 12345, 1);
  Nodes nodes(2, options_);
  const auto lease = nodes[1]->Lease(kJob, memory, 60s, [] {});
  ASSERT_TRUE(lease.ok()) << lease.status().ToString();
  std::vector<std::future<Result<ReadBuffer>>> reads;
  for (uint64_t at = 0; at < memory.size(); at += kReadBytesMax)
    reads.push_back(BeginRead(nodes[0], nodes.peer(1), *lease, at, std::min<size_t>(kReadBytesMax, memory.size() - at)));
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto read = reads[i].get();
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_TRUE(Equal(read->bytes(), std::span(memory).subspan(i * kReadBytesMax, read->bytes().size()))) << i;
  }
  EXPECT_EQ(nodes[0]->Counters().bytes_read, memory.size());
  // Any offset and length.
  const auto middle = Fetch(nodes[0], nodes.peer(1), *lease, 4099, 17);
  ASSERT_TRUE(middle.ok());
  EXPECT_TRUE(Equal(middle->bytes(), std::span(memory).subspan(4099, 17)));
}

TEST_P(NetworkTest, ReadsStayWithinTheLease) {
  const auto memory = RandomBytes(8192, 1);
  Nodes nodes(2, options_);
  const auto lease = nodes[1]->Lease(kJob, memory, 60s, [] {});
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, 8192, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, 1, 8192).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, 0, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, UINT64_MAX, 2).status().code(), Code::kInvalidArgument);
  // One who lies about the bounds is stopped by the owner.
  RemoteMemory lie = *lease;
  lie.bytes = 1 << 20;
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), lie, 4096, 8192, 5s).status().code(), Code::kUnavailable);
  EXPECT_TRUE(Fetch(nodes[0], nodes.peer(1), *lease, 0, 8192).ok()) << "the peer is reached again";
}

// Fewer buffers than reads, and a reader that holds on to them: the others wait, and all come.
TEST_P(NetworkTest, BuffersBoundTheReads) {
  options_.read_buffers = 3;
  const auto memory = RandomBytes(kReadBytesMax, 1);
  Nodes nodes(2, options_);
  const auto lease = nodes[1]->Lease(kJob, memory, 60s, [] {});
  ASSERT_TRUE(lease.ok());
  std::mutex mutex;
  std::vector<ReadBuffer> held;
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) {
    nodes[0]->Read(nodes.peer(1), *lease, 0, kReadBytesMax, 60s, [&](Result<ReadBuffer> read) {
      EXPECT_TRUE(read.ok()) << read.status().ToString();
      const std::lock_guard<std::mutex> lock(mutex);
      if (read.ok()) held.push_back(std::move(*read));
      ++done;
    });
  }
  const auto wait_for = [&](int count) {
    const Deadline deadline(SystemClock(), 20s);
    while (done < count && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  };
  for (int rounds = 0; rounds < 100 && done < 20; ++rounds) {
    wait_for(std::min(20, done + 3 - static_cast<int>([&] {
                            const std::lock_guard<std::mutex> lock(mutex);
                            return held.size();
                          }())));
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_LE(held.size(), 3U);
    held.clear();
  }
  wait_for(20);
  EXPECT_EQ(done, 20);
}

// Each lease that ends while it is read from breaks the connection, with other reads and messages under way.
TEST_P(NetworkTest, BuffersComeBackFromConnectionsThatBreak) {
  constexpr int kLeases = 4, kBroken = 60;
  options_.read_buffers = 8;
  const auto memory = RandomBytes(kReadBytesMax, 1);
  Nodes nodes(2, options_);
  std::mutex mutex;
  std::vector<RemoteMemory> leases;
  const auto lease = [&] {
    const auto leased = nodes[1]->Lease(kJob, memory, 60s, [] {});
    EXPECT_TRUE(leased.ok());
    return leased.ok() ? *leased : RemoteMemory{};
  };
  for (int i = 0; i < kLeases; ++i) leases.push_back(lease());
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    while (!is_over) {
      std::vector<std::future<Result<ReadBuffer>>> reads;
      for (int i = 0; i < kLeases; ++i) {
        const std::lock_guard<std::mutex> lock(mutex);
        reads.push_back(BeginRead(nodes[0], nodes.peer(1), leases[static_cast<size_t>(i)], 0, kReadBytesMax));
      }
      for (auto& read : reads) (void)read.get();
    }
  });
  std::thread caller([&] {
    while (!is_over) (void)Ask(nodes[0], nodes.peer(1), 1, Bytes("x"));
  });
  for (size_t i = 0; i < kBroken; ++i) {
    std::this_thread::sleep_for(4ms);
    RemoteMemory next = lease();
    const std::lock_guard<std::mutex> lock(mutex);
    std::swap(next, leases[i % kLeases]);
    nodes[1]->EndLease(next.lease);
  }
  is_over = true;
  reader.join();
  caller.join();
  EXPECT_GT(nodes[0]->Counters().reads_failed, 0U);
  EXPECT_TRUE(Eventually([&] { return nodes[0]->Counters().channels_parked == 0; }));
  const RemoteMemory last = lease();
  std::vector<ReadBuffer> held;
  for (size_t i = 0; i < options_.read_buffers; ++i) {
    auto read = Fetch(nodes[0], nodes.peer(1), last, 0, kReadBytesMax);
    ASSERT_TRUE(read.ok()) << i << ": " << read.status().ToString();
    held.push_back(std::move(*read));
  }
}

TEST_P(NetworkTest, AReadThatWaitsTooLongForABufferEnds) {
  options_.read_buffers = 1;
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(2, options_);
  const auto lease = nodes[1]->Lease(kJob, memory, 60s, [] {});
  auto held = Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096, 300ms).status().code(), Code::kTimeout);
  *held = ReadBuffer();
  EXPECT_TRUE(Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096).ok());
  EXPECT_EQ(nodes[0]->Peers()[0].sessions, 1U) << "waiting for a buffer is not the peer's fault";
}

TEST_P(NetworkTest, BuffersMayOutliveTheNetwork) {
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(2, options_);
  const auto lease = nodes[1]->Lease(kJob, memory, 60s, [] {});
  auto held = Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096);
  ASSERT_TRUE(held.ok());
  nodes.networks()[0].reset();
  EXPECT_TRUE(Equal(held->bytes(), memory));
}

TEST_P(NetworkTest, ALeaseEndsWhenItsOwnerOrReaderSaysSo) {
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(2, options_);
  std::atomic<int> ended{0};
  const auto wait_for = [&](int count) {
    const Deadline deadline(SystemClock(), 20s);
    while (ended < count && !deadline.Passed()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(ended, count);
  };
  const auto owners = nodes[1]->Lease(kJob, memory, 60s, [&] { ++ended; });
  ASSERT_TRUE(Fetch(nodes[0], nodes.peer(1), *owners, 0, 4096).ok());
  nodes[1]->EndLease(owners->lease);
  wait_for(1);
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *owners, 0, 4096, 5s).status().code(), Code::kUnavailable);

  const auto readers = nodes[1]->Lease(kJob, memory, 60s, [&] { ++ended; });
  ASSERT_TRUE(Fetch(nodes[0], nodes.peer(1), *readers, 0, 4096).ok());
  nodes[0]->EndLease(nodes.peer(1), *readers);
  wait_for(2);
  nodes[1]->EndLease(readers->lease);  // too late, and without effect
  EXPECT_TRUE(Ask(nodes[0], nodes.peer(1), 1, Bytes("x")).ok());
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(nodes[1]->Counters().leases_expired, 0U);
}

TEST_P(NetworkTest, ALeaseExpires) {
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(2, options_);
  std::promise<void> ended;
  const auto lease = nodes[1]->Lease(kJob, memory, 50ms, [&] { ended.set_value(); });
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lease->milliseconds, 50U);
  ASSERT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(nodes[1]->Counters().leases_expired, 1U);
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096, 5s).status().code(), Code::kUnavailable);
  // A reader who was told by a message knows before.
  Buffer bytes;
  {
    Encoder out(bytes);
    EncodeRemoteMemory(*lease, &out);
  }
  Decoder in(bytes);
  const RemoteMemory told = DecodeRemoteMemory(&in);
  ASSERT_TRUE(in.ok());
  std::this_thread::sleep_for(60ms);
  EXPECT_EQ(Fetch(nodes[0], nodes.peer(1), told, 0, 4096).status().code(), Code::kFailedPrecondition);
}

TEST_P(NetworkTest, LeasesAreBounded) {
  options_.leases_max = 2;
  Nodes nodes(1, options_);
  const std::vector<std::byte> memory(4096);
  const auto first = nodes[0]->Lease(kJob, memory, 60s, [] {});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(nodes[0]->Lease(kJob, memory, 60s, [] {}).ok());
  EXPECT_EQ(nodes[0]->Lease(kJob, memory, 60s, [] {}).status().code(), Code::kNoSpace);
  EXPECT_EQ(nodes[0]->Lease("another", memory, 60s, [] {}).status().code(), Code::kNotFound);
  EXPECT_EQ(nodes[0]->Lease(kJob, {}, 60s, [] {}).status().code(), Code::kInvalidArgument);
}

TEST_P(NetworkTest, UnsentMessagesAreBounded) {
  Nodes nodes(2, options_);
  nodes[1]->Serve(2, [](const Peer&, ByteSpan, const Answer& answer) { answer(Buffer()); });
  nodes.networks()[1]->Leave(kJob);  // nobody answers the hello
  std::vector<std::future<Result<Buffer>>> replies;
  int refused = 0;
  for (int i = 0; i < 4; ++i) {
    auto promise = std::make_shared<std::promise<Result<Buffer>>>();
    replies.push_back(promise->get_future());
    nodes[0]->Call(nodes.peer(1), 2, Buffer(kNetMessageBytesMax - 64), 1s,
                   [promise](Result<Buffer> got) { promise->set_value(std::move(got)); });
  }
  for (auto& reply : replies) {
    const auto got = reply.get();
    refused += got.status().code() == Code::kNoSpace ? 1 : 0;
    EXPECT_TRUE(got.status().code() == Code::kNoSpace || got.status().code() == Code::kTimeout) << got.status().ToString();
  }
  EXPECT_EQ(refused, 2);
}

// Requests whose handlers are slow hold their sender back; nothing is lost.
TEST_P(NetworkTest, AFullInboxHoldsTheSenderBack) {
  std::mutex mutex;
  std::vector<std::function<void()>> posted;
  Nodes nodes(1, options_);
  NetworkOptions slow = options_;
  slow.inbox_bytes_max = kNetMessageBytesMax;
  slow.executor = [&](std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex);
    posted.push_back(std::move(work));
  };
  auto receiver = OpenNetwork(slow);
  const std::vector<Member> both = {{"n0", nodes[0]->address()}, {"n1", receiver->address()}};
  ASSERT_TRUE(nodes[0]->Join(testing::MakeMembership("n0", both, nodes.secret())).ok());
  ASSERT_TRUE(receiver->Join(testing::MakeMembership("n1", both, nodes.secret())).ok());
  std::atomic<int> handled{0};
  receiver->Serve(1, [&](const Peer&, ByteSpan body, const Answer& answer) {
    ++handled;
    answer(Buffer(body.begin(), body.begin() + 1));
  });
  constexpr int kMessages = 7;
  constexpr size_t kBytes = 4 << 20;
  std::vector<std::future<Result<Buffer>>> replies;
  for (int i = 0; i < kMessages; ++i) {
    auto promise = std::make_shared<std::promise<Result<Buffer>>>();
    replies.push_back(promise->get_future());
    nodes[0]->Call({kJob, "n1"}, 1, Buffer(kBytes, static_cast<std::byte>(i)), kPatience,
                   [promise](Result<Buffer> got) { promise->set_value(std::move(got)); });
  }
  // The inbox takes as much as it may, and then no more.
  uint64_t received = 0;
  const Deadline deadline(SystemClock(), kPatience);
  while (received < 4 && !deadline.Passed()) {
    std::this_thread::sleep_for(10ms);
    received = receiver->Counters().messages_received;
  }
  std::this_thread::sleep_for(300ms);
  received = receiver->Counters().messages_received;
  EXPECT_GE(received, 4U);
  EXPECT_LE(received, 5U) << "more than the inbox holds";
  // Handling makes room.
  while (handled < kMessages && !deadline.Passed()) {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      due.swap(posted);
    }
    for (auto& work : due) work();
    std::this_thread::sleep_for(1ms);
  }
  for (int i = 0; i < kMessages; ++i) {
    const auto reply = replies[static_cast<size_t>(i)].get();
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->at(0), static_cast<std::byte>(i));
  }
  receiver->Close();
}

TEST_P(NetworkTest, NoCallbackAfterClose) {
  std::mutex mutex;
  std::vector<std::function<void()>> posted;
  options_.executor = [&](std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex);
    posted.push_back(std::move(work));
  };
  Nodes nodes(2, options_);
  bool called = false;
  nodes[0]->Call(nodes.peer(1), 1, {}, 100ms, [&](const Result<Buffer>&) { called = true; });
  const Deadline deadline(SystemClock(), 20s);
  const auto any_posted = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return !posted.empty();
  };
  while (!any_posted() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  nodes[0]->Close();
  nodes[1]->Close();
  for (auto& work : posted) work();
  EXPECT_FALSE(called);
}

TEST_P(NetworkTest, APeerThatIsNotThereIsNamed) {
  Nodes nodes(2, options_);
  options_.connect_timeout = 1s;
  auto lonely = OpenNetwork(options_);
  ASSERT_TRUE(lonely->Join(testing::MakeMembership("n7", {{"n1", nodes[1]->address()}}, nodes.secret())).ok());
  nodes.networks()[1].reset();
  const int64_t begin_ns = SystemClock().NowNs();
  const auto reply = Ask(lonely.get(), {kJob, "n1"}, 1, {}, 30s);
  EXPECT_EQ(reply.status().code(), Code::kTimeout) << reply.status().ToString();
  EXPECT_NE(reply.status().message().find("node n1 at "), std::string::npos) << reply.status().message();
  EXPECT_LT(SystemClock().NowNs() - begin_ns, 10'000'000'000);
  EXPECT_NE(lonely->Peers()[0].last_error, "");
  // A call's own time may be shorter.
  const auto soon = Ask(lonely.get(), {kJob, "n1"}, 1, {}, 200ms);
  EXPECT_EQ(soon.status().code(), Code::kTimeout);
  EXPECT_NE(soon.status().message().find("node n1 at "), std::string::npos) << soon.status().message();
}

TEST_P(NetworkTest, ASuccessorAtTheSameAddressIsReached) {
  const auto memory = RandomBytes(100'000, 1);
  Nodes nodes(3, options_);
  ASSERT_TRUE(Ask(nodes[0], nodes.peer(1), 1, Bytes("x")).ok());
  ASSERT_TRUE(Ask(nodes[1], nodes.peer(2), 1, Bytes("x")).ok());
  const NodeAddress address = nodes[1]->address();
  for (int round = 0; round < 3; ++round) {
    nodes.Restart(1, options_);
    ASSERT_NE(nodes[1], nullptr);
    EXPECT_EQ(nodes[1]->address(), address);
    auto reply = Ask(nodes[0], nodes.peer(1), 1, Bytes("again"));
    // A call that came before its predecessor's good-bye ended with it.
    if (reply.status().code() == Code::kUnavailable) reply = Ask(nodes[0], nodes.peer(1), 1, Bytes("again"));
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    const auto from_it = Ask(nodes[1], nodes.peer(2), 1, Bytes("again"));
    EXPECT_TRUE(from_it.ok()) << from_it.status().ToString();
    const auto lease = nodes[1]->Lease(kJob, memory, 60s, [] {});
    const auto read = Fetch(nodes[0], nodes.peer(1), *lease, 0, memory.size());
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_TRUE(Equal(read->bytes(), memory));
  }
}

TEST_P(NetworkTest, WhatWaitsWhenAPeerLeavesFails) {
  Nodes nodes(2, options_);
  std::vector<Answer> kept;
  std::promise<void> asked;
  nodes[1]->Serve(2, [&](const Peer&, ByteSpan, const Answer& answer) {
    kept.push_back(answer);
    asked.set_value();
  });
  std::promise<Result<Buffer>> reply;
  nodes[0]->Call(nodes.peer(1), 2, {}, 60s, [&](Result<Buffer> got) { reply.set_value(std::move(got)); });
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  nodes.networks()[1].reset();
  auto future = reply.get_future();
  ASSERT_EQ(future.wait_for(20s), std::future_status::ready);
  const auto got = future.get();
  EXPECT_EQ(got.status().code(), Code::kUnavailable);
  EXPECT_NE(got.status().message().find("node n1 at "), std::string::npos) << got.status().message();
  kept[0](Bytes("too late, and without effect"));
}

// The way over which it was lost is no way to say so: a new session does.
TEST_P(NetworkTest, WhatWaitsForAPeerThatHasLostTheSessionFails) {
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(2, options_);
  std::vector<Answer> kept;
  std::promise<void> asked;
  nodes[0]->Serve(2, [&](const Peer&, ByteSpan, const Answer& answer) {
    kept.push_back(answer);
    asked.set_value();
  });
  std::promise<void> ended;
  const auto lease = nodes[1]->Lease(kJob, memory, 60s, [&] { ended.set_value(); });
  ASSERT_TRUE(lease.ok());
  ASSERT_TRUE(Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096).ok());
  std::promise<Result<Buffer>> reply;
  nodes[1]->Call(nodes.peer(0), 2, {}, 60s, [&](Result<Buffer> got) { reply.set_value(std::move(got)); });
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  nodes[1]->EndLease(lease->lease);
  ASSERT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
  ASSERT_EQ(Fetch(nodes[0], nodes.peer(1), *lease, 0, 4096, 5s).status().code(), Code::kUnavailable);
  auto future = reply.get_future();
  ASSERT_EQ(future.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(future.get().status().code(), Code::kUnavailable);
  EXPECT_TRUE(Ask(nodes[1], nodes.peer(0), 1, Bytes("x")).ok());
  kept[0](Bytes("too late, and without effect"));
}

TEST_P(NetworkTest, AWrongSecretGetsNothing) {
  Nodes nodes(2, options_);
  std::atomic<int> served{0};
  nodes[1]->Serve(1, [&](const Peer&, ByteSpan, const Answer& answer) {
    ++served;
    answer(Buffer());
  });
  auto stranger = OpenNetwork(options_);
  Membership membership = testing::MakeMembership(nodes.names(), nodes.networks(), 0, Secret::Generate());
  membership.members[0].address = stranger->address();
  ASSERT_TRUE(stranger->Join(membership).ok());
  // The stranger claims to be n0, and n1 believes that n0 is reached there.
  membership.secret = nodes.secret();
  membership.self = "n1";
  ASSERT_TRUE(nodes[1]->Join(membership).ok());
  const auto reply = Ask(stranger.get(), nodes.peer(1), 1, Bytes("let me in"));
  EXPECT_EQ(reply.status().code(), Code::kPermission) << reply.status().ToString();
  const auto other_way = Ask(nodes[1], nodes.peer(0), 1, Bytes("a secret"));
  EXPECT_EQ(other_way.status().code(), Code::kPermission) << other_way.status().ToString();
  EXPECT_EQ(served, 0);
  EXPECT_FALSE(nodes[1]->Peers()[0].connected);
  EXPECT_EQ(stranger->Counters().messages_received, 0U);
}

TEST_P(NetworkTest, AStaleAttemptIsRefusedAndToldSo) {
  Nodes nodes(2, options_);
  ASSERT_TRUE(Ask(nodes[0], nodes.peer(1), 1, Bytes("x")).ok());
  const Secret newer = Secret::Generate();
  ASSERT_TRUE(nodes[1]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 1, newer, 2)).ok());
  const auto stale = Ask(nodes[0], nodes.peer(1), 1, Bytes("x"));
  EXPECT_FALSE(stale.ok());
  const auto again = Ask(nodes[0], nodes.peer(1), 1, Bytes("x"));
  EXPECT_EQ(again.status().code(), Code::kPermission) << again.status().ToString();
  EXPECT_NE(again.status().message().find("attempt 2"), std::string::npos) << again.status().message();
  // Whoever hears of the new attempt is let in.
  ASSERT_TRUE(nodes[0]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 0, newer, 2)).ok());
  EXPECT_TRUE(Ask(nodes[0], nodes.peer(1), 1, Bytes("x")).ok());
  // What came before does not come back.
  EXPECT_EQ(nodes[0]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 0, nodes.secret(), 1)).code(),
            Code::kMismatch);
  EXPECT_EQ(nodes[0]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 0, nodes.secret(), 2)).code(),
            Code::kMismatch);
}

// A peer may be a little later than we to hear of an attempt: calls wait for it.
TEST_P(NetworkTest, APeerThatIsLateToJoinIsWaitedFor) {
  Nodes nodes(2, options_);
  const Secret newer = Secret::Generate();
  ASSERT_TRUE(nodes[0]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 0, newer, 2)).ok());
  auto reply = std::async(std::launch::async, [&] { return Ask(nodes[0], nodes.peer(1), 1, Bytes("x")); });
  std::this_thread::sleep_for(500ms);
  ASSERT_TRUE(nodes[1]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 1, newer, 2)).ok());
  const auto got = reply.get();
  EXPECT_TRUE(got.ok()) << got.status().ToString();
}

// A connection on which the last frame of the former attempt is still on its way is not taken over. On a busy machine that
// happens to one or another; then it is tried again.
TEST_P(NetworkTest, ANewAttemptGoesOnOverTheSameConnections) {
  uint64_t opened = 0;
  for (int tries = 0; tries < 5 && opened != 2; ++tries) {
    Nodes nodes(2, options_);
    ASSERT_TRUE(Ask(nodes[0], nodes.peer(1), 1, Bytes("x")).ok());
    for (uint32_t attempt = 2; attempt < 5; ++attempt) {
      const Secret secret = Secret::Generate();
      for (const size_t node : {0, 1})
        ASSERT_TRUE(nodes[node]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), node, secret, attempt)).ok());
      const auto reply = Ask(nodes[attempt % 2], nodes.peer((attempt + 1) % 2), 1, Bytes("again"));
      ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    }
    opened = nodes[0]->Counters().channels_opened + nodes[1]->Counters().channels_opened;
  }
  EXPECT_EQ(opened, 2U) << "one of each node, in all attempts";
}

TEST_P(NetworkTest, WaysArePreparedWhileThereIsNothingToDo) {
  NetworkOptions prepared = options_;
  prepared.endpoints_ahead = 2;
  std::vector<std::unique_ptr<Network>> networks;
  for (size_t node = 0; node < 4; ++node) networks.push_back(OpenNetwork(node == 0 ? prepared : options_));
  const auto expect_two_ahead = [&] {
    const Deadline deadline(SystemClock(), 20s);
    while (networks[0]->Counters().endpoints_ahead < 2 && !deadline.Passed()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(networks[0]->Counters().endpoints_ahead, 2U);
  };
  expect_two_ahead();
  const std::vector<std::string> names = {"n0", "n1", "n2", "n3"};
  const Secret secret = Secret::Generate();
  for (size_t node = 0; node < names.size(); ++node) {
    networks[node]->Serve(1, [](const Peer&, ByteSpan body, const Answer& answer) { answer(Buffer(body.begin(), body.end())); });
    ASSERT_TRUE(networks[node]->Join(testing::MakeMembership(names, networks, node, secret)).ok());
  }
  // The third finds none left.
  for (const char* name : {"n1", "n2", "n3"}) EXPECT_TRUE(Ask(networks[0].get(), {kJob, name}, 1, Bytes("x")).ok()) << name;
  EXPECT_EQ(networks[0]->Counters().channels_opened, 3U);
  expect_two_ahead();
  EXPECT_EQ(networks[1]->Counters().endpoints_ahead, 0U);
}

// A node that the new attempt leaves out can be told of it, in the former attempt's name, and is served nothing any more.
TEST_P(NetworkTest, TheFormerAttemptsNodesAreAskedAndServedNothing) {
  Nodes nodes(3, options_);
  const auto former =
      std::make_shared<const Membership>(testing::MakeMembership(nodes.names(), nodes.networks(), 0, nodes.secret(), 1));
  Membership next = testing::MakeMembership(nodes.names(), nodes.networks(), 0, Secret::Generate(), 2);
  next.members.resize(2);
  next.former = former;
  ASSERT_TRUE(nodes[0]->Join(next).ok());
  const auto told = Ask(nodes[0], nodes.peer(2), 1, Bytes("the job goes on without you"));
  EXPECT_TRUE(told.ok()) << told.status().ToString();
  EXPECT_EQ(Ask(nodes[2], nodes.peer(0), 1, Bytes("x")).status().code(), Code::kUnavailable);
  // A member of both is a member of the new one only.
  Membership second = testing::MakeMembership(nodes.names(), nodes.networks(), 1, next.secret, 2);
  ASSERT_TRUE(nodes[1]->Join(second).ok());
  EXPECT_TRUE(Ask(nodes[1], nodes.peer(0), 1, Bytes("x")).ok());
  // Until the job is joined without it.
  next.former = nullptr;
  ASSERT_TRUE(nodes[0]->Join(next).ok());
  EXPECT_EQ(Ask(nodes[0], nodes.peer(2), 1, Bytes("x")).status().code(), Code::kNotFound);
  // No attempt follows itself.
  next.former = std::make_shared<const Membership>(next);
  EXPECT_EQ(nodes[0]->Join(next).code(), Code::kInvalidArgument);
}

TEST_P(NetworkTest, AConnectionIsMadeBeforeItIsNeeded) {
  Nodes nodes(2, options_);
  nodes[0]->Connect(nodes.peer(1));
  const Deadline deadline(SystemClock(), 20s);
  const auto is_connected = [&] {
    const std::vector<PeerState> peers = nodes[0]->Peers();
    return !peers.empty() && peers[0].connected;
  };
  while (!is_connected() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(is_connected());
  EXPECT_EQ(nodes[0]->Counters().messages_sent, 0U);
}

// Whoever reads much does not wait for an event loop as well.
TEST_P(NetworkTest, WhatIsReadComesWithoutTheExecutor) {
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(1, options_);
  auto options = options_;
  options.executor = [](const std::function<void()>&) {};  // of a loop that is busy for ever
  auto reader = OpenNetwork(options);
  ASSERT_TRUE(reader->Join(testing::MakeMembership("n1", {{"n0", nodes[0]->address()}}, nodes.secret())).ok());
  Membership both = testing::MakeMembership(nodes.names(), nodes.networks(), 0, nodes.secret(), 1);
  both.members.push_back({"n1", reader->address()});
  ASSERT_TRUE(nodes[0]->Join(both).ok());
  const auto lease = nodes[0]->Lease(kJob, memory, 60s, [] {});
  ASSERT_TRUE(lease.ok());
  auto read = BeginRead(reader.get(), nodes.peer(0), *lease, 0, 4096);
  ASSERT_EQ(read.wait_for(20s), std::future_status::ready);
  const auto got = read.get();
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_TRUE(Equal(got->bytes(), memory));
}

TEST_P(NetworkTest, ANewAttemptEndsTheLeasesOfTheFormer) {
  const auto memory = RandomBytes(4096, 1);
  Nodes nodes(2, options_);
  std::promise<void> ended;
  ASSERT_TRUE(nodes[1]->Lease(kJob, memory, 60s, [&] { ended.set_value(); }).ok());
  ASSERT_TRUE(nodes[1]->Join(testing::MakeMembership(nodes.names(), nodes.networks(), 1, Secret::Generate(), 2)).ok());
  EXPECT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
}

TEST_P(NetworkTest, ANodeThatIsNoMemberIsNotAnswered) {
  Nodes nodes(2, options_);
  options_.connect_timeout = 700ms;
  auto stranger = OpenNetwork(options_);
  Membership membership = testing::MakeMembership(nodes.names(), nodes.networks(), 0, nodes.secret());
  membership.self = "n9";
  ASSERT_TRUE(stranger->Join(membership).ok());
  EXPECT_EQ(Ask(stranger.get(), nodes.peer(1), 1, Bytes("x")).status().code(), Code::kTimeout);
  EXPECT_GT(nodes[1]->Counters().frames_refused, 0U);
}

TEST_P(NetworkTest, BadMembershipsAreRefused) {
  Nodes nodes(1, options_);
  const Membership good = testing::MakeMembership(nodes.names(), nodes.networks(), 0, nodes.secret());
  const auto refused = [&](auto change) {
    Membership membership = good;
    membership.job = "other";
    change(&membership);
    EXPECT_EQ(nodes[0]->Join(membership).code(), Code::kInvalidArgument);
  };
  refused([](Membership* m) { m->job.clear(); });
  refused([](Membership* m) { m->job = std::string(2000, 'x'); });
  refused([](Membership* m) { m->self.clear(); });
  refused([](Membership* m) { m->secret = Secret(); });
  refused([](Membership* m) { m->members.push_back(m->members[0]); });
  refused([](Membership* m) { m->members[0].address = {}; });
  refused([](Membership* m) { m->members[0].node = std::string(300, 'n'); });
}

TEST_P(NetworkTest, IsMeasured) {
  const auto measured = MeasureNetwork(options_, {.requests = 20, .read_bytes = 16 << 20});
  ASSERT_TRUE(measured.ok()) << measured.status().ToString();
  EXPECT_GT(measured->figures.connect_seconds, 0);
  EXPECT_GT(measured->figures.round_trip_seconds, 0);
  EXPECT_GT(measured->figures.read_bytes_per_second, 1e6);
  EXPECT_NE(measured->provider.find(GetParam()), std::string::npos);
}

TEST(NetworkOpen, AnUnknownProviderIsNamedWithThoseThatThereAre) {
  NetworkOptions options;
  options.provider = "carrier-pigeon";
  const auto network = Network::Open(options);
  EXPECT_EQ(network.status().code(), Code::kUnsupported);
  EXPECT_NE(network.status().message().find("carrier-pigeon"), std::string::npos);
  EXPECT_NE(network.status().message().find("tcp"), std::string::npos) << network.status().message();
}

TEST(NetworkOpen, AnAddressInUseIsNotTaken) {
  NetworkOptions options = TestOptions("tcp");
  auto first = OpenNetwork(options);
  options.former_address = first->address();
  const auto second = Network::Open(options);
  EXPECT_EQ(second.status().code(), Code::kUnavailable) << second.status().ToString();
}

// A successor wants the address back, and a port that the kernel gives to outgoing connections may be taken by then.
TEST(NetworkOpen, ListensAtAPortThatNoOutgoingConnectionGets) {
  // Where outgoing connections may get nearly all ports, it listens at any.
  const os::PortRange ports = os::LastingPorts().value_or(os::PortRange{1, UINT16_MAX});
  const auto network = OpenNetwork(TestOptions("tcp"));
  const std::string address = network->address().ToDisplay();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  EXPECT_GE(port, ports.first) << address;
  EXPECT_LE(port, ports.last) << address;
}

}  // namespace
}  // namespace kedge::net

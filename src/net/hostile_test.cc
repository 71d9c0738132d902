// Whoever speaks the protocol and means no good: strangers, forgers, and a member that breaks the rules of its session.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <variant>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/sanitized.h"
#include "net/fabric.h"
#include "net/frame.h"
#include "net/testing/nodes.h"
#include "os/sockets/tcp_ports.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::net {
namespace {

using namespace std::chrono_literals;
using testing::Ask;
using testing::Bytes;
using testing::kJob;
using testing::Nodes;
using testing::OpenNetwork;
using testing::TestOptions;

// An endpoint that sends any bytes it likes, and shows what comes. It can make a session as a member does.
class RawPeer {
 public:
  RawPeer()
      : fabric_(Fabric::Open("tcp", "127.0.0.1", {}).value()),
        serving_(fabric_->OpenServing().value()),
        sending_(fabric_->OpenSending().value()) {
    for (Slot& slot : slots_) PostReceive(&slot);
  }

  NodeAddress address() const { return fabric_->address(); }

  void Send(const NodeAddress& to, const Buffer& bytes) {
    if (!to_) to_ = sending_->Insert(to).value();
    fi_context2 context{};
    const Deadline deadline(SystemClock(), 20s);
    ssize_t code = -FI_EAGAIN;
    std::array<Completion, 1> done;
    while ((code = fi_send(sending_->get(), bytes.data(), bytes.size(), nullptr, *to_, &context)) == -FI_EAGAIN &&
           !deadline.Passed())
      ASSERT_TRUE(sending_->Poll(done).ok());
    ASSERT_EQ(code, 0);
    while (!deadline.Passed()) {
      const auto count = sending_->Poll(done);
      ASSERT_TRUE(count.ok());
      if (*count == 1) {
        ASSERT_TRUE(done[0].status.ok()) << done[0].status.ToString();
        return;
      }
    }
    FAIL() << "the frame was never sent";
  }

  // The next frame of `kind`, others dropped; empty: none came.
  Buffer Receive(FrameKind kind) {
    const Deadline deadline(SystemClock(), 20s);
    std::array<Completion, 1> done;
    while (!deadline.Passed()) {
      const auto count = serving_->Poll(done);
      if (!count.ok() || *count == 0 || !done[0].status.ok()) continue;
      auto* slot = static_cast<Slot*>(done[0].context);
      const Buffer bytes(slot->bytes.begin(), slot->bytes.begin() + static_cast<ptrdiff_t>(done[0].bytes));
      PostReceive(slot);
      const auto frame = DecodeFrame(bytes);
      if (frame.ok() && frame->header.kind == kind) return bytes;
    }
    return {};
  }

  // As a member makes it.
  static Hello MakeHello(const std::string& self, const std::string& peer, const Secret& secret) {
    Hello hello{kJob, 1, self, peer, GenerateNonce(), {}};
    hello.proof = Prove(secret, TranscriptOf(hello, {}), ProofOf::kHello);
    return hello;
  }
  static Transcript TranscriptOf(const Hello& hello, const Nonce& responder_nonce) {
    return {kNetProtocol, hello.job, hello.attempt, hello.initiator, hello.responder, hello.initiator_nonce, responder_nonce};
  }

  // A session with `to`, as node `self`; `before_proof` gets the proof that comes next.
  void Handshake(
      const NodeAddress& to, const std::string& self, const std::string& peer, const Secret& secret,
      const std::function<void(const Proof&)>& before_proof = [](const Proof&) {}) {
    const Hello hello = MakeHello(self, peer, secret);
    Send(to, Clear(FrameKind::kHello, hello));
    const Buffer answer = Receive(FrameKind::kChallenge);
    ASSERT_FALSE(answer.empty());
    const auto challenge = std::get<Challenge>(DecodeControl(FrameKind::kChallenge, DecodeFrame(answer)->payload).value());
    const Transcript transcript = TranscriptOf(hello, challenge.responder_nonce);
    ASSERT_TRUE(SameDigest(challenge.proof, Prove(secret, transcript, ProofOf::kResponder)));
    session_ = SessionNumber(secret, transcript);
    send_key_.emplace(secret, transcript, ProofOf::kInitiator);
    receive_key_.emplace(secret, transcript, ProofOf::kResponder);
    const Proof proof{hello, challenge.responder_nonce, Prove(secret, transcript, ProofOf::kInitiator)};
    before_proof(proof);
    Send(to, Clear(FrameKind::kProof, proof));
    ASSERT_FALSE(Receive(FrameKind::kAccept).empty());
  }

  // The hello of `from`, whose session it is then; `before_challenge` gets it before it is answered.
  void Accept(const NodeAddress& from, const Secret& secret, const std::function<void(const Hello&)>& before_challenge) {
    const Buffer asked = Receive(FrameKind::kHello);
    ASSERT_FALSE(asked.empty());
    const auto hello = std::get<Hello>(DecodeControl(FrameKind::kHello, DecodeFrame(asked)->payload).value());
    before_challenge(hello);
    const Nonce nonce = GenerateNonce();
    const Transcript transcript = TranscriptOf(hello, nonce);
    Send(from,
         Clear(FrameKind::kChallenge, Challenge{hello.initiator_nonce, nonce, Prove(secret, transcript, ProofOf::kResponder)}));
    ASSERT_FALSE(Receive(FrameKind::kProof).empty());
    session_ = SessionNumber(secret, transcript);
    send_key_.emplace(secret, transcript, ProofOf::kResponder);
    Send(from, Sealed(FrameKind::kAccept, 0, {}));
  }

  static Buffer Clear(FrameKind kind, const Control& control) {
    Buffer bytes(kFrameBytesMax);
    bytes.resize(WriteFrame({kind, 0, 0}, EncodeControl(control), nullptr, bytes.data()));
    return bytes;
  }
  // A frame of the session, as it should be.
  Buffer Sealed(FrameKind kind, uint64_t sequence, ByteSpan payload) {
    Buffer bytes(kFrameBytesMax);
    bytes.resize(WriteFrame({kind, session_, sequence}, payload, &*send_key_, bytes.data()));
    return bytes;
  }
  Buffer Opened(const Buffer& bytes) {
    const Frame frame = DecodeFrame(bytes).value();
    Buffer payload(frame.payload.size());
    EXPECT_TRUE(receive_key_->Open(frame.header.sequence, frame.head, frame.payload, frame.tag, payload.data()));
    return payload;
  }

 private:
  struct Slot {
    fi_context2 context{};
    std::array<std::byte, kFrameBytesMax> bytes;
  };
  void PostReceive(Slot* slot) {
    EXPECT_EQ(fi_recv(serving_->get(), slot->bytes.data(), slot->bytes.size(), nullptr, FI_ADDR_UNSPEC, &slot->context), 0);
  }

  std::array<Slot, 16> slots_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Endpoint> serving_;
  std::unique_ptr<Endpoint> sending_;
  std::optional<fi_addr_t> to_;
  uint64_t session_ = 0;
  std::optional<FrameKey> send_key_;
  std::optional<FrameKey> receive_key_;
};

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() : nodes_(2, TestOptions("tcp")) {
    // n0 and n1 are good; "evil" is a member whose agent is not ours.
    for (size_t i = 0; i < 2; ++i) {
      Membership membership = testing::MakeMembership(nodes_.names(), nodes_.networks(), i, nodes_.secret());
      membership.members.push_back({"evil", raw_.address()});
      EXPECT_TRUE(nodes_[i]->Join(membership).ok());
    }
  }
  bool WaitForRefused(uint64_t count) {
    const Deadline deadline(SystemClock(), 20s);
    while (nodes_[1]->Counters().frames_refused < count && !deadline.Passed()) std::this_thread::sleep_for(1ms);
    return nodes_[1]->Counters().frames_refused >= count;
  }
  // As n1 sees it.
  PeerState StateOf(const std::string& node) {
    for (const PeerState& state : nodes_[1]->Peers()) {
      if (state.peer.node == node) return state;
    }
    return {};
  }
  bool EvilIsConnected() { return StateOf("evil").connected; }
  bool WaitForEvilToBeCut() {
    const Deadline deadline(SystemClock(), 20s);
    while (EvilIsConnected() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
    return !EvilIsConnected();
  }
  void Handshake() { raw_.Handshake(nodes_[1]->address(), "evil", "n1", nodes_.secret()); }
  void Send(const Buffer& bytes) { raw_.Send(nodes_[1]->address(), bytes); }
  // The others notice nothing.
  void ExpectGoodNodesWork(uint64_t sessions) {
    const auto reply = Ask(nodes_[0], nodes_.peer(1), 1, Bytes("x"));
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    for (const PeerState& state : nodes_[0]->Peers()) {
      if (state.peer.node == "n1") {
        EXPECT_EQ(state.sessions, sessions);
      }
    }
  }

  Nodes nodes_;
  RawPeer raw_;
};

TEST_F(HostileTest, NonsenseFromAStrangerIsRefused) {
  ExpectGoodNodesWork(1);
  Random random(7);
  uint64_t sent = 0;
  for (int i = 0; i < 300; ++i) {
    Buffer bytes(1 + random.Below(kFrameBytesMax));
    random.Fill(bytes.data(), bytes.size());
    // Some begin as a frame does.
    if (i % 2 == 0) {
      const Buffer good = RawPeer::Clear(FrameKind::kHello, Hello{kJob, 1, "n0", "n1", GenerateNonce(), {}});
      std::copy_n(good.begin(), std::min<size_t>(good.size(), bytes.size()), bytes.begin());
      bytes[random.Below(bytes.size())] ^= std::byte{0x40};
    }
    Send(bytes);
    ++sent;
  }
  EXPECT_TRUE(WaitForRefused(sent / 2));
  // Proofs, challenges and refusals that nobody asked for.
  const uint64_t before = nodes_[1]->Counters().frames_refused;
  Send(RawPeer::Clear(FrameKind::kProof, Proof{RawPeer::MakeHello("n0", "n1", nodes_.secret()), GenerateNonce(), {}}));
  Send(RawPeer::Clear(FrameKind::kChallenge, Challenge{GenerateNonce(), GenerateNonce(), {}}));
  Send(RawPeer::Clear(FrameKind::kRefusal, Refusal{GenerateNonce(), RefusalReason::kWrongSecret, 1, "n0"}));
  EXPECT_TRUE(WaitForRefused(before + 3));
  ExpectGoodNodesWork(1);
}

// It would keep the node's thread busy for as long as it lies there.
TEST_F(HostileTest, AConnectionThatEndsBeforeItSaysAnythingIsClosed) {
  const std::string display = nodes_[1]->address().ToDisplay();
  const auto port = static_cast<uint16_t>(std::stoi(display.substr(display.rfind(':') + 1)));
  const auto connection = os::TcpSocket::Connect({os::kLoopback, port});
  ASSERT_TRUE(connection.ok());
  std::this_thread::sleep_for(100ms);  // it is accepted, and nothing is there
  ASSERT_EQ(shutdown(connection->descriptor(), SHUT_WR), 0);
  const Deadline deadline(SystemClock(), 20s);
  std::byte nothing;
  const auto is_closed = [&] { return connection->Receive(&nothing, 1).status().code() == Code::kUnavailable; };
  while (!is_closed() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(is_closed());
  ExpectGoodNodesWork(1);
}

// With a frame for a node that hangs up, or that is not there, the provider connects each time it is asked to take it.
TEST_F(HostileTest, OneThatHangsUpIsCalledLessAndLessOften) {
  const auto listener = os::TcpListener::Listen(os::kLoopback);
  ASSERT_TRUE(listener.ok());
  Membership membership = testing::MakeMembership(nodes_.names(), nodes_.networks(), 0, nodes_.secret());
  const NodeAddress& address = nodes_[0]->address();
  membership.members.push_back({"evil", {address.provider, os::WithPort(address.bytes, listener->port()).value()}});
  ASSERT_TRUE(nodes_[0]->Join(membership).ok());
  nodes_[0]->Call({kJob, "evil"}, 1, Bytes("x"), 5s, [](const Result<Buffer>&) {});
  int calls = 0;
  const Deadline deadline(SystemClock(), 2s);
  for (; !deadline.Passed(); std::this_thread::sleep_for(100us)) {
    while (listener->Accept().value()) ++calls;
  }
  EXPECT_GE(calls, 1);
  EXPECT_LT(calls, 400) << "in two seconds";
  ExpectGoodNodesWork(1);
}

// Whoever listens to the wire learns neither what agents say (an invitation holds the next attempt's secret) nor where memory
// lies.
TEST_F(HostileTest, WhatAMessageSaysIsNotInTheClear) {
  Handshake();
  const std::string secret = Secret::Generate().ToHex();
  nodes_[1]->Call({kJob, "evil"}, 1, Bytes("the next secret is " + secret), 5s, [](const Result<Buffer>&) {});
  const Buffer frame = raw_.Receive(FrameKind::kPiece);
  ASSERT_FALSE(frame.empty());
  EXPECT_EQ(AsText(frame).find(secret), std::string_view::npos);
  EXPECT_NE(AsText(raw_.Opened(frame)).find(secret), std::string_view::npos);
}

// Between the challenge that a member was given and its proof come hellos and proofs in its name, one hello of its own from
// before among them.
TEST_F(HostileTest, AForgedHelloDisplacesNoHandshake) {
  RawPeer stranger;
  const NodeAddress to = nodes_[1]->address();
  const Hello before = RawPeer::MakeHello("evil", "n1", nodes_.secret());
  raw_.Handshake(to, "evil", "n1", nodes_.secret(), [&](const Proof& proof) {
    Hello forged = proof.hello;
    forged.initiator_nonce = GenerateNonce();
    stranger.Send(to, RawPeer::Clear(FrameKind::kHello, forged));
    stranger.Send(to, RawPeer::Clear(FrameKind::kHello, before));
    Proof wrong = proof;
    wrong.proof[0] ^= std::byte{1};
    stranger.Send(to, RawPeer::Clear(FrameKind::kProof, wrong));
    std::this_thread::sleep_for(100ms);
  });
  EXPECT_TRUE(EvilIsConnected());
}

// Whoever has seen n1's hello says no to it, and answers it without the secret, before the peer does.
TEST_F(HostileTest, AForgedRefusalEndsNoHandshake) {
  RawPeer stranger;
  const NodeAddress to = nodes_[1]->address();
  nodes_[1]->Connect({kJob, "evil"});
  raw_.Accept(to, nodes_.secret(), [&](const Hello& hello) {
    using enum RefusalReason;
    for (const RefusalReason reason : {kWrongSecret, kStaleAttempt, kOtherNode})
      stranger.Send(to, RawPeer::Clear(FrameKind::kRefusal, Refusal{hello.initiator_nonce, reason, 9, "n9"}));
    stranger.Send(to, RawPeer::Clear(FrameKind::kChallenge, Challenge{hello.initiator_nonce, GenerateNonce(), {}}));
  });
  const Deadline deadline(SystemClock(), 20s);
  while (!EvilIsConnected() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(EvilIsConnected());
}

// The peer has yet to hear of the attempt: longer than a refusal counts as its own.
TEST_F(HostileTest, AForgedRefusalIsOutweighedByAPeerThatIsNotReadyYet) {
  RawPeer stranger;
  const NodeAddress to = nodes_[1]->address();
  nodes_[1]->Connect({kJob, "evil"});
  raw_.Accept(to, nodes_.secret(), [&](const Hello& hello) {
    using enum RefusalReason;
    stranger.Send(to, RawPeer::Clear(FrameKind::kRefusal, Refusal{hello.initiator_nonce, kWrongSecret, 0, ""}));
    for (int i = 0; i < 6; ++i) {
      std::this_thread::sleep_for(100ms);
      raw_.Send(to, RawPeer::Clear(FrameKind::kRefusal, Refusal{hello.initiator_nonce, kStaleAttempt, 0, ""}));
    }
    EXPECT_EQ(StateOf("evil").last_error, "");
  });
  const Deadline deadline(SystemClock(), 20s);
  while (!EvilIsConnected() && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(EvilIsConnected());
}

TEST_F(HostileTest, AProofServesOnce) {
  Proof said;
  raw_.Handshake(nodes_[1]->address(), "evil", "n1", nodes_.secret(), [&](const Proof& proof) { said = proof; });
  ASSERT_TRUE(EvilIsConnected());
  const uint64_t before = nodes_[1]->Counters().frames_refused;
  Send(RawPeer::Clear(FrameKind::kHello, said.hello));
  Send(RawPeer::Clear(FrameKind::kProof, said));
  EXPECT_TRUE(WaitForRefused(before + 1));
  EXPECT_TRUE(EvilIsConnected());
  EXPECT_EQ(StateOf("evil").sessions, 1U);
}

// In the names of all, with proofs and without, and again and again those that a member has said once. From two strangers, which
// are as many as there are processors where this is tested.
TEST_F(HostileTest, AFloodOfForgedHellosHoldsNobodyUp) {
  const NodeAddress to = nodes_[1]->address();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> sent{0};
  const auto flood = [&] {
    RawPeer stranger;
    std::vector<Buffer> frames;
    for (const char* name : {"n0", "evil"}) {
      const Hello repeated = RawPeer::MakeHello(name, "n1", nodes_.secret());
      const Hello forged = RawPeer::MakeHello(name, "n1", Secret::Generate());
      frames.push_back(RawPeer::Clear(FrameKind::kHello, repeated));
      frames.push_back(RawPeer::Clear(FrameKind::kHello, forged));
      frames.push_back(RawPeer::Clear(FrameKind::kProof, Proof{repeated, GenerateNonce(), {}}));
      frames.push_back(RawPeer::Clear(FrameKind::kHello, Hello{kJob, 9, name, "n1", GenerateNonce(), {}}));
    }
    for (size_t i = 0; !stop; ++i, ++sent) {
      stranger.Send(to, frames[i % frames.size()]);
      // A receiver under a sanitizer takes five times as long, the provider's sender does not.
      if (kedge::testing::kIsSanitized && i % frames.size() == 0) std::this_thread::sleep_for(1ms);
    }
  };
  std::vector<std::thread> strangers;
  for (int i = 0; i < 2; ++i) strangers.emplace_back(flood);
  const Deadline deadline(SystemClock(), 20s);
  while (sent < 1000 && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  const int64_t begin_ns = SystemClock().NowNs();
  const auto reply = Ask(nodes_[0], nodes_.peer(1), 1, Bytes("x"));
  const double seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) * 1e-9;
  stop = true;
  for (std::thread& stranger : strangers) stranger.join();
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_LT(seconds, kedge::testing::kIsSanitized ? 10 : 1);
}

// Ways to peers are costly: strangers' words open a few, for a moment.
TEST_F(HostileTest, ForgedHellosOpenFewWays) {
  const int64_t begin_ns = SystemClock().NowNs();
  for (int i = 0; i < 200; ++i)
    Send(RawPeer::Clear(FrameKind::kHello, Hello{kJob, 1, i % 2 == 0 ? "n0" : "evil", "n1", GenerateNonce(), {}}));
  const Deadline deadline(SystemClock(), 20s);
  while (nodes_[1]->Counters().handshakes_refused < 200 && !deadline.Passed()) std::this_thread::sleep_for(1ms);
  const NetworkCounters counters = nodes_[1]->Counters();
  EXPECT_EQ(counters.handshakes_refused, 200U);
  // One each tenth of a second at most.
  EXPECT_LE(counters.channels_opened, 1 + static_cast<uint64_t>((SystemClock().NowNs() - begin_ns) / 100'000'000));
}

// A hello in n0's name does not end n0's session, and its proof is asked for.
TEST_F(HostileTest, AHelloInAnothersNameIsNotBelieved) {
  ExpectGoodNodesWork(1);
  Send(RawPeer::Clear(FrameKind::kHello, Hello{kJob, 1, "n0", "n1", GenerateNonce(), {}}));
  Send(RawPeer::Clear(FrameKind::kHello, RawPeer::MakeHello("n0", "n1", nodes_.secret())));
  std::this_thread::sleep_for(100ms);
  ExpectGoodNodesWork(1);
}

TEST_F(HostileTest, ForgedAndRepeatedFramesAreRefused) {
  Handshake();
  ASSERT_TRUE(EvilIsConnected());
  const Buffer ping = raw_.Sealed(FrameKind::kPing, 0, {});
  Send(ping);
  const uint64_t before = nodes_[1]->Counters().frames_refused;
  Send(ping);  // once more
  EXPECT_TRUE(WaitForRefused(before + 1));
  Buffer forged = raw_.Sealed(FrameKind::kPing, 1, {});
  forged.back() ^= std::byte{1};
  Send(forged);
  EXPECT_TRUE(WaitForRefused(before + 2));
  EXPECT_TRUE(EvilIsConnected()) << "the true owner of the session loses nothing";
  ExpectGoodNodesWork(1);
}

TEST_F(HostileTest, AMemberThatBreaksTheRulesLosesItsSession) {
  const auto head = [](uint32_t bytes) {
    Buffer payload;
    Encoder out(payload);
    EncodeMessageHead({MessageType::kRequest, 1, 1, bytes}, &out);
    out.Finish();
    return payload;
  };
  const std::vector<std::pair<const char*, std::function<void()>>> rules = {
      {"no frame may be missing", [&] { Send(raw_.Sealed(FrameKind::kPing, 5, {})); }},
      {"no more credit than the window", [&] { Send(raw_.Sealed(FrameKind::kCredit, 0, EncodeControl(Credit{1}))); }},
      {"a message has a head", [&] { Send(raw_.Sealed(FrameKind::kPiece, 0, Bytes("x"))); }},
      {"a message is not longer than it says",
       [&] {
         Buffer payload = head(3);
         payload.resize(payload.size() + 4);
         Send(raw_.Sealed(FrameKind::kPiece, 0, payload));
       }},
      {"a message is not longer than it may be", [&] { Send(raw_.Sealed(FrameKind::kPiece, 0, head(kNetMessageBytesMax + 1))); }},
  };
  for (const auto& [rule, breaks] : rules) {
    Handshake();
    ASSERT_TRUE(EvilIsConnected()) << rule;
    breaks();
    EXPECT_TRUE(WaitForEvilToBeCut()) << rule;
    ExpectGoodNodesWork(1);
  }
}

}  // namespace
}  // namespace kedge::net

// Whoever speaks the protocol and means no good: strangers, forgers, and a member that breaks the rules of its session.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <array>
#include <functional>
#include <optional>
#include <thread>
#include <variant>

#include "base/clock.h"
#include "base/random.h"
#include "net/fabric.h"
#include "net/frame.h"
#include "net/testing/nodes.h"

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

  // A session with `to`, as node `self`.
  void Handshake(const NodeAddress& to, const std::string& self, const std::string& peer, const Secret& secret) {
    const Hello hello{kJob, 1, self, peer, GenerateNonce()};
    Send(to, Clear(FrameKind::kHello, hello));
    const Buffer answer = Receive(FrameKind::kChallenge);
    ASSERT_FALSE(answer.empty());
    const auto challenge = std::get<Challenge>(DecodeControl(FrameKind::kChallenge, DecodeFrame(answer)->payload).value());
    const Transcript transcript{kNetProtocol, kJob, 1, self, peer, hello.initiator_nonce, challenge.responder_nonce};
    ASSERT_TRUE(SameDigest(challenge.proof, Prove(secret, transcript, ProofOf::kResponder)));
    session_ = SessionNumber(secret, transcript);
    key_.emplace(secret, transcript, ProofOf::kInitiator);
    Send(to, Clear(FrameKind::kProof, Proof{challenge.responder_nonce, Prove(secret, transcript, ProofOf::kInitiator)}));
    ASSERT_FALSE(Receive(FrameKind::kAccept).empty());
  }

  static Buffer Clear(FrameKind kind, const Control& control) {
    Buffer bytes(kFrameBytesMax);
    bytes.resize(WriteFrame({kind, 0, 0}, EncodeControl(control), nullptr, bytes.data()));
    return bytes;
  }
  // A frame of the session, with a right MAC.
  Buffer Signed(FrameKind kind, uint64_t sequence, ByteSpan payload) {
    Buffer bytes(kFrameBytesMax);
    bytes.resize(WriteFrame({kind, session_, sequence}, payload, &*key_, bytes.data()));
    return bytes;
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
  std::optional<FrameKey> key_;
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
  bool EvilIsConnected() {
    for (const PeerState& state : nodes_[1]->Peers()) {
      if (state.peer.node == "evil") return state.connected;
    }
    return false;
  }
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
      const Buffer good = RawPeer::Clear(FrameKind::kHello, Hello{kJob, 1, "n0", "n1", GenerateNonce()});
      std::copy_n(good.begin(), std::min<size_t>(good.size(), bytes.size()), bytes.begin());
      bytes[random.Below(bytes.size())] ^= std::byte{0x40};
    }
    Send(bytes);
    ++sent;
  }
  EXPECT_TRUE(WaitForRefused(sent / 2));
  // Proofs, challenges and refusals that nobody asked for.
  const uint64_t before = nodes_[1]->Counters().frames_refused;
  Send(RawPeer::Clear(FrameKind::kProof, Proof{GenerateNonce(), {}}));
  Send(RawPeer::Clear(FrameKind::kChallenge, Challenge{GenerateNonce(), GenerateNonce(), {}}));
  Send(RawPeer::Clear(FrameKind::kRefusal, Refusal{GenerateNonce(), RefusalReason::kWrongSecret, 1, "n0"}));
  EXPECT_TRUE(WaitForRefused(before + 3));
  ExpectGoodNodesWork(1);
}

// A hello in n0's name does not end n0's session, and its proof is asked for.
TEST_F(HostileTest, AHelloInAnothersNameIsNotBelieved) {
  ExpectGoodNodesWork(1);
  Send(RawPeer::Clear(FrameKind::kHello, Hello{kJob, 1, "n0", "n1", GenerateNonce()}));
  std::this_thread::sleep_for(100ms);
  ExpectGoodNodesWork(1);
}

TEST_F(HostileTest, ForgedAndRepeatedFramesAreRefused) {
  Handshake();
  ASSERT_TRUE(EvilIsConnected());
  const Buffer ping = raw_.Signed(FrameKind::kPing, 0, {});
  Send(ping);
  const uint64_t before = nodes_[1]->Counters().frames_refused;
  Send(ping);  // once more
  EXPECT_TRUE(WaitForRefused(before + 1));
  Buffer forged = raw_.Signed(FrameKind::kPing, 1, {});
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
      {"no frame may be missing", [&] { Send(raw_.Signed(FrameKind::kPing, 5, {})); }},
      {"no more credit than the window", [&] { Send(raw_.Signed(FrameKind::kCredit, 0, EncodeControl(Credit{1}))); }},
      {"a message has a head", [&] { Send(raw_.Signed(FrameKind::kPiece, 0, Bytes("x"))); }},
      {"a message is not longer than it says",
       [&] {
         Buffer payload = head(3);
         payload.resize(payload.size() + 4);
         Send(raw_.Signed(FrameKind::kPiece, 0, payload));
       }},
      {"a message is not longer than it may be", [&] { Send(raw_.Signed(FrameKind::kPiece, 0, head(kNetMessageBytesMax + 1))); }},
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

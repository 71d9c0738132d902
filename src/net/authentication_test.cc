#include "net/authentication.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kedge::net {
namespace {

Transcript Sample() {
  Transcript transcript;
  transcript.protocol = 1;
  transcript.job = "store/heat";
  transcript.attempt = 3;
  transcript.initiator = "n1";
  transcript.responder = "n2";
  transcript.initiator_nonce.fill(std::byte{1});
  transcript.responder_nonce.fill(std::byte{2});
  return transcript;
}

TEST(Secret, SurvivesItsText) {
  const Secret secret = Secret::Generate();
  EXPECT_FALSE(secret.IsZero());
  EXPECT_EQ(secret.ToHex().size(), 64U);
  ASSERT_TRUE(Secret::FromHex(secret.ToHex()).has_value());
  EXPECT_EQ(*Secret::FromHex(secret.ToHex()), secret);
  EXPECT_FALSE(Secret::Generate() == secret);
  EXPECT_TRUE(Secret().IsZero());
  EXPECT_FALSE(Secret::FromHex(secret.ToHex() + "00").has_value());
  EXPECT_FALSE(Secret::FromHex(std::string(63, '0') + "g").has_value());
}

// Whatever differs between the two sides, their proofs differ.
TEST(Proof, DependsOnEverything) {
  const Secret secret = *Secret::FromHex(std::string(64, '7'));
  std::vector<Transcript> all(1, Sample());
  const auto with = [&all](auto change) {
    all.push_back(Sample());
    change(all.back());
  };
  with([](Transcript& t) { t.protocol = 2; });
  with([](Transcript& t) { t.job = "store/heau"; });
  with([](Transcript& t) { t.attempt = 4; });
  with([](Transcript& t) { t.initiator = "n3"; });
  with([](Transcript& t) { t.responder = "n3"; });
  with([](Transcript& t) { std::swap(t.initiator, t.responder); });
  with([](Transcript& t) { t.initiator = "n1n", t.responder = "2"; });
  with([](Transcript& t) { t.initiator_address = "w"; });
  with([](Transcript& t) { t.initiator_nonce[15] = std::byte{9}; });
  with([](Transcript& t) { t.responder_nonce[0] = std::byte{9}; });
  std::set<Digest> proofs;
  for (const Transcript& transcript : all) {
    proofs.insert(Prove(secret, transcript, ProofOf::kHello));
    proofs.insert(Prove(secret, transcript, ProofOf::kInitiator));
    proofs.insert(Prove(secret, transcript, ProofOf::kResponder));
  }
  proofs.insert(Prove(Secret::Generate(), Sample(), ProofOf::kInitiator));
  EXPECT_EQ(proofs.size(), 3 * all.size() + 1);
  EXPECT_TRUE(SameDigest(Prove(secret, Sample(), ProofOf::kInitiator), Prove(secret, Sample(), ProofOf::kInitiator)));
}

// Whoever has made a challenge can make its nonce again, for that hello only.
TEST(ChallengeNonce, IsOfOneHelloAndOneSecret) {
  const Secret own = Secret::Generate();
  const Nonce nonce = ChallengeNonce(own, Sample());
  EXPECT_TRUE(SameNonce(ChallengeNonce(own, Sample()), nonce));
  EXPECT_FALSE(SameNonce(ChallengeNonce(Secret::Generate(), Sample()), nonce));
  Transcript other = Sample();
  other.initiator_nonce[3] = std::byte{9};
  EXPECT_FALSE(SameNonce(ChallengeNonce(own, other), nonce));
}

class FrameKeyTest : public ::testing::Test {
 protected:
  Buffer Sealed(uint64_t sequence) {
    Buffer sealed(payload_.size());
    tag_ = sender_.Seal(sequence, header_, payload_, sealed.data());
    return sealed;
  }
  bool Opens(FrameKey& key, uint64_t sequence, const Buffer& sealed) {
    Buffer opened(sealed.size());
    return key.Open(sequence, header_, sealed, tag_, opened.data()) && opened == payload_;
  }

  const Secret secret_ = Secret::Generate();
  FrameKey sender_{secret_, Sample(), ProofOf::kInitiator};
  FrameKey receiver_{secret_, Sample(), ProofOf::kInitiator};
  Buffer header_ = Buffer(32, std::byte{7});
  const Buffer payload_ = Buffer(1000, std::byte{5});
  Tag tag_{};
};

TEST_F(FrameKeyTest, OpensItsOwnAndNothingElse) {
  Buffer sealed = Sealed(0);
  EXPECT_TRUE(Opens(receiver_, 0, sealed));
  EXPECT_TRUE(Opens(receiver_, 0, sealed)) << "the context starts anew each time";
  EXPECT_FALSE(Opens(receiver_, 1, sealed)) << "another frame of the session";
  FrameKey other_direction(secret_, Sample(), ProofOf::kResponder);
  EXPECT_FALSE(Opens(other_direction, 0, sealed));
  Transcript other = Sample();
  other.responder_nonce[0] = std::byte{9};
  FrameKey other_session(secret_, other, ProofOf::kInitiator);
  EXPECT_FALSE(Opens(other_session, 0, sealed));
  sealed[999] ^= std::byte{1};
  EXPECT_FALSE(Opens(receiver_, 0, sealed));
  sealed[999] ^= std::byte{1};
  header_[31] ^= std::byte{1};
  EXPECT_FALSE(Opens(receiver_, 0, sealed)) << "the header is authenticated";
  header_[31] ^= std::byte{1};
  tag_[15] ^= std::byte{0x80};
  EXPECT_FALSE(Opens(receiver_, 0, sealed));
  tag_[15] ^= std::byte{0x80};
  EXPECT_TRUE(Opens(receiver_, 0, sealed));
}

TEST_F(FrameKeyTest, HidesWhatItSeals) {
  const Buffer first = Sealed(0);
  const Buffer second = Sealed(1);
  EXPECT_NE(first, payload_);
  EXPECT_NE(first, second) << "the same payload twice";
}

TEST_F(FrameKeyTest, NothingIsLostWhereTheKeyIsChanged) {
  for (const uint64_t sequence : {kFramesPerKey - 1, kFramesPerKey, kFramesPerKey + 1, 3 * kFramesPerKey}) {
    const Buffer sealed = Sealed(sequence);
    EXPECT_TRUE(Opens(receiver_, sequence, sealed)) << sequence;
    EXPECT_FALSE(Opens(receiver_, sequence - kFramesPerKey / 2, sealed)) << sequence;
  }
}

TEST(BlockSeal, OpensTheBlockThatItIsOf) {
  const Buffer block(70'000, std::byte{5});
  Buffer sealed = block;
  const BlockSeal seal = SealBlock(sealed);
  EXPECT_NE(sealed, block);
  Buffer opened = sealed;
  ASSERT_TRUE(OpenBlock(seal, opened));
  EXPECT_EQ(opened, block);
  Buffer other = block;
  EXPECT_FALSE(OpenBlock(SealBlock(other), sealed)) << "each has a key of its own";
}

}  // namespace
}  // namespace kedge::net

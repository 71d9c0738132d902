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
  with([](Transcript& t) { t.initiator_nonce[15] = std::byte{9}; });
  with([](Transcript& t) { t.responder_nonce[0] = std::byte{9}; });
  std::set<Digest> proofs;
  for (const Transcript& transcript : all) {
    proofs.insert(Prove(secret, transcript, ProofOf::kInitiator));
    proofs.insert(Prove(secret, transcript, ProofOf::kResponder));
  }
  proofs.insert(Prove(Secret::Generate(), Sample(), ProofOf::kInitiator));
  EXPECT_EQ(proofs.size(), 2 * all.size() + 1);
  EXPECT_TRUE(SameDigest(Prove(secret, Sample(), ProofOf::kInitiator), Prove(secret, Sample(), ProofOf::kInitiator)));
}

TEST(FrameKey, AcceptsItsOwnAndNothingElse) {
  const Secret secret = Secret::Generate();
  FrameKey sender(secret, Sample(), ProofOf::kInitiator);
  FrameKey receiver(secret, Sample(), ProofOf::kInitiator);
  FrameKey other_direction(secret, Sample(), ProofOf::kResponder);
  Buffer bytes(1000, std::byte{5});
  const Mac mac = sender.Sign(bytes);
  EXPECT_TRUE(receiver.Verify(bytes, mac));
  EXPECT_TRUE(receiver.Verify(bytes, mac)) << "the context starts anew each time";
  EXPECT_FALSE(other_direction.Verify(bytes, mac));
  bytes[999] ^= std::byte{1};
  EXPECT_FALSE(receiver.Verify(bytes, mac));
  bytes[999] ^= std::byte{1};
  Mac flipped = mac;
  flipped[15] ^= std::byte{0x80};
  EXPECT_FALSE(receiver.Verify(bytes, flipped));
}

}  // namespace
}  // namespace kedge::net

// Proof of a job's secret, and keys for what follows: pure functions over bytes, HMAC-SHA256 (RFC 2104) by libcrypto.
//
// Both sides add a fresh nonce to a transcript that also holds protocol, job, attempt and both names. Each proves the secret
// by the HMAC of the transcript under a label of its own, so that neither a proof sent back nor one of another job, attempt or
// pair of nodes is of use. The session's two keys (one for each direction) are derived from the same transcript, so that a
// frame of another session never has a valid MAC. Comparisons take the same time whatever differs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "format/wire.h"

namespace kedge::net {

inline constexpr size_t kDigestBytes = 32;
inline constexpr size_t kMacBytes = 16;  // of a frame: the digest's first half
inline constexpr size_t kNonceBytes = 16;
using Digest = std::array<std::byte, kDigestBytes>;
using Mac = std::array<std::byte, kMacBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;

// A job's secret: 256 random bits, from rank 0. Erased from memory when it goes.
class Secret {
 public:
  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();
  // From the kernel's random numbers.
  static Secret Generate();
  // Exactly 64 hexadecimal digits.
  static std::optional<Secret> FromHex(std::string_view text);
  std::string ToHex() const;
  ByteSpan bytes() const { return bytes_; }
  bool IsZero() const;
  friend bool operator==(const Secret& a, const Secret& b);

 private:
  Digest bytes_{};
};

Nonce GenerateNonce();

// What both sides must agree on.
struct Transcript {
  uint32_t protocol = 0;
  std::string_view job;
  uint32_t attempt = 0;
  std::string_view initiator;  // node names
  std::string_view responder;
  Nonce initiator_nonce{};
  Nonce responder_nonce{};
};

enum class ProofOf : uint8_t { kInitiator = 1, kResponder = 2 };
Digest Prove(const Secret& secret, const Transcript& transcript, ProofOf who);

// The number that the session's frames carry; never zero.
uint64_t SessionNumber(const Secret& secret, const Transcript& transcript);

bool SameDigest(const Digest& a, const Digest& b);

// Makes and checks the MACs of the frames of one direction of a session. One thread at a time.
class FrameKey {
 public:
  // The key for frames that `from` sends.
  FrameKey(const Secret& secret, const Transcript& transcript, ProofOf from);
  ~FrameKey();
  FrameKey(FrameKey&&) noexcept;
  FrameKey& operator=(FrameKey&&) noexcept;
  Mac Sign(ByteSpan bytes);
  bool Verify(ByteSpan bytes, const Mac& mac);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kedge::net

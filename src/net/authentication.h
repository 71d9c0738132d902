// Proof of a job's secret, and keys for what follows: pure functions over
// bytes. HKDF-SHA256 (RFC 5869), HMAC-SHA256 and AES-256-GCM are libcrypto's.
//
// Both sides add a fresh nonce to a transcript that also holds protocol, job,
// attempt and both names. Everything is derived from the secret and the
// transcript under a label of its own: the proof of the hello (before there is
// a nonce of the responder), those of initiator and responder, and the
// session's two keys. So neither a proof sent back nor one of another job,
// attempt, protocol or pair of nodes is of use, and a frame of another session,
// or of the other direction, never opens. Comparisons take the same time
// whatever differs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "format/wire.h"

namespace kedge::net {

inline constexpr size_t kDigestBytes = 32;
inline constexpr size_t kTagBytes = 16;  // of a frame
inline constexpr size_t kNonceBytes = 16;
using Digest = std::array<std::byte, kDigestBytes>;
using Tag = std::array<std::byte, kTagBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;

// A job's secret: 256 random bits, from rank 0. Erased from memory when it
// goes.
class Secret {
 public:
  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();
  // From the kernel's random numbers.
  static Secret Generate();
  static Secret FromBytes(const Digest& bytes);
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

// What both sides must agree on. Of a hello the responder's nonce is zero.
struct Transcript {
  uint32_t protocol = 0;
  std::string_view job;
  uint32_t attempt = 0;
  std::string_view initiator;  // node names
  std::string_view responder;
  Nonce initiator_nonce{};
  Nonce responder_nonce{};
  std::string_view initiator_address = {};  // of a guest; empty: the responder knows it
};

enum class ProofOf : uint8_t { kHello = 1, kInitiator = 2, kResponder = 3 };
Digest Prove(const Secret& secret, const Transcript& transcript, ProofOf who);

// The responder's nonce for that hello, under a secret of the responder's own:
// whoever can make it again need not keep it.
Nonce ChallengeNonce(const Secret& own, const Transcript& hello);

// The number that the session's frames carry; never zero.
uint64_t SessionNumber(const Secret& secret, const Transcript& transcript);

bool SameDigest(const Digest& a, const Digest& b);
bool SameNonce(const Nonce& a, const Nonce& b);

// A key serves so many frames of a session, then the next one is derived: far
// below what AES-GCM allows.
inline constexpr uint64_t kFramesPerKey = uint64_t{1} << 24;

// Seals and opens the frames of one direction of a session, by AES-256-GCM: the
// header is not secret, but authenticated, too. A frame's nonce is its sequence
// number, which is never used twice under one key. One thread at a time.
class FrameKey {
 public:
  // The key for frames that `from` sends: kInitiator or kResponder.
  FrameKey(const Secret& secret, const Transcript& transcript, ProofOf from);
  ~FrameKey();
  FrameKey(FrameKey&&) noexcept;
  FrameKey& operator=(FrameKey&&) noexcept;
  // `out` takes as many bytes as `payload` has. REQUIRES: nothing was sealed as
  // that `sequence` before.
  Tag Seal(uint64_t sequence, ByteSpan header, ByteSpan payload, std::byte* out);
  // False: not what was sealed so; `out` holds nothing of use then.
  bool Open(uint64_t sequence, ByteSpan header, ByteSpan sealed, const Tag& tag, std::byte* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What opens a block of bytes that goes another way than in frames, by remote
// read. It goes in a message.
struct BlockSeal {
  Digest key{};
  Tag tag{};
  friend bool operator==(const BlockSeal&, const BlockSeal&) = default;
};
// Seals the block where it lies, by AES-256-GCM under a key that serves once.
BlockSeal SealBlock(std::span<std::byte> block);
// False: not what was sealed; the block holds nothing of use then.
bool OpenBlock(const BlockSeal& seal, std::span<std::byte> block);

}  // namespace kedge::net

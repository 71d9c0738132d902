#include "net/authentication.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace kedge::net {
namespace {

template <typename T>
T* Checked(T* made) {
  KEDGE_CHECK(made != nullptr);
  return made;
}

unsigned char* Raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* Raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// The transcript under a label; every field has its length, so that no two
// transcripts are the same bytes.
Buffer Encode(const Transcript& transcript, std::string_view label) {
  Buffer bytes;
  Encoder encoder(bytes);
  encoder.String(label);
  encoder.U32(transcript.protocol);
  encoder.String(transcript.job);
  encoder.U32(transcript.attempt);
  encoder.String(transcript.initiator);
  encoder.String(transcript.responder);
  encoder.Raw(transcript.initiator_nonce);
  encoder.Raw(transcript.responder_nonce);
  if (!transcript.initiator_address.empty()) encoder.String(transcript.initiator_address);
  encoder.Finish();
  return bytes;
}

Digest Hkdf(ByteSpan key, ByteSpan info) {
  // Looking the algorithm up costs more than using it.
  static EVP_KDF* const kAlgorithm = Checked(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(Checked(EVP_KDF_CTX_new(kAlgorithm)), EVP_KDF_CTX_free);
  char digest[] = "SHA256";
  const auto octets = [](const char* name, ByteSpan bytes) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()), bytes.size());
  };
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                   octets(OSSL_KDF_PARAM_KEY, key), octets(OSSL_KDF_PARAM_INFO, info),
                                   OSSL_PARAM_construct_end()};
  Digest derived;
  KEDGE_CHECK(EVP_KDF_derive(context.get(), Raw(derived.data()), derived.size(), parameters) == 1);
  return derived;
}

Digest Derive(const Secret& secret, const Transcript& transcript, std::string_view label) {
  return Hkdf(secret.bytes(), Encode(transcript, label));
}

template <size_t bytes>
std::array<std::byte, bytes> First(const Digest& digest) {
  std::array<std::byte, bytes> first;
  std::copy_n(digest.begin(), bytes, first.begin());
  return first;
}

// AES-256-GCM: what keys come from, and the context that has one of them.
class Sealer {
 public:
  explicit Sealer(const Digest& root) : root_(root), context_(Checked(EVP_CIPHER_CTX_new())) {
    static const EVP_CIPHER* const kAlgorithm = Checked(EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr));
    KEDGE_CHECK(EVP_CipherInit_ex2(context_, kAlgorithm, nullptr, nullptr, 1, nullptr) == 1);
    SetKey(0);
  }
  ~Sealer() {
    EVP_CIPHER_CTX_free(context_);
    OPENSSL_cleanse(root_.data(), root_.size());
  }
  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;

  // All but the tag.
  void Apply(bool seals, uint64_t sequence, ByteSpan header, ByteSpan payload, std::byte* out) {
    if (sequence / kFramesPerKey != key_number_) SetKey(sequence / kFramesPerKey);
    std::array<unsigned char, 12> nonce{};
    std::memcpy(nonce.data(), &sequence, sizeof(sequence));
    KEDGE_CHECK(EVP_CipherInit_ex2(context_, nullptr, nullptr, nonce.data(), seals ? 1 : 0, nullptr) == 1);
    int written = 0;
    const auto update = [&](unsigned char* to, ByteSpan from) {
      if (from.empty()) return;
      KEDGE_CHECK(EVP_CipherUpdate(context_, to, &written, Raw(from.data()), static_cast<int>(from.size())) == 1);
      KEDGE_CHECK(static_cast<size_t>(written) == from.size());
    };
    update(nullptr, header);
    update(Raw(out), payload);
  }
  Tag MakeTag() {
    Tag tag;
    KEDGE_CHECK(Finish());
    KEDGE_CHECK(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
    return tag;
  }
  bool HasTag(Tag tag) {
    KEDGE_CHECK(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
    return Finish();
  }

 private:
  bool Finish() {
    std::array<unsigned char, kTagBytes> nothing;
    int written = 0;
    return EVP_CipherFinal_ex(context_, nothing.data(), &written) == 1;
  }
  void SetKey(uint64_t number) {
    Buffer info;
    {
      Encoder encoder(info);
      encoder.String("kedge net frames");
      encoder.U64(number);
      encoder.Finish();
    }
    Digest key = Hkdf(root_, info);
    KEDGE_CHECK(EVP_CipherInit_ex2(context_, nullptr, Raw(key.data()), nullptr, 1, nullptr) == 1);
    OPENSSL_cleanse(key.data(), key.size());
    key_number_ = number;
  }

  Digest root_;
  EVP_CIPHER_CTX* const context_;
  uint64_t key_number_ = 0;
};

}  // namespace

Secret::~Secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Secret Secret::Generate() {
  Secret secret;
  FillFromKernel(secret.bytes_.data(), secret.bytes_.size());
  return secret;
}

Secret Secret::FromBytes(const Digest& bytes) {
  Secret secret;
  secret.bytes_ = bytes;
  return secret;
}

std::optional<Secret> Secret::FromHex(std::string_view text) {
  if (text.size() != 2 * kDigestBytes) return std::nullopt;
  Secret secret;
  for (size_t i = 0; i < text.size(); ++i) {
    const char digit = text[i];
    int value = 0;
    if (digit >= '0' && digit <= '9') {
      value = digit - '0';
    } else if (digit >= 'a' && digit <= 'f') {
      value = digit - 'a' + 10;
    } else {
      return std::nullopt;
    }
    secret.bytes_[i / 2] = static_cast<std::byte>(std::to_integer<int>(secret.bytes_[i / 2]) * 16 + value);
  }
  return secret;
}

std::string Secret::ToHex() const {
  std::string text;
  for (const std::byte byte : bytes_) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

bool Secret::IsZero() const {
  return std::all_of(bytes_.begin(), bytes_.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool operator==(const Secret& a, const Secret& b) {
  return CRYPTO_memcmp(a.bytes_.data(), b.bytes_.data(), kDigestBytes) == 0;
}

Nonce GenerateNonce() {
  Nonce nonce;
  FillFromKernel(nonce.data(), nonce.size());
  return nonce;
}

Digest Prove(const Secret& secret, const Transcript& transcript, ProofOf who) {
  switch (who) {
    case ProofOf::kHello: return Derive(secret, transcript, "kedge net hello");
    case ProofOf::kInitiator: return Derive(secret, transcript, "kedge net proof of initiator");
    case ProofOf::kResponder: break;
  }
  return Derive(secret, transcript, "kedge net proof of responder");
}

Nonce ChallengeNonce(const Secret& own, const Transcript& hello) {
  return First<kNonceBytes>(Derive(own, hello, "kedge net challenge"));
}

uint64_t SessionNumber(const Secret& secret, const Transcript& transcript) {
  const Digest digest = Derive(secret, transcript, "kedge net session");
  Decoder decoder{ByteSpan(digest)};
  return decoder.U64() | 1;
}

bool SameDigest(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool SameNonce(const Nonce& a, const Nonce& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

struct FrameKey::State {
  explicit State(const Digest& root) : sealer(root) {}
  Sealer sealer;
};

FrameKey::FrameKey(const Secret& secret, const Transcript& transcript, ProofOf from)
    : state_(std::make_unique<State>(Derive(
          secret, transcript, from == ProofOf::kInitiator ? "kedge net key of initiator" : "kedge net key of responder"))) {}
FrameKey::~FrameKey() = default;
FrameKey::FrameKey(FrameKey&&) noexcept = default;
FrameKey& FrameKey::operator=(FrameKey&&) noexcept = default;

Tag FrameKey::Seal(uint64_t sequence, ByteSpan header, ByteSpan payload, std::byte* out) {
  state_->sealer.Apply(true, sequence, header, payload, out);
  return state_->sealer.MakeTag();
}

bool FrameKey::Open(uint64_t sequence, ByteSpan header, ByteSpan sealed, const Tag& tag, std::byte* out) {
  state_->sealer.Apply(false, sequence, header, sealed, out);
  return state_->sealer.HasTag(tag);
}

BlockSeal SealBlock(std::span<std::byte> block) {
  BlockSeal seal;
  FillFromKernel(seal.key.data(), seal.key.size());
  Sealer once(seal.key);
  once.Apply(true, 0, {}, block, block.data());
  seal.tag = once.MakeTag();
  return seal;
}

bool OpenBlock(const BlockSeal& seal, std::span<std::byte> block) {
  Sealer once(seal.key);
  once.Apply(false, 0, {}, block, block.data());
  return once.HasTag(seal.tag);
}

}  // namespace kedge::net

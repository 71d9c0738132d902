#include "net/authentication.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>

#include "base/random.h"

namespace kedge::net {
namespace {

// HMAC-SHA256 with the key fixed. libcrypto's context is made once and started anew for each use: looking the algorithm up
// costs more than a short MAC.
class Hmac {
 public:
  explicit Hmac(ByteSpan key) {
    EVP_MAC* algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    KEDGE_CHECK(algorithm != nullptr);
    context_ = EVP_MAC_CTX_new(algorithm);
    EVP_MAC_free(algorithm);
    KEDGE_CHECK(context_ != nullptr);
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                     OSSL_PARAM_construct_end()};
    KEDGE_CHECK(EVP_MAC_init(context_, reinterpret_cast<const unsigned char*>(key.data()), key.size(), parameters) == 1);
  }
  ~Hmac() { EVP_MAC_CTX_free(context_); }
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;

  Digest Of(ByteSpan bytes) {
    Digest digest;
    size_t written = 0;
    // Without a key, init starts again with the one that it has.
    KEDGE_CHECK(EVP_MAC_init(context_, nullptr, 0, nullptr) == 1);
    KEDGE_CHECK(EVP_MAC_update(context_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) == 1);
    KEDGE_CHECK(EVP_MAC_final(context_, reinterpret_cast<unsigned char*>(digest.data()), &written, digest.size()) == 1);
    KEDGE_CHECK(written == digest.size());
    return digest;
  }

 private:
  EVP_MAC_CTX* context_ = nullptr;
};

// The transcript under a label; every field has its length, so that no two transcripts are the same bytes.
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
  encoder.Finish();
  return bytes;
}

Digest Derive(const Secret& secret, const Transcript& transcript, std::string_view label) {
  return Hmac(secret.bytes()).Of(Encode(transcript, label));
}

}  // namespace

Secret::~Secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Secret Secret::Generate() {
  Secret secret;
  FillFromKernel(secret.bytes_.data(), secret.bytes_.size());
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
  return Derive(secret, transcript,
                who == ProofOf::kInitiator ? "kedge net 1 proof of initiator" : "kedge net 1 proof of responder");
}

uint64_t SessionNumber(const Secret& secret, const Transcript& transcript) {
  const Digest digest = Derive(secret, transcript, "kedge net 1 session");
  Decoder decoder{ByteSpan(digest)};
  return decoder.U64() | 1;
}

bool SameDigest(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

struct FrameKey::State {
  explicit State(const Digest& key) : hmac(key) {}
  Hmac hmac;
};

FrameKey::FrameKey(const Secret& secret, const Transcript& transcript, ProofOf from)
    : state_(std::make_unique<State>(Derive(
          secret, transcript, from == ProofOf::kInitiator ? "kedge net 1 key of initiator" : "kedge net 1 key of responder"))) {}
FrameKey::~FrameKey() = default;
FrameKey::FrameKey(FrameKey&&) noexcept = default;
FrameKey& FrameKey::operator=(FrameKey&&) noexcept = default;

Mac FrameKey::Sign(ByteSpan bytes) {
  const Digest digest = state_->hmac.Of(bytes);
  Mac mac;
  std::copy_n(digest.begin(), mac.size(), mac.begin());
  return mac;
}

bool FrameKey::Verify(ByteSpan bytes, const Mac& mac) {
  const Mac expected = Sign(bytes);
  return CRYPTO_memcmp(expected.data(), mac.data(), mac.size()) == 0;
}

}  // namespace kedge::net

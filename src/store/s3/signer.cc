#include "store/s3/signer.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace kedge::s3 {

namespace {

using Digest = std::array<unsigned char, 32>;

const unsigned char* Raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string_view View(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

Digest Hmac(std::string_view key, std::string_view text) {
  Digest digest;
  unsigned int bytes = 0;
  KEDGE_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Raw(text), text.size(), digest.data(), &bytes) !=
              nullptr);
  KEDGE_CHECK(bytes == digest.size());
  return digest;
}

// Blanks at the ends go, and runs of them inside become one.
std::string Trimmed(std::string_view value) {
  std::string trimmed;
  for (const char c : value) {
    const bool is_blank = c == ' ' || c == '\t';
    if (!is_blank) {
      trimmed += c;
    } else if (!trimmed.empty() && trimmed.back() != ' ') {
      trimmed += ' ';
    }
  }
  if (trimmed.ends_with(' ')) trimmed.pop_back();
  return trimmed;
}

struct Canonical {
  std::string text;
  std::string signed_headers;
};

Canonical CanonicalOf(const ToSign& request) {
  Pairs headers = request.headers;
  std::ranges::sort(headers);
  Canonical canonical;
  std::string lines;
  for (const auto& [name, value] : headers) {
    canonical.signed_headers += (canonical.signed_headers.empty() ? "" : ";") + name;
    lines += name + ':' + Trimmed(value) + '\n';
  }
  canonical.text = request.method + '\n' + Encode(request.path, "/") + '\n' + QueryText(request.query) + '\n' + lines + '\n' +
                   canonical.signed_headers + '\n' + request.payload;
  return canonical;
}

// The key of a day, a region and a service; what it is made of on the way is wiped.
Digest SigningKey(const Keys& keys, std::string_view day, const Scope& scope) {
  std::string secret = "AWS4" + keys.secret_key;
  Digest key = Hmac(secret, day);
  OPENSSL_cleanse(secret.data(), secret.size());
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service), std::string_view("aws4_request")}) {
    key = Hmac(View(key), part);
  }
  return key;
}

}  // namespace

std::string Sha256Hex(ByteSpan bytes) {
  Digest digest;
  unsigned int digest_bytes = 0;
  KEDGE_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &digest_bytes, EVP_sha256(), nullptr) == 1);
  return Hex(View(digest));
}

std::string Base64(ByteSpan bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int written = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(written));
  return text;
}

std::string AmzDate(int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm time{};
  gmtime_r(&seconds, &time);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday, time.tm_hour,
                     time.tm_min, time.tm_sec);
}

std::string Authorization(const ToSign& request, const Keys& keys, const Scope& scope) {
  const std::string date = AmzDate(scope.unix_seconds);
  const std::string day = date.substr(0, 8);
  const std::string where = fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const Canonical canonical = CanonicalOf(request);
  const std::string text = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, where, Sha256Hex(AsBytes(canonical.text)));
  Digest key = SigningKey(keys, day, scope);
  const Digest signature = Hmac(View(key), text);
  OPENSSL_cleanse(key.data(), key.size());
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}", keys.access_key, where,
                     canonical.signed_headers, Hex(View(signature)));
}

}  // namespace kedge::s3

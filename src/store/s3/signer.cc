#include "store/s3/signer.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <span>
#include <tuple>

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

void Hmac(std::string_view key, std::string_view text, std::span<std::byte> digest) {
  unsigned int bytes = 0;
  KEDGE_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Raw(text), text.size(),
                   reinterpret_cast<unsigned char*>(digest.data()), &bytes) != nullptr);
  KEDGE_CHECK(bytes == digest.size());
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

// The key of a day, a region and a service. It and what it is made of lie where no core file has them.
class SigningKey {
 public:
  SigningKey(const Keys& keys, std::string_view day, const Scope& scope)
      : place_(kPrefix.size() + keys.secret_key.view().size() + 2 * kBytes) {
    const std::span<std::byte> made_of = place_.bytes().subspan(2 * kBytes);
    std::ranges::copy(AsBytes(kPrefix), made_of.begin());
    os::CopySecret(keys.secret_key.view(), made_of.subspan(kPrefix.size()));
    Hmac(AsText(made_of), day, Half(0));
    Hmac(view(), scope.region, Half(1));
    Hmac(AsText(Half(1)), scope.service, Half(0));
    Hmac(view(), "aws4_request", Half(1));
    std::ranges::copy(Half(1), Half(0).begin());
  }
  std::string_view view() const { return AsText(Half(0)); }

 private:
  static constexpr std::string_view kPrefix = "AWS4";
  static constexpr size_t kBytes = std::tuple_size_v<Digest>;

  std::span<std::byte> Half(size_t number) const { return place_.bytes().subspan(number * kBytes, kBytes); }

  const os::SecretBytes place_;
};

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
  Digest signature;
  Hmac(SigningKey(keys, day, scope).view(), text, std::as_writable_bytes(std::span(signature)));
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}", keys.access_key, where,
                     canonical.signed_headers, Hex(View(signature)));
}

}  // namespace kedge::s3

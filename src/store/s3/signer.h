// AWS's Signature Version 4 (docs: "Create a signed AWS API request"): who sends a request, proved by an HMAC over all of it
// that matters. Tested with the vectors that AWS publishes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "format/wire.h"
#include "os/memory/secret_text.h"
#include "store/s3/url.h"

namespace kedge::s3 {

struct Keys {
  std::string access_key;
  os::SecretText secret_key;
  os::SecretText token;  // of a session; empty: none
};

// What the store takes for a body that carries a checksum of its own over an encrypted connection.
inline constexpr char kUnsignedPayload[] = "UNSIGNED-PAYLOAD";

struct ToSign {
  std::string method;
  std::string path;  // not encoded; begins with '/'
  Pairs query;
  Pairs headers;        // all of them are signed: names in small letters, "host" among them
  std::string payload;  // the body's SHA-256 in hexadecimal, or kUnsignedPayload
};

struct Scope {
  std::string region;
  std::string service = "s3";
  int64_t unix_seconds = 0;
};

std::string Sha256Hex(ByteSpan bytes);
std::string Base64(ByteSpan bytes);

// "20130524T000000Z": the value of x-amz-date, which is to be among the headers.
std::string AmzDate(int64_t unix_seconds);
// The value of Authorization.
std::string Authorization(const ToSign& request, const Keys& keys, const Scope& scope);

}  // namespace kedge::s3

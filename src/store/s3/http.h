// HTTP requests, many at a time: libcurl's multi interface on one thread.
//
// The thread begins with the client and ends with it. At most `connections` requests that carry much run at a time; the others
// wait in order, but small ones pass them, so that a lease is renewed while gigabytes are on their way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/duration.h"
#include "base/status.h"
#include "format/wire.h"
#include "store/s3/url.h"

namespace kedge::s3 {

struct HttpRequest {
  std::string method;  // GET, HEAD, PUT, POST, DELETE
  std::string url;
  Pairs headers = {};
  ByteSpan body = {};              // stays where it is until the request is done
  std::span<std::byte> into = {};  // where the body of a good answer goes, instead of HttpAnswer::body
  uint64_t body_max = 16 << 20;    // of HttpAnswer::body; more is an error
  Duration timeout{};              // for all of it; zero: none but for silence
  bool is_bulk = false;
};

struct HttpAnswer {
  int status = 0;
  Pairs headers;  // names in small letters
  Buffer body;
  uint64_t into_bytes = 0;

  // Empty: there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpOptions {
  uint32_t connections = 16;
  std::string ca_file;  // empty: the system's
  Duration connect_timeout = std::chrono::seconds(10);
  Duration silence_timeout = std::chrono::seconds(30);  // without a byte of a body or a line of a head
};

// Thread safe.
class HttpClient {
 public:
  // Called on the client's thread once for each request: it must not block. An error: no whole answer came, kTimeout or
  // kUnavailable, kPermission where the server's certificate is not trusted, or kFailedPrecondition where the client ends;
  // whether the request had its effect is not known then.
  using Done = std::function<void(Result<HttpAnswer>)>;

  // kUnsupported: no libcurl.
  static Result<std::unique_ptr<HttpClient>> Make(const HttpOptions& options);
  // What is under way ends with an error.
  ~HttpClient();

  void Start(HttpRequest request, Done done);
  // Calls `then` on the client's thread after the delay, or when the client ends.
  void After(Duration delay, std::function<void()> then);
  // Waits for the answer. Not from the client's thread.
  Result<HttpAnswer> Do(HttpRequest request);

 private:
  class Loop;
  explicit HttpClient(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace kedge::s3

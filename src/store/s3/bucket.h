// A bucket: signed requests, repeated where that helps.
//
// A request is repeated when no whole answer came, when the store is overloaded or out of order (429, 5xx, an error in the body
// of a 200), and when two requests met (409): after a pause that doubles and is drawn at random below that, for as long as
// `patience` and a budget of the whole bucket last, so that a store in trouble is not drowned by those who repeat. When one has
// been repeated for all its patience, and no request has had a good answer since it began, the server is away: until one has,
// requests are made once, and small ones wait for no longer than `away_timeout`. So whoever asks for several things loses its
// patience once. A clock that is wrong is set by the store's (its header Date). Repeating is right only for requests that may be
// made twice; what a first one did before its answer was lost, the caller finds out (Reply::may_have_acted).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "store/s3/credentials.h"
#include "store/s3/http.h"
#include "store/s3/s3_location.h"

namespace kedge::s3 {

struct Request {
  std::string method;
  std::string key = {};  // of the store, below its prefix
  Pairs query = {};
  Pairs headers = {};
  ByteSpan body = {};
  std::shared_ptr<const void> keeps = {};  // whatever the body lies in
  std::span<std::byte> into = {};
  uint64_t body_max = 16 << 20;
  bool is_bulk = false;
  bool is_of_bucket = false;       // of no key
  bool may_fail_with_200 = false;  // its answer is an <Error> at times, whatever the status says
};

struct Reply {
  Status status;           // ok: 2xx
  int http_status = 0;     // 0: no answer came
  std::string error_code;  // "NoSuchKey"; empty: none was given
  HttpAnswer answer;
  bool may_have_acted = false;  // a request before the one that was answered may have had its effect
};

struct BucketOptions {
  Duration patience = std::chrono::seconds(30);  // from a request's beginning on
  Duration pause_first = std::chrono::milliseconds(50);
  Duration pause_max = std::chrono::seconds(5);
  Duration silence_timeout = std::chrono::seconds(30);
  Duration away_timeout = std::chrono::seconds(2);
};

// Whether a server is away. Thread safe.
class Presence {
 public:
  void OnAnswer(int64_t now_ns);
  // Of a request that began then, and was repeated for all its patience.
  void OnGivenUp(int64_t begin_ns);
  bool is_away() const { return is_away_; }

 private:
  std::atomic<int64_t> answered_ns_{0};
  std::atomic<bool> is_away_{false};
};

// How many repetitions a bucket may have: each takes one, and a success gives back a part. Thread safe.
class RetryBudget {
 public:
  bool Take();
  void GiveBack();

 private:
  static constexpr int kTenths = 5000;
  std::atomic<int> tenths_{kTenths};
};

// Thread safe.
class Bucket {
 public:
  using Done = std::function<void(Reply)>;

  // No request is made, and nothing is loaded or started before the first one.
  Bucket(const Location& location, Environment environment, const BucketOptions& options)
      : location_(location), environment_(std::move(environment)), options_(options) {}

  // `done` runs on the client's thread and must not block; it runs on the caller's when there is no client, or no keys.
  void Start(Request request, Done done);
  // Waits; not on the client's thread.
  Reply Do(Request request);
  // All of them at a time, as far as connections go; the replies in their order.
  std::vector<Reply> DoAll(std::vector<Request> requests);

  const Location& location() const { return location_; }
  // "s3://bucket/prefix/key"
  std::string Describe(std::string_view key) const;

 private:
  struct Call;
  Status Begin();
  void Try(const std::shared_ptr<Call>& call);
  void OnAnswer(const std::shared_ptr<Call>& call, Result<HttpAnswer> answer);
  HttpRequest Signed(const Call& call) const;
  // Of a repetition that is due.
  Duration PauseBefore(const Call& call, const Reply& reply);
  // Whether the store says that this clock is wrong; from then on its own is believed.
  bool SetClock(const Reply& reply);

  const Location location_;
  const Environment environment_;
  const BucketOptions options_;
  RetryBudget budget_;
  Presence presence_;
  std::atomic<int64_t> clock_ahead_seconds_{0};  // of the store's, of ours
  Random random_{Id128::Generate().low};         // of the client's thread
  std::once_flag once_;
  Status begun_;  // what came of the beginning
  std::unique_ptr<Credentials> credentials_;
  std::unique_ptr<HttpClient> http_;  // ends first: its callbacks use the rest
};

}  // namespace kedge::s3

#include "store/s3/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <future>

#include "base/clock.h"
#include "store/s3/answers.h"
#include "store/s3/signer.h"

namespace kedge::s3 {

namespace {

constexpr int64_t kNsPerSecond = 1000000000;
constexpr uint32_t kDoublingsMax = 16;
constexpr int64_t kSkewSeconds = 300;

Code CodeOf(int http_status, const std::string& error_code) {
  if (error_code == "QuotaExceeded" || http_status == 507) return Code::kNoSpace;
  switch (http_status) {
    // Some servers say so of the keys' owner.
    case 404: return error_code.empty() || error_code.starts_with("NoSuch") ? Code::kNotFound : Code::kPermission;
    case 401:
    case 403: return Code::kPermission;
    case 412: return Code::kAlreadyExists;
    case 416: return Code::kCorrupt;
    // Two requests met. Not kBusy: that says that another attempt has taken over.
    case 409:
    case 429: return Code::kUnavailable;
    case 501: return Code::kUnsupported;
    default: return http_status >= 500 ? Code::kUnavailable : Code::kIo;
  }
}

bool IsRepeated(const Reply& reply) {
  const int status = reply.http_status;
  if (status == 0) return reply.status.code() == Code::kUnavailable;
  if (status == 400) return reply.error_code == "RequestTimeout" || reply.error_code == "IncompleteBody";
  return status == 408 || status == 409 || status == 429 || (status >= 500 && status != 501 && status != 507);
}

// Whether the request may have been carried out.
bool MayHaveActed(const Reply& reply) {
  return reply.http_status == 0 || reply.http_status >= 500 || reply.http_status == 408;
}

}  // namespace

bool RetryBudget::Take() {
  constexpr int kCost = 10;
  if (tenths_.fetch_sub(kCost) >= kCost) return true;
  tenths_.fetch_add(kCost);
  return false;
}

void RetryBudget::GiveBack() {
  if (tenths_.load(std::memory_order_relaxed) < kTenths) tenths_.fetch_add(1);
}

void Presence::OnAnswer(int64_t now_ns) {
  answered_ns_ = now_ns;
  is_away_ = false;
}

void Presence::OnGivenUp(int64_t begin_ns) {
  if (answered_ns_ < begin_ns) is_away_ = true;
}

struct Bucket::Call {
  Request request;
  Done done;
  Keys keys;
  int64_t begin_ns = 0;
  uint32_t tries = 0;
  bool may_have_acted = false;
  bool has_set_clock = false;
};

Status Bucket::Begin() {
  std::call_once(once_, [this] {
    HttpOptions options;
    options.connections = location_.connections;
    options.ca_file = location_.ca_file;
    options.silence_timeout = options_.silence_timeout;
    Result<std::unique_ptr<HttpClient>> made = HttpClient::Make(options);
    begun_ = made.status();
    if (!made.ok()) return;
    http_ = *std::move(made);
    credentials_ = std::make_unique<Credentials>(location_, environment_, *http_);
  });
  return begun_;
}

std::string Bucket::Describe(std::string_view key) const {
  const std::string whole = location_.KeyOf(key);
  return "s3://" + location_.bucket + (whole.empty() ? "" : "/" + whole);
}

void Bucket::Start(Request request, Done done) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->done = std::move(done);
  call->begin_ns = SystemClock().NowNs();
  const Status begun = Begin();
  Result<Keys> keys = begun.ok() ? credentials_->Get() : Result<Keys>(begun);
  if (!keys.ok()) {
    Reply reply;
    reply.status = keys.status();
    return call->done(std::move(reply));
  }
  call->keys = *std::move(keys);
  Try(call);
}

Reply Bucket::Do(Request request) {
  auto promise = std::make_shared<std::promise<Reply>>();
  std::future<Reply> future = promise->get_future();
  Start(std::move(request), [promise](Reply reply) { promise->set_value(std::move(reply)); });
  return future.get();
}

std::vector<Reply> Bucket::DoAll(std::vector<Request> requests) {
  std::vector<std::future<Reply>> futures;
  for (Request& request : requests) {
    auto promise = std::make_shared<std::promise<Reply>>();
    futures.push_back(promise->get_future());
    Start(std::move(request), [promise](Reply reply) { promise->set_value(std::move(reply)); });
  }
  std::vector<Reply> replies;
  for (std::future<Reply>& future : futures) replies.push_back(future.get());
  return replies;
}

HttpRequest Bucket::Signed(const Call& call) const {
  const Request& request = call.request;
  const int64_t now = WallTimeNs() / kNsPerSecond + clock_ahead_seconds_.load();
  const std::string url = location_.BaseUrl();
  ToSign to_sign{request.method, location_.BasePath() + '/', request.query, request.headers,
                 request.is_bulk && !request.body.empty() ? kUnsignedPayload : Sha256Hex(request.body)};
  if (!request.is_of_bucket) to_sign.path += location_.KeyOf(request.key);
  to_sign.headers.emplace_back("x-amz-date", AmzDate(now));
  to_sign.headers.emplace_back("x-amz-content-sha256", to_sign.payload);
  if (!call.keys.token.empty()) to_sign.headers.emplace_back("x-amz-security-token", std::string(call.keys.token.view()));
  HttpRequest http{.method = request.method, .url = url + Encode(to_sign.path, "/")};
  if (!request.query.empty()) http.url += '?' + QueryText(request.query);
  http.headers = to_sign.headers;
  to_sign.headers.emplace_back("host", url.substr(url.find("://") + 3));
  http.headers.emplace_back("authorization", Authorization(to_sign, call.keys, {location_.region, "s3", now}));
  http.body = request.body;
  http.into = request.into;
  http.body_max = request.body_max;
  http.is_bulk = request.is_bulk;
  if (presence_.is_away() && !request.is_bulk) http.timeout = options_.away_timeout;
  return http;
}

void Bucket::Try(const std::shared_ptr<Call>& call) {
  ++call->tries;
  http_->Start(Signed(*call), [this, call](Result<HttpAnswer> answer) { OnAnswer(call, std::move(answer)); });
}

bool Bucket::SetClock(const Reply& reply) {
  const std::optional<int64_t> there = ParseHttpTime(std::string(reply.answer.Header("date")));
  if (!there) return false;
  const int64_t ahead = *there - WallTimeNs() / kNsPerSecond;
  // An answer to HEAD has no body to say why.
  const bool may_be =
      reply.http_status == 403 && reply.error_code.empty() && std::abs(ahead - clock_ahead_seconds_.load()) > kSkewSeconds;
  if (reply.error_code != "RequestTimeTooSkewed" && !may_be) return false;
  clock_ahead_seconds_.store(ahead);
  return true;
}

void Bucket::OnAnswer(const std::shared_ptr<Call>& call, Result<HttpAnswer> answer) {
  const std::string what = call->request.method + ' ' + Describe(call->request.is_of_bucket ? "" : call->request.key);
  Reply reply;
  reply.may_have_acted = call->may_have_acted;
  if (answer.ok()) {
    reply.answer = *std::move(answer);
    reply.http_status = reply.answer.status;
    const bool is_good = reply.http_status / 100 == 2;
    std::optional<ErrorAnswer> error;
    if (!is_good || call->request.may_fail_with_200) error = ReadError(reply.answer.body);
    if (is_good && error) reply.http_status = 500;
    if (error) reply.error_code = error->code;
    if (!is_good || error) {
      const std::string why = error ? error->code + ": " + error->message : std::string("no reason is given");
      reply.status = Status(CodeOf(reply.http_status, reply.error_code), fmt::format("{}: {} {}", what, reply.http_status, why));
    }
  } else {
    // One that does not answer in time is away, too.
    const bool is_late = answer.status().code() == Code::kTimeout;
    reply.status = is_late ? Status(Code::kUnavailable, answer.status().message()) : answer.status();
  }
  const int64_t now_ns = SystemClock().NowNs();
  if (reply.http_status != 0 && !IsRepeated(reply)) presence_.OnAnswer(now_ns);
  if (reply.status.ok()) {
    budget_.GiveBack();
    return call->done(std::move(reply));
  }
  if (!call->has_set_clock && SetClock(reply)) {
    call->has_set_clock = true;
    return Try(call);
  }
  if (reply.error_code == "ExpiredToken" || reply.error_code == "InvalidAccessKeyId") credentials_->Forget();
  const Duration pause = PauseBefore(*call, reply);
  const bool has_time = !presence_.is_away() && Duration(now_ns - call->begin_ns) + pause < options_.patience;
  if (!IsRepeated(reply) || !has_time || !budget_.Take()) {
    if (IsRepeated(reply) && !has_time) presence_.OnGivenUp(call->begin_ns);
    if (call->tries > 1) reply.status = reply.status.WithContext(fmt::format("tried {} times", call->tries));
    return call->done(std::move(reply));
  }
  call->may_have_acted = call->may_have_acted || MayHaveActed(reply);
  http_->After(pause, [this, call] { Try(call); });
}

Duration Bucket::PauseBefore(const Call& call, const Reply& reply) {
  const Duration doubled = options_.pause_first * (int64_t{1} << std::min(call.tries, kDoublingsMax));
  const Duration bound = std::min(doubled, options_.pause_max);
  Duration pause = std::chrono::duration_cast<Duration>(bound * random_.Unit());
  const std::string asked(reply.answer.Header("retry-after"));
  if (!asked.empty() && asked.size() < 4 && asked.find_first_not_of("0123456789") == std::string::npos) {
    pause += std::min<Duration>(std::chrono::seconds(std::stoi(asked)), options_.pause_max);
  }
  return pause;
}

}  // namespace kedge::s3

#include "store/s3/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "os/process/thread.h"
#include "store/s3/curl_library.h"

namespace kedge::s3 {

namespace {

constexpr int kSmallBesideBulk = 8;
constexpr long kCopyBytes = 512 << 10;
constexpr int kPollMsMax = 1000;
constexpr uint64_t kErrorBytesMax = 64 << 10;
constexpr size_t kIdleHandlesMax = 64;

// A request on its way, and what has come back of it.
struct Transfer {
  HttpRequest request;
  HttpClient::Done done;
  HttpAnswer answer;
  size_t sent = 0;
  bool overflows = false;
  curl_off_t moved = 0;  // bytes of bodies, both ways
  int64_t heard_ns = 0;  // when the last byte passed
  int64_t silence_max_ns = 0;
  bool is_silent = false;                   // for longer than that
  std::array<char, CURL_ERROR_SIZE> why{};  // in libcurl's words; empty: it says no more than the code
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  const CurlLibrary* curl = nullptr;
};

// No program that the application starts inherits it.
curl_socket_t OpenSocket(void* /*context*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

size_t SendBody(char* to, size_t size, size_t count, void* context) {
  auto* const transfer = static_cast<Transfer*>(context);
  const size_t bytes = std::min(size * count, transfer->request.body.size() - transfer->sent);
  if (bytes > 0) std::memcpy(to, transfer->request.body.data() + transfer->sent, bytes);
  transfer->sent += bytes;
  return bytes;
}

// A connection that was kept and has died: the body goes again from its beginning.
int SeekBody(void* context, curl_off_t offset, int origin) {
  auto* const transfer = static_cast<Transfer*>(context);
  if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > transfer->request.body.size())
    return CURL_SEEKFUNC_FAIL;
  transfer->sent = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

size_t TakeBody(char* from, size_t size, size_t count, void* context) {
  auto* const transfer = static_cast<Transfer*>(context);
  const size_t bytes = size * count;
  HttpAnswer& answer = transfer->answer;
  long status = 0;
  transfer->curl->easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  if (!transfer->request.into.empty() && status / 100 == 2) {
    transfer->overflows = bytes > transfer->request.into.size() - answer.into_bytes;
    if (transfer->overflows) return 0;
    std::memcpy(transfer->request.into.data() + answer.into_bytes, from, bytes);
    answer.into_bytes += bytes;
    return bytes;
  }
  // An error says what is wrong, however little was asked for.
  const uint64_t body_max = status / 100 == 2 ? transfer->request.body_max : kErrorBytesMax;
  transfer->overflows = bytes > body_max - answer.body.size();
  if (transfer->overflows) return 0;
  const auto* const data = reinterpret_cast<const std::byte*>(from);
  answer.body.insert(answer.body.end(), data, data + bytes);
  return bytes;
}

size_t TakeHeader(char* from, size_t size, size_t count, void* context) {
  auto* const transfer = static_cast<Transfer*>(context);
  const std::string_view line(from, size * count);
  transfer->heard_ns = SystemClock().NowNs();
  if (line.starts_with("HTTP/")) {
    transfer->answer.headers.clear();  // those before were of an interim answer
    return line.size();
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front()))) value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back()))) value.remove_suffix(1);
  transfer->answer.headers.emplace_back(std::move(name), std::string(value));
  return line.size();
}

// libcurl's own limit of speed does not count heads, and knows whole seconds alone.
int WatchSilence(void* context, curl_off_t /*down_total*/, curl_off_t down, curl_off_t /*up_total*/, curl_off_t up) {
  auto* const transfer = static_cast<Transfer*>(context);
  const int64_t now_ns = SystemClock().NowNs();
  if (down + up != transfer->moved) transfer->heard_ns = now_ns;
  transfer->moved = down + up;
  transfer->is_silent = now_ns - transfer->heard_ns > transfer->silence_max_ns;
  return transfer->is_silent ? 1 : 0;
}

Status Closed(const HttpRequest& request) {
  return Status(Code::kFailedPrecondition, request.method + ' ' + request.url + ": the client was closed");
}

// Such an error stays: asking again is of no use.
bool IsOfCertificates(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
}

Status NotTrusted(const std::string& what, CURLcode code, const Transfer& transfer, const std::string& ca_file) {
  const std::string why = transfer.why[0] == '\0' ? transfer.curl->easy_strerror(code) : transfer.why.data();
  if (code == CURLE_SSL_CACERT_BADFILE) {
    return Status(Code::kPermission,
                  fmt::format("{}: the file of certificates to trust cannot be used: {}: {}", what, ca_file, why));
  }
  return Status(Code::kPermission,
                fmt::format("{}: the server's certificate is not trusted ({}): name the file of the authority that has signed it "
                            "with ca=FILE in the store's path, or in AWS_CA_BUNDLE",
                            what, why));
}

long Milliseconds(Duration duration) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

std::string_view HttpAnswer::Header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, [](const auto& header) { return std::string_view(header.first); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

class HttpClient::Loop {
 public:
  Loop(const CurlLibrary& curl, const HttpOptions& options) : curl_(curl), options_(options) {}
  ~Loop();
  Status Begin();

  void Add(std::unique_ptr<Transfer> transfer);
  void AddTimer(Duration delay, std::function<void()> then);

 private:
  void Run();
  // Of what came in; false: the client ends.
  bool TakeIn();
  void StartSome();
  void StartOne(std::unique_ptr<Transfer> transfer);
  void SetUp(Transfer* transfer);
  void Finish(CURL* easy, CURLcode code);
  void RunTimers();
  int PollMs() const;
  void EndAll();

  const CurlLibrary& curl_;
  const HttpOptions options_;
  CURLM* multi_ = nullptr;
  std::thread thread_;

  std::mutex mutex_;
  // Guarded by mutex_:
  bool stops_ = false;
  std::vector<std::unique_ptr<Transfer>> incoming_;
  std::vector<std::pair<int64_t, std::function<void()>>> incoming_timers_;

  // Of the thread alone:
  std::deque<std::unique_ptr<Transfer>> bulk_, small_;
  std::map<CURL*, std::unique_ptr<Transfer>> running_;
  uint32_t bulk_running_ = 0;
  std::multimap<int64_t, std::function<void()>> timers_;
  std::vector<CURL*> idle_;
};

HttpClient::Loop::~Loop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  if (thread_.joinable()) {
    curl_.multi_wakeup(multi_);
    thread_.join();
  }
  for (CURL* const easy : idle_) curl_.easy_cleanup(easy);
  if (multi_ != nullptr) curl_.multi_cleanup(multi_);
}

Status HttpClient::Loop::Begin() {
  multi_ = curl_.multi_init();
  if (multi_ == nullptr) return Status(Code::kNoSpace, "no memory for an HTTP client");
  curl_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections) + kSmallBesideBulk);
  KEDGE_ASSIGN_OR_RETURN(thread_, os::StartThread("kedge-http", [this] { Run(); }));
  return Status::Ok();
}

void HttpClient::Loop::Add(std::unique_ptr<Transfer> transfer) {
  {
    const std::lock_guard lock(mutex_);
    incoming_.push_back(std::move(transfer));
  }
  curl_.multi_wakeup(multi_);
}

void HttpClient::Loop::AddTimer(Duration delay, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    incoming_timers_.emplace_back(SystemClock().NowNs() + delay.count(), std::move(then));
  }
  curl_.multi_wakeup(multi_);
}

bool HttpClient::Loop::TakeIn() {
  const std::lock_guard lock(mutex_);
  for (auto& transfer : incoming_) {
    auto& queue = transfer->request.is_bulk ? bulk_ : small_;
    queue.push_back(std::move(transfer));
  }
  incoming_.clear();
  for (auto& [at_ns, then] : incoming_timers_) timers_.emplace(at_ns, std::move(then));
  incoming_timers_.clear();
  return !stops_;
}

void HttpClient::Loop::StartSome() {
  while (!small_.empty() && running_.size() < options_.connections + kSmallBesideBulk) {
    std::unique_ptr<Transfer> next = std::move(small_.front());
    small_.pop_front();
    StartOne(std::move(next));
  }
  while (!bulk_.empty() && bulk_running_ < options_.connections) {
    std::unique_ptr<Transfer> next = std::move(bulk_.front());
    bulk_.pop_front();
    ++bulk_running_;
    StartOne(std::move(next));
  }
}

void HttpClient::Loop::StartOne(std::unique_ptr<Transfer> transfer) {
  if (idle_.empty()) {
    transfer->easy = curl_.easy_init();
    KEDGE_CHECK(transfer->easy != nullptr);
  } else {
    transfer->easy = idle_.back();
    idle_.pop_back();
  }
  SetUp(transfer.get());
  CURL* const easy = transfer->easy;
  running_.emplace(easy, std::move(transfer));
  if (curl_.multi_add_handle(multi_, easy) != CURLM_OK) Finish(easy, CURLE_FAILED_INIT);
}

void HttpClient::Loop::SetUp(Transfer* transfer) {
  const HttpRequest& request = transfer->request;
  CURL* const easy = transfer->easy;
  transfer->curl = &curl_;
  curl_.easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->why.data());
  curl_.easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_.easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_.easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  curl_.easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options_.connect_timeout));
  if (request.timeout > Duration::zero()) curl_.easy_setopt(easy, CURLOPT_TIMEOUT_MS, Milliseconds(request.timeout));
  transfer->heard_ns = SystemClock().NowNs();
  transfer->silence_max_ns = options_.silence_timeout.count();
  curl_.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &WatchSilence);
  curl_.easy_setopt(easy, CURLOPT_XFERINFODATA, transfer);
  curl_.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  // A large buffer where much passes, and nowhere else: each connection has its own.
  if (!request.into.empty()) curl_.easy_setopt(easy, CURLOPT_BUFFERSIZE, kCopyBytes);
  if (request.is_bulk && !request.body.empty()) curl_.easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kCopyBytes);
  if (!options_.ca_file.empty()) curl_.easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  curl_.easy_setopt(easy, CURLOPT_HEADERFUNCTION, &TakeHeader);
  curl_.easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
  curl_.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &TakeBody);
  curl_.easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  if (request.method == "HEAD") {
    curl_.easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    curl_.easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_.easy_setopt(easy, CURLOPT_READFUNCTION, &SendBody);
    curl_.easy_setopt(easy, CURLOPT_READDATA, transfer);
    curl_.easy_setopt(easy, CURLOPT_SEEKFUNCTION, &SeekBody);
    curl_.easy_setopt(easy, CURLOPT_SEEKDATA, transfer);
    curl_.easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  } else if (request.method != "GET") {
    curl_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  for (const auto& [name, value] : request.headers) {
    // "name;" is libcurl's way to send a header without a value.
    transfer->headers = curl_.slist_append(transfer->headers, (value.empty() ? name + ';' : name + ": " + value).c_str());
  }
  // A round trip that servers answer at once, or not at all.
  transfer->headers = curl_.slist_append(transfer->headers, "expect:");
  curl_.easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
}

void HttpClient::Loop::Finish(CURL* easy, CURLcode code) {
  const auto found = running_.find(easy);
  const std::unique_ptr<Transfer> transfer = std::move(found->second);
  running_.erase(found);
  if (transfer->request.is_bulk) --bulk_running_;
  long status = 0;
  curl_.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_.multi_remove_handle(multi_, easy);
  curl_.slist_free_all(transfer->headers);
  curl_.easy_reset(easy);
  if (idle_.size() < kIdleHandlesMax) {
    idle_.push_back(easy);
  } else {
    curl_.easy_cleanup(easy);
  }
  const std::string what = transfer->request.method + ' ' + transfer->request.url;
  if (transfer->overflows) {
    transfer->done(Status(Code::kCorrupt, what + ": the answer is longer than what was asked for"));
  } else if (code == CURLE_OK) {
    transfer->answer.status = static_cast<int>(status);
    transfer->done(std::move(transfer->answer));
  } else if (transfer->is_silent) {
    transfer->done(Status(Code::kTimeout,
                          fmt::format("{}: no byte passed for {:.1f} s", what, ToSeconds(Duration(transfer->silence_max_ns)))));
  } else if (code == CURLE_ABORTED_BY_CALLBACK) {
    transfer->done(Closed(transfer->request));
  } else if (IsOfCertificates(code)) {
    transfer->done(NotTrusted(what, code, *transfer, options_.ca_file));
  } else {
    const Code kind = code == CURLE_OPERATION_TIMEDOUT ? Code::kTimeout : Code::kUnavailable;
    transfer->done(Status(kind, fmt::format("{}: {}", what, curl_.easy_strerror(code))));
  }
}

void HttpClient::Loop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first <= SystemClock().NowNs()) {
    const std::function<void()> then = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    then();
  }
}

int HttpClient::Loop::PollMs() const {
  // Silence is noticed when one looks.
  const int64_t most_ms =
      running_.empty() ? kPollMsMax : std::clamp<int64_t>(Milliseconds(options_.silence_timeout), 1, kPollMsMax);
  if (timers_.empty()) return static_cast<int>(most_ms);
  const int64_t left_ms = (timers_.begin()->first - SystemClock().NowNs()) / 1000000 + 1;
  return static_cast<int>(std::clamp<int64_t>(left_ms, 0, most_ms));
}

void HttpClient::Loop::Run() {
  while (TakeIn()) {
    RunTimers();
    static_cast<void>(TakeIn());  // a timer may have started something
    StartSome();
    int running = 0;
    curl_.multi_perform(multi_, &running);
    int left = 0;
    bool has_finished = false;
    while (const CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      has_finished = true;
      Finish(message->easy_handle, message->data.result);
    }
    if (!has_finished) curl_.multi_poll(multi_, nullptr, 0, PollMs(), nullptr);
  }
  EndAll();
}

// What a callback starts meanwhile ends, too.
void HttpClient::Loop::EndAll() {
  while (true) {
    while (!running_.empty()) Finish(running_.begin()->first, CURLE_ABORTED_BY_CALLBACK);
    for (auto* const queue : {&small_, &bulk_}) {
      while (!queue->empty()) {
        const std::unique_ptr<Transfer> transfer = std::move(queue->front());
        queue->pop_front();
        transfer->done(Closed(transfer->request));
      }
    }
    while (!timers_.empty()) {
      const std::function<void()> then = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      then();
    }
    static_cast<void>(TakeIn());
    if (small_.empty() && bulk_.empty() && timers_.empty()) return;
  }
}

HttpClient::HttpClient(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::Make(const HttpOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const CurlLibrary* const curl, LoadCurl());
  auto loop = std::make_unique<Loop>(*curl, options);
  KEDGE_RETURN_IF_ERROR(loop->Begin());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(loop)));
}

void HttpClient::Start(HttpRequest request, Done done) {
  auto transfer = std::make_unique<Transfer>();
  transfer->request = std::move(request);
  transfer->done = std::move(done);
  loop_->Add(std::move(transfer));
}

void HttpClient::After(Duration delay, std::function<void()> then) {
  loop_->AddTimer(delay, std::move(then));
}

Result<HttpAnswer> HttpClient::Do(HttpRequest request) {
  auto promise = std::make_shared<std::promise<Result<HttpAnswer>>>();
  std::future<Result<HttpAnswer>> future = promise->get_future();
  Start(std::move(request), [promise](Result<HttpAnswer> answer) { promise->set_value(std::move(answer)); });
  return future.get();
}

}  // namespace kedge::s3

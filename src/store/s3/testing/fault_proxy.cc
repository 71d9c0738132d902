#include "store/s3/testing/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "base/status.h"
#include "store/s3/testing/s3_server.h"

namespace kedge::s3::testing {

namespace {

// For longer than the tests' stores bear silence.
constexpr std::chrono::milliseconds kTricklePause{125};
constexpr size_t kTrickles = 16;
// Of a clock that is wrong, and that a server takes for right.
constexpr std::time_t kAheadSeconds = 600;

bool SendAll(int fd, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t now = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

bool Trickle(int fd, const std::string& bytes, const std::atomic<bool>& stops) {
  const size_t each = bytes.size() / kTrickles + 1;
  for (size_t at = 0; at < bytes.size(); at += each) {
    if (stops || !SendAll(fd, bytes.substr(at, each))) return false;
    std::this_thread::sleep_for(kTricklePause);
  }
  return true;
}

bool ReceiveMore(int fd, std::string* bytes) {
  char buffer[64 << 10];
  const ssize_t now = recv(fd, buffer, sizeof(buffer), 0);
  if (now > 0) bytes->append(buffer, static_cast<size_t>(now));
  return now > 0;
}

// The value of a header of a whole head; empty: there is none.
std::string HeaderOf(const std::string& head, std::string name) {
  std::string lower = head;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t at = lower.find("\r\n" + name + ": ");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

// A head, and the body that it announces; nothing when the connection ends. `bytes` keeps what came beyond.
std::optional<std::string> TakeMessage(int fd, std::string* bytes, bool is_answer, bool has_body) {
  size_t end = 0;
  while ((end = bytes->find("\r\n\r\n")) == std::string::npos) {
    if (!ReceiveMore(fd, bytes)) return std::nullopt;
  }
  const std::string head = bytes->substr(0, end + 2);
  size_t whole = end + 4;
  const std::string length = HeaderOf(head, "content-length");
  const bool is_empty = !has_body || head.find(" 204 ") == 8 || head.find(" 304 ") == 8;
  if (is_empty) {
    // whatever it announces
  } else if (!length.empty()) {
    whole += std::stoul(length);
    while (bytes->size() < whole && ReceiveMore(fd, bytes)) continue;
    if (bytes->size() < whole) return std::nullopt;
  } else if (is_answer && HeaderOf(head, "transfer-encoding") == "chunked") {
    while (bytes->find("\r\n0\r\n\r\n", end) == std::string::npos && ReceiveMore(fd, bytes)) continue;
    whole = bytes->size();
  } else if (is_answer) {
    while (ReceiveMore(fd, bytes)) continue;
    whole = bytes->size();
  }
  std::string message = bytes->substr(0, whole);
  bytes->erase(0, whole);
  return message;
}

std::optional<std::string> Ask(uint16_t port, const std::string& request, bool has_body) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  std::optional<std::string> answer;
  std::string bytes;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && SendAll(fd, request)) {
    answer = TakeMessage(fd, &bytes, /*is_answer=*/true, has_body);
  }
  close(fd);
  return answer;
}

std::string Answer(const std::string& status, const std::string& code, std::time_t ahead = 0) {
  const std::string body = "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>by the proxy</Message></Error>";
  char date[64] = {};
  const std::time_t now = std::time(nullptr) + ahead;
  std::tm time{};
  std::strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &time));
  return "HTTP/1.1 " + status + "\r\nDate: " + date + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string Said(const std::string& body) {
  return (body.empty() ? "HTTP/1.1 404 Not Found" : "HTTP/1.1 200 OK") + ("\r\nContent-Length: " + std::to_string(body.size())) +
         "\r\n\r\n" + body;
}

}  // namespace

const char* FaultName(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "None";
    case Fault::kCutBefore: return "CutBefore";
    case Fault::kCutAfter: return "CutAfter";
    case Fault::kError500: return "Error500";
    case Fault::kError500After: return "Error500After";
    case Fault::kSlowDown503: return "SlowDown503";
    case Fault::kTruncated: return "Truncated";
    case Fault::kErrorIn200: return "ErrorIn200";
    case Fault::kConflict409: return "Conflict409";
    case Fault::kNotImplemented501: return "NotImplemented501";
    case Fault::kSkewed403: return "Skewed403";
    case Fault::kDenied403: return "Denied403";
    case Fault::kFull507: return "Full507";
    case Fault::kStalled: return "Stalled";
    case Fault::kTrickled: return "Trickled";
    case Fault::kPretended204: return "Pretended204";
  }
  return "unknown";
}

FaultProxy::FaultProxy(uint16_t server_port) : server_port_(server_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = LoopbackAddress(0);
  socklen_t bytes = sizeof(address);
  KEDGE_CHECK(bind(listener_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0);
  KEDGE_CHECK(listen(listener_, 64) == 0);
  KEDGE_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Listen(); });
}

FaultProxy::~FaultProxy() {
  stops_ = true;
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  std::vector<std::thread> serving;
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
    serving.swap(serving_);
  }
  for (std::thread& one : serving) one.join();
  close(listener_);
}

void FaultProxy::Use(Choose choose) {
  const std::lock_guard lock(mutex_);
  choose_ = std::move(choose);
  requests_.clear();
}

std::vector<std::string> FaultProxy::Requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FaultProxy::AnswerWith(Say say) {
  const std::lock_guard lock(mutex_);
  say_ = std::move(say);
}

void FaultProxy::AskFor(More more) {
  const std::lock_guard lock(mutex_);
  more_ = std::move(more);
}

std::optional<std::string> FaultProxy::AnswerTo(std::string request, bool has_body) {
  Say say;
  More more;
  {
    const std::lock_guard lock(mutex_);
    say = say_;
    more = more_;
  }
  if (say) return Said(say(request));
  const size_t end = request.find(" HTTP/");
  const std::string added = more ? more(request.substr(0, end)) : "";
  if (!added.empty()) request.insert(end, (request.find('?') < end ? "&" : "?") + added);
  return Ask(server_port_, request, has_body);
}

Fault FaultProxy::FaultOf(const std::string& request) {
  Choose choose;
  size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = requests_.size();
    requests_.push_back(request);
    choose = choose_;
  }
  return choose ? choose(number, request) : Fault::kNone;  // it may wait for other requests
}

void FaultProxy::Listen() {
  while (!stops_) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    serving_.emplace_back([this, connection] { Serve(connection); });
  }
}

void FaultProxy::Serve(int connection) {
  std::string bytes;
  while (!stops_) {
    const std::optional<std::string> request = TakeMessage(connection, &bytes, /*is_answer=*/false, /*has_body=*/true);
    if (!request) break;
    const std::string line = request->substr(0, request->find(" HTTP/"));
    const bool has_body = !line.starts_with("HEAD ");
    const Fault fault = FaultOf(line);
    if (fault == Fault::kCutBefore) break;
    std::optional<std::string> answer;
    switch (fault) {
      case Fault::kError500: answer = Answer("500 Internal Server Error", "InternalError"); break;
      case Fault::kSlowDown503: answer = Answer("503 Slow Down", "SlowDown"); break;
      case Fault::kConflict409: answer = Answer("409 Conflict", "ConditionalRequestConflict"); break;
      case Fault::kNotImplemented501: answer = Answer("501 Not Implemented", "NotImplemented"); break;
      case Fault::kSkewed403: answer = Answer("403 Forbidden", "RequestTimeTooSkewed", kAheadSeconds); break;
      case Fault::kDenied403: answer = Answer("403 Forbidden", "AccessDenied"); break;
      case Fault::kFull507: answer = Answer("507 Insufficient Storage", "QuotaExceeded"); break;
      case Fault::kErrorIn200: answer = Answer("200 OK", "InternalError"); break;
      case Fault::kPretended204: answer = "HTTP/1.1 204 No Content\r\n\r\n"; break;
      default: answer = AnswerTo(*request, has_body); break;
    }
    if (!answer || fault == Fault::kCutAfter) break;
    if (fault == Fault::kError500After) answer = Answer("500 Internal Server Error", "InternalError");
    if (fault == Fault::kStalled) {
      const auto end = std::chrono::steady_clock::now() + stall_.load();
      while (!stops_ && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const size_t head = answer->find("\r\n\r\n") + 4;
    const bool is_made_here = fault == Fault::kError500 || fault == Fault::kError500After || fault == Fault::kSlowDown503 ||
                              fault == Fault::kConflict409 || fault == Fault::kNotImplemented501 || fault == Fault::kSkewed403 ||
                              fault == Fault::kDenied403 || fault == Fault::kFull507 || fault == Fault::kErrorIn200;
    if (is_made_here && !has_body) answer->resize(head);
    if (fault == Fault::kTruncated) {
      SendAll(connection, answer->substr(0, head + (answer->size() - head) / 2));
      break;
    }
    if (!(fault == Fault::kTrickled ? Trickle(connection, *answer, stops_) : SendAll(connection, *answer))) break;
    if (HeaderOf(answer->substr(0, head), "connection") == "close") break;
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase(connections_, connection);
  }
  shutdown(connection, SHUT_RDWR);
  close(connection);
}

}  // namespace kedge::s3::testing

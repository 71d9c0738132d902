// A proxy in front of an S3 server that spoils chosen requests.
//
// It takes one request at a time from each connection, asks the server over a connection of its own, and hands the whole answer
// on; so it knows what has had its effect when it withholds the answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace kedge::s3::testing {

enum class Fault {
  kNone,
  kCutBefore,  // the connection ends, the server has seen nothing
  kCutAfter,   // the server has done it, and the answer is lost
  kError500,   // instead of asking the server
  kError500After,
  kSlowDown503,
  kTruncated,   // the answer's body ends in its middle
  kErrorIn200,  // a good status, and an <Error> for its body; the server has seen nothing
  kConflict409,
  kNotImplemented501,
  kSkewed403,  // as to one whose clock is wrong
  kDenied403,
  kFull507,
  kStalled,       // the answer does not come in time
  kTrickled,      // it comes whole, a few bytes at a time
  kPretended204,  // "204 No Content", and the server has seen nothing
};
const char* FaultName(Fault fault);

class FaultProxy {
 public:
  // "PUT /bucket/key?partNumber=1&uploadId=..." of the request that is the `number`-th, from 0.
  using Choose = std::function<Fault(size_t number, const std::string& request)>;

  explicit FaultProxy(uint16_t server_port);
  ~FaultProxy();

  uint16_t port() const { return port_; }
  std::string Endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // Where the server is from now on.
  void ServerMoves(uint16_t server_port) { server_port_ = server_port; }
  // From now on, counted anew.
  void Use(Choose choose);
  // From now on the server is not asked: this says the body of the answer to a request (head and body); empty: 404.
  using Say = std::function<std::string(const std::string& request)>;
  void AnswerWith(Say say);
  // What the server is asked beside what the client asks: "max-keys=2", or nothing. For servers that look at no signatures.
  using More = std::function<std::string(const std::string& request)>;
  void AskFor(More more);
  // How late an answer is that stalls.
  void StallFor(std::chrono::milliseconds stall) { stall_ = stall; }
  // Since Use.
  std::vector<std::string> Requests() const;

 private:
  void Listen();
  void Serve(int connection);
  Fault FaultOf(const std::string& request);
  // Of the server, or of who speaks for it.
  std::optional<std::string> AnswerTo(std::string request, bool has_body);

  std::atomic<uint16_t> server_port_;
  uint16_t port_ = 0;
  int listener_ = -1;
  std::atomic<bool> stops_{false};
  std::atomic<std::chrono::milliseconds> stall_{std::chrono::milliseconds(2500)};
  std::thread thread_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  Choose choose_;
  Say say_;
  More more_;
  std::vector<std::string> requests_;
  std::vector<std::thread> serving_;
  std::vector<int> connections_;
};

}  // namespace kedge::s3::testing

// Streams: threads of nodes that write requests to objects one after the other, as agents' flush workers do.
//
// A request reads its bytes from local storage, or has them from other nodes, which are asked for them while the one before is
// written; takes the lock of the object's part on its target, where several nodes write to the object; is copied by its thread;
// and is served by the target. Then the next begins.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/random.h"
#include "striped/events.h"
#include "striped/machine.h"

namespace kedge::bench {

inline constexpr uint32_t kNoLock = UINT32_MAX;

struct Request {
  struct Pull {
    uint32_t node = 0;
    uint64_t bytes = 0;
  };
  uint32_t target = 0;
  uint32_t lock = kNoLock;
  uint64_t own_bytes = 0;
  std::vector<Pull> pulls;
  uint64_t bytes() const {
    uint64_t sum = own_bytes;
    for (const Pull& pull : pulls) sum += pull.bytes;
    return sum;
  }
};

// Makes requests when they are needed: a large study has a million.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  // False: the stream has no more.
  virtual bool Next(uint32_t stream, Request* request) = 0;
};

class Streams {
 public:
  // `nodes_of`: the node of each stream. Each opens one object first.
  Streams(const Machine& machine, std::vector<uint32_t> nodes_of, uint32_t nodes, uint32_t locks, uint64_t seed,
          RequestSource& source);
  // Returns when the last request has been served, if all begin at `start`.
  double Run(double start);
  uint64_t hand_overs() const { return hand_overs_; }

 private:
  enum class Step : uint8_t { kBegin, kLock, kCopy, kServe, kEnd };
  struct Stream {
    uint32_t node = 0;
    Request now;
    Request next;
    bool has_next = false;
    double next_ready = 0;  // its pulls have arrived
  };

  // Takes the next request, and asks other nodes for its bytes.
  void Fetch(double now, uint32_t stream);
  void Do(double now, uint32_t stream, Step step);
  void Granted(double now, uint32_t stream, bool handed_over);

  const Machine& machine_;
  RequestSource& source_;
  Random random_;
  Events<Step> events_;
  std::vector<Stream> streams_;
  std::vector<Lock> locks_;
  std::vector<Server> targets_, nodes_, in_, out_;
  Server metadata_;
  uint64_t hand_overs_ = 0;
  double end_ = 0;
};

}  // namespace kedge::bench

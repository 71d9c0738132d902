// What this agent does for those of other nodes: it answers their messages, and lends them memory to read.
//
// A module registers, in its constructor, the messages that it answers. One that arrives is decoded, and checked against the job
// in whose name its sender was admitted, before the module sees it. Messages are answered while the network is open (Open until
// Close). On the event loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "agent/peers/peer_messages.h"
#include "agent/peers/sealed_reads.h"
#include "agent/tables/job.h"
#include "net/measure.h"
#include "net/network.h"

namespace kedge {

class AgentCore;

class PeerService {
 public:
  explicit PeerService(AgentCore& core) : core_(core) {}

  // Messages of that kind go to `handle`. `handle(Job&, const net::Peer&, const Request&, net::Answer)` answers, then or later;
  // what `handle(Job&, const Request&)` returns is the answer: a message, an encoded one, a status, a Result of these, or
  // nothing. REQUIRES: the network is not open yet, and nobody else answers them.
  template <typename Request, typename Handle>
  void On(PeerKind kind, Result<Request> (*decode)(ByteSpan), Handle handle) {
    Register(kind, [this, decode, handle](const net::Peer& peer, ByteSpan body, net::Answer answer) {
      const auto request = decode(body);
      if (!request.ok()) return answer(request.status());
      const auto job = Admit(peer, KeyOf(*request));
      if (!job.ok()) return answer(job.status());
      if constexpr (std::is_invocable_v<const Handle&, Job&, const net::Peer&, const Request&, net::Answer>) {
        handle(**job, peer, *request, std::move(answer));
      } else if constexpr (std::is_void_v<std::invoke_result_t<const Handle&, Job&, const Request&>>) {
        handle(**job, *request);
        answer(Buffer());
      } else {
        answer(Encoded(handle(**job, *request)));
      }
    });
  }

  // The network is there; it must stay until Close.
  void Open(net::Network* network);
  void Close();

  // Lets the job's nodes read `memory`, as net::Network::Lease. REQUIRES: the network is open.
  Result<net::RemoteMemory> Lease(const Job& job, std::span<const std::byte> memory, Duration duration,
                                  std::function<void()> ended);
  // REQUIRES: the network is open.
  SealedReads& sealed_reads() { return *sealed_reads_; }
  // Of memory here that other nodes may be reading right now.
  size_t leases() const;

 private:
  static Result<Buffer> Encoded(Buffer body) { return body; }
  static Result<Buffer> Encoded(const Status& done) { return done.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(done); }
  template <typename Message>
  static Result<Buffer> Encoded(const Message& message) {
    return Encode(message);
  }
  template <typename Message>
  static Result<Buffer> Encoded(const Result<Message>& message) {
    return message.ok() ? Encoded(*message) : Result<Buffer>(message.status());
  }
  static JobKey KeyOf(const ReadRequest& request) {
    return JobKeyOf(request.of_object ? request.set.generation : request.generation);
  }
  // Messages about a whole job have its name alone.
  template <typename Request>
  static JobKey KeyOf(const Request& request) {
    if constexpr (requires { request.generation; }) {
      return JobKeyOf(request.generation);
    } else if constexpr (requires { request.set; }) {
      return JobKeyOf(request.set.generation);
    } else {
      return {request.store_id, request.job};
    }
  }
  void Register(PeerKind kind, net::Handler handler);
  // kNotFound: it is not here, or the peer was not admitted in its name.
  Result<Job*> Admit(const net::Peer& peer, const JobKey& key);

  AgentCore& core_;
  std::map<PeerKind, net::Handler> handlers_;
  net::Network* network_ = nullptr;  // null: not open
  std::shared_ptr<net::MeasureServer> measured_;
  std::shared_ptr<SealedReads> sealed_reads_;
  size_t leases_ = 0;  // of Lease
};

}  // namespace kedge

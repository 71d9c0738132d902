// The other nodes' agents: this agent's place on the network, the jobs in whose name it speaks there, and calls to their nodes.
//
// The network is opened when the first job that needs it comes (Hello::NeedsPeers) or is recovered, and never without one. Its
// address is kept in the run folder, and a successor binds it again, so that the others find it where they knew it. All answers
// come on the event loop's thread; workers have blocking calls of their own (PeerLink), which the loop completes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/peers/peer_service.h"
#include "agent/peers/read_gates.h"
#include "agent/tables/job.h"
#include "net/measure.h"
#include "net/network.h"

namespace kedge {

class AgentCore;

// An answer that is under way, for a thread that waits for it. Copies are of the same answer.
template <typename T>
class Pending {
 public:
  Pending() : state_(std::make_shared<State>()) {}
  // For whoever brings the answer, on any thread.
  std::function<void(Result<T>)> Setter() const {
    return [state = state_](Result<T> reply) {
      {
        const std::lock_guard lock(state->mutex);
        state->reply = std::move(reply);
      }
      state->came.notify_all();
    };
  }
  // Whether it has come by then.
  bool WaitUntilHere(Duration timeout) {
    std::unique_lock lock(state_->mutex);
    return state_->came.wait_for(lock, timeout, [&] { return state_->reply.has_value(); });
  }
  // Once. kTimeout when it has not come by then; it may never, when the agent leaves.
  Result<T> Wait(Duration timeout) {
    if (!WaitUntilHere(timeout)) return Status(Code::kTimeout, "no answer");
    const std::lock_guard lock(state_->mutex);
    return std::move(*state_->reply);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Result<T>> reply;
  };
  std::shared_ptr<State> state_;
};

// Bytes of another node, as a remote read or as a message. Let them go soon: the network's buffers are few.
class ArrivedBytes {
 public:
  ArrivedBytes() = default;
  explicit ArrivedBytes(net::ReadBuffer read) : read_(std::move(read)) {}
  ArrivedBytes(net::ReadBuffer read, const net::BlockSeal& seal) : read_(std::move(read)), seal_(seal) {}
  explicit ArrivedBytes(Buffer message) : message_(std::move(message)) {}
  ByteSpan bytes() const { return message_.empty() ? ByteSpan(read_.bytes()) : ByteSpan(message_); }
  // Once, by whoever takes them, before they are looked at. False: they were sealed, and are not what was.
  bool Open() { return !seal_.has_value() || net::OpenBlock(*std::exchange(seal_, std::nullopt), read_.bytes()); }

 private:
  net::ReadBuffer read_;
  std::optional<net::BlockSeal> seal_;
  Buffer message_;
};

// How a worker asks the nodes of one job. Any thread but the loop's; outlives the job, not the agent.
class PeerLink {
 public:
  // `seals`: this node reads nothing that is not sealed. `gates`: by which reads of images go; null: by none.
  PeerLink(net::Network* network, std::string job, bool seals, std::shared_ptr<ReadGates> gates = nullptr)
      : network_(network), job_(std::move(job)), seals_(seals), gates_(std::move(gates)) {}
  bool seals() const { return seals_; }
  const std::shared_ptr<ReadGates>& gates() const { return gates_; }
  // As the network names the job.
  const std::string& job() const { return job_; }

  // Waits for the answer at most `timeout`; errors name the peer.
  Result<Buffer> Ask(const std::string& node, PeerKind kind, Buffer body, Duration timeout) const;
  // The answer comes on the loop's thread.
  void AskAsync(const std::string& node, PeerKind kind, Buffer body, Duration timeout,
                std::function<void(Result<Buffer>)> done) const;
  // One-sided, without the node's attention. What arrives is unverified, and comes on the network's thread: `done` must not
  // block. The timeout is one without any read from the node that is done (net/network.h).
  void ReadAsync(const std::string& node, const net::RemoteMemory& memory, uint64_t offset, size_t bytes, Duration timeout,
                 std::function<void(Result<net::ReadBuffer>)> done) const;
  // Whether a one-sided read from the node was done that lately.
  bool IsBringing(const std::string& node, Duration lately) const;
  // Tells the node that nothing more is read there.
  void EndLease(const std::string& node, const net::RemoteMemory& memory) const;

 private:
  net::Network* network_;
  std::string job_;
  bool seals_;
  std::shared_ptr<ReadGates> gates_;
};

class Peers {
 public:
  explicit Peers(AgentCore& core) : core_(core), service_(core) {}
  ~Peers();

  // Opens the network unless it is open: `done` when that is over, at once or later on the loop. The first use of libfabric takes
  // a tenth of a second of processor time, so that happens on a thread of its own.
  void OpenThen(std::function<void()> done);
  bool is_open() const { return network_ != nullptr; }
  // As NodeAddress::ToText; empty when not open.
  std::string address() const;
  // The job's members are known, or others than before.
  Status Join(const Job& job);
  void Leave(const Job& job);
  void Close();

  // The job is about to go on with other members: those of its nodes that are not among them may hold images of it, and are told
  // in the name of the attempt that they know, while the job goes on. Who answers is a guest from then on.
  void Invite(Job& job, const Membership& members);
  // Whether some of them have yet to answer. After a moment who has not is left alone.
  bool IsInviting(const Job& job) const;
  // Guests that another node knows of; the names of those that are new here.
  std::vector<std::string> Learn(Job& job, const std::vector<GuestNode>& guests);
  // Makes the way to a node before it is needed.
  void Connect(const Job& job, const std::string& node);

  // `done` on the loop's thread, always, and never before Call has returned.
  void Call(const Job& job, const std::string& node, PeerKind kind, Buffer body, Duration timeout,
            std::function<void(Result<Buffer>)> done);
  // REQUIRES: is_open().
  PeerLink LinkFor(const Job& job) const;
  // For what nobody waits for: its reads wait while an application communicates.
  PeerLink LinkInBackground(const Job& job) const;
  ReadGates& gates() const { return *gates_; }
  // What this node does for the others.
  PeerService& service() { return service_; }
  // As the network names a job, and a node of it.
  static std::string NetworkName(const StoreId& store_id, const std::string& job);
  static net::Peer PeerOf(const Job& job, const std::string& node);
  // Null while not open.
  net::Network* network() const { return network_.get(); }

 private:
  // Nodes that an attempt leaves out, and that have yet to answer.
  struct Inviting {
    uint64_t number = 0;
    std::shared_ptr<const net::Membership> former;
    std::set<std::string> waiting;
  };
  Status Open();
  Status TakeOpened();
  Status Adopt(Result<std::unique_ptr<net::Network>> opened);
  net::NetworkOptions Options() const;
  Result<net::Membership> MembershipOf(const Job& job) const;
  void OnInvited(const JobKey& key, uint64_t number, const JobNode& node, bool answered);
  void InviteNode(const JobKey& key, uint64_t number, const JobNode& node, const Buffer& invitation);

  AgentCore& core_;
  PeerService service_;
  const std::shared_ptr<ReadGates> gates_ = std::make_shared<ReadGates>();
  std::unique_ptr<net::Network> network_;
  std::thread opener_;
  Result<std::unique_ptr<net::Network>> opened_ = Status(Code::kUnavailable, "not opened");  // by the opener
  std::vector<std::function<void()>> awaiting_;                                              // its end
  std::map<JobKey, Inviting> inviting_;
  uint64_t last_invitation_ = 0;
};

}  // namespace kedge

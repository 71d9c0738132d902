// The inside of a Network: its progress thread, the serving endpoint, the links, and the tables that other threads ask.
//
// The thread sleeps until the fabric, a command or a timer has something for it; providers without a descriptor to sleep on
// are asked at growing intervals, at most a millisecond apart. Everything here belongs to that thread but what `mutex_`
// guards, the lease table, the read pool and the command queue.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "net/fabric.h"
#include "net/lease_table.h"
#include "net/link.h"
#include "net/network.h"
#include "net/progress.h"
#include "net/read_pool.h"

namespace kedge::net {

class Network::Engine : public LinkHost {
 public:
  static Result<std::unique_ptr<Engine>> Open(NetworkOptions options);
  ~Engine() override;

  void Close();
  const NodeAddress& address() const override { return fabric_->address(); }
  Status Join(Membership membership);
  void Leave(const std::string& job);
  void Connect(const Peer& peer);
  void Serve(uint16_t kind, Handler handler);
  void Call(const Peer& peer, uint16_t kind, Buffer body, Duration timeout, std::function<void(Result<Buffer>)> done);
  Result<RemoteMemory> Lease(const std::string& job, std::span<const std::byte> memory, Duration duration,
                             std::function<void()> ended);
  void EndLease(uint64_t lease);
  void EndLease(const Peer& peer, const RemoteMemory& memory);
  void Read(const Peer& peer, ReadRequest request);
  std::vector<PeerState> Peers() const;
  NetworkCounters Counters() const;

 private:
  struct ReceiveSlot {
    fi_context2 context{};  // first: what the provider hands back
    std::byte* bytes = nullptr;
  };
  struct Delivery {
    std::function<void()> callback;
    bool is_read = false;  // then by this thread
  };
  struct Entry {
    std::unique_ptr<PeerState> state;
    std::unique_ptr<Link> link;
  };
  struct Parked {
    std::unique_ptr<Channel> channel;
    std::vector<size_t> buffers;
  };
  class Answering;

  explicit Engine(NetworkOptions options);
  Status OpenFabric();

  // LinkHost.
  const NetworkOptions& options() const override { return options_; }
  Fabric* fabric() override { return fabric_.get(); }
  Result<std::unique_ptr<Endpoint>> SendingEndpoint() override;
  bool MayRefuse() override;
  Timers* timers() override { return &timers_; }
  ReadPool* pool() override { return pool_.get(); }
  void* pool_descriptor() override { return pool_registration_.descriptor(); }
  void Deliver(std::function<void()> callback) override;
  void DeliverRead(std::function<void()> callback) override;
  void DeliverRequest(Link* link, uint64_t session, const MessageHead& head, Buffer body) override;
  void Park(std::unique_ptr<Channel> channel, std::vector<size_t> buffers) override;
  void SessionBegan(uint64_t session, Link* link) override;
  void SessionEnded(uint64_t session) override;
  void LeaseEndedByReader(const std::string& job, uint64_t lease) override;
  void ChangeState(PeerState* state, const std::function<void(PeerState*)>& change) override;
  void Count(std::function<void(NetworkCounters*)> change) override;

  // The thread.
  void Run();
  bool RunCommands();
  Status PostReceive(ReceiveSlot* slot);
  bool PollServing();
  void OnFrame(ByteSpan bytes);
  void OnHandshake(const Frame& frame);
  void RefuseFrame();
  // Says so now and then: whoever sent it cannot be told, and waits.
  void TellOfProtocol(const Status& what);
  // The link of whoever said this hello: of a member, or of a guest, who is let in now. Null: nobody's whom we would answer.
  Link* LinkOf(const Hello& hello);
  Link* AdmitGuest(const Hello& hello);
  // Forgets guests that have no session, and say no hello.
  void DropGuests();
  bool ProgressLinks();
  bool ProgressParked();
  void CountParked();
  void BeginReads();
  void EndExpiredLeases();
  void Tell(std::vector<LeaseTable::Ended> ended);
  void FlushDeliveries();
  // Whoever knows no peers yet has the time for it, and whoever has had nothing to do for a while: a few then, for nodes that
  // take the places of others. True when one more is ready.
  bool PrepareEndpoint(Duration idle_for);
  void Sleep(bool idle_before);
  void LeaveOpen();
  void SayBye();
  // Until the last words of `links` are sent, but not for long.
  void SendLastWords(const std::vector<Link*>& links);
  void EndLeasesOf(const std::string& job);
  void ApplyMembership(const std::string& job);
  Link* FindLink(const Peer& peer);
  // kNotFound, for the caller of a function that names a peer.
  Status NoSuchPeer(const Peer& peer) const;

  const NetworkOptions options_;
  std::shared_ptr<CommandQueue> commands_;
  std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<ReadPool> pool_;
  std::unique_ptr<Fabric> fabric_;
  Registration pool_registration_;
  std::unique_ptr<std::byte[]> receive_bytes_;
  Registration receive_registration_;
  std::vector<ReceiveSlot> receive_slots_;
  std::vector<ReceiveSlot*> unposted_;
  std::unique_ptr<Endpoint> serving_;
  LeaseTable leases_;
  std::thread thread_;
  std::mutex close_mutex_;

  // The progress thread's own.
  Timers timers_;
  std::map<Peer, Entry> links_;
  std::vector<Peer> left_guests_;  // whose session has ended, or whose time to prove themselves
  std::vector<Parked> parked_;
  std::vector<std::unique_ptr<Endpoint>> ahead_;
  std::unordered_map<uint64_t, Link*> sessions_;
  std::unordered_map<uint16_t, std::shared_ptr<const Handler>> handlers_;
  std::vector<Delivery> deliveries_;
  Peer last_served_;              // whose reads were begun last
  int64_t refused_ns_ = 0;        // when a hello was last answered with a refusal
  int64_t told_protocol_ns_ = 0;  // when the log last said that somebody speaks another protocol
  Duration pause_{};              // between questions to a provider without a descriptor
  bool stop_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<const Membership>> memberships_;
  std::vector<PeerState*> states_;
  NetworkCounters counters_;
};

}  // namespace kedge::net

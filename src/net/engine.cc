// See engine.h; the progress thread is in engine_thread.cc.
#include "net/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "os/events/poll_set.h"
#include "os/process/thread.h"

namespace kedge::net {
namespace {

constexpr size_t kReceiveSlots = 256;
constexpr size_t kSpareBuffers = 64;
constexpr size_t kMembersMax = 65536;
constexpr int64_t kLeaseGraceNs = 2'000'000'000;  // the reader counts from when it was told
constexpr Duration kRefusalPause = std::chrono::milliseconds(100);
constexpr Duration kByePause = std::chrono::microseconds(20);
constexpr Duration kByeTimeout = std::chrono::milliseconds(100);

Status CheckMembership(const Membership& membership) {
  const auto is_node_name = [](const std::string& name) { return !name.empty() && name.size() <= kNodeNameBytesMax; };
  if (membership.job.empty() || membership.job.size() > kJobNameBytesMax)
    return Status(Code::kInvalidArgument, fmt::format("a job's name has 1 to {} bytes", kJobNameBytesMax));
  if (!is_node_name(membership.self)) return Status(Code::kInvalidArgument, "this node's name is empty or too long");
  if (membership.secret.IsZero()) return Status(Code::kInvalidArgument, "the job's secret is empty");
  if (membership.members.size() > kMembersMax)
    return Status(Code::kInvalidArgument, fmt::format("{} members are more than {}", membership.members.size(), kMembersMax));
  std::set<std::string_view> names;
  for (const Member& member : membership.members) {
    if (!is_node_name(member.node) || member.address.empty() || member.address.bytes.size() > kAddressBytesMax)
      return Status(Code::kInvalidArgument, fmt::format("member \"{}\" has a bad name or address", member.node));
    if (!names.insert(member.node).second)
      return Status(Code::kInvalidArgument, fmt::format("node {} is there twice", member.node));
  }
  if (membership.former == nullptr) return Status::Ok();
  const Membership& former = *membership.former;
  if (former.job != membership.job || former.self != membership.self || former.attempt >= membership.attempt ||
      former.former != nullptr)
    return Status(Code::kInvalidArgument, fmt::format("attempt {} of job {} is not followed by attempt {} of job {}",
                                                      former.attempt, former.job, membership.attempt, membership.job));
  return CheckMembership(former);
}

}  // namespace

// --- opening and closing ------------------------------------------------------------------------------------------------------

Network::Engine::Engine(NetworkOptions options)
    : options_(std::move(options)),
      pool_(std::make_shared<ReadPool>(options_.read_buffers, kSpareBuffers, kReadBytesMax)),
      receive_slots_(kReceiveSlots),
      leases_(options_.leases_max) {}

Result<std::unique_ptr<Network::Engine>> Network::Engine::Open(NetworkOptions options) {
  if (options.inbox_bytes_max < kNetMessageBytesMax || options.outbox_bytes_max < kNetMessageBytesMax)
    return Status(Code::kInvalidArgument, fmt::format("inbox and outbox must hold a message of {} bytes", kNetMessageBytesMax));
  if (options.read_buffers == 0 || options.reads_per_peer_max == 0)
    return Status(Code::kInvalidArgument, "there must be at least one read buffer, and one read for each peer");
  std::unique_ptr<Engine> engine(new Engine(std::move(options)));
  KEDGE_ASSIGN_OR_RETURN(engine->commands_, CommandQueue::Create());
  KEDGE_RETURN_IF_ERROR(engine->OpenFabric());
  engine->pool_->OnRelease([commands = engine->commands_, raw = engine.get()] {
    // Commands are dropped once the engine is closed.
    commands->Post([raw] { raw->BeginReads(); });
  });
  KEDGE_ASSIGN_OR_RETURN(engine->thread_, os::StartThread("kedge-net", [raw = engine.get()] { raw->Run(); }));
  return engine;
}

Status Network::Engine::OpenFabric() {
  KEDGE_ASSIGN_OR_RETURN(fabric_, Fabric::Open(options_.provider, options_.interface_address, options_.former_address));
  auto serving = fabric_->OpenServing();
  if (!serving.ok()) {
    return options_.former_address.empty()
               ? serving.status().WithContext("opening an endpoint of " + fabric_->provider())
               : Status(Code::kUnavailable, fmt::format("cannot listen at {} again: {}", options_.former_address.ToDisplay(),
                                                        serving.status().message()));
  }
  serving_ = std::move(serving).value();
  KEDGE_ASSIGN_OR_RETURN(pool_registration_, fabric_->RegisterLocal(pool_->all()));
  receive_bytes_.reset(new std::byte[kReceiveSlots * kFrameBytesMax]);
  KEDGE_ASSIGN_OR_RETURN(receive_registration_, fabric_->RegisterLocal({receive_bytes_.get(), kReceiveSlots * kFrameBytesMax}));
  for (size_t slot = 0; slot < kReceiveSlots; ++slot) {
    receive_slots_[slot].bytes = receive_bytes_.get() + slot * kFrameBytesMax;
    KEDGE_RETURN_IF_ERROR(PostReceive(&receive_slots_[slot]));
  }
  return Status::Ok();
}

Network::Engine::~Engine() {
  Close();
}

void Network::Engine::Close() {
  const std::lock_guard<std::mutex> lock(close_mutex_);
  alive_->store(false);
  if (thread_.joinable()) {
    commands_->Post([this] { SayBye(); });
    thread_.join();
  }
  pool_->OnRelease(nullptr);
  if (commands_) commands_->Close();
  links_.clear();
  {
    const std::lock_guard<std::mutex> state_lock(mutex_);
    states_.clear();
  }
  for (const auto& [job, membership] : memberships_) leases_.EndJob(job);
  ahead_.clear();
  serving_.reset();
  deliveries_.clear();
  if (!parked_.empty()) LeaveOpen();
}

// What cannot be closed is left to the end of the process, with all that it may still touch.
void Network::Engine::LeaveOpen() {
  struct LeftOpen {
    std::shared_ptr<ReadPool> pool;
    std::unique_ptr<Fabric> fabric;
    Registration registration;
    std::vector<Parked> parked;
  };
  static std::mutex mutex;
  static auto* const left_open = new std::vector<LeftOpen>;
  LogWarning("net", "{} connections hang in reads and are left open", parked_.size());
  const std::lock_guard<std::mutex> lock(mutex);
  left_open->push_back({pool_, std::move(fabric_), std::move(pool_registration_), std::move(parked_)});
}

void Network::Engine::SayBye() {
  std::vector<Link*> all;
  for (auto& [peer, entry] : links_) all.push_back(entry.link.get());
  SendLastWords(all);
  stop_ = true;
}

void Network::Engine::SendLastWords(const std::vector<Link*>& links) {
  for (Link* link : links) link->SayBye();
  const Deadline deadline(SystemClock(), kByeTimeout);
  const auto unsent = [](const Link* link) { return link->HasUnsentBye(); };
  while (std::any_of(links.begin(), links.end(), unsent) && !deadline.Passed()) {
    bool any = false;
    for (Link* link : links) any = link->Progress() || any;
    if (!any) static_cast<void>(os::WaitReadable({}, kByePause));
  }
}

// --- what other threads call --------------------------------------------------------------------------------------------------

Status Network::Engine::Join(Membership membership) {
  KEDGE_RETURN_IF_ERROR(CheckMembership(membership));
  const std::string job = membership.job;
  bool newer = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto former = memberships_.find(job);
    if (former != memberships_.end()) {
      const Membership& was = *former->second;
      if (membership.attempt < was.attempt)
        return Status(Code::kMismatch,
                      fmt::format("job {} is at attempt {} here; attempt {} is over", job, was.attempt, membership.attempt));
      if (membership.attempt == was.attempt && !(membership.secret == was.secret))
        return Status(Code::kMismatch, fmt::format("attempt {} of job {} has another secret here", was.attempt, job));
      newer = membership.attempt > was.attempt;
    }
    memberships_[job] = std::make_shared<const Membership>(std::move(membership));
  }
  commands_->Post([this, job] { ApplyMembership(job); });
  if (newer) EndLeasesOf(job);
  return Status::Ok();
}

void Network::Engine::Leave(const std::string& job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    memberships_.erase(job);
  }
  commands_->Post([this, job] { ApplyMembership(job); });
  EndLeasesOf(job);
}

// At once, so that none that is made from now on is among them.
void Network::Engine::EndLeasesOf(const std::string& job) {
  auto ended = std::make_shared<std::vector<LeaseTable::Ended>>(leases_.EndJob(job));
  commands_->Post([this, ended] { Tell(std::move(*ended)); });
}

void Network::Engine::Connect(const Peer& peer) {
  commands_->Post([this, peer] {
    if (Link* link = FindLink(peer)) link->Connect();
  });
}

void Network::Engine::Serve(uint16_t kind, Handler handler) {
  commands_->Post([this, kind, shared = std::make_shared<const Handler>(std::move(handler))] { handlers_[kind] = shared; });
}

void Network::Engine::Call(const Peer& peer, uint16_t kind, Buffer body, Duration timeout,
                           std::function<void(Result<Buffer>)> done) {
  const int64_t deadline_ns = SystemClock().NowNs() + timeout.count();
  auto shared = std::make_shared<Buffer>(std::move(body));
  commands_->Post([this, peer, kind, shared, deadline_ns, done = std::move(done)]() mutable {
    Link* link = FindLink(peer);
    if (link == nullptr || shared->size() > kNetMessageBytesMax) {
      const Status why = link == nullptr
                             ? NoSuchPeer(peer)
                             : Status(Code::kNoSpace, fmt::format("a message of {} bytes to node {} is longer than {}",
                                                                  shared->size(), peer.node, kNetMessageBytesMax));
      Deliver([done = std::move(done), why] { done(why); });
      return;
    }
    link->Call(kind, std::move(*shared), deadline_ns, std::move(done));
  });
}

Result<RemoteMemory> Network::Engine::Lease(const std::string& job, std::span<const std::byte> memory, Duration duration,
                                            std::function<void()> ended) {
  if (memory.empty() || duration <= Duration::zero() || duration > std::chrono::hours(24))
    return Status(Code::kInvalidArgument, "a lease needs memory, and a duration of at most a day");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!memberships_.contains(job)) return Status(Code::kNotFound, fmt::format("job {} is unknown to this network", job));
  }
  KEDGE_ASSIGN_OR_RETURN(Registration registration, fabric_->RegisterRemote(memory, serving_.get()));
  RemoteMemory remote;
  remote.address = registration.address();
  remote.key = registration.key();
  remote.bytes = memory.size();
  remote.milliseconds = static_cast<uint32_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
  const int64_t end_ns = SystemClock().NowNs() + duration.count() + kLeaseGraceNs;
  KEDGE_ASSIGN_OR_RETURN(remote.lease, leases_.Add(job, std::move(registration), end_ns, std::move(ended)));
  commands_->Post([] {});  // so that the thread looks when it must wake
  return remote;
}

void Network::Engine::EndLease(uint64_t lease) {
  commands_->Post([this, lease] {
    auto ended = leases_.End(lease, "");
    if (ended && ended->callback) Deliver(std::move(ended->callback));
  });
}

void Network::Engine::EndLease(const Peer& peer, const RemoteMemory& memory) {
  commands_->Post([this, peer, lease = memory.lease] {
    if (Link* link = FindLink(peer)) link->EndRemoteLease(lease);
  });
}

void Network::Engine::Read(const Peer& peer, ReadRequest request) {
  auto shared = std::make_shared<ReadRequest>(std::move(request));
  commands_->Post([this, peer, shared] {
    Link* link = FindLink(peer);
    if (link != nullptr) {
      link->Read(std::move(*shared));
      return;
    }
    DeliverRead([done = std::move(shared->done), why = NoSuchPeer(peer)] { done(why); });
  });
}

std::vector<PeerState> Network::Engine::Peers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<PeerState> all;
  all.reserve(states_.size());
  for (const PeerState* state : states_) all.push_back(*state);
  return all;
}

NetworkCounters Network::Engine::Counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

// --- what links call ----------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Endpoint>> Network::Engine::SendingEndpoint() {
  if (ahead_.empty()) return fabric_->OpenSending();
  std::unique_ptr<Endpoint> endpoint = std::move(ahead_.back());
  ahead_.pop_back();
  Count([this](NetworkCounters* counters) { counters->endpoints_ahead = ahead_.size(); });
  return endpoint;
}

bool Network::Engine::MayRefuse() {
  const int64_t now_ns = SystemClock().NowNs();
  if (now_ns - refused_ns_ < Duration(kRefusalPause).count()) return false;
  refused_ns_ = now_ns;
  return true;
}

void Network::Engine::Deliver(std::function<void()> callback) {
  deliveries_.push_back({std::move(callback), false});
}

void Network::Engine::DeliverRead(std::function<void()> callback) {
  deliveries_.push_back({std::move(callback), true});
}

void Network::Engine::FlushDeliveries() {
  // A callback that runs here may not deliver more: it can only post commands.
  std::vector<Delivery> due;
  due.swap(deliveries_);
  for (Delivery& delivery : due) {
    auto guarded = [alive = alive_, callback = std::move(delivery.callback)] {
      if (alive->load()) callback();
    };
    if (options_.executor && !delivery.is_read) {
      options_.executor(std::move(guarded));
    } else {
      guarded();
    }
  }
}

// One answer to one request: sends what it is given first, and an error when it goes without.
class Network::Engine::Answering {
 public:
  Answering(Engine* engine, std::shared_ptr<CommandQueue> commands, Peer peer, uint64_t session, uint64_t call)
      : engine_(engine), commands_(std::move(commands)), peer_(std::move(peer)), session_(session), call_(call) {}
  ~Answering() { Send(Status(Code::kInternal, "the request was dropped without an answer")); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  void Send(Result<Buffer> reply) {
    if (sent_.exchange(true)) return;
    auto shared = std::make_shared<Result<Buffer>>(std::move(reply));
    // The queue drops it once the engine is closed.
    commands_->Post([engine = engine_, peer = peer_, session = session_, call = call_, shared] {
      if (Link* link = engine->FindLink(peer)) link->Reply(session, call, *shared);
    });
  }

 private:
  Engine* const engine_;
  const std::shared_ptr<CommandQueue> commands_;
  const Peer peer_;
  const uint64_t session_;
  const uint64_t call_;
  std::atomic<bool> sent_{false};
};

void Network::Engine::DeliverRequest(Link* link, uint64_t session, const MessageHead& head, Buffer body) {
  const size_t bytes = body.size();
  if (link->is_former()) {
    link->Handled(session, bytes);
    link->Reply(session, head.call, Status(Code::kUnavailable, "the job goes on in a later attempt here"));
    return;
  }
  const auto handler = handlers_.find(head.kind);
  if (handler == handlers_.end()) {
    link->Handled(session, bytes);
    link->Reply(session, head.call,
                Status(Code::kUnsupported, fmt::format("this agent serves no requests of kind {}", head.kind)));
    return;
  }
  const Peer peer = link->peer();
  auto answering = std::make_shared<Answering>(this, commands_, peer, session, head.call);
  auto shared = std::make_shared<Buffer>(std::move(body));
  Deliver(
      [this, commands = commands_, handler = handler->second, peer, session, bytes, shared, answering = std::move(answering)] {
        (*handler)(peer, *shared, [answering](Result<Buffer> reply) { answering->Send(std::move(reply)); });
        commands->Post([this, peer, session, bytes] {
          if (Link* handled = FindLink(peer)) handled->Handled(session, bytes);
        });
      });
}

void Network::Engine::Park(std::unique_ptr<Channel> channel, std::vector<size_t> buffers) {
  // Its buffers are replaced, so that a peer that hangs does not starve the others.
  for (size_t i = 0; i < buffers.size(); ++i) pool_->AddSpare();
  parked_.push_back({std::move(channel), std::move(buffers)});
  CountParked();
}

void Network::Engine::CountParked() {
  Count([this](NetworkCounters* counters) { counters->channels_parked = parked_.size(); });
}

bool Network::Engine::ProgressParked() {
  bool any = false;
  std::vector<Channel::DoneRead> done;
  for (auto parked = parked_.begin(); parked != parked_.end();) {
    const auto progressed = parked->channel->Progress(&done);
    any = any || (progressed.ok() && *progressed);
    if (parked->channel->ActiveReads() > 0) {
      ++parked;
      continue;
    }
    for (const size_t buffer : parked->buffers) pool_->Retire(buffer);
    parked = parked_.erase(parked);
    CountParked();
  }
  return any;
}

void Network::Engine::SessionBegan(uint64_t session, Link* link) {
  sessions_[session] = link;
}

void Network::Engine::SessionEnded(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const Link* link = found->second;
  sessions_.erase(found);
  if (!link->is_guest()) return;
  left_guests_.push_back(link->peer());
  if (link->membership()->guest_left)
    Deliver([membership = link->membership(), peer = link->peer()] { membership->guest_left(peer); });
}

void Network::Engine::LeaseEndedByReader(const std::string& job, uint64_t lease) {
  auto ended = leases_.End(lease, job);
  if (ended && ended->callback) Deliver(std::move(ended->callback));
}

void Network::Engine::ChangeState(PeerState* state, const std::function<void(PeerState*)>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change(state);
}

void Network::Engine::Count(std::function<void(NetworkCounters*)> change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change(&counters_);
}

}  // namespace kedge::net

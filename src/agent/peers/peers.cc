#include "agent/peers/peers.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/bring/inventories.h"
#include "agent/daemon/agent.h"
#include "agent/door/sessions.h"
#include "agent/images/images.h"
#include "agent/peers/held_stream.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/protect.h"
#include "agent/schedule/calls.h"
#include "agent/schedule/local_level.h"
#include "agent/schedule/takings.h"
#include "agent/schedule/turns.h"
#include "base/clock.h"
#include "base/log.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr size_t kAddressFileBytesMax = 4096;
constexpr Duration kLeaseDuration = std::chrono::seconds(60);
// A node that was left out is mostly dead, and a restart that needs more than the others have waits for it, unless its machine
// says that nobody is there.
constexpr Duration kInviteTimeout = std::chrono::milliseconds(1500);
constexpr Duration kProbeTimeout = std::chrono::milliseconds(500);
constexpr Duration kGoodbyeTime = std::chrono::milliseconds(100);
constexpr size_t kGuestsMax = 4096;
constexpr size_t kReadBuffers = 112;
constexpr size_t kEndpointsAhead = 8;  // as many as a usual group has peers, and one

std::string NetworkName(const StoreId& store_id, const std::string& job) {
  return store_id.ToHex() + "/" + job;
}

const Generation& GenerationOf(const ExchangeRequest& request) {
  return request.set.generation;
}
const Generation& GenerationOf(const GroupsNotice& notice) {
  return notice.generation;
}
const Generation& GenerationOf(const DescribeRequest& request) {
  return request.generation;
}
const Generation& GenerationOf(const TurnRequest& request) {
  return request.generation;
}
const Generation& GenerationOf(const LocalPromise& promise) {
  return promise.generation;
}
const Generation& GenerationOf(const LocalNews& news) {
  return news.generation;
}
const Generation& GenerationOf(const ImageIdentity& taking) {
  return taking.generation;
}
const Generation& GenerationOf(const SetRequest& request) {
  return request.set.generation;
}
const Generation& GenerationOf(const ReadRequest& request) {
  return request.of_object ? request.set.generation : request.generation;
}
template <typename Request>
Generation GenerationOf(const Request& request) {
  Generation generation;
  generation.store_id = request.store_id;
  generation.job = request.job;
  return generation;
}
Generation GenerationOf(const CallDecision& decision) {
  return GenerationOf(decision.call);
}

bool IsAmong(const std::vector<JobNode>& nodes, const std::string& name) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const JobNode& node) { return node.name == name; });
}

}  // namespace

Result<Buffer> PeerLink::Ask(const std::string& node, PeerKind kind, Buffer body, Duration timeout) const {
  Pending<Buffer> answer;
  AskAsync(node, kind, std::move(body), timeout, answer.Setter());
  // The network answers in time; the margin is for a loop that is busy, or gone.
  auto reply = answer.Wait(timeout + std::chrono::seconds(5));
  return reply.ok() ? std::move(reply) : reply.status().WithContext("node " + node);
}

void PeerLink::AskAsync(const std::string& node, PeerKind kind, Buffer body, Duration timeout,
                        std::function<void(Result<Buffer>)> done) const {
  network_->Call(net::Peer{job_, node}, static_cast<uint16_t>(kind), std::move(body), timeout, std::move(done));
}

void PeerLink::ReadAsync(const std::string& node, const net::RemoteMemory& memory, uint64_t offset, size_t bytes,
                         Duration timeout, std::function<void(Result<net::ReadBuffer>)> done) const {
  network_->Read(net::Peer{job_, node}, memory, offset, bytes, timeout, std::move(done));
}

bool PeerLink::IsBringing(const std::string& node, Duration lately) const {
  const std::vector<net::PeerState> peers = network_->Peers();
  return std::any_of(peers.begin(), peers.end(), [&](const net::PeerState& state) {
    return state.peer == net::Peer{job_, node} && state.read_ns + lately.count() > SystemClock().NowNs();
  });
}

void PeerLink::EndLease(const std::string& node, const net::RemoteMemory& memory) const {
  network_->EndLease(net::Peer{job_, node}, memory);
}

Peers::~Peers() {
  Close();
}

void Peers::Close() {
  if (network_ != nullptr) network_->Close();
  network_.reset();
  measured_.reset();
  sealed_.reset();
  inviting_.clear();
  leases_ = 0;
}

Status Peers::Open() {
  if (network_ != nullptr) return Status::Ok();
  const std::string path = agent_.Path("address");
  net::NetworkOptions options;
  options.provider = agent_.settings().net_provider;
  options.interface_address = agent_.settings().net_interface;
  // As many as all makers hold at once (set_source.h, stream_bringer.cc), and some for reads under way.
  options.read_buffers = kReadBuffers;
  options.endpoints_ahead = kEndpointsAhead;
  options.executor = [this](std::function<void()> work) { agent_.loop().Post(std::move(work)); };
  auto former = os::ReadFile(fs(), path, kAddressFileBytesMax);
  if (former.ok()) options.former_address = net::NodeAddress::FromText(*former).value_or(net::NodeAddress{});
  auto network = net::Network::Open(options);
  if (!network.ok() && !options.former_address.empty()) {
    LogWarning("agent", "the former address cannot be had again, so other nodes do not find this one until the next launch: {}",
               network.status().ToString());
    options.former_address = net::NodeAddress{};
    network = net::Network::Open(options);
  }
  if (!network.ok()) return network.status();
  network_ = std::move(*network);
  ServeAll();
  LogInfo("agent", "other nodes reach this one at {}", network_->address().ToDisplay());
  return os::WriteFileDurably(fs(), path, network_->address().ToText(), "agent");
}

void Peers::OpenAhead() {
  const Status opened = Open();
  if (!opened.ok()) LogWarning("agent", "no network between nodes: {}", opened.ToString());
}

std::string Peers::address() const {
  return network_ == nullptr ? std::string() : network_->address().ToText();
}

Result<net::Membership> Peers::MembershipOf(const Job& job) const {
  net::Membership membership;
  membership.job = NetworkName(job.store_id, job.name);
  membership.attempt = job.members.attempt;
  membership.self = agent_.settings().node;
  const auto secret = net::Secret::FromHex(job.members.secret);
  if (!secret.has_value()) return Status(Code::kInvalidArgument, fmt::format("job {}: its secret is not one", job.name));
  membership.secret = *secret;
  for (const auto* nodes : {&job.members.nodes, &job.guests}) {
    for (const JobNode& node : *nodes) {
      const auto address = net::NodeAddress::FromText(node.address);
      if (address.has_value()) membership.members.push_back({node.name, *address});
    }
  }
  return membership;
}

Status Peers::Join(const Job& job) {
  KEDGE_RETURN_IF_ERROR(Open());
  KEDGE_ASSIGN_OR_RETURN(net::Membership membership, MembershipOf(job));
  const auto inviting = inviting_.find(JobKey(job.store_id, job.name));
  if (inviting != inviting_.end() && inviting->second.former->attempt < membership.attempt) {
    membership.former = inviting->second.former;
  }
  return network_->Join(std::move(membership));
}

void Peers::Connect(const Job& job, const std::string& node) {
  if (network_ != nullptr) network_->Connect(PeerOf(job, node));
}

bool Peers::IsInviting(const Job& job) const {
  return inviting_.contains(JobKey(job.store_id, job.name));
}

void Peers::Invite(Job& job, const Membership& members) {
  const JobKey key(job.store_id, job.name);
  inviting_.erase(key);
  std::vector<JobNode> left_out;
  for (const auto* nodes : {&job.members.nodes, &job.guests}) {
    for (const JobNode& node : *nodes) {
      const bool known = node.name == agent_.settings().node || IsAmong(members.nodes, node.name) || IsAmong(left_out, node.name);
      if (!known && net::NodeAddress::FromText(node.address).has_value())
        left_out.push_back({node.name, node.failure_domain, node.address, {}});
    }
  }
  auto former = is_open() ? MembershipOf(job) : Result<net::Membership>(Status(Code::kUnavailable, "no network"));
  job.guests.clear();
  if (left_out.empty() || !former.ok() || !job.hello.keys.Protects()) return;
  std::erase_if(former->members, [&](const net::Member& member) { return !IsAmong(left_out, member.node); });
  Inviting& inviting = inviting_[key];
  inviting.number = ++last_invitation_;
  inviting.former = std::make_shared<const net::Membership>(std::move(*former));
  for (const JobNode& node : left_out) inviting.waiting.insert(node.name);
  const auto invitation = std::make_shared<const Buffer>(Encode(Invitation{job.store_id, job.name, members}));
  // A way to a node takes time, which one that is dead is not worth: its machine tells, as a rule at once.
  agent_.protect().bringers().Submit([this, key, number = inviting.number, invitation, left_out = std::move(left_out)] {
    std::vector<net::NodeAddress> addresses;
    for (const JobNode& node : left_out)
      addresses.push_back(net::NodeAddress::FromText(node.address).value_or(net::NodeAddress{}));
    const auto go_on = [&](size_t index, bool may_be_there) {
      agent_.loop().Post([this, key, number, invitation, node = left_out[index], may_be_there] {
        may_be_there ? InviteNode(key, number, node, *invitation) : OnInvited(key, number, node, false);
      });
    };
    std::vector<bool> told(left_out.size());
    net::Probe(addresses, kProbeTimeout, [&](size_t index, bool listens) {
      told[index] = true;
      go_on(index, listens);
    });
    for (size_t i = 0; i < told.size(); ++i) {
      if (!told[i]) go_on(i, true);
    }
  });
}

void Peers::InviteNode(const JobKey& key, uint64_t number, const JobNode& node, const Buffer& invitation) {
  const auto inviting = inviting_.find(key);
  const Job* job = agent_.FindJob(key.first, key.second);
  if (job == nullptr || inviting == inviting_.end() || inviting->second.number != number) return;
  Call(*job, node.name, PeerKind::kInvite, invitation, kInviteTimeout,
       [this, key, number, node](const Result<Buffer>& answer) { OnInvited(key, number, node, answer.ok()); });
}

void Peers::OnInvited(const JobKey& key, uint64_t number, const JobNode& node, bool answered) {
  const auto inviting = inviting_.find(key);
  if (inviting == inviting_.end() || inviting->second.number != number) return;
  if (inviting->second.waiting.erase(node.name) == 0) return;
  const bool is_last = inviting->second.waiting.empty();
  if (is_last) inviting_.erase(inviting);
  Job* job = agent_.FindJob(key.first, key.second);
  if (job == nullptr) return;
  if (answered && !IsAmong(job->guests, node.name) && !IsAmong(job->members.nodes, node.name)) job->guests.push_back(node);
  if (!answered) {
    LogInfo("agent", "node {}, which attempt {} of job {} leaves out, does not answer and is left alone", node.name,
            job->members.attempt, job->name);
  }
  if (!answered && !is_last) return;
  agent_.inventories().Forget(*job);
  const Status joined = Join(*job);
  if (!joined.ok()) LogWarning("agent", "nodes of a former attempt of job {} are not asked: {}", job->name, joined.ToString());
}

std::vector<std::string> Peers::Learn(Job& job, const std::vector<GuestNode>& guests) {
  std::vector<std::string> added;
  for (const GuestNode& guest : guests) {
    const bool known =
        guest.node == agent_.settings().node || IsAmong(job.members.nodes, guest.node) || IsAmong(job.guests, guest.node);
    if (known || !net::NodeAddress::FromText(guest.address).has_value() || job.guests.size() >= kGuestsMax) continue;
    job.guests.push_back({guest.node, guest.node, guest.address, {}});
    added.push_back(guest.node);
  }
  Status joined = added.empty() ? Status::Ok() : Join(job);
  if (!joined.ok()) LogWarning("agent", "nodes of a former attempt of job {} are not asked: {}", job.name, joined.ToString());
  return added;
}

void Peers::OnInvite(Job& job, const Invitation& invitation, Answer answer) {
  const Membership& members = invitation.members;
  if (members.attempt <= job.members.attempt || IsAmong(members.nodes, agent_.settings().node)) {
    return answer(Status(Code::kMismatch, "the invitation is not to a later attempt without this node"));
  }
  answer(Buffer());
  LogInfo("agent", "job {} goes on in attempt {} without this node, which serves what it holds", job.name, members.attempt);
  // After the answer, which goes out in the name of the attempt that ends here.
  agent_.loop().AddTimer(kGoodbyeTime, [this, store_id = job.store_id, name = job.name, members] {
    Job* found = agent_.FindJob(store_id, name);
    if (found == nullptr || members.attempt <= found->members.attempt) return;
    found->members = members;
    found->guests.clear();
    agent_.sessions().SaveJob(*found);
    Status joined = agent_.protect().OnMembers(*found);
    if (!joined.ok()) LogWarning("agent", "job {}: {}", name, joined.ToString());
  });
}

void Peers::OnCallHold(Job& job, const CallHold& call, Answer answer) {
  answer(Encode(agent_.calls().OnHold(job, call)));
}

void Peers::OnTurn(Job& job, const TurnRequest& request, Answer answer) {
  answer(Encode(agent_.turns().OnAsked(job, request)));
}

void Peers::OnPromise(Job& job, const LocalPromise& promise, Answer answer) {
  auto reply = agent_.local_level().OnPromise(job, promise);
  if (!reply.ok()) return answer(reply.status());
  answer(Encode(*reply));
}

void Peers::OnPromiseNews(Job& job, const LocalNews& news, Answer answer) {
  agent_.local_level().OnNews(job, news);
  answer(Buffer());
}

void Peers::OnTaken(Job& job, const ImageIdentity& taking, Answer answer) {
  agent_.takings().OnTold(job, taking);
  answer(Buffer());
}

void Peers::OnCallDecision(Job& job, const CallDecision& decision, Answer answer) {
  agent_.calls().OnDecision(job, decision);
  answer(Buffer());
}

void Peers::Leave(const Job& job) {
  if (network_ != nullptr) network_->Leave(NetworkName(job.store_id, job.name));
}

PeerLink Peers::LinkFor(const Job& job) const {
  KEDGE_CHECK(network_ != nullptr);
  return PeerLink(network_.get(), NetworkName(job.store_id, job.name), agent_.settings().net_encrypt);
}

void Peers::Call(const Job& job, const std::string& node, PeerKind kind, Buffer body, Duration timeout,
                 std::function<void(Result<Buffer>)> done) {
  if (network_ == nullptr) {
    agent_.loop().Post([done = std::move(done), node] { done(Status(Code::kUnavailable, "no network to node " + node)); });
    return;
  }
  LinkFor(job).AskAsync(node, kind, std::move(body), timeout, std::move(done));
}

net::Peer Peers::PeerOf(const Job& job, const std::string& node) {
  return {NetworkName(job.store_id, job.name), node};
}

Job* Peers::JobOf(const net::Peer& peer, const StoreId& store_id, const std::string& name) const {
  return peer.job == NetworkName(store_id, name) ? agent_.FindJob(store_id, name) : nullptr;
}

size_t Peers::leases() const {
  return leases_ + (measured_ == nullptr ? 0 : measured_->leases()) + (sealed_ == nullptr ? 0 : sealed_->leases());
}

template <typename Request>
void Peers::Serve(PeerKind kind, Result<Request> (*decode)(ByteSpan), void (Peers::*handle)(Job&, const Request&, Answer)) {
  ServePeer<Request>(kind, decode, [this, handle](Job& job, const net::Peer&, const Request& request, Answer answer) {
    (this->*handle)(job, request, std::move(answer));
  });
}

template <typename Request, typename Handle>
void Peers::ServePeer(PeerKind kind, Result<Request> (*decode)(ByteSpan), Handle handle) {
  network_->Serve(static_cast<uint16_t>(kind), [this, decode, handle](const net::Peer& peer, ByteSpan body, Answer answer) {
    auto request = decode(body);
    if (!request.ok()) return answer(request.status());
    agent_.Touch();
    const Generation& generation = GenerationOf(*request);
    Job* job = JobOf(peer, generation.store_id, generation.job);
    if (job == nullptr) return answer(Status(Code::kNotFound, fmt::format("node {} knows no such job", agent_.settings().node)));
    handle(*job, peer, *request, std::move(answer));
  });
}

void Peers::ServeAll() {
  Serve<ExchangeRequest>(PeerKind::kExchange, DecodeExchangeRequest, &Peers::OnExchange);
  Serve<GroupsNotice>(PeerKind::kGroups, DecodeGroupsNotice, &Peers::OnGroups);
  Serve<InventoryRequest>(PeerKind::kInventory, DecodeInventoryRequest, &Peers::OnInventory);
  Serve<DescribeRequest>(PeerKind::kDescribe, DecodeDescribeRequest, &Peers::OnDescribe);
  Serve<SetRequest>(PeerKind::kSetRecord, DecodeSetRequest, &Peers::OnSetRecord);
  Serve<SetRequest>(PeerKind::kObjectTable, DecodeSetRequest, &Peers::OnObjectTable);
  Serve<ReadRequest>(PeerKind::kRead, DecodeReadRequest, &Peers::OnRead);
  Serve<ReadRequest>(PeerKind::kLease, DecodeReadRequest, &Peers::OnLease);
  Serve<Invitation>(PeerKind::kInvite, DecodeInvitation, &Peers::OnInvite);
  Serve<CallHold>(PeerKind::kCallHold, DecodeCallHold, &Peers::OnCallHold);
  Serve<CallDecision>(PeerKind::kCallDecision, DecodeCallDecision, &Peers::OnCallDecision);
  Serve<SetRequest>(PeerKind::kProve, DecodeSetRequest, &Peers::OnProve);
  Serve<TurnRequest>(PeerKind::kTurn, DecodeTurnRequest, &Peers::OnTurn);
  Serve<LocalPromise>(PeerKind::kPromise, DecodeLocalPromise, &Peers::OnPromise);
  Serve<LocalNews>(PeerKind::kPromiseNews, DecodeLocalNews, &Peers::OnPromiseNews);
  Serve<ImageIdentity>(PeerKind::kTaken, DecodeImageIdentity, &Peers::OnTaken);
  ServePeer<ReadRequest>(PeerKind::kReadSealed, DecodeReadRequest,
                         [this](Job&, const net::Peer& peer, const ReadRequest& request, Answer answer) {
                           OnReadSealed(peer, request, std::move(answer));
                         });
  sealed_ = std::make_shared<SealedReads>(network_.get(), &agent_.protect().workers(),
                                          [this](std::function<void()> work) { agent_.loop().Post(std::move(work)); });
  measured_ = net::MeasureServer::Serve(network_.get(), kMeasureKinds, [this] { agent_.Touch(); });
}

void Peers::OnExchange(Job& job, const ExchangeRequest& request, Answer answer) {
  auto reply = agent_.protect().OnExchange(job, request);
  if (!reply.ok()) return answer(reply.status());
  answer(Encode(*reply));
}

void Peers::OnGroups(Job& job, const GroupsNotice& notice, Answer answer) {
  auto reply = agent_.protect().OnGroups(job, notice);
  if (!reply.ok()) return answer(reply.status());
  answer(Encode(*reply));
}

void Peers::OnInventory(Job& job, const InventoryRequest& request, Answer answer) {
  answer(Encode(agent_.inventories().Own(job, request.name)));
}

void Peers::OnDescribe(Job&, const DescribeRequest& request, Answer answer) {
  const Image* image = agent_.images().FindWhole(request.generation, request.rank);
  const Buffer* record = nullptr;
  if (const HeldObject* copy =
          image == nullptr ? agent_.held_sets().FindCopy(request.generation, request.rank, &record) : nullptr) {
    return answer(Encode(DescribeReply{*record, copy->record.blocks.bytes}));
  }
  if (image == nullptr) {
    return answer(Status(Code::kNotFound, fmt::format("{} rank {} is not on node {}", request.generation.ToString(), request.rank,
                                                      agent_.settings().node)));
  }
  const HeldStream stream = HeldStream::Of(*image);
  DescribeReply reply;
  reply.stream_bytes = stream.bytes();
  reply.image_record.resize(image->record_bytes);
  Status read = stream.Read(image->record_object_offset, image->record_bytes, reply.image_record.data());
  if (!read.ok()) return answer(read);
  answer(Encode(reply));
}

void Peers::OnSetRecord(Job&, const SetRequest& request, Answer answer) {
  const HeldSet* set = agent_.held_sets().Find(request.set);
  if (set == nullptr) return answer(Status(Code::kNotFound, request.set.ToString() + " is not known"));
  answer(set->encoded);
}

void Peers::OnObjectTable(Job&, const SetRequest& request, Answer answer) {
  const HeldObject* object = agent_.held_sets().FindObject(request.set, request.member);
  if (object == nullptr) {
    return answer(Status(Code::kNotFound, fmt::format("{}: nothing for member {} here", request.set.ToString(), request.member)));
  }
  answer(Encode(object->record.blocks));
}

void Peers::OnProve(Job&, const SetRequest& request, Answer answer) {
  agent_.protect().OnProve(request, std::move(answer));
}

HeldStream Peers::StreamOf(const ReadRequest& request) const {
  if (request.of_object) {
    const HeldObject* object = agent_.held_sets().FindObject(request.set, request.member);
    return object == nullptr ? HeldStream() : HeldStream::Of(object->ranges);
  }
  if (const Image* image = agent_.images().FindWhole(request.generation, request.rank)) return HeldStream::Of(*image);
  const Buffer* record = nullptr;
  const HeldObject* copy = agent_.held_sets().FindCopy(request.generation, request.rank, &record);
  return copy == nullptr ? HeldStream() : HeldStream::Of(copy->ranges);
}

// The memory stays mapped as long as the lease; what is let go of meanwhile may hold something else, so readers compare
// checksums.
void Peers::OnLease(Job& job, const ReadRequest& request, Answer answer) {
  LeaseReply reply;
  reply.sealed = agent_.settings().net_encrypt;
  os::KillPoint("serve-lease");
  if (reply.sealed) return answer(Encode(reply));
  for (const HeldStream::MemoryPart& part : StreamOf(request).InMemory()) {
    auto memory = network_->Lease(NetworkName(job.store_id, job.name), part.memory, kLeaseDuration,
                                  [this, tier = part.tier] { --leases_; });
    if (!memory.ok()) continue;
    ++leases_;
    ++agent_.counters().parts_leased;
    reply.parts.push_back({part.offset, *memory});
  }
  answer(Encode(reply));
}

Result<HeldStream> Peers::StreamWith(const ReadRequest& request) const {
  HeldStream stream = StreamOf(request);
  if (request.offset > stream.bytes() || request.bytes > stream.bytes() - request.offset) {
    return Status(Code::kNotFound,
                  fmt::format("{} bytes at {} are not on node {}", request.bytes, request.offset, agent_.settings().node));
  }
  return stream;
}

void Peers::OnReadSealed(const net::Peer& peer, const ReadRequest& request, Answer answer) {
  auto stream = StreamWith(request);
  if (!stream.ok()) return answer(stream.status());
  if (request.bytes == 0) return answer(Status(Code::kInvalidArgument, "no bytes to read"));
  const auto read = [stream = std::move(*stream), offset = request.offset, bytes = request.bytes](std::byte* out) {
    return stream.Read(offset, bytes, out);
  };
  ++agent_.counters().blocks_sealed;
  sealed_->Ask(peer, request.bytes, read, std::move(answer));
}

void Peers::OnRead(Job&, const ReadRequest& request, Answer answer) {
  auto stream = StreamWith(request);
  if (!stream.ok()) return answer(stream.status());
  // What is let go of meanwhile may hold something else: the reader compares checksums.
  agent_.protect().workers().Submit(
      [stream = std::move(*stream), offset = request.offset, bytes = request.bytes, answer = std::move(answer)] {
        Buffer out(bytes);
        Status read = stream.Read(offset, bytes, out.data());
        answer(read.ok() ? Result<Buffer>(std::move(out)) : Result<Buffer>(read));
      });
}

}  // namespace kedge

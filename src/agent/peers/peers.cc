#include "agent/peers/peers.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/tables/agent_core.h"
#include "agent/tables/members.h"
#include "agent/tables/run_folder.h"
#include "base/clock.h"
#include "base/log.h"
#include "os/files/files.h"
#include "os/process/thread.h"

namespace kedge {
namespace {

constexpr size_t kAddressFileBytesMax = 4096;
// A node that was left out is mostly dead, and a restart that needs more than the others have waits for it, unless its machine
// says that nobody is there.
constexpr Duration kInviteTimeout = std::chrono::milliseconds(1500);
constexpr Duration kProbeTimeout = std::chrono::milliseconds(500);
constexpr size_t kGuestsMax = 4096;
constexpr size_t kReadBuffers = 112;
constexpr size_t kEndpointsAhead = 8;  // as many as a usual group has peers, and one

// Where the former agent was, or elsewhere. Any thread.
Result<std::unique_ptr<net::Network>> OpenNetwork(net::NetworkOptions options) {
  auto network = net::Network::Open(options);
  if (network.ok() || options.former_address.empty()) return network;
  LogWarning("agent", "the former address cannot be had again, so other nodes do not find this one until the next launch: {}",
             network.status().ToString());
  options.former_address = net::NodeAddress{};
  return net::Network::Open(options);
}

}  // namespace

std::string Peers::NetworkName(const StoreId& store_id, const std::string& job) {
  return store_id.ToHex() + "/" + job;
}

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
  awaiting_.clear();
  if (opener_.joinable()) (void)TakeOpened();
  inviting_.clear();
  if (network_ == nullptr) return;
  network_->Close();
  network_.reset();
  service_.Close();
}

net::NetworkOptions Peers::Options() const {
  net::NetworkOptions options;
  options.provider = core_.settings().net_provider;
  options.interface_address = core_.settings().net_interface;
  // As many as all makers hold at once (set_source.h, stream_bringer.cc), and some for reads under way.
  options.read_buffers = kReadBuffers;
  options.endpoints_ahead = kEndpointsAhead;
  options.executor = [this](std::function<void()> work) { core_.loop().Post(std::move(work)); };
  auto former = os::ReadFile(fs(), core_.Path("address"), kAddressFileBytesMax);
  if (former.ok()) options.former_address = net::NodeAddress::FromText(*former).value_or(net::NodeAddress{});
  return options;
}

void Peers::OpenThen(std::function<void()> done) {
  if (network_ != nullptr) return done();
  awaiting_.push_back(std::move(done));
  if (opener_.joinable()) return;
  auto opener = os::StartThread("kedge-network", [this, options = Options()] {
    opened_ = OpenNetwork(options);
    core_.loop().Post([this] {
      if (opener_.joinable()) (void)TakeOpened();
    });
  });
  if (opener.ok()) {
    opener_ = std::move(*opener);
  } else {
    (void)Adopt(OpenNetwork(Options()));
  }
}

// Of the loop's thread, which needs the network now.
Status Peers::Open() {
  if (network_ != nullptr) return Status::Ok();
  return opener_.joinable() ? TakeOpened() : Adopt(OpenNetwork(Options()));
}

Status Peers::TakeOpened() {
  opener_.join();
  return Adopt(std::move(opened_));
}

Status Peers::Adopt(Result<std::unique_ptr<net::Network>> opened) {
  Status status = opened.status();
  if (opened.ok()) {
    network_ = std::move(*opened);
    service_.Open(network_.get());
    LogInfo("agent", "other nodes reach this one at {}", network_->address().ToDisplay());
    status = os::ReplaceFile(fs(), core_.Path("address"), network_->address().ToText(), "agent");
  }
  if (!status.ok()) LogError("agent", "no network between nodes: {}", status.ToString());
  for (const auto& done : std::exchange(awaiting_, {})) done();
  return status;
}

std::string Peers::address() const {
  return network_ == nullptr ? std::string() : network_->address().ToText();
}

Result<net::Membership> Peers::MembershipOf(const Job& job) const {
  net::Membership membership;
  membership.job = NetworkName(job.store_id, job.name);
  membership.attempt = job.members.attempt;
  membership.self = core_.settings().node;
  const auto secret = net::Secret::FromHex(job.members.secret);
  if (!secret.has_value()) return Status(Code::kInvalidArgument, fmt::format("job {}: its secret is not one", job.name));
  membership.secret = *secret;
  for (const auto* nodes : {&job.members.nodes, &job.guests, &job.stagers}) {
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
  const auto inviting = inviting_.find(job.key());
  if (inviting != inviting_.end() && inviting->second.former->attempt < membership.attempt) {
    membership.former = inviting->second.former;
  }
  return network_->Join(std::move(membership));
}

void Peers::Connect(const Job& job, const std::string& node) {
  if (network_ != nullptr) network_->Connect(PeerOf(job, node));
}

bool Peers::IsInviting(const Job& job) const {
  return inviting_.contains(job.key());
}

void Peers::Invite(Job& job, const Membership& members) {
  const JobKey key = job.key();
  inviting_.erase(key);
  std::vector<JobNode> left_out;
  for (const auto* nodes : {&job.members.nodes, &job.guests}) {
    for (const JobNode& node : *nodes) {
      const bool known = node.name == core_.settings().node || IsAmong(members.nodes, node.name) || IsAmong(left_out, node.name);
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
  core_.bringers().Submit([this, key, number = inviting.number, invitation, left_out = std::move(left_out)] {
    std::vector<net::NodeAddress> addresses;
    for (const JobNode& node : left_out)
      addresses.push_back(net::NodeAddress::FromText(node.address).value_or(net::NodeAddress{}));
    const auto go_on = [&](size_t index, bool may_be_there) {
      core_.loop().Post([this, key, number, invitation, node = left_out[index], may_be_there] {
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
  const Job* job = core_.FindJob(key);
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
  Job* job = core_.FindJob(key);
  if (job == nullptr) return;
  if (answered && !IsAmong(job->guests, node.name) && !IsAmong(job->members.nodes, node.name)) job->guests.push_back(node);
  if (!answered) {
    LogInfo("agent", "node {}, which attempt {} of job {} leaves out, does not answer and is left alone", node.name,
            job->members.attempt, job->name);
  }
  if (!answered && !is_last) return;
  core_.events().members_changed(*job);
  const Status joined = Join(*job);
  if (!joined.ok()) LogWarning("agent", "nodes of a former attempt of job {} are not asked: {}", job->name, joined.ToString());
}

std::vector<std::string> Peers::Learn(Job& job, const std::vector<GuestNode>& guests) {
  std::vector<std::string> added;
  for (const GuestNode& guest : guests) {
    const bool known =
        guest.node == core_.settings().node || IsAmong(job.members.nodes, guest.node) || IsAmong(job.guests, guest.node);
    if (known || !net::NodeAddress::FromText(guest.address).has_value() || job.guests.size() >= kGuestsMax) continue;
    job.guests.push_back({guest.node, guest.node, guest.address, {}});
    added.push_back(guest.node);
  }
  Status joined = added.empty() ? Status::Ok() : Join(job);
  if (!joined.ok()) LogWarning("agent", "nodes of a former attempt of job {} are not asked: {}", job.name, joined.ToString());
  return added;
}

void Peers::Leave(const Job& job) {
  if (network_ != nullptr) network_->Leave(NetworkName(job.store_id, job.name));
}

PeerLink Peers::LinkFor(const Job& job) const {
  KEDGE_CHECK(network_ != nullptr);
  return PeerLink(network_.get(), NetworkName(job.store_id, job.name), core_.settings().net_encrypt);
}

PeerLink Peers::LinkInBackground(const Job& job) const {
  KEDGE_CHECK(network_ != nullptr);
  return PeerLink(network_.get(), NetworkName(job.store_id, job.name), core_.settings().net_encrypt, gates_);
}

void Peers::Call(const Job& job, const std::string& node, PeerKind kind, Buffer body, Duration timeout,
                 std::function<void(Result<Buffer>)> done) {
  if (network_ == nullptr) {
    core_.loop().Post([done = std::move(done), node] { done(Status(Code::kUnavailable, "no network to node " + node)); });
    return;
  }
  LinkFor(job).AskAsync(node, kind, std::move(body), timeout, std::move(done));
}

net::Peer Peers::PeerOf(const Job& job, const std::string& node) {
  return {NetworkName(job.store_id, job.name), node};
}

}  // namespace kedge

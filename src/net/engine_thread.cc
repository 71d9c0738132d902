// The progress thread of a Network: what it goes through again and again, frames to the serving endpoint, and who is a peer. See
// engine.h.
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "net/engine.h"
#include "os/events/poll_set.h"

namespace kedge::net {
namespace {

constexpr Duration kSleepMax = std::chrono::milliseconds(500);
constexpr Duration kRetryPause = std::chrono::milliseconds(1);
constexpr Duration kQuiet = std::chrono::milliseconds(300);
constexpr size_t kAheadBesideLinks = 3;
constexpr Duration kTellPause = std::chrono::minutes(1);
constexpr Duration kAskPauseMin = std::chrono::microseconds(20);
constexpr Duration kAskPauseMax = std::chrono::milliseconds(1);

}  // namespace

void Network::Engine::Run() {
  bool idle_before = false;
  int64_t busy_ns = 0;  // when there was something to do
  while (!stop_) {
    const bool commands = RunCommands();
    const bool frames = PollServing();
    const bool links = ProgressLinks();
    const bool parked = ProgressParked();
    const int64_t now_ns = SystemClock().NowNs();
    timers_.RunDue(now_ns);
    DropGuests();
    EndExpiredLeases();
    FlushDeliveries();
    const bool idle = !commands && !frames && !links && !parked;
    if (!idle) busy_ns = now_ns;
    if (idle && !stop_ && !PrepareEndpoint(Duration(now_ns - busy_ns))) Sleep(idle_before);
    idle_before = idle;
  }
}

bool Network::Engine::RunCommands() {
  const auto commands = commands_->Take();
  for (const auto& command : commands) command();
  return !commands.empty();
}

Status Network::Engine::PostReceive(ReceiveSlot* slot) {
  const ssize_t code =
      fi_recv(serving_->get(), slot->bytes, kFrameBytesMax, receive_registration_.descriptor(), FI_ADDR_UNSPEC, &slot->context);
  if (code == -FI_EAGAIN) {
    unposted_.push_back(slot);
    return Status::Ok();
  }
  return code == 0 ? Status::Ok() : FabricError(code, "fi_recv");
}

bool Network::Engine::PollServing() {
  std::vector<ReceiveSlot*> again;
  again.swap(unposted_);
  std::array<Completion, 64> completions;
  const auto count = serving_->Poll(completions);
  // A queue that fails is broken for good: an agent's successor has a new one.
  KEDGE_CHECK(count.ok());
  for (size_t i = 0; i < *count; ++i) {
    auto* slot = static_cast<ReceiveSlot*>(completions[i].context);
    if (slot == nullptr) continue;
    if (completions[i].status.ok()) {
      OnFrame({slot->bytes, completions[i].bytes});
    } else {
      RefuseFrame();  // longer than a frame may be, or its sender went away in the middle
    }
    again.push_back(slot);
  }
  for (ReceiveSlot* slot : again) {
    const Status posted = PostReceive(slot);
    if (!posted.ok()) {
      LogWarning("net", "{}", posted.message());
      unposted_.push_back(slot);
    }
  }
  return *count > 0;
}

void Network::Engine::RefuseFrame() {
  Count([](NetworkCounters* counters) { ++counters->frames_refused; });
}

void Network::Engine::TellOfProtocol(const Status& what) {
  const int64_t now_ns = SystemClock().NowNs();
  if (now_ns - told_protocol_ns_ < Duration(kTellPause).count()) return;
  told_protocol_ns_ = now_ns;
  LogWarning("net", "refused: {}", what.message());
}

void Network::Engine::OnFrame(ByteSpan bytes) {
  const auto frame = DecodeFrame(bytes);
  if (!frame.ok()) {
    if (frame.status().code() == Code::kUnsupported) TellOfProtocol(frame.status());
    return RefuseFrame();
  }
  if (IsHandshake(frame->header.kind)) return OnHandshake(*frame);
  const auto session = sessions_.find(frame->header.session);
  if (session == sessions_.end()) return RefuseFrame();
  session->second->OnFrame(*frame);
}

// Whoever is no member of the job gets no answer: there is no address of his that we would trust.
void Network::Engine::OnHandshake(const Frame& frame) {
  const auto control = DecodeControl(frame.header.kind, frame.payload);
  if (!control.ok()) return RefuseFrame();
  if (const auto* hello = std::get_if<Hello>(&*control)) {
    Link* link = LinkOf(*hello);
    return link == nullptr ? RefuseFrame() : link->OnHello(*hello);
  }
  if (const auto* proof = std::get_if<Proof>(&*control)) {
    Link* link = FindLink({proof->hello.job, proof->hello.initiator});
    return link == nullptr ? RefuseFrame() : link->OnProof(*proof);
  }
  for (auto& [peer, entry] : links_) {
    Link* link = entry.link.get();
    if (const auto* challenge = std::get_if<Challenge>(&*control)) {
      if (link->AwaitsChallenge(challenge->initiator_nonce)) return link->OnChallenge(*challenge);
    } else if (const auto* refusal = std::get_if<Refusal>(&*control)) {
      if (link->AwaitsChallenge(refusal->initiator_nonce)) return link->OnRefusal(*refusal);
    }
  }
  RefuseFrame();
}

Link* Network::Engine::LinkOf(const Hello& hello) {
  if (Link* link = FindLink({hello.job, hello.initiator})) return link;
  return hello.address.empty() ? nullptr : AdmitGuest(hello);
}

// Its address is trusted since only somebody who has the secret can have proved it. Somebody who repeats a hello that he has seen
// gets no further than a challenge, sent to where its sender was.
Link* Network::Engine::AdmitGuest(const Hello& hello) {
  std::shared_ptr<const Membership> membership;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = memberships_.find(hello.job);
    if (found != memberships_.end()) membership = found->second;
  }
  if (membership == nullptr || membership->guests_max == 0 || hello.attempt != membership->attempt || hello.initiator.empty() ||
      hello.responder != membership->self || hello.initiator == membership->self)
    return nullptr;
  if (!SameDigest(hello.proof, Prove(membership->secret, Link::MakeTranscript(hello, {}), ProofOf::kHello))) {
    Count([](NetworkCounters* counters) { ++counters->handshakes_refused; });
    return nullptr;
  }
  const auto is_guest = [&hello](const auto& entry) { return entry.first.job == hello.job && entry.second.link->is_guest(); };
  if (static_cast<size_t>(std::count_if(links_.begin(), links_.end(), is_guest)) >= membership->guests_max) return nullptr;
  const Peer peer{hello.job, hello.initiator};
  Entry entry;
  entry.state = std::make_unique<PeerState>();
  entry.link = std::make_unique<Link>(this, membership, Member{hello.initiator, NodeAddress{address().provider, hello.address}},
                                      entry.state.get(), nullptr);
  entry.link->SetGuest();
  timers_.Add(SystemClock().NowNs() + options_.connect_timeout.count(), [this, peer] { left_guests_.push_back(peer); });
  const std::lock_guard<std::mutex> lock(mutex_);
  states_.push_back(entry.state.get());
  return links_.emplace(peer, std::move(entry)).first->second.link.get();
}

void Network::Engine::DropGuests() {
  for (const Peer& peer : std::exchange(left_guests_, {})) {
    const auto entry = links_.find(peer);
    if (entry == links_.end() || !entry->second.link->is_guest() || entry->second.link->has_session()) continue;
    entry->second.link->Fail(Status(Code::kUnavailable, fmt::format("guest {} has left", peer.node)));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::erase(states_, entry->second.state.get());
    }
    links_.erase(entry);
  }
}

bool Network::Engine::ProgressLinks() {
  bool any = false;
  for (auto& [peer, entry] : links_) any = entry.link->Progress() || any;
  return any;
}

// In turns: who was served last comes last.
void Network::Engine::BeginReads() {
  if (links_.empty()) return;
  const auto begin = links_.upper_bound(last_served_);
  const auto serve = [this](auto from, auto to) {
    for (auto entry = from; entry != to; ++entry) {
      if (entry->second.link->HasQueuedReads() && entry->second.link->BeginReads()) last_served_ = entry->first;
    }
  };
  serve(begin, links_.end());
  serve(links_.begin(), begin);
}

void Network::Engine::EndExpiredLeases() {
  const int64_t now_ns = SystemClock().NowNs();
  if (leases_.NextEndNs() > now_ns) return;
  std::vector<LeaseTable::Ended> ended = leases_.EndExpired(now_ns);
  Count([&ended](NetworkCounters* counters) { counters->leases_expired += ended.size(); });
  Tell(std::move(ended));
}

void Network::Engine::Tell(std::vector<LeaseTable::Ended> ended) {
  for (LeaseTable::Ended& lease : ended) {
    if (lease.callback) Deliver(std::move(lease.callback));
  }
}

bool Network::Engine::PrepareEndpoint(Duration idle_for) {
  const bool has_time = links_.empty() || idle_for >= kQuiet;
  const size_t wanted = links_.empty() ? options_.endpoints_ahead : std::min(options_.endpoints_ahead, kAheadBesideLinks);
  if (!has_time || ahead_.size() >= wanted) return false;
  auto endpoint = fabric_->OpenSending();
  if (!endpoint.ok()) return false;  // whoever needs one is told why
  ahead_.push_back(std::move(endpoint).value());
  Count([this](NetworkCounters* counters) { counters->endpoints_ahead = ahead_.size(); });
  return true;
}

void Network::Engine::Sleep(bool idle_before) {
  std::vector<Endpoint*> endpoints = {serving_.get()};
  Duration retry_pause = unposted_.empty() ? kSleepMax : kRetryPause;
  for (auto& [peer, entry] : links_) {
    if (Endpoint* endpoint = entry.link->endpoint()) endpoints.push_back(endpoint);
    if (entry.link->MustRetry()) retry_pause = std::min(retry_pause, std::max(kRetryPause, entry.link->RetryPause()));
  }
  for (const Parked& parked : parked_) endpoints.push_back(parked.channel->endpoint());
  std::vector<int> descriptors = {commands_->descriptor()};
  bool must_ask = false;
  for (const Endpoint* endpoint : endpoints) {
    if (endpoint->descriptor() >= 0) descriptors.push_back(endpoint->descriptor());
    must_ask = must_ask || endpoint->descriptor() < 0;
  }
  if (!fabric_->MaySleep(endpoints)) return;
  Duration timeout = kSleepMax;
  const int64_t next_ns = std::min(timers_.NextNs(), leases_.NextEndNs());
  if (next_ns != INT64_MAX) timeout = std::min(timeout, Duration(next_ns - SystemClock().NowNs()));
  timeout = std::min(timeout, retry_pause);
  if (must_ask) {
    pause_ = idle_before ? std::min<Duration>(2 * pause_, kAskPauseMax) : kAskPauseMin;
    timeout = std::min(timeout, pause_);
  }
  const Status waited = os::WaitReadable(descriptors, timeout);
  if (!waited.ok()) LogWarning("net", "{}", waited.message());
}

// Brings the links of a job to its membership as it is now. The channel of a peer that stays serves its next attempt, too: making
// one anew costs more than all the rest of a session's beginning.
void Network::Engine::ApplyMembership(const std::string& job) {
  std::shared_ptr<const Membership> membership;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = memberships_.find(job);
    if (found != memberships_.end()) membership = found->second;
  }
  struct Wanted {
    Member member;
    std::shared_ptr<const Membership> of;
    std::unique_ptr<Channel> channel;
  };
  std::map<std::string, Wanted> wanted;
  for (const auto& of : {membership, membership ? membership->former : nullptr}) {
    if (of == nullptr) continue;
    for (const Member& member : of->members) {
      if (member.node != of->self) wanted.try_emplace(member.node, Wanted{member, of, nullptr});
    }
  }
  for (auto entry = links_.lower_bound({job, ""}); entry != links_.end() && entry->first.job == job;) {
    Link* link = entry->second.link.get();
    const auto found = wanted.find(entry->first.node);
    if (link->is_guest() && found == wanted.end() && membership != nullptr && membership->guests_max > 0 &&
        link->membership()->attempt == membership->attempt) {
      link->SetMembership(membership, false);
      ++entry;
      continue;
    }
    const bool same_address = found != wanted.end() && found->second.member.address == link->address();
    if (same_address && link->membership()->attempt == found->second.of->attempt) {
      link->SetMembership(found->second.of, found->second.of != membership);
      wanted.erase(found);
      ++entry;
      continue;
    }
    link->SayBye();
    if (same_address) found->second.channel = link->TakeChannel();
    link->Fail(
        Status(Code::kUnavailable, fmt::format("node {} is no longer a peer of this attempt of job {}", entry->first.node, job)));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::erase(states_, entry->second.state.get());
    }
    entry = links_.erase(entry);
  }
  for (auto& [node, peer] : wanted) {
    Entry entry;
    entry.state = std::make_unique<PeerState>();
    entry.link = std::make_unique<Link>(this, peer.of, peer.member, entry.state.get(), std::move(peer.channel));
    entry.link->SetMembership(peer.of, peer.of != membership);
    const std::lock_guard<std::mutex> lock(mutex_);
    states_.push_back(entry.state.get());
    links_.emplace(Peer{job, node}, std::move(entry));
  }
}

Link* Network::Engine::FindLink(const Peer& peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.link.get();
}

Status Network::Engine::NoSuchPeer(const Peer& peer) const {
  return Status(Code::kNotFound, fmt::format("node {} is not among the members of job {}", peer.node, peer.job));
}

}  // namespace kedge::net

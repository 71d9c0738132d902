// The life of a link: connecting, the handshake, the end of a session. What goes through a session is in link_traffic.cc.
#include "net/link.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace kedge::net {
namespace {

// A hello without an answer is said again, at first soon: the peer may be about to hear of the job.
constexpr Duration kHelloPauseMin = std::chrono::milliseconds(25);
constexpr Duration kHelloPauseMax = std::chrono::milliseconds(200);
// A hello that comes again sooner gets no second answer.
constexpr Duration kAnswerPause = std::chrono::milliseconds(10);
constexpr size_t kAnswersKept = 64;
// How long a refusal waits for a challenge that proves it wrong.
constexpr Duration kDoubtTime = std::chrono::milliseconds(250);
constexpr Duration kReopenPauseMin = std::chrono::milliseconds(20);
constexpr Duration kReopenPauseMax = std::chrono::seconds(1);

int64_t After(Duration duration) {
  return SystemClock().NowNs() + duration.count();
}

}  // namespace

Link::Link(LinkHost* host, std::shared_ptr<const Membership> membership, Member member, PeerState* state,
           std::unique_ptr<Channel> channel)
    : host_(host),
      membership_(std::move(membership)),
      member_(std::move(member)),
      peer_{membership_->job, member_.node},
      state_(state),
      channel_(std::move(channel)),
      is_taken_over_(channel_ != nullptr) {
  host_->ChangeState(state_, [this](PeerState* s) {
    s->peer = peer_;
    s->address = member_.address;
  });
}

Link::~Link() {
  CloseChannel();
  Timers* timers = host_->timers();
  for (const Timers::Id id : {connect_timer_, hello_timer_, doubt_timer_, beat_timer_, reopen_timer_}) timers->Cancel(id);
  for (const auto& [number, call] : calls_) timers->Cancel(call.timer);
  for (const QueuedRead& read : read_queue_) timers->Cancel(read.timer);
  if (session_) host_->SessionEnded(session_->number);
}

std::string Link::Name() const {
  return fmt::format("node {} at {}", peer_.node, member_.address.ToDisplay());
}

Transcript Link::MakeTranscript(const Hello& hello, const Nonce& responder_nonce) {
  Transcript transcript;
  transcript.protocol = kNetProtocol;
  transcript.job = hello.job;
  transcript.attempt = hello.attempt;
  transcript.initiator = hello.initiator;
  transcript.responder = hello.responder;
  transcript.initiator_address = hello.address;
  transcript.initiator_nonce = hello.initiator_nonce;
  transcript.responder_nonce = responder_nonce;
  return transcript;
}

Link::Session Link::MakeSession(const Transcript& transcript, bool we_began) const {
  const Secret& secret = membership_->secret;
  Session session{SessionNumber(secret, transcript),
                  FrameKey(secret, transcript, we_began ? ProofOf::kInitiator : ProofOf::kResponder),
                  FrameKey(secret, transcript, we_began ? ProofOf::kResponder : ProofOf::kInitiator)};
  session.credits = kPieceWindow;
  session.we_began = we_began;
  return session;
}

// --- connecting ---------------------------------------------------------------------------------------------------------------

void Link::Connect() {
  if (Up()) return;
  // Of those who wait for it the first has the whole time, also when it is tried for nobody's sake before.
  const bool is_first = calls_.size() + read_queue_.size() == 1;
  if (!hello_ || is_first) {
    host_->timers()->Cancel(connect_timer_);
    connect_timer_ = host_->timers()->Add(After(host_->options().connect_timeout), [this] { OnConnectTimeout(); });
  }
  if (hello_) return;
  last_failure_ = Status::Ok();
  reopen_pause_ = kReopenPauseMin;
  hello_pause_ = kHelloPauseMin;
  hello_ = Hello{membership_->job, membership_->attempt, membership_->self, peer_.node, GenerateNonce(), {}};
  if (membership_->is_guest) hello_->address = host_->address().bytes;
  hello_->proof = Prove(membership_->secret, MakeTranscript(*hello_, {}), ProofOf::kHello);
  SendHello();
}

// Says hello until it is answered: the peer may not listen yet, or not know the job yet.
void Link::SendHello() {
  hello_timer_ = 0;
  if (!hello_) return;
  // What a former link left may lead nowhere.
  if (is_taken_over_ && hello_pause_ >= kHelloPauseMax && !session_) CloseChannel();
  if (!channel_ && reopen_timer_ == 0) OpenChannel();
  if (channel_) QueueControl(FrameKind::kHello, *hello_);
  if (hello_) hello_timer_ = host_->timers()->Add(After(hello_pause_), [this] { SendHello(); });
  hello_pause_ = std::min<Duration>(2 * hello_pause_, kHelloPauseMax);
  Pump();
}

void Link::OpenChannel() {
  const int64_t begin_ns = SystemClock().NowNs();
  auto endpoint = host_->SendingEndpoint();
  auto channel = endpoint.ok() ? Channel::Open(host_->fabric(), std::move(endpoint).value(), member_.address,
                                               host_->options().reads_per_peer_max)
                               : Result<std::unique_ptr<Channel>>(endpoint.status());
  LogDebug("net", "a way to {} was opened in {}", Name(), FormatDuration(Duration(SystemClock().NowNs() - begin_ns)));
  if (!channel.ok()) {
    OnChannelFailure(channel.status());
    return;
  }
  channel_ = std::move(channel).value();
  host_->Count([](NetworkCounters* counters) { ++counters->channels_opened; });
}

void Link::OnConnectTimeout() {
  connect_timer_ = 0;
  if (Up() || !hello_) return;
  const std::string why = last_failure_.ok()
                              ? "it is reached, but does not answer (does it know the job, and is it of the same build?)"
                              : last_failure_.message();
  Fail(Status(Code::kTimeout,
              fmt::format("no connection to {} within {}: {}", Name(), FormatDuration(host_->options().connect_timeout), why)));
}

void Link::OnChannelFailure(const Status& why) {
  if (Up()) return Lose(Status(Code::kUnavailable, fmt::format("lost {}: {}", Name(), why.message())));
  CloseChannel();
  if (session_) host_->SessionEnded(session_->number);
  session_.reset();
  if (!hello_) return;
  last_failure_ = why;
  if (reopen_timer_ != 0) return;
  reopen_timer_ = host_->timers()->Add(After(reopen_pause_), [this] {
    reopen_timer_ = 0;
    if (hello_ && !channel_) OpenChannel();
    if (hello_ && channel_) QueueControl(FrameKind::kHello, *hello_);
    Pump();
  });
  reopen_pause_ = std::min<Duration>(2 * reopen_pause_, kReopenPauseMax);
}

std::unique_ptr<Channel> Link::TakeChannel() {
  const bool is_sound = Up() || (is_taken_over_ && !hello_);
  const bool is_idle = controls_.empty() && late_buffers_.empty() && channel_ && channel_->ActiveReads() == 0;
  return is_sound && is_idle && !channel_->HoldsFrame() ? std::move(channel_) : nullptr;
}

void Link::CloseChannel() {
  controls_.clear();
  is_taken_over_ = false;
  is_for_refusal_ = false;
  std::map<uint64_t, ActiveRead> active;
  active.swap(active_reads_);
  std::vector<size_t> buffers = std::exchange(late_buffers_, {});
  for (const auto& [token, read] : active) buffers.push_back(read.buffer);
  if (channel_ && channel_->ActiveReads() > 0) {
    host_->Park(std::move(channel_), std::move(buffers));
  } else {
    for (const size_t buffer : buffers) host_->pool()->Release(buffer);
  }
  channel_.reset();
  for (auto& [token, read] : active) {
    host_->timers()->Cancel(read.timer);
    host_->Count([](NetworkCounters* counters) { ++counters->reads_failed; });
    host_->DeliverRead([done = std::move(read.request.done), name = Name()] {
      done(Status(Code::kUnavailable, fmt::format("the connection to {} ended during the read", name)));
    });
  }
}

void Link::Fail(const Status& why) {
  const bool was_up = Up();
  if (session_) host_->SessionEnded(session_->number);
  session_.reset();
  hello_.reset();
  CloseChannel();
  for (Timers::Id* id : {&connect_timer_, &hello_timer_, &doubt_timer_, &beat_timer_, &reopen_timer_})
    host_->timers()->Cancel(std::exchange(*id, 0));
  outbox_.clear();
  outbox_bytes_ = 0;
  partial_head_.reset();
  partial_.clear();
  inbox_bytes_ = 0;
  host_->ChangeState(state_, [&why](PeerState* state) {
    state->connected = false;
    state->last_error = why.message();
  });
  if (was_up) LogInfo("net", "job {}: {}", peer_.job, why.message());
  FailWaiting(why);
}

void Link::Lose(const Status& why) {
  Fail(why);
  if (!is_guest_) Connect();
}

void Link::FailWaiting(const Status& why) {
  std::map<uint64_t, PendingCall> calls;
  calls.swap(calls_);
  for (auto& [number, call] : calls) {
    host_->timers()->Cancel(call.timer);
    host_->Deliver([done = std::move(call.done), why] { done(why); });
  }
  std::deque<QueuedRead> reads;
  reads.swap(read_queue_);
  for (QueuedRead& read : reads) {
    host_->timers()->Cancel(read.timer);
    host_->Count([](NetworkCounters* counters) { ++counters->reads_failed; });
    host_->DeliverRead([done = std::move(read.request.done), why] { done(why); });
  }
}

// --- handshake ----------------------------------------------------------------------------------------------------------------

bool Link::AwaitsChallenge(const Nonce& initiator_nonce) const {
  return hello_ && hello_->initiator_nonce == initiator_nonce;
}

// `hello` names our job and this peer; nothing of it is proved yet.
void Link::OnHello(const Hello& hello) {
  if (hello.attempt != membership_->attempt) return Refuse(hello, RefusalReason::kStaleAttempt);
  const Transcript transcript = MakeTranscript(hello, {});
  if (!SameDigest(hello.proof, Prove(membership_->secret, transcript, ProofOf::kHello))) {
    return Refuse(hello, RefusalReason::kWrongSecret);
  }
  if (hello.responder != membership_->self) return Refuse(hello, RefusalReason::kOtherNode);
  is_for_refusal_ = false;
  // Both began at once: one hello counts. The other side hears ours and answers it; said too early, it was not heard.
  if (hello_ && !Up() && membership_->self < peer_.node) {
    if (channel_ && SystemClock().NowNs() - hello_ns_ > Duration(kHelloPauseMin).count() / 5)
      QueueControl(FrameKind::kHello, *hello_);
    Pump();
    return;
  }
  if (IsAnsweredAgain(hello.initiator_nonce)) return;
  if (!channel_) OpenChannel();
  if (!channel_) return;
  const Nonce nonce = ChallengeNonce(challenges_, transcript);
  QueueControl(FrameKind::kChallenge, Challenge{hello.initiator_nonce, nonce,
                                                Prove(membership_->secret, MakeTranscript(hello, nonce), ProofOf::kResponder)});
  Pump();
}

bool Link::IsAnsweredAgain(const Nonce& initiator_nonce) {
  const int64_t now_ns = SystemClock().NowNs();
  const auto is_recent = [now_ns](int64_t answered_ns) { return now_ns - answered_ns < Duration(kAnswerPause).count(); };
  const auto found = answered_ns_.find(initiator_nonce);
  if (found != answered_ns_.end() && is_recent(found->second)) return true;
  if (answered_ns_.size() >= kAnswersKept)
    std::erase_if(answered_ns_, [&](const auto& entry) { return !is_recent(entry.second); });
  if (answered_ns_.size() < kAnswersKept) answered_ns_[initiator_nonce] = now_ns;
  return false;
}

// It is the peer who is told, whoever it was that said hello: seldom, and without a way that stays.
void Link::Refuse(const Hello& hello, RefusalReason reason) {
  host_->Count([](NetworkCounters* counters) { ++counters->handshakes_refused; });
  if (!host_->MayRefuse()) return;
  if (!channel_) {
    OpenChannel();
    is_for_refusal_ = channel_ != nullptr;
  }
  if (channel_)
    QueueControl(FrameKind::kRefusal, Refusal{hello.initiator_nonce, reason, membership_->attempt, membership_->self});
  Pump();
}

void Link::OnChallenge(const Challenge& challenge) {
  const Transcript transcript = MakeTranscript(*hello_, challenge.responder_nonce);
  if (!SameDigest(challenge.proof, Prove(membership_->secret, transcript, ProofOf::kResponder))) {
    host_->Count([](NetworkCounters* counters) { ++counters->handshakes_refused; });
    return Doubt(Status(Code::kPermission,
                        fmt::format("{} does not know the secret of job {}, attempt {}: another job's agent, or a stale one, "
                                    "answers at its address",
                                    Name(), peer_.job, membership_->attempt)));
  }
  if (session_ && !session_->we_began) return;  // the peer's own hello has been answered meanwhile
  if (session_) host_->SessionEnded(session_->number);
  session_ = MakeSession(transcript, true);
  host_->SessionBegan(session_->number, this);
  QueueControl(FrameKind::kProof,
               Proof{*hello_, challenge.responder_nonce, Prove(membership_->secret, transcript, ProofOf::kInitiator)});
  Pump();
}

void Link::OnProof(const Proof& proof) {
  // Of a challenge of ours, since which no session has begun.
  if (!SameNonce(proof.responder_nonce, ChallengeNonce(challenges_, MakeTranscript(proof.hello, {})))) {
    host_->Count([](NetworkCounters* counters) { ++counters->frames_refused; });
    return;
  }
  const Transcript transcript = MakeTranscript(proof.hello, proof.responder_nonce);
  if (!SameDigest(proof.proof, Prove(membership_->secret, transcript, ProofOf::kInitiator))) {
    host_->Count([](NetworkCounters* counters) { ++counters->handshakes_refused; });
    return;
  }
  if (Up()) {
    // It proved itself anew, so its former session is forgotten there; so is the channel's other end.
    Fail(Status(Code::kUnavailable, fmt::format("{} was restarted", Name())));
    OpenChannel();
    if (!channel_) return;
  }
  if (session_) host_->SessionEnded(session_->number);
  session_ = MakeSession(transcript, false);
  session_->accepted = true;
  host_->SessionBegan(session_->number, this);
  QueueControl(FrameKind::kAccept, Empty{});
  SessionIsUp();
}

void Link::OnRefusal(const Refusal& refusal) {
  host_->Count([](NetworkCounters* counters) { ++counters->handshakes_refused; });
  switch (refusal.reason) {
    case RefusalReason::kWrongSecret:
      return Doubt(
          Status(Code::kPermission, fmt::format("{} refused us: our secret of job {} is not its own", Name(), peer_.job)));
    case RefusalReason::kOtherNode: return Doubt(Status(Code::kMismatch, fmt::format("{} is now node {}", Name(), refusal.node)));
    case RefusalReason::kStaleAttempt:
      if (refusal.attempt > membership_->attempt) {
        return Doubt(Status(Code::kPermission, fmt::format("{} refused us: job {} is at attempt {} there, ours is {}", Name(),
                                                           peer_.job, refusal.attempt, membership_->attempt)));
      }
      // It has not heard of our attempt yet: it will. Who says so waits with us, whatever others have said in its name.
      host_->timers()->Cancel(std::exchange(doubt_timer_, 0));
      last_failure_ = Status(Code::kUnavailable, fmt::format("it is still at attempt {} of job {}, ours is {}", refusal.attempt,
                                                             peer_.job, membership_->attempt));
  }
}

void Link::Doubt(const Status& why) {
  last_failure_ = why;
  if (doubt_timer_ != 0) return;
  doubt_timer_ = host_->timers()->Add(After(kDoubtTime), [this, why] {
    doubt_timer_ = 0;
    if (!session_) Fail(why);
  });
}

void Link::SessionIsUp() {
  hello_.reset();
  challenges_ = Secret::Generate();
  LogDebug("net", "job {}: {} is connected, in attempt {}{}", peer_.job, Name(), membership_->attempt,
           is_taken_over_ ? ", over the former way" : "");
  is_taken_over_ = false;
  for (Timers::Id* id : {&connect_timer_, &hello_timer_, &doubt_timer_, &reopen_timer_, &beat_timer_})
    host_->timers()->Cancel(std::exchange(*id, 0));
  heard_ns_ = SystemClock().NowNs();
  host_->ChangeState(state_, [this](PeerState* state) {
    state->connected = true;
    state->heard_ns = heard_ns_;
    state->last_error.clear();
    ++state->sessions;
  });
  beat_timer_ = host_->timers()->Add(After(host_->options().heartbeat_interval), [this] { Beat(); });
  Pump();
}

void Link::Beat() {
  beat_timer_ = 0;
  if (!Up()) return;
  const Duration silence(SystemClock().NowNs() - heard_ns_);
  if (silence > host_->options().silence_timeout) {
    return Lose(Status(Code::kTimeout, fmt::format("lost {}: it has said nothing for {}", Name(), FormatDuration(silence))));
  }
  QueueControl(FrameKind::kPing, Empty{});
  beat_timer_ = host_->timers()->Add(After(host_->options().heartbeat_interval), [this] { Beat(); });
  Pump();
}

void Link::SayBye() {
  if (!Up()) return;
  QueueControl(FrameKind::kBye, Empty{});
  Pump();
}

bool Link::HasUnsentBye() const {
  return Up() && channel_ && (!controls_.empty() || !channel_->Idle());
}

}  // namespace kedge::net

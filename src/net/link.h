// One peer of one job, as the progress thread sees it: handshake, session, what is to be sent, asked and read.
//
//   idle ──(something to do)──► connecting: hello, challenge, proof, accept ──► up ──(error, silence, bye)──► idle
//
// Either side may begin. When both do at once, the hello of the node whose name is less counts. A session that stands is
// only replaced when the peer has proved the secret anew (it was restarted), never on a mere hello. Whatever ends a session
// fails all that waits for it: nothing is sent twice behind the caller's back. While connecting, a channel that fails is
// opened again until the connect timeout.
//
// Nothing that a stranger sends displaces a handshake. A hello without its proof gets no more than a refusal now and then. Who
// answers one keeps nothing of it: the challenge's nonce is made of the hello and a secret of our own, and made again when the
// proof comes, which holds the hello. Each session renews that secret, so that no proof serves twice. Whatever says no to us may
// be said by anybody who has seen our hello: it only counts when the peer itself says nothing better for a moment.
//
// Flow: a *piece* (a frame of a message) takes one of the peer's credits, and the peer gives them back as long as less than its
// inbox bound waits to be handled. Control frames take none; they are few by construction.
//
// The progress thread only. Callbacks go out through LinkHost::Deliver, never from inside.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/channel.h"
#include "net/frame.h"
#include "net/network.h"
#include "net/progress.h"
#include "net/read_pool.h"

namespace kedge::net {

class Link;

// What links need of their network.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  virtual const NetworkOptions& options() const = 0;
  virtual Fabric* fabric() = 0;
  virtual const NodeAddress& address() const = 0;
  // One of its own for each channel.
  virtual Result<std::unique_ptr<Endpoint>> SendingEndpoint() = 0;
  // Whether it is time to refuse a hello: seldom, so that forged ones cost little.
  virtual bool MayRefuse() = 0;
  virtual Timers* timers() = 0;
  virtual ReadPool* pool() = 0;
  virtual void* pool_descriptor() = 0;
  // Runs `callback` where callbacks run, once this turn of the thread is over.
  virtual void Deliver(std::function<void()> callback) = 0;
  // On the progress thread: what came of a read.
  virtual void DeliverRead(std::function<void()> callback) = 0;
  virtual void DeliverRequest(Link* link, uint64_t session, const MessageHead& head, Buffer body) = 0;
  // Takes a channel that is given up with reads under way, and their buffers, until they are done.
  virtual void Park(std::unique_ptr<Channel> channel, std::vector<size_t> buffers) = 0;
  virtual void SessionBegan(uint64_t session, Link* link) = 0;
  virtual void SessionEnded(uint64_t session) = 0;
  virtual void LeaseEndedByReader(const std::string& job, uint64_t lease) = 0;
  // `change` runs with the lock held under which others read the state.
  virtual void ChangeState(PeerState* state, const std::function<void(PeerState*)>& change) = 0;
  virtual void Count(std::function<void(NetworkCounters*)> change) = 0;
};

struct ReadRequest {
  RemoteMemory memory;
  uint64_t offset = 0;
  size_t bytes = 0;
  int64_t asked_ns = 0;
  Duration timeout{};  // without a read from the peer that is done
  std::function<void(Result<ReadBuffer>)> done;
};

class Link {
 public:
  // `channel`: that of the same peer's former link, or null.
  Link(LinkHost* host, std::shared_ptr<const Membership> membership, Member member, PeerState* state,
       std::unique_ptr<Channel> channel);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Peer& peer() const { return peer_; }
  const NodeAddress& address() const { return member_.address; }
  const std::shared_ptr<const Membership>& membership() const { return membership_; }
  // The same attempt with other members. `is_former`: it is over here, and the peer is served nothing.
  void SetMembership(std::shared_ptr<const Membership> membership, bool is_former) {
    membership_ = std::move(membership);
    is_former_ = is_former;
  }
  bool is_former() const { return is_former_; }
  // The peer is none of the members, and begins every session itself.
  // What a handshake that begins with this hello proves; it refers to the hello.
  static Transcript MakeTranscript(const Hello& hello, const Nonce& responder_nonce);
  void SetGuest() { is_guest_ = true; }
  bool is_guest() const { return is_guest_; }
  bool has_session() const { return Up(); }
  // Begins a session unless one stands or begins.
  void Connect();
  // For what follows the session, which ends; null unless it stands, or has ended in peace, and nothing is under way.
  std::unique_ptr<Channel> TakeChannel();

  void Call(uint16_t kind, Buffer body, int64_t deadline_ns, std::function<void(Result<Buffer>)> done);
  // Dropped when `session` is over.
  void Reply(uint64_t session, uint64_t call, const Result<Buffer>& reply);
  void Read(ReadRequest request);
  void EndRemoteLease(uint64_t lease);
  // `bytes` of what was delivered of `session` have been handled.
  void Handled(uint64_t session, size_t bytes);

  void OnHello(const Hello& hello);
  void OnChallenge(const Challenge& challenge);
  void OnProof(const Proof& proof);
  void OnRefusal(const Refusal& refusal);
  // Of its session, not yet opened.
  void OnFrame(const Frame& frame);
  bool AwaitsChallenge(const Nonce& initiator_nonce) const;

  // Takes the channel's completions and sends what can be sent; true when anything happened.
  bool Progress();
  // Whether the provider must be asked again soon.
  bool MustRetry() const { return channel_ && (channel_->HoldsFrame() || (channel_->PutOffRead() && !read_queue_.empty())); }
  // So long it has time, where that is longer than a moment.
  Duration RetryPause() const {
    return channel_ && !(channel_->PutOffRead() && !read_queue_.empty()) ? channel_->repost_pause() : Duration::zero();
  }
  // What the thread sleeps on; null without a channel.
  Endpoint* endpoint() const { return channel_ ? channel_->endpoint() : nullptr; }
  // Begins queued reads as far as buffers, operations and the session allow; true when any began.
  bool BeginReads();
  bool HasQueuedReads() const { return !read_queue_.empty(); }

  // Ends the session and all that waits, with `why`.
  void Fail(const Status& why);
  // The same for a session that the peer may take for a standing one: by a new one it hears that this is over.
  void Lose(const Status& why);
  // Sends a last word if a session stands, and takes nothing more.
  void SayBye();
  bool HasUnsentBye() const;

 private:
  struct Session {
    uint64_t number = 0;
    FrameKey send_key;
    FrameKey receive_key;
    uint64_t send_sequence = 0;
    uint64_t receive_sequence = 0;
    uint32_t credits = 0;  // pieces that we may send
    uint32_t owed = 0;     // pieces of the peer that we have not given back
    bool accepted = false;
    bool we_began = false;
  };
  struct PendingCall {
    std::function<void(Result<Buffer>)> done;
    Timers::Id timer = 0;
  };
  struct OutMessage {
    Buffer bytes;  // head and body
    size_t sent = 0;
  };
  struct ControlFrame {
    FrameKind kind;
    Buffer payload;
    friend bool operator==(const ControlFrame&, const ControlFrame&) = default;
  };
  struct QueuedRead {
    uint64_t token = 0;
    ReadRequest request;
    Timers::Id timer = 0;
  };
  struct ActiveRead {
    ReadRequest request;
    Timers::Id timer = 0;
    size_t buffer = 0;
  };

  std::string Name() const;
  Session MakeSession(const Transcript& transcript, bool we_began) const;
  bool Up() const { return session_ && session_->accepted; }

  void SendHello();
  // Notes that this hello is answered now, unless it was a moment ago: whoever has seen it may repeat it at will.
  bool IsAnsweredAgain(const Nonce& initiator_nonce);
  void Refuse(const Hello& hello, RefusalReason reason);
  // Somebody says that it will not do.
  void Doubt(const Status& why);
  void OpenChannel();
  void OnConnectTimeout();
  // The channel broke: fails a session that stands, tries again while connecting.
  void OnChannelFailure(const Status& why);
  void CloseChannel();
  void FailWaiting(const Status& why);
  void SessionIsUp();
  void Beat();

  // What waits already is not said twice, and answers to hellos are dropped beyond a few: who said hello will say it again.
  void QueueControl(FrameKind kind, const Control& control);
  void QueueMessage(const MessageHead& head, ByteSpan body);
  bool Pump();
  Status SendControl();
  Status SendPiece();
  void OnControl(FrameKind kind, ByteSpan payload);
  void OnPiece(ByteSpan payload);
  void OnMessage();
  void ReturnCredits();
  void OnReadDone(const Channel::DoneRead& done);
  Timers::Id AddReadTimer(uint64_t token, int64_t since_ns, Duration timeout);
  void OnReadTimeout(uint64_t token);
  // Takes it off the queue, and tells.
  void RefuseQueuedRead(std::deque<QueuedRead>::iterator read, const Status& why);

  LinkHost* const host_;
  std::shared_ptr<const Membership> membership_;
  const Member member_;
  const Peer peer_;
  PeerState* const state_;
  bool is_former_ = false;
  bool is_guest_ = false;

  std::unique_ptr<Channel> channel_;
  bool is_taken_over_ = false;   // the channel is a former session's, and nothing has come of it yet
  bool is_for_refusal_ = false;  // it goes as soon as that is said
  Timers::Id reopen_timer_ = 0;
  Duration reopen_pause_{};
  std::optional<Session> session_;
  Secret challenges_ = Secret::Generate();  // what the nonces of our challenges are made with, until a session stands
  std::map<Nonce, int64_t> answered_ns_;    // the peer's hellos, by their nonces: when each was answered last
  std::optional<Hello> hello_;              // ours, while connecting
  Timers::Id connect_timer_ = 0;
  Timers::Id hello_timer_ = 0;
  Timers::Id doubt_timer_ = 0;
  Timers::Id beat_timer_ = 0;
  Duration hello_pause_{};
  int64_t hello_ns_ = 0;  // when it was said last
  Status last_failure_;   // of the attempts to connect that are under way
  int64_t heard_ns_ = 0;

  std::deque<ControlFrame> controls_;
  std::deque<OutMessage> outbox_;
  size_t outbox_bytes_ = 0;
  uint64_t next_call_ = 1;
  std::map<uint64_t, PendingCall> calls_;

  std::optional<MessageHead> partial_head_;
  Buffer partial_;
  size_t inbox_bytes_ = 0;  // partial, and delivered but not handled

  uint64_t next_read_ = 1;
  std::deque<QueuedRead> read_queue_;
  std::map<uint64_t, ActiveRead> active_reads_;
  int64_t read_ns_ = 0;               // when one was last done
  std::vector<size_t> late_buffers_;  // of reads that have failed, and may still be written to
};

}  // namespace kedge::net

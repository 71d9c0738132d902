// How agents talk: authenticated messages and one-sided reads between the nodes of a job, over libfabric.
//
// A Network is one agent's place on the fabric: an address, a progress thread, the jobs it belongs to. Nodes of a job know
// each other's names and addresses and share a secret (Join). Between two of them a *session* is made at the first use:
// hello, challenge and proof show each side that the other has the secret, then every frame is sealed (authentication.h).
// Nothing is served to, and nothing kept of, whoever has not proved the secret. A session that breaks (the peer died, was
// restarted, does not answer) ends every call and read under way with an error that names the peer; the next use makes a
// new one. What an earlier attempt of the job still sends is refused, and told why.
//
// Large data is not sent: the owner *leases* memory (Lease), tells the other side the RemoteMemory in a message, and that
// one reads it (Read) in pieces. A lease ends by itself; whoever reads on gets an error or stale bytes, never the owner's
// attention, and therefore checks the checksums that came in the message.
//
// Bounds: messages of at most kNetMessageBytesMax; for each peer at most `outbox_bytes_max` unsent and `inbox_bytes_max`
// unhandled; reads in `read_buffers` buffers of kReadBytesMax for all peers together, others queue up to `queued_reads_max`.
// What does not fit is refused with kNoSpace. Every wait has an end.
//
// Threads: all functions may be called from any thread, also from callbacks, except that the destructor and Close must not
// run on the progress thread. Callbacks run through `executor` (an agent posts them to its event loop), those of reads excepted;
// without one, on the progress thread, where they must not block. A callback is called exactly once; after Close none is called
// any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "format/wire.h"
#include "net/address.h"
#include "net/authentication.h"
#include "net/read_buffer.h"

namespace kedge::net {

inline constexpr size_t kNetMessageBytesMax = size_t{16} << 20;
inline constexpr size_t kReadBytesMax = size_t{1} << 20;

struct NetworkOptions {
  std::string provider = "tcp";                         // as libfabric names it; Open chooses a reliable-datagram endpoint of it
  std::string interface_address;                        // host name or address to listen at; empty: the provider's first
  NodeAddress former_address;                           // of a predecessor, bound again; empty: a new one
  Duration connect_timeout = std::chrono::seconds(10);  // to reach and authenticate a peer
  Duration heartbeat_interval = std::chrono::seconds(2);
  Duration silence_timeout = std::chrono::seconds(10);  // a peer that says nothing for so long is taken for lost
  size_t outbox_bytes_max = size_t{32} << 20;
  size_t inbox_bytes_max = size_t{32} << 20;
  size_t read_buffers = 16;
  size_t reads_per_peer_max = 4;  // in flight at once
  size_t queued_reads_max = 65536;
  size_t leases_max = 65536;
  // Ways to peers are prepared while there are none, up to so many, and up to three when peers leave nothing to do: making one
  // takes some milliseconds of processor time over `tcp`, and each holds some MiB.
  size_t endpoints_ahead = 0;
  std::function<void(std::function<void()>)> executor;
};

// A node of a job, as the bootstrap gathered it.
struct Member {
  std::string node;
  NodeAddress address;

  friend bool operator==(const Member&, const Member&) = default;
};

// Who is meant, or who asks.
struct Peer {
  std::string job;
  std::string node;

  friend bool operator==(const Peer&, const Peer&) = default;
  friend auto operator<=>(const Peer&, const Peer&) = default;
};

// One attempt of a job, and this agent's place in it.
struct Membership {
  std::string job;  // names the job within this user's network: store id and job name
  uint32_t attempt = 0;
  std::string self;             // this agent's node; need not be among the members
  Secret secret;                // of this attempt, the same on all nodes
  std::vector<Member> members;  // whom to talk to, and who may talk to us
  // The attempt before it: those of its members that are none of this one's can still be asked in its name, until the job is
  // joined again without it. They are served nothing. Null: none.
  std::shared_ptr<const Membership> former;
  // Whoever proves the secret is let in, as a *guest*, under the name and from the address that its proof covers. Guests are
  // called, served and read from like members; one goes with its session. At most so many at a time; 0: none but members.
  size_t guests_max = 0;
  // A guest's session has ended: through the executor, before anything of a later session of it. May be null.
  std::function<void(const Peer& guest)> guest_left;
  // This node says in its hellos where it is, since those that it calls let it in as a guest.
  bool is_guest = false;
};

// Memory of another node that may be read. Travels in messages (EncodeRemoteMemory).
struct RemoteMemory {
  uint64_t lease = 0;    // the owner's number of it
  uint64_t address = 0;  // of its first byte, as the owner's provider counts
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint32_t milliseconds = 0;   // how long it may be read from when it is received
  int64_t end_ns = INT64_MAX;  // the same as a time of this machine's system clock; set where it is decoded
};
void EncodeRemoteMemory(const RemoteMemory& memory, Encoder* out);
RemoteMemory DecodeRemoteMemory(Decoder* in);

// Answers one request; may be kept and called later, from any thread, at most once. An error arrives as the caller's Status, with
// its errno.
// Dropped without a call, it answers kInternal.
using Answer = std::function<void(Result<Buffer> reply)>;
// A request of `kind` from an authenticated peer. `body` is valid during the call only.
using Handler = std::function<void(const Peer& peer, ByteSpan body, Answer answer)>;

struct PeerState {
  Peer peer;
  NodeAddress address;
  bool connected = false;
  int64_t heard_ns = 0;    // when an authentic frame last came, by the system clock; 0: never
  int64_t read_ns = 0;     // when a read from it was last done; 0: never
  std::string last_error;  // why the last session ended or could not be made; empty: none did
  uint64_t sessions = 0;   // made so far
};

struct NetworkCounters {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_read = 0;  // by us
  uint64_t reads_failed = 0;
  uint64_t frames_refused = 0;      // of strangers, malformed, forged, replayed
  uint64_t handshakes_refused = 0;  // wrong secret, unknown, of another attempt
  uint64_t leases_expired = 0;      // not ended by their reader or owner
  uint64_t channels_opened = 0;     // ways to peers: costly
  uint64_t channels_parked = 0;     // given up with reads under way, which are not done yet
  uint64_t endpoints_ahead = 0;     // prepared for some, right now
};

// Libraries that Debian's libfabric brings, and that install handlers for signals as they are loaded.
inline constexpr std::string_view kSignalTakers[] = {"libpsm", "libinfinipath"};
// Gives libfabric settings of its own (fi_info -e) for this use, those that the environment has not set: it reads them at the
// first Open. Before the process has other threads.
void SetFabricDefaults();

class Network {
 public:
  // kUnsupported: libfabric has no such provider here, or it lacks what is needed; the message names what it has.
  // kUnavailable: the address cannot be bound.
  static Result<std::unique_ptr<Network>> Open(NetworkOptions options);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  // Ends sessions, leases and the thread; callbacks that are due are dropped (with an executor: also those posted).
  void Close();

  const NodeAddress& address() const;

  // Begins to serve an attempt of a job, or changes its members. A greater attempt replaces the former: its sessions end.
  // kInvalidArgument: a bad name, too many members. kMismatch: a smaller attempt, or the same with another secret.
  Status Join(Membership membership);
  // Sessions and leases of the job end.
  void Leave(const std::string& job);

  // Makes the session with a member now, so that the first call finds it. What comes of it is seen in Peers().
  void Connect(const Peer& peer);

  // Who answers requests of `kind` (of all jobs); replaces the former handler.
  void Serve(uint16_t kind, Handler handler);
  // Asks a peer. The reply, the peer's error, or: kUnavailable, kTimeout, kPermission (authentication), kNoSpace, kNotFound (no
  // such member), each naming the peer. After kUnavailable and kTimeout the peer may or may not have seen the request.
  void Call(const Peer& peer, uint16_t kind, Buffer body, Duration timeout, std::function<void(Result<Buffer>)> done);

  // Lets authenticated peers of the job read `memory`, which must stay mapped until `ended` was called: after EndLease (by
  // either side), when `duration` has passed, and with the job or the network. Reads are served by this network's thread.
  Result<RemoteMemory> Lease(const std::string& job, std::span<const std::byte> memory, Duration duration,
                             std::function<void()> ended);
  void EndLease(uint64_t lease);
  // The reader's way to end the peer's lease early.
  void EndLease(const Peer& peer, const RemoteMemory& memory);

  // Reads `bytes` (at most kReadBytesMax, within the memory's) at `offset`. What arrives is unverified. Reads of one peer begin
  // in the order of their calls. A read times out when for so long no read from the peer has been done, since the call at the
  // earliest: one that waits behind others on a slow link does not. The session with the peer ends then, and its other reads
  // with it. kFailedPrecondition: the lease was over before the read's turn came. `done` runs on the progress thread, also where
  // there is an executor, and must not block: whoever waits for many reads is not to wait for an event loop as well.
  void Read(const Peer& peer, const RemoteMemory& memory, uint64_t offset, size_t bytes, Duration timeout,
            std::function<void(Result<ReadBuffer>)> done);

  std::vector<PeerState> Peers() const;
  NetworkCounters Counters() const;

 private:
  class Engine;
  explicit Network(std::unique_ptr<Engine> engine);
  std::unique_ptr<Engine> engine_;
};

}  // namespace kedge::net

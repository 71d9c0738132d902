// Messages on the agent's socket: everything that is not on the path of a checkpoint (that is mailbox.h).
//
// A frame of the socket (os/sockets/unix_socket.h) is one message: kind, the number of the request it is or answers, fields. The
// client asks, the agent answers each request with one message of the kind stated here, or with ErrorReply; answers to
// different requests may come in any order (a wait is answered late). Only Drain is answered several times: progress, then
// the end. Nothing comes unasked. Decoding trusts nothing; both sides are of one build family (kProtocolVersion), so the
// encoding needs no room for older fields.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "format/identity.h"
#include "format/store_records.h"
#include "format/wire.h"
#include "session/halt.h"
#include "session/mailbox.h"
#include "tier/tier_info.h"

namespace kedge {

inline constexpr size_t kMessageBytesMax = 16 << 20;
inline constexpr uint32_t kRanksOnNodeMax = 4096;

// How far a version is protected. Values as kedge_level.
enum class Level : uint8_t { kNone = 0, kLocal = 1, kNode = 2, kBuffer = 3, kStore = 4, kLast = 100 };
const char* LevelName(Level level);

// How versions survive the loss of nodes (level kNode).
enum class ProtectScheme : uint8_t { kNone = 0, kPartner = 1, kXor = 2, kReedSolomon = 3 };
const char* ProtectSchemeName(ProtectScheme scheme);

// Whether something that saves work is tried; kAuto: while it pays.
enum class Feature : uint8_t { kOff = 0, kOn = 1, kAuto = 2 };

// Which of its blocks an image does not write because there is an equal one: of itself, or also of other ranks of the node.
// Of reduce.common: so many go from node to node in one message.
inline constexpr uint32_t kCommonBlocksMost = 1 << 18;
enum class Deduplication : uint8_t { kOff = 0, kRank = 1, kNode = 2, kJob = 3 };

// In what objects of the store images lie: each in its own, those of a node and version together, or those of all nodes in few,
// which some of them write, or all of them.
enum class StoreLayout : uint8_t { kFile = 0, kNode = 1, kLeaders = 2, kPosix = 3 };

// What a job asks of its agent. The newest Hello of a job is what holds for it on the node.
struct JobKeys {
  std::string store_path;  // absolute
  uint32_t store_mode = 0700;
  bool store_direct = true;
  StoreLayout store_layout = StoreLayout::kFile;
  uint32_t store_leaders = 0;                 // objects, with kLeaders (0: one for each node) or kPosix (0: one)
  uint64_t store_stripe_bytes = 16ull << 20;  // what a leader gets at a time
  uint32_t store_targets = 0;                 // of a parallel file system, for each object; 0: its own choice
  std::string staging_folder;                 // absolute, where staging agents say where they are; empty: none write for the job
  uint32_t staging_alpha_percent = 5;         // by which its steps may take longer while they read; 0: any
  std::string scratch;                        // absolute folder of a tier of the job's own; empty: the node's tiers
  uint32_t keep_versions = 2;
  uint32_t keep_local = 1;
  uint32_t schedule_store = 1;         // every n-th version of a name; 0: none
  Duration schedule_store_interval{};  // not more often than this; zero: no limit
  uint32_t schedule_node = 1;          // every n-th version is protected across nodes; 0: none
  Duration schedule_node_interval{};
  Duration schedule_interval{};        // between two checkpoints; zero: the application's own
  bool schedule_adapt = false;         // the agent's interval holds instead, once it has one
  bool schedule_adapt_levels = false;  // and its counts for schedule_node and schedule_store
  Duration schedule_mtbf_local{};      // assumed until failures are observed
  Duration schedule_mtbf_node{};
  Duration schedule_mtbf_store{};
  bool skip_queued = false;
  Feature reduce_incremental = Feature::kOff;  // blocks that the version before has are not written once more
  Deduplication reduce_deduplicate = Deduplication::kOff;
  uint32_t reduce_common_most = 65536;      // blocks that nodes agree on for a version, with Deduplication::kJob
  bool reduce_verify = false;               // bytes are compared as well as fingerprints, where they are at hand
  Feature reduce_compress = Feature::kOff;  // the others are compressed
  uint32_t reduce_block_bytes = 64 << 10;   // a power of two, kMapBlockBytesMin to kMapBlockBytesMax
  bool files_publish = true;
  ProtectScheme protect_scheme = ProtectScheme::kNone;
  uint32_t protect_group = 0;                           // nodes of a group; 0: chosen
  uint32_t protect_losses = 2;                          // of a group that Reed-Solomon survives
  uint32_t protect_copies = 1;                          // that partners hold
  Duration protect_timeout = std::chrono::seconds(60);  // without progress
  bool protect_required = true;                         // a layout that cannot protect is an error, else a warning

  bool Protects() const { return protect_scheme != ProtectScheme::kNone && schedule_node > 0; }
  // Blocks are looked for among those of all ranks of the node.
  bool DeduplicatesNode() const { return reduce_deduplicate >= Deduplication::kNode; }
  // And among those of all nodes: not where bytes are to be compared, since those of another node are not at hand.
  bool DeduplicatesJob() const { return reduce_deduplicate == Deduplication::kJob && !reduce_verify; }
  // Whether an interval says which versions go to the store: nodes are to agree on it.
  bool HasStoreInterval() const { return schedule_store > 0 && schedule_store_interval > Duration::zero(); }

  friend bool operator==(const JobKeys&, const JobKeys&) = default;
};

// A slot that a client held when its agent died.
struct HeldSlot {
  uint32_t tier = 0;
  uint32_t slot = 0;
  uint64_t slot_generation = 0;
  bool is_full_chunk = false;  // assigned for one (PlaceKind): it goes back with its image's end
};

// First message of a rank. Answer: Welcome, with the descriptors that it names. kMismatch names both values.
struct Hello {
  uint32_t protocol = kProtocolVersion;
  std::string build;
  std::string job;
  StoreId store_id;
  uint32_t attempt = 0;
  // The encoded record of an attempt that began without the store: nothing of it goes there before that stands there.
  std::string unrecorded;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t ranks_on_node = 1;
  JobKeys keys;
  // Node keys that the job sets explicitly, as canonical texts (Config::TextOf): they must be the agent's.
  std::vector<std::pair<std::string, std::string>> node_keys;
  // To attach again after the agent died: the former session, else 0. The slots it still holds; all others are free, and
  // when one of these is not its own any more the session is a new one. It has no request pending and has taken everything
  // out of `from_agent`.
  uint32_t session_id = 0;
  std::vector<HeldSlot> held_slots;
  uint64_t last_image_serial = 0;  // images begun so far

  // Whether agents of the job's nodes speak with each other: to protect versions, to agree which of them are due and where they
  // go, and when the job is to end. Or with staging agents.
  bool NeedsPeers() const { return keys.Protects() || ranks_on_node < ranks || !keys.staging_folder.empty(); }
};

// Descriptors with it: mailbox, eventfd, control block, then one pool file for each memory tier in order of the list.
struct Welcome {
  uint32_t session_id = 0;
  std::string build;
  bool attached_again = false;  // Hello's session goes on; otherwise it is a new one
  std::string node;
  uint64_t chunk_bytes = 0;  // at most the slot of every tier in the list
  uint64_t piece_bytes = 0;
  uint64_t capacity_bytes = 0;  // of all tiers in the list
  // Of the sessions of an attempt one tells people what holds for the whole node.
  bool speaks_for_node = false;
  std::string no_tiers;  // why the list is empty
  std::string failure_domain;
  std::string address;          // where other nodes' agents reach this one; empty: nowhere
  std::vector<TierInfo> tiers;  // SlotRange::tier is the index here; fastest first
};

// One node of a job's attempt: what the ranks have gathered from each other's Welcome.
struct JobNode {
  std::string name;
  std::string failure_domain;
  std::string address;  // empty: it had no agent
  std::vector<uint32_t> ranks;

  friend bool operator==(const JobNode&, const JobNode&) = default;
};
// Who is in the attempt, and the secret by which its agents know each other. Kept with the job, also for a successor.
// `nodes` is empty for a job on one node that protects nothing (Hello::NeedsPeers).
struct Membership {
  uint32_t attempt = 0;
  uint32_t ranks = 0;
  std::string secret;
  std::vector<JobNode> nodes;

  friend bool operator==(const Membership&, const Membership&) = default;
};
// From a session. Answer: DoneReply; kFailedPrecondition: these nodes cannot protect each other.
struct MembersRequest {
  Membership members;
};

// The ranks have restarted and go on from there. From a session. Answer: DoneReply.
struct RestoredRequest {
  RestoredRecord record;
  bool noted = false;  // it stands in the store; else it is put there before anything that follows
};

// From a tool, after the application has died: what the nodes have lost of the versions that are `wanted` comes back, the part of
// it that falls to this node; with `to_store` the node's images of these versions go to the store, and nobody waits any more
// for what cannot be protected. Without either nothing is done but look. The nodes of `left_out` are most likely dead, and are
// given only a moment to answer. Answer: RebuildReply.
struct RebuildRequest {
  StoreId store_id;
  std::string job;
  bool to_store = false;
  std::vector<Generation> wanted;
  std::vector<std::string> left_out;
};
// What the nodes have of one generation.
struct SurvivingVersion {
  Generation generation;
  uint32_t ranks = 0;
  std::vector<RankRun> given;    // whose images the nodes can give, to the store for example
  std::vector<RankRun> at_hand;  // of these, what a restart finds with its ranks where they were last: without protect.scheme
                                 // the nodes bring each other nothing
  bool was_safe = false;         // it was at level NODE or in the store; else it may never have been whole
  std::string why_lost;          // of the other images, one line each
};
struct RebuildReply {
  std::vector<SurvivingVersion> versions;
  std::vector<RestoredRecord> restored;   // what the job's attempts went on from, as far as this node was told
  uint32_t images_brought = 0;            // to this node
  uint32_t images_owed = 0;               // of this node to the store
  std::vector<std::string> silent_nodes;  // of the attempt, that do not answer
  Status failure;                         // the first
};

// From a tool: how fast the ways from this node to others of a job are. One such question at a time; a node that does not answer
// is passed over after some seconds. Answer: MeasureReply. kNotFound: no job of that name here (or none at all) has nodes that
// know each other; kInvalidArgument: several have, and none is named; kBusy: another tool asks.
struct MeasureRequest {
  std::string job;         // empty: the only one
  bool all_nodes = false;  // of the job's attempt; else of this node's group
  Duration timeout{};      // whose turn has not come by then is not measured
};
struct MeasuredNode {
  std::string node;
  std::string address;                 // for people
  bool is_reached = false;             // it has answered
  uint64_t round_trip_ns = 0;          // of a small request, the median; 0: not measured
  uint64_t read_bytes_per_second = 0;  // of remote reads; 0: not measured
  Status failure;                      // why something is not measured
};
struct MeasureReply {
  std::string node;  // from which it was measured
  std::string job;
  uint32_t attempt = 0;
  std::string provider;  // libfabric's full name of it
  std::vector<MeasuredNode> nodes;
};

// Also as the first message, before Hello, from a rank that is about to start: what this node knows of the job with that name
// and store path. Answer: KnownJobsReply.
struct KnownJobsRequest {
  uint32_t protocol = kProtocolVersion;
  std::string build;
  std::string job;
  std::string store_path;  // as in JobKeys
};
struct KnownJob {
  StoreId store_id;
  uint32_t attempt = 0;                  // the newest
  uint32_t live_ranks = 0;               // of it, on this node
  bool knows_versions = false;           // one is on this node, in part at least, or was in the store
  std::string unrecorded;                // as in its Hello
  std::vector<RestoredRecord> restored;  // what its attempts went on from, as far as this node was told
};
struct KnownJobsReply {
  std::vector<KnownJob> jobs;  // one for each store that has lain there
};

// First message of a tool: no job, no mailbox. Answer: ToolWelcome.
struct ToolHello {
  uint32_t protocol = kProtocolVersion;
  std::string build;
};
struct ToolWelcome {
  std::string build;
  std::string node;
  int32_t agent_pid = 0;
};

// Until all ranks' images of the generation are at `level` (kLast: at the last level it is scheduled for), the flush fails,
// or the time is over.
struct WaitRequest {
  Generation generation;
  Level level = Level::kLast;
  Duration timeout{};
};
struct LevelReply {
  Level level = Level::kNone;      // reached by all ranks
  Level scheduled = Level::kNone;  // the last level that it is to reach
  Status failure;                  // of its flush; or kTimeout, naming the missing ranks
  std::vector<uint32_t> missing_ranks;
};
// The level now. Answer: LevelReply.
struct TestRequest {
  Generation generation;
};

// Which images lie whole on this node, or can be brought here from others. Answer: LocalVersionsReply.
struct LocalVersionsRequest {
  StoreId store_id;
  std::string job;
  std::string name;         // empty: every name
  bool everywhere = false;  // all nodes of the job are asked, not first of all those that protect each other with this one
};
struct LocalVersion {
  Generation generation;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  Level level = Level::kNone;  // of the generation, as far as the agent knows
};
// One that the nodes cannot give.
struct LostVersion {
  Generation generation;
  bool was_safe = false;  // as of a SurvivingVersion
  std::string why;
};
struct LocalVersionsReply {
  std::vector<LocalVersion> versions;
  std::vector<LostVersion> lost;          // of the ranks of this node, where all nodes were asked; the newest first
  std::vector<std::string> silent_nodes;  // of the attempt, that were asked and do not answer: what they hold is not known
};

// Where one image lies. Its slots stay as they are until CloseImage or the end of the session. Answer: OpenImageReply.
struct OpenImageRequest {
  Generation generation;
  uint32_t rank = 0;
  bool replace = false;  // the copy on this node was found to be bad: another is brought from other nodes first
};
inline constexpr uint32_t kTierNone = UINT32_MAX;  // SlotRange::tier of a chunk that lies in the store only
struct OpenImageReply {
  uint64_t image = 0;             // for CloseImage
  SlotRange record{};             // the encoded image record
  std::vector<SlotRange> chunks;  // of the record's chunk table, in order
  bool was_brought = false;       // from other nodes, for this attempt
};

// The same of an image that other nodes have and this one has no room for: it is shown part by part. Answer: OpenWindowReply,
// with the descriptor of the window.
struct OpenWindowRequest {
  Generation generation;
  uint32_t rank = 0;
  bool replace = false;  // as in OpenImageRequest
};
struct OpenWindowReply {
  uint64_t image = 0;          // for ShowRequest and CloseImage
  uint64_t record_offset = 0;  // of the encoded image record in the image's stream, the chunks being at their object offsets
  uint64_t record_bytes = 0;
  uint64_t window_bytes = 0;
};
// The part with that byte of the stream is to be in the window. Answer: ShowReply.
struct ShowRequest {
  uint64_t image = 0;
  uint64_t offset = 0;
};
struct ShowReply {  // what is there, from the window's first byte on, until the next ShowRequest
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

// Objects of a far store in which an image lies that the rank is about to read: other ranks of the node may need the same bytes,
// and the agent then reads them once for all. Said before the ranks agree to read. Answer: ShareObjectsReply.
struct LineRun {  // of kSharedLineBytes of an object each
  uint64_t first = 0;
  uint64_t lines = 0;
};
struct WantedObject {
  std::string key;  // whole, of the session's job
  std::vector<LineRun> lines;
};
struct ShareObjectsRequest {
  std::vector<WantedObject> objects;
};
struct ShareObjectsReply {
  uint64_t image = 0;  // for ReadLineRequest and CloseImage
};
// Answer: ReadLineReply, with the descriptor of the memory (shared_lines.h) the first time that something is there.
struct SharedLineName {
  uint32_t object = 0;  // index into ShareObjectsRequest::objects
  uint64_t line = 0;
};
struct ReadLineRequest {
  uint64_t image = 0;
  std::vector<SharedLineName> done;    // what the rank has read of these is all that it needs
  std::vector<SharedLineName> wanted;  // one, or none
};
struct ReadLineReply {
  bool is_here = false;   // false: the rank reads by itself what it needs of the line
  bool is_alone = false;  // and of the whole object: no other rank needs it, or it cannot be read
  uint32_t place = 0;     // in the memory
  uint64_t sequence = 0;
  uint32_t bytes = 0;  // as many as the object has there
};

struct CloseImageRequest {  // Answer: DoneReply
  uint64_t image = 0;
};

// Lets go of the local copies of one rank that are not owed to a level any more. Answer: CleanupReply.
struct CleanupRequest {
  StoreId store_id;
  std::string job;
  std::string name;  // empty: every name
  uint32_t rank = 0;
};
struct CleanupReply {
  uint64_t images = 0;
  uint64_t bytes = 0;
};

// What of a rank's images, of one attempt, is on its way to a level: also those of sessions that the rank had before this one.
// Answer: PendingReply.
struct PendingRequest {
  StoreId store_id;
  std::string job;
  uint32_t attempt = 0;
  uint32_t rank = 0;
};
struct PendingReply {
  uint64_t images = 0;
  uint64_t bytes = 0;
};

// Pins or versions in the store changed: apply retention again. Answer: DoneReply.
struct RetainRequest {
  StoreId store_id;
  std::string job;
  std::string name;
};

struct StatusRequest {};
struct StatusReply {
  std::string json;
};

// Until everything handed over is at `level`, as far as it is scheduled to get there (kLast: at its last scheduled level);
// `job` empty: of all jobs. Answer: DrainReply about twice a second, the last with `finished`.
struct DrainRequest {
  StoreId store_id;
  std::string job;
  Level level = Level::kLast;
  Duration timeout{};
};
struct DrainReply {
  bool finished = false;
  uint64_t images_pending = 0;
  uint64_t bytes_pending = 0;
  uint64_t images_failed = 0;  // to get there, since the drain began
  // kTimeout, the first of those, or else why the newest version of a name had failed to get to the `level` before.
  Status failure;
};

// The session ends; what it handed over is carried on. Answer: DoneReply.
struct GoodbyeRequest {};
// From tools: the agent leaves, now (its successor goes on from the tiers) or when nothing is pending. Answer: DoneReply.
struct ShutdownRequest {
  bool when_drained = true;
};

// From tools: the attempt that runs now is to end cleanly, as kedge_should_exit tells it. Answer: HaltReply.
struct HaltRequest {
  std::string job;  // empty: all that run
  HaltWhen when = HaltWhen::kNextCheckpoint;
};
struct HaltedJob {
  std::string job;
  uint32_t attempt = 0;
  bool has_rank_0 = false;  // its rank 0 is on this node, whose agent is the one that tells it
};
struct HaltReply {
  std::vector<HaltedJob> jobs;
};

struct DoneReply {};
// The answer takes the agent longer than usual; it comes with the same number. Said every other second meanwhile.
struct PatienceReply {};
struct ErrorReply {
  Status status;
};

// The order gives the kind's number on the wire: append only.
using Message = std::variant<Hello, Welcome, ToolHello, ToolWelcome, WaitRequest, LevelReply, TestRequest, LocalVersionsRequest,
                             LocalVersionsReply, OpenImageRequest, OpenImageReply, CloseImageRequest, CleanupRequest,
                             CleanupReply, RetainRequest, StatusRequest, StatusReply, DrainRequest, DrainReply, GoodbyeRequest,
                             ShutdownRequest, DoneReply, ErrorReply, MembersRequest, HaltRequest, HaltReply, RestoredRequest,
                             RebuildRequest, RebuildReply, MeasureRequest, MeasureReply, KnownJobsRequest, KnownJobsReply,
                             OpenWindowRequest, OpenWindowReply, ShowRequest, ShowReply, PendingRequest, PendingReply,
                             PatienceReply, ShareObjectsRequest, ShareObjectsReply, ReadLineRequest, ReadLineReply>;

struct NumberedMessage {
  uint64_t number = 0;  // chosen by who asks, repeated in the answer
  Message message;
};

Buffer EncodeMessage(uint64_t number, const Message& message);
// kCorrupt on anything but the encoding of one message.
Result<NumberedMessage> DecodeMessage(ByteSpan frame);

inline constexpr size_t kNodesMax = 1 << 20;
inline constexpr size_t kSecretBytesMax = 256;
Buffer EncodeMembership(const Membership& members);
Result<Membership> DecodeMembership(ByteSpan bytes);

// The Hello as a file in the agent's run folder: what a successor must know of a job whose processes are gone. kMismatch: it is
// of another protocol, whose jobs and images a successor does not take up.
Buffer EncodeHello(const Hello& hello);
Result<Hello> DecodeHello(ByteSpan bytes);

}  // namespace kedge

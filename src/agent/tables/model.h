// What the agent knows: tiers, sessions, jobs, versions, images. Plain data; the modules beside it hold the rules.
//
// All of it belongs to the event loop's thread. Workers get copies or shared objects (Tier, StoreContext, FlushObject),
// never a pointer into these tables. Objects are found again by id, because they may be gone when an answer comes.
//
//   Job (store id, name) ── Version (one generation) ── Image (one rank) ── chunks in slots of TierUnits
//   Session (one client process) ── slots assigned to it, images it has begun
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/tables/flush_object.h"
#include "agent/tables/summed_runs.h"
#include "base/log.h"
#include "format/image_record.h"
#include "format/node_records.h"
#include "format/set_records.h"
#include "model/learned_curve.h"
#include "model/throughput_curve.h"
#include "os/events/event_loop.h"
#include "os/files/file_system.h"
#include "os/files/private_files.h"
#include "os/process/process.h"
#include "reduce/common_blocks.h"
#include "reduce/first_blocks.h"
#include "reduce/worth.h"
#include "schedule/interval_advice.h"
#include "schedule/schedule.h"
#include "session/halt.h"
#include "session/mailbox_file.h"
#include "session/messages.h"
#include "session/ring.h"
#include "store/attempts.h"
#include "store/lineage.h"
#include "tier/slot_space.h"
#include "tier/tier.h"

namespace kedge {

struct Image;
struct Version;
struct Job;
class ImageWindow;
struct Protection;
namespace redundancy {
struct Layout;
}

// Where the agent's own files are: run folder, tiers, scratch.
inline os::FileSystem& fs() {
  return os::PrivateFileSystem();
}

// Where chunks went, what that cost, and how well it was predicted: of one image, a version, a tier, or all (throughput.h).
struct PlacementCounts {
  std::map<std::string, uint64_t> chunks;  // by tier; "store": written through for want of room
  uint64_t waits = 0;                      // requests for a place that had to wait
  double wait_seconds = 0;
  // Of chunks whose throughput was predicted and observed; sums over chunks, of one writer's bytes per second.
  uint64_t judged = 0;
  double predicted = 0;
  double observed = 0;
  double error = 0;  // |predicted - observed| / observed

  void Add(const PlacementCounts& other);
};

// A tier's speed, and who uses it now (throughput.h).
struct TierThroughput {
  std::string kind;  // of the device's calibration; empty: nothing is kept of it
  std::string device;
  std::optional<ThroughputCurve> curve;  // nothing: not known yet
  bool is_measured = false;              // the curve is a calibration's, else learned
  LearnedCurve learned;
  uint64_t fitted = 0;         // observations of `learned` that are in the curve
  uint64_t saved = 0;          // and that are on file
  uint32_t claims = 0;         // Sw: chunks that have a place here and are not written yet
  uint64_t bytes_to_come = 0;  // that their writers will ask for after them, and have not asked for yet
  uint32_t writing = 0;        // of these, being written
  double writing_seconds = 0;  // integral of `writing` over time, up to writing_ns
  int64_t writing_ns = 0;
  PlacementCounts judged;
};

// What the memory ledger keeps of a memory tier (memory_ledger.h).
struct TierMemory {
  uint32_t making = 0;        // free slots that are being backed
  uint32_t awaited = 0;       // of these, those that somebody waits for
  uint64_t making_bytes = 0;  // on top of what is backed, in these and in slots that grow
  uint32_t asked = 0;         // of `awaited`, those that somebody was told of in this turn
  uint64_t wanted_bytes = 0;  // of slots that its sessions will fill, as last looked at
  int64_t excess_since_ns = 0;
  std::set<uint32_t> hurried;     // slots whose space was reserved while somebody waited: their pages are to be made yet
  uint32_t preparing = 0;         // such slots that are held for a while, because that is being done
  int64_t volume_room_bytes = 0;  // of its file system, as last looked at, less what was taken since
  int64_t refused_until_ns = 0;   // that has refused space a moment ago
};

// One tier in use, with its accounting. A tier that is lost and made anew is another unit.
struct TierUnit {
  uint32_t id = 0;
  std::shared_ptr<Tier> tier;
  std::unique_ptr<SlotSpace> space;
  uint32_t full_slots = 0;  // as many slots as its capacity backs as a whole (space/tier_cut.h)
  std::string scratch;      // the job.scratch that it was opened for; empty: the node's
  bool lost = false;
  int64_t unused_since_ns = 0;   // when somebody had something in it last, as far as it may be closed
  uint32_t flushing_chunks = 0;  // whole ones on their way to the store, which will free their slots
  uint64_t bytes_captured = 0;   // in images that ended here
  TierThroughput throughput;
  TierMemory memory;

  const TierInfo& info() const { return tier->info(); }
  uint64_t capacity_bytes() const { return info().slot_bytes * full_slots; }
  // Of these, those that are left: each slot in use counts as one, however far it is backed.
  uint32_t FreeFullSlots() const { return full_slots - std::min(full_slots, space->slots() - space->free_slots()); }
};

// Bytes of an image's chunk.
struct ChunkPlace {
  uint32_t chunk = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct ImageChunk {
  TierUnit* unit = nullptr;  // null: not in a slot (in the store already, or a file)
  uint32_t slot = 0;
  uint64_t slot_generation = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string file;               // a routed file on the node, its whole path
  TierUnit* file_unit = nullptr;  // the tier in whose folder it lies
  // Where it goes in the image's object; `in_own_object` false: it lies in another object of the store already.
  bool in_own_object = true;
  uint64_t object_offset = 0;
  uint64_t captured_bytes = 0;
  uint64_t queued_bytes = 0;        // handed to the flush so far
  uint64_t written_bytes = 0;       // of these, those in the image's object
  std::vector<SummedRun> written;   // as they went there, in any order
  std::vector<SummedRun> captured;  // by the image record, once that is known
  bool is_flushing = false;         // counted in unit->flushing_chunks
  // Its slot was wanted by somebody else (images_release.cc): the object under way holds the only copy until it is stored.
  // `unit` is null; slot, generation and offset tell where it was.
  bool released = false;

  bool IsLocal() const { return unit != nullptr || !file.empty(); }
  // Where a worker reads so many bytes of it, from its byte `at` on.
  PieceSource Source(uint64_t at, uint64_t source_bytes) const;
  // Whether its flush is one that will free a slot (TierUnit::flushing_chunks).
  void CountAsFlushing(bool is_one);
};

// Who owns the slots that the agent takes for itself (own_slots.h): no session has that number.
inline constexpr uint32_t kAgentSlotOwner = kSlotOwnersMax;

// A part of such a slot.
struct OwnRange {
  TierUnit* unit = nullptr;
  uint32_t slot = 0;
  uint64_t slot_generation = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Redundancy of a set that lies here: this node's parity, or a copy of another member's stream.
struct HeldObject {
  ParityRecord record;
  std::vector<OwnRange> ranges;
  bool pinned = true;  // as an image of its version on this node is

  bool IsLost() const;
};

// A set of protected images that this node is a member of (held_sets.h).
struct HeldSet {
  uint64_t number = 0;  // of its files
  SetRecord record;
  Buffer encoded;
  uint32_t crc32c = 0;                     // of `encoded`
  std::map<uint32_t, HeldObject> objects;  // by member
};

// How long to wait before something that has failed is tried again.
struct RetryPauses {
  uint32_t failures = 0;  // but for the next
  uint32_t absences = 0;  // of these, those for which nothing but time is needed: the store was not there

  // After `why`: four times as long each, up to a few seconds where only time is needed.
  Duration Next(const Status& why);
};

enum class FlushState : uint8_t {
  kNone,      // not owed to the store
  kFlushing,  // pieces are queued or under way, or it is not captured yet
  kWritten,   // all pieces are in the object; to be published
  kPublishing,
  kStored,   // its object and part record are durable
  kWaiting,  // failed, to be tried again
  kShipped,  // another node writes it (gather/shipper.h)
  kFailed,   // given up; `failure` says why
};
// For people: "flushing".
const char* FlushStateName(FlushState state);

struct Image {
  uint64_t id = 0;
  Version* version = nullptr;
  uint32_t rank = 0;
  uint32_t session_id = 0;  // who captured it; the session may be gone
  uint64_t serial = 0;
  bool ended = false;
  bool recovered = false;            // captured before this agent began
  uint32_t brought_for_attempt = 0;  // it came from other nodes then; 0: captured here
  int64_t progress_ns = 0;           // when its client was last heard of it
  int64_t ended_ns = 0;
  std::vector<ImageChunk> chunks;  // of the chunk table, as far as they are known
  ImageChunk record;               // image record and placement table
  uint64_t record_bytes = 0;       // of the image record alone
  uint32_t record_crc32c = 0;      // of the image record alone
  uint64_t record_object_offset = 0;
  uint64_t image_bytes = 0;
  bool has_files = false;
  bool files_published = false;
  std::string record_path;  // its local record
  bool is_saved = false;    // that was written: a successor of this agent finds the image

  bool pinned = true;  // its chunks count as pinned in their slots
  bool owed = true;    // as retention decided last
  uint32_t readers = 0;
  bool doomed = false;        // to be removed as soon as nobody reads it
  bool is_disagreed = false;  // its rank was told that another has taken another version (takings.h)

  FlushState flush = FlushState::kNone;
  Duration flush_time{};        // of the present object's pieces, one after the other
  PieceWritten flush_written;   // of these, what the store has taken and how long that took
  bool is_handed_over = false;  // shipped, and whole on that other node, which owes it to the store from then on
  std::shared_ptr<FlushObject> object;
  uint32_t flush_epoch = 0;  // counts the objects begun; answers of an earlier one are passed over
  bool is_alone = false;     // it borrows blocks of no other image any more: one that had some was not published with it
  uint32_t pieces_queued = 0;
  uint32_t pieces_in_flight = 0;
  RetryPauses tries;
  Status flush_error;    // of the present try: acted upon when its pieces have come back
  Status failure;        // for good
  bool damaged = false;  // its bytes here are not those that were captured

  // What follows from its record, once `chunks` are all there.
  void Describe(const ImageRecord& by);
  // To the store: its slots will become free by that.
  bool IsOnItsWay() const;
  // From this node.
  bool IsWrittenHere() const { return IsOnItsWay() && flush != FlushState::kShipped; }
  bool HasReleased() const;
  // As far as is known: it is not at level NODE, and not in the store or on its way there, for which another one is looked for.
  bool HasNoOtherCopy() const;
  // Part of it lies in a tier that is lost: this agent can still read it, and nobody after it.
  bool IsLost() const;
  // Function(SlotSpace&, slot) for each chunk in a slot, and for the record.
  template <typename Function>
  void ForEachSlot(Function function) const {
    for (const ImageChunk& chunk : chunks) {
      if (chunk.unit != nullptr) function(*chunk.unit->space, chunk.slot);
    }
    if (record.unit != nullptr) function(*record.unit->space, record.slot);
  }
  // Part of it is only in the object under way: it goes with this agent.
  bool IsPassing() const { return HasReleased() && flush != FlushState::kStored; }
  // Whether the node alone can give it back, or the store holds it by now.
  bool IsHeld() const { return ended && is_saved && !doomed && !damaged && !IsPassing() && !IsLost(); }
};

// Of a version: the agent of rank 0 has not said yet which levels it is to reach (turns.h).
struct Undecided {
  ScheduledLevels due;  // by count
  std::string node;     // whose agent is asked
  int64_t since_ns = 0;
  int64_t heard_ns = 0;  // when it answered last, or it was asked first
  Duration pause{};      // before it is asked again
};

using DecidedTurns = std::deque<std::pair<Generation, ScheduledLevels>>;

// Of written images that have blocks in other nodes' objects: whether these stand by now (flush/publisher.h).
struct CommonWait {
  int64_t since_ns = 0;  // 0: nothing was waited for yet
  Duration pause{};      // before the next look
  bool is_looking = false;
  std::set<std::string> stand;
};

// One generation on this node.
struct Version {
  Generation generation;
  Job* job = nullptr;
  uint32_t ranks = 1;
  uint32_t node_ranks = 1;
  Level scheduled = Level::kNone;                     // the last level that it is to reach
  bool to_node = false;                               // level NODE is among those
  std::optional<Undecided> undecided;                 // else `scheduled` is what it is to reach
  std::map<uint32_t, std::unique_ptr<Image>> images;  // by rank
  bool in_store = false;                              // complete there, or on the burst buffer before it
  bool drained = false;                               // ... and seen in the store itself (flush/drain_watch.h)
  bool at_node = false;                               // protected: every group has its redundancy
  bool at_local = false;                              // all ranks were heard to hold it (local_level.h)
  bool skipped = false;                               // its flush was left out for a newer one
  bool restored = false;                              // an attempt has restarted from it, and goes on from there
  std::map<SetIdentity, std::unique_ptr<HeldSet>> sets;
  std::shared_ptr<Protection> protection;  // while it is on its way to level NODE (protect.h)
  Status node_failure;                     // why it does not get there, or is there no longer as safely
  // The blocks that its images may lend each other (reduce.deduplicate), from the first that is written until they are published.
  // Those that are written later stand alone: so whoever borrows is published together with all its lenders.
  std::shared_ptr<reduce::FirstBlocks> node_blocks;
  // The blocks that nodes write for each other, once they have agreed on them (reduce.deduplicate = job).
  std::shared_ptr<const reduce::CommonBlocks> common;
  CommonWait common_wait;
  // Whether this node writes its images; kAwaited: the nodes of the job are about to agree (gather/shipper.h).
  enum class Writers : uint8_t { kHere, kAwaited } writers = Writers::kHere;
  bool has_published = false;  // images of it, from here
  bool probing = false;        // a look into the store is under way
  bool went_through = false;   // images that are gone had chunks in the store for want of room here
  Status failure;              // the first of its images
  Status absence;              // while its flush waits for the store: why that is not there
  RetryPauses absences;        // of its publication
  PlacementCounts placement;   // of its images that ended with this agent
  std::vector<uint32_t> missing_in_store;
  os::EventLoop::TimerId grace_timer = 0;

  // An image of each rank of the node is held.
  bool IsWhole() const;
  // Something of it lies in a lost tier.
  bool HasLost() const;
  // The same of all nodes, as far as this one knows.
  bool IsAtLocal() const { return (at_local || node_ranks >= ranks) && IsWhole(); }
  // Whether all ranks can go on from it, or could before something was lost.
  bool IsComplete() const { return at_local || at_node || in_store; }
  // This node has told the others that it holds it (local_level.h), and has told nothing later.
  bool IsPromised() const;
  // Its burst buffer has yet to bring it to the store, as far as was seen.
  bool IsOnBufferOnly() const;
  // The job has gone on without it (store/lineage.h).
  bool IsAbandoned() const;
  // It was at level NODE, and would not survive the loss of a node any more.
  void Weaken(const std::string& why);
  // Whether it waits for level NODE.
  bool IsOwedToNodes() const;
  // Its flush is left out.
  void Skip();
  // The last level that it is to reach, or may be while that is undecided.
  Level LastLevel() const { return undecided.has_value() ? Level::kStore : scheduled; }
};

// Slots that a session got for one chunk, as opposed to open ones.
struct SlotId {
  uint32_t unit = 0;
  uint32_t slot = 0;
  friend auto operator<=>(const SlotId&, const SlotId&) = default;
};

// A chunk of a session that has a place and is not written yet.
struct Claim {
  uint64_t number = 0;  // in order of assignment
  uint64_t slot_generation = 0;
  uint64_t bytes = 0;
  uint64_t bytes_to_come = 0;  // of its image after it, as its request said; 0 once the next request says so
  bool writing = false;        // the oldest of its session: being written since
  int64_t since_ns = 0;
  double writing_seconds = 0;  // of the tier then
};

// What has been taken of a CallTotals of the mailbox.
struct CallsSeen {
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
};

// An image that is not here, as one session is shown it (windows.h).
struct ShownImage {
  uint64_t handle = 0;
  std::shared_ptr<ImageWindow> window;
  bool opening = false;  // another is looked for
};

// An image whose gaps are being filled from its session's base; its ImageEnd stays in the mailbox meanwhile (images_gaps.cc).
struct GapFill {
  uint64_t base = 0;          // an image that is read from; 0: none
  std::function<void()> run;  // does it, unless somebody has begun: on any thread
  std::shared_future<Status> filled;
};

struct Session {
  uint32_t id = 0;
  Hello hello;
  os::ProcessIdentity owner;
  Job* job = nullptr;
  std::vector<TierUnit*> tiers;  // SlotRange::tier is an index here
  os::SharedMapping mailbox;
  ClientRingConsumer from_client;
  AgentRingProducer to_client;
  std::deque<AgentMessage> unsent;                // for a full ring
  uint64_t peer = 0;                              // the connection; 0: its owner lives, but is not connected
  bool must_restart = false;                      // cannot be attached again: its owner gets a new session
  bool broken = false;                            // its mailbox makes no sense: nothing more is read from it
  bool ended = false;                             // being taken apart
  std::unordered_map<uint64_t, uint64_t> images;  // serial to image id, begun and not ended
  std::set<uint64_t> pending_serials;             // not at their last level yet
  std::set<uint64_t> gone_serials;                // handed over, and gone with the former agent
  uint64_t last_serial = 0;
  uint64_t image_bytes = 0;  // of the image that ended last
  uint64_t images_failed = 0;
  CallsSeen checkpoints_seen;
  CallsSeen restarts_local_seen;
  CallsSeen restarts_node_seen;
  CallsSeen restarts_store_seen;
  std::set<SlotId> full_slots;
  bool open_grows = false;                   // its open slot is being backed further
  int64_t open_since_ns = 0;                 // when it got its open slot
  std::map<SlotId, Claim> claims;            // of full_slots, by throughput.h
  PlacementCounts placing;                   // of the image under way
  std::map<uint64_t, uint64_t> open_images;  // handle to image id: pinned for a restart
  uint64_t last_handle = 0;
  ShownImage shown;
  // Whether that was the window which it is shown an image in; it is no more.
  bool CloseWindow(uint64_t handle);
  os::UniqueFd pidfd;
  os::EventLoop::WatchId pidfd_watch = 0;
  uint64_t base_image = 0;  // that the next one may build on (Mailbox::base_serial); 0: none
  std::optional<GapFill> fill;

  Mailbox& box() const { return *MailboxOf(mailbox); }
};

// What is measured of a job, and the advice that follows (tuning.h).
struct JobTuning {
  JobMeasurement measured;  // but for failures and time, which are made up of what follows
  AttemptHistory history;   // of the attempts before history_attempt
  uint32_t history_attempt = 0;
  bool history_known = false;         // it has come from the store
  double attempt_seconds = 0;         // of history_attempt, as far as this node has seen it
  std::set<uint32_t> node_restarts;   // attempts that began with images from other nodes, and with nothing from the store
  std::set<uint32_t> store_restarts;  // attempts that began with bytes from the store
  std::optional<IntervalAdvice> advice;
  Status no_advice;    // why there is none, or no newer one
  LevelCounts levels;  // that the ranks showed last
  // Since those changed: versions, and whether one of them was to reach the highest of the job's levels.
  uint32_t versions_since_change = 0;
  bool had_highest_since_change = false;
  bool changed = false;    // since the advice was asked for
  bool advising = false;   // a worker is at it
  int64_t advised_ns = 0;  // 0: never
};

// Of a checkpoint name in one attempt: what this node has promised the others, and, as the leader, what they have promised
// (local_level.h).
struct LocalPromises {
  uint32_t attempt = 0;
  std::optional<Generation> own;
  std::optional<Generation> oldest;  // nothing before it is promised any more: another node has passed it by
  int64_t promised_ns = 0;
  bool asking = false;               // the leader, what has become of it
  bool ask_again = false;            // it has news
  std::vector<std::string> missing;  // nodes that have yet to promise the same, as it said last
  Status error;                      // of the last question
  std::map<std::string, Generation> by_node;
  std::optional<Generation> newest;  // of these
};

// Its ranks took different versions, and none is complete since (takings.h).
struct KnownDisagreement {
  Moment at;
  Status why;
};

using JobKey = std::pair<StoreId, std::string>;
using NameKey = std::pair<JobKey, std::string>;  // of a checkpoint name of a job
inline JobKey JobKeyOf(const Generation& generation) {
  return {generation.store_id, generation.job};
}
inline NameKey NameKeyOf(const Generation& generation) {
  return {JobKeyOf(generation), generation.name};
}

struct Job {
  StoreId store_id;
  std::string name;
  Hello hello;  // the newest one
  Membership members;
  std::vector<JobNode> guests;                       // nodes of former attempts that are not among them, and answer
  std::vector<JobNode> stagers;                      // nodes without ranks that write for the others (gather/stagers.h)
  std::set<std::string> enlisted_at;                 // of these, who know of this attempt
  bool seeks_stagers = false;                        // they are being told of it
  std::shared_ptr<const redundancy::Layout> layout;  // null: its nodes do not protect each other
  std::shared_ptr<StoreContext> store;
  std::map<Generation, std::unique_ptr<Version>> versions;  // AddVersion and RemoveVersion change it
  // The same by name, attempt, take, version: of one take there should be one version (takings.h).
  std::set<std::tuple<std::string, uint32_t, uint32_t, int64_t>> taken;
  std::vector<RestoredRecord> restored;                  // what its attempts went on from, the newest last
  LogRateLimit failures_told{std::chrono::seconds(10)};  // to its ranks, for people
  LogRateLimit retries_logged{std::chrono::seconds(10)};
  std::map<std::string, ScheduleState> schedule;  // by checkpoint name
  // What was decided by intervals, oldest first: for other nodes that ask late (turns.h).
  DecidedTurns turns;
  std::map<std::string, LocalPromises> promises;  // by checkpoint name
  std::deque<ImageIdentity> takings_told;         // by other nodes, of the present attempt (takings.h)
  // By checkpoint name, of the present attempt; for a while after its sessions have ended, too.
  std::map<std::string, KnownDisagreement> disagreements;
  int64_t left_ns = 0;       // when a session of it ended last, or a node of it asked for something that this node writes for it
  bool is_enlisted = false;  // this node has no ranks of it, and writes for those that have
  JobTuning tuning;
  Halt halt;                                    // of the newest attempt, as the next field
  bool told_to_exit = false;                    // by a session that has ended
  uint32_t stored_attempt = 0;                  // the newest of which an image from here got to the store
  std::map<std::string, Moment> stored_newest;  // by checkpoint name: complete in the store, as last looked up there
  // By checkpoint name and rank: what is known of reducing it, where the job leaves open whether it is.
  struct Reducing {
    reduce::Worth sharing;      // looking for blocks that the store has already
    reduce::Worth compressing;  // looking for pieces that are written faster when they are compressed
    reduce::Viability viability;
  };
  std::map<std::pair<std::string, uint32_t>, Reducing> reducing;
  std::map<std::string, uint32_t> names_reached;  // of which the store was told that there was a version, by which attempt
  std::set<std::string> retention_running;
  std::set<std::string> retention_waits;  // names with something that may go later
  std::set<std::string> retention_wanted;

  JobKey key() const { return {store_id, name}; }
  // The version, without images when it is new (true).
  std::pair<Version*, bool> AddVersion(const ImageIdentity& identity);
  void RemoveVersion(const Generation& generation);
  // That one of its attempts went on from there; whether that is news. The newest are kept.
  bool LearnRestored(const RestoredRecord& record);
  // Of the present attempt; what is said of older ones is passed over.
  void NoteDisagreement(const Generation& generation, const Status& why);
  // The checkpoint names that have versions on this node.
  std::set<std::string> Names() const;
  // Whether the rank's images of later versions came here while that one's did not: it went straight to the store, or is gone.
  bool HasPassedOver(const Generation& generation, uint32_t rank) const;
  // That of rank 0, whose agent speaks for the job; null: the nodes are not known.
  const JobNode* LeadingNode() const;
  // The same, when it leads that attempt and all its nodes can be reached by each other; else null.
  const JobNode* ReachableLeader(uint32_t attempt) const;
  // Of a checkpoint name, as far as this node knows of restarts and of versions that are complete.
  Lineage LineageOf(const std::string& checkpoint) const;
  // Whether a newer version of the name, of its lineage, is like that.
  template <typename Predicate>
  bool HasNewer(const Generation& generation, Predicate is_such) const {
    const Lineage lineage = LineageOf(generation.name);
    return std::any_of(versions.begin(), versions.end(), [&](const auto& entry) {
      const auto& [newer, version] = entry;
      return newer.name == generation.name && generation < newer && lineage.Has(newer) && is_such(*version);
    });
  }
  // Whether a version that is begun now can be protected.
  bool CanProtect() const { return layout != nullptr; }
  // Whether what this node lacks is asked of other nodes.
  bool BringsImages() const { return !members.nodes.empty() && (hello.keys.Protects() || !hello.keys.staging_folder.empty()); }
};

struct BringOptions {
  bool replace = false;     // although there is one here: it was found to be bad
  bool from_store = false;  // when no node has it
};

}  // namespace kedge

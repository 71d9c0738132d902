// The mailbox: how one client and its agent talk without system calls on the path of a checkpoint.
//
// A file of fixed layout in the agent's run folder, mapped by both, that outlives both. Two rings, each with a single
// producer and a single consumer. Indices are free-running; an entry is copied out before it is looked at, and every
// field of it is range-checked by the agent, because a client can write anything here at any time. A produced index that
// runs more than the ring's size ahead of the consumed one, or goes back, ends the session and nothing else.
//
// The agent moves `consumed` of the client's ring only after the effect is kept elsewhere (for ImageEnd: the local record
// exists). A successor agent therefore reads again what its predecessor had not finished; every message is idempotent.
// Requests for places are the exception: they end with the agent that took them, and a client that attaches to a
// successor asks again (session/messages.h, Hello). Every image_serial that was begun ends with ImageEnd or ImageAbort.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace kedge {

inline constexpr uint64_t kMailboxMagic = 0x786f622d6567646bULL;  // "kdge-box"
inline constexpr uint32_t kProtocolVersion = 38;
inline constexpr uint32_t kClientRingEntries = 1024;
inline constexpr uint32_t kAgentRingEntries = 64;
// An open slot that is used up at this rate is asked for early, and grows far: the request lies behind all that the client has
// put into its mailbox, and that is served while it goes on.
inline constexpr double kFastOpenBytesPerSecond = 64.0 * (1 << 20);

// Bytes inside a slot of a memory tier, or of a directory tier's slot file.
struct SlotRange {
  uint32_t tier;             // index into the session's tier list (Welcome)
  uint32_t slot;             // below the tier's slot count
  uint64_t slot_generation;  // as given in AssignPlace: tells a slot from its earlier uses
  uint64_t offset;           // within the slot
  uint64_t bytes;
};

// What may be in an entry of a ring: each of the structs below begins with its kind.
template <typename Content, typename Kind, size_t kBytes>
concept RingContent = std::is_same_v<decltype(Content::kind), Kind> && std::is_trivially_copyable_v<Content> &&
                      (offsetof(Content, kind) == 0) &&
                      (sizeof(Content) <= kBytes);

// An entry: one of these structs, and zeros up to its size. Whoever shares the ring may have written anything there, so it is
// bytes, and a struct is copied in and out.
template <typename Kind, size_t kBytes>
class RingEntry {
 public:
  RingEntry() = default;
  template <RingContent<Kind, kBytes> Content>
  RingEntry(const Content& content) {  // NOLINT(google-explicit-constructor): TryPush(ImageAbort{...})
    std::memcpy(bytes_, &content, sizeof(Content));
    std::memset(bytes_ + sizeof(Content), 0, kBytes - sizeof(Content));
  }

  // Perhaps none that there is.
  Kind kind() const {
    Kind value{};
    std::memcpy(&value, bytes_, sizeof value);
    return value;
  }
  // REQUIRES: Content is the struct of kind().
  template <RingContent<Kind, kBytes> Content>
  Content As() const {
    Content content;
    KEDGE_CHECK(content.kind == kind());
    std::memcpy(&content, bytes_, sizeof content);
    return content;
  }

 private:
  alignas(8) std::byte bytes_[kBytes];
};

// Text in an entry, and no longer than that whatever lies there. Of what does not fit the middle is left out: the cause of an
// error stands at its end.
class RingText {
 public:
  RingText() = default;
  explicit RingText(const std::string& text) {
    constexpr std::string_view kGap = " ... ";
    constexpr size_t kEnd = (sizeof bytes_ - kGap.size()) / 2;
    constexpr size_t kBegin = sizeof bytes_ - kGap.size() - kEnd;
    if (text.size() <= sizeof bytes_) {
      text.copy(bytes_, sizeof bytes_);
      return;
    }
    text.copy(bytes_, kBegin);
    kGap.copy(bytes_ + kBegin, kGap.size());
    text.copy(bytes_ + kBegin + kGap.size(), kEnd, text.size() - kEnd);
  }
  std::string_view view() const { return {bytes_, strnlen(bytes_, sizeof bytes_)}; }

 private:
  char bytes_[200] = {};
};

// ---- Entries from the client ----

enum class ClientMessageKind : uint32_t {
  kRequestPlace = 1,
  kImageBegin = 2,
  kChunkProgress = 3,
  kImageEnd = 4,
  kImageAbort = 5,
  kReturnSlot = 6,
  kChunkWritten = 7,
};
using ClientMessage = RingEntry<ClientMessageKind, 64>;

enum class PlaceKind : uint32_t {
  kOpenSlot = 1,   // a slot into which the client packs small chunks, going forward, until it returns it
  kFullChunk = 2,  // a slot for one chunk; it goes back to the agent with ImageEnd, unless it is returned before
};

// The levels that are a version's turn by the counts that its ranks go by (level_counts.h), or-ed; others mean nothing.
enum DueLevels : uint32_t { kDueNode = 1, kDueStore = 2 };

// Wants a slot for a chunk, or the next open slot. Answer: AssignPlace.
struct RequestPlace {
  ClientMessageKind kind = ClientMessageKind::kRequestPlace;
  PlaceKind place{};
  uint64_t number = 0;  // of the request, for its answer
  uint64_t bytes = 0;
  uint64_t bytes_to_come = 0;  // of a full chunk: that its image will ask for after it
  SlotRange grow{};            // for an open slot: the one in use, as far as it is to be backed instead; slot_generation 0: none
};

// An image of at least a piece is about to be captured.
struct ImageBegin {
  ClientMessageKind kind = ClientMessageKind::kImageBegin;
  uint32_t due_levels = 0;    // DueLevels, alike on all ranks
  uint64_t image_serial = 0;  // the session's count of begun images, from 1
  SlotRange identity{};       // the encoded ImageIdentity
};

// The first bytes of a chunk are there. With all of them the client is done with a slot for a full chunk: once it is flushed,
// the agent may give it to others before the image ends.
struct ChunkProgress {
  ClientMessageKind kind = ClientMessageKind::kChunkProgress;
  uint32_t chunk = 0;  // index in the image's chunk table
  uint64_t image_serial = 0;
  SlotRange range{};           // the whole chunk
  uint64_t object_offset = 0;  // where it lies in the image object
  uint64_t captured_bytes = 0;
};

// The image is captured. In its object the record stands after the last chunk, at the next multiple of 4 KiB.
struct ImageEnd {
  ClientMessageKind kind = ClientMessageKind::kImageEnd;
  uint32_t due_levels = 0;  // as of ImageBegin
  uint64_t image_serial = 0;
  SlotRange range{};  // its image record, followed by its placement table and (gap_table_bytes > 0) its gap table
  uint64_t record_bytes = 0;
  uint32_t crc32c = 0;  // of the range
  // With a gap table, perhaps an empty one, the next image may leave out what this one has: see Mailbox::base_serial.
  uint32_t gap_table_bytes = 0;
};

// The image is given up. Slots that no ChunkProgress of it named are returned by ReturnSlot.
struct ImageAbort {
  ClientMessageKind kind = ClientMessageKind::kImageAbort;
  uint64_t image_serial = 0;
};

// The client will write no more into a slot.
struct ReturnSlot {
  ClientMessageKind kind = ClientMessageKind::kReturnSlot;
  SlotRange slot{};  // any part of it
};

// A whole chunk, in a slot of its own, is there. May be left out: the end of the image says so too.
struct ChunkWritten {
  ClientMessageKind kind = ClientMessageKind::kChunkWritten;
  SlotRange range{};
  uint64_t took_ns = 0;  // 0: it is there in part, or comes later
};

// ---- Entries from the agent ----

enum class AgentMessageKind : uint32_t {
  kAssignPlace = 1,
  kFlushFailed = 2,
  kRecallSlots = 3,
  kTakenOver = 4,
};
using AgentMessage = RingEntry<AgentMessageKind, 256>;

enum class AssignOutcome : uint32_t {
  kSlot = 1,
  kThrough = 2,  // no tier has or will have room: write this chunk to the store, as an object of its own
};

// Answers RequestPlace.
struct AssignPlace {
  AgentMessageKind kind = AgentMessageKind::kAssignPlace;
  AssignOutcome outcome{};
  uint64_t number = 0;  // of the request
  SlotRange range{};    // the slot, as far as it is backed; of kSlot alone
};

// An image will not reach a level that it was owed.
struct FlushFailed {
  AgentMessageKind kind = AgentMessageKind::kFlushFailed;
  Code code = Code::kOk;
  bool is_news = true;  // else another image of the job has failed on this node a moment ago, and its rank has said so
  uint64_t image_serial = 0;
  RingText text;  // says why
};

// Others wait for room: return every slot that no checkpoint call in progress needs, open ones too.
struct RecallSlots {
  AgentMessageKind kind = AgentMessageKind::kRecallSlots;
};

// A newer attempt has taken the job over.
struct TakenOver {
  AgentMessageKind kind = AgentMessageKind::kTakenOver;
  RingText text;  // says which
};

static_assert(sizeof(ClientMessage) == 64 && std::is_trivially_copyable_v<ClientMessage>);
static_assert(sizeof(AgentMessage) == 256 && std::is_trivially_copyable_v<AgentMessage>);

template <typename Message, uint32_t kEntries>
struct Ring {
  alignas(64) std::atomic<uint64_t> produced;  // written by the producer only
  alignas(64) std::atomic<uint64_t> consumed;  // written by the consumer only
  alignas(64) Message entries[kEntries];
};

struct CallTotals {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> nanoseconds;
};

struct Mailbox {
  // Set by the agent when it makes the file, constant after.
  uint64_t magic;
  uint32_t protocol;
  uint32_t session_id;
  // Who owns it, set by the agent from the peer's credentials: pid and start time tell a process from a later one.
  int32_t owner_pid;
  uint32_t reserved;
  uint64_t owner_start_time;

  // Written by the agent: up to which image of this session all that ended are done (at their last level, or failed); failures.
  alignas(64) std::atomic<uint64_t> images_done;
  std::atomic<uint64_t> images_failed;
  // A futex: the agent adds one and wakes after it put something into `from_agent`.
  std::atomic<uint32_t> client_wake;
  // What the agent found best for kedge_checkpoint_due, nanoseconds; 0: it says nothing, and the configured interval holds.
  std::atomic<int64_t> checkpoint_interval_ns;
  // The counts of levels, packed (level_counts.h), that the agent wants the job to go by; 0: it says nothing. What rank 0 goes by
  // at init, and tells with a "due".
  std::atomic<uint64_t> told_levels;
  // What `kedge halt` has asked of this attempt, packed (halt.h); rank 0 goes by it.
  std::atomic<uint64_t> halt;
  // Non-zero: a client whose `phases` change wakes the agent, for images are being read.
  std::atomic<uint32_t> phases_watched;
  // Non-zero while the client sleeps on client_wake (a hint that saves the agent a system call).
  alignas(64) std::atomic<uint32_t> client_sleeping;

  // Written by the client: its calls in this session and the time that they took, for the agent's measurements. The
  // agent takes what was added since it last looked.
  alignas(64) CallTotals checkpoints;
  // Restarts of the job, by the lowest level that sufficed for all ranks: nothing came from elsewhere, nothing from the
  // store, something did.
  CallTotals restarts_local;
  CallTotals restarts_node;
  CallTotals restarts_store;

  // Written by the client: bytes of the regions that it has declared, for the agent to make room ahead.
  alignas(64) std::atomic<uint64_t> declared_bytes;
  // Written by the client: the counts of levels that its versions go by, packed; 0: it has not settled them yet.
  std::atomic<uint64_t> levels_in_force;
  // Written by the client: non-zero once its ranks have been told to exit.
  std::atomic<uint32_t> told_to_exit;
  // Written by the client: steps of the application, each a kedge_checkpoint_due.
  std::atomic<uint64_t> steps;
  // Written by the client: how often the application has begun or ended to communicate (kedge_phase); odd: it does.
  std::atomic<uint32_t> phases;

  Ring<ClientMessage, kClientRingEntries> from_client;
  Ring<AgentMessage, kAgentRingEntries> from_agent;

  // The image that the next one may leave gaps for (gap_table.h), and how both sides agree on it without a message. The agent
  // writes `base_serial` once an image with a gap table is taken and lies whole in slots of this node. A client that wants to
  // build on it writes `building_on` first, and looks again: only if `base_serial` still says so it does. An agent that wants to
  // let go of the image writes 0 first, and looks at `building_on`: if that says so the image stays, and `base_serial` comes
  // back. Both are sequentially consistent. `building_on` stays until the next image begins: its end lies in the ring meanwhile.
  alignas(64) std::atomic<uint64_t> base_serial;
  alignas(64) std::atomic<uint64_t> building_on;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// The agent's shared counters, memory that clients map. It is written from the agent's private tables:
// whatever else is written over it changes no decision of the agent's.
enum AgentSleep : uint32_t {
  kAgentAwake = 0,
  kAgentAsleep = 1,
  kAgentDozing = 2,  // looks again within a millisecond: waking an idle processor would cost a checkpoint more than its copy
};

inline constexpr uint64_t kControlMagic = 0x6c74632d6567646bULL;  // "kdge-ctl"
inline constexpr uint32_t kControlTiersMax = 32;

struct ControlTier {
  char name[64];
  std::atomic<uint32_t> present;
  std::atomic<uint32_t> writers;  // Sw of [VeloC] algorithm 2
  std::atomic<uint64_t> chunks;   // Sc: slots that are not free or evictable
  std::atomic<uint64_t> slots;    // Smax
  std::atomic<uint64_t> slot_bytes;
  std::atomic<uint64_t> bytes_written;
};

inline constexpr uint32_t kControlStoresMax = 16;

struct ControlStore {
  std::atomic<uint64_t> id_high;
  std::atomic<uint64_t> id_low;
  std::atomic<uint64_t> flush_bytes_per_second;  // AvgFlushBW of [VeloC]: of one flush, moving average; 0: not known yet
};

struct ControlBlock {
  uint64_t magic;
  uint32_t protocol;
  int32_t agent_pid;
  uint64_t agent_start_time;
  // An AgentSleep. A client that published something writes the eventfd while the agent is asleep, and while it dozes only
  // if the client waits for the answer. Every sleep is bounded, so that a lost wake-up costs time, never a hang.
  alignas(64) std::atomic<uint32_t> agent_sleeping;
  alignas(64) std::atomic<uint64_t> flush_bytes_per_second;  // of the store that was flushed to last
  std::atomic<uint64_t> flushes_in_flight;
  std::atomic<uint64_t> flush_bytes_pending;
  ControlTier tiers[kControlTiersMax];
  ControlStore stores[kControlStoresMax];
};

}  // namespace kedge

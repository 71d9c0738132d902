// The table of sessions: one client process each, the slots assigned to it, and the images that it has begun. The room door keeps
// it; space has the claims and the open slot.
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
#include <unordered_map>
#include <vector>

#include "agent/tables/tier_unit.h"
#include "os/events/event_loop.h"
#include "os/process/process.h"
#include "session/mailbox_file.h"
#include "session/mailbox_ring.h"
#include "session/messages.h"

namespace kedge {

struct Job;
class ImageWindow;
class LineReader;

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

// An image whose gaps are being filled from its session's base; its ImageEnd stays in the mailbox meanwhile
// (images/gap_filler.h).
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
  uint64_t connection = 0;                        // its number; 0: its owner lives, but is not connected
  bool must_restart = false;                      // cannot be attached again: its owner gets a new session
  bool broken = false;                            // its mailbox makes no sense: nothing more is read from it
  bool ended = false;                             // being taken apart
  std::unordered_map<uint64_t, uint64_t> images;  // serial to image id, begun and not ended
  std::set<uint64_t> pending_serials;             // not at their last level yet
  std::set<uint64_t> gone_serials;                // handed over, and gone with the former agent
  uint64_t last_serial = 0;                       // the greatest: NoteSerial
  uint64_t image_bytes = 0;                       // of the image that ended last
  uint64_t images_failed = 0;
  CallsSeen checkpoints_seen;
  CallsSeen restarts_local_seen;
  CallsSeen restarts_node_seen;
  CallsSeen restarts_store_seen;
  std::set<SlotId> full_slots;               // by throughput.h
  bool open_grows = false;                   // its open slot is being backed further
  int64_t open_since_ns = 0;                 // when it got its open slot
  std::map<SlotId, Claim> claims;            // of full_slots, by throughput.h
  PlacementCounts placing;                   // of the image under way
  std::map<uint64_t, uint64_t> open_images;  // handle to image id: pinned for a restart
  uint64_t last_handle = 0;
  std::map<uint64_t, std::shared_ptr<LineReader>> line_readers;  // by handle (bring/shared_reads.h)
  ShownImage shown;
  // Whether that was the window which it is shown an image in; it is no more.
  bool CloseWindow(uint64_t handle);
  os::UniqueFd pidfd;
  os::EventLoop::WatchId pidfd_watch = 0;
  uint64_t base_image = 0;  // that the next one may build on (Mailbox::base_serial); 0: none
  std::optional<GapFill> fill;

  // Of an image that it has begun, or that is gone.
  void NoteSerial(uint64_t serial) { last_serial = std::max(last_serial, serial); }

  Mailbox& box() const { return *MailboxOf(mailbox); }
};

}  // namespace kedge

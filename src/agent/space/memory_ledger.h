// The accounting of this node's memory: which slots of memory tiers are backed, and how many more may be.
//
// `pool.size` is a ceiling over all memory tiers, the node's and all jobs' scratch, and never an amount taken. What is backed
// follows what is protected: the sizes of the images that the sessions show or have taken, `keep.local` and one in flight of
// each, and the redundancy of the newest versions. Their slots are made ahead, in the background. Who needs more than that
// waits while its space is reserved. What nobody needs goes back after some seconds, at once when the machine, the cgroup or the
// file system gets short (memory_limits.h); then cached images go, too. Above what is wanted, a cached image that is not the
// newest of its name goes before anything new is made.
//
// The slots of a directory tier are on a device; nothing of this applies to them.
//
// Threads: the agent's loop; two workers make and release slots, one of them only what is waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "agent/space/memory_limits.h"
#include "agent/tables/session.h"
#include "agent/tables/workers.h"

namespace kedge {

class AgentCore;
class Assignment;
class OwnSlots;
class RedundancyRoom;
class RoomGiver;
class Tiers;

class MemoryLedger {
 public:
  MemoryLedger(AgentCore& core, Assignment& assignment, RoomGiver& giver, OwnSlots& own_slots, RedundancyRoom& room,
               Tiers& tiers);
  ~MemoryLedger() { Stop(); }

  // A new tier; `fresh`: nothing of a predecessor's is in it.
  void OnOpened(TierUnit* unit, bool fresh);

  enum class Found {
    kReady,
    kSoon,  // it is being made: Assignment::Pump follows
    kNone,
  };
  // What a slot is for: as many are in use as can be backed whole, but for those that hold a session's small chunks.
  enum class Use { kWhole, kPart };
  // A free slot for `owner`, backed for `bytes` at least, or reserved as a whole in a folder. Lets go of cached images for it.
  // Whoever asks for several, or again, begins anew with BeginAsking: a slot that is being made is then meant for the first who
  // asks.
  Found Find(TierUnit* unit, uint32_t owner, uint64_t bytes, Use use, uint32_t* slot);
  void BeginAsking();
  // Somebody will ask for as much in full slots: what of it is neither spare nor being made is made ahead.
  void Expect(TierUnit* unit, uint64_t bytes);
  // Backs a slot in use for `bytes`, more than it is. False: there is no room, or nothing is known of the slot. Else `done` is
  // called in a later turn of the loop, unless the tier is gone by then.
  [[nodiscard]] bool Grow(TierUnit* unit, uint32_t slot, uint64_t bytes, std::function<void(bool)> done);
  // Free slots that may be given out, as far as there is memory for them.
  uint32_t FreeSlots(const TierUnit& unit) const;
  // Whether one may be given out that is backed for so much, and no further for now.
  bool HasPart(const TierUnit& unit, uint64_t bytes) const;
  bool IsMaking(const std::vector<TierUnit*>& tiers) const;

  // Each second: looks at the machine, makes what is wanted, gives back what is not.
  void Tick();
  // More often: whether the sessions show something new.
  void LookAtSessions();
  // While somebody waits for bytes of other nodes, what is made ahead rests: it holds locks of the pool's file and of this
  // process's memory, at low priority. Each Hold is followed by a Release. Any thread.
  void HoldAhead() { ++ahead_held_; }
  void ReleaseAhead() { --ahead_held_; }
  // The agent leaves, and something of its memory tiers stays: all that is free in them goes back now.
  void ReleaseFree();
  // Nothing is made or released any more.
  void Stop() { stopping_ = true; }

  uint64_t ceiling_bytes() const;
  uint64_t backed_bytes() const;
  uint64_t spare_bytes() const;  // of these, in free slots
  // What may be backed on top in all, and what allows no more. A single tier's file system may have less.
  MemoryRoom Room() const;

 private:
  enum class Urgency { kAwaited, kAhead };
  std::vector<TierUnit*> MemoryUnits() const;
  // Counts what a predecessor has left, by the slots in which it is most likely to be.
  static void TakeOver(const TierUnit& unit);
  // What the sessions of a tier, and the redundancy of their jobs, will take of it.
  struct Wanted {
    uint64_t bytes = 0;           // in the long run
    std::vector<uint64_t> slots;  // to be made ahead, the largest first
  };
  Wanted WantedIn(const TierUnit& unit) const;
  uint64_t ImageBytesOf(const Session& session) const;
  // As much of the room is the tier's; false when there is less.
  bool TakeRoom(TierUnit* unit, uint64_t bytes);
  void ReturnRoom(TierUnit* unit, uint64_t bytes);
  // Backs a free slot; false: no room, or no such slot.
  bool MakeOne(TierUnit* unit, uint64_t bytes, Use use, Urgency urgency);
  Status PrepareAhead(Tier& tier, uint32_t slot, uint64_t from, uint64_t to) const;
  // Makes the pages of a slot that was only reserved, once it is free.
  void PrepareHurried(TierUnit* unit);
  void OnMade(Urgency urgency, uint32_t unit_id, uint32_t slot, uint64_t from, uint64_t to, const Status& status);
  // Gives the space of one free slot back, of that tier or any; false: none has any.
  bool ReleaseOne(TierUnit* unit, Urgency urgency);
  bool ReleaseAny();
  MemoryRoom RoomIn(const TierUnit& unit) const;
  void Look();
  void Balance(TierUnit* unit);
  void GiveBackUnderPressure();

  AgentCore& core_;
  Assignment& assignment_;
  RoomGiver& giver_;
  OwnSlots& own_slots_;
  RedundancyRoom& room_;
  Tiers& tiers_;
  int64_t room_bytes_ = 0;  // of the machine, as last looked at, less what was taken since
  const char* room_bound_ = "";
  uint64_t shown_bytes_ = 0;  // by all sessions, as last looked at
  uint32_t releasing_ = 0;
  std::atomic<int> ahead_held_{0};
  std::atomic<bool> stopping_{false};
  Workers awaited_;
  Workers ahead_;
};

}  // namespace kedge

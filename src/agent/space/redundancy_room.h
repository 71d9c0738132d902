// Room for redundancy in tiers that captures fill: a fair place for it beside them.
//
// An image that is owed level NODE keeps its slots until its redundancy lies on this node and on others, and so does the version
// before it. Captures that take every slot that comes free would leave both waiting for each other. So captures leave room for
// the redundancy of the oldest version of each name that has none yet (where small versions share slots, of the oldest that fill
// one), twice while no version of that name is protected whose room the next could inherit; and newer versions leave it to the
// oldest. Tiers that could not hold two protected versions keep nothing back: what would be lost by that is the capture.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class MemoryLedger;
class OwnSlots;
class Tiers;

class RedundancyRoom {
 public:
  RedundancyRoom(AgentCore& core, MemoryLedger& memory, OwnSlots& own_slots, Tiers& tiers)
      : core_(core), memory_(memory), own_slots_(own_slots), tiers_(tiers) {}

  // The version's sets have their SetProgress::room_bytes. REQUIRES: version.protection.
  void OnBegun(const Version& version);
  // Of the newest version of each of its names and the one before, as far as they were protected: what it takes in the long run.
  uint64_t ExpectedBytes(const Job& job) const;
  // Whether a capture that takes another slot of the job's tiers would take it from redundancy.
  bool IsKeptFrom(const Job& job) const;
  // Room for objects of these lengths, none 0, in the tiers of the version's job: all, or nothing, also where an older version of
  // the name is to have it first. After nothing was taken, AgentEvents::room_came says when some may have come free.
  std::optional<std::vector<std::vector<OwnRange>>> Take(const Version& version, const std::vector<uint64_t>& lengths);
  // Nothing is made in it.
  void Release(const std::vector<std::vector<OwnRange>>& objects);
  // Whether protection that gets on in the job's tiers may make room, so that it is worth while to wait for it.
  bool MayComeSoon(const Job& job) const;
  // A set waits for room.
  bool wants() const { return wants_; }
  bool TakeWant() { return std::exchange(wants_, false); }

 private:
  struct Sizes {
    uint64_t redundancy_bytes = 0;
    uint64_t image_bytes = 0;  // of all ranks of the node
    uint64_t largest_image_bytes = 0;
  };
  std::vector<TierUnit*> TiersOf(const Job& job) const;
  // Of a version that is owed level NODE: still to be taken.
  uint64_t Wanted(const Version& version) const;
  // Whether redundancy of that version may take as much now: an older one of its name comes first.
  bool MayTake(const Version& version, uint64_t bytes) const;
  uint64_t KeptBytes(const Job& job, const std::vector<TierUnit*>& tiers) const;

  AgentCore& core_;
  MemoryLedger& memory_;
  OwnSlots& own_slots_;
  Tiers& tiers_;
  // Of the newest version of a name that was begun: what one that is still being captured will need.
  std::map<NameKey, Sizes> newest_;
  bool wants_ = false;
};

}  // namespace kedge

// Sets of protected images on this node: their records, and the redundancy that this node holds of them, in slots of its own.
//
// In the run folder a set is sets/N.set, the set record as every member has it, and sets/N.MEMBER for each object held: a
// parity record, written after the object's bytes. XOR and Reed-Solomon: the object is this node's parity, MEMBER its own index.
// Partner: a copy of MEMBER's thin stream (redundancy/natural.h), most often all of it. A set lives as long as its version's
// images on this node, and is pinned while one of them is: a version that the store has, and that no newer one needs, makes room
// together with its redundancy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/tables/version.h"
#include "base/status.h"

namespace kedge {

class AgentCore;
class OwnSlots;
class Tiers;

class HeldSets {
 public:
  HeldSets(AgentCore& core, OwnSlots& own_slots, Tiers& tiers) : core_(core), own_slots_(own_slots), tiers_(tiers) {}

  // Null when it is not here.
  HeldSet* Find(const SetIdentity& identity) const;
  HeldObject* FindObject(const SetIdentity& identity, uint32_t member) const;
  // A copy of all of the rank's stream that lies here (scheme partner), and its encoded image record; null when there is none.
  HeldObject* FindCopy(const Generation& generation, uint32_t rank, const Buffer** image_record) const;

  // Puts the record on file; the set that is there already when it has the same content.
  Result<HeldSet*> Keep(Version& version, SetRecord record);
  // The object's bytes lie in `ranges`, which are the set's from here on (also on an error: they are released).
  Status KeepObject(HeldSet& set, uint32_t member, BlockTable blocks, std::vector<OwnRange> ranges);
  void DropObject(HeldSet& set, uint32_t member);
  void Drop(Version& version, const SetIdentity& identity);
  void DropAll(Version& version);
  // What lies in lost tiers.
  void DropLost();
  // An image of the version is pinned now, or none is any more.
  void UpdatePins(Version& version);

  // What a predecessor left, once its images are known. Sets of versions that are not here go.
  void Recover();

 private:
  void ReleaseObject(const HeldObject& object);
  void RecoverSet(const std::string& name);
  void RecoverObject(HeldSet& set, const std::string& name);
  std::string PathOf(uint64_t number) const;

  AgentCore& core_;
  OwnSlots& own_slots_;
  Tiers& tiers_;
  uint64_t last_number_ = 0;
};

}  // namespace kedge

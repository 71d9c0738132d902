// What the application has declared: regions of memory and objects, in named groups, in order of declaration.
//
// A group is what one checkpoint call captures. Ids are unique within a group, over memory and objects alike. Declaring an
// id again replaces it in its place in the order. Blocks of the heap are regions that the heap alone declares and removes. Not
// thread safe: the context's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "format/image_record.h"
#include "kedge/kedge.h"

namespace kedge::client {

// Memory that is somewhere else, or of another length, each time that it is asked for.
struct MovingMemory {
  int (*locate)(void* user, void** address, size_t* count) = nullptr;
  int (*resize)(void* user, size_t count) = nullptr;
  void* user = nullptr;
};

struct DeclaredRegion {
  Region description;           // kMemory: complete. kObject: bytes are asked for at each checkpoint
  void* address = nullptr;      // kMemory; the caller's
  kedge_object object{};        // kObject
  bool reinterpret = false;     // kMemory: whatever was saved as other elements of as many bytes fits, too
  bool device_written = false;  // kMemory: devices write there unseen by the processor
  MovingMemory moving;          // kMemory: where it is not always at `address`
  bool is_block = false;        // kMemory: the library's own, which the application has by kedge_alloc (client/heap)
  // The image (by its number in this context) or restart that has taken this region already: each takes it once.
  uint64_t taken_by = 0;

  bool moves() const { return moving.locate != nullptr; }
  // Brings address and size up to date, where it moves. Calls the application (CallbackScope).
  Status Locate();
  // Makes it `bytes` long, where that can be done. The same.
  Status Resize(uint64_t bytes);
};

class RegionGroup {
 public:
  // kInvalidArgument: a size that overflows, a shape whose product is not the count, a name that another region has, ... ;
  // kUnsupported: device memory. May call the application (DeclaredRegion::Locate).
  Status Protect(int id, void* address, size_t count, size_t element_bytes, const kedge_region_info* info);
  Status ProtectObject(int id, const char* name, const kedge_object& object);
  // kInvalidArgument: a block, which kedge_free frees.
  Status Unprotect(int id);
  // All but blocks.
  void Clear();

  // Errors as Protect's.
  Status DeclareBlock(Region description, void* address);
  void RemoveBlock(int id);

  DeclaredRegion* Find(int id);
  DeclaredRegion* FindByName(const std::string& name);
  // Calls `take` with each region that a call of the application selects, in its order, until one is refused; of KEDGE_REST with
  // those that `number` has not taken (DeclaredRegion::taken_by). kNotFound: an id that is not declared.
  Status ForEachSelected(kedge_selection selection, const int* ids, size_t count, uint64_t number,
                         const std::function<Status(DeclaredRegion*)>& take);
  std::list<DeclaredRegion>& regions() { return regions_; }
  size_t size() const { return by_id_.size(); }
  // Of regions in memory: what an image of the group takes at least.
  uint64_t bytes() const;

 private:
  // Where the region goes, once it is found to be right. kInvalidArgument: another one has its name, or a block its id.
  Result<DeclaredRegion*> Place(const Region& region);
  void ForgetName(const Region& region);
  void Remove(std::list<DeclaredRegion>::iterator region);

  std::list<DeclaredRegion> regions_;
  std::unordered_map<std::string, int> id_by_name_;  // of those that have a name
  std::unordered_map<int, std::list<DeclaredRegion>::iterator> by_id_;
};

class RegionTable {
 public:
  // Makes the group when it is new. `name` empty: the default group.
  void Select(const std::string& name);
  RegionGroup& current() { return *current_; }
  RegionGroup& default_group() { return groups_[""]; }
  const std::string& current_name() const { return current_name_; }

 private:
  std::map<std::string, RegionGroup> groups_;
  std::string current_name_;
  RegionGroup* current_ = &groups_[""];
};

// A caller's description as far as its program knows it, the rest zero; `info` may be null.
Result<kedge_region_info> KnownInfo(const kedge_region_info* info);
// A region of memory that is described so.
Result<Region> DescribeMemory(int id, size_t count, size_t element_bytes, const kedge_region_info& known);

// Of regions with as many bytes; what one side does not know, it does not contradict.
bool MeansTheSame(const Region& saved, const Region& wanted);
// "float64 of shape 3 x 4, column-major"
std::string Meaning(const Region& region);

// A region's description for a caller. `info->struct_size` says how much of it there is; `name` points into `region`.
void FillRegionInfo(const Region& region, kedge_region_info* info);

}  // namespace kedge::client

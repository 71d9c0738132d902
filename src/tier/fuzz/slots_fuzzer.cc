// A slot table as anything may have left it: it is taken over with every word sound, or begun anew; and the accounting
// over it holds whatever is then asked of it.
#include <fuzzer/FuzzedDataProvider.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "tier/slot_space.h"

namespace kedge {
namespace {

constexpr uint32_t kSlots = 6;
constexpr uint32_t kOwners = 3;
constexpr uint64_t kSlotBytes = 1 << 20;
constexpr char kBoot[] = "boot";

// A table file of its own for this process, removed when it ends.
class TableFile {
 public:
  TableFile() {
    char name[] = "/dev/shm/kedge-fuzz-slots-XXXXXX";
    KEDGE_CHECK(mkdtemp(name) != nullptr);
    folder_ = name;
    path_ = folder_ + "/slots";
  }
  ~TableFile() {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  const std::string& path() const { return path_; }
  void Write(const std::string& content) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << content; }
  // The bytes of a new table: the header that a takeover asks for.
  std::string Fresh() const {
    bool fresh = false;
    KEDGE_CHECK(SlotTable::Open(path_, kSlots, kSlotBytes, kBoot, true, &fresh).ok() && fresh);
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string folder_;
  std::string path_;
};

void CheckCounts(const SlotSpace& space) {
  uint32_t assigned = 0;
  for (uint32_t owner = 0; owner <= kSlotOwnersMax; owner = owner < kOwners ? owner + 1 : kSlotOwnersMax + 1) {
    KEDGE_CHECK(space.SlotsOf(owner).size() == space.AssignedTo(owner));
  }
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const SlotEntry entry = space.Get(slot);
    KEDGE_CHECK(entry.state <= SlotState::kCached && (entry.state == SlotState::kAssigned) == (entry.owner != 0));
    assigned += entry.state == SlotState::kAssigned ? 1 : 0;
  }
  KEDGE_CHECK(assigned == space.assigned_slots() && space.spare_bytes() <= space.backed_bytes());
  KEDGE_CHECK(space.occupied_slots() + space.evictable_slots() <= kSlots);
}

void Use(FuzzedDataProvider& input, SlotSpace& space) {
  struct Chunk {
    uint32_t slot;
    bool pinned;
  };
  std::vector<Chunk> chunks;
  while (input.remaining_bytes() > 0) {
    const auto slot = input.ConsumeIntegralInRange<uint32_t>(0, kSlots + 1);  // one more than there are
    const auto owner = input.ConsumeIntegralInRange<uint32_t>(1, kOwners);
    const bool is_slot = slot < kSlots;
    const size_t any = chunks.empty() ? 0 : input.ConsumeIntegralInRange<size_t>(0, chunks.size() - 1);
    switch (input.ConsumeIntegralInRange(0, 8)) {
      case 0:
        if (const auto free = space.PickFree(owner, input.ConsumeIntegral<uint16_t>())) space.Assign(*free, owner);
        break;
      case 1: space.Return(slot, is_slot ? space.Get(slot).generation : 1, owner); break;
      case 2: space.Return(slot, input.ConsumeIntegral<uint64_t>(), owner); break;
      case 3:
        if (is_slot && space.IsCurrent(slot, space.Get(slot).generation)) {
          space.AddChunk(slot);
          chunks.push_back({slot, true});
        }
        break;
      case 4:
        if (!chunks.empty()) {
          chunks[any].pinned ? space.Unpin(chunks[any].slot) : space.Pin(chunks[any].slot);
          chunks[any].pinned = !chunks[any].pinned;
        }
        break;
      case 5:
        if (!chunks.empty()) {
          space.RemoveChunk(chunks[any].slot, chunks[any].pinned);
          chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(any));
        }
        break;
      case 6:
        if (const auto free = space.PickToBack(input.ConsumeIntegral<uint16_t>()))
          space.SetBacked(*free, input.ConsumeIntegral<uint16_t>());
        break;
      case 7:
        if (const auto free = space.PickToRelease()) space.SetBacked(*free, 0);
        break;
      case 8:
        if (is_slot) space.SetUnknown(slot, input.ConsumeIntegral<uint16_t>());
        break;
    }
    CheckCounts(space);
  }
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  static const TableFile file;
  static const std::string fresh_table = file.Fresh();
  FuzzedDataProvider input(data, bytes);
  // The right header in front of any words, or any bytes at all.
  std::string content =
      input.ConsumeBool() ? fresh_table.substr(0, fresh_table.size() - kSlots * sizeof(uint64_t)) : std::string();
  content += input.ConsumeBytesAsString(input.ConsumeIntegralInRange<size_t>(0, fresh_table.size()));
  if (input.ConsumeBool()) content.resize(fresh_table.size());
  file.Write(content);
  bool fresh = false;
  auto table = SlotTable::Open(file.path(), kSlots, kSlotBytes, kBoot, false, &fresh);
  KEDGE_CHECK(table.ok());
  SlotSpace space(std::move(*table));
  CheckCounts(space);
  if (input.ConsumeBool()) space.FreeUnreferenced();
  Use(input, space);
  return 0;
}

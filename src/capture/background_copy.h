// Copies memory to its place in an image while the application goes on, as it was when the copy began [AI-Ckpt].
//
// Writers are held back (os/memory/held_writes.h) until what they would change has been copied, unit by unit: 64 KiB, or a huge
// page. One thread does all of it, as long as the copy lasts: a unit whose writer waits comes before all others, and these in
// their order (copy_order.h). Nothing but the processor is waited for, so that no writer waits for another one, for a lock of the
// library, or for the agent; and nothing is allocated while writers are held, for which a lock of theirs might be needed.
//
// Each unit is checksummed as it is copied, and counts as copied only when its writers could be let through: memory that was
// given back, unmapped, moved or mapped anew before is found out, and the copy fails. The bytes at the edges of a region, on
// pages that belong to others too, are copied before Start returns.
#pragma once

#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "capture/copy_order.h"
#include "capture/image_capture.h"
#include "os/memory/held_writes.h"

namespace kedge {

class BackgroundCopy {
 public:
  // `order` outlives the object, and is learned from.
  static Result<std::unique_ptr<BackgroundCopy>> Create(CopyOrder* order);
  // Waits for the copy.
  ~BackgroundCopy();
  BackgroundCopy(const BackgroundCopy&) = delete;
  BackgroundCopy& operator=(const BackgroundCopy&) = delete;

  // Whether the memory can be copied later; why not, as HeldWrites::Add says.
  Status Add(const void* data, uint64_t bytes);
  // On return `parts`, all that was added and nothing else, may change. True: the copy goes on, and its thread calls `done` when
  // all has been copied and nobody is held any more, or with what has become of the memory instead; the object may not be
  // destroyed there. False: nobody could be held, so all has been copied by now.
  Result<bool> Start(std::vector<CopiedLater> parts, std::function<void(Status)> done);

  // Once the copy is done, with checksums.
  std::span<const CopiedLater> parts() const { return parts_; }
  // Units whose writers waited.
  uint64_t waited() const { return waited_.size(); }

 private:
  // What lies in one part and one unit, or in none.
  struct Span {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    uint64_t bytes = 0;
    uint32_t part = 0;
    uint32_t crc32c = 0;
  };
  struct Unit {
    os::MemoryRange memory;
    uint32_t first_span = 0;
    uint32_t spans = 0;
    bool is_copied = false;
    bool is_waited_for = false;
  };

  BackgroundCopy(os::HeldWrites held, CopyOrder* order);
  void PlanUnits();
  void PlanSpans();
  // `holds`: whether writers are held.
  void Run(const Status& holds);
  void CopyEdges();
  Status CopyUnits();
  // False: it cannot be read.
  static bool CopySpan(Span* span);
  Status CopyUnit(uint32_t unit);
  // Notes for whom writers wait, and whether memory was given back that is not copied.
  Status TakeHappened();
  uint32_t UnitAt(uint64_t address) const;
  Status Lost(const Unit& unit, const char* why) const;
  void SumParts();

  os::HeldWrites held_;
  CopyOrder* order_;
  std::vector<os::MemoryRange> added_;
  std::vector<CopiedLater> parts_;   // by address
  std::vector<Unit> units_;          // the same
  std::vector<uint64_t> addresses_;  // of these
  std::vector<Span> spans_;          // by address
  std::vector<uint32_t> sequence_;   // units, in the order in which they are copied where nobody waits
  std::vector<uint32_t> waiting_;    // units, in the order in which writers came
  size_t next_waiting_ = 0;
  std::vector<CopyOrder::Waited> waited_;
  int64_t begin_ns_ = 0;
  bool holds_ = false;
  std::function<void(Status)> done_;
  std::latch begun_{1};
  Status in_call_;  // where nobody is held
  std::thread thread_;
};

}  // namespace kedge

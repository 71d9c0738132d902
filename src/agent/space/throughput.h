// What the agent knows of its devices' speed: a curve for each tier, the average flush of each store, and how well the
// predictions held.
//
// - A tier's curve comes from the calibration of its device, else from what this and earlier agents have learned of it
//   (tier/calibration_folder.h, model/learned_curve.h). Clients say how long each chunk took to write (kChunkWritten); together
//   with how many wrote meanwhile on average that is an observation, and, where there is a curve, a test of its prediction.
// - Sw of [VeloC] algorithm 2, the writers of a tier, are *claims*: chunks that have a place there and are not written yet. A
//   client asks for one place ahead; of a session's claims, the oldest is being written, the others wait for it.
// - AvgFlushBW is kept for each store (model/moving_average.h). A piece counts with the time of its write, or, under flush.rate,
//   with the time that it may take; an image counts once more when it is synced, with its pieces' time and the sync's: a store
//   behind a page cache shows its speed only then.
//
// - What the store itself takes is kept beside it: the bytes that are written of a piece, in the time that writing them
//   takes. Where images are reduced, the two differ. Whether compressing pays is asked of this one.
//
// What was learned is written to the folder of calibrations now and then and at the end, by a worker; what was measured never.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/tables/image.h"
#include "agent/tables/session.h"
#include "format/calibration.h"
#include "model/moving_average.h"
#include "placement/assignment_queue.h"

namespace kedge {

class AgentCore;
class Tiers;

class Throughput {
 public:
  Throughput(AgentCore& core, Tiers& tiers) : core_(core), tiers_(tiers) {}

  // ---- Tiers ----
  // Looks for a calibration of the tier's device, at its opening.
  void Load(TierUnit& unit) const;
  // Sw as it will be when the session writes the chunk that it asks for: what it writes now will be done by then.
  static uint32_t WritersFor(const Session& session, const TierUnit& unit);
  // Its request is in the queue, and counts there for all that the session has to come.
  void OnAsked(Session& session);
  void OnAssigned(Session& session, TierUnit& unit, const SlotRange& slot, const AssignmentQueue::Request& request);
  // The slot holds no chunk that is to be written: returned, given up, or its image has ended.
  void Drop(Session& session, const SlotId& slot);
  void DropAll(Session& session);
  // A slot for one chunk that the session had before this agent.
  void OnHeld(Session& session, const SlotId& slot);
  // The session has it no more; whether it was one for one chunk.
  bool OnReturned(Session& session, const SlotId& slot);
  // Of a chunk that is not known as claimed (its agent died since) nothing is learned.
  Status OnChunkWritten(Session& session, const ChunkWritten& written);

  // ---- Places ----
  void OnWaited(Session& session, Duration waited);
  void OnThrough(Session& session);
  // A chunk of its image under way was in this slot, and has left it for the store.
  void OnReleased(Session& session, TierUnit& unit, uint32_t slot);
  // The session's image has ended: what its chunks met belongs to its version from now on.
  void OnImageEnd(Session& session, Image& image);
  const PlacementCounts& totals() const { return totals_; }

  // ---- Stores ----
  // Looks for what earlier agents saw of the store.
  void LoadStore(const StoreId& id);
  void OnPieceFlushed(const StoreId& id, uint64_t bytes, Duration took, uint32_t in_flight);
  void OnImageStored(const StoreId& id, uint64_t bytes, Duration writing, Duration syncing);
  // Of these, what the store has taken, and how long that took it.
  void OnPieceWritten(const StoreId& id, uint64_t bytes, Duration writing, uint32_t in_flight);
  void OnImageWritten(const StoreId& id, uint64_t bytes, Duration writing, Duration syncing);
  // 0: nothing is known yet.
  uint64_t FlushBytesPerSecond(const StoreId& id) const;
  double WrittenBytesPerSecond(const StoreId& id) const;
  // Of the store that was flushed to last.
  uint64_t FlushBytesPerSecond() const;
  std::vector<std::pair<StoreId, uint64_t>> StoreSpeeds() const;
  // Into the control block.
  void Publish() const;

  // Once a second: new curves, and saving.
  void Tick();
  // At the end, on this thread.
  void SaveNow();

 private:
  struct StoreSpeed {
    std::optional<MovingAverage> average{std::in_place};
    MovingAverage written;
    uint64_t added = 0;
    uint64_t saved = 0;
  };
  void Begin(Session& session);
  void Judge(Session& session, TierUnit& unit, double writers, uint64_t bytes, double seconds);
  void Add(const StoreId& id, uint64_t bytes, Duration took);
  // At least as long as flush.rate has so many flushes take.
  Duration Paced(uint64_t bytes, Duration took, uint32_t in_flight) const;
  std::vector<Calibration> TakeUnsaved(uint64_t observations_min);

  AgentCore& core_;
  Tiers& tiers_;
  PlacementCounts totals_;
  std::map<StoreId, StoreSpeed> stores_;
  StoreId last_store_{};
  uint64_t last_claim_ = 0;
  int64_t saved_ns_ = 0;
};

}  // namespace kedge

#include "agent/space/throughput.h"

#include <algorithm>
#include <cmath>

#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/run_folder.h"
#include "base/log.h"
#include "os/machine/machine.h"
#include "tier/calibration_folder.h"

namespace kedge {
namespace {

constexpr Duration kSavePeriod = std::chrono::seconds(30);
constexpr uint64_t kSaveObservations = 16;
// What a client says is believed within what a device can be: no slower than a chunk in an hour, no faster than memory.
constexpr Duration kChunkTimeMax = std::chrono::hours(1);
constexpr double kRateMax = 1e12;
constexpr uint64_t kSyncedBytesMin = uint64_t{1} << 20;  // a smaller image measures the latency of a sync
constexpr char kStoreKind[] = "store";

CalibrationKey StoreKeyOf(const StoreId& id) {
  return {kStoreKind, "store " + id.ToHex()};
}

// Brings the integral of the tier's writers up to now.
void Advance(TierThroughput& of, int64_t now_ns) {
  of.writing_seconds += of.writing * 1e-9 * static_cast<double>(now_ns - of.writing_ns);
  of.writing_ns = now_ns;
}

TierUnit* UnitOf(const Session& session, uint32_t id) {
  for (TierUnit* unit : session.tiers) {
    if (unit->id == id) return unit;
  }
  return nullptr;
}

Calibration LearnedOf(const TierUnit& unit) {
  Calibration calibration;
  calibration.origin = CalibrationOrigin::kLearned;
  calibration.kind = unit.throughput.kind;
  calibration.device = unit.throughput.device;
  calibration.chunk_bytes = unit.info().slot_bytes;
  calibration.kernel = os::KernelRelease();
  calibration.wall_time_ns = WallTimeNs();
  for (const LearnedCurve::Group& group : unit.throughput.learned.Groups()) {
    const double total = std::clamp(group.bytes_per_second * group.writers, 1.0, static_cast<double>(kCalibrationRateMax));
    const double counted = std::min(group.chunks, LearnedCurve::kFirst);
    const double spread = std::sqrt(group.variance / counted) / group.bytes_per_second;
    calibration.samples.push_back({group.writers, static_cast<uint64_t>(total), group.chunks,
                                   static_cast<uint32_t>(std::ceil(1000 * std::min(spread, 1000.0)))});
  }
  return calibration;
}

// The curve's share of one of so many writers, between whole numbers by a straight line.
double Predicted(const ThroughputCurve& curve, double writers) {
  const auto below = static_cast<uint32_t>(std::clamp(std::floor(writers), 1.0, double{ThroughputCurve::kWritersMax}));
  const double part = std::clamp(writers - below, 0.0, 1.0);
  return (1 - part) * curve.PerWriter(below) + part * curve.PerWriter(below + 1);
}

void SaveAll(const std::string& folder, const std::vector<Calibration>& calibrations) {
  for (const Calibration& calibration : calibrations) {
    const Status saved = SaveCalibration(fs(), folder, calibration);
    if (!saved.ok()) LogWarning("agent", "what was learned of {} cannot be kept: {}", calibration.device, saved.ToString());
  }
}

}  // namespace

void PlacementCounts::Add(const PlacementCounts& other) {
  for (const auto& [tier, count] : other.chunks) chunks[tier] += count;
  waits += other.waits;
  wait_seconds += other.wait_seconds;
  judged += other.judged;
  predicted += other.predicted;
  observed += other.observed;
  error += other.error;
}

void Throughput::Load(TierUnit& unit) const {
  const std::string& folder = core_.settings().calibration_folder;
  if (folder.empty()) return;
  TierThroughput& of = unit.throughput;
  const CalibrationKey key = CalibrationKeyOf(unit.info().kind, unit.info().path);
  of.kind = key.kind;
  of.device = key.device;
  for (const auto origin : {CalibrationOrigin::kMeasured, CalibrationOrigin::kLearned}) {
    const auto found = LoadCalibration(fs(), folder, key, origin, unit.info().slot_bytes);
    if (!found.ok()) {
      if (found.status().code() == Code::kNotFound) continue;
      LogWarning("agent", "tier {}: a calibration is not used: {}", unit.info().name, found.status().ToString());
      continue;
    }
    auto curve = CurveOf(*found);
    if (!curve.ok()) continue;
    of.curve = std::move(*curve);
    of.is_measured = origin == CalibrationOrigin::kMeasured;
    LogInfo("agent", "tier {}: predictions from what was {} on {} for {}", unit.info().name, CalibrationOriginName(origin),
            FormatWallTime(found->wall_time_ns).substr(0, 10), key.device);
    if (!of.is_measured) {
      for (const CalibrationSample& sample : found->samples) {
        const double rate = static_cast<double>(sample.bytes_per_second) / sample.writers;
        const double deviation = rate * 1e-3 * sample.spread_permille;
        const double counted = std::min(sample.rounds, LearnedCurve::kFirst);
        of.learned.Restore({sample.writers, rate, deviation * deviation * counted, sample.rounds});
      }
    }
    return;
  }
}

uint32_t Throughput::WritersFor(const Session& session, const TierUnit& unit) {
  const bool leaves = std::any_of(session.claims.begin(), session.claims.end(),
                                  [&](const auto& claim) { return claim.first.unit == unit.id && claim.second.writing; });
  return unit.throughput.claims - (leaves ? 1 : 0);
}

// The oldest of the session's claims is being written from now on.
void Throughput::Begin(Session& session) {
  auto oldest = session.claims.end();
  for (auto claim = session.claims.begin(); claim != session.claims.end(); ++claim) {
    if (claim->second.writing) return;
    if (oldest == session.claims.end() || claim->second.number < oldest->second.number) oldest = claim;
  }
  if (oldest == session.claims.end()) return;
  TierUnit* unit = UnitOf(session, oldest->first.unit);
  KEDGE_CHECK(unit != nullptr);
  TierThroughput& of = unit->throughput;
  const int64_t now_ns = core_.clock().NowNs();
  Advance(of, now_ns);
  ++of.writing;
  oldest->second.writing = true;
  oldest->second.since_ns = now_ns;
  oldest->second.writing_seconds = of.writing_seconds;
}

void Throughput::OnAsked(Session& session) {
  for (auto& [slot, claim] : session.claims) {
    if (TierUnit* unit = UnitOf(session, slot.unit)) unit->throughput.bytes_to_come -= claim.bytes_to_come;
    claim.bytes_to_come = 0;
  }
}

void Throughput::OnAssigned(Session& session, TierUnit& unit, const SlotRange& slot, const AssignmentQueue::Request& request) {
  session.full_slots.insert(SlotId{unit.id, slot.slot});
  const auto [claim, is_new] = session.claims.try_emplace(SlotId{unit.id, slot.slot});
  if (!is_new) return;
  claim->second.number = ++last_claim_;
  claim->second.slot_generation = slot.slot_generation;
  claim->second.bytes = request.bytes;
  claim->second.bytes_to_come = request.bytes_to_come;
  ++unit.throughput.claims;
  unit.throughput.bytes_to_come += request.bytes_to_come;
  Begin(session);
}

void Throughput::Drop(Session& session, const SlotId& slot) {
  const auto claim = session.claims.find(slot);
  if (claim == session.claims.end()) return;
  if (TierUnit* unit = UnitOf(session, slot.unit)) {
    TierThroughput& of = unit->throughput;
    --of.claims;
    of.bytes_to_come -= claim->second.bytes_to_come;
    if (claim->second.writing) {
      Advance(of, core_.clock().NowNs());
      --of.writing;
    }
  }
  session.claims.erase(claim);
  Begin(session);
}

void Throughput::OnHeld(Session& session, const SlotId& slot) {
  session.full_slots.insert(slot);
}

bool Throughput::OnReturned(Session& session, const SlotId& slot) {
  Drop(session, slot);
  return session.full_slots.erase(slot) > 0;
}

void Throughput::DropAll(Session& session) {
  session.full_slots.clear();
  while (!session.claims.empty()) Drop(session, session.claims.rbegin()->first);
}

Status Throughput::OnChunkWritten(Session& session, const ChunkWritten& written) {
  if (written.range.tier >= session.tiers.size()) return Status(Code::kInvalidArgument, "a chunk written to no tier");
  TierUnit& unit = *session.tiers[written.range.tier];
  const SlotId slot{unit.id, written.range.slot};
  const auto claim = session.claims.find(slot);
  if (claim == session.claims.end() || claim->second.slot_generation != written.range.slot_generation) return Status::Ok();
  const Claim was = claim->second;
  const int64_t now_ns = core_.clock().NowNs();
  Advance(unit.throughput, now_ns);
  const double elapsed = 1e-9 * static_cast<double>(now_ns - was.since_ns);
  const double writers = elapsed > 0 ? (unit.throughput.writing_seconds - was.writing_seconds) / elapsed : 1;
  Drop(session, slot);
  // One that was said to wait for another cannot be judged; a short one measures the latency of its messages.
  const bool counts = was.writing && written.took_ns > 0 && written.took_ns <= static_cast<uint64_t>(kChunkTimeMax.count()) &&
                      was.bytes >= unit.info().slot_bytes / 2;
  if (counts) Judge(session, unit, std::max(writers, 1.0), was.bytes, 1e-9 * static_cast<double>(written.took_ns));
  return Status::Ok();
}

void Throughput::Judge(Session& session, TierUnit& unit, double writers, uint64_t bytes, double seconds) {
  TierThroughput& of = unit.throughput;
  const double observed = static_cast<double>(bytes) / seconds;
  if (observed > kRateMax) return;
  if (of.curve.has_value()) {
    PlacementCounts judged;
    judged.judged = 1;
    judged.predicted = Predicted(*of.curve, writers);
    judged.observed = observed;
    judged.error = std::abs(judged.predicted - observed) / observed;
    session.placing.Add(judged);
    of.judged.Add(judged);
    totals_.Add(judged);
  }
  if (of.is_measured) return;
  of.learned.Add(writers, bytes, seconds);
  if (!of.curve.has_value()) of.curve = of.learned.Curve();
}

void Throughput::OnWaited(Session& session, Duration waited) {
  PlacementCounts counts;
  counts.waits = 1;
  counts.wait_seconds = ToSeconds(waited);
  session.placing.Add(counts);
  totals_.Add(counts);
}

void Throughput::OnThrough(Session& session) {
  ++session.placing.chunks[kStoreKind];
  ++totals_.chunks[kStoreKind];
}

void Throughput::OnReleased(Session& session, TierUnit& unit, uint32_t slot) {
  (void)OnReturned(session, SlotId{unit.id, slot});
  ++session.placing.chunks[unit.info().name];
  ++totals_.chunks[unit.info().name];
}

void Throughput::OnImageEnd(Session& session, Image& image) {
  for (const ImageChunk& chunk : image.chunks) {
    if (chunk.unit == nullptr) continue;
    ++session.placing.chunks[chunk.unit->info().name];
    ++totals_.chunks[chunk.unit->info().name];
  }
  image.version->placement.Add(session.placing);
  session.placing = PlacementCounts{};
}

void Throughput::LoadStore(const StoreId& id) {
  const auto [store, is_new] = stores_.try_emplace(id);
  const std::string folder = core_.settings().calibration_folder;
  if (!is_new || folder.empty()) return;
  core_.Background(
      [folder, id, piece_bytes = core_.settings().piece_bytes] {
        return LoadCalibration(fs(), folder, StoreKeyOf(id), CalibrationOrigin::kLearned, piece_bytes);
      },
      [this, id](const Result<Calibration>& found) {
        StoreSpeed& speed = stores_[id];
        if (!found.ok() || speed.added > 0) return;
        speed.average.emplace(static_cast<double>(found->samples[0].bytes_per_second));
      });
}

void Throughput::Add(const StoreId& id, uint64_t bytes, Duration took) {
  StoreSpeed& speed = stores_[id];
  const int64_t now_ns = core_.clock().NowNs();
  speed.average->Add(bytes, now_ns - took.count(), now_ns);
  ++speed.added;
  last_store_ = id;
}

Duration Throughput::Paced(uint64_t bytes, Duration took, uint32_t in_flight) const {
  const uint64_t rate = core_.settings().flush_bytes_per_second;
  if (rate == 0) return took;
  return std::max(took, FromSeconds(static_cast<double>(bytes) * std::max(in_flight, 1u) / static_cast<double>(rate)));
}

void Throughput::OnPieceFlushed(const StoreId& id, uint64_t bytes, Duration took, uint32_t in_flight) {
  // Small pieces measure the file system's latency, not what a chunk would see.
  if (bytes >= kPieceBytesMin) Add(id, bytes, Paced(bytes, took, in_flight));
}

void Throughput::OnPieceWritten(const StoreId& id, uint64_t bytes, Duration writing, uint32_t in_flight) {
  if (bytes < kPieceBytesMin) return;
  const int64_t now_ns = core_.clock().NowNs();
  stores_[id].written.Add(bytes, now_ns - Paced(bytes, writing, in_flight).count(), now_ns);
}

void Throughput::OnImageWritten(const StoreId& id, uint64_t bytes, Duration writing, Duration syncing) {
  if (bytes < kSyncedBytesMin) return;
  const int64_t now_ns = core_.clock().NowNs();
  stores_[id].written.Add(bytes, now_ns - (writing + syncing).count(), now_ns);
}

double Throughput::WrittenBytesPerSecond(const StoreId& id) const {
  const auto store = stores_.find(id);
  const double known = store == stores_.end() ? 0 : store->second.written.bytes_per_second();
  const auto rate = static_cast<double>(core_.settings().flush_bytes_per_second);
  return rate > 0 && (known <= 0 || known > rate) ? rate : known;
}

void Throughput::OnImageStored(const StoreId& id, uint64_t bytes, Duration writing, Duration syncing) {
  if (bytes >= kSyncedBytesMin) Add(id, bytes, writing + syncing);
}

uint64_t Throughput::FlushBytesPerSecond(const StoreId& id) const {
  const auto store = stores_.find(id);
  if (store == stores_.end()) return 0;
  const double rate = std::clamp(store->second.average->bytes_per_second(), 0.0, static_cast<double>(kCalibrationRateMax));
  return static_cast<uint64_t>(rate);
}

uint64_t Throughput::FlushBytesPerSecond() const {
  return FlushBytesPerSecond(last_store_);
}

std::vector<std::pair<StoreId, uint64_t>> Throughput::StoreSpeeds() const {
  std::vector<std::pair<StoreId, uint64_t>> speeds;
  for (const auto& [id, speed] : stores_) speeds.emplace_back(id, FlushBytesPerSecond(id));
  return speeds;
}

void Throughput::Publish() const {
  ControlBlock& control = core_.control();
  control.flush_bytes_per_second.store(FlushBytesPerSecond(), std::memory_order_relaxed);
  size_t index = 0;
  for (const auto& [id, bytes_per_second] : StoreSpeeds()) {
    if (index == kControlStoresMax) break;
    ControlStore& shown = control.stores[index++];
    shown.id_high.store(id.high, std::memory_order_relaxed);
    shown.id_low.store(id.low, std::memory_order_relaxed);
    shown.flush_bytes_per_second.store(bytes_per_second, std::memory_order_release);
  }
}

std::vector<Calibration> Throughput::TakeUnsaved(uint64_t observations_min) {
  std::vector<Calibration> unsaved;
  for (TierUnit* unit : tiers_.units()) {
    TierThroughput& of = unit->throughput;
    if (of.is_measured || of.device.empty() || of.learned.observations() < of.saved + observations_min) continue;
    of.saved = of.learned.observations();
    Calibration learned = LearnedOf(*unit);
    if (!learned.samples.empty()) unsaved.push_back(std::move(learned));
  }
  for (auto& [id, speed] : stores_) {
    const double rate = speed.average->bytes_per_second();
    if (speed.added < speed.saved + observations_min || !(rate >= 1)) continue;
    speed.saved = speed.added;
    Calibration learned;
    learned.origin = CalibrationOrigin::kLearned;
    learned.kind = kStoreKind;
    learned.device = StoreKeyOf(id).device;
    learned.chunk_bytes = core_.settings().piece_bytes;
    learned.kernel = os::KernelRelease();
    learned.wall_time_ns = WallTimeNs();
    const auto rounds = static_cast<uint32_t>(std::min<uint64_t>(speed.added, UINT32_MAX));
    learned.samples = {{1, static_cast<uint64_t>(std::min(rate, static_cast<double>(kCalibrationRateMax))), rounds, 0}};
    unsaved.push_back(std::move(learned));
  }
  return unsaved;
}

void Throughput::Tick() {
  for (TierUnit* unit : tiers_.units()) {
    TierThroughput& of = unit->throughput;
    if (of.is_measured || of.fitted == of.learned.observations()) continue;
    of.fitted = of.learned.observations();
    if (auto curve = of.learned.Curve()) of.curve = std::move(curve);
  }
  const std::string& folder = core_.settings().calibration_folder;
  const int64_t now_ns = core_.clock().NowNs();
  if (folder.empty() || now_ns - saved_ns_ < kSavePeriod.count()) return;
  saved_ns_ = now_ns;
  auto unsaved = TakeUnsaved(kSaveObservations);
  if (!unsaved.empty()) core_.workers().Submit([folder, unsaved = std::move(unsaved)] { SaveAll(folder, unsaved); });
}

void Throughput::SaveNow() {
  if (!core_.settings().calibration_folder.empty()) SaveAll(core_.settings().calibration_folder, TakeUnsaved(1));
}

}  // namespace kedge

#include "capture/tier_trial.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "capture/image_capture.h"

namespace kedge {
namespace {

constexpr uint64_t kSourceBytesMin = uint64_t{256} << 20;
constexpr uint32_t kLevelsMin = 4;

// Captures into one slot of a tier, and keeps nothing of it.
class TrialSink final : public ImageSink {
 public:
  TrialSink(Tier& tier, uint32_t slot, const LayoutLimits& limits) : tier_(tier), slot_(slot), limits_(limits) {}
  const LayoutLimits& limits() const override { return limits_; }
  Status Begin(const ImageIdentity&, uint64_t) override { return Status::Ok(); }
  Result<ChunkTarget> OpenChunk(uint32_t, uint64_t) override { return ChunkTarget{tier_.SlotMemory(slot_)}; }
  void ExpectChunk(uint64_t) override {}
  bool GrowChunk(uint64_t) override { return false; }
  Status Write(uint64_t offset, const std::byte* data, uint64_t bytes) override {
    return tier_.Write(slot_, offset, data, bytes);
  }
  void Progress(uint64_t) override {}
  Status CloseChunk(uint64_t bytes, ImageRecord* record) override {
    record->chunks.push_back(Chunk{0, 0, bytes});
    return Status::Ok();
  }
  Status End(const ImageRecord&) override { return Status::Ok(); }
  void Abort() override {}

 private:
  Tier& tier_;
  const uint32_t slot_;
  const LayoutLimits limits_;
};

// Mean, and its standard error relative to it in per mille.
void Summarize(const std::vector<double>& rates, CalibrationSample* sample) {
  double sum = 0, squares = 0;
  for (const double rate : rates) sum += rate;
  const auto count = static_cast<double>(rates.size());
  const double mean = sum / count;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  const double error = rates.size() > 1 ? std::sqrt(squares / (count - 1) / count) / mean : 1;
  sample->rounds = static_cast<uint32_t>(rates.size());
  sample->bytes_per_second = static_cast<uint64_t>(std::clamp(mean, 1.0, static_cast<double>(kCalibrationRateMax)));
  sample->spread_permille = static_cast<uint32_t>(std::ceil(error * 1000));
}

}  // namespace

// What one writer of a round holds: its slot, and the buffers that a client keeps from one checkpoint to the next.
class TierTrial::Writer {
 public:
  Writer(Tier& tier, uint32_t slot, const LayoutLimits& limits) : sink_(tier, slot, limits) {
    identity_.generation.job = identity_.generation.name = "calibration";
    identity_.generation.attempt = identity_.generation.take = 1;
    identity_.ranks = 1;
  }

  Status Capture(const std::byte* data, uint64_t bytes) {
    Region region;
    region.bytes = bytes;
    const Status captured = [&]() -> Status {
      KEDGE_RETURN_IF_ERROR(capture_.Begin(&sink_, identity_, "", bytes));
      KEDGE_RETURN_IF_ERROR(capture_.BeginPart({&bytes, 1}));
      KEDGE_RETURN_IF_ERROR(capture_.AddRegion(region, data));
      return capture_.End(0);
    }();
    if (!captured.ok()) capture_.Abort();
    return captured;
  }

 private:
  TrialSink sink_;
  ImageCapture capture_;
  ImageIdentity identity_;
};

TierTrial::TierTrial(Tier& tier, const TrialOptions& options) : tier_(tier), options_(options) {
  const uint64_t chunk_bytes = tier.info().slot_bytes;
  const uint64_t chunks = std::max<uint64_t>(1, (kSourceBytesMin + chunk_bytes - 1) / chunk_bytes);
  source_.resize(std::min<uint64_t>(chunks, tier.info().slots) * chunk_bytes);
  Random random(1);
  for (size_t i = 0; i + sizeof(uint64_t) <= source_.size(); i += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), sizeof word, source_.data() + i);
  }
}

TierTrial::~TierTrial() = default;

Status TierTrial::Prepare(uint32_t writers) {
  const uint64_t chunk_bytes = tier_.info().slot_bytes;
  const LayoutLimits limits{chunk_bytes, std::min(options_.piece_bytes, chunk_bytes)};
  while (writers_.size() < writers) {
    const auto slot = static_cast<uint32_t>(writers_.size());
    KEDGE_RETURN_IF_ERROR(tier_.ReserveAll(slot));
    KEDGE_RETURN_IF_ERROR(tier_.Populate(slot, 0, chunk_bytes));
    writers_.push_back(std::make_unique<Writer>(tier_, slot, limits));
    KEDGE_RETURN_IF_ERROR(writers_.back()->Capture(source_.data(), chunk_bytes));
  }
  return Status::Ok();
}

Result<double> TierTrial::Round(uint32_t writers) {
  const uint64_t chunk_bytes = tier_.info().slot_bytes;
  const uint64_t chunks = source_.size() / chunk_bytes;
  std::vector<Status> outcomes(writers);
  std::atomic<int64_t> begin_ns{0}, end_ns{0};
  std::barrier start(writers, [&]() noexcept { begin_ns = SystemClock().NowNs(); });
  std::vector<std::thread> threads;
  threads.reserve(writers);
  for (uint32_t i = 0; i < writers; ++i) {
    threads.emplace_back([&, i] {
      const std::byte* data = source_.data() + i % chunks * chunk_bytes;
      start.arrive_and_wait();
      outcomes[i] = writers_[i]->Capture(data, chunk_bytes);
      const int64_t now_ns = SystemClock().NowNs();
      int64_t last_ns = end_ns;
      while (last_ns < now_ns && !end_ns.compare_exchange_weak(last_ns, now_ns)) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) KEDGE_RETURN_IF_ERROR(outcome);
  return std::max(1e-9 * static_cast<double>(end_ns - begin_ns), 1e-9);
}

Result<CalibrationSample> TierTrial::Measure(uint32_t writers, const TrialProgress& progress) {
  KEDGE_CHECK(writers >= 1 && writers <= tier_.info().slots);
  const Deadline deadline(SystemClock(), options_.level_timeout);
  KEDGE_RETURN_IF_ERROR(Prepare(writers));
  const double bytes = static_cast<double>(tier_.info().slot_bytes) * writers;
  CalibrationSample sample;
  sample.writers = writers;
  std::vector<double> rates;
  do {
    KEDGE_ASSIGN_OR_RETURN(const double seconds, Round(writers));
    rates.push_back(bytes / seconds);
    Summarize(rates, &sample);
    if (progress && !progress(sample)) return Status(Code::kTimeout, "the calibration was given up");
  } while (!deadline.Passed() && sample.rounds < options_.rounds_max &&
           (sample.rounds < options_.rounds_min || sample.spread_permille > options_.spread_permille));
  return sample;
}

std::vector<uint32_t> CalibrationLevels(uint32_t writers_max) {
  // ceil(max / 10) - 1 is the greatest number below a tenth.
  const uint32_t count = std::min(writers_max, std::max(kLevelsMin, (writers_max + 9) / 10 - 1));
  std::vector<uint32_t> levels{1};
  if (count == 1) return levels;
  const uint32_t step = (writers_max - 1 + count - 2) / (count - 1);
  while (levels.back() < writers_max) levels.push_back(levels.back() + step);
  return levels;
}

}  // namespace kedge

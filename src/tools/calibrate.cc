// kedge calibrate: how fast this node's tiers take chunks from how many writers, measured and shown ([VeloC] IV-C).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "agent/space/tier_cut.h"
#include "base/byte_size.h"
#include "base/clock.h"
#include "base/json.h"
#include "capture/tier_trial.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/machine/machine.h"
#include "os/process/process.h"
#include "os/process/signals.h"
#include "session/config_keys.h"
#include "tier/calibration_folder.h"
#include "tools/calibration_view.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

constexpr uint32_t kWritersMaxDefault = 64;
constexpr size_t kPlotWidth = 78;

struct CalibrateOptions {
  ConfigOptions config;
  std::vector<std::string> tiers;
  uint32_t writers = 0;  // 0: as many as there are processors, twice, but no fewer than kWritersMaxDefault
  std::string time = "5min";
  bool again = false;
  bool show = false;
  std::string png;
  bool json = false;
};

// Where tiers and calibrations are.
os::FileSystem& fs() {
  return os::PrivateFileSystem();
}

std::atomic<bool> stop_wanted{false};
void WantStop() {
  stop_wanted = true;
}

// What a tier of the configuration is for a trial: where, and how much it may take.
struct TrialPlace {
  std::string name;
  TierKind kind = TierKind::kMemory;
  std::string folder;
  uint64_t capacity_bytes = 0;
};

Result<std::vector<TrialPlace>> PlacesOf(const NodeSettings& settings, const std::vector<std::string>& wanted) {
  std::vector<TrialPlace> places;
  if (!settings.pool_bytes.has_value() || *settings.pool_bytes > 0) {
    TrialPlace pool{"pool", TierKind::kMemory, os::ParentPath(settings.run_folder), 0};
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), pool.folder, 0700, false));
    KEDGE_ASSIGN_OR_RETURN(const os::VolumeInfo volume, fs().StatVolume(pool.folder));
    KEDGE_ASSIGN_OR_RETURN(const os::MemoryInfo memory, os::MachineMemory());
    const auto cgroup = os::CgroupMemoryLimit();
    pool.capacity_bytes = settings.pool_bytes.value_or(
        DefaultPoolBytes(memory.total_bytes, volume.available_bytes, cgroup.has_value() ? cgroup->LeftBytes() : UINT64_MAX));
    places.push_back(std::move(pool));
  }
  for (const TierSettings& tier : settings.tiers) places.push_back({tier.name, tier.kind, tier.path, tier.capacity_bytes});
  for (const std::string& name : wanted) {
    const bool known = std::any_of(places.begin(), places.end(), [&](const TrialPlace& place) { return place.name == name; });
    if (!known) return Status(Code::kInvalidArgument, fmt::format("--tier {}: the configuration has no tier of that name", name));
  }
  std::erase_if(places, [&](const TrialPlace& place) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), place.name) == wanted.end();
  });
  if (places.empty()) return Status(Code::kFailedPrecondition, "the configuration has no tier (pool.size = 0, and no [[tier]])");
  return places;
}

uint64_t ChunkBytesOf(const NodeSettings& settings, const TrialPlace& place) {
  return CutTier(place.kind, place.capacity_bytes, settings.chunk_bytes).slot_bytes;
}

// What is on file for the place: what was measured, else what agents have learned.
CalibratedTier Look(const NodeSettings& settings, const TrialPlace& place) {
  const CalibrationKey key = CalibrationKeyOf(place.kind, place.kind == TierKind::kMemory ? place.folder + "/x" : place.folder);
  CalibratedTier tier{place.name, place.kind, place.folder, key.device, std::nullopt, ""};
  for (const auto origin : {CalibrationOrigin::kMeasured, CalibrationOrigin::kLearned}) {
    auto found = LoadCalibration(fs(), settings.calibration_folder, key, origin, ChunkBytesOf(settings, place));
    if (found.ok()) {
      tier.calibration = std::move(*found);
      return tier;
    }
    if (tier.why_none.empty() && found.status().code() != Code::kNotFound) tier.why_none = found.status().message();
  }
  if (tier.why_none.empty()) tier.why_none = "nothing was measured (kedge calibrate) or learned of this device yet";
  return tier;
}

// A tier's folder for a trial; goes with the object.
class TrialTier {
 public:
  static Result<std::unique_ptr<TrialTier>> Make(const TrialPlace& place, uint64_t chunk_bytes, uint32_t slots) {
    auto made = std::make_unique<TrialTier>();
    made->folder_ = os::JoinPath(place.folder, fmt::format("kedge-{}-calibration", os::EffectiveUser()));
    KEDGE_RETURN_IF_ERROR(os::RemoveTree(fs(), made->folder_));  // of one that was killed
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), made->folder_, 0700, false));
    TierInfo info{place.name, place.name, place.kind, made->folder_, chunk_bytes, slots};
    if (place.kind == TierKind::kMemory) info.path += "/pool";
    auto created = place.kind == TierKind::kMemory ? CreateMemoryTier(fs(), info) : CreateDirectoryTier(fs(), info);
    if (!created.ok()) return created.status();
    made->tier_ = std::move(created->tier);
    return made;
  }
  ~TrialTier() {
    tier_.reset();
    (void)os::RemoveTree(fs(), folder_);
  }
  Tier& tier() { return *tier_; }

 private:
  std::string folder_;
  std::unique_ptr<Tier> tier_;
};

// The levels that the tier has slots for at a time, as clients would.
Result<std::vector<uint32_t>> LevelsFor(const TrialPlace& place, uint64_t chunk_bytes, uint32_t writers) {
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), place.folder, 0700, false));
  KEDGE_ASSIGN_OR_RETURN(const os::VolumeInfo volume, fs().StatVolume(place.folder));
  const uint64_t room = std::min(place.capacity_bytes, volume.available_bytes / 10 * 9);
  const auto slots = static_cast<uint32_t>(std::min<uint64_t>(room / chunk_bytes, writers));
  if (slots == 0) {
    return Status(Code::kNoSpace, fmt::format("tier {}: {} has room for {}, less than one chunk of {}", place.name, place.folder,
                                              FormatByteSize(room), FormatByteSize(chunk_bytes)));
  }
  std::vector<uint32_t> levels = CalibrationLevels(slots);
  for (uint32_t most = slots; levels.back() > room / chunk_bytes; levels = CalibrationLevels(--most)) {
  }
  return levels;
}

Result<Calibration> MeasurePlace(const NodeSettings& settings, const TrialPlace& place, const CalibrateOptions& options,
                                 Duration time) {
  const uint64_t chunk_bytes = ChunkBytesOf(settings, place);
  const uint32_t cpus = static_cast<uint32_t>(os::UsableCpuCount());
  const uint32_t writers = options.writers > 0 ? options.writers : std::max(kWritersMaxDefault, 2 * cpus);
  KEDGE_ASSIGN_OR_RETURN(const std::vector<uint32_t> levels, LevelsFor(place, chunk_bytes, writers));
  KEDGE_ASSIGN_OR_RETURN(const auto tier, TrialTier::Make(place, chunk_bytes, levels.back()));
  TrialOptions trial_options;
  trial_options.piece_bytes = settings.piece_bytes;
  trial_options.level_timeout = time / static_cast<int64_t>(levels.size());
  TierTrial trial(tier->tier(), trial_options);
  ProgressLine progress("");
  Calibration calibration;
  for (const uint32_t level : levels) {
    KEDGE_ASSIGN_OR_RETURN(const CalibrationSample sample, trial.Measure(level, [&](const CalibrationSample& so_far) {
      progress.Show(fmt::format("tier {}: {} of {} writers, round {}: {:.0f} MB/s, spread {:.1f}%", place.name, level,
                                levels.back(), so_far.rounds, static_cast<double>(so_far.bytes_per_second) * 1e-6,
                                so_far.spread_permille * 0.1));
      return !stop_wanted;
    }));
    calibration.samples.push_back(sample);
  }
  const CalibrationKey key = CalibrationKeyOf(place.kind, tier->tier().info().path);
  calibration.kind = key.kind;
  calibration.device = key.device;
  calibration.chunk_bytes = chunk_bytes;
  calibration.kernel = os::KernelRelease();
  calibration.wall_time_ns = WallTimeNs();
  return calibration;
}

// Another one at the same time would measure the two together.
Result<std::unique_ptr<os::File>> LockFolder(const std::string& folder) {
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), folder, 0700, false));
  KEDGE_ASSIGN_OR_RETURN(auto file, fs().Open(os::JoinPath(folder, "lock"), os::OpenFlags::kReadWrite | os::OpenFlags::kCreate));
  KEDGE_ASSIGN_OR_RETURN(const bool locked, file->TryLock(true));
  if (!locked) return Status(Code::kBusy, fmt::format("another kedge calibrate is at work ({} is locked)", file->path()));
  return file;
}

Status MeasureAll(const NodeSettings& settings, const std::vector<TrialPlace>& places, const CalibrateOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Duration time, ParseDuration(options.time));
  KEDGE_ASSIGN_OR_RETURN(const auto lock, LockFolder(settings.calibration_folder));
  os::OnTerminationSignals(WantStop);
  for (const TrialPlace& place : places) {
    const CalibratedTier known = Look(settings, place);
    const bool is_measured = known.calibration.has_value() && known.calibration->origin == CalibrationOrigin::kMeasured;
    if (is_measured && !options.again) {
      std::fprintf(stderr, "kedge: tier %s: its device was measured on %s; --again measures it anew\n", place.name.c_str(),
                   FormatWallTime(known.calibration->wall_time_ns).substr(0, 10).c_str());
      continue;
    }
    KEDGE_ASSIGN_OR_RETURN(const Calibration measured, MeasurePlace(settings, place, options, time));
    KEDGE_RETURN_IF_ERROR(SaveCalibration(fs(), settings.calibration_folder, measured));
    const CalibrationKey key{measured.kind, measured.device};
    std::fprintf(stderr, "kedge: tier %s: kept in %s; agents that start from now on predict from it\n", place.name.c_str(),
                 CalibrationPath(settings.calibration_folder, key, CalibrationOrigin::kMeasured).c_str());
  }
  return Status::Ok();
}

// The numbers beside the picture, which `kedge plan curves` draws from them; this process becomes it.
Status Draw(const std::string& png, const std::string& json) {
  const std::string data = png + ".json";
  Status written = os::WriteFileDurably(os::SystemFileSystem(), data, json + "\n", "calibration", 0644);
  if (!written.ok()) return written.WithContext("--png " + png);
  std::fflush(stdout);
  std::vector<std::string> arguments = {"kedge-plan", "curves", data, png};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const auto folder = os::ProgramFolder();
  const std::string beside = folder.ok() ? os::JoinPath(*folder, "kedge-plan") : "kedge-plan";
  (void)os::ReplaceProcess(beside, pointers.data());
  return os::ReplaceProcess("kedge-plan", pointers.data())
      .WithContext("the numbers are in " + data + "; the picture needs kedge-plan");
}

Outcome Calibrate(const CalibrateOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const NodeSettings settings, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<TrialPlace> places, PlacesOf(settings, options.tiers));
  if (!options.show) KEDGE_RETURN_IF_ERROR(MeasureAll(settings, places, options));
  std::vector<CalibratedTier> tiers;
  for (const TrialPlace& place : places) tiers.push_back(Look(settings, place));
  const Json json = CalibrationJson(settings.calibration_folder, tiers);
  if (options.json) {
    PrintJson(json);
  } else {
    for (const CalibratedTier& tier : tiers) std::printf("%s\n", CalibrationText(tier, kPlotWidth).c_str());
  }
  if (!options.png.empty()) KEDGE_RETURN_IF_ERROR(Draw(options.png, ToText(json)));
  const bool all =
      std::all_of(tiers.begin(), tiers.end(), [](const CalibratedTier& tier) { return tier.calibration.has_value(); });
  return all ? kExitOk : kExitBad;
}

}  // namespace

Command CalibrateCommand() {
  return {"calibrate", "measure how fast the node's tiers take chunks from many writers, and show it", [](CLI::App& app) {
            auto options = std::make_shared<CalibrateOptions>();
            app.add_option("--tier", options->tiers, "only this tier (pool, or a name of the configuration); may be repeated")
                ->type_name("NAME");
            app.add_option("--writers", options->writers, "most writers at a time; default: twice the processors, 64 or more")
                ->check(CLI::Range(1u, kCalibrationWritersMax));
            app.add_option("--time", options->time, "ceiling of the time for each tier")
                ->capture_default_str()
                ->type_name("DURATION");
            app.add_flag("--again", options->again, "also what has been measured already");
            app.add_flag("--show", options->show, "measure nothing: show what is on file");
            app.add_option("--png", options->png, "also draw points and curves into this file, their numbers into FILE.json")
                ->type_name("FILE");
            app.add_flag("--json", options->json, "print JSON");
            options->config.AddTo(app);
            app.footer(
                "Run it once for each kind of node, while nothing else uses its tiers. Agents read the result when they start; "
                "a tier without one is learned from checkpoints.\n"
                "Examples:\n  kedge calibrate\n  kedge calibrate --show");
            return [options] { return Calibrate(*options); };
          }};
}

}  // namespace kedge::tools

// shallow: waves in a closed basin, in the shape of a real application.
//
//   mpirun -np 4 shallow-cpp SIDE STEPS FOLDER
//
// The same as shallow.c, to the last bit, in C++17 with kedge.hpp: its arrays are vectors of a class. See there for what it
// shows.
#include <kedge/kedge_mpi.h>
#include <mpi.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <kedge/kedge.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr double kTimeStep = 0.5;
constexpr int kStepsOfLog = 10;  // from line to line

[[noreturn]] void Fail(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "shallow: %s: %s\n", what.c_str(), why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Must(const kedge::Expected<void>& done, const char* what) {
  if (!done) Fail(what, done.error().message());
}

template <typename T>
T Must(kedge::Expected<T> found, const char* what) {
  if (!found) Fail(what, found.error().message());
  return *std::move(found);
}

// One rank's band: its rows, with one more on both sides, of `side` cells each. `along` is the flow through the left faces of the
// cells, `across` that through their lower ones; no water flows through walls. What Kedge protects stays where it is.
class Basin {
 public:
  explicit Basin(int side) : side_(side) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    if (side < ranks) Fail("usage", "SIDE is at least the number of ranks");
    first_ = static_cast<int>(int64_t{side} * rank_ / ranks);
    rows_ = static_cast<int>(int64_t{side} * (rank_ + 1) / ranks) - first_;
    below_ = rank_ > 0 ? rank_ - 1 : MPI_PROC_NULL;
    above_ = rank_ + 1 < ranks ? rank_ + 1 : MPI_PROC_NULL;
    for (std::vector<double>* rows : {&height_, &along_, &across_}) rows->assign(At(rows_ + 2, 0), 0);
    // A hill of water off the middle.
    for (int y = 1; y <= rows_; ++y)
      for (int x = 0; x < side_; ++x) {
        const double dy = (first_ + y - 0.5) / side_ - 0.4, dx = (x + 0.5) / side_ - 0.3, r = 1 - 25 * (dx * dx + dy * dy);
        height_[At(y, x)] = r > 0 ? r * r : 0;
      }
  }

  void Protect(kedge::Context& kedge) {
    kedge::RegionOptions same;
    same.replicated = true;
    Must(kedge.Protect(0, step_, Named(same, "step")), "step");
    Must(kedge.Protect(1, time_, Named(same, "time")), "time");
    Must(kedge.Protect(2, log_bytes_, Named(same, "log bytes")), "length of the log");
    kedge::RegionOptions band;
    band.shape = {rows_ + 2, side_};
    band.global_shape = {side_, side_};
    band.global_offset = {first_, 0};
    band.halo = {1, 0};
    Must(kedge.Protect(3, kedge::Span<double>(height_), Named(band, "height")), "height");
    Must(kedge.Protect(4, kedge::Span<double>(along_), Named(band, "along")), "along");
    Must(kedge.Protect(5, kedge::Span<double>(across_), Named(band, "across")), "across");
  }

  // Linear shallow water on a staggered grid, forward in the flow and backward in the height.
  void Advance() {
    const auto n = static_cast<size_t>(side_);
    MPI_Sendrecv(&height_[At(rows_, 0)], side_, MPI_DOUBLE, above_, 0, &height_[0], side_, MPI_DOUBLE, below_, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int y = 1; y <= rows_; ++y)
      for (int x = 0; x < side_; ++x) {
        const size_t i = At(y, x);
        if (x > 0) along_[i] -= kTimeStep * (height_[i] - height_[i - 1]);
        if (first_ + y > 1) across_[i] -= kTimeStep * (height_[i] - height_[i - n]);
      }
    MPI_Sendrecv(&across_[n], side_, MPI_DOUBLE, below_, 1, &across_[At(rows_ + 1, 0)], side_, MPI_DOUBLE, above_, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int y = 1; y <= rows_; ++y)
      for (int x = 0; x < side_; ++x) {
        const size_t i = At(y, x);
        const double right = x + 1 < side_ ? along_[i + 1] : 0;
        height_[i] -= kTimeStep * ((right - along_[i]) + (across_[i + n] - across_[i]));
      }
    ++step_;
    time_ += kTimeStep;
  }

  // What was written behind the checkpoint that the run goes on from is written again.
  void OpenLog(const std::string& folder) {
    if (rank_ != 0) return;
    const std::string path = folder + "/shallow.log";
    log_ = std::fopen(path.c_str(), "ab");
    if (log_ == nullptr || ftruncate(fileno(log_), log_bytes_) != 0) Fail("the log", path);
  }

  // All ranks count, so that the length is the same on each.
  void WriteLog() {
    if (step_ % kStepsOfLog != 0) return;
    char line[64];
    const int bytes = std::snprintf(line, sizeof line, "step %9d time %12.1f\n", step_, time_);
    if (log_ != nullptr && std::fwrite(line, 1, static_cast<size_t>(bytes), log_) != static_cast<size_t>(bytes))
      Fail("the log", "it cannot be written");
    log_bytes_ += bytes;
  }

  void CloseLog() {
    if (log_ != nullptr && std::fclose(log_) != 0) Fail("the log", "it cannot be written");
  }

  // On an error the run goes on with the older checkpoints.
  void Checkpoint(kedge::Context& kedge, const std::string& folder) {
    if (log_ != nullptr) std::fflush(log_);  // before its length is saved
    kedge::Expected<void> taken = kedge.CheckpointBegin("water", step_);
    if (taken) {
      const bool good = kedge.CheckpointRest() && WriteWater(kedge, folder);
      taken = kedge.CheckpointEnd(good);
    }
    if (!taken) std::fprintf(stderr, "shallow: rank %d: step %d: %s\n", rank_, step_, taken.error().message().c_str());
  }

  // Every cell's bits times an odd number of its own, summed: the same for every number of ranks.
  uint64_t Checksum() const {
    uint64_t sum = 0, total = 0;
    for (int y = 1; y <= rows_; ++y)
      for (int x = 0; x < side_; ++x) {
        uint64_t bits = 0;
        std::memcpy(&bits, &height_[At(y, x)], sizeof bits);
        sum += bits * (2 * (static_cast<uint64_t>(first_ + y) * static_cast<uint64_t>(side_) + static_cast<uint64_t>(x)) + 1);
      }
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return total;
  }

  int rank() const { return rank_; }
  int step() const { return step_; }
  double time() const { return time_; }

 private:
  size_t At(int y, int x) const { return static_cast<size_t>(y) * static_cast<size_t>(side_) + static_cast<size_t>(x); }

  static kedge::RegionOptions Named(kedge::RegionOptions options, const char* name) {
    options.name = name;
    return options;
  }

  // The heights of this rank's rows, for whoever looks at the run.
  bool WriteWater(kedge::Context& kedge, const std::string& folder) const {
    char name[64];
    std::snprintf(name, sizeof name, "/water-%06d.%d", step_, rank_);
    const auto path = kedge.RouteFile(folder + name);
    std::FILE* const file = path ? std::fopen(path->c_str(), "wb") : nullptr;
    if (file == nullptr) return false;
    const size_t cells = At(rows_, 0);
    const bool written = std::fwrite(&height_[At(1, 0)], sizeof(double), cells, file) == cells;
    return std::fclose(file) == 0 && written;
  }

  const int side_;
  int rank_ = 0, rows_ = 0, first_ = 0, below_ = 0, above_ = 0;
  std::vector<double> height_, along_, across_;
  int step_ = 0;
  double time_ = 0;
  int64_t log_bytes_ = 0;
  std::FILE* log_ = nullptr;  // rank 0 has it
};

void Run(int side, int steps, const std::string& folder) {
  Basin basin(side);
  const auto start = [](auto* options, auto** out) { return kedge_mpi_init(MPI_COMM_WORLD, options, out); };
  kedge::Context kedge = Must(kedge::Context::Open({}, start), "starting Kedge");
  basin.Protect(kedge);
  if (const auto restored = kedge.Restart("water")) {
    if (basin.rank() == 0) std::printf("shallow: continuing from step %d, time %g\n", basin.step(), basin.time());
  } else if (restored.error().code() != KEDGE_ERROR_NOT_FOUND) {
    Fail("restart", restored.error().message());
  }
  basin.OpenLog(folder);

  bool stop = false;
  while (basin.step() < steps && !stop) {
    basin.Advance();
    basin.WriteLog();
    if (Must(kedge.CheckpointDue(), "asking whether a checkpoint is due")) basin.Checkpoint(kedge, folder);
    stop = Must(kedge.ShouldExit(), "asking whether to end");
  }

  const uint64_t sum = basin.Checksum();
  if (basin.rank() == 0 && basin.step() < steps) std::printf("shallow: halted at step %d of %d\n", basin.step(), steps);
  if (basin.rank() == 0 && basin.step() >= steps) std::printf("shallow: step %d, checksum %016" PRIX64 "\n", basin.step(), sum);
  Must(kedge.Finalize(), "finishing Kedge");
  basin.CloseLog();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4 || std::atoi(argv[1]) < 1) Fail("usage", "shallow-cpp SIDE STEPS FOLDER");
  Run(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
  return MPI_Finalize();
}

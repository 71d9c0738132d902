#include "checkpoint_bench.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "arguments.h"
#include "base/byte_size.h"
#include "kedge/kedge.h"
#include "kedge/kedge_mpi.h"
#include "measure.h"
#include "references.h"
#include "report.h"

namespace kedge::bench {
namespace {

constexpr const char* kName = "bench";

struct Options {
  std::string bytes = "256MiB";
  int repetitions = 5;
  int warmups = 1;
  double interval_seconds = 0;
  std::string store;
  std::string overrides;
  bool wait = true;
  bool restart = true;
  bool references = true;
  bool beside = false;
  bool library_calls = false;
  bool table = false;
};

// Private memory of this process: pages that no other process shares and no file backs.
double PrivateBytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  double kibibytes = 0;
  double value = 0;
  for (std::string line; std::getline(rollup, line);) {
    if (std::sscanf(line.c_str(), "Anonymous: %lf kB", &value) == 1) kibibytes += value;
  }
  return kibibytes * 1024;
}

// As bench/run gives it; empty: not known.
std::string AgentRunFolder() {
  const char* folder = std::getenv("KEDGE_NODE_RUN_FOLDER");
  return folder == nullptr ? "" : folder;
}

class CheckpointBench {
 public:
  explicit CheckpointBench(Options options) : options_(std::move(options)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  int Run();

 private:
  bool Prepare();
  void Fill() { FillPattern(rank_, version_, &data_); }
  void MeasureReferences();
  void TakeCheckpoint(bool counted);
  void MeasureRestart(const char* key);
  void MeasureStoreRestarts();
  void MeasureColdRestart(const char* key);
  void MeasureColdRead(const char* key);
  void MeasureBeside();
  void Pause() const;
  void Verify();
  void Print();

  Options options_;
  int rank_ = 0;
  int ranks_ = 1;
  size_t bytes_total_ = 0;
  std::vector<char> data_;
  kedge_context* context_ = nullptr;
  int64_t version_ = 0;
  Report report_;
};

bool CheckpointBench::Prepare() {
  const auto parsed = ParseByteSize(options_.bytes);
  if (!parsed.ok()) {
    if (rank_ == 0) std::fprintf(stderr, "kedge-bench: --bytes: %s\n", parsed.status().message().c_str());
    return false;
  }
  bytes_total_ = static_cast<size_t>(*parsed);
  if (options_.store.empty()) options_.store = (std::filesystem::current_path() / "kedge-bench-store").string();
  const bool is_folder = options_.store.find("://") == std::string::npos;
  if (rank_ == 0 && is_folder) std::filesystem::create_directories(options_.store);
  MPI_Barrier(MPI_COMM_WORLD);
  data_.resize(bytes_total_ / static_cast<size_t>(ranks_));
  Fill();
  return true;
}

void CheckpointBench::MeasureReferences() {
  FaultedBuffer faulted(data_.size());
  for (int i = 0; i < options_.repetitions; ++i) {
    const auto bytes = data_.size();
    report_.Add("reference_memcpy_seconds", TimeTogether([&] { return MemcpySeconds(faulted.data(), data_.data(), bytes); }));
    report_.Add("reference_shm_write_seconds",
                TimeTogether([&] { return SharedMemoryWriteSeconds(data_.data(), bytes, rank_); }));
    report_.Add("reference_store_write_fsync_seconds",
                TimeTogether([&] { return WriteFsyncSeconds(options_.store, data_.data(), bytes, rank_); }));
    report_.Add("reference_store_direct_seconds",
                TimeTogether([&] { return DirectWriteSeconds(options_.store, data_.data(), bytes, rank_); }));
  }
}

void CheckpointBench::TakeCheckpoint(bool counted) {
  ++version_;
  Fill();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = Now();
  Check(kedge_checkpoint(context_, kName, version_, 0), "checkpoint");
  const double blocked = Now() - start;
  double durable = -1, on_buffer = -1;
  // A burst buffer lies before the store.
  const bool has_buffer = options_.wait && options_.store.find("drain=") != std::string::npos;
  if (has_buffer) {
    Check(kedge_wait(context_, kName, version_, KEDGE_LEVEL_BUFFER, -1), "wait");
    MPI_Barrier(MPI_COMM_WORLD);
    on_buffer = Slowest(Now() - start);
  }
  if (options_.wait) {
    Check(kedge_wait(context_, kName, version_, KEDGE_LEVEL_STORE, -1), "wait");
    MPI_Barrier(MPI_COMM_WORLD);
    durable = Slowest(Now() - start);
  }
  const double slowest = Slowest(blocked);
  const std::string prefix = counted ? "" : "first_";
  report_.Add(prefix + "blocked_seconds", slowest);
  if (has_buffer) report_.Add(prefix + "buffer_seconds", on_buffer);
  if (options_.wait) report_.Add(prefix + "durable_seconds", durable);
}

void CheckpointBench::Verify() {
  const int wrong = !IsPattern(rank_, version_, data_);
  int anywhere = 0;
  MPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (anywhere != 0) {
    if (wrong != 0) std::fprintf(stderr, "kedge-bench: rank %d: restored bytes differ from those saved\n", rank_);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

void CheckpointBench::MeasureRestart(const char* key) {
  std::memset(data_.data(), 0x5a, data_.size());
  report_.Add(key, TimeTogether([&] {
                return TimeCall([&] {
                  int64_t restored = -1;
                  Check(kedge_restart(context_, kName, -1, &restored), "restart");
                  if (restored != version_) {
                    std::fprintf(stderr, "kedge-bench: restored version %lld instead of %lld\n", static_cast<long long>(restored),
                                 static_cast<long long>(version_));
                    MPI_Abort(MPI_COMM_WORLD, 1);
                  }
                });
              }));
  Verify();
}

void CheckpointBench::MeasureColdRestart(const char* key) {
  Check(kedge_cleanup(context_, nullptr), "cleanup");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) DropFromPageCache(options_.store);
  MeasureRestart(key);
}

// As many of the version's objects as there are ranks, one each, without Kedge.
void CheckpointBench::MeasureColdRead(const char* key) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) DropFromPageCache(options_.store);
  const std::vector<std::string> objects = NewestFiles(options_.store, data_.size(), static_cast<size_t>(ranks_));
  if (objects.size() != static_cast<size_t>(ranks_)) return;  // smaller than their files: nothing to compare with
  report_.Add(key, TimeTogether([&] { return ReadSeconds(objects[static_cast<size_t>(rank_)], data_.data(), data_.size()); }));
}

// Restarts from the store and plain reads of the same objects take turns, now one first, now the other: a device may keep what it
// has read once, and does not read at one pace all the time. The first restart is reported apart.
void CheckpointBench::MeasureStoreRestarts() {
  MeasureColdRestart("first_restart_store_seconds");
  for (int i = 0; i < options_.repetitions; ++i) {
    if (i % 2 == 0) MeasureColdRestart("restart_store_seconds");
    if (options_.references) MeasureColdRead("reference_store_read_cold_seconds");
    if (i % 2 != 0) MeasureColdRestart("restart_store_seconds");
  }
}

// A compute-bound application with and without a flush beside it; every rank computes.
void CheckpointBench::MeasureBeside() {
  constexpr uint64_t kCalibrationSteps = 50'000'000;
  const double per_step = ComputeSeconds(kCalibrationSteps) / kCalibrationSteps;
  const auto steps = static_cast<uint64_t>(1.0 / per_step);
  for (int i = 0; i < options_.repetitions; ++i) {
    report_.Add("compute_alone_seconds", TimeTogether([&] { return ComputeSeconds(steps); }));
    const int agent = AgentPid(AgentRunFolder());
    const double cpu_before = agent > 0 ? CpuSeconds(agent) : -1;
    ++version_;
    Fill();
    MPI_Barrier(MPI_COMM_WORLD);
    Check(kedge_checkpoint(context_, kName, version_, 0), "checkpoint");
    report_.Add("compute_beside_flush_seconds", TimeTogether([&] { return ComputeSeconds(steps); }));
    Check(kedge_wait(context_, kName, version_, KEDGE_LEVEL_STORE, -1), "wait");
    MPI_Barrier(MPI_COMM_WORLD);
    if (agent > 0) report_.Add("flush_cpu_seconds", CpuSeconds(agent) - cpu_before);
  }
}

void CheckpointBench::Pause() const {
  if (options_.interval_seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(options_.interval_seconds));
}

void CheckpointBench::Print() {
  report_.SetNumber("ranks", ranks_);
  report_.SetNumber("bytes_total", static_cast<double>(data_.size()) * ranks_);
  report_.SetNumber("repetitions", options_.repetitions);
  report_.SetNumber("interval_seconds", options_.interval_seconds);
  if (rank_ == 0) std::printf("%s\n", options_.table ? report_.Table().c_str() : report_.JsonText().c_str());
  std::fflush(stdout);
}

int CheckpointBench::Run() {
  if (!Prepare()) return 2;
  if (options_.references) MeasureReferences();

  const double private_before = PrivateBytes();
  const std::string overrides = fmt::format("store.path={}\nkeep.versions=1\n{}", options_.store, options_.overrides);
  kedge_options kedge_options = KEDGE_OPTIONS_INIT;
  kedge_options.job = "kedge-bench";
  kedge_options.overrides = overrides.c_str();
  report_.Add("init_seconds", TimeTogether([&] {
                return TimeCall([&] { Check(kedge_mpi_init(MPI_COMM_WORLD, &kedge_options, &context_), "init"); });
              }));
  Check(kedge_protect(context_, 0, data_.data(), data_.size(), 1, nullptr), "protect");
  // An attempt may find versions of an earlier run in the same store: go on above them.
  int64_t newest = 0;
  if (kedge_newest(context_, kName, -1, &newest) == KEDGE_OK) version_ = newest;

  for (int i = 0; i < options_.warmups; ++i) TakeCheckpoint(false);
  AwaitMemory();
  for (int i = 0; i < options_.repetitions; ++i) {
    Pause();
    TakeCheckpoint(true);
  }
  for (int i = 0; options_.library_calls && i < options_.repetitions; ++i) {
    Pause();
    report_.Add("reference_library_calls_seconds", TimeTogether([] { return LibraryCallsSeconds(); }));
  }
  report_.SetNumber("client_private_bytes", Slowest(PrivateBytes() - private_before));
  if (options_.beside) MeasureBeside();
  if (options_.restart) {
    if (!options_.wait) Check(kedge_wait(context_, kName, version_, KEDGE_LEVEL_STORE, -1), "wait");
    for (int i = 0; i < options_.repetitions; ++i) MeasureRestart("restart_pool_seconds");
    MeasureStoreRestarts();
  }
  kedge_statistics statistics{};
  statistics.struct_size = sizeof(statistics);
  Check(kedge_get_statistics(context_, &statistics), "statistics");
  report_.SetNumber("checkpoints_inline", static_cast<double>(statistics.checkpoints_inline));
  report_.SetNumber("slot_wait_seconds", statistics.slot_wait_seconds);
  report_.SetNumber("bytes_restored_pool", static_cast<double>(statistics.bytes_restored_pool));
  report_.SetNumber("bytes_restored_store", static_cast<double>(statistics.bytes_restored_store));
  Check(kedge_finalize(context_, 1), "finalize");
  Print();
  return 0;
}

}  // namespace

int RunCheckpointBench(int argc, char** argv) {
  Options options;
  bool no_wait = false;
  bool no_restart = false;
  bool no_references = false;
  CLI::App app{
      "Measures checkpoint and restart beside what the machine can do with the same bytes; run it under mpirun for several "
      "ranks."};
  app.footer("kedge-bench placement SCENARIO runs a placement policy on paper; see kedge-bench placement --help.");
  app.add_option("--bytes", options.bytes, "bytes over all ranks, for example 1KiB, 256MiB, 2GiB")->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "measured checkpoints")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--warmups", options.warmups, "first checkpoints, reported apart")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--interval", options.interval_seconds, "seconds between checkpoints")->capture_default_str();
  app.add_option("--store", options.store, "the store's folder (default: ./kedge-bench-store)");
  app.add_option("--set", options.overrides, "configuration, as section.key=value");
  app.add_flag("--no-wait", no_wait, "do not wait for each version to be durable");
  app.add_flag("--no-restart", no_restart, "leave the restarts out");
  app.add_flag("--no-references", no_references, "leave the references out");
  app.add_flag("--beside", options.beside, "measure a compute-bound application beside the flush");
  app.add_flag("--library-calls", options.library_calls,
               "time a few calls of the C library, too, as often and as far apart as the checkpoints");
  app.add_flag("--table", options.table, "print a table for people instead of JSON");
  if (int code = 0; !ParseArguments(app, argc, argv, &code)) return code;
  options.wait = !no_wait;
  options.restart = !no_restart;
  options.references = !no_references;

  MPI_Init(&argc, &argv);
  const int code = CheckpointBench(options).Run();
  MPI_Finalize();
  return code;
}

}  // namespace kedge::bench

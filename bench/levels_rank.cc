// A rank of `kedge-bench levels`: takes the checkpoints of the first launch, or restarts in the second.
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/crc32c.h"
#include "fabric_reads.h"
#include "kedge/kedge_mpi.h"
#include "levels_bench.h"
#include "measure.h"
#include "measures_file.h"
#include "redundancy/code.h"
#include "redundancy/layout.h"
#include "references.h"

namespace kedge::bench {
namespace {

constexpr const char* kVersionName = "bench";
constexpr double kWaitTimeoutSeconds = 300;
constexpr size_t kReadBytes = 1u << 20;
constexpr size_t kReadWindow = 4;
constexpr uint64_t kPoolSlackBytes = 256u << 20;
constexpr double kComputeSeconds = 1;

class LevelsRank {
 public:
  explicit LevelsRank(const LevelsOptions& options) : options_(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    node_ = rank_ / options.ranks_per_node;
    const auto ranks = static_cast<uint64_t>(ranks_);
    data_.resize(options.bytes_total / ranks + (static_cast<uint64_t>(rank_) < options.bytes_total % ranks));
  }

  int Save();
  int Restore();

 private:
  void EnterNode() const;
  void StartAgent() const;
  std::string Overrides(const std::string& protection) const;
  kedge_context* Init(const std::string& job, const std::string& protection);
  void MeasureReferences();
  double EncodeSeconds(uint8_t factor);
  void MeasureLocal();
  void MeasureProtected();
  void MeasureBeside(kedge_context* context);
  // n - k of a group.
  int DataColumns() const {
    const int members = options_.group > 0 ? std::min(options_.group, options_.nodes) : options_.nodes;
    return std::max(members - static_cast<int>(options_.parity()), 1);
  }
  uint64_t PoolBytes() const;
  int Finish(const std::string& phase);

  const LevelsOptions& options_;
  int rank_ = 0;
  int ranks_ = 1;
  int node_ = 0;
  int64_t version_ = 0;
  std::vector<char> data_;
  MeasuresFile measures_;
};

// This process belongs to its virtual node from here on.
void LevelsRank::EnterNode() const {
  setenv("KEDGE_NODE", options_.NodeName(node_).c_str(), 1);
  setenv("KEDGE_NODE_RUN_FOLDER", options_.NodeFolder(node_).c_str(), 1);
}

// As `kedge run` does before a launch, on every node without one: the agent is on the network, and knows nobody. Spares that
// start at once must not be one job.
void LevelsRank::StartAgent() const {
  const std::string overrides = Overrides(options_.ProtectOverrides() + "protect.required=false\n");
  const std::string job = "kedge-bench-spare-" + options_.NodeName(node_);
  kedge_options kedge_options = KEDGE_OPTIONS_INIT;
  kedge_options.job = job.c_str();
  kedge_options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  Check(kedge_init(&kedge_options, nullptr, &context), "start of a spare's agent");
  Check(kedge_finalize(context, 0), "finalize");
}

std::string LevelsRank::Overrides(const std::string& protection) const {
  return fmt::format("store.path={}/store\nschedule.store=0\nkeep.local=1\nnode.failure_domain=auto\npool.size={}\n{}{}",
                     options_.folder, PoolBytes(), protection, options_.overrides);
}

// Room for the version that is kept, the one being taken and one more, each with what is kept for others.
uint64_t LevelsRank::PoolBytes() const {
  const uint64_t node_bytes = options_.bytes_total / static_cast<uint64_t>(options_.nodes);
  const uint64_t extra =
      options_.parity() * node_bytes / (options_.scheme_value == Scheme::kPartner ? 1 : static_cast<uint64_t>(DataColumns()));
  return 3 * (node_bytes + extra) + kPoolSlackBytes;
}

kedge_context* LevelsRank::Init(const std::string& job, const std::string& protection) {
  const std::string overrides = Overrides(protection);
  kedge_options kedge_options = KEDGE_OPTIONS_INIT;
  kedge_options.job = job.c_str();
  kedge_options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  Check(kedge_mpi_init(MPI_COMM_WORLD, &kedge_options, &context), "init");
  Check(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr), "protect");
  return context;
}

// One parity row over this rank's bytes, cut into as many columns as an image has segments: ISA-L alone, in memory.
double LevelsRank::EncodeSeconds(uint8_t factor) {
  const auto columns = static_cast<size_t>(DataColumns());
  const size_t column_bytes = data_.size() / columns;
  std::vector<std::byte> parity(std::max<size_t>(column_bytes, 1));
  std::vector<const std::byte*> sources;
  std::vector<uint8_t> factors;
  for (size_t i = 0; i < columns; ++i) {
    sources.push_back(reinterpret_cast<const std::byte*>(data_.data()) + i * column_bytes);
    factors.push_back(factor == 1 ? factor : static_cast<uint8_t>(factor + i));
  }
  std::memset(parity.data(), 0, parity.size());
  return TimeTogether([&] { return TimeCall([&] { redundancy::LinearSum(factors, sources, parity.data(), column_bytes); }); });
}

void LevelsRank::MeasureReferences() {
  const size_t bytes = data_.size();
  FaultedBuffer faulted(bytes);
  std::string why;
  const auto fabric = FabricReads::Open(MPI_COMM_WORLD, options_.provider, data_.data(), bytes, &why);
  if (fabric == nullptr && rank_ == 0) std::fprintf(stderr, "kedge-bench: no network reference: %s\n", why.c_str());
  // As much as all ranks have: the next node's rank may have one byte less.
  const size_t read_bytes = static_cast<size_t>(options_.bytes_total / static_cast<uint64_t>(ranks_));
  const int next = (rank_ + options_.ranks_per_node) % ranks_;
  if (fabric != nullptr) fabric->ReadSeconds(next, read_bytes, kReadBytes, kReadWindow);  // makes the connection
  for (int i = 0; i < options_.repetitions; ++i) {
    measures_.Add("reference_memcpy_seconds", TimeTogether([&] { return MemcpySeconds(faulted.data(), data_.data(), bytes); }));
    measures_.Add("reference_crc32c_seconds", TimeTogether([&] {
                    return TimeCall([&] {
                      volatile uint32_t sink = crc32c::Compute(data_.data(), bytes);
                      static_cast<void>(sink);
                    });
                  }));
    measures_.Add("reference_xor_seconds", EncodeSeconds(1));
    measures_.Add("reference_rs_row_seconds", EncodeSeconds(2));
    measures_.Add("reference_write_fsync_seconds",
                  TimeTogether([&] { return WriteFsyncSeconds(options_.folder, data_.data(), bytes, rank_); }));
    if (fabric != nullptr) {
      const double seconds = fabric->ReadSeconds(next, read_bytes, kReadBytes, kReadWindow);
      measures_.Add("reference_network_seconds", Slowest(seconds));
    }
  }
}

// The same checkpoints without protection: what the blocked time is compared with.
void LevelsRank::MeasureLocal() {
  kedge_context* context = Init("kedge-bench-local", "protect.scheme=none\n");
  AwaitMemory();
  for (int i = -options_.warmups; i < options_.repetitions; ++i) {
    FillPattern(rank_, ++version_, &data_);
    const double blocked = TimeTogether(
        [&] { return TimeCall([&] { Check(kedge_checkpoint(context, kVersionName, version_, 0), "checkpoint"); }); });
    if (i >= 0) measures_.Add("local_blocked_seconds", blocked);
    Check(kedge_wait(context, kVersionName, version_, KEDGE_LEVEL_LOCAL, kWaitTimeoutSeconds), "wait");
  }
  Check(kedge_cleanup(context, nullptr), "cleanup");
  Check(kedge_finalize(context, 1), "finalize");
}

// The last context is left as it is: the job is killed with it.
void LevelsRank::MeasureProtected() {
  kedge_context* context = Init("kedge-bench-levels", options_.ProtectOverrides());
  AwaitMemory();
  for (int i = -options_.warmups; i < options_.repetitions; ++i) {
    FillPattern(rank_, ++version_, &data_);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = Now();
    Check(kedge_checkpoint(context, kVersionName, version_, 0), "checkpoint");
    const double blocked = Now() - start;
    Check(kedge_wait(context, kVersionName, version_, KEDGE_LEVEL_NODE, kWaitTimeoutSeconds), "wait for level NODE");
    const double is_protected = Slowest(Now() - start);
    if (i < 0 && i > -options_.warmups) continue;
    const std::string prefix = i < 0 ? "first_" : "";
    measures_.Add(prefix + "blocked_seconds", Slowest(blocked));
    measures_.Add(prefix + "protected_seconds", is_protected);
  }
  MeasureBeside(context);
}

// An application that computes while the agents protect its checkpoint, and what the agents' work takes of the processors.
void LevelsRank::MeasureBeside(kedge_context* context) {
  constexpr uint64_t kCalibrationSteps = 50'000'000;
  const auto steps = static_cast<uint64_t>(kComputeSeconds / (ComputeSeconds(kCalibrationSteps) / kCalibrationSteps));
  const int agent = rank_ % options_.ranks_per_node == 0 ? AgentPid(options_.NodeFolder(node_)) : -1;
  for (int i = 0; i < options_.repetitions; ++i) {
    measures_.Add("compute_alone_seconds", TimeTogether([&] { return ComputeSeconds(steps); }));
    FillPattern(rank_, ++version_, &data_);
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = agent > 0 ? CpuSeconds(agent) : 0;
    Check(kedge_checkpoint(context, kVersionName, version_, 0), "checkpoint");
    measures_.Add("compute_beside_protection_seconds", TimeTogether([&] { return ComputeSeconds(steps); }));
    Check(kedge_wait(context, kVersionName, version_, KEDGE_LEVEL_NODE, kWaitTimeoutSeconds), "wait for level NODE");
    MPI_Barrier(MPI_COMM_WORLD);
    measures_.Add("protection_cpu_seconds", SumOverRanks(agent > 0 ? CpuSeconds(agent) - before : 0));
  }
}

int LevelsRank::Finish(const std::string& phase) {
  int code = 0;
  if (rank_ == 0 && !measures_.Write(options_.folder + "/" + phase)) {
    std::fprintf(stderr, "kedge-bench: %s/%s cannot be written\n", options_.folder.c_str(), phase.c_str());
    code = 1;
  }
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

int LevelsRank::Save() {
  EnterNode();
  FillPattern(rank_, version_, &data_);
  MeasureReferences();
  MeasureLocal();
  MeasureProtected();
  measures_.Number("version", static_cast<double>(version_));
  return Finish("save");
}

int LevelsRank::Restore() {
  EnterNode();
  if (!options_.cold_spares && options_.IsLost(node_) && rank_ % options_.ranks_per_node == 0) StartAgent();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = Now();
  kedge_context* context = Init("kedge-bench-levels", options_.ProtectOverrides());
  const double init = Slowest(Now() - start);
  const int status = kedge_restart(context, kVersionName, -1, &version_);
  if (status != KEDGE_OK) {
    if (rank_ == 0) measures_.Text("restart_error", kedge_error_message());
    measures_.Flag("verified", false);
    measures_.Text("restored_from", "none");
    (void)Finish("restore");
    return 1;
  }
  measures_.Add("restart_seconds", Slowest(Now() - start));
  measures_.Add("restart_init_seconds", init);
  const bool right = SumOverRanks(IsPattern(rank_, version_, data_) ? 0 : 1) == 0;
  measures_.Flag("verified", right);
  measures_.Number("restored_version", static_cast<double>(version_));
  kedge_statistics statistics{};
  statistics.struct_size = sizeof(statistics);
  Check(kedge_get_statistics(context, &statistics), "statistics");
  const double from_store = SumOverRanks(static_cast<double>(statistics.bytes_restored_store));
  // What is on a spare was on no node of its name before: if not the store, other nodes gave it.
  measures_.Text("restored_from", from_store > 0 ? "store" : options_.lost_nodes.empty() ? "local" : options_.scheme);
  measures_.Number("bytes_restored_store", from_store);
  measures_.Number("corrupt_copies", SumOverRanks(static_cast<double>(statistics.corrupt_copies)));
  const double protect_start = Now();
  if (kedge_wait(context, kVersionName, version_, KEDGE_LEVEL_NODE, kWaitTimeoutSeconds) == KEDGE_OK) {
    measures_.Add("protected_again_seconds", Slowest(Now() - protect_start));
  } else {
    if (rank_ == 0) measures_.Text("protect_again_error", kedge_error_message());
    Slowest(0);
  }
  Check(kedge_finalize(context, 0), "finalize");
  const int code = Finish("restore");
  return right ? code : 1;
}

}  // namespace

int RunLevelsRank(const LevelsOptions& options) {
  int argc = 0;
  char** argv = nullptr;
  MPI_Init(&argc, &argv);
  LevelsRank rank(options);
  const int code = options.phase == "save" ? rank.Save() : rank.Restore();
  MPI_Finalize();
  // The job ends here as if it were killed, with its contexts open.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace kedge::bench

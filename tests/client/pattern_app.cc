// The application of the scenario tests: its memory at each step follows from rank, region and step alone, so that it can say
// by itself, bit for bit, whether what a restart brought back is right.
//
//   pattern_app key=value...   steps=10 bytes=100000 regions=3 pause_ms=0 parts=0|1 wait=0|1 drain=0|1 overwrite=0|1
//                              grow=0|1 (the last region's size changes with the step) restart_only=0|1 name=state
//                              file=PATH (with parts: routes a file that says the step, and looks at it at a restart)
//                              salt=0 (part of what is written) expected_salt=SALT (of what is restored)
//
// It prints "restored V", "file V" of the routed one, "captured V" for each checkpoint, "pool|store BYTES" after a restart, and
// "finished". Exit code 3: the restored memory is wrong; 4: a call of Kedge failed.
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#ifdef PATTERN_APP_MPI
#include "kedge/kedge_mpi.h"
#else
#include "kedge/kedge.h"
#endif

namespace {

struct Options {
  int64_t steps = 10;
  uint64_t bytes = 100000;
  int regions = 3;
  int pause_ms = 0;
  bool parts = false;
  bool wait = false;
  bool drain = true;
  bool overwrite = false;
  bool grow = false;
  bool restart_only = false;
  int64_t salt = 0;
  std::optional<int64_t> expected_salt;
  std::string name = "state";
  std::string file;
};

void ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t separator = argument.find('=');
    const std::string key = argument.substr(0, separator);
    const std::string value = separator == std::string::npos ? "1" : argument.substr(separator + 1);
    const int64_t number = std::atoll(value.c_str());
    if (key == "steps")
      options->steps = number;
    else if (key == "bytes")
      options->bytes = static_cast<uint64_t>(number);
    else if (key == "regions")
      options->regions = static_cast<int>(number);
    else if (key == "pause_ms")
      options->pause_ms = static_cast<int>(number);
    else if (key == "parts")
      options->parts = number != 0;
    else if (key == "wait")
      options->wait = number != 0;
    else if (key == "drain")
      options->drain = number != 0;
    else if (key == "overwrite")
      options->overwrite = number != 0;
    else if (key == "grow")
      options->grow = number != 0;
    else if (key == "restart_only")
      options->restart_only = number != 0;
    else if (key == "name")
      options->name = value;
    else if (key == "file")
      options->file = value;
    else if (key == "salt")
      options->salt = number;
    else if (key == "expected_salt")
      options->expected_salt = number;
    else
      std::fprintf(stderr, "unknown option %s\n", key.c_str()), std::exit(2);
  }
}

void Check(int code, const char* call) {
  if (code == KEDGE_OK) return;
  std::printf("failed %s: %s: %s\n", call, kedge_status_name(code), kedge_error_message());
  std::fflush(stdout);
  std::exit(4);
}

uint64_t Word(int64_t salt, int rank, int region, int64_t step, uint64_t index) {
  uint64_t value = (static_cast<uint64_t>(rank) << 48) ^ (static_cast<uint64_t>(region) << 32) ^ static_cast<uint64_t>(step);
  value = (value + index) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(salt);
  return value ^ (value >> 29);
}

class Application {
 public:
  Application(kedge_context* context, int rank, const Options& options) : context_(context), rank_(rank), options_(options) {
    for (int i = 0; i < options.regions; ++i) memory_.emplace_back(options.bytes / sizeof(uint64_t));
  }

  int64_t Restart() {
    Protect();
    int64_t step = -1;
    int code = kedge_newest(context_, options_.name.c_str(), -1, &step);
    if (code == KEDGE_ERROR_NOT_FOUND) return -1;
    Check(code, "newest");
    if (options_.grow) {
      Resize(step);
      Protect();
    }
    code = kedge_restart(context_, options_.name.c_str(), step, &step);
    Check(code, "restart");
    Verify(step);
    if (!options_.file.empty()) ReadRouted(step);
    kedge_statistics statistics;
    statistics.struct_size = sizeof statistics;
    Check(kedge_get_statistics(context_, &statistics), "statistics");
    std::printf("restored %" PRId64 "\npool %" PRIu64 "\nstore %" PRIu64 "\n", step, statistics.bytes_restored_pool,
                statistics.bytes_restored_store);
    std::fflush(stdout);
    return step;
  }

  void Run(int64_t from) {
    for (int64_t step = from; step <= options_.steps; ++step) {
      if (options_.grow) {
        Resize(step);
        Protect();
      }
      Fill(step);
      Checkpoint(step);
      std::printf("captured %" PRId64 "\n", step);
      std::fflush(stdout);
      if (options_.wait) Check(kedge_wait(context_, nullptr, 0, KEDGE_LEVEL_LAST, -1), "wait");
      if (options_.pause_ms > 0) usleep(static_cast<useconds_t>(options_.pause_ms) * 1000);
    }
  }

 private:
  void Resize(int64_t step) { memory_.back().resize((options_.bytes / sizeof(uint64_t)) + static_cast<uint64_t>(step) * 37); }

  void Protect() {
    for (int i = 0; i < options_.regions; ++i) {
      auto& region = memory_[static_cast<size_t>(i)];
      Check(kedge_protect(context_, i, region.data(), region.size(), sizeof(uint64_t), nullptr), "protect");
    }
  }

  void Fill(int64_t step) {
    for (int i = 0; i < options_.regions; ++i) {
      auto& region = memory_[static_cast<size_t>(i)];
      for (uint64_t k = 0; k < region.size(); ++k) region[k] = Word(options_.salt, rank_, i, step, k);
    }
  }

  void Verify(int64_t step) {
    for (int i = 0; i < options_.regions; ++i) {
      const auto& region = memory_[static_cast<size_t>(i)];
      for (uint64_t k = 0; k < region.size(); ++k) {
        if (region[k] == Word(options_.expected_salt.value_or(options_.salt), rank_, i, step, k)) continue;
        std::printf("WRONG: rank %d region %d word %" PRIu64 " of step %" PRId64 "\n", rank_, i, k, step);
        std::fflush(stdout);
        std::exit(3);
      }
    }
  }

  void Checkpoint(int64_t step) {
    const char* name = options_.name.c_str();
    const unsigned flags = options_.overwrite ? KEDGE_OVERWRITE : 0;
    if (!options_.parts) {
      Check(kedge_checkpoint(context_, name, step, flags), "checkpoint");
      return;
    }
    Check(kedge_checkpoint_begin(context_, name, step, flags), "begin");
    const int first = 0;
    Check(kedge_checkpoint_part(context_, KEDGE_SOME, &first, 1), "part");
    // What a part has captured may change before the end.
    std::memset(memory_[0].data(), 0xee, memory_[0].size() * sizeof(uint64_t));
    Check(kedge_checkpoint_part(context_, KEDGE_REST, nullptr, 0), "part");
    for (auto& region : memory_) std::memset(region.data(), 0xee, region.size() * sizeof(uint64_t));
    Check(kedge_annotate(context_, "step", &step, sizeof step), "annotate");
    if (!options_.file.empty()) std::ofstream(Route()) << step;
    Check(kedge_checkpoint_end(context_, 1), "end");
  }

  std::string Route() {
    char routed[4096];
    Check(kedge_route_file(context_, options_.file.c_str(), routed, sizeof routed), "route_file");
    return routed;
  }

  void ReadRouted(int64_t step) {
    Check(kedge_restart_begin(context_, options_.name.c_str(), step), "restart_begin");
    std::string content;
    std::getline(std::ifstream(Route()), content);
    std::printf("file %s\n", content.c_str());
    Check(kedge_restart_end(context_, 1), "restart_end");
  }

  kedge_context* context_;
  int rank_;
  Options options_;
  std::vector<std::vector<uint64_t>> memory_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kedge_context* context = nullptr;
  int rank = 0;
#ifdef PATTERN_APP_MPI
  MPI_Init(&argc, &argv);
  ParseOptions(argc, argv, &options);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Check(kedge_mpi_init(MPI_COMM_WORLD, nullptr, &context), "mpi_init");
#else
  ParseOptions(argc, argv, &options);
  Check(kedge_init(nullptr, nullptr, &context), "init");
#endif
  Application application(context, rank, options);
  const int64_t restored = application.Restart();
  if (!options.restart_only) application.Run(restored + 1);
  Check(kedge_finalize(context, options.drain ? 1 : 0), "finalize");
  std::printf("finished\n");
  std::fflush(stdout);
#ifdef PATTERN_APP_MPI
  MPI_Finalize();
#endif
  return 0;
}

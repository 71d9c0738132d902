// The MPI programs of ranks_test.cc, by name: each rank checks what it got back by itself. Exit code 3: something was wrong.
//
//   ranks_app save|restore CONFIG     the usual loop of veloc.h; restore expects what save left, or VELOC_FAILURE and
//                                     untouched memory with "refused" as third argument
//   ranks_app files CONFIG FOLDER     every rank routes a file of its own
//   ranks_app missing CONFIG          the last rank has not taken the newest version
//   ranks_app refused CONFIG          the last rank does not end a checkpoint, and is refused the next one
//   ranks_app late CONFIG             one rank comes late to what all do together; the others sleep
//   ranks_app libraries CONFIG        VELOC on all ranks, kedge on a split communicator and on its duplicate, at the same time
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "kedge/kedge_mpi.h"
#include "kedge/veloc.h"

namespace {

int world_rank = 0;
int world_ranks = 1;

void Check(bool holds, int line) {
  if (holds) return;
  std::printf("rank %d: line %d does not hold; kedge says: %s\n", world_rank, line, kedge_error_message());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
}
#define CHECK(condition) Check((condition), __LINE__)

// What the rank's memory holds at a version.
std::vector<double> Content(int version) {
  std::vector<double> values(5000 + 100 * static_cast<size_t>(world_rank));
  for (size_t i = 0; i < values.size(); ++i) values[i] = version * 1e6 + world_rank * 1e5 + static_cast<double>(i);
  return values;
}

void Save(const char* config) {
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  std::vector<double> field = Content(0);
  CHECK(VELOC_Mem_protect(0, field.data(), field.size(), sizeof(double)) == VELOC_SUCCESS);
  for (int version = 1; version <= 4; ++version) {
    const std::vector<double> now = Content(version);
    std::copy(now.begin(), now.end(), field.begin());
    CHECK(VELOC_Checkpoint("loop", version) == VELOC_SUCCESS);
  }
  CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
  CHECK(VELOC_Finalize(1) == VELOC_SUCCESS);
}

void Restore(const char* config, bool refused) {
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  std::vector<double> field(Content(0).size(), -1.0);
  CHECK(VELOC_Mem_protect(0, field.data(), field.size(), sizeof(double)) == VELOC_SUCCESS);
  const int version = VELOC_Restart_test("loop", 0);
  if (refused) {
    CHECK(version == 4 || version == VELOC_FAILURE);
    CHECK(VELOC_Restart("loop", 4) == VELOC_FAILURE);
    const std::string why = kedge_error_message();
    CHECK(why.find(std::to_string(world_ranks)) != std::string::npos);
    CHECK(field == std::vector<double>(field.size(), -1.0));
  } else {
    CHECK(version == 4);
    CHECK(VELOC_Restart("loop", version) == VELOC_SUCCESS);
    CHECK(field == Content(4));
  }
  CHECK(VELOC_Finalize(0) == VELOC_SUCCESS);
}

void Missing(const char* config) {
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  std::vector<double> field = Content(1);
  CHECK(VELOC_Mem_protect(0, field.data(), field.size(), sizeof(double)) == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint("m", 1) == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
  const std::vector<double> next = Content(2);
  std::copy(next.begin(), next.end(), field.begin());
  if (world_rank + 1 < world_ranks) CHECK(VELOC_Checkpoint("m", 2) == VELOC_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
  // It is collective, and version 2 is not there for all.
  CHECK(VELOC_Restart_test("m", 0) == 1);
  CHECK(VELOC_Restart("m", 1) == VELOC_SUCCESS);
  CHECK(field == Content(1));
  CHECK(VELOC_Finalize(0) == VELOC_SUCCESS);
}

void Refused(const char* config) {
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  std::vector<double> field = Content(1);
  const bool last = world_rank + 1 == world_ranks;
  CHECK(VELOC_Mem_protect(0, field.data(), field.size(), sizeof(double)) == VELOC_SUCCESS);
  CHECK(VELOC_Region_protect(1, field.data(), field.size(), sizeof(double), "other") == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint_begin("r", 1) == VELOC_SUCCESS);
  if (!last) CHECK(VELOC_Checkpoint_mem() == VELOC_SUCCESS && VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint("r", 2) == (last ? VELOC_FAILURE : VELOC_SUCCESS));
  CHECK(VELOC_Checkpoint("other", 1) == (last ? VELOC_FAILURE : VELOC_SUCCESS));
  // The first one is still under way there, of the regions that it began with.
  if (last) CHECK(VELOC_Checkpoint_mem() == VELOC_SUCCESS && VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
  for (const char* name : {"other", "r"}) {
    CHECK(VELOC_Checkpoint(name, 3) == VELOC_SUCCESS);
    CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
    CHECK(VELOC_Restart_test(name, 0) == 3);
  }
  // What is begun within a restart, of other regions, is refused, and counts, too.
  CHECK(VELOC_Restart_begin("r", 3) == VELOC_SUCCESS);
  CHECK(VELOC_Recover_mem() == VELOC_SUCCESS);
  if (last) CHECK(VELOC_Checkpoint_begin("other", 4) == VELOC_FAILURE);
  CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
  if (!last) CHECK(VELOC_Checkpoint("other", 4) == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint("other", 5) == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
  CHECK(VELOC_Finalize(0) == VELOC_SUCCESS);
}

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Late(const char* config) {
  constexpr double kLateSeconds = 2;
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) std::this_thread::sleep_for(std::chrono::duration<double>(kLateSeconds));
  const double before = ThreadCpuSeconds();
  CHECK(VELOC_Restart_test("none", 0) == VELOC_FAILURE);
  CHECK(ThreadCpuSeconds() - before < kLateSeconds / 5);
  CHECK(VELOC_Finalize(0) == VELOC_SUCCESS);
}

void Files(const char* config, const std::string& folder) {
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  const std::string original = folder + "/rank-" + std::to_string(world_rank) + ".dat";
  const std::string content(300000 + 1000 * static_cast<size_t>(world_rank), static_cast<char>('a' + world_rank));
  char routed[VELOC_MAX_NAME];
  CHECK(VELOC_Checkpoint_begin("files", 1) == VELOC_SUCCESS);
  CHECK(VELOC_Route_file(original.c_str(), routed) == VELOC_SUCCESS);
  std::ofstream(routed) << content;
  CHECK(VELOC_Checkpoint_end(1) == VELOC_SUCCESS);
  CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
  CHECK(VELOC_Finalize(1) == VELOC_SUCCESS);
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  CHECK(VELOC_Restart_test("files", 0) == 1);
  CHECK(VELOC_Restart_begin("files", 1) == VELOC_SUCCESS);
  CHECK(VELOC_Route_file(original.c_str(), routed) == VELOC_SUCCESS);
  std::ifstream restored(routed);
  CHECK(std::string(std::istreambuf_iterator<char>(restored), {}) == content);
  CHECK(VELOC_Restart_end(1) == VELOC_SUCCESS);
  CHECK(VELOC_Finalize(0) == VELOC_SUCCESS);
}

kedge_context* Library(MPI_Comm communicator, const std::string& job, const std::string& store) {
  const std::string overrides = "store.path=" + store + "\n";
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.job = job.c_str();
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  CHECK(kedge_mpi_init(communicator, &options, &context) == KEDGE_OK);
  return context;
}

void Libraries(const char* config) {
  const std::string store = std::string(config) + ".libraries";
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  CHECK(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS);
  kedge_context* contexts[] = {Library(half, "half " + std::to_string(world_rank % 2), store),
                               Library(MPI_COMM_WORLD, "whole", store)};
  std::vector<double> field = Content(0);
  CHECK(VELOC_Mem_protect(0, field.data(), field.size(), sizeof(double)) == VELOC_SUCCESS);
  for (kedge_context* context : contexts)
    CHECK(kedge_protect(context, 0, field.data(), field.size(), sizeof(double), nullptr) == KEDGE_OK);
  // Each takes versions of its own in turn, under one name.
  for (int version = 1; version <= 9; ++version) {
    const std::vector<double> now = Content(version);
    std::copy(now.begin(), now.end(), field.begin());
    if (version % 3 == 0) CHECK(VELOC_Checkpoint("same", version) == VELOC_SUCCESS);
    if (version % 3 != 0) CHECK(kedge_checkpoint(contexts[version % 3 - 1], "same", version, 0) == KEDGE_OK);
  }
  CHECK(VELOC_Checkpoint_wait() == VELOC_SUCCESS);
  int64_t restored = 0;
  CHECK(kedge_restart(contexts[0], "same", -1, &restored) == KEDGE_OK);
  CHECK(restored == 7 && field == Content(7));
  CHECK(kedge_restart(contexts[1], "same", -1, &restored) == KEDGE_OK);
  CHECK(restored == 8 && field == Content(8));
  CHECK(VELOC_Restart_test("same", 0) == 9);
  CHECK(VELOC_Restart("same", 9) == VELOC_SUCCESS);
  CHECK(field == Content(9));
  for (kedge_context* context : contexts) CHECK(kedge_finalize(context, 1) == KEDGE_OK);
  CHECK(VELOC_Finalize(1) == VELOC_SUCCESS);
  MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
  const std::string what = argc > 2 ? argv[1] : "";
  const std::string more = argc > 3 ? argv[3] : "";
  if (what == "save")
    Save(argv[2]);
  else if (what == "restore")
    Restore(argv[2], more == "refused");
  else if (what == "missing")
    Missing(argv[2]);
  else if (what == "refused")
    Refused(argv[2]);
  else if (what == "late")
    Late(argv[2]);
  else if (what == "files")
    Files(argv[2], more);
  else if (what == "libraries")
    Libraries(argv[2]);
  else
    MPI_Abort(MPI_COMM_WORLD, 2);
  std::printf("rank %d is through\n", world_rank);
  std::fflush(stdout);
  MPI_Finalize();
  return 0;
}

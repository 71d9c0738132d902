// kedge-bench: the benchmarks of Kedge. Without a subcommand it is the asynchronous checkpointing benchmark.
#include <cstring>

#include "checkpoint_bench.h"
#include "levels_bench.h"
#include "placement_bench.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "levels") == 0) return kedge::bench::RunLevelsBench(argc - 1, argv + 1);
  if (argc > 1 && std::strcmp(argv[1], "placement") == 0) return kedge::bench::RunPlacementBench(argc - 1, argv + 1);
  return kedge::bench::RunCheckpointBench(argc, argv);
}

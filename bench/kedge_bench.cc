// kedge-bench: the benchmarks of Kedge. Without a subcommand it is the asynchronous checkpointing benchmark.
#include "checkpoint_bench.h"

int main(int argc, char** argv) {
  return kedge::bench::RunCheckpointBench(argc, argv);
}

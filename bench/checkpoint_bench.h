// The asynchronous checkpointing benchmark of [VeloC V-B]: fill with random data, barrier, checkpoint, report the
// blocked time (slowest rank), wait, barrier, report the time to durable; then restart from each source, verified.
#pragma once

namespace kedge::bench {

// Parses its own options; MPI is initialised and finalised inside. Returns the process's exit code.
int RunCheckpointBench(int argc, char** argv);

}  // namespace kedge::bench

// kedge-bench placement: a scenario on paper under a placement policy ([VeloC] V-D to V-F in virtual time).
#pragma once

namespace kedge::bench {

// Parses its own options, the subcommand's name being argv[0]. Needs no MPI. Returns the process's exit code.
int RunPlacementBench(int argc, char** argv);

}  // namespace kedge::bench

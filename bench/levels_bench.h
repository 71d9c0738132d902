// `kedge-bench levels`: protection across nodes, and the restart after some of them are lost, on virtual nodes.
//
// One launch of ranks takes checkpoints, and ends as a job ends that is killed: without a word to Kedge. The agents of the
// lost nodes are killed and their folders, with pools and records, deleted. A second launch, with spares in their places,
// restarts and verifies every byte. Between the two nothing is carried over but what the agents that are left have.
#pragma once

#include "levels_options.h"

namespace kedge::bench {

// Of the command as of its ranks; returns the exit code. MPI is initialised in the ranks alone.
int RunLevelsBench(int argc, char** argv);

// One phase, in a rank: MPI is initialised and ended within. Writes its measures to FOLDER/PHASE (rank 0).
int RunLevelsRank(const LevelsOptions& options);

}  // namespace kedge::bench

// What all benchmarks of ranks share: clocks that agree on the slowest rank, data that can be checked without a copy, and what
// happens when Kedge returns an error (the run ends: its numbers would mean nothing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kedge/kedge.h"

namespace kedge::bench {

double Now();
double TimeCall(const std::function<void()>& call);
// The slowest rank's seconds, on every rank.
double Slowest(double seconds);
// `measure` on all ranks, begun together; the slowest one's seconds.
double TimeTogether(const std::function<double()>& measure);
// The sum over all ranks, on every rank.
double SumOverRanks(double value);

// Ends the run unless `status` is KEDGE_OK.
void Check(int status, const char* what);

// The bytes of one rank and version: SplitMix64 over the offset, so that every version's are new.
void FillPattern(int rank, int64_t version, std::vector<char>* data);
bool IsPattern(int rank, int64_t version, const std::vector<char>& data);

// A moment in which an application would compute, and the agent makes the memory that what it has protected will take.
void AwaitMemory();

// A fixed amount of work that touches no memory.
double ComputeSeconds(uint64_t steps);

// CPU seconds that the process `pid` has used; -1 when they cannot be read.
double CpuSeconds(int pid);
// The agent that listens in a run folder; -1 when none does, or the folder's name is empty.
int AgentPid(const std::string& run_folder);

}  // namespace kedge::bench

// How often a running job should checkpoint: what was measured of it, turned into the model's system, and the model's
// answer.
//
// The system has the levels that the runtime schedules. Local copies: blocked for the capture, complete with it. The nodes'
// protection of each other, where the job has it, and the store: blocked for the same time, complete when they were seen to be.
// The job sends every n-th version to one and every m-th to the other; the model takes m for the nearest multiple of n. Where
// the store gets more than the nodes do, its versions are the ones that count: the nodes' level is left out, and its failures
// need the store. What was not measured yet is assumed: a restart takes as long as the copy that it reads took to make, and
// failures come as often as configured. An assumed mean time between failures counts as kAssumedFailures observed ones (the
// mean of a gamma distribution that is updated), so that a short run without failures changes little and a long one decides.
// The twin of python/kedge/plan/online.py; tests/vectors/interval_advice.json holds both together. Pure decisions; units are
// seconds.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "session/level_counts.h"

namespace kedge {

inline constexpr double kAssumedFailures = 2;

// A sum of observed times and their number.
struct ObservedSeconds {
  double sum = 0;
  uint64_t count = 0;

  void Add(double seconds, uint64_t times = 1) { sum += seconds, count += times; }
  double MeanOr(double otherwise) const { return count > 0 ? sum / static_cast<double>(count) : otherwise; }
};

// Of one job, over its attempts, as far as this node has seen them; the ranks of the node together.
struct JobMeasurement {
  ObservedSeconds blocked;        // in checkpoint calls
  ObservedSeconds protection;     // from the end of the call until the version was at level NODE
  ObservedSeconds background;     // from the end of the call until the store had the image
  ObservedSeconds restart_local;  // restarts for which every rank had its own node's copy
  ObservedSeconds restart_node;   // those for which images came from other nodes, but nothing from the store
  ObservedSeconds restart_store;
  uint64_t failures_local = 0;  // attempts that died and after which the nodes' own copies sufficed
  uint64_t failures_node = 0;   // those after which other nodes' copies did
  uint64_t failures_store = 0;  // those after which the store was needed
  double observed_seconds = 0;  // time in attempts
};

// What the job's configuration says.
struct IntervalRule {
  uint32_t node_every = 0;    // every n-th version is protected across nodes; 0: none
  uint32_t store_every = 1;   // every n-th version goes to the store; 0: none
  double mtbf_local_seconds;  // above 0: assumed until failures are observed
  double mtbf_node_seconds;
  double mtbf_store_seconds;
};

// `present` are those that the advice was made for.
struct IntervalAdvice {
  LevelCounts present;
  double interval_seconds = 0;       // the best for the present node_every and store_every
  double efficiency = 0;             // expected with it: useful time over time
  double best_interval_seconds = 0;  // the best of all, with the counts that belong to it
  uint32_t best_node_every = 0;
  uint32_t best_store_every = 1;
  double best_efficiency = 0;
};

// The counts that a job which may change them goes on with: the best ones where the model sees more than kWorthwhileGain of
// efficiency in them, else the present ones. What the model leaves out (a level that is off, or is no use) stays as it is.
inline constexpr double kWorthwhileGain = 0.001;
LevelCounts WorthwhileLevels(const IntervalAdvice& advice);

// Failures per second after `failures` in `observed_seconds`, where one in `mtbf_seconds` was assumed.
double UpdatedFailureRate(double mtbf_seconds, uint64_t failures, double observed_seconds);

// kFailedPrecondition: no checkpoint, or none of a level that the job has, was measured yet, or no schedule makes progress. Some
// milliseconds of processor time.
Result<IntervalAdvice> AdviseInterval(const JobMeasurement& measured, const IntervalRule& rule);

}  // namespace kedge

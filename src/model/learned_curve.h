// A tier's throughput learned from the checkpoints that it takes, for devices that nobody has calibrated.
//
// Each chunk that was written says how fast one writer was, and how many there were meanwhile on average. What was seen near the
// same number of writers is averaged: the first kFirst observations alike, later ones with a weight of 1/kFirst, so that a change
// of the device is followed. Numbers of writers are grouped in steps of a third to a half; a group counts once kTrusted chunks
// were seen. The groups are then samples of a ThroughputCurve, as those of a calibration are.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "model/throughput_curve.h"

namespace kedge {

class LearnedCurve {
 public:
  static constexpr uint32_t kTrusted = 4;
  static constexpr uint32_t kFirst = 32;

  struct Group {
    uint32_t writers = 0;         // that stand for the group
    double bytes_per_second = 0;  // of one writer
    double variance = 0;          // of it
    uint32_t chunks = 0;          // seen; saturates
  };

  // A chunk of `bytes` that one writer wrote in `seconds` while `writers` wrote on average, itself included. What is not a
  // positive number teaches nothing.
  void Add(double writers, uint64_t bytes, double seconds);
  // As an earlier agent left it.
  void Restore(const Group& group);

  // Nothing before a group is trusted.
  std::optional<ThroughputCurve> Curve() const;
  // The trusted groups, by writers.
  std::vector<Group> Groups() const;
  // Chunks seen since this object was made.
  uint64_t observations() const { return observations_; }

  // The number of writers that stands for the group of `writers`.
  static uint32_t GroupOf(double writers);

 private:
  std::map<uint32_t, Group> groups_;
  uint64_t observations_ = 0;
};

}  // namespace kedge

// What a task tells the ranks that it starts, and they it; and how all of fmirun speaks.
#pragma once

#include <cstdio>
#include <string>

namespace kedge::fmi {

constexpr char kRankVariable[] = "FMI_RANK";
constexpr char kRanksVariable[] = "FMI_RANKS";
constexpr char kRespawnsVariable[] = "FMI_RESPAWNS";  // how often this rank was started before
constexpr char kIntervalVariable[] = "FMI_INTERVAL";  // steps, or kWhenDue
constexpr char kBoardVariable[] = "FMI_BOARD";        // the descriptor of the board

// Instead of an interval: a checkpoint when one is due by Kedge's own schedule.
constexpr int kWhenDue = 0;

// Of a rank that has asked for all to be started again (BoardHeader::relaunch).
constexpr int kRelaunchExitCode = 75;

inline void Say(const std::string& what) {
  std::fprintf(stderr, "fmirun: %s\n", what.c_str());
}

}  // namespace kedge::fmi

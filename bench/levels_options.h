// The options of `kedge-bench levels`, shared by the command and by the ranks that it launches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/set_records.h"

namespace kedge::bench {

struct LevelsOptions {
  int nodes = 4;
  int ranks_per_node = 1;
  std::string scheme = "xor";
  int group = 0;
  int losses = 2;
  int copies = 1;
  std::string bytes = "256MiB";
  std::string lose = "1";  // nodes, by index; empty: none, and no restart is measured
  int repetitions = 3;
  int warmups = 1;
  bool cold_spares = false;
  std::string provider = "tcp";
  std::string overrides;
  std::string launcher;
  // Of the ranks: what the command made for them.
  std::string phase;   // empty: the command itself; save, restore
  std::string folder;  // everything of this run lies here

  Scheme scheme_value = Scheme::kXor;
  std::vector<int> lost_nodes;
  uint64_t bytes_total = 0;

  // Losses a group that the scheme survives.
  unsigned parity() const;
  int ranks() const { return nodes * ranks_per_node; }
  bool IsLost(int node) const;
  // The name of a node: in the restore phase, that of the spare that takes a lost one's place.
  std::string NodeName(int node) const;
  std::string NodeFolder(int node) const;
  // The protection's part of the configuration.
  std::string ProtectOverrides() const;
  // Again as arguments, for the ranks of a phase.
  std::vector<std::string> ArgumentsFor(const std::string& of_phase) const;
};

// False, and *code: the program is to end with it (help, or a message on stderr).
bool ParseLevelsOptions(int argc, char** argv, LevelsOptions* options, int* code);

}  // namespace kedge::bench

// What a successor of fmirun needs to know of the job besides what the tasks tell it. fmirun writes it before it acts on it, so
// that whoever reads it knows at least as much as any task has been told.
//
// The secret of the job is not in it (state_folder.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fmi/launch/launch_options.h"
#include "os/process/process.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

struct JobState {
  struct Node {
    os::TcpEndpoint task;        // where the task awaits a successor; port 0: it does not outlive fmirun
    os::ProcessIdentity holder;  // the task itself or the shell that holds it, in this boot of fmirun's machine; 0: none
    bool is_dead = false;
    std::string name;   // of one that was asked for, which stand behind the others: empty until it is there
    std::string shell;  // that reaches it
  };
  struct Rank {
    uint32_t node = 0;
    uint32_t starts = 0;
  };
  LaunchOptions options;  // without the program
  std::string folder;     // where the ranks run
  std::string boot;       // of fmirun's machine
  std::vector<Node> nodes;
  std::vector<Rank> ranks;
  uint32_t epoch = 1;
  uint32_t failures = 0;
  bool has_started = false;  // the ranks
  bool has_finished = false;
  bool has_ended = false;  // with this exit code, for this reason
  int exit_code = 0;
  std::string why;
};

std::string Encode(const JobState& state);
// kCorrupt: it is none.
Result<JobState> DecodeJobState(std::string_view text);

// In which the numbers of processes mean something (JobState::boot).
std::string BootOfThisMachine();

// Whether both are the same command line.
bool AreSame(const LaunchOptions& one, const LaunchOptions& other);

}  // namespace kedge::fmi

// What fmirun tells a task as it starts it: on its standard input, because others may read the words of a process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "net/authentication.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

constexpr uint32_t kNodesMax = 4096;
constexpr uint32_t kIntervalMax = 1'000'000'000;

struct TaskOptions {
  uint32_t node = 0;
  os::TcpEndpoint fmirun;  // address 0: the one from which the task was started
  net::Secret secret;
  uint32_t ranks = 1;
  bool is_alone = true;         // there is no other node
  bool seals_messages = false;  // to other nodes
  uint64_t interval = 1;
  Duration orphan_timeout{};  // so long it waits for a successor of fmirun; 0: it ends with fmirun
  std::string state;          // where what a successor needs is left
  bool has_shell = false;     // a shell holds it, and carries what the ranks write
  std::string folder;         // where the ranks run, if it is there
  std::vector<std::pair<std::string, std::string>> variables;  // of their environment
  std::vector<std::string> command;
};

std::string Encode(const TaskOptions& options);
// kCorrupt: it is none.
Result<TaskOptions> DecodeTaskOptions(std::string_view text);

}  // namespace kedge::fmi

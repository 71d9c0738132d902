// A subcommand of `kedge`: what every file of src/tools defines one of.
//
// Exit codes, the same for all commands: 0 all is well; 1 something is bad or not there (a corrupt copy, no such version);
// 2 the call was wrong; 3 something could not be reached or read (no agent, no store, no permission); 4 a bounded wait ended.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/status.h"

namespace kedge::tools {

enum ExitCode { kExitOk = 0, kExitBad = 1, kExitUsage = 2, kExitUnreachable = 3, kExitTimeout = 4 };

// What a command returns: an exit code, or the error that main prints as one sentence.
using Outcome = Result<int>;

// Adds options to `app`, which is the subcommand's own, and returns what runs it. State lives in the closure.
struct Command {
  const char* name;
  const char* summary;  // one line for the list
  std::function<std::function<Outcome()>(CLI::App& app)> add;
};

// main.cc lists them.
Command LsCommand();
Command InspectCommand();
Command VerifyCommand();
Command ExportCommand();
Command CopyCommand();
Command CpCommand();
Command GcCommand();
Command RmCommand();
Command CleanCommand();
Command PinCommand();
Command UnpinCommand();
Command StatusCommand();
Command TopCommand();
Command RebuildCommand();
Command DrainCommand();
Command WaitCommand();
Command ConfigCommand();
Command DoctorCommand();
Command AgentCommand();
Command HaltCommand();
Command CalibrateCommand();

}  // namespace kedge::tools

// kedge: the tool for operators and users. One subcommand a question; `kedge X` for an X that is not among them runs the
// program kedge-X beside this one or on PATH, so that tools in other languages are one command with it.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "session/connection.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = {
      LsCommand(),      InspectCommand(), VerifyCommand(), ExportCommand(), CopyCommand(),   CpCommand(),   GcCommand(),
      RmCommand(),      CleanCommand(),   PinCommand(),    UnpinCommand(),  StatusCommand(), TopCommand(),  WaitCommand(),
      RebuildCommand(), DrainCommand(),   ConfigCommand(), DoctorCommand(), AgentCommand(),  HaltCommand(), CalibrateCommand(),
  };
  return commands;
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kFailedPrecondition: return kExitUsage;
    case Code::kUnavailable:
    case Code::kPermission:
    case Code::kIo:
    case Code::kNoSpace: return kExitUnreachable;
    case Code::kTimeout: return kExitTimeout;
    default: return kExitBad;
  }
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Kedge: asynchronous multilevel checkpoint/restart. Exit codes: 0 all is well; 1 something is bad or not there; 2 the call "
      "was wrong; 3 something could not be reached; 4 a wait ended."};
  app.set_version_flag("--version", BuildName());
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<Outcome()>>> runs;
  bool is_ours = argc < 2 || argv[1][0] == '-';
  for (const Command& command : Commands()) {
    is_ours = is_ours || std::string(argv[1]) == command.name;
    CLI::App* subcommand = app.add_subcommand(command.name, command.summary);
    runs.emplace_back(subcommand, command.add(*subcommand));
  }
  app.footer(
      "Programs of their own, like every kedge-NAME beside this one or on PATH:\n"
      "  plan                        how often to checkpoint, and what to expect: models, simulator, advice\n"
      "  report                      a job as a page with pictures, from what its store and agents know\n"
      "  run                         keep a job running over dead nodes\n"
      "  with-buffers                let a program read and write files of burst buffers");
  if (!is_ours) {
    RunSibling(argv[1], argv + 1);
    std::fprintf(stderr,
                 "kedge: '%s' is no command of mine, and no kedge-%s that can be run is beside me or on PATH; see kedge --help\n",
                 argv[1], argv[1]);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(Wrapped(app.help()).c_str(), stdout);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  for (const auto& [subcommand, run] : runs) {
    if (!subcommand->parsed()) continue;
    const Outcome outcome = run();
    std::fflush(stdout);
    if (outcome.ok()) return *outcome;
    std::fprintf(stderr, "kedge: %s\n", outcome.status().message().c_str());
    return ExitCodeOf(outcome.status());
  }
  return kExitUsage;
}

}  // namespace
}  // namespace kedge::tools

int main(int argc, char** argv) {
  return kedge::tools::Main(argc, argv);
}

// kedge agent: the node's agent by hand, in the foreground; and its end.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/duration.h"
#include "os/process/process.h"
#include "session/connection.h"
#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/common.h"
#include "tools/leftovers.h"

namespace kedge::tools {
namespace {

Outcome RunAgent(const ConfigOptions& options, bool logs_to_file, bool stages) {
  KEDGE_ASSIGN_OR_RETURN(Config config, options.Load());
  if (stages) {
    const std::string folder = config.GetString("staging.folder");
    if (folder.empty()) {
      return Status(Code::kInvalidArgument,
                    "--staging: set staging.folder to a folder that all nodes see, where this agent says where it is");
    }
    KEDGE_RETURN_IF_ERROR(config.Set("agent.staging", folder, config.OriginOf("staging.folder")));
  }
  KEDGE_ASSIGN_OR_RETURN(const auto keys, ExplicitNodeKeys(config));
  KEDGE_ASSIGN_OR_RETURN(const std::string program, FindAgentProgram());
  std::vector<std::string> arguments = {program};
  if (!logs_to_file) arguments.emplace_back("--foreground");
  for (const auto& [key, value] : keys) {
    arguments.push_back("--set");
    arguments.push_back(key + "=" + value);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return os::ReplaceProcess(program, pointers.data());
}

// What an agent that leaves in good order does not remove, since no store has it. It may still be removing the rest, and a
// lock in its folder would stay there: such versions are none of that.
void TellWhatStays(const NodeSettings& node) {
  const Result<Leftovers> left = ReadLeftovers(node.node, node.run_folder, {});
  if (!left.ok()) return;  // its folder is gone
  std::string versions;
  for (const auto& [generation, why] : OnlyHere(*left)) versions += (versions.empty() ? "" : ", ") + generation.ToString();
  if (versions.empty()) return;
  std::fprintf(stderr, "kedge: in %s stays what no store has: %s; kedge clean --node %s --discard-only-copies frees it\n",
               node.run_folder.c_str(), versions.c_str(), node.node.c_str());
}

// Asks the running agent to leave, and waits until it has.
Outcome StopAgent(const ConfigOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.Load());
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, false));
  KEDGE_RETURN_IF_ERROR(agent.connection->Call<DoneReply>(ShutdownRequest{.when_drained = true}, kAnswerTimeout).status());
  const Duration timeout = config.GetDuration("wait.timeout");
  if (agent.connection->WaitForPeerToClose(timeout)) {
    TellWhatStays(agent.node);
    return kExitOk;
  }
  std::fprintf(stderr, "kedge: the agent has not left within %s: it leaves when everything is in the store (kedge status)\n",
               FormatDuration(timeout).c_str());
  return kExitTimeout;
}

}  // namespace

Command AgentCommand() {
  return {
      "agent", "run this node's agent in the foreground", [](CLI::App& app) {
        auto options = std::make_shared<ConfigOptions>();
        auto stop = std::make_shared<bool>(false);
        auto logs_to_file = std::make_shared<bool>(false);
        auto stages = std::make_shared<bool>(false);
        options->AddTo(app);
        options->AddNodeTo(app);
        app.add_flag("--log", *logs_to_file, "log to agent.log in the run folder, not to the terminal");
        app.add_flag(
            "--staging", *stages,
            "write images of other nodes to their stores: those of jobs with the same staging.folder; until it is stopped");
        app.add_flag("--stop", *stop,
                     "instead, let the running agent leave as soon as everything is in the store, and wait for that");
        app.footer(
            "Nobody needs to: applications start the agent when none runs. In a job script, a step of its own keeps the agent "
            "alive beyond the application's step.\n"
            "Examples:\n  srun --overlap --ntasks-per-node=1 kedge agent --log &\n  kedge agent --stop");
        return [options, stop, logs_to_file, stages] {
          return *stop ? StopAgent(*options) : RunAgent(*options, *logs_to_file, *stages);
        };
      }};
}

}  // namespace kedge::tools

// kedge agent: the node's agent by hand, in the foreground.
#include <memory>
#include <string>
#include <vector>

#include "os/process.h"
#include "session/connection.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

Outcome RunAgent(const ConfigOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.Load());
  KEDGE_ASSIGN_OR_RETURN(const auto keys, ExplicitNodeKeys(config));
  KEDGE_ASSIGN_OR_RETURN(const std::string program, FindAgentProgram());
  std::vector<std::string> arguments = {program, "--foreground"};
  for (const auto& [key, value] : keys) {
    arguments.push_back("--set");
    arguments.push_back(key + "=" + value);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return os::ReplaceProcess(program, pointers.data());
}

}  // namespace

Command AgentCommand() {
  return {"agent", "run this node's agent in the foreground", [](CLI::App& app) {
            auto options = std::make_shared<ConfigOptions>();
            options->AddTo(app);
            app.footer("Nobody needs to: applications start the agent when none runs. In a job script, a step of its own keeps the agent\n"
                       "alive beyond the application's step.");
            return [options] { return RunAgent(*options); };
          }};
}

}  // namespace kedge::tools

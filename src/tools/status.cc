// kedge status: what the node's agent is doing now.
#include <cstdio>

#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/status_view.h"

namespace kedge::tools {
namespace {

Outcome ShowStatus(const ConfigOptions& options, bool json, bool groups) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.Load());
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, false));
  KEDGE_ASSIGN_OR_RETURN(const std::string status, AskForStatus(agent));
  if (json) {
    std::puts(status.c_str());
    return kExitOk;
  }
  KEDGE_ASSIGN_OR_RETURN(const std::string text, groups ? GroupsText(status) : StatusText(status, {}));
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

Command StatusCommand() {
  return {"status", "show what this node's agent is doing: tiers, processes, flushes, versions", [](CLI::App& app) {
            auto options = std::make_shared<ConfigOptions>();
            auto json = std::make_shared<bool>(false);
            options->AddTo(app);
            auto groups = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "print JSON");
            app.add_flag("--groups", *groups, "print which nodes protect each other, by job");
            app.footer(
                "Exit code 3 when no agent runs for the node; KEDGE_NODE or --set node.name=... chooses another node.\n"
                "Examples:\n  kedge status\n  kedge status --groups");
            return [options, json, groups] { return ShowStatus(*options, *json, *groups); };
          }};
}

}  // namespace kedge::tools

// kedge status: what the node's agent is doing now.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/status_view.h"

namespace kedge::tools {
namespace {

struct Options {
  ConfigOptions config;
  std::string job;  // empty: all
  bool json = false;
  bool groups = false;
};

// Without jobs, and processes of jobs, that have another name.
Result<std::string> OfJob(const std::string& status, const std::string& job) {
  if (job.empty()) return status;
  Json shown = Json::parse(status);
  std::vector<std::string> names;
  for (const Json& known : shown.at("jobs")) names.push_back(known.at("job"));
  if (std::ranges::find(names, job) == names.end()) {
    return Status(Code::kNotFound, fmt::format("this node has no job \"{}\"; it has: {}", job,
                                               names.empty() ? "none" : fmt::to_string(fmt::join(names, ", "))));
  }
  for (const char* const list : {"jobs", "sessions"}) {
    auto& entries = shown.at(list).get_ref<Json::array_t&>();
    std::erase_if(entries, [&](const Json& entry) { return entry.at("job") != job; });
  }
  return ToText(shown);
}

Outcome ShowStatus(const Options& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, false));
  KEDGE_ASSIGN_OR_RETURN(const std::string all, AskForStatus(agent));
  KEDGE_ASSIGN_OR_RETURN(const std::string status, OfJob(all, options.job));
  if (options.json) {
    std::puts(status.c_str());
    return kExitOk;
  }
  KEDGE_ASSIGN_OR_RETURN(const std::string text, options.groups ? GroupsText(status) : StatusText(status, {}));
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

Command StatusCommand() {
  return {"status", "show what this node's agent is doing: tiers, processes, flushes, versions", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->config.AddTo(app);
            options->config.AddNodeTo(app);
            app.add_option("--job,job", options->job, "only this job, and its processes")->type_name("NAME");
            app.add_flag("--json", options->json, "print JSON");
            app.add_flag("--groups", options->groups, "print which nodes protect each other, by job");
            app.footer(
                "Exit code 3 when no agent runs for the node; KEDGE_NODE or --node chooses another one.\n"
                "Examples:\n  kedge status\n  kedge status climate --groups");
            return [options] { return ShowStatus(*options); };
          }};
}

}  // namespace kedge::tools

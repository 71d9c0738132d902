// kedge halt: a running job ends cleanly, after a checkpoint, as kedge_should_exit tells its ranks.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct HaltOptions {
  ConfigOptions config;
  std::string job;
  bool now = false;
  bool at_once = false;
  bool cancel = false;
  bool json = false;

  HaltWhen When() const {
    return cancel ? HaltWhen::kNever : at_once ? HaltWhen::kAtOnce : now ? HaltWhen::kNow : HaltWhen::kNextCheckpoint;
  }
};

const char* Sentence(HaltWhen when) {
  switch (when) {
    case HaltWhen::kNextCheckpoint: return "ends after its next checkpoint";
    case HaltWhen::kNow: return "is asked for a checkpoint, and ends after it";
    case HaltWhen::kAtOnce: return "ends at its next kedge_should_exit";
    case HaltWhen::kNever: return "goes on, unless its ranks have been told";
  }
  return "";
}

void Print(const HaltOptions& options, const HaltReply& reply) {
  if (options.json) {
    Json jobs = Json::array();
    for (const HaltedJob& job : reply.jobs) {
      jobs.push_back({{"job", job.job}, {"attempt", job.attempt}, {"has_rank_0", job.has_rank_0}});
    }
    return PrintJson({{"jobs", std::move(jobs)}});
  }
  for (const HaltedJob& job : reply.jobs) {
    std::printf("%s (attempt %u) %s\n", job.job.c_str(), job.attempt, Sentence(options.When()));
    if (!job.has_rank_0) std::printf("  its rank 0 is on another node: say it to that node's agent, too\n");
  }
}

Outcome Halt(const HaltOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, false));
  KEDGE_ASSIGN_OR_RETURN(const HaltReply reply,
                         agent.connection->Call<HaltReply>(HaltRequest{options.job, options.When()}, kAnswerTimeout));
  Print(options, reply);
  if (!reply.jobs.empty()) return kExitOk;
  std::fprintf(stderr, "kedge: %s on node %s\n",
               options.job.empty() ? "no job runs" : ("no job '" + options.job + "' runs").c_str(), agent.node.node.c_str());
  return kExitBad;
}

}  // namespace

Command HaltCommand() {
  return {
      "halt", "let a running job end cleanly after a checkpoint", [](CLI::App& app) {
        auto options = std::make_shared<HaltOptions>();
        options->config.AddTo(app);
        options->config.AddNodeTo(app);
        app.add_option("job", options->job, "the job's name; without it, all that run on this node");
        auto* now = app.add_flag("--now", options->now, "ask for that checkpoint now, through kedge_checkpoint_due");
        auto* at_once = app.add_flag("--at-once", options->at_once, "end without waiting for a checkpoint");
        auto* cancel = app.add_flag("--cancel", options->cancel, "take it back, unless the ranks have been told");
        now->excludes(at_once)->excludes(cancel);
        at_once->excludes(cancel);
        app.add_flag("--json", options->json, "print JSON");
        app.footer(
            "The application must ask kedge_should_exit. Without an option it ends after the next checkpoint that it takes by "
            "itself. Exit codes: 0 told; 1 no such job runs here; 3 no agent runs here.\n"
            "Examples:\n  kedge halt climate --now\n  kedge halt climate --cancel");
        return [options] { return Halt(*options); };
      }};
}

}  // namespace kedge::tools

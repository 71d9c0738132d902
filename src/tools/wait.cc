// kedge wait: until everything that was handed to the node's agent is at its last scheduled level, or at the level that is named;
// for job scripts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/duration.h"
#include "os/files/files.h"
#include "store/versions.h"
#include "tools/agent_connection.h"
#include "tools/command.h"

namespace kedge::tools {
namespace {

struct WaitOptions {
  StoreOptions store;
  std::string timeout = "600s";
  std::string level;  // empty: the last that is scheduled
  bool json = false;
};

// `only_here`: newest versions that are not meant for the store.
int Finish(const WaitOptions& options, const DrainReply& reply, const std::vector<std::string>& only_here) {
  const bool timed_out = reply.failure.code() == Code::kTimeout;
  if (options.json) {
    PrintJson({{"finished", reply.finished && reply.failure.ok()},
               {"images_pending", reply.images_pending},
               {"bytes_pending", reply.bytes_pending},
               {"images_failed", reply.images_failed},
               {"not_for_the_store", only_here},
               {"error", reply.failure.message()}});
  } else if (!reply.failure.ok()) {
    std::fprintf(stderr, "kedge: %s\n", reply.failure.message().c_str());
  } else if (!options.level.empty()) {
    std::printf("everything is at level %s that is to get there\n", options.level.c_str());
  } else if (only_here.empty()) {
    std::puts("everything is durable");
  } else {
    std::fputs(WrappedAt(0, fmt::format("everything that is to go to the store is there; not meant for it, by schedule.store, "
                                        "and only on nodes: {}; kedge drain carries it there",
                                        fmt::join(only_here, ", ")))
                   .c_str(),
               stdout);
  }
  if (timed_out) return kExitTimeout;
  return reply.failure.ok() ? kExitOk : kExitBad;
}

// Ranks that took different versions: without an agent only the store knows.
Status DisagreementIn(const Catalog& catalog, const std::string& job) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, catalog.Names(job, nullptr));
  for (const std::string& name : names) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
    KEDGE_RETURN_IF_ERROR(DisagreementAmong(versions));
  }
  return Status::Ok();
}

// Of the job that is asked for, or of all.
Result<std::vector<Json>> JobsOfAgent(const AgentConnection& agent, const std::string& job) {
  KEDGE_ASSIGN_OR_RETURN(const std::string text, AskForStatus(agent));
  const Json status = Json::parse(text);
  std::vector<Json> jobs;
  for (const Json& known : status.at("jobs")) {
    if (job.empty() || known.at("job") == job) jobs.push_back(known);
  }
  return jobs;
}

// Whether the agent has versions of the job. After the store was away, its record of the job is on its way for some seconds.
Result<bool> AgentHas(const AgentConnection& agent, const std::string& job) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Json> jobs, JobsOfAgent(agent, job));
  return std::any_of(jobs.begin(), jobs.end(), [](const Json& known) { return !known.at("versions").empty(); });
}

// Each name whose newest version neither is in the store nor will get there.
Result<std::vector<std::string>> OnlyOnNodes(const AgentConnection& agent, const std::string& job) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Json> jobs, JobsOfAgent(agent, job));
  std::vector<std::string> only;
  for (const Json& known : jobs) {
    std::map<std::string, std::pair<uint64_t, bool>> newest;  // by name: its version, and whether it is for the store
    for (const Json& version : known.at("versions")) {
      if (version.at("abandoned")) continue;
      const Json& levels = version.at("levels");
      const bool for_store =
          std::any_of(levels.begin(), levels.end(), [](const Json& of) { return of.at("level") == LevelName(Level::kStore); });
      auto& of_name = newest[version.at("name")];
      of_name = std::max(of_name, {version.at("version").get<uint64_t>(), for_store || version.at("undecided")});
    }
    for (const auto& [name, of_name] : newest) {
      if (!of_name.second) only.push_back(fmt::format("{}/{}@{}", known.at("job").get<std::string>(), name, of_name.first));
    }
  }
  return only;
}

Outcome Wait(const WaitOptions& options) {
  DrainRequest request;
  request.level = LevelNamed(options.level);
  KEDGE_ASSIGN_OR_RETURN(request.timeout, ParseDuration(options.timeout));
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.store.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const NodeSettings node, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(const bool exists, os::Exists(os::SystemFileSystem(), node.run_folder));
  DrainReply nothing;
  nothing.finished = true;
  Status known;
  if (!options.store.job.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
    known = SelectJobs(opened, options.store).status();
    if (!known.ok() && (!exists || known.code() != Code::kNotFound)) return known;
    request.store_id = opened.catalog.id();
    request.job = options.store.job;
    const Status disagreement = DisagreementIn(opened.catalog, request.job);
    if (disagreement.code() == Code::kMismatch) nothing.failure = disagreement;
  }
  if (!exists || !nothing.failure.ok()) return Finish(options, nothing, {});
  // An agent that was killed left its work on the tiers: a new one takes it up.
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, true));
  if (!known.ok()) {
    KEDGE_ASSIGN_OR_RETURN(const bool on_its_way, AgentHas(agent, request.job));
    if (!on_its_way) return known;
  }
  uint64_t most = 0;
  ProgressLine line("flushing");
  auto reply = agent.connection->Drain(request, [&](const DrainReply& progress) {
    most = std::max(most, progress.bytes_pending);
    line.Update(most - progress.bytes_pending, most);
  });
  // Nothing is on its way any more; what had failed to get to the store before is asked for by that level's name.
  if (options.level.empty() && reply.ok() && reply->failure.ok()) {
    request.level = Level::kStore;
    reply = agent.connection->Drain(request, [](const DrainReply&) {});
  }
  if (!reply.ok()) return reply.status();
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> only_here, OnlyOnNodes(agent, request.job));
  return Finish(options, *reply, only_here);
}

}  // namespace

Command WaitCommand() {
  return {"wait", "wait until everything handed to this node's agent is durable", [](CLI::App& app) {
            auto options = std::make_shared<WaitOptions>();
            options->store.AddTo(app, StoreOptions::JobBy::kPositional);
            options->store.config.AddNodeTo(app);
            app.add_option("--level", options->level,
                           "local, node, buffer or store: no further than this (default: as far as scheduled)")
                ->check(CLI::IsMember({"local", "node", "buffer", "store"}));
            app.add_option("--timeout", options->timeout, "at most this long: 90s, 10min")->capture_default_str();
            app.add_flag("--json", options->json, "print JSON");
            app.footer(
                "For the end of a job script. Exit codes: 0 everything is there; 1 something failed; 4 the time was over.\n"
                "A version that is not scheduled for the LEVEL is not waited for; the newest are named.\n"
                "When the agent was killed, a new one is started and goes on from the tiers.\n"
                "Examples:\n  srun --overlap --ntasks-per-node=1 kedge wait --timeout 30min\n  kedge wait --level node");
            return [options] { return Wait(*options); };
          }};
}

}  // namespace kedge::tools

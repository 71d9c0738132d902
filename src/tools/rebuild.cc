// kedge rebuild, kedge drain: what survives on the nodes after an application has died comes back, or goes to the store. For the
// epilogue of a job script, on every node that is left, at about the same time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "os/files/files.h"
#include "session/config_keys.h"
#include "store/attempts.h"
#include "store/reached.h"
#include "store/versions.h"
#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/common.h"
#include "tools/prospects.h"

namespace kedge::tools {
namespace {

constexpr Duration kLookTimeout = std::chrono::seconds(60);
constexpr Duration kLookPause = std::chrono::seconds(1);

struct RebuildOptions {
  StoreOptions store;
  std::string patience = "20s";
  std::string timeout = "600s";
  std::string level;  // of a drain; empty: the last that is scheduled
  bool look = false;
  std::vector<std::string> left_out;
  bool json = false;
};

std::string Names(const std::vector<std::string>& nodes) {
  return fmt::format("{}", fmt::join(nodes, ", "));
}

// What is missing is lost only where all have answered.
std::string NotKnown(const std::vector<std::string>& silent_nodes) {
  return fmt::format("not known without an answer from {}: ", Names(silent_nodes));
}

// What has become of what this node was to carry there, for people.
std::string PartText(const RebuildOptions& options, const DrainReply& drained) {
  const char* where = options.level == LevelName(Level::kBuffer) ? "at level buffer" : "in the store";
  return drained.failure.ok() ? fmt::format("; this node's part is {}", where)
                              : fmt::format("; this node's part is not {} yet", where);
}

void Print(const RebuildOptions& options, const Prospects& prospects, size_t wanted, const RebuildReply& reply,
           const DrainReply* drained) {
  const Status failure = !reply.failure.ok() || drained == nullptr ? reply.failure : drained->failure;
  std::vector<std::string> lost, silent_nodes_may_have, for_people;
  for (const auto& [name, prospect] : prospects) {
    for (const LostVersion& one : prospect.lost) {
      (prospect.silent_nodes.empty() ? lost : silent_nodes_may_have).push_back(TextOf(one));
      for_people.push_back((prospect.silent_nodes.empty() ? "lost: " : NotKnown(prospect.silent_nodes)) + TextOf(one));
    }
  }
  if (options.json) {
    Json json{{"versions", wanted},
              {"images_brought", reply.images_brought},
              {"images_owed", reply.images_owed},
              {"silent_nodes", reply.silent_nodes},
              {"lost", lost},
              {"silent_nodes_may_have", silent_nodes_may_have}};
    if (drained != nullptr) json["finished"] = drained->finished && drained->failure.ok();
    json["error"] = failure.message();
    return PrintJson(json);
  }
  for (const std::string& one : for_people) std::fprintf(stderr, "kedge: %s\n", one.c_str());
  if (!reply.silent_nodes.empty()) {
    std::fprintf(stderr, "kedge: no answer from %s\n", Names(reply.silent_nodes).c_str());
  }
  if (!failure.ok()) std::fprintf(stderr, "kedge: %s\n", failure.message().c_str());
  std::printf("%s %s on the nodes; %s came to this node%s\n", Counted(wanted, "version").c_str(),
              wanted == 1 ? "survives" : "survive", Counted(reply.images_brought, "image").c_str(),
              drained == nullptr ? "" : PartText(options, *drained).c_str());
}

// Nodes that have just been asked to help may need a moment; those that are dead are waited for no longer than that.
Result<RebuildReply> LookAround(Connection& connection, RebuildRequest request, Duration patience) {
  const Deadline deadline(SystemClock(), patience);
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(RebuildReply reply, connection.Call<RebuildReply>(request, kLookTimeout));
    if (reply.silent_nodes.empty() || deadline.Passed()) return reply;
    std::this_thread::sleep_for(kLookPause);
  }
}

struct JobId {
  StoreId store_id;
  std::string job;
  bool has_store = true;  // else it cannot be had
};

Result<JobId> FromStore(const RebuildOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const std::string job, SelectJob(opened, options.store));
  return JobId{opened.catalog.id(), job};
}

// The store cannot be had (`why`): this node's agent knows its id.
Result<JobId> FromAgent(const RebuildOptions& options, const Config& config, Connection& agent, const Status& why) {
  KEDGE_ASSIGN_OR_RETURN(const JobSettings settings, ReadJobSettings(config));
  const std::string& job = options.store.job.empty() ? settings.job : options.store.job;
  const std::string& path = options.store.store.empty() ? settings.keys.store_path : options.store.store;
  const KnownJobsRequest known{kProtocolVersion, BuildName(), job, path};
  KEDGE_ASSIGN_OR_RETURN(const KnownJobsReply reply, agent.Call<KnownJobsReply>(known, kLookTimeout));
  if (reply.jobs.size() > 1) {
    return Status(Code::kUnavailable, fmt::format("this node knows job {} of {} stores that lay at {}, and which one is meant "
                                                  "cannot be told: {}",
                                                  job, reply.jobs.size(), path, why.message()));
  }
  if (reply.jobs.empty()) return why;
  std::fprintf(stderr, "kedge: warning: the store cannot be had, so only the nodes are looked at: %s\n", why.message().c_str());
  return JobId{reply.jobs.front().store_id, job, false};
}

Result<StoredJob> ReadStored(const RebuildOptions& options, const JobId& id) {
  StoredJob stored;
  if (!id.has_store) return stored;
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  const Catalog& catalog = opened.catalog;
  KEDGE_ASSIGN_OR_RETURN(stored.names, catalog.Names(id.job, nullptr));
  for (const std::string& name : stored.names) {
    KEDGE_ASSIGN_OR_RETURN(const auto restored, ReadRestored(catalog, id.job, name));
    stored.restored.insert(stored.restored.end(), restored.begin(), restored.end());
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, id.job, name));
    for (const VersionInfo& version : versions) {
      if (IsWithdrawn(version, versions)) {
        stored.withdrawn.push_back(version.generation);
        continue;
      }
      if (version.ranks == 0) continue;
      StoredVersion one{version.generation, version.ranks, {{0, 1, version.ranks}}};
      if (!version.complete && !version.finishable) {
        const auto parts = ReadParts(catalog, version.generation, nullptr);
        one.given = parts.ok() ? RanksIn(*parts) : std::vector<RankRun>();
      }
      stored.versions.push_back(std::move(one));
    }
    KEDGE_ASSIGN_OR_RETURN(const auto reached, FindReached(catalog, id.job, name));
    if (reached) stored.safe.emplace(name, reached->generation);
  }
  return stored;
}

// This node cannot tell what the nodes of the job have: who can.
std::string WhereToAsk(const RebuildOptions& options, const std::string& node, const JobId& id) {
  std::string last;
  if (id.has_store) {
    const auto opened = OpenStore(options.store);
    const auto attempts = opened.ok() ? ReadAttempts(opened->catalog, id.job, std::numeric_limits<uint32_t>::max())
                                      : Result<std::vector<AttemptLife>>(opened.status());
    if (attempts.ok() && !attempts->empty())
      last = fmt::format("; rank 0 of its last launch was on {}", attempts->back().record.host);
  }
  return fmt::format(
      "this node ({}) is none of job {}'s, or has come back empty: what those have is not known here. Run `kedge rebuild --look "
      "--job {}` on one of them{}",
      node, id.job, id.job, last);
}

// What a launch would go on from, for people. `knows_job`: the nodes have been asked.
std::string Describe(const Prospect& prospect, bool knows_job) {
  if (prospect.generation) {
    return fmt::format("{}, {}", prospect.generation->version,
                       prospect.on_nodes   ? "on the nodes"
                       : prospect.in_store ? "in the store"
                                           : "partly on the nodes, partly in the store");
  }
  if (const std::string lost = prospect.WhatWasLost(); !lost.empty())
    return (knows_job ? "lost: " : "not in the store, and the job's nodes were not asked: ") + lost;
  if (const std::string silent = prospect.WhatSilentNodesMayHave(); !silent.empty()) {
    return NotKnown(prospect.silent_nodes) + silent;
  }
  return "none";
}

// `node`: this one. `silent_nodes`: of the job, that did not answer; nothing: this node's agent knows nothing of the job, or is
// not there.
void PrintProspects(const RebuildOptions& options, const std::string& node, const Prospects& prospects,
                    const std::optional<std::vector<std::string>>& silent_nodes) {
  if (!options.json) {
    if (prospects.empty()) std::printf("nothing is known of it: a launch begins at its start\n");
    for (const auto& [name, prospect] : prospects)
      std::printf("%s: %s\n", name.c_str(), Describe(prospect, silent_nodes.has_value()).c_str());
    if (silent_nodes && !silent_nodes->empty()) {
      std::fprintf(stderr, "kedge: no answer from %s, which may have newer ones\n", Names(*silent_nodes).c_str());
    }
    return;
  }
  Json names = Json::array();
  for (const auto& [name, prospect] : prospects) {
    const Generation generation = prospect.generation.value_or(Generation{{}, "", "", -1, 0, 0});
    names.push_back({{"name", name},
                     {"version", generation.version},
                     {"attempt", generation.attempt},
                     {"take", generation.take},
                     {"on_nodes", prospect.on_nodes},
                     {"in_store", prospect.in_store},
                     {"lost", prospect.WhatWasLost()},
                     {"silent_nodes_may_have", prospect.WhatSilentNodesMayHave()}});
  }
  PrintJson({{"node", node},
             {"knows_job", silent_nodes.has_value()},
             {"silent_nodes", silent_nodes.value_or(std::vector<std::string>())},
             {"names", std::move(names)}});
}

Result<AskedVersion> Asked(const Config& config) {
  KEDGE_ASSIGN_OR_RETURN(const RestartKeys keys, ReadRestartKeys(config));
  return AskedVersion{keys.version, keys.attempt};
}

// Brings nothing: what would a launch go on from?
Outcome LookAhead(const RebuildOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Duration patience, ParseDuration(options.patience));
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.store.config.Load());
  Result<JobId> id = FromStore(options);
  KEDGE_ASSIGN_OR_RETURN(const NodeSettings node, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(const bool has_run, os::Exists(os::SystemFileSystem(), node.run_folder));
  RebuildReply on_nodes;
  std::optional<std::vector<std::string>> silent_nodes;
  if (has_run) {
    // One that was killed left its images on the tiers: a new one takes them up.
    KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, true));
    if (!id.ok()) id = FromAgent(options, config, *agent.connection, id.status());
    if (id.ok()) {
      const auto reply = LookAround(*agent.connection, {id->store_id, id->job, false, {}, options.left_out}, patience);
      if (!reply.ok() && reply.status().code() != Code::kNotFound) return reply.status();
      if (reply.ok()) on_nodes = *reply;
      if (reply.ok()) silent_nodes = reply->silent_nodes;
    }
  }
  Prospects prospects;
  if (id.ok()) {
    // After the nodes: a version goes from them to the store, and none is missed on its way.
    KEDGE_ASSIGN_OR_RETURN(const StoredJob stored, ReadStored(options, *id));
    KEDGE_ASSIGN_OR_RETURN(const AskedVersion asked, Asked(config));
    prospects = Foresee(on_nodes, stored, Asker::kLaunch, asked);
  } else if (id.status().code() != Code::kNotFound) {
    return id.status();
  }
  PrintProspects(options, node.node, prospects, silent_nodes);
  if (!options.json && id.ok() && !silent_nodes) std::fprintf(stderr, "kedge: %s\n", WhereToAsk(options, node.node, *id).c_str());
  return kExitOk;
}

// Those of which the nodes have something: the rest is in the store.
std::vector<Generation> OnNodes(const Prospects& prospects, const RebuildReply& reply) {
  std::vector<Generation> found;
  for (const SurvivingVersion& version : reply.versions) {
    const auto prospect = prospects.find(version.generation.name);
    if (prospect != prospects.end() && prospect->second.generation == version.generation && !version.given.empty()) {
      found.push_back(version.generation);
    }
  }
  return found;
}

Outcome Rebuild(const RebuildOptions& options, bool to_store) {
  if (options.look) return LookAhead(options);
  KEDGE_ASSIGN_OR_RETURN(const Duration patience, ParseDuration(options.patience));
  KEDGE_ASSIGN_OR_RETURN(const Duration timeout, ParseDuration(options.timeout));
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.store.config.Load());
  Result<JobId> id = FromStore(options);
  if (to_store) KEDGE_RETURN_IF_ERROR(id.status());
  // An agent that was killed left its images on the tiers: a new one takes them up.
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, true));
  if (!id.ok()) id = FromAgent(options, config, *agent.connection, id.status());
  KEDGE_RETURN_IF_ERROR(id.status());
  RebuildRequest request{id->store_id, id->job, false, {}, {}};
  KEDGE_ASSIGN_OR_RETURN(RebuildReply reply, LookAround(*agent.connection, request, patience));
  KEDGE_ASSIGN_OR_RETURN(const StoredJob stored, ReadStored(options, *id));
  // What goes to the store is the job's, whatever one launch is told to restore.
  KEDGE_ASSIGN_OR_RETURN(const AskedVersion asked, Asked(config));
  const Prospects prospects =
      to_store ? Foresee(reply, stored, Asker::kStore, {}) : Foresee(reply, stored, Asker::kLaunch, asked);
  request.wanted = OnNodes(prospects, reply);
  request.to_store = to_store;
  if (to_store || !request.wanted.empty()) {
    KEDGE_ASSIGN_OR_RETURN(reply, agent.connection->Call<RebuildReply>(request, timeout));
  }
  DrainReply drained;
  if (to_store) {
    DrainRequest drain{request.store_id, request.job, LevelNamed(options.level), timeout};
    KEDGE_ASSIGN_OR_RETURN(drained, agent.connection->Drain(drain, nullptr));
  }
  Print(options, prospects, request.wanted.size(), reply, to_store ? &drained : nullptr);
  if (drained.failure.code() == Code::kTimeout) return kExitTimeout;
  const bool survives =
      std::any_of(prospects.begin(), prospects.end(), [](const auto& entry) { return entry.second.generation.has_value(); });
  return reply.failure.ok() && drained.failure.ok() && survives ? kExitOk : kExitBad;
}

Command MakeCommand(const char* name, const char* summary, bool to_store, const char* footer) {
  return {
      name, summary, [to_store, footer](CLI::App& app) {
        auto options = std::make_shared<RebuildOptions>();
        options->store.AddTo(app, StoreOptions::JobBy::kPositional);
        options->store.config.AddNodeTo(app);
        app.add_option("--patience", options->patience, "how long nodes that do not answer yet are waited for")
            ->capture_default_str();
        app.add_option("--timeout", options->timeout, "at most this long in all after that: 90s, 10min")->capture_default_str();
        if (to_store) {
          app.add_option("--level", options->level, "buffer or store: no further than this (default: as far as scheduled)")
              ->check(CLI::IsMember({"buffer", "store"}));
        } else {
          auto* look = app.add_flag("--look", options->look,
                                    "bring nothing: say which version of each name a launch would go on from now");
          app.add_option("--left-out", options->left_out,
                         "a node that seems dead, or begun anew: it is given half a second to answer; may be repeated")
              ->type_name("NODE")
              ->allow_extra_args(false)
              ->needs(look);
        }
        app.add_flag("--json", options->json, "print JSON");
        app.footer(footer);
        return [options, to_store] { return Rebuild(*options, to_store); };
      }};
}

}  // namespace

Command RebuildCommand() {
  return MakeCommand("rebuild", "bring back to this node its part of what other nodes have lost", false,
                     "Run it on every node that is left, at about the same time, after the application has died.\n"
                     "Exit codes: 0 done; 1 nothing survives, or an image could not be had; 4 the time was over.\n"
                     "Examples:\n  kedge rebuild --look --job climate\n"
                     "  srun --overlap --ntasks-per-node=1 kedge rebuild --job climate");
}

Command DrainCommand() {
  return MakeCommand("drain", "carry what survives on the nodes to the store, without the application", true,
                     "For a job script's epilogue, on every node that is left.\n"
                     "Exit codes: 0 this node's part is in the store, or at the LEVEL; 1 nothing survives, or a part could not "
                     "be had or stored; 4 the time was over.\n"
                     "Example:\n  srun --overlap --ntasks-per-node=1 kedge drain --job climate");
}

}  // namespace kedge::tools

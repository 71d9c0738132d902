// kedge rebuild, kedge drain: what survives on the nodes after an application has died comes back, or goes to the store. For the
// epilogue of a job script, on every node that is left, at about the same time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/duration.h"
#include "base/json_writer.h"
#include "os/files.h"
#include "store/reached.h"
#include "store/versions.h"
#include "tools/agent_connection.h"
#include "tools/command.h"

namespace kedge::tools {
namespace {

constexpr Duration kLookTimeout = std::chrono::seconds(60);
constexpr Duration kLookPause = std::chrono::seconds(1);

struct RebuildOptions {
  StoreOptions store;
  std::string patience = "20s";
  std::string timeout = "600s";
  bool look = false;
  bool json = false;
};

std::string TextOf(const LostVersion& lost) {
  return fmt::format("{}: {}", lost.generation.ToString(), lost.why);
}

void Print(const RebuildOptions& options, const RebuildReply& reply, const DrainReply* drained) {
  const Status failure = !reply.failure.ok() || drained == nullptr ? reply.failure : drained->failure;
  if (options.json) {
    JsonWriter json;
    json.BeginObject().Field("versions", reply.versions.size()).Field("images_brought", reply.images_brought);
    json.Field("images_owed", reply.images_owed).Key("silent_nodes").BeginArray();
    for (const std::string& node : reply.silent_nodes) json.String(node);
    json.EndArray().Key("lost").BeginArray();
    for (const LostVersion& lost : reply.lost) json.String(TextOf(lost));
    json.EndArray();
    if (drained != nullptr) json.Field("finished", drained->finished && drained->failure.ok());
    json.Field("error", failure.message()).EndObject();
    return PrintJson(json.text());
  }
  for (const LostVersion& lost : reply.lost) std::fprintf(stderr, "kedge: lost: %s\n", TextOf(lost).c_str());
  if (!reply.silent_nodes.empty()) {
    std::fprintf(stderr, "kedge: no answer from %s\n", fmt::format("{}", fmt::join(reply.silent_nodes, ", ")).c_str());
  }
  if (!failure.ok()) std::fprintf(stderr, "kedge: %s\n", failure.message().c_str());
  std::printf("%zu versions survive on the nodes; %u images came to this node%s\n", reply.versions.size(), reply.images_brought,
              drained == nullptr      ? ""
              : drained->failure.ok() ? "; this node's part is in the store"
                                      : "; this node's part is not in the store yet");
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

Result<RebuildRequest> FromStore(const RebuildOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  RebuildRequest request;
  request.store_id = opened.catalog.id();
  KEDGE_ASSIGN_OR_RETURN(request.job, SelectJob(opened, options.store));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, opened.catalog.Names(request.job, nullptr));
  for (const std::string& name : names) {
    KEDGE_ASSIGN_OR_RETURN(const auto restored, ReadRestored(opened.catalog, request.job, name));
    request.restored.insert(request.restored.end(), restored.begin(), restored.end());
  }
  return request;
}

// The store cannot be had (`why`): this node's agent knows its id.
Result<RebuildRequest> FromAgent(const RebuildOptions& options, const Config& config, Connection& agent, const Status& why) {
  KEDGE_ASSIGN_OR_RETURN(const JobSettings settings, ReadJobSettings(config));
  const std::string& job = options.store.job.empty() ? settings.job : options.store.job;
  const std::string& path = options.store.store.empty() ? settings.keys.store_path : options.store.store;
  const KnownJobsRequest known{kProtocolVersion, BuildName(), job, path};
  KEDGE_ASSIGN_OR_RETURN(const KnownJobsReply reply, agent.Call<KnownJobsReply>(known, kLookTimeout));
  if (reply.jobs.size() != 1) return why;
  std::fprintf(stderr, "kedge: warning: the store cannot be had, so only the nodes are looked at: %s\n", why.message().c_str());
  RebuildRequest request;
  request.store_id = reply.jobs.front().store_id;
  request.job = job;
  return request;
}

// What a restart would find of one name.
struct Prospect {
  std::optional<int64_t> version;
  bool on_nodes = false;  // else in the store
  std::string lost;       // there is none, and there was one: what is known of it
};
using Prospects = std::map<std::string, Prospect>;

void AddNodes(const RebuildReply& reply, Prospects* prospects) {
  for (const Generation& generation : reply.versions) (*prospects)[generation.name] = {generation.version, true, {}};
  for (const LostVersion& lost : reply.lost) {
    Prospect& prospect = (*prospects)[lost.generation.name];
    if (lost.was_safe && prospect.lost.empty()) prospect.lost = TextOf(lost);
  }
}

Status AddStore(const Catalog& catalog, const std::string& job, Prospects* prospects) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, catalog.Names(job, nullptr));
  for (const std::string& name : names) {
    Prospect& prospect = (*prospects)[name];
    const auto stored = NewestAtOrBelow(catalog, job, name, -1);
    if (!stored.ok() && stored.status().code() != Code::kNotFound) return stored.status();
    if (stored.ok() && stored->generation.version > prospect.version.value_or(-1)) {
      prospect.version = stored->generation.version;
      prospect.on_nodes = false;
    }
    if (prospect.version || !prospect.lost.empty()) continue;
    KEDGE_ASSIGN_OR_RETURN(const auto reached, FindReached(catalog, job, name));
    if (reached) prospect.lost = fmt::format("{} was safe on its nodes", reached->generation.ToString());
  }
  return Status::Ok();
}

void PrintProspects(const RebuildOptions& options, const Prospects& prospects) {
  if (!options.json) {
    if (prospects.empty()) std::printf("nothing is known of it: a launch begins at its start\n");
    for (const auto& [name, prospect] : prospects) {
      if (prospect.version) {
        std::printf("%s: %lld, %s\n", name.c_str(), static_cast<long long>(*prospect.version),
                    prospect.on_nodes ? "on the nodes" : "in the store");
      } else {
        std::printf("%s: %s%s\n", name.c_str(), prospect.lost.empty() ? "none" : "lost: ", prospect.lost.c_str());
      }
    }
    return;
  }
  JsonWriter json;
  json.BeginObject().Key("names").BeginArray();
  for (const auto& [name, prospect] : prospects) {
    json.BeginObject().Field("name", name).Field("version", prospect.version.value_or(-1));
    json.Field("on_nodes", prospect.on_nodes).Field("lost", prospect.version ? "" : prospect.lost).EndObject();
  }
  json.EndArray().EndObject();
  PrintJson(json.text());
}

// Brings nothing: what would a launch go on from?
Outcome LookAhead(const RebuildOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Duration patience, ParseDuration(options.patience));
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.store.config.Load());
  Prospects prospects;
  Result<RebuildRequest> identified = FromStore(options);
  KEDGE_ASSIGN_OR_RETURN(const NodeSettings node, ReadNodeSettings(config));
  KEDGE_ASSIGN_OR_RETURN(const bool has_run, os::Exists(os::SystemFileSystem(), node.run_folder));
  if (has_run) {
    // One that was killed left its images on the tiers: a new one takes them up.
    KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, true));
    if (!identified.ok()) identified = FromAgent(options, config, *agent.connection, identified.status());
    if (identified.ok()) {
      const auto reply = LookAround(*agent.connection, *identified, patience);
      if (!reply.ok() && reply.status().code() != Code::kNotFound) return reply.status();
      if (reply.ok()) AddNodes(*reply, &prospects);
    }
  }
  if (identified.ok()) {
    const auto store = OpenStore(options.store);
    if (store.ok()) KEDGE_RETURN_IF_ERROR(AddStore(store->catalog, identified->job, &prospects));
  } else if (identified.status().code() != Code::kNotFound) {
    return identified.status();
  }
  PrintProspects(options, prospects);
  return kExitOk;
}

Outcome Rebuild(const RebuildOptions& options, bool to_store) {
  if (options.look) return LookAhead(options);
  KEDGE_ASSIGN_OR_RETURN(const Duration patience, ParseDuration(options.patience));
  KEDGE_ASSIGN_OR_RETURN(const Duration timeout, ParseDuration(options.timeout));
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.store.config.Load());
  Result<RebuildRequest> identified = FromStore(options);
  if (to_store) KEDGE_RETURN_IF_ERROR(identified.status());
  // An agent that was killed left its images on the tiers: a new one takes them up.
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, true));
  if (!identified.ok()) identified = FromAgent(options, config, *agent.connection, identified.status());
  KEDGE_ASSIGN_OR_RETURN(RebuildRequest request, std::move(identified));
  request.to_store = to_store;
  KEDGE_RETURN_IF_ERROR(LookAround(*agent.connection, request, patience).status());
  request.act = true;
  KEDGE_ASSIGN_OR_RETURN(const RebuildReply reply, agent.connection->Call<RebuildReply>(request, timeout));
  DrainReply drained;
  if (to_store) {
    DrainRequest drain{request.store_id, request.job, Level::kLast, timeout};
    KEDGE_ASSIGN_OR_RETURN(drained, agent.connection->Drain(drain, nullptr));
  }
  Print(options, reply, to_store ? &drained : nullptr);
  if (drained.failure.code() == Code::kTimeout) return kExitTimeout;
  return reply.failure.ok() && drained.failure.ok() && !reply.versions.empty() ? kExitOk : kExitBad;
}

Command MakeCommand(const char* name, const char* summary, bool to_store, const char* footer) {
  return {
      name, summary, [to_store, footer](CLI::App& app) {
        auto options = std::make_shared<RebuildOptions>();
        options->store.AddTo(app);
        app.add_option("--patience", options->patience, "how long nodes that do not answer yet are waited for")
            ->capture_default_str();
        app.add_option("--timeout", options->timeout, "at most this long in all after that: 90s, 10min")->capture_default_str();
        if (!to_store) {
          app.add_flag("--look", options->look, "bring nothing: say which version of each name a launch would go on from now");
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
                     "Exit codes: 0 done; 1 nothing survives, or an image could not be had; 4 the time was over.");
}

Command DrainCommand() {
  return MakeCommand(
      "drain", "carry what survives on the nodes to the store, without the application", true,
      "For a job script's epilogue: srun --ntasks-per-node=1 kedge drain --job NAME.\n"
      "Exit codes: 0 this node's part is in the store; 1 nothing survives, or a part could not be had or stored; 4 the "
      "time was over.");
}

}  // namespace kedge::tools

// kedge clean: frees what agents that are gone have left of this user on this machine: pools, run folders, tiers, scratches.
//
// What a live agent or process uses is not touched: the agent's lock tells, and is held meanwhile. Nor is an only copy, unless
// that is what was asked for.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/byte_size.h"
#include "base/json.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/machine/machine.h"
#include "os/process/launch_note.h"
#include "os/sockets/socket_lock.h"
#include "session/config_keys.h"
#include "tools/command.h"
#include "tools/common.h"
#include "tools/leftovers.h"

namespace kedge::tools {
namespace {

struct CleanOptions {
  ConfigOptions config;
  std::string job;
  std::string node;
  bool dry_run = false;
  bool discard_only_copies = false;
  bool json = false;
};

enum class Fate { kFreed, kInUse, kStays, kOnlyCopies, kFailed };

const char* FateName(Fate state) {
  switch (state) {
    case Fate::kFreed: return "freed";
    case Fate::kInUse: return "in use";
    case Fate::kStays: return "stays";
    case Fate::kOnlyCopies: return "only copies";
    case Fate::kFailed: return "failed";
  }
  return "";
}

struct Cleaned {
  std::string node;
  std::string run_folder;
  Fate state = Fate::kFreed;
  std::string why;
  Leftovers left;
  std::vector<std::string> only_copies;
};

// The run folders of this user's nodes on this machine: those that are called so by default, and the configured one.
Result<std::vector<Cleaned>> FindNodes(const CleanOptions& options, const NodeSettings& settings) {
  const std::string nodes = fmt::format("/dev/shm/kedge-{}", os::EffectiveUser());
  std::vector<Cleaned> found;
  const auto add = [&](const std::string& node, const std::string& run_folder) {
    if (!options.node.empty() && options.node != node) return;
    found.push_back({node, run_folder, {}, {}, {}, {}});
  };
  const auto entries = os::PrivateFileSystem().List(nodes);
  if (!entries.ok() && entries.status().code() != Code::kNotFound) return entries.status();
  if (entries.ok()) {
    for (const os::FolderEntry& entry : *entries) {
      if (entry.kind == os::FileKind::kFolder) add(entry.name, os::JoinPath(nodes, entry.name));
    }
  }
  const bool is_default = os::ParentPath(settings.run_folder) == nodes;
  if (!is_default && os::PrivateFileSystem().Stat(settings.run_folder).ok()) add(settings.node, settings.run_folder);
  return found;
}

void Decide(const CleanOptions& options, Cleaned* cleaned) {
  const Leftovers& left = cleaned->left;
  const auto conclude = [&](Fate fate, std::string why) { std::tie(cleaned->state, cleaned->why) = std::pair(fate, why); };
  if (!left.owners.empty()) {
    return conclude(Fate::kInUse, fmt::format("{} still uses it, without an agent", fmt::join(left.owners, ", ")));
  }
  if (!options.job.empty() && left.jobs.size() > 1) {
    return conclude(Fate::kStays,
                    fmt::format("it has something of several jobs, {}: --node frees all of it", fmt::join(left.jobs, ", ")));
  }
  for (const auto& [generation, why] : OnlyHere(left)) {
    cleaned->only_copies.push_back(fmt::format("{}: {}", generation.ToString(), why));
  }
  cleaned->only_copies.insert(cleaned->only_copies.end(), left.unread.begin(), left.unread.end());
  if (cleaned->only_copies.empty() || options.discard_only_copies) return;
  conclude(Fate::kOnlyCopies, fmt::format("kedge drain --node {} carries them to the store, "
                                          "--discard-only-copies loses them",
                                          cleaned->node));
}

// Whether it concerns what is asked for.
bool Clean(const CleanOptions& options, const std::vector<std::string>& tiers, Cleaned* cleaned) {
  const auto fail = [&](const Status& status) {
    const bool is_served = status.code() == Code::kBusy;
    cleaned->state = is_served ? Fate::kInUse : Fate::kFailed;
    cleaned->why = is_served ? fmt::format(
                                   "a live agent serves it, and kedge status says what it has: kedge agent --stop "
                                   "--node {} lets it leave",
                                   cleaned->node)
                             : status.message();
    return true;  // what it has of the job is not known
  };
  Result<os::SocketLock> lock = os::SocketLock::Take(os::JoinPath(cleaned->run_folder, "agent.sock"));
  if (!lock.ok()) return fail(lock.status());
  Result<Leftovers> left = ReadLeftovers(cleaned->node, cleaned->run_folder, tiers);
  if (!left.ok()) return fail(left.status());
  cleaned->left = *std::move(left);
  if (!options.job.empty() && !cleaned->left.jobs.contains(options.job)) return false;
  Decide(options, cleaned);
  if (cleaned->state != Fate::kFreed || options.dry_run) return true;
  Status removed = RemoveLeftovers(cleaned->run_folder, cleaned->left);
  if (removed.ok()) removed = lock->RemoveSocket();
  if (!removed.ok()) return fail(removed);
  // It stays when somebody has put something there.
  (void)os::PrivateFileSystem().Rmdir(cleaned->run_folder);
  return true;
}

// What launches of kedge run that was killed have left beside the nodes' folders.
std::vector<std::string> FreeNotes(const CleanOptions& options) {
  if (!options.job.empty() || !options.node.empty()) return {};
  std::vector<std::string> notes = os::NotesNobodyReads();
  if (options.dry_run) return notes;
  std::erase_if(notes, [](const std::string& path) { return !os::UnlinkIfPresent(os::PrivateFileSystem(), path).ok(); });
  return notes;
}

void Print(const CleanOptions& options, const std::vector<Cleaned>& nodes, const std::vector<std::string>& notes) {
  uint64_t bytes = 0;
  Json shown = Json::array();
  for (const Cleaned& one : nodes) {
    if (one.state == Fate::kFreed) bytes += one.left.bytes;
    shown.push_back({{"node", one.node},
                     {"run_folder", one.run_folder},
                     {"state", FateName(one.state)},
                     {"why", one.why},
                     {"jobs", one.left.jobs},
                     {"folders", one.left.folders},
                     {"only_copies", one.only_copies},
                     {"bytes", one.left.bytes}});
    if (options.json) continue;
    const std::string line =
        fmt::format("{} ({}): {}{}{}{}", one.node, one.run_folder,
                    one.state == Fate::kFreed && options.dry_run ? "would be freed" : FateName(one.state),
                    one.state == Fate::kFreed ? ", " + FormatByteSize(one.left.bytes) : "", one.why.empty() ? "" : ": ", one.why);
    std::fputs(WrappedAt(4, line).c_str(), stdout);
    for (const std::string& only : one.only_copies) std::fputs(WrappedAt(4, "  " + only).c_str(), stdout);
  }
  if (options.json) {
    return PrintJson({{"freed", !options.dry_run}, {"nodes", std::move(shown)}, {"notes", notes}, {"bytes", bytes}});
  }
  for (const std::string& note : notes) {
    std::printf("%s, of a launch of kedge run that has ended: %s\n", note.c_str(), options.dry_run ? "would be freed" : "freed");
  }
  if (nodes.empty() && notes.empty()) std::puts("nothing is left here");
}

Outcome RunClean(const CleanOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const NodeSettings settings, ReadNodeSettings(config));
  std::vector<std::string> tiers;
  for (const TierSettings& tier : settings.tiers) tiers.push_back(tier.path);
  KEDGE_ASSIGN_OR_RETURN(std::vector<Cleaned> nodes, FindNodes(options, settings));
  std::erase_if(nodes, [&](Cleaned& node) { return !Clean(options, tiers, &node); });
  Print(options, nodes, FreeNotes(options));
  const bool is_bad = std::any_of(nodes.begin(), nodes.end(),
                                  [](const Cleaned& one) { return one.state != Fate::kFreed && one.state != Fate::kInUse; });
  return is_bad ? kExitBad : kExitOk;
}

}  // namespace

Command CleanCommand() {
  return {"clean", "free what agents that are gone have left on this machine", [](CLI::App& app) {
            auto options = std::make_shared<CleanOptions>();
            options->config.AddTo(app);
            app.add_option("--job,job", options->job, "only nodes that hold nothing but this job's")->type_name("NAME");
            app.add_option("--node", options->node, "only this node's")->type_name("NAME");
            app.add_flag("--dry-run", options->dry_run, "only show what would be freed");
            app.add_flag("--discard-only-copies", options->discard_only_copies, "also versions that no store has: they are lost");
            app.add_flag("--json", options->json, "print JSON");
            app.footer(
                "Frees this user's pools, run folders, tiers and scratches, and what a killed kedge run left in /dev/shm. What a "
                "live agent or process uses stays, and so do "
                "nodes with a version that is not known to be in its store. Exit code 1 when something stays for that reason.\n"
                "Examples:\n  kedge clean --dry-run\n  kedge clean climate\n  kedge clean --node n1 --discard-only-copies");
            return [options] { return RunClean(*options); };
          }};
}

}  // namespace kedge::tools

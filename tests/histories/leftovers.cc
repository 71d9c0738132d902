// See leftovers.h.
#include "tests/histories/leftovers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "session/connection.h"
#include "store/catalog.h"
#include "store/garbage.h"
#include "store/lineage.h"
#include "store/versions.h"

namespace kedge::histories {

namespace {

const TemporaryOwner kChecker{"histories", 0, "checker"};
constexpr Duration kAnswerPatience = std::chrono::seconds(10);

}  // namespace

std::vector<std::string> TemporariesAfterCollection(Store& store, Duration patience) {
  const auto catalog = Catalog::Open(store, kChecker);
  if (!catalog.ok()) return {"the store cannot be opened: " + catalog.status().ToString()};
  auto left = store.ListTemporaries("", kChecker);
  if (left.ok() && !left->empty()) {
    GarbageOptions options;
    options.patience = patience;
    options.orphan_age_seconds = 0;  // of a collection in whose middle the power went
    const auto report = CollectGarbage(*catalog, options);
    if (!report.ok()) return {report.status().ToString()};
    left = store.ListTemporaries("", kChecker);
  }
  if (!left.ok()) return {left.status().ToString()};
  std::vector<std::string> found;
  for (const Temporary& one : *left) found.push_back("a temporary that nobody collects: " + one.handle);
  return found;
}

bool CollectAtLeisure(Store& store, Duration patience) {
  const auto catalog = Catalog::Open(store, kChecker);
  GarbageOptions options;
  options.patience = patience;
  return catalog.ok() && CollectGarbage(*catalog, options).ok();
}

std::vector<std::string> UnwantedGenerations(Store& store, const std::string& job, const std::string& name, size_t keep) {
  const auto catalog = Catalog::Open(store, kChecker);
  if (!catalog.ok()) return {"the store cannot be opened: " + catalog.status().ToString()};
  const auto versions = ListVersions(*catalog, job, name);
  if (versions.status().code() == Code::kNotFound) return {};  // nothing was to go there
  if (!versions.ok()) return {versions.status().ToString()};
  std::vector<std::string> found;
  const auto counts = [](const VersionInfo& info) { return info.complete && !info.abandoned && !info.superseded; };
  size_t newer_complete = 0;
  for (const VersionInfo& info : *versions) {
    const auto taken_later = static_cast<size_t>(std::count_if(versions->begin(), versions->end(), [&](const VersionInfo& other) {
      return counts(other) && MomentOf(info.generation) < MomentOf(other.generation);
    }));
    if (info.removed || info.pinned) continue;
    if (!info.complete && newer_complete > 0) {
      found.push_back(
          fmt::format("{} is incomplete ({}), and a newer version is complete", info.generation.ToString(), info.reason));
    } else if (counts(info) && newer_complete >= keep) {
      found.push_back(fmt::format("{} is there, and {} newer versions are complete", info.generation.ToString(), newer_complete));
    } else if (info.complete && !counts(info) && taken_later >= keep) {
      found.push_back(fmt::format("{} is there, abandoned or superseded, and {} later versions are complete",
                                  info.generation.ToString(), taken_later));
    }
    newer_complete += counts(info) ? 1 : 0;
  }
  return found;
}

bool TellAgentToLeave(const std::string& run_folder, bool when_drained) {
  ConnectOptions options;
  options.node.run_folder = run_folder;
  options.start_agent = false;
  const auto agent = Connection::Connect(options);
  if (!agent.ok() || !(*agent)->AttachTool(kAnswerPatience).ok()) return false;
  return (*agent)->Call<DoneReply>(ShutdownRequest{.when_drained = when_drained}, kAnswerPatience).ok();
}

std::map<int, std::string> ProcessesWith(const std::string& text) {
  std::map<int, std::string> found;
  std::error_code unread;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", unread)) {
    // One that ends meanwhile is an error of the read, which this passes over.
    std::ostringstream read;
    read << std::ifstream(entry.path() / "cmdline").rdbuf();
    std::string line = read.str();
    if (line.find(text) == std::string::npos) continue;
    for (char& letter : line) letter = letter == '\0' || letter == '\n' ? ' ' : letter;
    found.emplace(std::stoi(entry.path().filename().string()), line);
  }
  return found;
}

}  // namespace kedge::histories

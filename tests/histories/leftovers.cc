// See leftovers.h.
#include "tests/histories/leftovers.h"

#include <fmt/format.h>

#include "store/catalog.h"
#include "store/garbage.h"
#include "store/versions.h"

namespace kedge::histories {

namespace {

const TemporaryOwner kChecker{"histories", 0, "checker"};

}  // namespace

std::vector<std::string> TemporariesAfterCollection(Store& store, Duration patience) {
  const auto catalog = Catalog::Open(store, kChecker);
  if (!catalog.ok()) return {"the store cannot be opened: " + catalog.status().ToString()};
  auto left = store.ListTemporaries("", kChecker);
  if (left.ok() && !left->empty()) {
    GarbageOptions options;
    options.patience = patience;
    const auto report = CollectGarbage(*catalog, options);
    if (!report.ok()) return {report.status().ToString()};
    left = store.ListTemporaries("", kChecker);
  }
  if (!left.ok()) return {left.status().ToString()};
  std::vector<std::string> found;
  for (const Temporary& one : *left) found.push_back("a temporary that nobody collects: " + one.handle);
  return found;
}

std::vector<std::string> IncompleteGenerations(Store& store, const std::string& job, const std::string& name) {
  const auto catalog = Catalog::Open(store, kChecker);
  if (!catalog.ok()) return {"the store cannot be opened: " + catalog.status().ToString()};
  const auto versions = ListVersions(*catalog, job, name);
  if (versions.status().code() == Code::kNotFound) return {};  // nothing was to go there
  if (!versions.ok()) return {versions.status().ToString()};
  std::vector<std::string> found;
  bool is_newer_complete = false;
  for (const VersionInfo& info : *versions) {
    if (!info.complete && !info.removed && is_newer_complete) {
      found.push_back(
          fmt::format("{} is incomplete ({}), and a newer version is complete", info.generation.ToString(), info.reason));
    }
    is_newer_complete = is_newer_complete || info.complete;
  }
  return found;
}

}  // namespace kedge::histories

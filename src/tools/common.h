// What the commands share: their common options, the store and the versions that they name, tables, ages, progress.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/json.h"
#include "base/status.h"
#include "store/catalog.h"
#include "store/store.h"
#include "store/versions.h"
#include "tools/target.h"

namespace kedge::tools {

// --config FILE and --set KEY=VALUE: where the configuration comes from, as for an application.
struct ConfigOptions {
  std::string file;
  std::vector<std::string> settings;
  std::string node;  // instead of the configured one

  void AddTo(CLI::App& app);
  // --node, for commands that speak to an agent.
  void AddNodeTo(CLI::App& app);
  // Prints the configuration's warnings to stderr once.
  Result<Config> Load() const;
};

// The same and --store, --job.
struct StoreOptions {
  ConfigOptions config;
  std::string store;
  std::string job;

  // `job`: how the job is named; kPositional: also by the first word.
  enum class JobBy { kOption, kPositional };
  void AddTo(CLI::App& app, JobBy job_by = JobBy::kOption);
};

// A store opened for reading (nothing is created) in a tool's name.
struct OpenedStore {
  std::string path;
  std::unique_ptr<Store> store;
  Catalog catalog;
};
// `path` empty: store.path of the configuration. kNotFound says what was looked for and how to name another.
Result<OpenedStore> OpenStore(const StoreOptions& options);
// What the user has named, with what the configuration says of burst buffers.
Result<std::string> StorePath(const std::string& text, const ConfigOptions& options);
Result<OpenedStore> OpenStoreAt(const std::string& path);
Result<OpenedStore> OpenOrCreateStoreAt(const std::string& path);

// The jobs that the options mean: the one that --job names (kNotFound when the store lacks it), else all.
Result<std::vector<std::string>> SelectJobs(const OpenedStore& opened, const StoreOptions& options);
// The only job, or the one named; kInvalidArgument lists them where there are several.
Result<std::string> SelectJob(const OpenedStore& opened, const StoreOptions& options);

// All that a text may mean (target.h), of the jobs that the options mean. kNotFound: nothing is called so.
Result<std::vector<Target>> SelectTargets(const OpenedStore& opened, const StoreOptions& options, const std::string& text,
                                          TargetForm form);
// The one that it means: of several, the only one of which a version is there. kInvalidArgument lists them where it is not clear.
Result<Target> SelectTarget(const OpenedStore& opened, const StoreOptions& options, const std::string& text, TargetForm form);

// The version that is meant; where none is named, the newest complete one.
Result<VersionInfo> ResolveVersion(const OpenedStore& opened, const Target& target);
// Both: of a text that names a version.
Result<VersionInfo> SelectVersion(const OpenedStore& opened, const StoreOptions& options, const std::string& text);
extern const char* const kVersionSpecHelp;
extern const char* const kVersionSpecForm;

// Runs kedge-NAME, beside this program or on PATH, in place of this process, with these arguments (NULL-terminated, the first is
// its name). Returns only when there is none, or it cannot be run: then it says why.
void RunSibling(const std::string& name, char** arguments);

// Aligned columns; the widths fit the content. Numbers go right when `right` says so for the column. What does not fit 80 columns
// goes on below in the last one, unless that goes right.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<bool> right = {});
  void AddRow(std::vector<std::string> row);
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

// Lines of at most 80 columns: longer ones go on below where their text begins, which in lists is behind the first gap.
std::string Wrapped(const std::string& text);
// One line, that goes on below from this column.
std::string WrappedAt(size_t column, std::string line);

// "1 version", "2 versions".
std::string Counted(size_t count, const std::string& noun);

// "12 s", "3 min", "5 h", "2 d" since the wall time; "-" for 0.
std::string FormatAge(int64_t wall_time_ns);

// A line on stderr that is drawn over again, at most ten times a second, and only when stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  void Update(uint64_t done, uint64_t total);
  // The line as it is given, which should fit a terminal.
  void Show(const std::string& line);
  // The same; where stderr is no terminal, the first one is a line like any other.
  void Wait(const std::string& line);

 private:
  std::string what_;
  bool is_terminal_;
  double started_seconds_;
  double last_seconds_ = 0;
  bool has_waited_ = false;
};

// Whether somebody at the terminal agrees that this goes for good. kInvalidArgument: nobody can be asked.
Result<bool> ConfirmRemoval(const std::string& what);

// JSON on one line to stdout.
void PrintJson(const Json& json);
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace kedge::tools

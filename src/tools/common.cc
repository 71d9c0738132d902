#include "tools/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/byte_size.h"
#include "base/clock.h"
#include "os/files/files.h"
#include "os/machine/machine.h"
#include "os/process/process.h"
#include "os/process/terminal.h"
#include "session/config_keys.h"
#include "store/places/make_store.h"
#include "store/places/store_path.h"

namespace kedge::tools {

const char* const kVersionSpecHelp =
    "JOB/NAME@VERSION[.ATTEMPT[.TAKE]] of a checkpoint; without a version the newest complete one, without a job the only one "
    "that has the name";
const char* const kVersionSpecForm = "[JOB/]NAME[@VERSION]";

void ConfigOptions::AddTo(CLI::App& app) {
  app.add_option("--config", file, "TOML file instead of the usual places")->type_name("FILE");
  app.add_option("--set", settings, "section.key=value above file and environment; may be repeated")->type_name("KEY=VALUE");
}

void ConfigOptions::AddNodeTo(CLI::App& app) {
  app.add_option("--node", node, "the node whose agent is meant, of several virtual ones on this machine")->type_name("NAME");
}

Result<Config> ConfigOptions::Load() const {
  ConfigSources sources = ConfigSources::FromProcess();
  if (!node.empty()) sources.overrides.emplace_back("node.name", node);
  if (!file.empty()) sources.file = file;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return Status(Code::kInvalidArgument, fmt::format("--set {}: expected section.key=value", setting));
    }
    sources.overrides.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  KEDGE_ASSIGN_OR_RETURN(Config config, Config::Load(KedgeConfigRegistry(), sources));
  for (const std::string& warning : config.warnings()) std::fprintf(stderr, "kedge: warning: %s\n", warning.c_str());
  return config;
}

void StoreOptions::AddTo(CLI::App& app, JobBy job_by) {
  app.add_option("--store", store,
                 "the store: a folder, s3://BUCKET/PREFIX or bb://SERVER/PREFIX (default: store.path of the configuration)")
      ->type_name("FOLDER");
  app.add_option(job_by == JobBy::kPositional ? "--job,job" : "--job", job, "only this job")->type_name("NAME");
  config.AddTo(app);
}

namespace {

constexpr size_t kColumns = 80;
constexpr size_t kLastColumns = 20;  // that are left for the last cell of a row at least
constexpr size_t kIndent = 4;        // where they are not

double MonotonicSeconds() {
  return static_cast<double>(SystemClock().NowNs()) * 1e-9;
}

TemporaryOwner ToolOwner() {
  return {os::HostName(), 0, "tool"};
}

Result<OpenedStore> Opened(const std::string& path, Result<Catalog> (*open)(Store&, const TemporaryOwner&)) {
  PosixStoreOptions options;
  KEDGE_ASSIGN_OR_RETURN(options.path, ResolveStorePath(path));
  std::unique_ptr<Store> store = MakeStore(os::SystemFileSystem(), options);
  auto catalog = open(*store, ToolOwner());
  if (!catalog.ok()) return catalog.status();
  // Of a burst buffer the text has all that the configuration says.
  const std::string shown = NeedsConfig(path) ? store->description() : path;
  return OpenedStore{shown, std::move(store), *std::move(catalog)};
}

}  // namespace

Result<std::string> StorePath(const std::string& text, const ConfigOptions& options) {
  if (!NeedsConfig(text)) return text;
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.Load());
  return ResolveStorePath(text, &config);
}

Result<OpenedStore> OpenStoreAt(const std::string& path) {
  auto opened = Opened(path, &Catalog::Open);
  if (opened.ok() || opened.status().code() != Code::kNotFound) return opened;
  return Status(Code::kNotFound,
                fmt::format("{} holds no Kedge store; name one with --store or store.path (`kedge config` shows it)", path));
}

Result<OpenedStore> OpenOrCreateStoreAt(const std::string& path) {
  return Opened(path, &Catalog::OpenOrCreate);
}

Result<OpenedStore> OpenStore(const StoreOptions& options) {
  if (!options.store.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const std::string path, StorePath(options.store, options.config));
    return OpenStoreAt(path);
  }
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const JobSettings settings, ReadJobSettings(config));
  return OpenStoreAt(settings.keys.store_path);
}

Result<std::vector<std::string>> SelectJobs(const OpenedStore& opened, const StoreOptions& options) {
  std::vector<std::string> skipped;
  KEDGE_ASSIGN_OR_RETURN(std::vector<std::string> jobs, opened.catalog.Jobs(&skipped));
  for (const std::string& sentence : skipped) std::fprintf(stderr, "kedge: warning: passed over: %s\n", sentence.c_str());
  if (options.job.empty()) return jobs;
  if (std::find(jobs.begin(), jobs.end(), options.job) != jobs.end()) return std::vector<std::string>{options.job};
  return Status(Code::kNotFound, fmt::format("{} has no job \"{}\"; it has: {}", opened.path, options.job,
                                             jobs.empty() ? "none" : fmt::format("{}", fmt::join(jobs, ", "))));
}

Result<std::string> SelectJob(const OpenedStore& opened, const StoreOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, SelectJobs(opened, options));
  if (jobs.size() == 1) return jobs[0];
  if (jobs.empty()) return Status(Code::kNotFound, fmt::format("{} has no jobs", opened.path));
  return Status(Code::kInvalidArgument,
                fmt::format("{} has several jobs; name one with --job: {}", opened.path, fmt::join(jobs, ", ")));
}

namespace {

std::string Joined(const std::vector<Target>& targets, const char* by) {
  std::vector<std::string> texts;
  for (const Target& target : targets) texts.push_back(target.ToString());
  return fmt::format("{}", fmt::join(texts, by));
}

}  // namespace

Result<std::vector<Target>> SelectTargets(const OpenedStore& opened, const StoreOptions& options, const std::string& text,
                                          TargetForm form) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, SelectJobs(opened, options));
  JobNames names;
  for (const std::string& job : jobs) {
    KEDGE_ASSIGN_OR_RETURN(names[job], opened.catalog.Names(job, nullptr));
  }
  KEDGE_ASSIGN_OR_RETURN(std::vector<Target> found, FindTargets(text, names, form));
  if (!found.empty()) return found;
  // A name alone, where only a job or JOB/NAME will do.
  const Result<std::vector<Target>> named = FindTargets(text, names, TargetForm::kName);
  if (form == TargetForm::kFromJob && named.ok() && !named->empty()) {
    return Status(Code::kNotFound, fmt::format("no job is called \"{}\"; a checkpoint is: say {}", text, Joined(*named, " or ")));
  }
  // A job alone, where only a checkpoint will do.
  if (const auto job = names.find(text); job != names.end() && form != TargetForm::kFromJob && !job->second.empty()) {
    std::vector<Target> of_job;
    for (const std::string& name : job->second) of_job.push_back({text, name, {}});
    return Status(Code::kNotFound, fmt::format("no checkpoint is called \"{}\"; a job is: say {}", text, Joined(of_job, " or ")));
  }
  const std::string what = options.job.empty() ? opened.path : fmt::format("job \"{}\" in {}", options.job, opened.path);
  return Status(Code::kNotFound,
                fmt::format("{} has nothing that is called \"{}\"; `kedge ls --all` lists what there is", what, text));
}

Result<Target> SelectTarget(const OpenedStore& opened, const StoreOptions& options, const std::string& text, TargetForm form) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Target> found, SelectTargets(opened, options, text, form));
  if (found.size() == 1) return found.front();
  std::vector<Target> standing;
  for (const Target& target : found) {
    if (target.name.empty()) {
      standing.push_back(target);
      continue;
    }
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(opened.catalog, target.job, target.name));
    const bool stands = std::any_of(versions.begin(), versions.end(), [](const VersionInfo& info) { return !info.removed; });
    if (stands) standing.push_back(target);
  }
  if (standing.size() == 1) return standing.front();
  return Status(Code::kInvalidArgument,
                fmt::format("\"{}\" may mean several: {}; name one with its job", text, Joined(found, ", ")));
}

Result<VersionInfo> ResolveVersion(const OpenedStore& opened, const Target& target) {
  if (!target.version) return NewestAtOrBelow(opened.catalog, target.job, target.name, -1);
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(opened.catalog, target.job, target.name));
  const auto rank = [](const VersionInfo& info) { return std::pair(info.complete, !info.abandoned); };
  const VersionInfo* found = nullptr;
  for (const VersionInfo& info : versions) {
    if (info.removed || !target.version->Means(info.generation)) continue;
    if (found == nullptr || rank(info) > rank(*found)) found = &info;
  }
  if (found != nullptr && found->complete && found->abandoned && target.version->attempt == 0) {
    return Status(Code::kNotFound, fmt::format("{} is abandoned, since the job went on from an older one: {}.{} names it",
                                               found->generation.ToString(), target.ToString(), found->generation.attempt));
  }
  if (found != nullptr) return *found;
  return Status(Code::kNotFound, fmt::format("job \"{}\" has no version {} of \"{}\" in {}; `kedge ls` lists them", target.job,
                                             target.version->version, target.name, opened.path));
}

Result<VersionInfo> SelectVersion(const OpenedStore& opened, const StoreOptions& options, const std::string& text) {
  KEDGE_ASSIGN_OR_RETURN(const Target target, SelectTarget(opened, options, text, TargetForm::kName));
  return ResolveVersion(opened, target);
}

void RunSibling(const std::string& name, char** arguments) {
  const std::string program = "kedge-" + name;
  const auto folder = os::ProgramFolder();
  for (const std::string& candidate : {folder.ok() ? os::JoinPath(*folder, program) : program, program}) {
    const Status failed = os::ReplaceProcess(candidate, arguments);
    if (failed.code() != Code::kNotFound) std::fprintf(stderr, "kedge: %s\n", failed.message().c_str());
  }
}

Table::Table(std::vector<std::string> header, std::vector<bool> right) : right_(std::move(right)) {
  right_.resize(header.size(), false);
  rows_.push_back(std::move(header));
}

void Table::AddRow(std::vector<std::string> row) {
  rows_.push_back(std::move(row));
}

std::string WrappedAt(size_t column, std::string line) {
  std::string wrapped;
  while (line.size() > kColumns) {
    size_t blank = line.rfind(' ', kColumns);
    if (blank == std::string::npos || blank <= column) blank = line.find(' ', kColumns);  // behind a long word, most often a path
    if (blank == std::string::npos) break;
    wrapped += line.substr(0, line.find_last_not_of(' ', blank) + 1) + "\n";
    line = std::string(column, ' ') + line.substr(line.find_first_not_of(' ', blank));
  }
  return wrapped + line + "\n";
}

std::string Table::Text() const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  size_t column = 0;  // where the last one begins
  for (size_t i = 0; i + 1 < widths.size(); ++i) column += widths[i] + 2;
  if (column + kLastColumns > kColumns) column = kIndent;
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += right_[i] ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += right_.back() ? line + "\n" : WrappedAt(column, std::move(line));
  }
  return text;
}

namespace {

constexpr size_t kTextColumns = 40;  // that are left for the text at least

// Where the text of an entry begins: behind the first gap of two blanks.
size_t TextColumn(const std::string& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", begin);
  const size_t text = gap == std::string::npos ? std::string::npos : line.find_first_not_of(' ', gap);
  return text == std::string::npos || text + kTextColumns > kColumns ? begin : text;
}

}  // namespace

std::string Wrapped(const std::string& text) {
  std::string wrapped;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t column = TextColumn(line);
    wrapped += WrappedAt(column, std::move(line));
  }
  return wrapped;
}

std::string Counted(size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string FormatAge(int64_t wall_time_ns) {
  if (wall_time_ns == 0) return "-";
  const int64_t seconds = std::max<int64_t>(0, (WallTimeNs() - wall_time_ns) / 1'000'000'000);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), is_terminal_(os::IsTerminal(os::StandardStream::kError)), started_seconds_(MonotonicSeconds()) {}

ProgressLine::~ProgressLine() {
  if (last_seconds_ > 0) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Show(const std::string& line) {
  const double now = MonotonicSeconds();
  if (!is_terminal_ || now - last_seconds_ < 0.1) return;
  last_seconds_ = now;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
}

void ProgressLine::Wait(const std::string& line) {
  if (!is_terminal_ && !has_waited_) std::fprintf(stderr, "kedge: %s\n", line.c_str());
  has_waited_ = true;
  Show(line);
}

void ProgressLine::Update(uint64_t done, uint64_t total) {
  const double now = MonotonicSeconds();
  if (!is_terminal_ || now - last_seconds_ < 0.1) return;
  last_seconds_ = now;
  const double rate = static_cast<double>(done) / std::max(now - started_seconds_, 1e-3);
  std::fprintf(stderr, "\r\033[K%s: %s of %s, %s/s", what_.c_str(), FormatByteSize(done).c_str(), FormatByteSize(total).c_str(),
               FormatByteSize(static_cast<uint64_t>(rate)).c_str());
}

Result<bool> ConfirmRemoval(const std::string& what) {
  if (!os::IsTerminal(os::StandardStream::kInput) || !os::IsTerminal(os::StandardStream::kError)) {
    return Status(Code::kInvalidArgument, "nothing was removed: nobody can be asked here, so --yes must say that it is meant");
  }
  std::fprintf(stderr, "Remove %s for good? [y/N] ", what.c_str());
  char answer[16] = {};
  return std::fgets(answer, sizeof(answer), stdin) != nullptr && (answer[0] == 'y' || answer[0] == 'Y');
}

void PrintJson(const Json& json) {
  std::puts(ToText(json).c_str());
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return shape.empty() ? "-" : fmt::format("{}", fmt::join(shape, " x "));
}

}  // namespace kedge::tools

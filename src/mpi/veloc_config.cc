// See veloc_config.h.
#include "mpi/veloc_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

namespace kedge {
namespace {

constexpr std::string_view kUnderstood[] = {
    "scratch",     "persistent",        "mode",   "max_versions", "scratch_versions", "persistent_interval",
    "ec_interval", "watchdog_interval", "chksum", "meta"};
constexpr std::string_view kWithoutMeaning[] = {"failure_domain", "axl_type",   "aggregated", "max_parallelism",
                                                "threaded",       "log_prefix", "daos_pool",  "daos_cont"};

// More versions than any run takes.
constexpr int kKeepAll = 1000000000;

template <size_t kCount>
bool Contains(const std::string_view (&keys)[kCount], std::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string WithCase(std::string_view text, int (*convert)(int)) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return result;
}

// A value as the file or the environment gives it; `origin` names it in messages.
struct Setting {
  std::string value;
  std::string origin;
};
using Settings = std::map<std::string, Setting>;

// A comment starts a line, or follows white space, so that paths may hold # and ;.
std::string_view WithoutComment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    const bool starts = i == 0 || std::isspace(static_cast<unsigned char>(line[i - 1]));
    if ((line[i] == '#' || line[i] == ';') && starts) return line.substr(0, i);
  }
  return line;
}

Result<Settings> ReadSettings(std::string_view text, const std::string& path) {
  Settings settings;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = Trim(WithoutComment(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string origin = fmt::format("{}:{}", path, ++number);
    if (line.empty() || (line.front() == '[' && line.back() == ']')) continue;  // VELOC's reader ignores sections
    const size_t separator = line.find_first_of("=:");
    if (separator == std::string_view::npos || Trim(line.substr(0, separator)).empty()) {
      return Status(Code::kInvalidArgument, fmt::format("{}: expected 'key = value', found '{}'", origin, line));
    }
    settings[WithCase(Trim(line.substr(0, separator)), std::tolower)] = {std::string(Trim(line.substr(separator + 1))), origin};
  }
  return settings;
}

void ApplyEnvironment(const EnvironmentLookup& environment, Settings* settings) {
  const auto apply = [&](std::string_view key) {
    const std::string variable = "VELOC_" + WithCase(key, std::toupper);
    if (auto value = environment(variable)) (*settings)[std::string(key)] = {*value, "environment variable " + variable};
  };
  for (std::string_view key : kUnderstood) apply(key);
  for (std::string_view key : kWithoutMeaning) apply(key);
}

Status CheckKeys(const Settings& settings, VelocConfig* config) {
  std::string without_meaning;
  for (const auto& [key, setting] : settings) {
    // A value becomes the rest of a line of overrides (the environment can hold lines, the file NULs).
    if (setting.value.find_first_of(std::string_view("\n\0", 2)) != std::string::npos) {
      return Status(Code::kInvalidArgument, fmt::format("{}: {}: expected a value without line ends", setting.origin, key));
    }
    if (Contains(kWithoutMeaning, key)) {
      without_meaning += (without_meaning.empty() ? "" : ", ") + key;
    } else if (!Contains(kUnderstood, key)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: unknown key '{}'; known are {} and, without effect, {}", setting.origin, key,
                                fmt::join(kUnderstood, ", "), fmt::join(kWithoutMeaning, ", ")));
    }
  }
  if (!without_meaning.empty()) {
    config->warnings.push_back(fmt::format("these keys of the VELOC configuration have no meaning here: {}", without_meaning));
  }
  return Status::Ok();
}

// Turns the settings into overrides, key by key.
class Translator {
 public:
  Translator(const Settings& settings, const std::string& path, VelocConfig* config)
      : settings_(settings), path_(path), config_(config) {}

  Status Run() {
    KEDGE_RETURN_IF_ERROR(Path("scratch", "job.scratch"));
    KEDGE_RETURN_IF_ERROR(Path("persistent", "store.path"));
    KEDGE_RETURN_IF_ERROR(Mode());
    // 0, the default, keeps all.
    KEDGE_RETURN_IF_ERROR(Versions("max_versions", "keep.versions"));
    KEDGE_RETURN_IF_ERROR(Versions("scratch_versions", "keep.local"));
    KEDGE_RETURN_IF_ERROR(PersistentInterval());
    return Harmless();
  }

 private:
  const Setting* Find(const std::string& key) const {
    const auto found = settings_.find(key);
    return found == settings_.end() ? nullptr : &found->second;
  }

  Status Expected(const std::string& key, const Setting& setting, std::string_view what) const {
    return Status(Code::kInvalidArgument, fmt::format("{}: {} = '{}': expected {}", setting.origin, key, setting.value, what));
  }

  void Override(std::string_view key, std::string_view value) { config_->overrides += fmt::format("{}={}\n", key, value); }

  Status Path(const std::string& key, std::string_view target) {
    const Setting* setting = Find(key);
    if (setting == nullptr || setting->value.empty()) {
      return Status(Code::kInvalidArgument, fmt::format("{}: the key '{}' is missing; expected a path", path_, key));
    }
    Override(target, setting->value);
    return Status::Ok();
  }

  Status Mode() {
    const Setting* setting = Find("mode");
    if (setting == nullptr) {
      return Status(Code::kInvalidArgument, fmt::format("{}: the key 'mode' is missing; expected sync or async", path_));
    }
    const std::string mode = WithCase(setting->value, std::tolower);
    if (mode != "sync" && mode != "async") return Expected("mode", *setting, "sync or async");
    Override("job.mode", mode);
    return Status::Ok();
  }

  Result<std::optional<int>> Integer(const std::string& key, int minimum) const {
    const Setting* setting = Find(key);
    if (setting == nullptr) return std::optional<int>();
    int value = 0;
    const char* end = setting->value.data() + setting->value.size();
    const auto [stop, error] = std::from_chars(setting->value.data(), end, value);
    if (error != std::errc() || stop != end || value < minimum) {
      return Expected(key, *setting, fmt::format("a whole number of at least {}", minimum));
    }
    return std::optional<int>(value);
  }

  Status Versions(const std::string& key, std::string_view target) {
    KEDGE_ASSIGN_OR_RETURN(const auto value, Integer(key, 0));
    const int count = value.value_or(0);
    Override(target, std::to_string(count == 0 ? kKeepAll : count));
    return Status::Ok();
  }

  // Seconds between two versions that go to the persistent path: 0 all of them, -1 none.
  Status PersistentInterval() {
    KEDGE_ASSIGN_OR_RETURN(const auto value, Integer("persistent_interval", -1));
    const int seconds = value.value_or(0);
    if (seconds < 0) {
      Override("schedule.store", "0");
    } else if (seconds > 0) {
      Override("schedule.store_interval", fmt::format("{}s", seconds));
    }
    return Status::Ok();
  }

  // What needs no setting: checksums are always on and lie with the data, a dead client is always noticed.
  Status Harmless() {
    KEDGE_RETURN_IF_ERROR(Integer("watchdog_interval", -1).status());
    KEDGE_ASSIGN_OR_RETURN(const auto erasure, Integer("ec_interval", -1));
    if (erasure.value_or(-1) >= 0) {
      config_->warnings.push_back("ec_interval: this build protects by local copies and the persistent path only");
    }
    if (const Setting* setting = Find("chksum")) {
      const std::string value = WithCase(setting->value, std::tolower);
      const auto is = [&](std::string_view text) { return value == text; };
      if (!is("true") && !is("false") && !is("yes") && !is("no") && !is("on") && !is("off") && !is("1") && !is("0")) {
        return Expected("chksum", *setting, "true or false");
      }
    }
    return Status::Ok();
  }

  const Settings& settings_;
  const std::string& path_;
  VelocConfig* config_;
};

}  // namespace

Result<VelocConfig> ParseVelocConfig(std::string_view text, const std::string& path, const EnvironmentLookup& environment) {
  VelocConfig config;
  KEDGE_ASSIGN_OR_RETURN(Settings settings, ReadSettings(text, path));
  ApplyEnvironment(environment, &settings);
  KEDGE_RETURN_IF_ERROR(CheckKeys(settings, &config));
  KEDGE_RETURN_IF_ERROR(Translator(settings, path, &config).Run());
  return config;
}

}  // namespace kedge

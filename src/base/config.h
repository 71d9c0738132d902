// The configuration: one TOML file, KEDGE_SECTION_KEY variables and the program's own settings over a registry of keys.
//
// The registry is data that the layers above pass in, so each layer owns its keys; this file only knows how to read,
// check and explain them. Later sources win: default, file, environment, program. Every value remembers where it came
// from. An unknown key in the file is an error that names the nearest known one; an unknown KEDGE_* variable is a
// warning, because variables leak in from other programs.
//
// A Config is a value: copy it freely; reading is thread safe, Set is not.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/duration.h"
#include "base/status.h"

namespace kedge {

enum class KeyType { kBool, kInt64, kDouble, kString, kBytes, kDuration };
// Whose the key is: the node's (tiers, pool; one running agent has one value) or the job's (store, keep, schedule).
enum class KeyScope { kNode, kJob };

struct KeySpec {
  std::string name = {};  // "section.key"; inside a table list only "key"
  KeyType type = KeyType::kString;
  std::string default_text = {};  // as a person would write it; "auto" where auto_allowed
  KeyScope scope = KeyScope::kJob;
  std::string doc = {};   // one line
  std::string unit = {};  // for people, where the type does not say it: "versions"
  // "auto" is accepted, and means that the product computes the value. Readers ask IsAuto first.
  bool auto_allowed = false;
  // In a table list: the entry must name it.
  bool required = false;
  // Never printed: entries show "(set)" or nothing.
  bool secret = false;
  std::vector<std::string> choices = {};  // kString: the allowed values; empty means any
  // Numbers, bytes and durations (in seconds) outside are refused.
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
};

// An array of tables: [[tier]]. Its variable, KEDGE_TIER, holds a TOML array: [{name="ssd", path="/ssd"}].
struct TableListSpec {
  std::string name = {};
  KeyScope scope = KeyScope::kNode;
  std::string doc = {};
  std::vector<KeySpec> keys = {};
};

class ConfigRegistry {
 public:
  // Broken specifications (a second key of that name or variable, a default that its own type refuses) abort.
  void Add(KeySpec spec);
  void AddTableList(TableListSpec spec);
  // A documented KEDGE_* variable that is no key. Those of variables_ below are there already.
  void AddVariable(std::string name, std::string doc);

  const KeySpec* Find(std::string_view name) const;
  const TableListSpec* FindTableList(std::string_view name) const;
  const std::map<std::string, KeySpec, std::less<>>& keys() const { return keys_; }
  const std::map<std::string, TableListSpec, std::less<>>& table_lists() const { return table_lists_; }
  const std::map<std::string, std::string, std::less<>>& variables() const { return variables_; }

  // "pool.chunk_bytes" -> "KEDGE_POOL_CHUNK_BYTES".
  static std::string VariableOf(std::string_view name);
  // The known key or table list whose name is closest to `name`, if any is close.
  std::optional<std::string> Nearest(std::string_view name) const;
  // The same of the variables of keys and table lists, and the other known ones.
  std::optional<std::string> NearestVariable(std::string_view variable) const;

 private:
  std::map<std::string, KeySpec, std::less<>> keys_;
  std::set<std::string> key_variables_;  // those of keys_
  std::map<std::string, TableListSpec, std::less<>> table_lists_;
  std::map<std::string, std::string, std::less<>> variables_ = {
      {"KEDGE_CONFIG", "path of the configuration file"},
      {"KEDGE_LOG", "log level: debug, info, warning, error or off"},
      {"KEDGE_NODE", "name of the node, for several virtual nodes on one machine"},
      {"KEDGE_SECRET", "secret that the agents of a job prove to each other"},
      {"KEDGE_STRICT", "0: an unknown KEDGE_ variable is a warning instead of an error"},
  };
};

// `text` as a TOML string, quotes included: for values inside the text of a table list. UTF-8 stays as it is.
std::string QuoteToml(std::string_view text);

struct ConfigOrigin {
  enum class Kind { kDefault, kFile, kEnvironment, kProgram };
  Kind kind = Kind::kDefault;
  std::string text = "default";  // "default", "/etc/kedge/kedge.toml:12", "KEDGE_POOL_BYTES", "program"
};

struct ConfigAuto {};
using ConfigData = std::variant<ConfigAuto, bool, int64_t, double, std::string, uint64_t /* bytes */, Duration>;

struct ConfigValue {
  ConfigData data;
  ConfigOrigin origin;
};

// One entry of a table list. Getters abort on a name or type that the specification lacks.
class ConfigTable {
 public:
  bool IsAuto(std::string_view key) const;
  bool GetBool(std::string_view key) const;
  int64_t GetInt64(std::string_view key) const;
  double GetDouble(std::string_view key) const;
  const std::string& GetString(std::string_view key) const;
  uint64_t GetBytes(std::string_view key) const;
  Duration GetDuration(std::string_view key) const;
  const ConfigOrigin& origin() const { return origin_; }

 private:
  friend class Config;
  friend class ConfigReader;
  std::map<std::string, ConfigValue, std::less<>> values_;
  ConfigOrigin origin_;
};

// Where to read from. FromProcess() is what programs use; tests fill it in themselves.
struct ConfigSources {
  // This file, which must exist; otherwise the first that exists of $KEDGE_CONFIG (which must exist when set),
  // ./kedge.toml, $XDG_CONFIG_HOME/kedge/kedge.toml or ~/.config/kedge/kedge.toml, /etc/kedge/kedge.toml.
  std::optional<std::string> file = {};
  bool search_files = true;
  // Variables and their values; only KEDGE_*, XDG_CONFIG_HOME and HOME are looked at.
  std::map<std::string, std::string> environment = {};
  // Keys and texts set by the program, as an environment variable would write them.
  std::vector<std::pair<std::string, std::string>> overrides = {};

  static ConfigSources FromProcess();
};

// A line of `kedge config`.
struct ConfigEntry {
  std::string key;
  std::string value_text;  // accepted by Set, unless the key is secret
  std::string unit;
  std::string doc;
  KeyScope scope;
  ConfigOrigin origin;
};

class Config {
 public:
  // The first error found, naming file, line and key, what was expected and what was found.
  static Result<Config> Load(const ConfigRegistry& registry, const ConfigSources& sources);

  // Getters abort on a key that is not in the registry or has another type: that is a mistake in the code.
  // A key that is "auto" reads as zero; ask IsAuto first.
  bool IsAuto(std::string_view key) const;
  bool GetBool(std::string_view key) const;
  int64_t GetInt64(std::string_view key) const;
  double GetDouble(std::string_view key) const;
  const std::string& GetString(std::string_view key) const;
  uint64_t GetBytes(std::string_view key) const;
  Duration GetDuration(std::string_view key) const;
  const std::vector<ConfigTable>& GetTables(std::string_view name) const;
  const ConfigOrigin& OriginOf(std::string_view key) const;

  // As an override: `text` as an environment variable would write it; for a table list a TOML array.
  Status Set(std::string_view key, std::string_view text, ConfigOrigin origin = {ConfigOrigin::Kind::kProgram, "program"});

  // The value as text that Set accepts and that is the same for equal values: to compare and to pass on.
  std::string TextOf(std::string_view key) const;

  // All keys and table lists, sorted by name.
  std::vector<ConfigEntry> Entries() const;
  // The file that was read; empty when none.
  const std::string& file() const { return file_; }
  // Unknown KEDGE_* variables (where KEDGE_STRICT=0), each a sentence that the caller prints.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class ConfigReader;
  ConfigRegistry registry_;
  std::map<std::string, ConfigValue, std::less<>> values_;
  std::map<std::string, std::vector<ConfigTable>, std::less<>> tables_;
  std::map<std::string, ConfigOrigin, std::less<>> table_origins_;
  std::string file_;
  std::vector<std::string> warnings_;
};

}  // namespace kedge

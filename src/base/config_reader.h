// Reads the sources of a Config one after the other into it. Internal to config.
#pragma once

#include <string>
#include <string_view>

#include "base/config.h"

namespace kedge {

class ConfigReader {
 public:
  explicit ConfigReader(Config& config) : config_(config) {}

  void ReadDefaults(const ConfigRegistry& registry);
  // `text` is the content of the file, `path` its name in messages and origins.
  Status ReadToml(std::string_view text, const std::string& path);
  Status ReadEnvironment(const std::map<std::string, std::string>& environment);
  Status Set(std::string_view key, std::string_view text, const ConfigOrigin& origin);

 private:
  Status SetKey(const KeySpec& spec, std::string_view text, const ConfigOrigin& origin);
  Status SetTableList(const TableListSpec& spec, std::string_view text, const ConfigOrigin& origin);
  Status UnknownKey(std::string_view key, const std::string& where) const;
  Status UnknownVariable(const std::string& variable) const;
  struct Toml;  // the parts that know toml++
  friend struct Toml;

  Config& config_;
};

// The file that `sources` name, by the rules there; empty when there is none.
Result<std::string> FindConfigFile(const ConfigSources& sources);

}  // namespace kedge

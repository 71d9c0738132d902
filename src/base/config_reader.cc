// The only file that includes toml++ (it is slow to compile).
#include "base/config_reader.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts in parse_key what the code below it then reports as an error: "[.]" would abort the program.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/config_value.h"

extern char** environ;

namespace kedge {
namespace {

std::string Where(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}", path, source.begin.line);
}

Result<toml::table> ParseToml(std::string_view text, const std::string& path) {
  toml::parse_result parsed = toml::parse(text, std::string_view(path));
  if (parsed.failed()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: not TOML: {}", Where(path, parsed.error().source()), parsed.error().description()));
  }
  return std::move(parsed).table();
}

const char* TomlTypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

// The text of a TOML value, where its TOML type fits the key's. Byte counts and durations may be numbers or strings.
Result<std::string> TextOfNode(const KeySpec& spec, const toml::node& node) {
  const bool quantity = spec.type == KeyType::kBytes || spec.type == KeyType::kDuration;
  const auto* string = node.as_string();
  if (string != nullptr && (spec.type == KeyType::kString || quantity || (spec.auto_allowed && **string == "auto"))) {
    return std::string(**string);
  }
  if (const auto* boolean = node.as_boolean(); boolean != nullptr && spec.type == KeyType::kBool) {
    return std::string(**boolean ? "true" : "false");
  }
  const bool number = quantity || spec.type == KeyType::kDouble;
  if (const auto* whole = node.as_integer(); whole != nullptr && (number || spec.type == KeyType::kInt64)) {
    return fmt::format("{}", **whole);
  }
  if (const auto* floating = node.as_floating_point(); floating != nullptr && number)
    return fmt::format("{}", **floating);
  return Status(Code::kInvalidArgument,
                fmt::format("expected a value of type {}, found {}", KeyTypeName(spec.type), TomlTypeName(node)));
}

Result<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Status(Code::kNotFound, fmt::format("cannot open the configuration file {}", path));
  std::ostringstream content;
  content << stream.rdbuf();
  if (stream.bad()) return Status(Code::kIo, fmt::format("cannot read the configuration file {}", path));
  return content.str();
}

}  // namespace

struct ConfigReader::Toml {
  ConfigReader& reader;
  const std::string& path;
  // Set when the text is a variable's or the program's, not a file's.
  const ConfigOrigin* origin = nullptr;

  ConfigOrigin OriginOf(const toml::node& node) const {
    if (origin != nullptr) return *origin;
    return {ConfigOrigin::Kind::kFile, Where(path, node.source())};
  }

  Status ReadTable(const toml::table& table, const std::string& prefix) {
    const ConfigRegistry& registry = reader.config_.registry_;
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      if (const KeySpec* spec = registry.Find(name)) {
        const auto text = TextOfNode(*spec, node);
        if (!text.ok()) return text.status().WithContext(fmt::format("{}: {}", OriginOf(node).text, name));
        KEDGE_RETURN_IF_ERROR(reader.SetKey(*spec, *text, OriginOf(node)));
      } else if (const TableListSpec* list = registry.FindTableList(name)) {
        KEDGE_RETURN_IF_ERROR(ReadTableList(*list, node));
      } else if (node.is_table()) {
        KEDGE_RETURN_IF_ERROR(ReadTable(*node.as_table(), name + "."));
      } else {
        return reader.UnknownKey(name, OriginOf(node).text);
      }
    }
    return Status::Ok();
  }

  Status ReadTableList(const TableListSpec& spec, const toml::node& node) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return Status(Code::kInvalidArgument, fmt::format("{}: {}: expected an array of tables ([[{}]]), found {}",
                                                        OriginOf(node).text, spec.name, spec.name, TomlTypeName(node)));
    }
    std::vector<ConfigTable> tables;
    for (const toml::node& element : *array) {
      if (!element.is_table()) {
        return Status(Code::kInvalidArgument, fmt::format("{}: {}: expected a table, found {}", OriginOf(element).text,
                                                          spec.name, TomlTypeName(element)));
      }
      KEDGE_ASSIGN_OR_RETURN(ConfigTable table, ReadEntry(spec, *element.as_table()));
      tables.push_back(std::move(table));
    }
    reader.config_.tables_.insert_or_assign(spec.name, std::move(tables));
    reader.config_.table_origins_.insert_or_assign(spec.name, OriginOf(node));
    return Status::Ok();
  }

  Result<ConfigTable> ReadEntry(const TableListSpec& list, const toml::table& entry) {
    ConfigTable table;
    table.origin_ = OriginOf(entry);
    for (const auto& [key, node] : entry) {
      const std::string name(key.str());
      const bool known =
          std::any_of(list.keys.begin(), list.keys.end(), [&](const KeySpec& spec) { return spec.name == name; });
      if (!known) return reader.UnknownKey(list.name + "." + name, OriginOf(node).text);
    }
    for (const KeySpec& spec : list.keys) {
      const std::string context = fmt::format("{}: {}.{}", table.origin_.text, list.name, spec.name);
      const toml::node* node = entry.get(spec.name);
      if (node == nullptr && spec.required) {
        return Status(Code::kInvalidArgument, fmt::format("{}: missing; every [[{}]] names it", context, list.name));
      }
      std::string text = spec.default_text;
      ConfigOrigin value_origin;
      if (node != nullptr) {
        auto found = TextOfNode(spec, *node);
        if (!found.ok()) return found.status().WithContext(context);
        text = std::move(*found);
        value_origin = OriginOf(*node);
      }
      auto data = ParseConfigData(spec, text);
      if (!data.ok()) return data.status().WithContext(context);
      table.values_.emplace(spec.name, ConfigValue{std::move(*data), std::move(value_origin)});
    }
    return table;
  }
};

void ConfigReader::ReadDefaults(const ConfigRegistry& registry) {
  config_.registry_ = registry;
  for (const auto& [name, spec] : registry.keys()) {
    config_.values_.emplace(name, ConfigValue{ParseConfigData(spec, spec.default_text).value(), {}});
  }
  for (const auto& [name, spec] : registry.table_lists()) {
    config_.tables_.emplace(name, std::vector<ConfigTable>());
    config_.table_origins_.emplace(name, ConfigOrigin());
  }
}

Status ConfigReader::ReadToml(std::string_view text, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const toml::table table, ParseToml(text, path));
  return Toml{*this, path}.ReadTable(table, "");
}

Status ConfigReader::ReadEnvironment(const std::map<std::string, std::string>& environment) {
  std::map<std::string, std::string> names;  // by variable
  for (const auto& [name, spec] : config_.registry_.keys()) names.emplace(ConfigRegistry::VariableOf(name), name);
  for (const auto& [name, spec] : config_.registry_.table_lists())
    names.emplace(ConfigRegistry::VariableOf(name), name);
  for (const auto& [variable, text] : environment) {
    if (variable.rfind("KEDGE_", 0) != 0) continue;
    if (const auto name = names.find(variable); name != names.end()) {
      KEDGE_RETURN_IF_ERROR(Set(name->second, text, {ConfigOrigin::Kind::kEnvironment, variable}));
    } else if (config_.registry_.variables().count(variable) == 0) {
      config_.warnings_.push_back(
          fmt::format("the environment variable {} is no key of the configuration and is ignored", variable));
    }
  }
  return Status::Ok();
}

Status ConfigReader::Set(std::string_view key, std::string_view text, const ConfigOrigin& origin) {
  if (const KeySpec* spec = config_.registry_.Find(key)) return SetKey(*spec, text, origin);
  if (const TableListSpec* spec = config_.registry_.FindTableList(key)) return SetTableList(*spec, text, origin);
  return UnknownKey(key, origin.text);
}

Status ConfigReader::SetKey(const KeySpec& spec, std::string_view text, const ConfigOrigin& origin) {
  auto data = ParseConfigData(spec, text);
  if (!data.ok()) {
    if (spec.secret)
      return Status(Code::kInvalidArgument, fmt::format("{}: {}: not a valid value", origin.text, spec.name));
    return data.status().WithContext(fmt::format("{}: {}", origin.text, spec.name));
  }
  config_.values_.insert_or_assign(spec.name, ConfigValue{std::move(*data), origin});
  return Status::Ok();
}

Status ConfigReader::SetTableList(const TableListSpec& spec, std::string_view text, const ConfigOrigin& origin) {
  KEDGE_ASSIGN_OR_RETURN(const toml::table table, ParseToml(fmt::format("value = {}", text), origin.text));
  if (table.size() != 1) {
    return Status(Code::kInvalidArgument, fmt::format("{}: expected one TOML array of tables", origin.text));
  }
  return Toml{*this, origin.text, &origin}.ReadTableList(spec, *table.get("value"));
}

Status ConfigReader::UnknownKey(std::string_view key, const std::string& where) const {
  std::string hint = "; `kedge config` lists all keys";
  // Keys inside table lists are looked for among that list's own.
  if (const size_t dot = key.find('.'); dot != std::string_view::npos) {
    if (const TableListSpec* list = config_.registry_.FindTableList(key.substr(0, dot))) {
      hint = "; known there are";
      for (const KeySpec& spec : list->keys) hint += " " + spec.name;
      return Status(Code::kInvalidArgument, fmt::format("{}: unknown key '{}'{}", where, key, hint));
    }
  }
  if (const auto nearest = config_.registry_.Nearest(key)) hint = fmt::format("; did you mean '{}'?", *nearest);
  return Status(Code::kInvalidArgument, fmt::format("{}: unknown key '{}'{}", where, key, hint));
}

Result<std::string> FindConfigFile(const ConfigSources& sources) {
  if (sources.file) return *sources.file;
  if (!sources.search_files) return std::string();
  const auto variable = [&](const char* name) {
    const auto found = sources.environment.find(name);
    return found == sources.environment.end() ? std::string() : found->second;
  };
  if (const std::string named = variable("KEDGE_CONFIG"); !named.empty()) return named;
  std::vector<std::string> candidates = {"kedge.toml"};
  if (const std::string xdg = variable("XDG_CONFIG_HOME"); !xdg.empty()) {
    candidates.push_back(xdg + "/kedge/kedge.toml");
  } else if (const std::string home = variable("HOME"); !home.empty()) {
    candidates.push_back(home + "/.config/kedge/kedge.toml");
  }
  candidates.push_back("/etc/kedge/kedge.toml");
  for (const std::string& candidate : candidates) {
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error)) {
      const auto absolute = std::filesystem::absolute(candidate, error);
      return error ? candidate : absolute.string();
    }
  }
  return std::string();
}

ConfigSources ConfigSources::FromProcess() {
  ConfigSources sources;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.substr(0, 6) == "KEDGE_" || name == "HOME" || name == "XDG_CONFIG_HOME") {
      sources.environment.emplace(name, text.substr(equals + 1));
    }
  }
  return sources;
}

Result<Config> Config::Load(const ConfigRegistry& registry, const ConfigSources& sources) {
  Config config;
  ConfigReader reader(config);
  reader.ReadDefaults(registry);
  KEDGE_ASSIGN_OR_RETURN(config.file_, FindConfigFile(sources));
  if (!config.file_.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(config.file_));
    KEDGE_RETURN_IF_ERROR(reader.ReadToml(text, config.file_));
  }
  KEDGE_RETURN_IF_ERROR(reader.ReadEnvironment(sources.environment));
  for (const auto& [key, text] : sources.overrides) KEDGE_RETURN_IF_ERROR(config.Set(key, text));
  return config;
}

Status Config::Set(std::string_view key, std::string_view text, ConfigOrigin origin) {
  return ConfigReader(*this).Set(key, text, origin);
}

}  // namespace kedge

// kedge config: the effective configuration, and where each value came from.
#include <fmt/format.h>

#include <cstdio>

#include "base/json_writer.h"
#include "session/config_keys.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct ConfigToolOptions {
  ConfigOptions config;
  bool docs = false;
  bool json = false;
};

// What stands in each [[NAME]] of the file: one row or object a key, with its default.
void AddTableLists(JsonWriter* json, Table* table) {
  const ConfigRegistry registry = KedgeConfigRegistry();
  json->Key("tables").BeginArray();
  for (const auto& [name, list] : registry.table_lists()) {
    for (const KeySpec& key : list.keys) {
      json->BeginObject().Field("key", name + "." + key.name).Field("default", key.default_text).Field("required", key.required);
      json->Field("doc", key.doc).EndObject();
      const std::string value = key.required ? "(must be given)" : key.default_text;
      table->AddRow(
          {name + "." + key.name, value, "each [[" + name + "]]", list.scope == KeyScope::kNode ? "node" : "job", key.doc});
    }
  }
  json->EndArray();
}

Outcome ShowConfig(const ConfigToolOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  JsonWriter json;
  json.BeginObject().Field("file", config.file()).Key("keys").BeginArray();
  Table table(options.docs ? std::vector<std::string>{"KEY", "VALUE", "FROM", "OF THE", "MEANING"}
                           : std::vector<std::string>{"KEY", "VALUE", "FROM"});
  for (const ConfigEntry& entry : config.Entries()) {
    const char* scope = entry.scope == KeyScope::kNode ? "node" : "job";
    const std::string value = entry.unit.empty() ? entry.value_text : entry.value_text + " " + entry.unit;
    json.BeginObject()
        .Field("key", entry.key)
        .Field("value", entry.value_text)
        .Field("unit", entry.unit)
        .Field("origin", entry.origin.text);
    json.Field("scope", scope).Field("doc", entry.doc).Field("variable", ConfigRegistry::VariableOf(entry.key)).EndObject();
    std::vector<std::string> row{entry.key, value, entry.origin.text};
    if (options.docs) row.insert(row.end(), {scope, entry.doc});
    table.AddRow(std::move(row));
  }
  json.EndArray();
  if (options.docs) AddTableLists(&json, &table);
  json.EndObject();
  if (options.json) {
    PrintJson(json.text());
  } else {
    std::printf("file: %s\n%s", config.file().empty() ? "none" : config.file().c_str(), table.Text().c_str());
  }
  return kExitOk;
}

}  // namespace

Command ConfigCommand() {
  return {
      "config", "show the effective configuration and where each value came from", [](CLI::App& app) {
        auto options = std::make_shared<ConfigToolOptions>();
        options->config.AddTo(app);
        app.add_flag("--docs", options->docs, "also what each key means, and whether it belongs to the node or the job");
        app.add_flag("--json", options->json, "print JSON");
        app.footer(
            "Every key can be set in the file ([section] key = value), by KEDGE_SECTION_KEY in the environment, or with --set.\n"
            "Examples:\n  kedge config --docs\n  kedge config --set keep.versions=3");
        return [options] { return ShowConfig(*options); };
      }};
}

}  // namespace kedge::tools

// kedge config: the effective configuration, and where each value came from.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
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

// A key with what it means.
std::string Documented(const std::string& key, const std::string& value, const std::string& from, const std::string& doc) {
  return Wrapped(fmt::format("{} = {}  ({})", key, value, from)) + Wrapped("    " + doc) + "\n";
}

// What stands in each [[NAME]] of the file: a paragraph and an object in the array for each key, with its default.
Json AddTableLists(std::string* text) {
  const ConfigRegistry registry = KedgeConfigRegistry();
  Json keys = Json::array();
  for (const auto& [name, list] : registry.table_lists()) {
    for (const KeySpec& key : list.keys) {
      keys.push_back(
          {{"key", name + "." + key.name}, {"default", key.default_text}, {"required", key.required}, {"doc", key.doc}});
      const std::string value = key.required ? "(must be given)" : key.default_text;
      const char* scope = list.scope == KeyScope::kNode ? "node" : "job";
      *text += Documented(name + "." + key.name, value, fmt::format("in each [[{}]] of the {}", name, scope), key.doc);
    }
  }
  return keys;
}

Outcome ShowConfig(const ConfigToolOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  Json keys = Json::array();
  Table table({"KEY", "VALUE", "FROM"});
  std::string docs;
  for (const ConfigEntry& entry : config.Entries()) {
    const char* scope = entry.scope == KeyScope::kNode ? "node" : "job";
    const std::string value = entry.unit.empty() ? entry.value_text : entry.value_text + " " + entry.unit;
    keys.push_back({{"key", entry.key},
                    {"value", entry.value_text},
                    {"unit", entry.unit},
                    {"origin", entry.origin.text},
                    {"scope", scope},
                    {"doc", entry.doc},
                    {"variable", ConfigRegistry::VariableOf(entry.key)}});
    table.AddRow({entry.key, value, entry.origin.text});
    docs += Documented(entry.key, value, fmt::format("{}; of the {}", entry.origin.text, scope), entry.doc);
  }
  Json json{{"file", config.file()}, {"keys", std::move(keys)}};
  if (options.docs) json["tables"] = AddTableLists(&docs);
  if (options.json) {
    PrintJson(json);
  } else {
    std::printf("file: %s\n%s", config.file().empty() ? "none" : config.file().c_str(),
                options.docs ? ("\n" + docs).c_str() : table.Text().c_str());
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

// Any text as the configuration file, or as a variable of any key, over the registry that the product uses. What is
// accepted can be printed and set again and is then the same (clients pass it to the agent that way), and the structs
// that are read from it are within their limits.
#include <fuzzer/FuzzedDataProvider.h>

#include "base/config_reader.h"
#include "base/status.h"
#include "session/config_keys.h"
#include "store/places/store_path.h"

namespace kedge {
namespace {

const ConfigRegistry& Registry() {
  static const ConfigRegistry registry = KedgeConfigRegistry();
  return registry;
}

// A key or table list of the registry.
std::string AnyKey(FuzzedDataProvider& input) {
  std::vector<std::string> names;
  for (const auto& [name, spec] : Registry().keys()) names.push_back(name);
  for (const auto& [name, spec] : Registry().table_lists()) names.push_back(name);
  return names[input.ConsumeIntegralInRange<size_t>(0, names.size() - 1)];
}

void CheckTextsComeBack(const Config& config) {
  Config again = config;
  for (const ConfigEntry& entry : config.Entries()) {
    const std::string text = config.TextOf(entry.key);
    KEDGE_CHECK(again.Set(entry.key, text).ok());
    KEDGE_CHECK(again.TextOf(entry.key) == text);
  }
}

void CheckSettings(const Config& config) {
  if (auto node = ReadNodeSettings(config); node.ok()) {
    KEDGE_CHECK(node->run_folder.starts_with("/") && node->piece_bytes >= kPieceBytesMin && node->flush_workers > 0);
    KEDGE_CHECK(!node->chunk_bytes.has_value() || *node->chunk_bytes >= kPieceBytesMin);
    for (const TierSettings& tier : node->tiers) KEDGE_CHECK(tier.path.starts_with("/"));
    // What a client passes to the agent that it starts means the same there.
    auto keys = ExplicitNodeKeys(config);
    KEDGE_CHECK(keys.ok());
    auto passed = Config::Load(Registry(), {.search_files = false, .overrides = *keys});
    KEDGE_CHECK(passed.ok());
    auto node_again = ReadNodeSettings(*passed);
    KEDGE_CHECK(node_again.ok() && node_again->tiers.size() == node->tiers.size());
    for (size_t i = 0; i < node->tiers.size(); ++i) KEDGE_CHECK(node_again->tiers[i].path == node->tiers[i].path);
  }
  if (auto job = ReadJobSettings(config); job.ok()) {
    KEDGE_CHECK(IsResolvedStorePath(job->keys.store_path) && job->keys.keep_versions >= 1 && job->lease > Duration::zero());
  }
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  FuzzedDataProvider input(data, bytes);
  static const Config defaults = Config::Load(Registry(), {.search_files = false}).value();
  Config config = defaults;
  // Variables first, since the text of the file takes the rest of the input.
  for (int variables = input.ConsumeIntegralInRange(0, 3); variables > 0; --variables) {
    const std::string key = AnyKey(input);
    static_cast<void>(config.Set(key, input.ConsumeRandomLengthString()));
  }
  const std::string text = input.ConsumeRemainingBytesAsString();
  static_cast<void>(ConfigReader(config).ReadToml(text, "kedge.toml"));
  // A refused text leaves the keys that came before the error; all of them hold to the rules.
  CheckTextsComeBack(config);
  CheckSettings(config);
  return 0;
}

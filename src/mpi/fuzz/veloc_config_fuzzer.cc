// Any text as VELOC's INI file, any values in its environment: refused, or turned into lines of overrides, one setting
// each, of keys that Kedge has.
#include <fuzzer/FuzzedDataProvider.h>

#include "base/status.h"
#include "mpi/veloc_config.h"
#include "session/config_keys.h"

namespace {

void CheckOverrides(std::string_view lines) {
  static const kedge::ConfigRegistry registry = kedge::KedgeConfigRegistry();
  std::string_view last;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    KEDGE_CHECK(end != std::string_view::npos);
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 1);
    const size_t equals = line.find('=');
    KEDGE_CHECK(equals != std::string_view::npos);
    const std::string_view key = line.substr(0, equals);
    KEDGE_CHECK(registry.Find(key) != nullptr);
    KEDGE_CHECK(key != last);  // no value has made a line of its own
    last = key;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  FuzzedDataProvider input(data, bytes);
  const std::string variable = input.ConsumeBool() ? "VELOC_SCRATCH" : "VELOC_PERSISTENT_INTERVAL";
  const std::string value = input.ConsumeRandomLengthString();
  const std::string text = input.ConsumeRemainingBytesAsString();
  auto config = kedge::ParseVelocConfig(text, "veloc.cfg", [&](const std::string& name) {
    return name == variable && !value.empty() ? std::optional<std::string>(value) : std::nullopt;
  });
  if (config.ok()) CheckOverrides(config->overrides);
  return 0;
}

#include "modelled/scenario.h"

#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <sstream>

namespace kedge::bench {
namespace {

constexpr uint32_t kTransfersMax = 4'000'000;

constexpr double kCurveMegabytesMax = 1e9;

// What stands in the file, for a message.
std::string Found(const toml::node* node) {
  if (node == nullptr) return "missing";
  std::ostringstream text;
  text << toml::node_view<const toml::node>(*node) << " found";
  return text.str();
}

// Reads the keys of one table; remembers the first thing that is wrong.
class Reader {
 public:
  Reader(const toml::table& table, std::string where, Status* status)
      : table_(table), where_(std::move(where)), status_(status) {}

  void AllowOnly(std::initializer_list<std::string_view> keys) {
    for (const auto& [key, node] : table_) {
      if (std::find(keys.begin(), keys.end(), key.str()) == keys.end()) {
        Fail(key.str(), fmt::format("unknown key; there are {}", fmt::join(keys, ", ")));
      }
    }
  }

  double Number(std::string_view key, double minimum, double maximum, std::optional<double> otherwise = {}) {
    const toml::node* node = table_.get(key);
    if (node == nullptr && otherwise) return *otherwise;
    const auto value = node == nullptr ? std::nullopt : node->value<double>();
    if (!value || !(*value >= minimum && *value <= maximum)) {
      Fail(key, fmt::format("{}; must be a number from {} to {}", Found(node), minimum, maximum));
      return minimum;
    }
    return *value;
  }

  uint32_t Count(std::string_view key, double minimum, double maximum, std::optional<double> otherwise = {}) {
    const double value = Number(key, minimum, maximum, otherwise);
    if (value != std::floor(value)) {
      Fail(key, fmt::format("{} found; must be a whole number from {} to {}", value, minimum, maximum));
    }
    return static_cast<uint32_t>(value);
  }

  std::string Text(std::string_view key) {
    const auto value = table_[key].value<std::string>();
    if (!value || value->empty()) Fail(key, Found(table_.get(key)) + "; must be a text, and not empty");
    return value.value_or("");
  }

  // Empty without the key.
  std::vector<std::pair<double, double>> Pairs(std::string_view key) {
    std::vector<std::pair<double, double>> pairs;
    const toml::array* list = table_[key].as_array();
    if (list == nullptr) {
      if (table_.contains(key)) Fail(key, Found(table_.get(key)) + "; must be a list of pairs of numbers");
      return pairs;
    }
    for (const toml::node& node : *list) {
      const toml::array* pair = node.as_array();
      const auto first = pair != nullptr && pair->size() == 2 ? (*pair)[0].value<double>() : std::nullopt;
      const auto second = pair != nullptr && pair->size() == 2 ? (*pair)[1].value<double>() : std::nullopt;
      if (!first || !second) {
        Fail(key, Found(&node) + "; must be a pair of numbers");
        return pairs;
      }
      pairs.emplace_back(*first, *second);
    }
    return pairs;
  }

  std::optional<ThroughputCurve> Curve(std::string_view key) {
    std::vector<ThroughputSample> samples;
    for (const auto& [writers, megabytes] : Pairs(key)) {
      const double before = samples.empty() ? 0 : samples.back().writers;
      const bool good_writers = writers > before && writers <= ThroughputCurve::kWritersMax && writers == std::floor(writers);
      if (!good_writers || !(megabytes > 0 && megabytes <= kCurveMegabytesMax)) {
        Fail(key, fmt::format("[{}, {}] found; must be writers, whole, from {} to {}, and MB/s, above 0 and up to {}", writers,
                              megabytes, before + 1, ThroughputCurve::kWritersMax, kCurveMegabytesMax));
        return {};
      }
      samples.push_back({static_cast<uint32_t>(writers), megabytes * 1e6});
    }
    if (samples.empty()) {
      Fail(key, Found(table_.get(key)) + "; must be one pair at least, [writers, MB/s over all of them]");
      return {};
    }
    auto curve = ThroughputCurve::Fit(std::move(samples));
    if (curve.ok()) return std::move(curve).value();
    Fail(key, curve.status().message());
    return {};
  }

  Shares ReadShares(std::string_view key) {
    Shares shares;
    for (const auto& [second, factor] : Pairs(key)) {
      const double before = shares.empty() ? 0 : shares.back().second;
      if (!(second >= before && factor >= 0 && std::isfinite(second + factor))) {
        Fail(key,
             fmt::format("[{}, {}] found; must be a second, {} or later, and a factor, 0 or greater", second, factor, before));
      }
      shares.push_back({second, factor});
    }
    // What has stalled for good never takes what it has to.
    if (!shares.empty() && shares.back().factor <= 0) Fail(key, "0 found as the last factor; must be above 0");
    return shares;
  }

  const toml::table& table() const { return table_; }
  bool ok() const { return status_->ok(); }
  void Fail(std::string_view key, std::string_view why) {
    if (status_->ok()) *status_ = Status(Code::kInvalidArgument, fmt::format("{}{}: {}", where_, key, why));
  }

 private:
  const toml::table& table_;
  std::string where_;
  Status* status_;
};

std::optional<ScenarioTier> ReadTier(const toml::node& node, const std::string& where, double noise, Status* status) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return {};
  Reader reader(*table, where, status);
  reader.AllowOnly({"name", "capacity_chunks", "curve", "calibration", "noise", "share"});
  std::string name = reader.Text("name");
  const uint32_t capacity = reader.Count("capacity_chunks", 0, 1e9);
  auto curve = reader.Curve("curve");
  noise = reader.Number("noise", 0, 1, noise);
  Shares shares = reader.ReadShares("share");
  std::optional<ThroughputCurve> calibration = curve;
  if (const toml::array* other = (*table)["calibration"].as_array(); other != nullptr && other->empty()) {
    calibration.reset();
  } else if (table->contains("calibration")) {
    calibration = reader.Curve("calibration");
  }
  if (!reader.ok()) return {};
  return ScenarioTier{std::move(name), capacity, std::move(*curve), std::move(calibration), noise, std::move(shares)};
}

Result<Scenario> FromTable(const toml::table& table, const std::string& origin) {
  Status status;
  Reader reader(table, origin + ": ", &status);
  reader.AllowOnly({"chunk_mib", "writers", "chunks_per_writer", "seed", "time_scale", "nodes", "noise", "tier", "store"});
  const double chunk_mib = reader.Number("chunk_mib", 1e-3, 1 << 20);
  const uint32_t writers = reader.Count("writers", 1, 1 << 16);
  const uint32_t chunks = reader.Count("chunks_per_writer", 1, 1 << 20);
  const uint32_t nodes = reader.Count("nodes", 1, 1 << 16, 1);
  const auto seed = static_cast<uint64_t>(reader.Number("seed", 0, 9e15, 1));
  const double time_scale = reader.Number("time_scale", 0, 1e3, 0);
  const double noise = reader.Number("noise", 0, 1, 0);
  if (double{1} * writers * chunks * nodes > kTransfersMax) {
    reader.Fail("chunks_per_writer", fmt::format("{} found, with {} writers on {} nodes; must be {} chunks at most in all",
                                                 chunks, writers, nodes, kTransfersMax));
  }
  std::vector<ScenarioTier> tiers;
  const toml::array* list = table["tier"].as_array();
  if (list == nullptr || list->empty() || !list->is_array_of_tables()) {
    reader.Fail("tier", Found(table.get("tier")) + "; must be one [[tier]] at least");
  } else {
    for (const toml::node& node : *list) {
      auto tier = ReadTier(node, fmt::format("{}: tier {}: ", origin, tiers.size() + 1), noise, &status);
      if (!tier) return status;
      const auto same = [&](const ScenarioTier& other) { return other.name == tier->name || tier->name == "store"; };
      if (std::any_of(tiers.begin(), tiers.end(), same)) reader.Fail("tier", "a name that is taken: " + tier->name);
      tiers.push_back(std::move(*tier));
    }
  }
  const toml::table* store = table["store"].as_table();
  if (store == nullptr) {
    reader.Fail("store", Found(table.get("store")) + "; must be a table, [store]");
    return status;
  }
  Reader store_reader(*store, origin + ": store: ", &status);
  store_reader.AllowOnly({"curve", "workers_max", "noise", "share"});
  auto store_curve = store_reader.Curve("curve");
  const uint32_t workers_max = store_reader.Count("workers_max", 1, ThroughputCurve::kWritersMax);
  const double store_noise = store_reader.Number("noise", 0, 1, noise);
  Shares store_shares = store_reader.ReadShares("share");
  KEDGE_RETURN_IF_ERROR(status);
  return Scenario{static_cast<uint64_t>(chunk_mib * (1 << 20)),
                  writers,
                  chunks,
                  seed,
                  time_scale,
                  nodes,
                  std::move(tiers),
                  std::move(*store_curve),
                  workers_max,
                  store_noise,
                  std::move(store_shares)};
}

// The integral of the share from 0 to `until`.
double SecondsServed(const Shares& shares, double until) {
  double served = 0, begin = 0, factor = 1;
  for (const auto& share : shares) {
    if (share.second >= until) break;
    served += factor * (share.second - begin);
    begin = share.second;
    factor = share.factor;
  }
  return served + factor * (until - begin);
}

double BestTotal(const ThroughputCurve& curve, uint32_t writers_max) {
  double best = 0;
  for (uint32_t writers = 1; writers <= std::min(writers_max, curve.samples().back().writers); ++writers) {
    best = std::max(best, curve.Total(writers));
  }
  return best;
}

}  // namespace

Result<Scenario> ParseScenario(const std::string& text, const std::string& origin) {
  const toml::parse_result parsed = toml::parse(text, origin);
  if (!parsed) {
    return Status(Code::kInvalidArgument, fmt::format("{}:{}: {}", origin, parsed.error().source().begin.line,
                                                      std::string_view(parsed.error().description())));
  }
  return FromTable(parsed.table(), origin);
}

Result<Scenario> ReadScenario(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return Status(Code::kNotFound, path + ": cannot be read");
  return ParseScenario(text.str(), path);
}

double BoundSeconds(const Scenario& scenario) {
  const double chunk = static_cast<double>(scenario.chunk_bytes);
  const double store_best = BestTotal(scenario.store_curve, scenario.store_workers_max * scenario.nodes) / scenario.nodes;
  auto most_bytes = [&](double seconds) {
    double kept = 0, beyond = 0;
    for (const ScenarioTier& tier : scenario.tiers) {
      const double written = BestTotal(tier.curve, scenario.writers) * SecondsServed(tier.shares, seconds);
      const double capacity = chunk * tier.capacity_chunks;
      kept += std::min(written, capacity);
      beyond += std::max(0.0, written - capacity);
    }
    return kept + std::min(beyond, store_best * SecondsServed(scenario.store_shares, seconds));
  };
  double low = 0, high = 1;
  while (most_bytes(high) < scenario.bytes() && high < 1e12) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (most_bytes(middle) < scenario.bytes() ? low : high) = middle;
  }
  return high;
}

}  // namespace kedge::bench

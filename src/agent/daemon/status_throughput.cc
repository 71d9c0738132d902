#include "agent/daemon/status_throughput.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/daemon/agent.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"

namespace kedge {
namespace {

// Means of what was judged; null where nothing was.
Json JudgedJson(const PlacementCounts& counts) {
  const auto mean = [&](double sum) { return counts.judged > 0 ? Json(sum / static_cast<double>(counts.judged)) : Json(); };
  return {{"judged_chunks", counts.judged},
          {"predicted_bytes_per_second", mean(counts.predicted)},
          {"observed_bytes_per_second", mean(counts.observed)},
          {"model_error", mean(counts.error)}};
}

const char* SourceOf(const TierThroughput& of) {
  if (!of.curve.has_value()) return "none";
  return of.is_measured ? "measured" : "learned";
}

}  // namespace

Json PlacementJson(const PlacementCounts& counts) {
  Json json{{"chunks", counts.chunks}, {"waits", counts.waits}, {"wait_seconds", counts.wait_seconds}};
  json.update(JudgedJson(counts));
  return json;
}

Json ThroughputJson(const TierUnit& unit) {
  const TierThroughput& of = unit.throughput;
  const bool is_known = of.curve.has_value();
  Json json{{"writers", of.claims},
            {"calibration", SourceOf(of)},
            {"device", of.device},
            {"next_writer_bytes_per_second", is_known ? Json(of.curve->PerWriter(of.claims + 1)) : Json()},
            {"best_writers", is_known ? Json(of.curve->best_writers()) : Json()},
            {"learned_chunks", of.learned.observations()}};
  json.update(JudgedJson(of.judged));
  return json;
}

std::string ThroughputMetrics(Agent& agent) {
  std::string text;
  const auto family = [&](const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP kedge_{0} {1}.\n# TYPE kedge_{0} {2}\n", name, help, type);
  };
  const PlacementCounts& totals = agent.throughput().totals();
  family("placed_chunks_total", "counter", "Chunks of captured images by the tier they went to; store: written through");
  for (const auto& [tier, count] : totals.chunks)
    text += fmt::format("kedge_placed_chunks_total{{tier=\"{}\"}} {}\n", tier, count);
  family("place_wait_seconds_total", "counter", "Time that requests for a place waited");
  text += fmt::format("kedge_place_wait_seconds_total {}\n", totals.wait_seconds);

  using Getter = double (*)(const TierThroughput&);
  struct Family {
    const char* name;
    const char* type;
    const char* help;
    Getter get;
  };
  const Family families[] = {
      {"tier_writers", "gauge", "Chunks that have a place in the tier and are not written yet",
       [](const TierThroughput& of) { return static_cast<double>(of.claims); }},
      {"tier_next_writer_bytes_per_second", "gauge", "What one more writer is predicted to get; 0: nothing is known",
       [](const TierThroughput& of) { return of.curve.has_value() ? of.curve->PerWriter(of.claims + 1) : 0.0; }},
      {"tier_judged_chunks_total", "counter", "Chunks whose throughput was predicted and observed",
       [](const TierThroughput& of) { return static_cast<double>(of.judged.judged); }},
      {"tier_predicted_bytes_per_second_sum", "counter", "Predicted throughput of a writer, summed over these chunks",
       [](const TierThroughput& of) { return of.judged.predicted; }},
      {"tier_observed_bytes_per_second_sum", "counter", "Observed throughput of a writer, summed over these chunks",
       [](const TierThroughput& of) { return of.judged.observed; }},
      {"tier_model_error_sum", "counter", "Relative error of the prediction, summed over these chunks",
       [](const TierThroughput& of) { return of.judged.error; }},
  };
  for (const Family& one : families) {
    family(one.name, one.type, one.help);
    for (const TierUnit* unit : agent.tiers().units()) {
      text += fmt::format("kedge_{}{{tier=\"{}\",unit=\"{}\"}} {}\n", one.name, unit->info().name, unit->id,
                          one.get(unit->throughput));
    }
  }
  family("store_flush_bytes_per_second", "gauge", "Moving average of one flush to the store");
  for (const auto& [id, speed] : agent.throughput().StoreSpeeds()) {
    text += fmt::format("kedge_store_flush_bytes_per_second{{store_id=\"{}\"}} {}\n", id.ToHex(), speed);
  }
  return text;
}

}  // namespace kedge

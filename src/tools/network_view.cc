#include "tools/network_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

// Machines share their network with others, so that factors below this say little.
constexpr uint64_t kSlowFactor = 3;
constexpr size_t kComparedMin = 3;

std::string RoundTrip(uint64_t nanoseconds) {
  return fmt::format("{:.0f} us", static_cast<double>(nanoseconds) * 1e-3);
}

std::string PerSecond(uint64_t bytes_per_second) {
  return FormatByteSize(bytes_per_second) + "/s";
}

// The least, the middle and the greatest of what was measured; the lower of two middles.
struct Spread {
  size_t count = 0;
  uint64_t least = 0;
  uint64_t median = 0;
  uint64_t greatest = 0;

  Spread(const MeasureReply& reply, uint64_t MeasuredNode::*figure) {
    std::vector<uint64_t> values;
    for (const MeasuredNode& node : reply.nodes) {
      if (node.*figure > 0) values.push_back(node.*figure);
    }
    std::sort(values.begin(), values.end());
    count = values.size();
    if (values.empty()) return;
    least = values.front();
    median = values[(values.size() - 1) / 2];
    greatest = values.back();
  }
};

Finding Summary(const MeasureReply& reply) {
  const Spread round_trip(reply, &MeasuredNode::round_trip_ns), rate(reply, &MeasuredNode::read_bytes_per_second);
  std::string found = fmt::format("{} from node {} to {} of {} nodes of job {}", reply.provider, reply.node, rate.count,
                                  reply.nodes.size(), reply.job);
  if (rate.count > 0) {
    found += fmt::format(": round trip of a request {} to {}, remote reads {} to {}", RoundTrip(round_trip.least),
                         RoundTrip(round_trip.greatest), PerSecond(rate.least), PerSecond(rate.greatest));
  }
  return {State::kOk, "network", found, ""};
}

}  // namespace

std::vector<Finding> NetworkFindings(const MeasureReply& reply) {
  std::vector<Finding> findings = {Summary(reply)};
  const Spread round_trip(reply, &MeasuredNode::round_trip_ns), rate(reply, &MeasuredNode::read_bytes_per_second);
  for (const MeasuredNode& node : reply.nodes) {
    const std::string subject = "node " + node.node;
    if (!node.failure.ok()) {
      findings.push_back({State::kBad, subject, node.failure.message(),
                          node.is_reached ? "it is there, but its measurement did not end: run it again, and see agent.log there"
                                          : "look whether the node is up and its agent runs (kedge status there; agent.log), and "
                                            "whether something stands between: net.interface, a firewall, a link that is down"});
      continue;
    }
    const bool reads_slowly = rate.count >= kComparedMin && node.read_bytes_per_second < rate.median / kSlowFactor;
    const bool answers_slowly = round_trip.count >= kComparedMin && node.round_trip_ns / kSlowFactor > round_trip.median;
    if (!reads_slowly && !answers_slowly) continue;
    findings.push_back(
        {State::kNote, subject,
         fmt::format("round trip {}, remote reads {}: most nodes {}, {}", RoundTrip(node.round_trip_ns),
                     PerSecond(node.read_bytes_per_second), RoundTrip(round_trip.median), PerSecond(rate.median)),
         "a slow link, or a busy node: its group protects versions no faster; measure again, and from another node"});
  }
  return findings;
}

std::string NetworkText(const MeasureReply& reply) {
  Table table({"NODE", "ADDRESS", "ROUND TRIP", "READS", "CONNECTED"}, {false, false, true, true, false});
  for (const MeasuredNode& node : reply.nodes) {
    table.AddRow({node.node, node.address, node.round_trip_ns > 0 ? RoundTrip(node.round_trip_ns) : "-",
                  node.read_bytes_per_second > 0 ? PerSecond(node.read_bytes_per_second) : "-",
                  node.failure.ok() ? "yes"
                  : node.is_reached ? "yes, but: " + node.failure.message()
                                    : "no: " + node.failure.message()});
  }
  return fmt::format("job {} (attempt {}), from node {}\n{}", reply.job, reply.attempt, reply.node, table.Text());
}

Json NetworkJson(const MeasureReply& reply) {
  Json nodes = Json::array();
  for (const MeasuredNode& node : reply.nodes) {
    nodes.push_back(
        {{"node", node.node},
         {"address", node.address},
         {"connected", node.is_reached},
         {"round_trip_seconds", node.round_trip_ns > 0 ? Json(static_cast<double>(node.round_trip_ns) * 1e-9) : Json()},
         {"read_bytes_per_second", node.read_bytes_per_second > 0 ? Json(node.read_bytes_per_second) : Json()},
         {"error", node.failure.message()}});
  }
  return {{"node", reply.node},
          {"job", reply.job},
          {"attempt", reply.attempt},
          {"provider", reply.provider},
          {"nodes", std::move(nodes)}};
}

}  // namespace kedge::tools

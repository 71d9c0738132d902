// What people and monitors see of an agent: `kedge status` as JSON, and metrics in Prometheus' text format.
#pragma once

#include <string>

namespace kedge {

class Agent;

// {"node", "pid", "tiers": [...], "sessions": [...], "jobs": [{"versions": [...]}], "flush": {...}, "counters": {...}}
std::string StatusJson(Agent& agent);
// text/plain; version=0.0.4
std::string MetricsText(Agent& agent);

}  // namespace kedge

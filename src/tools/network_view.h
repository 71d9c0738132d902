// What an agent measured on the ways to other nodes, as `kedge doctor --net` tells it: judged, as a table, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "session/messages.h"
#include "tools/finding.h"

namespace kedge::tools {

// First what was measured; then each node that could not be (bad), and each whose way is far slower than most (a note; of three
// nodes at least, for of two nobody knows which is the slow one).
std::vector<Finding> NetworkFindings(const MeasureReply& reply);
// A line and a table, a node a row.
std::string NetworkText(const MeasureReply& reply);
// {"node", "job", "attempt", "provider", "nodes": [...]}; null: what could not be measured.
Json NetworkJson(const MeasureReply& reply);

}  // namespace kedge::tools

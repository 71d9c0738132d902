// What an agent measured on the ways to other nodes, as `kedge doctor --net` tells it: judged, as a table, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json_writer.h"
#include "session/messages.h"
#include "tools/finding.h"

namespace kedge::tools {

// First what was measured; then each node that could not be (bad), and each whose way is far slower than most (a note; of three
// nodes at least, for of two nobody knows which is the slow one).
std::vector<Finding> NetworkFindings(const MeasureReply& reply);
// A line and a table, a node a row.
std::string NetworkText(const MeasureReply& reply);
// The field "network".
void WriteNetwork(const MeasureReply& reply, JsonWriter& json);

}  // namespace kedge::tools

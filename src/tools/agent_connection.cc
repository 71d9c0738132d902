#include "tools/agent_connection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/sockets/unix_socket.h"

namespace kedge::tools {
namespace {

constexpr size_t kNodesShownMax = 4;

// The nodes with agents whose run folders lie beside that of `node`, for one who has meant another; empty: there are none.
std::string OthersWithAgents(const NodeSettings& node) {
  if (os::BaseName(node.run_folder) != node.node) return "";
  const std::string nodes = os::ParentPath(node.run_folder);
  const auto entries = os::PrivateFileSystem().List(nodes);
  std::vector<std::string> found;
  for (const os::FolderEntry& entry : entries.ok() ? *entries : std::vector<os::FolderEntry>()) {
    const std::string socket = os::JoinPath(os::JoinPath(nodes, entry.name), os::BaseName(node.SocketPath()));
    if (os::UnixSocket::Connect(socket, std::chrono::seconds(1)).ok()) found.push_back(entry.name);
  }
  if (found.empty()) return "";
  std::ranges::sort(found);
  const size_t more = found.size() - std::min(found.size(), kNodesShownMax);
  found.resize(found.size() - more);
  return fmt::format("; {}{} {} one here: KEDGE_NODE={} names it", fmt::join(found, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "", found.size() == 1 ? "has" : "have", found.front());
}

}  // namespace

Result<AgentConnection> ConnectToAgent(const Config& config, bool start) {
  AgentConnection agent;
  KEDGE_ASSIGN_OR_RETURN(agent.node, ReadNodeSettings(config));
  ConnectOptions options;
  options.node = agent.node;
  options.start_agent = start;
  if (start) {
    KEDGE_ASSIGN_OR_RETURN(options.node_keys, ExplicitNodeKeys(config));
  }
  auto connection = Connection::Connect(options);
  if (!connection.ok()) {
    if (start || connection.status().code() != Code::kUnavailable) return connection.status();
    return Status(Code::kUnavailable, fmt::format("no agent runs for node {} (its socket would be {}){}", agent.node.node,
                                                  agent.node.SocketPath(), OthersWithAgents(agent.node)));
  }
  agent.connection = *std::move(connection);
  KEDGE_ASSIGN_OR_RETURN(const ToolWelcome welcome, agent.connection->AttachTool(std::chrono::seconds(10)));
  static_cast<void>(welcome);
  return agent;
}

Level LevelNamed(const std::string& name) {
  for (const Level level : {Level::kLocal, Level::kNode, Level::kBuffer, Level::kStore}) {
    if (name == LevelName(level)) return level;
  }
  return Level::kLast;
}

Result<std::string> AskForStatus(const AgentConnection& agent) {
  KEDGE_ASSIGN_OR_RETURN(const StatusReply reply, agent.connection->Call<StatusReply>(StatusRequest{}, kAnswerTimeout));
  Json status = Json::parse(reply.json, nullptr, false);
  if (!status.is_object()) return Status(Code::kCorrupt, "the agent's status is no JSON; is it of another build?");
  status["wall_time_ns"] = WallTimeNs();
  return ToText(status);
}

}  // namespace kedge::tools

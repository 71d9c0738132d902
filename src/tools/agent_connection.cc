#include "tools/agent_connection.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"

namespace kedge::tools {

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
    return Status(Code::kUnavailable,
                  fmt::format("no agent runs for node {} (its socket would be {})", agent.node.node, agent.node.SocketPath()));
  }
  agent.connection = *std::move(connection);
  KEDGE_ASSIGN_OR_RETURN(const ToolWelcome welcome, agent.connection->AttachTool(std::chrono::seconds(10)));
  static_cast<void>(welcome);
  return agent;
}

Result<std::string> AskForStatus(const AgentConnection& agent) {
  KEDGE_ASSIGN_OR_RETURN(const StatusReply reply, agent.connection->Call<StatusReply>(StatusRequest{}, kAnswerTimeout));
  Json status = Json::parse(reply.json, nullptr, false);
  if (!status.is_object()) return Status(Code::kCorrupt, "the agent's status is no JSON; is it of another build?");
  status["wall_time_ns"] = WallTimeNs();
  return ToText(status);
}

}  // namespace kedge::tools

// kedge-agent: the program. Normally started by a client (session/start_agent.cc); `kedge agent` runs it by hand.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "agent/daemon/agent.h"
#include "base/log.h"
#include "net/network.h"
#include "os/files/private_files.h"
#include "os/process/signals.h"
#include "session/config_keys.h"
#include "session/connection.h"

namespace kedge {
namespace {

constexpr char kUsage[] =
    R"(usage: kedge-agent [--foreground] [--config FILE] [--configured] [--set KEY=VALUE]...

The agent of one node and user: keeps captured checkpoints in the node's tiers, carries them to the store in the
background, and serves them to a restart. Applications start it when none runs, and it leaves by itself when it
has been idle for agent.idle_timeout; nobody needs to start or stop it by hand.

  --foreground      log to the terminal (otherwise to agent.log in the run folder)
  --config FILE     read this configuration file
  --configured      read neither file nor environment: only --set counts (what clients pass)
  --set KEY=VALUE   set a key of the node's configuration, above file and environment; `kedge config` lists them
  --print-socket    print the path of the socket and leave
  --version, --help

Signals: SIGTERM and SIGINT end it at once; what is not in the store yet stays in the tiers for its successor.
Exit: 0 after leaving in good order, also when another agent serves the node already; 1 on an error.
)";

struct Arguments {
  bool foreground = false;
  bool configured = false;
  bool print_socket = false;
  ConfigSources sources;
};

int Fail(const std::string& why) {
  std::fprintf(stderr, "kedge-agent: %s\n", why.c_str());
  return 1;
}

// The exit code when the program ends with parsing already, otherwise -1.
int Parse(const std::vector<std::string>& words, Arguments* arguments) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    auto value = [&](std::string* out) {
      if (i + 1 == words.size()) return false;
      *out = words[++i];
      return true;
    };
    std::string text;
    if (word == "--help" || word == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (word == "--version") {
      std::printf("kedge-agent %s\n", BuildName());
      return 0;
    }
    if (word == "--foreground") {
      arguments->foreground = true;
    } else if (word == "--configured") {
      arguments->configured = true;
    } else if (word == "--print-socket") {
      arguments->print_socket = true;
    } else if (word == "--config") {
      if (!value(&text)) return Fail("--config needs a file");
      arguments->sources.file = text;
    } else if (word == "--set") {
      if (!value(&text) || text.find('=') == std::string::npos) return Fail("--set needs KEY=VALUE");
      arguments->sources.overrides.emplace_back(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    } else {
      return Fail(fmt::format("unknown argument \"{}\"; see --help", word));
    }
  }
  return -1;
}

int Main(const std::vector<std::string>& words) {
  Arguments arguments;
  if (int code = Parse(words, &arguments); code >= 0) return code;
  if (arguments.configured) {
    arguments.sources.search_files = false;
  } else {
    arguments.sources.environment = ConfigSources::FromProcess().environment;
  }
  auto config = Config::Load(KedgeConfigRegistry(), arguments.sources);
  if (!config.ok()) return Fail(config.status().ToString());
  SetDefaultLogLevel(LogLevel::kInfo);
  for (const std::string& warning : config->warnings()) LogWarning("agent", "{}", warning);
  AgentOptions options;
  auto node = ReadNodeSettings(*config);
  if (!node.ok()) return Fail(node.status().ToString());
  options.node = std::move(*node);
  auto node_keys = ExplicitNodeKeys(*config);
  if (!node_keys.ok()) return Fail(node_keys.status().ToString());
  options.node_keys = std::move(*node_keys);
  if (arguments.print_socket) {
    std::printf("%s\n", options.node.SocketPath().c_str());
    return 0;
  }

  const bool stages = !options.node.staging_folder.empty();
  os::OutliveTruncatedMappings();
  net::SetFabricDefaults();
  // Before there are other threads. What comes while it starts ends it then.
  static std::atomic<Agent*> running{nullptr};
  static std::atomic<bool> is_told_to_stop{false};
  os::OnTerminationSignals([] {
    is_told_to_stop = true;
    if (Agent* const agent = running) agent->RequestStop();
  });
  auto agent = Agent::Start(std::move(options));
  if (!agent.ok()) {
    if (agent.status().code() == Code::kBusy) {
      LogAt(stages ? LogLevel::kError : LogLevel::kInfo, "agent", "another agent serves this node already{}: {}",
            stages ? ", and does not write for others; kedge agent --stop ends it" : "", agent.status().message());
      return stages ? 1 : 0;
    }
    LogError("agent", "cannot start: {}", agent.status().ToString());
    return 1;
  }
  running = agent->get();
  if (is_told_to_stop) (*agent)->RequestStop();
  if (!arguments.foreground) {
    auto log = os::OpenPrivateLog((*agent)->core().settings().run_folder + "/agent.log");
    const Status logged = log.ok() ? LogToDescriptor(log->Release()) : log.status();
    if (!logged.ok()) LogWarning("agent", "the log stays on stderr: {}", logged.ToString());
  }
  LogInfo("agent", "kedge-agent {} serves node {} in {}", BuildName(), (*agent)->core().settings().node,
          (*agent)->core().settings().run_folder);
  const auto why = (*agent)->Run();
  os::OnTerminationSignals(nullptr);
  if (why.ok()) {
    LogInfo("agent", "leaves: {}", *why);
  } else {
    LogError("agent", "leaves: {}", why.status().message());
  }
  // Workers may be stuck in a device that does not answer: nothing here needs their end.
  os::ExitNow(why.ok() ? 0 : 1);
}

}  // namespace
}  // namespace kedge

int main(int argc, char** argv) {
  return kedge::Main(std::vector<std::string>(argv + 1, argv + argc));
}

// kedge top: the agent's status, drawn again and again until q.
#include <cstdio>

#include "os/process/terminal.h"
#include "tools/agent_connection.h"
#include "tools/command.h"
#include "tools/status_view.h"

namespace kedge::tools {
namespace {

struct TopOptions {
  ConfigOptions config;
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

Outcome Top(const TopOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, false));
  const bool redraws = os::IsTerminal(os::StandardStream::kOutput) && !options.json;
  os::KeyReader keys;
  while (true) {
    KEDGE_ASSIGN_OR_RETURN(const StatusReply reply, agent.connection->Call<StatusReply>(StatusRequest{}, kAnswerTimeout));
    std::string text = reply.json + "\n";
    if (!options.json) {
      StatusViewOptions view;
      view.versions_max = 5;
      KEDGE_ASSIGN_OR_RETURN(text, StatusText(reply.json, view));
    }
    // Home, the text, and whatever was below it wiped away.
    std::printf(redraws ? "\033[H\033[J%s\nq quits\n" : "%s", text.c_str());
    std::fflush(stdout);
    if (options.once) return kExitOk;
    if (keys.Next(FromSeconds(options.interval_seconds)) == 'q') return kExitOk;
  }
}

}  // namespace

Command TopCommand() {
  return {"top", "watch this node's agent; q quits", [](CLI::App& app) {
            auto options = std::make_shared<TopOptions>();
            options->config.AddTo(app);
            app.add_option("-n,--interval", options->interval_seconds, "seconds between looks")
                ->capture_default_str()
                ->check(CLI::Range(0.1, 3600.0));
            app.add_flag("--once", options->once, "look once and leave");
            app.add_flag("--json", options->json, "one line of JSON a look, as `kedge status --json`");
            app.footer(
                "Where standard output is no terminal, each look follows the one before.\n"
                "Examples:\n  kedge top\n  kedge top --once --json");
            return [options] { return Top(*options); };
          }};
}

}  // namespace kedge::tools

// kedge top: the agent's status, drawn again and again until q; or, by kedge-report, as a page for a browser.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

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
  bool web = false;
  uint16_t port = 0;
  std::string job;
};

// Returns only when it cannot be run.
Outcome ServePage(const TopOptions& options) {
  std::vector<std::string> words = {"kedge-report", "--live", fmt::format("--interval={}", options.interval_seconds),
                                    fmt::format("--port={}", options.port)};
  if (!options.config.file.empty()) words.push_back("--config=" + options.config.file);
  for (const std::string& setting : options.config.settings) words.push_back("--set=" + setting);
  if (!options.job.empty()) words.push_back("--job=" + options.job);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  RunSibling("report", arguments.data());
  return Status(Code::kNotFound, "kedge-report, which makes the page, is neither beside kedge nor on PATH");
}

Outcome Top(const TopOptions& options) {
  if (options.web) return ServePage(options);
  KEDGE_ASSIGN_OR_RETURN(const Config config, options.config.Load());
  KEDGE_ASSIGN_OR_RETURN(const AgentConnection agent, ConnectToAgent(config, false));
  const bool redraws = os::IsTerminal(os::StandardStream::kOutput) && !options.json;
  os::KeyReader keys;
  while (true) {
    KEDGE_ASSIGN_OR_RETURN(const std::string status, AskForStatus(agent));
    std::string text = status + "\n";
    if (!options.json) {
      StatusViewOptions view;
      view.versions_max = 5;
      KEDGE_ASSIGN_OR_RETURN(text, StatusText(status, view));
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
            options->config.AddNodeTo(app);
            app.add_option("-n,--interval", options->interval_seconds, "seconds between looks")
                ->capture_default_str()
                ->check(CLI::Range(0.1, 3600.0));
            auto* once = app.add_flag("--once", options->once, "look once and leave");
            auto* json = app.add_flag("--json", options->json, "one line of JSON a look, as `kedge status --json`");
            auto* web = app.add_flag("--web", options->web, "a page for a browser on this machine, until Ctrl-C")
                            ->excludes(once)
                            ->excludes(json);
            app.add_option("--port", options->port, "of the page (default: any that is free)")->needs(web);
            app.add_option("--job", options->job, "the job that the page is about (default: one that runs)")->needs(web);
            app.footer(
                "Where standard output is no terminal, each look follows the one before.\n"
                "Examples:\n  kedge top\n  kedge top --web\n  kedge top --json >> looks.jsonl");
            return [options] { return Top(*options); };
          }};
}

}  // namespace kedge::tools

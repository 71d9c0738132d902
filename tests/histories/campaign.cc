// See campaign.h.
#include "tests/histories/campaign.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/log.h"
#include "tests/histories/bucket_server.h"
#include "tests/histories/generator.h"
#include "tests/histories/real_world.h"
#include "tests/histories/shrinker.h"
#include "tests/histories/simulated_world.h"

namespace kedge::histories {
namespace {

using std::chrono::steady_clock;

constexpr int kShrinkPlaysReal = 150;
constexpr int kShrinkPlaysSimulated = 3000;
constexpr double kProgressSeconds = 30;

// Somebody wants this program to end: it does so with the history that it plays, so that nothing of it is left.
std::atomic<bool> stopping{false};
void StopOn(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) { stopping.store(true); };
  sigaction(signal, &action, nullptr);
}

double SecondsSince(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// One process's share: every n-th seed. It tells its parent a line for each history: "SEED KIND SENTENCE", KIND "-" for none.
void PlayShare(const CampaignOptions& options, int share, int output) {
  StopOn(SIGTERM);
  StopOn(SIGINT);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // no history outlives the campaign
  const auto begin = steady_clock::now();
  for (uint64_t seed = options.first_seed + static_cast<uint64_t>(share); seed <= options.last_seed;
       seed += static_cast<uint64_t>(options.processes)) {
    if (stopping || (options.seconds > 0 && SecondsSince(begin) > options.seconds)) break;
    std::string told;
    const auto tell = [&told](const std::string& text) { told += text + "\n"; };
    const auto violation = PlayFresh(GenerateHere(seed, options.real), options.real, {tell, options.ignored, &stopping});
    if (stopping) break;
    if (violation && !options.found_folder.empty()) std::ofstream(fmt::format("{}/{}.log", options.found_folder, seed)) << told;
    const std::string line =
        fmt::format("{} {} {}", seed, violation ? violation->kind : "-", violation ? violation->sentence : "");
    const std::string text = line.substr(0, 2000) + "\n";
    if (write(output, text.data(), text.size()) < 0) break;
  }
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {}

  CampaignResult Run() {
    if (!options_.found_folder.empty()) std::filesystem::create_directories(options_.found_folder);
    StopOn(SIGTERM);
    StopOn(SIGINT);
    if (options_.real && !BucketServer::IsHere()) {
      std::printf(
          "NO HISTORY HAS ITS STORE IN A BUCKET: this machine has no versitygw (scripts/setup long makes it, with Go). Those "
          "that "
          "would have it there have it in a folder.\n");
      std::fflush(stdout);
    }
    std::vector<pollfd> outputs;
    for (int share = 0; share < options_.processes; ++share) {
      int ends[2];
      if (pipe(ends) != 0) break;
      const pid_t child = fork();
      if (child == 0) {
        close(ends[0]);
        PlayShare(options_, share, ends[1]);
        _exit(0);
      }
      close(ends[1]);
      children_.push_back(child);
      outputs.push_back({ends[0], POLLIN, 0});
    }
    Listen(outputs);
    for (const pid_t child : children_) {
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    result_.seconds = SecondsSince(begin_);
    return result_;
  }

 private:
  void Listen(std::vector<pollfd> outputs) {
    std::vector<std::string> heard(outputs.size());
    double told = 0;
    for (size_t open = outputs.size(); open > 0;) {
      // Those that were started end with the history that they play.
      if (stopping) {
        for (const pid_t child : children_) kill(child, SIGTERM);
      }
      if (poll(outputs.data(), outputs.size(), 1000) < 0) continue;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if ((outputs[i].revents & (POLLIN | POLLHUP)) == 0) continue;
        char buffer[8192];
        const ssize_t got = read(outputs[i].fd, buffer, sizeof buffer);
        if (got <= 0) {
          close(outputs[i].fd);
          outputs[i].fd = -1;
          --open;
          continue;
        }
        heard[i].append(buffer, static_cast<size_t>(got));
        for (size_t end = heard[i].find('\n'); end != std::string::npos; end = heard[i].find('\n')) {
          Hear(heard[i].substr(0, end));
          heard[i].erase(0, end + 1);
        }
      }
      if (SecondsSince(begin_) - told < kProgressSeconds) continue;
      told = SecondsSince(begin_);
      std::printf("%llu histories, %.0f s\n", static_cast<unsigned long long>(result_.played), told);
      std::fflush(stdout);
    }
  }

  void Hear(const std::string& line) {
    ++result_.played;
    const size_t after_seed = line.find(' '), after_kind = line.find(' ', after_seed + 1);
    const uint64_t seed = std::stoull(line.substr(0, after_seed));
    const Setup setup = GenerateHere(seed, options_.real).setup;
    if (!setup.bucket.empty()) ++result_.in_bucket;
    if (setup.buffer) ++result_.on_buffer;
    const std::string kind = line.substr(after_seed + 1, after_kind - after_seed - 1);
    if (kind == "-") return;
    std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed), kind.c_str(), line.substr(after_kind + 1).c_str());
    std::fflush(stdout);
    const bool is_first = result_.violations[kind]++ == 0;
    if (is_first && options_.shrinks) ShrinkAndKeep(seed, {kind, line.substr(after_kind + 1)});
  }

  void ShrinkAndKeep(uint64_t seed, Violation violation) {
    const auto still_breaks = [&](const History& candidate) {
      const auto found = PlayFresh(candidate, options_.real, {{}, options_.ignored, &stopping});
      if (!found || found->kind != violation.kind) return false;
      violation = *found;
      return true;
    };
    const int plays = options_.real ? kShrinkPlaysReal : kShrinkPlaysSimulated;
    const std::string text =
        Documented(Shrink(GenerateHere(seed, options_.real), still_breaks, plays), violation, seed, options_.real);
    std::printf("%s", text.c_str());
    std::fflush(stdout);
    if (options_.found_folder.empty()) return;
    std::ofstream(
        fmt::format("{}/{}-{}-{}.history", options_.found_folder, options_.real ? "real" : "simulated", violation.kind, seed))
        << text;
  }

  const CampaignOptions& options_;
  std::vector<pid_t> children_;
  const steady_clock::time_point begin_ = steady_clock::now();
  CampaignResult result_;
};

}  // namespace

std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

History GenerateHere(uint64_t seed, bool real) {
  History history = Generate(seed, real);
  if (!BucketServer::IsHere()) history.setup.bucket.clear();
  return history;
}

// What the checker itself cannot do is said like a promise that was broken: nothing of the world is left behind.
std::optional<Violation> PlayFresh(const History& history, bool real, const PlayOptions& options) try {
  if (!real) {
    History without_agents = history;
    if (history.setup.Key("job.mode", "") != "sync") without_agents.setup.keys.emplace_back("job.mode", "sync");
    SimulatedWorld world(without_agents.setup);
    return Play(without_agents, world, options);
  }
  RealWorld world(history.setup, ProgramFolder());
  const auto violation = Play(history, world, options);
  if (violation && options.tell) options.tell(world.Logs());
  return violation;
} catch (const std::exception& error) {
  return Violation{"checker-failed", error.what()};
}

CampaignResult RunCampaign(const CampaignOptions& options) {
  return Campaign(options).Run();
}

std::string Documented(const History& history, const Violation& violation, uint64_t seed, bool real) {
  return fmt::format("# {}, from {} seed {}: {}\n{}", violation.kind, real ? "real" : "simulated", seed, violation.sentence,
                     history.ToString());
}

}  // namespace kedge::histories

// histories: plays histories of a job, generated from seeds or read from a file, and says which promise they break.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/log.h"
#include "tests/histories/campaign.h"
#include "tests/histories/generator.h"
#include "tests/histories/shrinker.h"

namespace kedge::histories {
namespace {

constexpr char kUsage[] =
    R"(usage: histories [--real] [--seeds FROM:TO] [--seconds N] [--jobs N] [--shrink] [--found FOLDER] [--ignore KIND]...
       histories [--real] --replay FILE [--shrink]
       histories [--real] --show SEED

  --real         with real processes instead of the simulation
  --seeds A:B    these seeds (1 and on)
  --seconds N    no history begins later
  --jobs N       so many at a time (1)
  --shrink       the first of each kind of violation is made small, and printed
  --found FOLDER what is made small is kept there, and of each seed that breaks a promise, in SEED.log, what was answered and
                 what ranks and agents had to say
  --ignore KIND  a kind of violation that is passed over
  --replay FILE  one history, with all that is answered
  --show SEED    prints the history of a seed and plays nothing

Exit code 1: a promise was broken.
)";

struct Arguments {
  CampaignOptions campaign;
  std::string replay;
  std::string show;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  CampaignOptions& campaign = arguments->campaign;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--real") {
      campaign.real = true;
      continue;
    }
    if (option == "--shrink") {
      campaign.shrinks = true;
      continue;
    }
    if (++i == argc) return false;
    const std::string value = argv[i];
    if (option == "--seeds") {
      const size_t colon = value.find(':');
      campaign.first_seed = std::strtoull(value.c_str(), nullptr, 10);
      if (colon != std::string::npos) campaign.last_seed = std::strtoull(value.c_str() + colon + 1, nullptr, 10);
    } else if (option == "--seconds") {
      campaign.seconds = std::atof(value.c_str());
    } else if (option == "--jobs") {
      campaign.processes = std::atoi(value.c_str());
    } else if (option == "--found") {
      campaign.found_folder = value;
    } else if (option == "--ignore") {
      campaign.ignored.insert(value);
    } else if (option == "--replay") {
      arguments->replay = value;
    } else if (option == "--show") {
      arguments->show = value;
    } else {
      return false;
    }
  }
  return true;
}

void Tell(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
}

int Replay(const Arguments& arguments) {
  std::ifstream file(arguments.replay);
  auto history = ParseHistory({std::istreambuf_iterator<char>(file), {}});
  if (!file.is_open() || !history.ok()) {
    std::fprintf(stderr, "histories: %s: %s\n", arguments.replay.c_str(), history.status().ToString().c_str());
    return 2;
  }
  const bool real = arguments.campaign.real;
  const auto& ignored = arguments.campaign.ignored;
  const auto violation = PlayFresh(*history, real, {Tell, ignored, nullptr});
  if (!violation) {
    Tell("all promises were kept");
    return 0;
  }
  Tell(violation->kind + ": " + violation->sentence);
  if (arguments.campaign.shrinks) {
    const auto still_breaks = [&](const History& candidate) {
      const auto found = PlayFresh(candidate, real, {{}, ignored, nullptr});
      return found && found->kind == violation->kind;
    };
    Tell(Documented(Shrink(*history, still_breaks, 1000), *violation, 0, real));
  }
  return 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (!arguments.show.empty()) {
    Tell(Generate(std::strtoull(arguments.show.c_str(), nullptr, 10), arguments.campaign.real).ToString());
    return 0;
  }
  if (std::getenv("KEDGE_LOG") == nullptr) SetLogLevel(LogLevel::kOff);
  if (!arguments.replay.empty()) return Replay(arguments);
  const CampaignResult result = RunCampaign(arguments.campaign);
  uint64_t broken = 0;
  for (const auto& [kind, count] : result.violations) {
    std::printf("%s: %llu\n", kind.c_str(), static_cast<unsigned long long>(count));
    broken += count;
  }
  std::printf(
      "%llu %s histories in %.0f s (%.0f a minute), %llu of them with the store in a bucket, %llu with it on a burst buffer, "
      "%llu broke a promise\n",
      static_cast<unsigned long long>(result.played), arguments.campaign.real ? "real" : "simulated", result.seconds,
      static_cast<double>(result.played) / result.seconds * 60, static_cast<unsigned long long>(result.in_bucket),
      static_cast<unsigned long long>(result.on_buffer), static_cast<unsigned long long>(broken));
  return broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kedge::histories

int main(int argc, char** argv) {
  return kedge::histories::Main(argc, argv);
}

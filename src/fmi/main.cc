// fmirun: the program.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "fmi/launcher.h"
#include "kedge/kedge.h"
#include "os/events/event_fd.h"
#include "os/process/signals.h"

namespace kedge::fmi {
namespace {

constexpr char kUsage[] =
    R"(usage: fmirun -n RANKS [OPTION]... PROGRAM [ARGUMENT]...

Runs an FMI program (kedge/fmi.h) with so many ranks on this node. A rank that is killed is started again while the
others live; FMI_Loop brings all of them back to their last checkpoint.

  -n, --ranks RANKS    1 to 256
  --interval STEPS     a checkpoint at every so many calls of FMI_Loop (1)
  --failures COUNT     so many in a row without a new checkpoint are survived (10)
  --timeout TIME       ends the job when ranks have not come to FMI_Loop so long after a failure (10min)
  --version, --help

Environment of the ranks: FMI_RANK, FMI_RANKS, FMI_RESPAWNS (how often this rank was started before), FMI_INTERVAL.
Signals: SIGTERM, SIGINT and SIGHUP end the job.
Exit: 0 when all ranks have called FMI_Finalize and exited with 0; else the first other code of a rank, or 1.
)";

int Fail(const std::string& why) {
  std::fprintf(stderr, "fmirun: %s\n", why.c_str());
  return 1;
}

Result<uint32_t> ParseNumber(const std::string& option, const std::string& text, uint32_t least, uint32_t most) {
  uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && number >= least && number <= most) return number;
  return Status(Code::kInvalidArgument, fmt::format("{} needs a number from {} to {}, not \"{}\"", option, least, most, text));
}

Status ParseOption(const std::string& word, const std::string& value, LaunchOptions* options) {
  if (word == "-n" || word == "--ranks") {
    KEDGE_ASSIGN_OR_RETURN(options->ranks, ParseNumber(word, value, 1, kRanksMax));
  } else if (word == "--interval") {
    KEDGE_ASSIGN_OR_RETURN(options->interval, ParseNumber(word, value, 1, 1'000'000'000));
  } else if (word == "--failures") {
    KEDGE_ASSIGN_OR_RETURN(options->failures_max, ParseNumber(word, value, 0, 1'000'000));
  } else if (word == "--timeout") {
    KEDGE_ASSIGN_OR_RETURN(options->timeout, ParseDuration(value));
  } else {
    return Status(Code::kInvalidArgument, fmt::format("unknown option \"{}\"; see --help", word));
  }
  return Status::Ok();
}

int Launch(LaunchOptions options) {
  auto stop = os::EventFd::Create();
  if (!stop.ok()) return Fail(stop.status().ToString());
  auto launcher = Launcher::Create(std::move(options));
  if (!launcher.ok()) return Fail(launcher.status().ToString());
  static os::EventFd* stopping = nullptr;
  stopping = &*stop;
  os::OnTerminationSignals([] { stopping->Signal(); });
  const int code = (*launcher)->Run(*stop);
  os::OnTerminationSignals(nullptr);
  return code;
}

int Main(const std::vector<std::string>& words) {
  LaunchOptions options;
  size_t next = 0;
  bool has_ranks = false;
  for (; next < words.size() && words[next].starts_with('-'); next += 2) {
    const std::string& word = words[next];
    if (word == "--help") return std::fputs(kUsage, stdout), 0;
    if (word == "--version") {
      std::printf("fmirun %d.%d.%d\n", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH);
      return 0;
    }
    if (next + 1 == words.size()) return Fail(fmt::format("{} needs a value, or is unknown; see --help", word));
    const Status parsed = ParseOption(word, words[next + 1], &options);
    if (!parsed.ok()) return Fail(parsed.message());
    has_ranks = has_ranks || word == "-n" || word == "--ranks";
  }
  options.command.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  if (options.command.empty() || !has_ranks) return Fail("-n RANKS and a program are needed; see --help");
  return Launch(std::move(options));
}

}  // namespace
}  // namespace kedge::fmi

int main(int argc, char** argv) {
  return kedge::fmi::Main(std::vector<std::string>(argv + 1, argv + argc));
}

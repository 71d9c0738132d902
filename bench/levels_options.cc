#include "levels_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "arguments.h"
#include "base/byte_size.h"
#include "redundancy/layout.h"

namespace kedge::bench {
namespace {

int Refuse(const std::string& why) {
  std::fprintf(stderr, "kedge-bench levels: %s\n", why.c_str());
  return 2;
}

// 0, or the exit code after saying what is wrong.
int Complete(LevelsOptions* options) {
  const auto bytes = ParseByteSize(options->bytes);
  if (!bytes.ok()) return Refuse("--bytes: " + bytes.status().message());
  options->bytes_total = *bytes;
  options->scheme_value = options->scheme == "partner" ? Scheme::kPartner
                          : options->scheme == "xor"   ? Scheme::kXor
                                                       : Scheme::kReedSolomon;
  if (options->lose.ends_with(',')) return Refuse("--lose: a node is missing after the last comma");
  std::istringstream list(options->lose);
  for (std::string part; std::getline(list, part, ',');) {
    char* end = nullptr;
    const long node = std::strtol(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || node < 0 || node >= options->nodes) {
      return Refuse(fmt::format("--lose: \"{}\" is none of the nodes 0 to {}", part, options->nodes - 1));
    }
    if (options->IsLost(static_cast<int>(node))) return Refuse(fmt::format("--lose: node {} stands there twice", node));
    options->lost_nodes.push_back(static_cast<int>(node));
  }
  if (options->lost_nodes.size() >= static_cast<size_t>(options->nodes)) return Refuse("--lose: some node must be left");
  if (options->bytes_total < static_cast<uint64_t>(options->ranks())) return Refuse("--bytes: less than a byte a rank");
  // As the agents will lay the nodes out.
  std::vector<redundancy::Node> nodes;
  for (int node = 0; node < options->nodes; ++node) {
    const std::string name = fmt::format("node {}", node);
    nodes.push_back({name, name, {static_cast<uint32_t>(node)}});
  }
  const redundancy::LayoutOptions wanted{options->scheme_value, static_cast<uint32_t>(options->group),
                                         static_cast<uint32_t>(options->losses), static_cast<uint32_t>(options->copies)};
  const auto layout = redundancy::MakeLayout(std::move(nodes), wanted);
  return layout.ok() ? 0 : Refuse(layout.status().message());
}

}  // namespace

unsigned LevelsOptions::parity() const {
  if (scheme_value == Scheme::kPartner) return static_cast<unsigned>(copies);
  return scheme_value == Scheme::kXor ? 1 : static_cast<unsigned>(losses);
}

bool LevelsOptions::IsLost(int node) const {
  return std::find(lost_nodes.begin(), lost_nodes.end(), node) != lost_nodes.end();
}

std::string LevelsOptions::NodeName(int node) const {
  const bool spare = phase == "restore" && IsLost(node);
  return fmt::format("{}-{}{}", std::filesystem::path(folder).filename().string(), spare ? "s" : "n", node);
}

std::string LevelsOptions::NodeFolder(int node) const {
  return folder + "/" + NodeName(node);
}

std::string LevelsOptions::ProtectOverrides() const {
  return fmt::format("protect.scheme={}\nprotect.group={}\nprotect.losses={}\nprotect.copies={}\nschedule.node=1\n", scheme,
                     group, losses, copies);
}

std::vector<std::string> LevelsOptions::ArgumentsFor(const std::string& of_phase) const {
  std::vector<std::string> arguments = {"levels",
                                        "--nodes",
                                        fmt::format("{}", nodes),
                                        "--ranks-per-node",
                                        fmt::format("{}", ranks_per_node),
                                        "--scheme",
                                        scheme,
                                        "--group",
                                        fmt::format("{}", group),
                                        "--losses",
                                        fmt::format("{}", losses),
                                        "--copies",
                                        fmt::format("{}", copies),
                                        "--bytes",
                                        bytes,
                                        "--lose",
                                        lose,
                                        "--repetitions",
                                        fmt::format("{}", repetitions),
                                        "--warmups",
                                        fmt::format("{}", warmups),
                                        "--provider",
                                        provider,
                                        "--phase",
                                        of_phase,
                                        "--folder",
                                        folder};
  if (cold_spares) arguments.emplace_back("--cold-spares");
  if (!overrides.empty()) arguments.insert(arguments.end(), {"--set", overrides});
  return arguments;
}

bool ParseLevelsOptions(int argc, char** argv, LevelsOptions* options, int* code) {
  CLI::App app{
      "Measures protection across nodes and the restart after a loss of nodes, on virtual nodes of this machine, beside what "
      "memory, network and codes can do with the same bytes. Launches its ranks with mpirun itself.",
      "kedge-bench levels"};
  app.add_option("--nodes", options->nodes, "virtual nodes, each with an agent of its own")
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  app.add_option("--ranks-per-node", options->ranks_per_node, "ranks on each node")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--scheme", options->scheme, "partner, xor or rs")
      ->capture_default_str()
      ->check(CLI::IsMember({"partner", "xor", "rs"}));
  app.add_option("--group", options->group, "nodes of a group (default: chosen by the scheme)")->check(CLI::Range(0, 255));
  app.add_option("--losses", options->losses, "losses in a group that rs survives")
      ->capture_default_str()
      ->check(CLI::Range(1, 254));
  app.add_option("--copies", options->copies, "copies on other nodes, for partner")
      ->capture_default_str()
      ->check(CLI::Range(1, 254));
  app.add_option("--bytes", options->bytes, "bytes over all ranks, for example 256MiB, 1GiB")->capture_default_str();
  app.add_option("--lose", options->lose, "nodes to lose, by index, separated by commas; \"\": none")->capture_default_str();
  app.add_flag(
      "--cold-spares", options->cold_spares,
      "the restart starts the agents of the nodes that take a lost one's place, instead of finding them as after `kedge run`");
  app.add_option("--repetitions", options->repetitions, "measured checkpoints")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--warmups", options->warmups, "checkpoints before those, the first of them reported apart")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--provider", options->provider, "libfabric provider of the reference")->capture_default_str();
  app.add_option("--set", options->overrides, "configuration, as section.key=value");
  app.add_option("--launcher", options->launcher, "what starts the ranks; their number follows (default: mpirun of the build)");
  app.add_option("--phase", options->phase)->group("");  // of the ranks that it launches
  app.add_option("--folder", options->folder)->group("");
  if (!ParseArguments(app, argc, argv, code)) return false;
  if (options->launcher.empty()) options->launcher = KEDGE_BENCH_LAUNCHER;
  *code = Complete(options);
  return *code == 0;
}

}  // namespace kedge::bench

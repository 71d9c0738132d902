// What the reduction of collective deduplication costs and spreads [Dedup], with as many members as nobody has at hand: the
// merges are real, the network is on paper.
//
//   popular-blocks [--most 4096] [--members 16384] [--common 3000] [--own 500] [--latency-us 20] [--bytes-per-second 1e9]
//
// Each member has the common blocks, one in eight of them not, and blocks of its own, up to so many. Summaries go up a binary
// tree and down again. Prints one JSON object a line, for 2, 4, 8, ... members: how long that takes on the way that takes
// longest, the largest message, and how many blocks the most loaded member stores: over the least that is possible (the mean, or
// the blocks that one member alone has), and over what a member has to store where nothing is shared.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arguments.h"
#include "base/duration.h"
#include "base/random.h"
#include "os/process/thread.h"
#include "reduce/popular_blocks.h"

namespace kedge::bench {
namespace {

using reduce::PopularBlocks;

struct Options {
  uint32_t most = 4096, members = 16384, common = 3000, own = 500;
  double latency_us = 20, bytes_per_second = 1e9;
};

Fingerprint Block(uint64_t number) {
  Fingerprint fingerprint{};
  const uint64_t mixed = MixSeed(number, 1);
  std::memcpy(fingerprint.data(), &mixed, sizeof mixed);
  return fingerprint;
}

class Tree {
 public:
  explicit Tree(const Options& options) : options_(options) {}

  // Of members first to first + count - 1, and when it is there.
  struct Reduced {
    PopularBlocks blocks;
    double seconds = 0;
  };
  Reduced Reduce(uint32_t first, uint32_t count) {
    if (count == 1) return Begin(first);
    const Reduced one = Reduce(first, count / 2), other = Reduce(first + count / 2, count - count / 2);
    const Duration begin = os::ThreadProcessorTime();
    PopularBlocks merged = PopularBlocks::Merge(one.blocks, other.blocks, options_.most);
    const double merging = ToSeconds(os::ThreadProcessorTime() - begin);
    const double arrived = std::max(one.seconds, other.seconds + Transfer(other.blocks));
    return {std::move(merged), arrived + merging};
  }
  double Transfer(const PopularBlocks& blocks) {
    message_bytes_max_ = std::max(message_bytes_max_, blocks.Bytes());
    return options_.latency_us * 1e-6 + static_cast<double>(blocks.Bytes()) / options_.bytes_per_second;
  }
  uint64_t message_bytes_max() const { return message_bytes_max_; }
  uint32_t alone_max() const { return alone_max_; }
  uint64_t own_max() const { return own_max_; }

 private:
  Reduced Begin(uint32_t member) {
    Random random(member);
    std::vector<Fingerprint> blocks;
    for (uint32_t i = 0; i < options_.common; ++i) {
      if (random.Below(8) != 0) blocks.push_back(Block(i));
    }
    const uint64_t own = random.Below(options_.own + 1);
    own_max_ = std::max(own_max_, own);
    for (uint64_t i = own; i > 0; --i) blocks.push_back(Block((uint64_t{member} + 1) << 32 | i));
    alone_max_ = std::max(alone_max_, static_cast<uint32_t>(blocks.size()));
    const Duration begin = os::ThreadProcessorTime();
    PopularBlocks summary = PopularBlocks::Of(member, blocks, options_.most);
    return {std::move(summary), ToSeconds(os::ThreadProcessorTime() - begin)};
  }

  const Options& options_;
  uint64_t message_bytes_max_ = 0;
  uint32_t alone_max_ = 0;
  uint64_t own_max_ = 0;
};

void Print(const Options& options, uint32_t members) {
  Tree tree(options);
  const Tree::Reduced all = tree.Reduce(0, members);
  double seconds = all.seconds;
  for (uint32_t reached = 1; reached < members; reached *= 2) seconds += tree.Transfer(all.blocks);
  uint64_t sum = 0;
  uint32_t greatest = 0;
  for (const PopularBlocks::Load& load : all.blocks.loads()) {
    sum += load.blocks;
    greatest = std::max(greatest, load.blocks);
  }
  // Nobody else has a member's own blocks.
  const double least = std::max(static_cast<double>(sum) / members, static_cast<double>(tree.own_max()));
  fmt::print(R"({{"members":{},"seconds":{:.6f},"message_bytes_max":{},"max_over_least":{:.3f},"max_over_alone":{:.3f}}})"
             "\n",
             members, seconds, tree.message_bytes_max(), greatest / least, static_cast<double>(greatest) / tree.alone_max());
}

int Main(int argc, char** argv) {
  CLI::App app{"What the reduction of collective deduplication costs, and how even it is."};
  Options options;
  int code = 0;
  app.add_option("--most", options.most, "blocks that a summary names")->check(CLI::Range(1, 1 << 24));
  app.add_option("--members", options.members, "as many at most")->check(CLI::Range(2, 1 << 20));
  app.add_option("--common", options.common, "blocks that most members have")->check(CLI::Range(1, 1 << 24));
  app.add_option("--own", options.own, "blocks at most that one member has")->check(CLI::Range(0, 1 << 24));
  app.add_option("--latency-us", options.latency_us, "of a message")->check(CLI::NonNegativeNumber);
  app.add_option("--bytes-per-second", options.bytes_per_second, "of a member's network")->check(CLI::PositiveNumber);
  if (!ParseArguments(app, argc, argv, &code)) return code;
  for (uint32_t members = 2; members <= options.members; members *= 2) Print(options, members);
  return 0;
}

}  // namespace
}  // namespace kedge::bench

int main(int argc, char** argv) {
  return kedge::bench::Main(argc, argv);
}

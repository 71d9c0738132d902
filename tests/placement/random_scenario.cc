#include "random_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace kedge::bench {
namespace {

constexpr double kChunkMegabytes = 67.1;

// Uniform in the logarithm.
double Between(Random& random, double low, double high) {
  return low * std::pow(high / low, random.Unit());
}

uint32_t WholeBetween(Random& random, double low, double high) {
  return static_cast<uint32_t>(std::round(Between(random, low, high)));
}

enum class Shape : uint64_t { kFlat, kRising, kRisingAgain, kPeaked };

std::string Curve(Random& random, double peak, uint32_t writers_max, uint64_t shapes) {
  const auto shape = static_cast<Shape>(random.Below(shapes));
  const uint32_t best = WholeBetween(random, 1, 64);
  const double alone = Between(random, 0.1, 1);
  const double crowded = Between(random, 0.15, 1);
  std::string text;
  for (uint32_t writers = 1;;) {
    double factor = 1;
    if (shape != Shape::kFlat && writers < best) {
      factor = alone + (1 - alone) * std::log(writers) / std::log(best);
    } else if (shape == Shape::kPeaked) {
      factor = std::max(crowded, 1 - (1 - crowded) * std::log(1.0 * writers / best) / std::log(8.0));
    }
    text += fmt::format("{}[{}, {:.3f}]", text.empty() ? "" : ", ", writers, std::max(0.01, peak * factor));
    if (writers == writers_max) return "[" + text + "]";
    writers = std::min(writers_max, static_cast<uint32_t>(std::ceil(writers * (1.5 + 0.7 * random.Unit()))));
  }
}

std::string Share(Random& random, double seconds) {
  std::string text;
  auto add = [&](double second, double factor) {
    text += fmt::format("{}[{:.3f}, {:.3f}]", text.empty() ? "" : ", ", second, factor);
  };
  double at = 0;
  switch (random.Below(4)) {
    case 0: return "";
    case 1: add(0.8 * seconds * random.Unit(), random.Chance(0.5) ? 0.1 : 10.0); break;
    case 2:
      for (int i = 0; i < 5; ++i) {
        at += 0.4 * seconds * random.Unit();
        add(at, 0);
        at += 5 * random.Unit();
        add(at, 1);
      }
      break;
    default:
      for (int i = 0; i < 20; ++i) {
        at += 0.15 * seconds * random.Unit();
        add(at, Between(random, 0.2, 2));
      }
  }
  return fmt::format("share = [{}]\n", text);
}

}  // namespace

std::string RandomScenario(uint64_t seed) {
  Random random(MixSeed(seed, 99));
  const uint32_t writers = WholeBetween(random, 1, 256);
  const uint32_t chunks = WholeBetween(random, 1, std::min(64.0, 2048.0 / writers) + 1);
  const uint32_t total = writers * chunks;
  const size_t tiers = random.Chance(0.25) ? 3 : 2;
  const double peaks[] = {Between(random, 2000, 30000), Between(random, 100, 6000), Between(random, 50, 2000)};
  const double store = Between(random, 30, 6000);
  std::string text = fmt::format("chunk_mib = 64\nwriters = {}\nchunks_per_writer = {}\nseed = {}\n", writers, chunks, seed);
  if (random.Chance(0.3)) text += fmt::format("noise = {:.3f}\n", 0.3 * random.Unit());
  for (size_t i = 0; i < tiers; ++i) {
    uint32_t capacity = i == 0 ? WholeBetween(random, 1, 128) : total;
    if (i == 1 && tiers == 3 && random.Chance(0.3)) capacity = WholeBetween(random, 1, total + 1);
    if (i + 1 < tiers && random.Chance(0.04)) capacity = 0;
    text += fmt::format("[[tier]]\nname = \"tier-{}\"\ncapacity_chunks = {}\ncurve = {}\n", i, capacity,
                        Curve(random, peaks[i], 256, 4));
  }
  text += fmt::format("[store]\nworkers_max = {}\ncurve = {}\n", WholeBetween(random, 1, 32), Curve(random, store, 64, 3));
  return text + Share(random, kChunkMegabytes * total / store);
}

}  // namespace kedge::bench

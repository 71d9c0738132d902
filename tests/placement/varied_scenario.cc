#include "varied_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace kedge::bench {
namespace {

using Samples = std::vector<std::pair<int, double>>;  // writers, MB/s over all of them

const Samples kCache = {{1, 8000}, {4, 20000}};
const Samples kPeak16 = {{1, 110},  {2, 200},  {4, 350},   {8, 550},   {16, 690},
                         {32, 560}, {64, 340}, {128, 220}, {192, 185}, {256, 170}};
const Samples kPeak4 = {{1, 200}, {2, 350}, {4, 500}, {8, 430}, {16, 330}, {32, 250}, {64, 200}, {256, 150}};
const Samples kPeak8 = {{1, 150}, {2, 260}, {4, 430}, {8, 600}, {16, 520}, {32, 400}, {64, 300}, {256, 180}};
const Samples kPeak32 = {{1, 60}, {4, 210}, {8, 380}, {16, 560}, {32, 720}, {64, 600}, {128, 400}, {256, 250}};
const Samples kFlat = {{1, 500}, {256, 500}};
const Samples kOneSample = {{1, 500}};
const Samples kNvme = {{1, 900}, {2, 1700}, {4, 2600}, {8, 3000}, {16, 3000}, {256, 2800}};
const Samples kRising = {{1, 60}, {16, 400}, {64, 700}, {256, 900}};
const Samples kPlateau = {{1, 110}, {4, 350}, {16, 690}, {64, 690}, {256, 660}};
// Three on which writers help one another: two get more than twice of what one gets.
const Samples kSlowStart = {{1, 20}, {16, 690}, {64, 340}, {256, 170}};
const Samples kJump = {{1, 30}, {8, 200}, {16, 690}, {32, 400}, {256, 170}};
const Samples kFewSamples = {{1, 40}, {16, 700}, {256, 100}};
const Samples kHardDisk = {{1, 150}, {2, 160}, {8, 120}, {64, 60}};
const Samples kStore = {{1, 400}, {4, 1100}, {8, 1300}};
const Samples kWideStore = {{1, 400}, {4, 1100}, {8, 1300}, {32, 1500}};

Samples Scaled(Samples curve, double factor) {
  for (auto& [writers, megabytes] : curve) megabytes *= factor;
  return curve;
}

std::string Pairs(const std::vector<std::pair<double, double>>& pairs) {
  std::string text;
  for (const auto& [first, second] : pairs) text += fmt::format("{}[{:g}, {:g}]", text.empty() ? "" : ", ", first, second);
  return "[" + text + "]";
}

std::string Pairs(const Samples& curve) {
  return Pairs(std::vector<std::pair<double, double>>(curve.begin(), curve.end()));
}

// A node and its checkpoint.
struct Node {
  double chunk_mib = 64;
  int writers = 64;
  int chunks = 8;  // of each writer
  int seed = 1;
  double noise = 0;
  int cache_chunks = 32;
  Samples cache = kCache;
  int middle_chunks = 0;  // a tier between cache and disk; 0: none
  Samples middle = kNvme;
  Samples disk = kPeak16;
  int disk_chunks = 0;  // 0: everything
  Samples store = kStore;
  int workers_max = 8;
  std::vector<std::pair<double, double>> share = {};  // of the store

  std::string Text() const {
    std::string text = fmt::format("chunk_mib = {}\nwriters = {}\nchunks_per_writer = {}\nseed = {}\nnoise = {}\n", chunk_mib,
                                   writers, chunks, seed, noise);
    const auto tier = [&](const char* name, int capacity, const Samples& curve) {
      text += fmt::format("[[tier]]\nname = \"{}\"\ncapacity_chunks = {}\ncurve = {}\n", name, capacity, Pairs(curve));
    };
    tier("cache", cache_chunks, cache);
    if (middle_chunks > 0) tier("middle", middle_chunks, middle);
    tier("disk", disk_chunks > 0 ? disk_chunks : writers * chunks, disk);
    return text + fmt::format("[store]\nworkers_max = {}\ncurve = {}\nshare = {}\n", workers_max, Pairs(store), Pairs(share));
  }
};

class Collection {
 public:
  void Add(std::string name, const Node& node) { scenarios_.push_back({std::move(name), node.Text()}); }
  std::vector<VariedScenario> Take() { return std::move(scenarios_); }

 private:
  std::vector<VariedScenario> scenarios_;
};

void AddSizes(Collection& all) {
  for (const int writers : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}) {
    all.Add(fmt::format("writers-{}", writers), {.writers = writers, .chunks = std::max(1, 512 / writers)});
  }
  for (const int chunks : {1, 2}) {
    for (const int writers : {4, 17, 33, 40, 64, 100, 256}) {
      all.Add(fmt::format("chunks-{}-each-of-{}", chunks, writers), {.writers = writers, .chunks = chunks});
    }
  }
  for (const int mib : {1, 4, 8, 16, 32, 128, 256}) {
    all.Add(fmt::format("chunk-{}-mib", mib),
            {.chunk_mib = double(mib), .chunks = std::clamp(512 / mib, 1, 32), .cache_chunks = std::max(1, 2048 / mib)});
  }
  for (const int cache : {0, 1, 2, 4, 8, 16, 64, 128, 256}) all.Add(fmt::format("cache-{}", cache), {.cache_chunks = cache});
  all.Add("cache-1-writers-1", {.writers = 1, .chunks = 64, .cache_chunks = 1});
  all.Add("cache-1-writers-256", {.writers = 256, .chunks = 2, .cache_chunks = 1});
  all.Add("small-disk", {.disk_chunks = 64});
  all.Add("small-disk-slow-store", {.disk_chunks = 64, .store = Scaled(kStore, 0.25)});
}

void AddDevices(Collection& all) {
  const std::vector<std::pair<const char*, Samples>> disks = {
      {"peak-4", kPeak4},    {"peak-8", kPeak8},         {"peak-16", kPeak16}, {"peak-32", kPeak32},
      {"flat", kFlat},       {"one-sample", kOneSample}, {"nvme", kNvme},      {"rising", kRising},
      {"plateau", kPlateau}, {"slow-start", kSlowStart}, {"jump", kJump},      {"few-samples", kFewSamples}};
  for (const auto& [name, disk] : disks) {
    for (const double store : {0.15, 0.5, 1.0, 2.0, 6.0}) {
      all.Add(fmt::format("{}-store-{:.0f}", name, 1300 * store), {.disk = disk, .store = Scaled(kStore, store)});
    }
    all.Add(fmt::format("{}-writers-16", name), {.writers = 16, .chunks = 16, .disk = disk});
    all.Add(fmt::format("{}-writers-256", name), {.writers = 256, .chunks = 2, .disk = disk});
    all.Add(fmt::format("{}-short", name), {.writers = 40, .chunks = 1, .cache_chunks = 8, .disk = disk});
  }
  for (const auto& [name, disk] : disks) {
    for (const int writers : {2, 4, 8, 12, 24}) {
      for (const int chunks : {2, 12}) {
        all.Add(fmt::format("{}-writers-{}-chunks-{}", name, writers, chunks),
                {.writers = writers, .chunks = chunks, .cache_chunks = 4, .disk = disk});
      }
    }
  }
  for (const int workers : {1, 2, 4, 16, 32}) {
    all.Add(fmt::format("workers-{}", workers), {.store = kWideStore, .workers_max = workers});
    all.Add(fmt::format("workers-{}-flat", workers), {.store = {{1, 1300}}, .workers_max = workers});
  }
  all.Add("workers-32-cache-8", {.cache_chunks = 8, .store = kWideStore, .workers_max = 32});
  all.Add("slow-cache", {.cache = {{1, 900}, {4, 1200}}, .disk = kNvme});
  all.Add("three-tiers", {.middle_chunks = 64});
  all.Add("three-tiers-small", {.cache_chunks = 8, .middle_chunks = 8});
  all.Add("three-tiers-writers-256", {.writers = 256, .chunks = 4, .middle_chunks = 64});
  all.Add("three-tiers-hard-disk", {.middle_chunks = 64, .middle = kPeak16, .disk = kHardDisk});
  all.Add("three-tiers-hard-disk-writers-16",
          {.writers = 16, .chunks = 32, .middle_chunks = 64, .middle = kPeak16, .disk = kHardDisk});
  all.Add("three-tiers-fast-store", {.middle_chunks = 256, .store = Scaled(kStore, 3)});
  all.Add("three-tiers-stall", {.middle_chunks = 64, .share = {{2, 0}, {8, 1}}});
}

void AddChanges(Collection& all) {
  for (const double at : {0.5, 2.0, 5.0, 10.0, 15.0}) {
    for (const double seconds : {2.0, 5.0, 10.0, 20.0}) {
      all.Add(fmt::format("stall-at-{}-for-{}", at, seconds), {.writers = 96, .share = {{at, 0}, {at + seconds, 1}}});
    }
  }
  const std::vector<std::pair<const char*, Samples>> disks = {{"peak-16", kPeak16}, {"nvme", kNvme}, {"flat", kFlat}};
  for (const auto& [name, disk] : disks) {
    for (const double at : {1.0, 3.0, 6.0, 10.0, 15.0}) {
      all.Add(fmt::format("{}-a-tenth-from-{}", name, at), {.writers = 96, .disk = disk, .share = {{at, 0.1}}});
      all.Add(fmt::format("{}-tenfold-from-{}", name, at), {.writers = 96, .disk = disk, .share = {{at, 10}}});
      all.Add(fmt::format("{}-a-tenth-until-{}", name, at), {.writers = 96, .disk = disk, .share = {{0, 0.1}, {at, 1}}});
    }
  }
  all.Add("changing", {.writers = 96, .share = {{2, 0.3}, {4, 1.2}, {6, 0.5}, {8, 1.6}, {10, 0.2}, {12, 1}}});
  Node drift{.writers = 96};
  for (int second = 0; second <= 20; ++second) drift.share.emplace_back(second, 1 - 0.04 * second);
  all.Add("slower-and-slower", drift);
  std::reverse(drift.share.begin(), drift.share.end());
  for (auto& [second, factor] : drift.share) second = 20 - second;
  all.Add("faster-and-faster", drift);
}

void AddNoise(Collection& all) {
  for (const double noise : {0.1, 0.2, 0.3}) {
    for (const int seed : {1, 2, 3}) {
      const std::string name = fmt::format("noise-{}-seed-{}", noise, seed);
      all.Add(name, {.seed = seed, .noise = noise});
      all.Add(name + "-short", {.writers = 40, .chunks = 1, .seed = seed, .noise = noise});
      all.Add(name + "-one-writer", {.writers = 1, .chunks = 64, .seed = seed, .noise = noise});
    }
  }
}

}  // namespace

std::vector<VariedScenario> VariedScenarios() {
  Collection all;
  AddSizes(all);
  AddDevices(all);
  AddChanges(all);
  AddNoise(all);
  return all.Take();
}

}  // namespace kedge::bench

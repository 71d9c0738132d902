// The fixture of the tests of protection across nodes: a job of rank threads over four virtual nodes, whose content follows from
// rank and version.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "kedge/kedge.h"
#include "tests/support/virtual_nodes.h"

namespace kedge::testing {

#define EXPECT_KEDGE_OK(call) EXPECT_EQ((call), KEDGE_OK) << kedge_error_message()

inline constexpr char kNoStore[] = "schedule.store=0\n";
inline constexpr char kXorOfFour[] = "protect.scheme=xor\nprotect.group=4\n";

// Unequal sizes, over several blocks and chunks.
inline std::vector<uint64_t> Content(int rank, int64_t version) {
  std::vector<uint64_t> words(50000 + static_cast<size_t>(rank) * 70001);
  Random(MixSeed(static_cast<uint64_t>(version), static_cast<uint64_t>(rank))).Fill(words.data(), words.size() * 8);
  return words;
}

// Alike in size: two chunks.
inline std::vector<uint64_t> TwoChunks(int rank, int64_t version) {
  std::vector<uint64_t> words(786'432);
  Random(MixSeed(static_cast<uint64_t>(version), static_cast<uint64_t>(rank))).Fill(words.data(), words.size() * 8);
  return words;
}

// In place: the memory is protected.
inline void Fill(std::vector<uint64_t>* memory, int rank, int64_t version) {
  const std::vector<uint64_t> content = Content(rank, version);
  std::copy(content.begin(), content.end(), memory->begin());
}

struct Scheme {
  const char* name;
  const char* keys;
  int losses;  // of a group
};
inline const Scheme kSchemes[] = {{"Partner", "protect.scheme=partner\nprotect.group=4\n", 1},
                                  {"Xor", kXorOfFour, 1},
                                  {"ReedSolomon", "protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n", 2}};
inline std::string NameOf(const ::testing::TestParamInfo<Scheme>& scheme) {
  return scheme.param.name;
}

class ProtectTest : public ::testing::Test {
 protected:
  explicit ProtectTest(int nodes = 4) : nodes_(nodes) {}
  // Takes versions 1 to `last` and waits for `level` of each.
  void Take(const std::vector<int>& places, const std::string& keys, int64_t last, kedge_level level = KEDGE_LEVEL_NODE) {
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = Content(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      for (int64_t version = 1; version <= last; ++version) {
        Fill(&memory, rank, version);
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        EXPECT_KEDGE_OK(kedge_wait(context, "p", version, level, 60));
      }
      kedge_level reached = KEDGE_LEVEL_NONE;
      EXPECT_KEDGE_OK(kedge_test(context, "p", last, &reached));
      EXPECT_GE(reached, level) << "rank " << rank;
    });
  }
  // What each rank has protected as TwoChunks comes back bit for bit.
  void ExpectTwoChunks(const std::vector<int>& places, const std::string& keys, int64_t expected) {
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = TwoChunks(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
      EXPECT_EQ(version, expected);
      EXPECT_TRUE(memory == TwoChunks(rank, expected)) << "rank " << rank;
    });
  }
  // An image of 24 MiB of each of two nodes gets to the store through a pool of 8.
  void TakeMoreThanThePool(const std::string& keys) {
    for (const int node : {0, 1}) nodes_.StartAgent(node, {}, "8MiB");
    nodes_.Run({0, 1}, keys + "pool.size=8MiB\n", [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory(3 << 20);
      Random(MixSeed(1, static_cast<uint64_t>(rank))).Fill(memory.data(), memory.size() * 8);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
    });
  }
  // Restarts and expects `version` bit for bit on all ranks; -1: there was something, and it is lost. Bytes that came from the
  // store.
  uint64_t ExpectRestart(const std::vector<int>& places, const std::string& keys, int64_t expected,
                         const std::function<void(kedge_context*, int)>& then = {}) {
    std::atomic<uint64_t> from_store{0};
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = Content(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      int64_t version = -1;
      const int code = kedge_restart(context, "p", -1, &version);
      EXPECT_EQ(code, expected >= 0 ? KEDGE_OK : KEDGE_ERROR_LOST) << kedge_error_message();
      if (expected >= 0) {
        EXPECT_EQ(version, expected) << "rank " << rank;
        EXPECT_TRUE(memory == Content(rank, expected)) << "rank " << rank;
      }
      kedge_statistics statistics{};
      statistics.struct_size = sizeof statistics;
      EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
      from_store += statistics.bytes_restored_store;
      if (then) then(context, rank);
    });
    return from_store;
  }

  // A counter of the node's agent.
  int64_t Counted(int node, const std::string& counter) {
    auto status = nodes_.Tool(node, {"status", "--json"});
    EXPECT_TRUE(status->Succeeds(std::chrono::seconds(20))) << status->Output();
    const Json json = Json::parse(status->Output(), nullptr, false);
    return json.is_object() ? json["counters"].value(counter, int64_t{-1}) : -1;
  }

  VirtualNodes nodes_;
  const std::vector<int> all_ = {0, 1, 2, 3};
};

}  // namespace kedge::testing

// The fixture of the tests of few large objects: four virtual nodes, and what their versions are in a folder as a store.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "store/verify.h"
#include "store/versions.h"
#include "tests/protect/protect_fixture.h"
#include "tests/support/steered_agents.h"

namespace kedge::testing {

using namespace std::chrono_literals;
namespace files = std::filesystem;

class LeadersTest : public ProtectTest {
 protected:
  // Of an attempt that took its versions one after the other.
  Generation At(int64_t version) const { return {catalog().id(), "nodes", "p", version, 1, static_cast<uint32_t>(version)}; }
  const Catalog& catalog() const {
    if (!catalog_) catalog_ = Catalog::Open(*store_, {"test", 0, "test"}).value();
    return *catalog_;
  }
  // Names of the version's objects, and what else lies with them.
  std::set<std::string> Data(int64_t version) const {
    std::set<std::string> found;
    std::error_code gone;
    for (const auto& entry : files::directory_iterator(nodes_.Store() + "/" + keys::ObjectsFolder(At(version)), gone)) {
      found.insert(entry.path().filename());
    }
    return found;
  }
  void ExpectObjects(int64_t version, size_t objects) const {
    const std::set<std::string> data = Data(version);
    EXPECT_EQ(data.size(), objects);
    for (const std::string& name : data) EXPECT_TRUE(keys::IsNodeObject("data/" + name)) << name;
  }
  // Takes versions 1 to `last` with these keys, all to the store.
  void TakeStored(const std::vector<int>& places, const std::string& keys, int64_t last = 1) {
    Take(places, keys, last, KEDGE_LEVEL_STORE);
  }
  // The third of four ranks never takes the version: the others' images are in the store soon all the same.
  void TakeWithoutTheThird(const std::string& keys, const std::function<std::vector<uint64_t>(int rank)>& content) {
    nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = content(rank);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      if (rank == 2) return;
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      const auto has_all = [&] {
        const auto info = InspectGeneration(catalog(), At(1));
        return info.ok() && info->ranks == 4 && info->missing_ranks == std::vector<uint32_t>{2};
      };
      for (int i = 0; rank == 0 && i < 2000 && !has_all(); ++i) std::this_thread::sleep_for(10ms);
      EXPECT_TRUE(rank != 0 || has_all());
    });
  }
  // Of five ranks the last two run on the node that writes for all, and cannot write until the others' images are in the store.
  // Then all of the version gets there.
  void TakeBesideAWriterThatFails(const std::vector<int>& places, const std::string& keys, std::chrono::seconds patience) {
    const SteeredAgents agents(nodes_.RunFolder(0) + ".steering");
    agents.Fail(".n3-", os::testing::CallsOf(os::testing::Call::kPwrite), EIO);
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = Content(rank, 1);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      const auto lacks_the_writers = [&] {
        const auto info = InspectGeneration(catalog(), At(1));
        return info.ok() && info->ranks == 5 && info->missing_ranks == std::vector<uint32_t>{3, 4};
      };
      if (rank == 0) {
        for (int i = 0; i < patience / 10ms && !lacks_the_writers(); ++i) std::this_thread::sleep_for(10ms);
        EXPECT_TRUE(lacks_the_writers());
        agents.Mend();
      }
      // A flush that was given up is tried again by who asks.
      while (rank > 2 && kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 1) != KEDGE_OK && !HasFailure()) {
      }
      EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
    });
  }
  // From the store alone: nothing is left of the nodes.
  void ExpectStored(const std::vector<int>& places, int64_t version) {
    for (int node = 0; node < 4; ++node) {
      if (nodes_.KillAgent(node)) nodes_.DeleteFiles(node);
    }
    EXPECT_GT(ExpectRestart(places, "", version), 0u);
  }

  const std::unique_ptr<Store> store_ = MakePosixStore(os::SystemFileSystem(), {nodes_.Store(), 0600, 0700, false});
  mutable std::optional<Catalog> catalog_;
  const std::vector<int> eight_ = {0, 0, 1, 1, 2, 2, 3, 3};
};

}  // namespace kedge::testing

// A store on a simulated file system with its catalog, in the name of attempt 1, and short ways to take and look at versions of
// one job and name.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "os/testing/simulated_file_system.h"
#include "store/posix/posix_store.h"
#include "store/retention.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::testing {

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() : store_(MakePosixStore(fs_, {.path = "/store"})) {
    Result<Catalog> made = Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    catalog_.emplace(std::move(*made));
  }
  Generation At(int64_t version, uint32_t attempt = 1, uint32_t take = 1, const std::string& name = "wave") {
    return {catalog_->id(), "job", name, version, attempt, take};
  }
  void Take(const Generation& generation) {
    const Status status = TakeVersion(*catalog_, generation, options_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::vector<int64_t> Complete(const std::string& name = "wave") {
    std::vector<int64_t> versions;
    const auto complete = CompleteVersions(*catalog_, "job", name, -1);
    EXPECT_TRUE(complete.ok()) << complete.status().ToString();
    for (const VersionInfo& info : *complete) versions.push_back(info.generation.version);
    return versions;
  }
  VersionInfo Inspect(const Generation& generation) {
    Result<VersionInfo> info = InspectGeneration(*catalog_, generation);
    EXPECT_TRUE(info.ok()) << info.status().ToString();
    return info.ok() ? *info : VersionInfo{};
  }
  Status Overwrite(const std::string& key, ByteSpan bytes) {
    return store_->Replace(key, bytes, catalog_->owner(), Folders::kMustExist);
  }
  Status Retain(uint32_t keep, RetentionReport* report = nullptr, const std::string& name = "wave") {
    return ApplyRetention(*catalog_, "job", name, {keep, in_use_}, report);
  }

  os::testing::SimulatedFileSystem fs_;
  std::unique_ptr<Store> store_;
  std::optional<Catalog> catalog_;
  MakerOptions options_;
  std::set<Generation> in_use_;
};

}  // namespace kedge::testing

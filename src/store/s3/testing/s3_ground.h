// Stores in buckets of servers for a whole test program.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "store/s3/s3_store.h"
#include "store/s3/testing/shared_servers.h"
#include "store/testing/ground.h"

namespace kedge::s3::testing {

class S3Ground final : public kedge::testing::Ground {
 public:
  explicit S3Ground(const S3Server& server)
      : location_(server.At("test-" + std::to_string(counter_++), "&part=5MiB&connections=4")), store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return MakeS3Store(location_, TestEnvironment()); }
  uint64_t share_bytes() const override { return location_.part_bytes; }

 private:
  static inline std::atomic<int> counter_{0};
  const Location location_;
  std::unique_ptr<Store> store_;
};

}  // namespace kedge::s3::testing

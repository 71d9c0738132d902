// Tests of an S3 store behind a proxy that spoils requests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/random.h"
#include "store/s3/s3_store.h"
#include "store/s3/testing/fault_proxy.h"
#include "store/s3/testing/shared_servers.h"
#include "store/s3/uploads.h"

namespace kedge::s3::testing {

inline const TemporaryOwner kWriter{"node1", 3, "agent"};
inline constexpr uint64_t kObjectBytes = 2 * kPartBytesMin + 1000;

// The one that compares what it gets, where the machine has it.
inline S3Server& Server() {
  return Versitygw() != nullptr ? *Versitygw() : Moto();
}

inline const Buffer& Content() {
  static const Buffer content = [] {
    Buffer bytes(kObjectBytes);
    Random(7).Fill(bytes.data(), bytes.size());
    return bytes;
  }();
  return content;
}

class FaultFixture : public ::testing::Test {
 protected:
  explicit FaultFixture(S3Server& server = Server()) : server_(server), proxy_(server.port()) {}

  std::unique_ptr<Store> StoreAt(const std::string& prefix) { return StoreThrough(proxy_, prefix); }
  std::unique_ptr<Store> StoreThrough(const FaultProxy& proxy, const std::string& prefix) {
    return MakeS3Store(At(proxy, prefix), TestEnvironment(), impatient_);
  }
  static Location At(const FaultProxy& proxy, const std::string& prefix) {
    const std::string text =
        std::string("s3://") + kBucket + '/' + prefix + "?endpoint=" + proxy.Endpoint() + "&part=5MiB&connections=4";
    return ParseLocation(text, TestEnvironment()).value();
  }
  static std::string NewPrefix() {
    static std::atomic<int> counter{0};
    return "faults-" + std::to_string(counter++);
  }
  // The uploads that the server still knows of.
  size_t UploadsLeft(const std::string& prefix) {
    Bucket bucket(server_.At(prefix), TestEnvironment(), {});
    const auto uploads = Uploads(bucket).List("");
    EXPECT_TRUE(uploads.ok()) << uploads.status().ToString();
    return uploads.ok() ? uploads->size() : 999;
  }

  S3Server& server_;
  FaultProxy proxy_;
  BucketOptions impatient_{.pause_first = std::chrono::milliseconds(1), .silence_timeout = std::chrono::seconds(1)};
};

}  // namespace kedge::s3::testing

// The S3 store keeps what every store does, over real servers.
#include <atomic>

#include "store/s3/s3_store.h"
#include "store/s3/testing/s3_server.h"
#include "store/testing/store_conformance.h"

namespace kedge::testing {
namespace {

// One of each for the whole program: they take seconds to start.
s3::testing::S3Server* Moto() {
  static const std::unique_ptr<s3::testing::S3Server> server = s3::testing::S3Server::StartMoto();
  return server.get();
}
s3::testing::S3Server* Versitygw() {
  static const std::unique_ptr<s3::testing::S3Server> server = s3::testing::S3Server::StartVersitygw();
  return server.get();
}
s3::testing::S3Server* Radosgw() {
  static const std::unique_ptr<s3::testing::S3Server> server = s3::testing::S3Server::StartRadosgw();
  return server.get();
}

class S3Ground final : public Ground {
 public:
  explicit S3Ground(const s3::testing::S3Server& server)
      : location_(server.At("test-" + std::to_string(counter_++), "&part=5MiB&connections=4")), store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return s3::MakeS3Store(location_, s3::testing::TestEnvironment()); }
  uint64_t share_bytes() const override { return location_.part_bytes; }

 private:
  static inline std::atomic<int> counter_{0};
  const s3::Location location_;
  std::unique_ptr<Store> store_;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {{"Moto", [] { return std::make_unique<S3Ground>(*Moto()); }}};
  if (s3::testing::HasVersitygw()) cases.push_back({"Versitygw", [] { return std::make_unique<S3Ground>(*Versitygw()); }});
  if (s3::testing::HasRadosgw()) cases.push_back({"Radosgw", [] { return std::make_unique<S3Ground>(*Radosgw()); }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(S3, StoreConformance, ::testing::ValuesIn(Cases()), NameOfCase);

}  // namespace
}  // namespace kedge::testing

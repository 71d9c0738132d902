// The S3 store keeps what every store does, over real servers.
#include "store/s3/testing/s3_ground.h"
#include "store/testing/store_conformance.h"

namespace kedge::testing {
namespace {

using s3::testing::S3Ground;

std::vector<Case> Cases() {
  std::vector<Case> cases = {{"Moto", [] { return std::make_unique<S3Ground>(s3::testing::Moto()); }}};
  if (s3::testing::HasVersitygw())
    cases.push_back({"Versitygw", [] { return std::make_unique<S3Ground>(*s3::testing::Versitygw()); }});
  if (s3::testing::HasRadosgw()) cases.push_back({"Radosgw", [] { return std::make_unique<S3Ground>(*s3::testing::Radosgw()); }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(S3, StoreConformance, ::testing::ValuesIn(Cases()), NameOfCase);

}  // namespace
}  // namespace kedge::testing

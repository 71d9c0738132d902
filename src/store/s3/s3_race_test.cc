// Two processes with one store in a bucket, over real servers. A race takes seconds, so that the ordinary tests stop the first at
// one in KEDGE_RACE_STEP of its requests; the long ones (make test-long) do so at each.
#include "store/s3/testing/s3_ground.h"
#include "store/testing/store_races.h"

namespace kedge::testing {
namespace {

class BucketCourse final : public RaceCourse {
 public:
  explicit BucketCourse(const s3::testing::S3Server& server) : server_(server) {}
  std::unique_ptr<Ground> Fresh() override { return std::make_unique<s3::testing::S3Ground>(server_); }

 private:
  const s3::testing::S3Server& server_;
};

std::vector<RaceCase> BucketCourses() {
  std::vector<RaceCase> cases = {{"Moto", [] { return std::make_unique<BucketCourse>(s3::testing::Moto()); }, KEDGE_RACE_STEP}};
  if (s3::testing::HasVersitygw())
    cases.push_back({"Versitygw", [] { return std::make_unique<BucketCourse>(*s3::testing::Versitygw()); }, KEDGE_RACE_STEP});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(S3, StoreRaces, ::testing::ValuesIn(BucketCourses()), NameOfRaceCase);

}  // namespace
}  // namespace kedge::testing

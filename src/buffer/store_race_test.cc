// Two processes with one store on a burst buffer. The ordinary tests stop the first at one in KEDGE_RACE_STEP of its requests;
// the long ones (make test-long) do so at each.
#include "buffer/testing/local_server.h"
#include "os/testing/simulated_file_system.h"
#include "store/testing/store_races.h"

namespace kedge::testing {
namespace {

class RacedBufferGround final : public Ground {
 public:
  RacedBufferGround(const buffer::testing::LocalServer& server, std::string prefix)
      : server_(server), prefix_(std::move(prefix)), store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return server_.Open(prefix_); }

 private:
  const buffer::testing::LocalServer& server_;
  const std::string prefix_;
  const std::unique_ptr<Store> store_;
};

class BufferCourse final : public RaceCourse {
 public:
  std::unique_ptr<Ground> Fresh() override {
    return std::make_unique<RacedBufferGround>(server_, "race" + std::to_string(count_++));
  }

 private:
  os::testing::SimulatedFileSystem disk_;
  const buffer::testing::LocalServer server_{disk_, {.path = "/data"}};
  int count_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Buffer, StoreRaces,
                         ::testing::Values(RaceCase{"OverTcp", [] { return std::make_unique<BufferCourse>(); }, KEDGE_RACE_STEP}),
                         NameOfRaceCase);

}  // namespace
}  // namespace kedge::testing

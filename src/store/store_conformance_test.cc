// The stores in a folder keep what every store does.
#include "store/testing/store_conformance.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"
#include "store/posix/posix_store.h"

namespace kedge::testing {
namespace {

class RealGround final : public Ground {
 public:
  explicit RealGround(bool direct) {
    options_.path = folder_ / "deep/store";
    options_.making = RootMaking::kParents;
    options_.direct = direct;
    store_ = OtherProcess();
  }
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return MakePosixStore(os::SystemFileSystem(), options_); }

 private:
  os::testing::TemporaryFolder folder_;
  PosixStoreOptions options_;
  std::unique_ptr<Store> store_;
};

class SimulatedGround final : public Ground {
 public:
  SimulatedGround() { store_ = OtherProcess(); }
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return MakePosixStore(fs_, {.path = "/store"}); }

 private:
  os::testing::SimulatedFileSystem fs_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         ::testing::Values(Case{"PosixReal", [] { return std::make_unique<RealGround>(false); }},
                                           Case{"PosixRealDirect", [] { return std::make_unique<RealGround>(true); }},
                                           Case{"PosixSimulated", [] { return std::make_unique<SimulatedGround>(); }}),
                         NameOfCase);

}  // namespace
}  // namespace kedge::testing

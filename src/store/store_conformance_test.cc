// The stores in a folder keep what every store does, and so do those that are made of two.
#include "store/testing/store_conformance.h"

#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"
#include "store/copies/copied_store.h"
#include "store/drained/drained_store.h"
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

class CopiedGround final : public Ground {
 public:
  CopiedGround() : store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override {
    return MakeCopiedStore(MakePosixStore(first_, {.path = "/first"}), MakePosixStore(second_, {.path = "/second"}));
  }

 private:
  os::testing::SimulatedFileSystem first_, second_;
  std::unique_ptr<Store> store_;
};

// Everything is cargo, so that the suite meets both.
class DrainedGround final : public Ground {
 public:
  DrainedGround() : store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override {
    DrainedStoreOptions options;
    options.where = [](std::string_view) { return Lies::kCargo; };
    return MakeDrainedStore(MakePosixStore(buffer_, {.path = "/buffer"}), MakePosixStore(store_files_, {.path = "/store"}),
                            options);
  }

 private:
  os::testing::SimulatedFileSystem buffer_, store_files_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         ::testing::Values(Case{"PosixReal", [] { return std::make_unique<RealGround>(false); }},
                                           Case{"PosixRealDirect", [] { return std::make_unique<RealGround>(true); }},
                                           Case{"PosixSimulated", [] { return std::make_unique<SimulatedGround>(); }},
                                           Case{"Copied", [] { return std::make_unique<CopiedGround>(); }, 2},
                                           Case{"Drained", [] { return std::make_unique<DrainedGround>(); }}),
                         NameOfCase);

}  // namespace
}  // namespace kedge::testing

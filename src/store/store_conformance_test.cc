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

// On one file system, or two.
using MakeSimulated = std::function<std::unique_ptr<Store>(os::FileSystem& first, os::FileSystem& second)>;

class SimulatedGround final : public Ground {
 public:
  explicit SimulatedGround(MakeSimulated make) : make_(std::move(make)), store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return make_(first_, second_); }

 private:
  os::testing::SimulatedFileSystem first_, second_;
  const MakeSimulated make_;
  std::unique_ptr<Store> store_;
};

MakeGround Simulated(MakeSimulated make) {
  return [make = std::move(make)] { return std::make_unique<SimulatedGround>(make); };
}

std::unique_ptr<Store> OnOne(os::FileSystem& fs, os::FileSystem& /*none*/) {
  return MakePosixStore(fs, {.path = "/store"});
}

std::unique_ptr<Store> OnBoth(os::FileSystem& first, os::FileSystem& second) {
  return MakeCopiedStore(MakePosixStore(first, {.path = "/first"}), MakePosixStore(second, {.path = "/second"}));
}

// Everything is cargo, so that the suite meets both.
std::unique_ptr<Store> BeforeAnother(os::FileSystem& buffer, os::FileSystem& store) {
  DrainedStoreOptions options;
  options.where = [](std::string_view) { return Lies::kCargo; };
  return MakeDrainedStore(MakePosixStore(buffer, {.path = "/buffer"}), MakePosixStore(store, {.path = "/store"}), options);
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         ::testing::Values(Case{"PosixReal", [] { return std::make_unique<RealGround>(false); }},
                                           Case{"PosixRealDirect", [] { return std::make_unique<RealGround>(true); }},
                                           Case{"PosixSimulated", Simulated(OnOne)}, Case{"Copied", Simulated(OnBoth), 2},
                                           Case{"Drained", Simulated(BeforeAnother)}),
                         NameOfCase);

}  // namespace
}  // namespace kedge::testing

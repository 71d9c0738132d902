// A store on a burst buffer keeps what every store does.
#include <atomic>

#include "buffer/testing/local_server.h"
#include "os/testing/simulated_file_system.h"
#include "store/testing/store_conformance.h"

namespace kedge::testing {
namespace {

class BufferGround final : public Ground {
 public:
  explicit BufferGround(bool encrypt) : server_(os::PrivateFileSystem(), {.encrypt = encrypt}), store_(OtherProcess()) {}
  Store& store() override { return *store_; }
  std::unique_ptr<Store> OtherProcess() override { return server_.Open("deep/store"); }

 private:
  buffer::testing::LocalServer server_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Buffer, StoreConformance,
                         ::testing::Values(Case{"OverTcp", [] { return std::make_unique<BufferGround>(false); }},
                                           Case{"Sealed", [] { return std::make_unique<BufferGround>(true); }}),
                         NameOfCase);

}  // namespace
}  // namespace kedge::testing

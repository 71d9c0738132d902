// A burst buffer in the test's process, with one owner, over loopback; and stores on it.
#pragma once

#include <nlohmann/json.hpp>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "buffer/buffer_server.h"
#include "net/secret_file.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/process/thread.h"
#include "os/testing/temporary_folder.h"
#include "store/buffer/buffer_store.h"

namespace kedge::buffer::testing {

class LocalServer {
 public:
  struct Options {
    uint64_t capacity_bytes = 0;
    uint64_t quota_bytes = 0;
    uint64_t memory_bytes = uint64_t{32} << 20;
    std::string path = {};  // of its files; empty: in the temporary folder
    std::vector<DrainPlace> drains = {};
    bool encrypt = false;  // of its clients
  };
  // Aborts where it cannot start. `fs` outlives it.
  explicit LocalServer(os::FileSystem& fs = os::PrivateFileSystem()) : LocalServer(fs, Options()) {}
  LocalServer(os::FileSystem& fs, const Options& options) : fs_(&fs), options_(options) {
    net::SetFabricDefaults();
    secret_ = net::ReadOrMakeSecret(root_ / "secret").value();
    Start();
  }
  ~LocalServer() { Stop(); }

  // To drain, from the next start on.
  void Forbid() { options_.drains.clear(); }
  // After a crash of its machine, which has left that of its disk.
  void StartOn(os::FileSystem& fs) {
    fs_ = &fs;
    ++boot_;
    Start();
  }
  void Start() {
    loop_ = os::EventLoop::Create().value();
    ServerOptions options;
    options.name = "fast";
    options.path = Path();
    options.folder = root_.path();
    options.capacity_bytes = options_.capacity_bytes;
    options.memory_bytes = options_.memory_bytes;
    options.owners = {{"alice", secret_, options_.quota_bytes}};
    options.interface_address = "127.0.0.1";
    options.drains = options_.drains;
    options.drain_retry = std::chrono::milliseconds(50);
    options.partner_patience = std::chrono::seconds(2);
    options.boot = "boot " + std::to_string(boot_);
    auto server = BufferServer::Start(std::move(options), *loop_, *fs_);
    if (!server.ok()) std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    KEDGE_CHECK(server.ok());
    server_ = std::move(*server);
    thread_ = os::StartThread("test-loop", [this] { KEDGE_CHECK(loop_->Run().ok()); }).value();
  }
  void Stop() {
    if (!thread_.joinable()) return;
    loop_->Stop();
    thread_.join();
    server_.reset();
    loop_.reset();
  }

  std::string Path() const { return options_.path.empty() ? root_ / "data" : options_.path; }
  // Where the files of a store lie.
  std::string StorePath(const std::string& store) const { return Path() + "/owners/alice/stores/" + store; }
  StoreLocation Location(const std::string& store) const {
    return {"fast", store, root_.path(), "alice", root_ / "secret", "tcp", "127.0.0.1", "", "", options_.encrypt};
  }
  std::unique_ptr<Store> Open(const std::string& store, Duration patience = std::chrono::seconds(15),
                              RootMaking making = RootMaking::kLast) const {
    return MakeBufferStore(Location(store), making, {.patience = patience});
  }
  // Its state, as operators see it.
  std::string Describe() const {
    std::promise<std::string> said;
    loop_->Post([&] { said.set_value(ToText(server_->Describe())); });
    return said.get_future().get();
  }
  // What the owner's files take.
  uint64_t UsedBytes() const {
    ClientOptions options{"fast", root_.path(), "alice", secret_, "tcp", "127.0.0.1"};
    return Client::Open(options).value()->Describe().value().own_bytes;
  }

 private:
  os::testing::TemporaryFolder root_;
  os::FileSystem* fs_;
  Options options_;
  net::Secret secret_;
  int boot_ = 0;
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<BufferServer> server_;
  std::thread thread_;
};

}  // namespace kedge::buffer::testing

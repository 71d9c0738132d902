// A context's core as its configuration leaves it: job "job", a store at "/store" of the given file system, no agent.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "client/core/core.h"
#include "store/posix/posix_store.h"

namespace kedge::client::testing {

// `file_system` outlives the core.
inline std::unique_ptr<Core> MakeCore(os::FileSystem& file_system, Collective collective = Collective()) {
  auto core = std::make_unique<Core>(os::ForkGuard::Create().value());
  core->collective = std::move(collective);
  core->node.node = "node1";
  core->node.piece_bytes = 8 << 20;
  core->job.job = "job";
  core->job.lease = std::chrono::seconds(60);
  core->job.wait_timeout = std::chrono::seconds(10);
  core->job.keys.store_path = "/store";
  core->file_system = &file_system;
  core->store = MakePosixStore(file_system, {.path = core->job.keys.store_path});
  return core;
}

// The same as init leaves it: the first attempt has begun.
inline std::unique_ptr<Core> MakeStartedCore(os::FileSystem& file_system, Collective collective = Collective()) {
  auto core = MakeCore(file_system, std::move(collective));
  core->catalog = Catalog::OpenOrCreate(*core->store, {"node1", 1, "r0"}).value();
  core->attempt = 1;
  return core;
}

}  // namespace kedge::client::testing

// What suites of tests for every kind of store stand on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "store/store.h"

namespace kedge::testing {

// A store, fresh and empty, and what it stands on.
struct Ground {
  virtual ~Ground() = default;
  virtual Store& store() = 0;
  // The same place through another process's eyes.
  virtual std::unique_ptr<Store> OtherProcess() = 0;
  // Those who share an object each write whole runs of so many bytes, from a multiple of it on.
  virtual uint64_t share_bytes() const { return 1; }
};
using MakeGround = std::function<std::unique_ptr<Ground>()>;

}  // namespace kedge::testing

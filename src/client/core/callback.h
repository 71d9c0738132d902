// Marks the time during which a call-back of the application runs under the context's lock.
#pragma once

#include <thread>

#include "client/core/core.h"

namespace kedge::client {

class CallbackScope {
 public:
  explicit CallbackScope(Core* core) : core_(core) { core_->callback_thread.store(std::this_thread::get_id()); }
  ~CallbackScope() { core_->callback_thread.store(std::thread::id()); }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  Core* core_;
};

}  // namespace kedge::client

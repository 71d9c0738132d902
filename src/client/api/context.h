// The object behind kedge_context: a core and the parts that work on it, made by init and ended by finalize.
#pragma once

#include <memory>

#include "base/status.h"
#include "client/checkpoint/checkpointer.h"
#include "client/checkpoint/levels.h"
#include "client/checkpoint/pace.h"
#include "client/core/core.h"
#include "client/core/ledger.h"
#include "client/restart/restarter.h"
#include "client/session/agent_session.h"
#include "client/session/watcher.h"

namespace kedge::client {

class Context {
 public:
  // Collective over the bootstrap, which is released on failure, too.
  static Result<std::unique_ptr<Context>> Create(const kedge_options* options, const kedge_bootstrap* bootstrap);
  ~Context();

  // What finalize does before the context is destroyed.
  Status Finalize(bool drain);

  Core core;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<AgentSession> session;
  std::unique_ptr<Checkpointer> checkpointer;
  std::unique_ptr<Restarter> restarter;
  std::unique_ptr<Levels> levels;
  std::unique_ptr<Pace> pace;

 private:
  explicit Context(os::ForkGuard guard) : core(std::move(guard)) {}
  // Collective, with the settings read.
  Status Start();
  Status ShareMembers();
  Status UnlessRequired(Status status) const;
  Status MakeParts();  // collective
  void EndOwnAttempt();
  // Until all of this job on this node is at its last level, over as many agents as it takes.
  Status Drain();

  std::unique_ptr<Watcher> watcher_;
};

}  // namespace kedge::client

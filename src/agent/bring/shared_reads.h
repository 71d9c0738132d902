// The ranks of a node that restart from a far store say here what they are about to read, and get what several of them need from
// memory that they share (line_pool.h). A job has its own; it goes with the last rank that reads.
#pragma once

#include <map>
#include <memory>

#include "agent/bring/line_pool.h"
#include "agent/tables/client_requests.h"
#include "agent/tables/job.h"
#include "agent/tables/session.h"
#include "agent/tables/workers.h"
#include "base/status.h"
#include "session/messages.h"

namespace kedge {

class AgentCore;

class SharedReads {
 public:
  explicit SharedReads(AgentCore& core);
  ~SharedReads();

 private:
  // kInvalidArgument: an object is not of the session's job, or no object can be so large.
  // kBusy: the session has too many open.
  Result<ShareObjectsReply> Open(Session& session, const ShareObjectsRequest& request);
  // kInvalidArgument: the session has not opened that. Nothing is read while `wanted` is empty.
  void Read(const Session& session, const ReadLineRequest& request, const Question& question);
  std::shared_ptr<LinePool> PoolOf(const Session& session);

  AgentCore& core_;
  std::map<JobKey, std::weak_ptr<LinePool>> pools_;
  Workers workers_;
};

}  // namespace kedge

// The sessions of this node's client processes, and what is said to them: entries of their mailboxes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "agent/tables/job.h"
#include "agent/tables/session.h"
#include "base/status.h"

namespace kedge {

class SessionTable {
 public:
  Session* Find(uint32_t id) const;
  std::vector<Session*> all() const;
  std::vector<uint32_t> ids() const;  // for who ends sessions on the way
  bool empty() const { return sessions_.empty(); }
  // Whether a process of that attempt of the job may still hand something over.
  bool HasAttempt(const Job& job, uint32_t attempt) const;

  void Send(Session& session, const AgentMessage& message);
  // That an image which was handed over will not get where it was to go; counts it.
  void SendFailure(Session& session, uint64_t serial, const Status& why);
  // That its attempt was taken over: its calls say so.
  void SendTakenOver(Session& session, const Status& why);
  void PublishCounts(Session& session);

  // ---- For door/sessions.h, which begins and ends sessions ----
  void Add(std::unique_ptr<Session> session);
  void Remove(uint32_t id) { sessions_.erase(id); }

 private:
  std::map<uint32_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace kedge

#include "agent/tables/session_table.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "os/memory/futex.h"

namespace kedge {

Session* SessionTable::Find(uint32_t id) const {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

std::vector<Session*> SessionTable::all() const {
  std::vector<Session*> all;
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  return all;
}

std::vector<uint32_t> SessionTable::ids() const {
  std::vector<uint32_t> ids;
  for (const auto& [id, session] : sessions_) ids.push_back(id);
  return ids;
}

bool SessionTable::HasAttempt(const Job& job, uint32_t attempt) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second->job == &job && entry.second->hello.attempt == attempt && !entry.second->ended;
  });
}

void SessionTable::Add(std::unique_ptr<Session> session) {
  const uint32_t id = session->id;
  sessions_[id] = std::move(session);
}

void SessionTable::SendFailure(Session& session, uint64_t serial, const Status& why) {
  ++session.images_failed;
  const bool is_news = session.job->failures_told.Admit(SystemClock().NowNs()).has_value();
  Send(session, FlushFailed{.code = why.code(), .is_news = is_news, .image_serial = serial, .text = RingText(why.message())});
}

void SessionTable::SendTakenOver(Session& session, const Status& why) {
  Send(session, TakenOver{.text = RingText(why.message())});
}

void SessionTable::Send(Session& session, const AgentMessage& message) {
  if (session.ended) return;
  constexpr size_t kUnsentMax = 4096;  // of a client that does not listen: it has lost the oldest
  if (!session.unsent.empty() || !session.to_client.TryPush(message)) {
    if (session.unsent.size() == kUnsentMax) session.unsent.pop_front();
    session.unsent.push_back(message);
    return;
  }
  Mailbox& box = session.box();
  box.client_wake.fetch_add(1, std::memory_order_seq_cst);
  if (box.client_sleeping.load(std::memory_order_seq_cst) != 0) os::FutexWakeAll(&box.client_wake);
}

void SessionTable::PublishCounts(Session& session) {
  if (session.ended) return;
  Mailbox& box = session.box();
  const auto& pending = session.pending_serials;
  box.images_failed.store(session.images_failed, std::memory_order_release);
  box.images_done.store(pending.empty() ? session.last_serial : *pending.begin() - 1, std::memory_order_release);
}

}  // namespace kedge

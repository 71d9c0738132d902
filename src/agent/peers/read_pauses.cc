#include "agent/peers/read_pauses.h"

#include <algorithm>
#include <functional>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "session/mailbox.h"

namespace kedge {
namespace {

// Whoever asked for a block longer ago does not read.
constexpr Duration kReadsFor = std::chrono::seconds(1);
constexpr Duration kPauseTellTimeout = std::chrono::seconds(1);

}  // namespace

ReadPauses::ReadPauses(AgentCore& core, Peers& peers) : core_(core), peers_(peers), budget_(core.settings().net_pause) {
  peers.service().On(PeerKind::kPause, DecodePauseNotice, std::bind_front(&ReadPauses::OnPause, this));
}

void ReadPauses::Look() {
  if (core_.settings().net_pause == Duration::zero() || !peers_.is_open()) return;
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(readers_, [&](const auto& reader) {
    return reader.second.leases == 0 && now_ns - reader.second.asked_ns > kReadsFor.count();
  });
  is_watched_ = !readers_.empty() || peers_.gates().HasUsers();
  bool communicates = false;
  uint64_t hint = 0;
  for (const Session* session : core_.sessions().all()) {
    Mailbox& box = session->box();
    // A client that changes its mind after this look sees that it is to wake the agent.
    if (box.phases_watched.load(std::memory_order_relaxed) != static_cast<uint32_t>(is_watched_)) {
      box.phases_watched.store(is_watched_ ? 1 : 0, std::memory_order_seq_cst);
    }
    const uint32_t phases = box.phases.load(std::memory_order_seq_cst);
    communicates = communicates || (phases & 1) != 0;
    hint += phases;
  }
  const Duration paused = budget_.paused();
  const Duration pause = budget_.Look(communicates && is_watched_, hint, now_ns);
  core_.counters().read_pause_ns += static_cast<uint64_t>((budget_.paused() - paused).count());
  const bool was_paused = pause_ > Duration::zero();
  pause_ = pause;
  pause_ns_ = now_ns;
  if (was_paused == (pause > Duration::zero())) return;
  if (!was_paused) ++core_.counters().read_pauses;
  peers_.gates().Close({}, pause);
  for (const auto& [reader, about] : readers_) Tell(reader, pause);
}

void ReadPauses::Tell(const Key& reader, Duration pause) {
  const Job* const job = core_.FindJob(reader.first);
  if (job == nullptr) return;
  const auto milliseconds = static_cast<uint32_t>(std::chrono::ceil<std::chrono::milliseconds>(pause).count());
  peers_.Call(*job, reader.second, PeerKind::kPause, Encode(PauseNotice{job->store_id, job->name, milliseconds}),
              kPauseTellTimeout, [](const Result<Buffer>&) {});
}

void ReadPauses::NoteReader(const Job& job, const std::string& node, uint32_t leases) {
  const Key key(job.key(), node);
  const bool is_new = !readers_.contains(key);
  Reader& reader = readers_[key];
  reader.leases += leases;
  reader.asked_ns = core_.clock().NowNs();
  if (!is_new) return;
  const bool was_paused = pause_ > Duration::zero();
  Look();
  // The others have heard of this pause before, and the new one with them, if it begins here.
  if (was_paused && pause_ > Duration::zero()) Tell(key, pause_);
}

void ReadPauses::OnRead(const Job& job, const std::string& node) {
  NoteReader(job, node, 0);
}

void ReadPauses::OnLease(const Job& job, const std::string& node) {
  NoteReader(job, node, 1);
}

void ReadPauses::OnLeaseEnd(const JobKey& job, const std::string& node) {
  const auto reader = readers_.find({job, node});
  if (reader != readers_.end() && reader->second.leases > 0) --reader->second.leases;
}

void ReadPauses::OnPause(const Job&, const net::Peer& peer, const PauseNotice& notice, const net::Answer& answer) {
  peers_.gates().Close({peer.job, peer.node}, std::chrono::milliseconds(notice.milliseconds));
  answer(Buffer());
}

}  // namespace kedge

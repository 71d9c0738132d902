#include "client/session/agent_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "session/mailbox_file.h"
#include "store/record_io.h"

namespace kedge::client {
namespace {

using std::chrono::seconds;

constexpr Duration kAttachTimeout = seconds(10);
constexpr Duration kGoodbyeTimeout = seconds(2);
constexpr Duration kAgentReturnTimeout = seconds(15);
constexpr Duration kAgentPoll = std::chrono::milliseconds(10);
constexpr size_t kFailuresKept = 64;

bool SameTiers(const std::vector<TierInfo>& a, const std::vector<TierInfo>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TierInfo& x, const TierInfo& y) {
    return x.key == y.key && x.path == y.path && x.slots == y.slots && x.slot_bytes == y.slot_bytes;
  });
}

}  // namespace

Status AgentSession::Start(Result<std::unique_ptr<Connection>> connection) {
  if (core_->job.synchronous) return Status::Ok();
  const bool had_one = connection.ok();
  Status status = had_one ? AttachThrough(std::move(*connection)) : connection.status();
  // A lease may have been waited for meanwhile, and the agent have left.
  if (had_one && status.code() == Code::kUnavailable) status = AttachAnew();
  // Two jobs that want different node settings must not go on as if they had got them.
  if (status.code() == Code::kMismatch || status.code() == Code::kPermission) return status;
  if (!status.ok()) {
    LogWarning("client", "rank {}: no agent, so checkpoints are synchronous, straight to {}: {}", core_->rank(),
               core_->store->description(), status.message());
    wants_agent_.store(true, std::memory_order_release);
  }
  return Status::Ok();
}

Result<std::unique_ptr<Connection>> ConnectToAgent(const Core& core) {
  ConnectOptions options;
  options.node = core.node;
  options.node_keys = core.node_keys;
  return Connection::Connect(options);
}

void AgentSession::Offer(std::shared_ptr<Connection> connection) {
  const std::lock_guard lock(watcher_mutex_);
  offered_ = std::move(connection);
}

AgentSession::Watched AgentSession::watched() const {
  const std::lock_guard lock(watcher_mutex_);
  return watched_;
}

void AgentSession::ReportLoss(const Watched& lost) {
  {
    // A call may have attached to the next agent meanwhile, over another connection: that one is not lost.
    const std::lock_guard lock(watcher_mutex_);
    if (lost.connection == nullptr || watched_.connection != lost.connection) return;
    watched_.connection.reset();
    lost.session->channel.MarkLost();
    wants_agent_.store(true, std::memory_order_release);
  }
  const Welcome& welcome = lost.session->attachment.welcome;
  if (!welcome.speaks_for_node) return;
  LogWarning("client", "the agent of node {} is gone; starting another. Checkpoints are synchronous until it is there",
             welcome.node);
}

Hello AgentSession::MakeHello() const {
  Hello hello;
  hello.build = BuildName();
  hello.job = core_->job.job;
  hello.store_id = core_->catalog->id();
  hello.attempt = core_->attempt;
  if (core_->attempt_unrecorded.load()) hello.unrecorded = AsText(Encoded(core_->attempt_record));
  hello.rank = core_->rank();
  hello.ranks = core_->ranks();
  hello.ranks_on_node = core_->ranks_on_node;
  hello.keys = core_->job.keys;
  hello.node_keys = core_->node_keys;
  if (attached_) {
    hello.session_id = attached_->attachment.welcome.session_id;
    hello.last_image_serial = attached_->sink->serial();
    hello.held_slots = attached_->slots->HeldAfterAgentLoss();
    for (const HeldSlot& slot : attached_->sink->HeldSlots()) hello.held_slots.push_back(slot);
  }
  return hello;
}

Status AgentSession::AttachThrough(std::shared_ptr<Connection> connection) {
  // What the old agent had sent is taken first: the handshake says that nothing is left in the ring.
  TakeMessages();
  auto attachment = connection->Attach(MakeHello(), kAttachTimeout);
  if (!attachment.ok()) return attachment.status();
  connection_ = std::move(connection);
  Adopt(std::move(*attachment));
  WarnOfNoTiers();
  return Status::Ok();
}

void AgentSession::WarnOfNoTiers() const {
  const Welcome& welcome = attached_->attachment.welcome;
  if (!welcome.tiers.empty() || !welcome.speaks_for_node) return;
  LogWarning("client",
             "node {} has no room for checkpoints, so each goes straight to {} while the call waits: {}. Give it a larger folder "
             "(node.run_folder) or a [[tier]]",
             welcome.node, core_->store->description(),
             welcome.no_tiers.empty() ? "pool.size is 0, and no tier is named" : welcome.no_tiers);
}

Status AgentSession::AttachAnew() {
  auto connection = ConnectToAgent(*core_);
  return connection.ok() ? AttachThrough(std::move(*connection)) : connection.status();
}

Status AgentSession::SetMembers(Membership members) {
  members_ = std::move(members);
  Status told = TellMembers();
  // An agent that has just found its pool gone lets its clients begin anew; the watcher, who would notice, does not run yet.
  if (!told.ok() && connection_->IsGone()) {
    told = AttachAnew();
    if (told.ok()) told = TellMembers();
  }
  return told;
}

Status AgentSession::TellMembers() {
  if (!members_ || !attached()) return Status::Ok();
  return connection_->Call<DoneReply>(MembersRequest{*members_}, kAttachTimeout).status();
}

void AgentSession::TellRestored(const RestoredRecord& record, bool noted) {
  if (!attached()) return;
  auto told = connection_->Call<DoneReply>(RestoredRequest{record, noted}, kAttachTimeout);
  if (!told.ok()) {
    LogWarning("client", "rank {}: the agent does not know of the restart, and protects nothing again: {}", core_->rank(),
               told.status().message());
  }
}

bool AgentSession::Continues(const Attachment& attachment) const {
  return attached_ != nullptr && attachment.welcome.attached_again &&
         attachment.welcome.session_id == attached_->attachment.welcome.session_id &&
         SameTiers(attachment.welcome.tiers, attached_->attachment.welcome.tiers);
}

void AgentSession::Adopt(Attachment attachment) {
  if (Continues(attachment)) {
    // Mailbox and pools are the same files: the mappings that images in the making point into stay.
    attached_->attachment.wake_agent = std::move(attachment.wake_agent);
    attached_->attachment.control = std::move(attachment.control);
  } else {
    had_pending_ = had_pending_ || HasPending();
    if (attached_) attached_->channel.MarkReplaced();
    auto fresh = std::make_shared<AttachedSession>();
    fresh->number = ++sessions_;
    fresh->attachment = std::move(attachment);
    const Welcome& welcome = fresh->attachment.welcome;
    const LayoutLimits limits{welcome.chunk_bytes, std::min(welcome.piece_bytes, welcome.chunk_bytes)};
    fresh->slots = std::make_unique<SlotAllocator>(&fresh->channel, limits, [this] { Pump(); });
    SlotSinkContext context;
    context.channel = &fresh->channel;
    context.slots = fresh->slots.get();
    for (const auto& tier : fresh->attachment.tiers) {
      context.tiers.push_back(tier.get());
      context.tier_keys.push_back(tier->info().key);
    }
    context.limits = limits;
    context.catalog = &*core_->catalog;
    context.wait_timeout = core_->job.wait_timeout;
    fresh->sink = std::make_unique<SlotSink>(std::move(context));
    attached_ = std::move(fresh);
    ShowTold();
  }
  Attachment& files = attached_->attachment;
  {
    const std::lock_guard lock(watcher_mutex_);
    attached_->channel.Attach(MailboxOf(files.mailbox), ControlOf(files.control), &files.wake_agent);
    watched_ = Watched{attached_, connection_};
    wants_agent_.store(false, std::memory_order_release);
  }
  attached_->slots->ExpectOpen();
}

std::vector<Tier*> AgentSession::Tiers() const {
  std::vector<Tier*> tiers;
  if (attached_) {
    for (const auto& tier : attached_->attachment.tiers) tiers.push_back(tier.get());
  }
  return tiers;
}

void AgentSession::OnMessage(const AgentMessage& message) {
  switch (message.kind()) {
    case AgentMessageKind::kAssignPlace: return attached_->slots->OnAssigned(message.As<AssignPlace>());
    case AgentMessageKind::kRecallSlots: return attached_->slots->ReturnUnused();
    case AgentMessageKind::kFlushFailed: {
      const auto failed = message.As<FlushFailed>();
      const Code code = failed.code == Code::kOk ? Code::kIo : failed.code;
      return AddFailure(ledger_->FindSerial(attached_->number, failed.image_serial),
                        Status(code, std::string(failed.text.view())), failed.is_news);
    }
    case AgentMessageKind::kTakenOver:
      if (!core_->superseded.exchange(true)) {
        LogError("client", "rank {}: {}", core_->rank(), message.As<TakenOver>().text.view());
      }
  }
}

void AgentSession::AddFailure(TakenVersion* taken, const Status& status, bool is_news) {
  ++failures_seen_;
  FlushFailure failure;
  failure.status = status;
  if (taken != nullptr) {
    failure.name = taken->generation.name;
    failure.version = taken->generation.version;
    taken->flush_failure = failure.status;
    (void)core_->Heard(failure.status);
  }
  if (is_news) {
    LogError("client", "the flush of '{}' version {} failed on rank {}: {}{}", failure.name, failure.version, core_->rank(),
             failure.status.message(),
             failure.status.code() == Code::kNoSpace ? ". Make room there, and `kedge drain` carries what the nodes have" : "");
  }
  failures_.push_back(std::move(failure));
  if (failures_.size() > kFailuresKept) failures_.pop_front();
}

void AgentSession::TakeMessages() {
  if (!attached_) return;
  AgentMessage message;
  while (attached_->channel.Poll(&message)) OnMessage(message);
}

void AgentSession::Pump() {
  TakeMessages();
  if (!WantsAgent()) return;
  std::shared_ptr<Connection> offered;
  {
    const std::lock_guard lock(watcher_mutex_);
    offered.swap(offered_);
  }
  if (!offered) return;
  Status status = AttachThrough(std::move(offered));
  if (!status.ok()) {
    LogWarning("client", "rank {}: an agent is there, but refuses: {}", core_->rank(), status.message());
    return;
  }
  const Welcome& welcome = attached_->attachment.welcome;
  if (welcome.speaks_for_node) {
    LogWarning("client", "node {} has an agent again; checkpoints are asynchronous", welcome.node);
  }
  status = TellMembers();
  if (!status.ok()) LogWarning("client", "rank {}: the nodes do not know each other: {}", core_->rank(), status.message());
}

bool AgentSession::AwaitAgent() {
  // Who saw a call fail comes here before the watcher has seen the end of the connection.
  if (attached() && connection_->IsGone()) ReportLoss(watched());
  const Deadline deadline(SystemClock(), kAgentReturnTimeout);
  while (!attached() && !deadline.Passed()) {
    std::this_thread::sleep_for(kAgentPoll);
    Pump();
  }
  return attached();
}

void AgentSession::Goodbye() {
  if (attached()) {
    attached_->slots->ReturnUnused();
    (void)connection_->Call<DoneReply>(GoodbyeRequest{}, kGoodbyeTimeout);
  }
  connection_.reset();
  const std::lock_guard lock(watcher_mutex_);
  watched_ = Watched{};
}

bool AgentSession::HasPending() const {
  if (!attached_) return false;
  return attached_->channel.mailbox()->images_done.load(std::memory_order_acquire) < attached_->sink->ended_serial();
}

namespace {

void AddCall(CallTotals* totals, double took_seconds) {
  totals->nanoseconds.fetch_add(static_cast<uint64_t>(took_seconds * 1e9), std::memory_order_relaxed);
  totals->calls.fetch_add(1, std::memory_order_release);
}

}  // namespace

void AgentSession::CountCheckpoint(double took_seconds) {
  if (attached_) AddCall(&attached_->channel.mailbox()->checkpoints, took_seconds);
}

void AgentSession::CountRestart(double took_seconds, Level needed) {
  if (!attached_) return;
  Mailbox* box = attached_->channel.mailbox();
  AddCall(needed == Level::kStore  ? &box->restarts_store
          : needed == Level::kNode ? &box->restarts_node
                                   : &box->restarts_local,
          took_seconds);
}

Duration AgentSession::told_interval() const {
  if (!attached_) return Duration::zero();
  return Duration(attached_->channel.mailbox()->checkpoint_interval_ns.load(std::memory_order_relaxed));
}

LevelCounts AgentSession::told_levels() const {
  if (!attached_) return {};
  return UnpackedLevels(attached_->channel.mailbox()->told_levels.load(std::memory_order_relaxed));
}

Halt AgentSession::told_halt() const {
  if (!attached_) return {};
  return UnpackedHalt(attached_->channel.mailbox()->halt.load(std::memory_order_relaxed));
}

void AgentSession::ShowTold() {
  if (!attached_) return;
  Mailbox* box = MailboxOf(attached_->attachment.mailbox);
  if (shows_levels_) box->levels_in_force.store(Packed(core_->levels), std::memory_order_relaxed);
  if (shows_exit_) box->told_to_exit.store(1, std::memory_order_relaxed);
  const uint32_t phases = box->phases.load(std::memory_order_relaxed);
  if (((phases & 1) != 0) != communicates_) box->phases.store(phases + 1, std::memory_order_seq_cst);
}

void AgentSession::NoteStep() {
  if (attached_) attached_->channel.mailbox()->steps.fetch_add(1, std::memory_order_relaxed);
}

void AgentSession::NotePhase(bool communicates) {
  if (std::exchange(communicates_, communicates) == communicates) return;
  ShowTold();
  if (!attached_) return;
  // The agent says that it wants to be woken before it looks, and looks before it sleeps.
  const bool is_watched = MailboxOf(attached_->attachment.mailbox)->phases_watched.load(std::memory_order_seq_cst) != 0;
  if (is_watched && !attached_->channel.lost()) attached_->channel.Wake();
}

void AgentSession::ShowDeclared() {
  if (attached_) attached_->channel.mailbox()->declared_bytes.store(core_->regions.current().bytes(), std::memory_order_relaxed);
}

void AgentSession::ShowLevels() {
  shows_levels_ = true;
  ShowTold();
}

void AgentSession::ShowExit() {
  shows_exit_ = true;
  ShowTold();
}

std::optional<FlushFailure> AgentSession::TakeFailure() {
  if (failures_.empty()) return std::nullopt;
  FlushFailure failure = std::move(failures_.front());
  failures_.pop_front();
  return failure;
}

}  // namespace kedge::client

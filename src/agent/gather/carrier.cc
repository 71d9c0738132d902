#include "agent/gather/carrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "agent/bring/bringer.h"
#include "agent/flush/flush.h"
#include "agent/flush/publisher.h"
#include "agent/gather/planner.h"
#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "store/publish.h"

namespace kedge {
namespace {

// An answer that says no more than that it goes on.
constexpr Duration kAnswerPause = std::chrono::seconds(1);
// What is planned and does not come, or does not get on, is waited for so long.
constexpr Duration kAwaited = std::chrono::seconds(2);
// What its node does not ask for any more.
constexpr Duration kKept = std::chrono::seconds(60);
// Who writes to a share asks again each second.
constexpr Duration kBorrowerSilence = std::chrono::seconds(4);
// Who writes an object with others gets on, or is syncing what it has written, which nobody sees getting on.
constexpr Duration kWriterPatience = std::chrono::seconds(20);
constexpr Duration kSyncPatience = std::chrono::minutes(5);
// Read and written at a time, where that divides a piece of this node's own images: what a device takes well in one write.
constexpr uint64_t kCarriedPieceBytes = 4 << 20;
// An object that is published meanwhile is no fault of an image.
constexpr int kTriesMax = 3;

}  // namespace

Carrier::Carrier(AgentCore& core, Bringer& bringer, Flush& flush, Peers& peers, Publisher& publisher)
    : core_(core),
      bringer_(bringer),
      flush_(flush),
      peers_(peers),
      publisher_(publisher),
      writers_({core.settings().writers_least, core.settings().writers_most, core.settings().flush_workers}),
      workers_(std::make_unique<Workers>(core.settings().writers_most)),
      awaited_workers_(
          std::make_unique<Workers>(core.settings().writers_most, std::chrono::seconds(2), Workers::Priority::kAwaited)) {
  peers.service().On(PeerKind::kCarry, DecodeCarryRequest, std::bind_front(&Carrier::OnCarry, this));
  peers.service().On(PeerKind::kShare, DecodeShareRequest, std::bind_front(&Carrier::OnShare, this));
}

void Carrier::Stop() {
  for (auto& [generation, load] : loads_) {
    for (auto& [rank, image] : load.images) image.progress->is_withdrawn = true;
  }
  queue_.Clear();
  workers_.reset();
  awaited_workers_.reset();
}

uint64_t Carrier::Load::WrittenBytes() const {
  uint64_t bytes = 0;
  for (const auto& [rank, image] : images) bytes += image.progress->bytes;
  return bytes;
}

bool Carrier::Load::IsUnderWay() const {
  return std::ranges::any_of(images, [](const auto& entry) { return !entry.second.IsOver(); });
}

std::shared_ptr<ByteRate> Carrier::RateOf(const JobKey& job, const std::string& node) {
  std::weak_ptr<ByteRate>& known = rates_[{job, node}];
  std::shared_ptr<ByteRate> rate = known.lock();
  if (rate == nullptr) known = rate = std::make_shared<ByteRate>(core_.clock(), 0);
  return rate;
}

Carrier::Load& Carrier::LoadOf(const Generation& generation) {
  Load& load = loads_[generation];
  load.asked_ns = load.changed_ns = core_.clock().NowNs();
  return load;
}

void Carrier::Lead(const Generation& generation, uint64_t planned_bytes) {
  LoadOf(generation).planned_bytes = planned_bytes;
}

void Carrier::Share(const Generation& generation, uint64_t own_bytes) {
  Load& load = LoadOf(generation);
  load.news_ns = load.own_progress_ns = load.asked_ns;
  if (!std::exchange(load.has_shared, true)) load.shared = flush_.Share(generation, own_bytes);
  if (load.shared != nullptr) load.shared->Share(own_bytes);
}

// Also before this node has its plan, or has given up waiting for it.
void Carrier::OnShare(Job& job, const net::Peer&, const ShareRequest& request, net::Answer answer) {
  const Generation& generation = request.generation;
  if (!Planner::SharesObjects(job)) return answer(Status(Code::kUnsupported, "objects are not shared here"));
  const auto known = loads_.find(generation);
  if (known == loads_.end() || !known->second.has_shared) Share(generation, 0);
  Load& load = LoadOf(generation);
  job.left_ns = core_.clock().NowNs();
  if (load.shared == nullptr) return answer(Status(Code::kFailedPrecondition, "its object is not shared, or is published"));
  core_.Background(
      core_.publishers(),
      [object = load.shared, store = job.store, generation, bytes = request.bytes]() -> Result<LentShare> {
        KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogToWrite(generation.job, generation.attempt));
        KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation));
        KEDGE_RETURN_IF_ERROR(object->Begin(catalog, 0));
        KEDGE_ASSIGN_OR_RETURN(LentShare lent, object->Lend(bytes));
        os::KillPoint("share-lent");
        return lent;
      },
      [answer = std::move(answer)](const Result<LentShare>& lent) {
        if (!lent.ok()) return answer(lent.status());
        answer(Encode(ShareReply{lent->name, lent->handle, lent->begin, lent->bytes}));
      });
}

void Carrier::TakeShared(Load& load, Image& image, const CarryRequest::Item& item) {
  if (image.state != State::kAwaited || item.object.empty()) return;
  if (load.shared == nullptr || !load.shared->IsUsable() || load.shared->name() != item.object) {
    return Fail(image, Status(Code::kFailedPrecondition, item.object + " is published, or given up"));
  }
  image.item = item;
  image.share_of = load.shared;
  image.state = State::kWritten;
  load.news_ns = core_.clock().NowNs();
}

void Carrier::LeaveOut(Load& load, const std::string& node, const char* why) {
  for (auto& [rank, image] : load.images) {
    if (image.node == node && image.state == State::kAwaited) Fail(image, Status(Code::kTimeout, why));
  }
}

bool Carrier::GetsOn(const Load& load, const Image& image) const {
  if (image.state == State::kAwaited) return true;
  if (image.share_of == nullptr) return false;
  const int64_t now_ns = core_.clock().NowNs();
  if (image.state == State::kPublishing) return now_ns - image.since_ns < kSyncPatience.count();
  const bool has_awaited =
      std::ranges::any_of(load.images, [](const auto& entry) { return entry.second.state == State::kAwaited; });
  return has_awaited || now_ns - load.own_progress_ns < kWriterPatience.count();
}

void Carrier::LookAtBorrowers(const Generation& generation, Load& load) {
  const int64_t now_ns = core_.clock().NowNs();
  const uint64_t own_bytes = load.shared == nullptr ? load.own_bytes : load.shared->written_bytes();
  if (std::exchange(load.own_bytes, own_bytes) != own_bytes) load.own_progress_ns = now_ns;
  bool has_left_out = false;
  // What is planned and not heard of comes no more.
  const bool is_late = now_ns - load.news_ns > kAwaited.count() && load.accounted_bytes < load.planned_bytes.value_or(0);
  if (load.has_shared && is_late) {
    load.planned_bytes.reset();
    has_left_out = true;
  }
  std::erase_if(load.borrowers, [&, this](const auto& entry) {
    const auto& [node, borrower] = entry;
    const bool is_silent = now_ns - borrower.asked_ns > kBorrowerSilence.count();
    const Duration patience = borrower.is_syncing ? kSyncPatience : kWriterPatience;
    if (!is_silent && now_ns - borrower.progress_ns < patience.count()) return false;
    LeaveOut(load, node, is_silent ? "its node was not heard any more" : "its node did not get on");
    has_left_out = true;
    return true;
  });
  if (has_left_out) publisher_.Consider(generation);
}

void Carrier::Account(const Generation& generation, const std::string& node, uint64_t bytes) {
  Load& load = LoadOf(generation);
  if (!load.accounted.insert(node).second) return;
  load.accounted_bytes += bytes;
  load.news_ns = load.asked_ns;
}

void Carrier::OnCarry(Job& job, const net::Peer& peer, const CarryRequest& request, net::Answer answer) {
  const std::string& node = peer.node;
  const Generation& generation = request.generation;
  Load& load = LoadOf(generation);
  job.left_ns = core_.clock().NowNs();
  if (!request.images.empty()) load.ranks = request.ranks;
  Account(generation, node, request.accounted_bytes);
  const std::shared_ptr<ByteRate> rate = RateOf(job.key(), node);
  rate->Set(request.rate);
  Waiting waiting{node, {}, request.held, std::move(answer), core_.clock().NowNs()};
  if (request.is_shared) {
    const int64_t now_ns = core_.clock().NowNs();
    Borrower& borrower = load.borrowers.try_emplace(node, Borrower{.progress_ns = now_ns}).first->second;
    borrower.asked_ns = now_ns;
    borrower.is_syncing = request.is_syncing;
    if (std::exchange(borrower.written_bytes, request.written_bytes) != request.written_bytes) borrower.progress_ns = now_ns;
  }
  for (const CarryRequest::Item& item : request.images) {
    waiting.ranks.push_back(item.rank);
    const auto [entry, is_new] = load.images.try_emplace(item.rank);
    Image& image = entry->second;
    if (is_new) {
      image.node = node;
      image.item = item;
      image.progress = std::make_shared<CarryOrder::Progress>();
      image.state = State::kAwaited;
      if (request.is_withdrawn) {
        Fail(image, Status::Ok());
      } else if (!request.is_shared) {
        Pull(job, generation, image);
      }
    } else if (request.is_withdrawn && image.node == node) {
      image.progress->is_withdrawn = true;
      if (image.state == State::kAwaited) Fail(image, Status::Ok());
    }
    if (request.is_shared && image.node == node) TakeShared(load, image, item);
    const bool is_to_be_held = request.is_leaving && !request.is_withdrawn && image.node == node && !image.is_not_to_be_had;
    if (is_to_be_held && image.state == State::kPulled) Hold(job, generation, image);
  }
  // What is written already is not to wait for others.
  if (request.is_leaving) load.is_due = true;
  load.waiting.push_back(std::move(waiting));
  AnswerWaiting(load);
  os::KillPoint("carry-asked");
  // It may have been what its other images have waited for.
  publisher_.Consider(generation);
}

void Carrier::Pull(Job& job, const Generation& generation, Image& image) {
  const uint64_t piece_bytes = core_.settings().piece_bytes;
  image.state = State::kPulled;
  ++image.tries;
  image.object = flush_.MakeCarried(job, generation, image.item.rank, image.item.image_bytes);
  CarryOrder order{peers_.LinkInBackground(job),
                   image.node,
                   core_.settings().node,
                   generation,
                   image.item,
                   image.object,
                   piece_bytes % kCarriedPieceBytes == 0 ? kCarriedPieceBytes : piece_bytes,
                   &core_.flush_rate(),
                   RateOf(job.key(), image.node),
                   image.progress,
                   pulled_bytes_};
  image.progress->is_waiting = true;
  queue_.Add(generation, std::move(order));
  Dispatch();
}

void Carrier::Dispatch() {
  while (running_ < writers_.now()) {
    std::optional<CarryOrder> next = queue_.Take();
    if (!next) {
      lacked_work_ = true;
      return;
    }
    next->progress->is_waiting = false;
    ++running_;
    const Generation generation = next->generation;
    core_.Background(
        core_.is_flush_awaited() ? *awaited_workers_ : *workers_,
        [order = std::move(*next)]() mutable {
          // What was withdrawn while it waited is not read at all.
          Result<Buffer> carried = order.progress->is_withdrawn
                                       ? Result<Buffer>(Status(Code::kFailedPrecondition, "it is wanted no more"))
                                       : CarryImage(order);
          return std::tuple(order.image.rank, std::move(carried), std::move(order.progress));
        },
        [this, generation](std::tuple<uint32_t, Result<Buffer>, std::shared_ptr<CarryOrder::Progress>> pulled) {
          --running_;
          auto& [rank, record, progress] = pulled;
          OnPulled(generation, rank, progress, std::move(record));
          Dispatch();
        });
  }
}

void Carrier::LookAtWriters() {
  const int64_t now_ns = core_.clock().NowNs();
  const uint64_t bytes = *pulled_bytes_;
  const bool had_work = !std::exchange(lacked_work_, running_ < writers_.now());
  writers_.Add(bytes - std::exchange(looked_bytes_, bytes), Duration(now_ns - std::exchange(looked_ns_, now_ns)), had_work);
  Dispatch();
}

void Carrier::OnPulled(const Generation& generation, uint32_t rank, const std::shared_ptr<CarryOrder::Progress>& progress,
                       Result<Buffer> record) {
  const auto load = loads_.find(generation);
  const auto found = load == loads_.end() ? std::map<uint32_t, Image>::iterator() : load->second.images.find(rank);
  if (load == loads_.end() || found == load->second.images.end() || found->second.progress != progress) return;
  Image& image = found->second;
  load->second.changed_ns = core_.clock().NowNs();
  Job* const job = core_.FindJobOf(generation);
  const bool is_withdrawn = progress->is_withdrawn;
  if (record.ok() && !is_withdrawn && job != nullptr) {
    image.record = std::move(*record);
    image.state = State::kWritten;
    core_.counters().bytes_flushed += progress->written_bytes;
  } else if (record.status().code() == Code::kFailedPrecondition && !is_withdrawn && job != nullptr && image.tries < kTriesMax) {
    Pull(*job, generation, image);
  } else {
    Fail(image, record.status());
  }
  AnswerWaiting(load->second);
  publisher_.Consider(generation);
}

void Carrier::Fail(Image& image, const Status& why) {
  image.state = State::kFailed;
  image.why = why.ok() ? Status(Code::kFailedPrecondition, "it is wanted no more") : why;
  Withdraw(image);
}

void Carrier::Withdraw(Image& image) {
  image.progress->is_withdrawn = true;
  image.record = Buffer();
  core_.LetGo(image.object);
  core_.LetGo(image.share_of);
}

void Carrier::Hold(Job& job, const Generation& generation, Image& image) {
  Withdraw(image);
  image.state = State::kBrought;
  image.since_ns = core_.clock().NowNs();
  image.progress = std::make_shared<CarryOrder::Progress>();
  bringer_.BringFromNode(job, image.node, {generation, image.item.rank, loads_.at(generation).ranks},
                         [this, generation, rank = image.item.rank, progress = image.progress](const Status& status) {
                           OnBrought(generation, rank, progress, status);
                         });
}

void Carrier::OnBrought(const Generation& generation, uint32_t rank, const std::shared_ptr<CarryOrder::Progress>& progress,
                        const Status& status) {
  const auto load = loads_.find(generation);
  if (load == loads_.end()) return;
  const auto found = load->second.images.find(rank);
  if (found == load->second.images.end() || found->second.progress != progress) return;
  Image& image = found->second;
  Job* const job = core_.FindJobOf(generation);
  load->second.changed_ns = core_.clock().NowNs();
  if (status.ok() && LooksAfter(generation, rank)) {
    image.state = State::kHeld;
    os::KillPoint("carry-held");
  } else if (job == nullptr) {
    Fail(image, status);
  } else {
    LogInfo("agent", "{} rank {} cannot be held here, so that node {} could leave: {}", generation.ToString(), rank, image.node,
            status.ok() ? "it is not on file" : status.ToString());
    image.is_not_to_be_had = true;
    image.progress = std::make_shared<CarryOrder::Progress>();
    Pull(*job, generation, image);
  }
  AnswerWaiting(load->second);
}

bool Carrier::LooksAfter(const Generation& generation, uint32_t rank) const {
  const kedge::Image* const here = core_.FindWhole(generation, rank);
  return here != nullptr && here->IsHeld() && (here->flush == FlushState::kStored || here->IsOnItsWay());
}

void Carrier::OnImageStored(const kedge::Image& stored) {
  const auto load = loads_.find(stored.version->generation);
  if (load == loads_.end()) return;
  const auto found = load->second.images.find(stored.rank);
  if (found == load->second.images.end() || found->second.state != State::kHeld) return;
  found->second.state = State::kStored;
  ++core_.counters().images_carried;
  load->second.is_complete = load->second.is_complete || stored.version->in_store();
  AnswerWaiting(load->second);
}

bool Carrier::IsAwaited(const Generation& generation) const {
  const auto found = loads_.find(generation);
  if (found == loads_.end() || found->second.is_due) return false;
  const Load& load = found->second;
  if (load.planned_bytes && load.accounted_bytes < *load.planned_bytes) return true;
  return std::ranges::any_of(load.images, [](const auto& entry) {
    return entry.second.state == State::kPulled || entry.second.state == State::kAwaited;
  });
}

bool Carrier::HasWritten(const Generation& generation) const {
  const auto found = loads_.find(generation);
  return found != loads_.end() &&
         std::ranges::any_of(found->second.images, [](const auto& entry) { return entry.second.state == State::kWritten; });
}

Cargo::Written Carrier::TakeWritten(const Generation& generation) {
  Written written;
  const auto found = loads_.find(generation);
  if (found == loads_.end()) return written;
  Load& load = found->second;
  load.is_due = false;
  load.planned_bytes.reset();  // what comes later is published by itself
  written.ranks = load.ranks;
  for (auto& [rank, image] : load.images) {
    if (image.state == State::kAwaited) Fail(image, Status(Code::kTimeout, "its object is published"));
    if (image.state != State::kWritten) continue;
    image.state = State::kPublishing;
    image.since_ns = core_.clock().NowNs();
    if (image.share_of != nullptr) {
      const CarryRequest::Item& item = image.item;
      const ImageEntry entry{
          rank,           item.object,    item.record_offset, item.record_bytes, item.record_crc32c, item.image_bytes,
          item.map_bytes, item.map_crc32c};
      written.images.push_back({nullptr, Buffer(), entry, image.share_of});
      continue;
    }
    const uint64_t record_bytes = image.record.size();
    const ImageEntry entry{rank, "", 0, record_bytes, image.item.record_crc32c, image.item.image_bytes};
    written.images.push_back({image.object, std::move(image.record), entry});
  }
  core_.LetGo(load.shared);  // nothing is written there from now on
  return written;
}

void Carrier::OnPublished(const Generation& generation, uint32_t rank, const Status& status, bool is_complete) {
  const auto load = loads_.find(generation);
  if (load == loads_.end()) return;
  load->second.is_complete = load->second.is_complete || is_complete;
  const auto found = load->second.images.find(rank);
  if (found == load->second.images.end()) return;
  Image& image = found->second;
  if (status.ok()) {
    image.state = State::kStored;
    ++core_.counters().images_carried;
    Job* const job = core_.FindJobOf(generation);
    if (job != nullptr && image.object != nullptr) flush_.NoteReduced(*job, generation.name, rank, *image.object);
    image.object = nullptr;
    image.share_of = nullptr;
  } else {
    Fail(image, status);
  }
  AnswerWaiting(load->second);
}

CarryReply Carrier::ReplyOf(const Load& load, const Waiting& waiting) const {
  CarryReply reply;
  reply.is_complete = load.is_complete;
  for (const uint32_t rank : waiting.ranks) {
    const auto found = load.images.find(rank);
    if (found == load.images.end() || found->second.node != waiting.node) {
      reply.images.push_back({CarryState::kFailed, "another node has asked for it"});
      continue;
    }
    const Image& image = found->second;
    const bool is_waiting = image.state == State::kPulled && image.progress->is_waiting;
    const auto state = image.state == State::kStored   ? CarryState::kStored
                       : image.state == State::kFailed ? CarryState::kFailed
                       : image.state == State::kHeld   ? CarryState::kHeld
                       : is_waiting                    ? CarryState::kWaiting
                                                       : CarryState::kUnderWay;
    reply.images.push_back({state, image.why.ToString().substr(0, kReasonBytesMax)});
    reply.mark += image.progress->bytes + static_cast<uint64_t>(image.state);
    // Those before it are getting on, or nothing does.
    if (is_waiting) reply.mark += *pulled_bytes_;
    if (GetsOn(load, image)) reply.mark += static_cast<uint64_t>(core_.clock().NowNs());
    // What is brought comes, or ends with an error, by itself.
    if (image.state == State::kBrought) reply.mark += static_cast<uint64_t>(core_.clock().NowNs() - image.since_ns);
  }
  return reply;
}

void Carrier::AnswerWaiting(Load& load) {
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(load.waiting, [&](const Waiting& waiting) {
    CarryReply reply = ReplyOf(load, waiting);
    const auto count = [&](CarryState state) { return std::ranges::count(reply.images, state, &CarryReply::Item::state); };
    const bool is_over = count(CarryState::kUnderWay) + count(CarryState::kHeld) + count(CarryState::kWaiting) == 0;
    const bool is_news = count(CarryState::kHeld) > waiting.held;
    if (!is_over && !is_news && now_ns - waiting.since_ns < kAnswerPause.count()) return false;
    waiting.answer(Encode(reply));
    return true;
  });
}

void Carrier::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  LookAtWriters();
  std::erase_if(rates_, [](const auto& entry) { return entry.second.expired(); });
  for (auto entry = loads_.begin(); entry != loads_.end();) {
    const Generation generation = entry->first;
    Load& load = entry->second;
    for (auto& [rank, image] : load.images) {
      if (image.state == State::kHeld && !LooksAfter(generation, rank)) {
        Fail(image, Status(Code::kNotFound, "what was held of it is lost"));
      }
    }
    LookAtBorrowers(generation, load);
    AnswerWaiting(load);
    const uint64_t bytes = load.WrittenBytes();
    if (bytes != std::exchange(load.changed_bytes, bytes)) load.changed_ns = now_ns;
    const bool is_late = now_ns - load.changed_ns > kAwaited.count() && load.borrowers.empty();
    const bool is_over = now_ns - load.asked_ns > kKept.count() && !load.IsUnderWay() && load.waiting.empty();
    ++entry;
    if (is_over) {
      core_.LetGo(load.shared);
      loads_.erase(generation);
    } else if (is_late && !load.is_due && IsAwaited(generation)) {
      LogDebug("agent", "{}: what is to come from other nodes is waited for no longer", generation.ToString());
      load.is_due = true;
      publisher_.Consider(generation);
    }
  }
}

bool Carrier::HasLoadOf(const JobKey& job) const {
  return std::ranges::any_of(loads_, [&](const auto& entry) { return JobKeyOf(entry.first) == job; });
}

bool Carrier::IsBusy() const {
  return std::ranges::any_of(loads_, [](const auto& entry) { return entry.second.IsUnderWay(); });
}

}  // namespace kedge

#include "agent/gather/shipper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "agent/flush/flush.h"
#include "agent/flush/publisher.h"
#include "agent/gather/carrier.h"
#include "agent/gather/job_blocks.h"
#include "agent/gather/share_lender.h"
#include "agent/gather/stagers.h"
#include "agent/peers/peers.h"
#include "agent/space/assignment.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

// From a version's first image that has ended here until its images are written from here, come what may.
constexpr Duration kPlanPatience = std::chrono::seconds(3);
// A node's images at least, where it looks for blocks that others have: it has more patience for so much.
constexpr uint64_t kLookedAtBytesPerSecond = uint64_t{512} << 20;
// For a leader that does not get on.
constexpr Duration kLeaderPatience = std::chrono::seconds(5);
constexpr Duration kCarryTimeout = std::chrono::seconds(5);
// It may have a successor by now, which is asked as if it had been there before.
constexpr Duration kReachPause = std::chrono::milliseconds(200);
constexpr int kReachTriesMax = 3;

// In its object: chunks, then the image record.
uint64_t StreamBytes(const Image& image) {
  return image.record_object_offset + image.record_bytes;
}

CarryRequest::Item ItemOf(const Image& image) {
  return {image.rank, image.record_bytes, image.record_crc32c, image.image_bytes};
}

}  // namespace

Shipper::Shipper(AgentCore& core, Assignment& assignment, Carrier& carrier, Flush& flush, JobBlocks& job_blocks, Peers& peers,
                 Publisher& publisher, Stagers& stagers)
    : core_(core),
      assignment_(assignment),
      carrier_(carrier),
      flush_(flush),

      job_blocks_(job_blocks),
      peers_(peers),
      publisher_(publisher),
      stagers_(stagers),
      planner_(core, flush, peers,
               [this](const Generation& generation, const WritePlan& decided) { OnDecided(generation, decided); }) {}

void Shipper::OnStoreDue(Version& version) {
  const Job& job = *version.job;
  const bool is_staged = Stagers::HasThem(job) && job.members.attempt == version.generation.attempt && peers_.is_open();
  if (!is_staged && !planner_.Plans(job, version.generation)) return;
  version.writers = Version::Writers::kAwaited;
  plans_[version.generation];
}

void Shipper::OnDue(Version& version) {
  Plan& plan = plans_[version.generation];
  if (plan.since_ns == 0) plan.since_ns = core_.clock().NowNs();
  const auto ended =
      std::ranges::count_if(version.images, [](const auto& entry) { return entry.second->ended && !entry.second->doomed; });
  if (ended >= static_cast<int64_t>(version.node_ranks)) Offer(version, plan);
}

void Shipper::Offer(Version& version, Plan& plan) {
  if (std::exchange(plan.is_offered, true)) return;
  uint64_t bytes = 0;
  for (const auto& [rank, image] : version.images) {
    if (FindToShip(&version, rank) == nullptr) continue;
    plan.images.emplace_back(rank, StreamBytes(*image));
    bytes += plan.images.back().second;
  }
  if (JobBlocks::AreWanted(*version.job)) return OfferBlocks(version, plan, bytes);
  if (!Stagers::HasThem(*version.job)) return planner_.Offer(*version.job, version.generation, bytes, {});
  stagers_.Find(*version.job,
                [this, generation = version.generation](const Result<std::string>& node) { OnStager(generation, node); });
}

// What the nodes wait for takes them a look at all that they have.
void Shipper::OfferBlocks(Version& version, Plan& plan, uint64_t bytes) {
  const auto place = planner_.PlaceOf(*version.job, version.generation);
  if (!place) return;
  plan.patience = std::chrono::milliseconds(1000 * bytes / kLookedAtBytesPerSecond);
  std::vector<uint32_t> ranks;
  for (const auto& [rank, image_bytes] : plan.images) ranks.push_back(rank);
  job_blocks_.Look(version, ranks, *place, [this, generation = version.generation, bytes](reduce::PopularBlocks popular) {
    const Job* const job = core_.FindJobOf(generation);
    if (job == nullptr) return;
    const Version* const looked_at = core_.FindVersion(generation);
    const bool is_awaited = looked_at != nullptr && looked_at->writers == Version::Writers::kAwaited;
    planner_.Offer(*job, generation, bytes, is_awaited ? std::move(popular) : reduce::PopularBlocks());
  });
}

void Shipper::OnStager(const Generation& generation, const Result<std::string>& node) {
  const auto plan = plans_.extract(generation);
  Version* const version = core_.FindVersion(generation);
  if (plan.empty() || version == nullptr || version->writers != Version::Writers::kAwaited) return;
  CarryRequest request;
  for (const auto& [rank, bytes] : plan.mapped().images) {
    const Image* const image = node.ok() ? FindToShip(version, rank) : nullptr;
    if (image != nullptr) request.images.push_back(ItemOf(*image));
  }
  if (!request.images.empty()) Ship({generation, *node}, std::move(request));
  flush_.WriteHere(*version);
  core_.Nudge();
}

void Shipper::Ship(const Key& key, CarryRequest request) {
  const Version* const version = core_.FindVersion(key.first);
  for (const CarryRequest::Item& item : request.images) flush_.Ship(*version->images.at(item.rank));
  os::KillPoint("ship-begun");
  Begin(key, std::move(request), nullptr);
}

void Shipper::Borrow(const Key& key, CarryRequest request, uint64_t bytes) {
  Version& version = *core_.FindVersion(key.first);
  request.is_shared = true;
  auto lender = std::make_unique<NodeLender>(peers_.LinkFor(*version.job), key.second, key.first);
  version.borrowed = std::make_shared<ObjectUnderWay>(key.first, std::move(lender), bytes);
  Begin(key, std::move(request), version.borrowed);
}

void Shipper::Begin(const Key& key, CarryRequest request, std::shared_ptr<ObjectUnderWay> share) {
  const Version* const version = core_.FindVersion(key.first);
  request.generation = key.first;
  request.ranks = version == nullptr ? 0 : version->ranks;
  std::ranges::sort(request.images, {}, &CarryRequest::Item::rank);
  shipments_[key] = {.request = std::move(request), .heard_ns = core_.clock().NowNs(), .share = std::move(share)};
  Ask(key);
}

void Shipper::OnShareFinished(Version& version, const std::vector<ImageEntry>& entries) {
  const auto found = std::ranges::find_if(shipments_, [&](const auto& shipment) {
    return shipment.first.first == version.generation && shipment.second.share == version.borrowed;
  });
  if (version.borrowed == nullptr || found == shipments_.end()) {
    // The leader has gone, or has left this node out meanwhile.
    for (const ImageEntry& entry : entries) WriteHere(version.generation, entry.rank);
    return;
  }
  const auto& [key, shipment] = *found;
  CarryRequest finished = shipment.request, withdrawn = shipment.request;
  finished.images.clear();
  for (const ImageEntry& entry : entries) {
    finished.images.push_back({entry.rank, entry.record_bytes, entry.record_crc32c, entry.image_bytes, entry.object,
                               entry.record_offset, entry.map_bytes, entry.map_crc32c});
  }
  const auto is_finished = [&](const CarryRequest::Item& item) {
    return std::ranges::any_of(entries, [&](const ImageEntry& entry) { return entry.rank == item.rank; });
  };
  std::erase_if(withdrawn.images, is_finished);
  if (!withdrawn.images.empty()) Withdraw(*version.job, key.second, std::move(withdrawn));
  const Key leader = key;
  os::KillPoint("share-told");
  LetGo(version.generation, std::exchange(found->second.share, nullptr));
  if (finished.images.empty()) return static_cast<void>(shipments_.erase(leader));
  found->second.request = std::move(finished);
  Ask(leader);
  os::KillPoint("share-told");
}

void Shipper::LetGo(const Generation& generation, std::shared_ptr<ObjectUnderWay> share) {
  Version* const version = core_.FindVersion(generation);
  if (version != nullptr && version->borrowed == share) version->borrowed = nullptr;
  core_.LetGo(share);
}

void Shipper::LookAtShares() {
  std::vector<Key> failed;
  for (const auto& [key, shipment] : shipments_) {
    if (shipment.share == nullptr) continue;
    const bool is_over = shipment.share->has_failed() || core_.FindVersion(key.first) == nullptr;
    if (is_over) failed.push_back(key);
  }
  for (const Key& key : failed) TakeBack(key, "its object cannot be written from here");
}

Image* Shipper::FindToShip(Version* version, uint32_t rank) const {
  if (version == nullptr || version->writers != Version::Writers::kAwaited) return nullptr;
  const auto found = version->images.find(rank);
  if (found == version->images.end()) return nullptr;
  Image& image = *found->second;
  if (image.doomed || !image.ended || image.flush != FlushState::kFlushing || image.HasReleased()) return nullptr;
  const bool is_here =
      std::ranges::all_of(image.chunks, [](const ImageChunk& chunk) { return chunk.IsLocal() && chunk.in_own_object; });
  return is_here && !flush_.HasBegun(image) ? &image : nullptr;
}

void Shipper::GiveUp(const Generation& generation, const char* why) {
  Version* const version = core_.FindVersion(generation);
  if (version == nullptr || version->writers != Version::Writers::kAwaited) return;
  LogInfo("agent", "{} is written from this node alone: {}", generation.ToString(), why);
  flush_.WriteHere(*version);
  // Others need not wait for this node; what is not known yet of the version is nothing that it would ship.
  Plan& plan = plans_[generation];
  if (!std::exchange(plan.is_offered, true) && !Stagers::HasThem(*version->job)) {
    planner_.Offer(*version->job, generation, 0, {});
  }
}

void Shipper::OnDecided(const Generation& generation, const WritePlan& decided) {
  const auto plan = plans_.find(generation);
  if (plan == plans_.end()) return;
  const Job* const job = core_.FindJobOf(generation);
  if (job != nullptr && Planner::SharesObjects(*job)) return OnDecidedToShare(generation, decided);
  const std::string& self = core_.settings().node;
  if (decided.led_bytes) carrier_.Lead(generation, *decided.led_bytes);
  Version* const version = core_.FindVersion(generation);
  std::map<std::string, CarryRequest> requests;
  auto image = plan->second.images.begin();
  uint64_t begin = 0;  // of the image
  for (const WritePlan::Run& run : decided.runs) {
    CarryRequest& request = requests[run.node];
    request.accounted_bytes += run.bytes;
    for (; image != plan->second.images.end() && begin < run.from + run.bytes; ++image) {
      const Image* const shipped = run.node == self ? nullptr : FindToShip(version, image->first);
      if (shipped != nullptr) request.images.push_back(ItemOf(*shipped));
      begin += image->second;
    }
  }
  plans_.erase(plan);
  if (version != nullptr) job_blocks_.OnAgreed(*version, decided.common, decided.self);
  for (auto& [node, request] : requests) {
    if (node == self) {
      carrier_.Account(generation, self, request.accounted_bytes);
      continue;
    }
    Ship({generation, node}, std::move(request));
  }
  os::KillPoint("ship-decided");
  if (version != nullptr) flush_.WriteHere(*version);
  core_.Nudge();
}

void Shipper::OnDecidedToShare(const Generation& generation, const WritePlan& decided) {
  const auto plan = plans_.extract(generation);
  const std::string& self = core_.settings().node;
  Version* const version = core_.FindVersion(generation);
  CarryRequest request;
  uint64_t bytes = 0;
  for (const auto& [rank, offered] : plan.mapped().images) {
    const Image* const image = FindToShip(version, rank);
    if (image == nullptr) continue;
    request.images.push_back(ItemOf(*image));
    bytes += flush_.RoomFor(*image);
  }
  if (decided.led_bytes) {
    carrier_.Lead(generation, *decided.led_bytes);
    carrier_.Share(generation, bytes);
  }
  const std::string leader = decided.led_bytes || decided.runs.empty() ? self : decided.runs.front().node;
  std::map<std::string, uint64_t> accounted;
  for (const WritePlan::Run& run : decided.runs) accounted[run.node] += run.bytes;
  for (const auto& [node, planned_bytes] : accounted) {
    CarryRequest told;
    if (node == leader && leader != self) told = std::move(request);
    told.accounted_bytes = planned_bytes;
    if (node == self) {
      carrier_.Account(generation, self, planned_bytes);
    } else if (told.images.empty() || bytes < version->job->store->store().share_bytes_min()) {
      Ship({generation, node}, std::move(told));
    } else {
      Borrow({generation, node}, std::move(told), bytes);
    }
  }
  os::KillPoint("ship-decided");
  if (version != nullptr) flush_.WriteHere(*version);
  core_.Nudge();
}

Image* Shipper::FindShipped(const Generation& generation, uint32_t rank) const {
  Version* const version = core_.FindVersion(generation);
  if (version == nullptr) return nullptr;
  const auto found = version->images.find(rank);
  return found != version->images.end() && found->second->flush == FlushState::kShipped ? found->second.get() : nullptr;
}

void Shipper::WriteHere(const Generation& generation, uint32_t rank) {
  Image* const image = FindShipped(generation, rank);
  if (image == nullptr) return;
  ++core_.counters().images_taken_back;
  flush_.TakeBack(*image);
}

void Shipper::Ask(const Key& key) {
  Shipment& shipment = shipments_.at(key);
  const Job* const job = core_.FindJobOf(key.first);
  if (job == nullptr) return TakeBack(key, "its job is not known any more");
  const SourcePace* const pace = PaceOf(job->key());
  shipment.request.rate = pace == nullptr ? 0 : pace->rate();
  shipment.request.is_leaving = is_leaving_ && Stagers::HasThem(*job);
  if (shipment.share != nullptr) {
    shipment.request.written_bytes = shipment.share->written_bytes();
    shipment.request.is_syncing = shipment.share->is_closed();
  }
  shipment.asked = ++last_question_;
  peers_.Call(*job, key.second, PeerKind::kCarry, Encode(shipment.request), kCarryTimeout,
              [this, key, asked = shipment.asked](const Result<Buffer>& answer) {
                // It was asked again meanwhile, of other images.
                const auto found = shipments_.find(key);
                if (found == shipments_.end() || found->second.asked != asked) return;
                OnAnswer(key, answer.ok() ? DecodeCarryReply(*answer) : Result<CarryReply>(answer.status()));
              });
}

void Shipper::OnAnswer(const Key& key, const Result<CarryReply>& answer) {
  const auto found = shipments_.find(key);
  if (found == shipments_.end()) return;
  Shipment& shipment = found->second;
  std::vector<CarryRequest::Item>& images = shipment.request.images;
  if (answer.status().code() == Code::kUnavailable && ++shipment.failures < kReachTriesMax) {
    core_.loop().AddTimer(kReachPause, [this, key] {
      if (shipments_.contains(key)) Ask(key);
    });
    return;
  }
  if (!answer.ok()) return TakeBack(key, answer.status().ToString());
  shipment.failures = 0;
  if (answer->images.size() != images.size()) return TakeBack(key, "it answers of other images");
  const int64_t now_ns = core_.clock().NowNs();
  if (answer->mark != std::exchange(shipment.mark, answer->mark)) shipment.heard_ns = now_ns;
  std::vector<CarryRequest::Item> left;
  std::set<uint32_t> stored, failed;
  bool is_refused = false;
  shipment.request.held = 0;
  shipment.waiting.clear();
  for (size_t i = 0; i < images.size(); ++i) {
    if (shipment.given_back.erase(images[i].rank) > 0) continue;
    const CarryState state = answer->images[i].state;
    Image* const shipped = FindShipped(key.first, images[i].rank);
    if (shipped != nullptr) shipped->is_handed_over = state == CarryState::kHeld;
    switch (state) {
      case CarryState::kHeld: ++shipment.request.held; [[fallthrough]];
      case CarryState::kUnderWay: left.push_back(images[i]); break;
      case CarryState::kWaiting:
        left.push_back(images[i]);
        shipment.waiting.insert(images[i].rank);
        break;
      case CarryState::kStored: stored.insert(images[i].rank); break;
      case CarryState::kFailed:
        LogWarning("agent", "{} rank {} is written from this node, because node {} could not: {}", key.first.ToString(),
                   images[i].rank, key.second, answer->images[i].why);
        failed.insert(images[i].rank);
        is_refused = is_refused || images[i].object.empty();
        break;
    }
  }
  const bool is_stuck = left.size() > shipment.request.held && now_ns - shipment.heard_ns > kLeaderPatience.count();
  images = std::move(left);
  for (const uint32_t rank : stored) {
    Image* const image = FindShipped(key.first, rank);
    if (image == nullptr) continue;
    ++core_.counters().images_shipped;
    const auto source = sources_.find(JobKeyOf(key.first));
    if (source != sources_.end()) source->second.pace.AddRead(StreamBytes(*image));
    publisher_.OnStoredElsewhere(*image, answer->is_complete);
  }
  if (!stored.empty()) os::KillPoint("ship-stored");
  for (const uint32_t rank : failed) WriteHere(key.first, rank);
  // Of a share that is not finished yet.
  if (is_refused && shipment.share != nullptr) return TakeBack(key, "it leaves this node out");
  if (is_stuck) return TakeBack(key, "it does not get on");
  images.empty() ? static_cast<void>(shipments_.erase(found)) : Ask(key);
}

void Shipper::TakeBack(const Key& key, const std::string& why) {
  const auto shipment = shipments_.extract(key);
  CarryRequest request = shipment.mapped().request;
  std::erase_if(request.images, [&](const auto& item) { return shipment.mapped().given_back.contains(item.rank); });
  if (shipment.mapped().share != nullptr) {
    shipment.mapped().share->GiveUp(Status(Code::kFailedPrecondition, why));
    LetGo(key.first, std::move(shipment.mapped().share));
  }
  if (request.images.empty()) return;
  LogWarning("agent", "{}: {} images are written from this node, because node {} does not write them: {}", key.first.ToString(),
             request.images.size(), key.second, why);
  for (const CarryRequest::Item& item : request.images) WriteHere(key.first, item.rank);
  const Job* const job = core_.FindJobOf(key.first);
  if (job == nullptr) return;
  stagers_.Avoid(*job, key.second);
  Withdraw(*job, key.second, std::move(request));
}

void Shipper::Withdraw(const Job& job, const std::string& node, CarryRequest request) {
  request.is_withdrawn = true;
  peers_.Call(job, node, PeerKind::kCarry, Encode(request), kCarryTimeout, [](const Result<Buffer>&) {});
}

void Shipper::TakeBackWaiting(const Key& key) {
  Shipment& shipment = shipments_.at(key);
  const std::set<uint32_t> waiting = std::exchange(shipment.waiting, {});
  const Job* const job = core_.FindJobOf(key.first);
  if (waiting.empty() || job == nullptr) return;
  LogInfo("agent", "{}: {} images are written from this node, because a rank waits for a place, and they for node {}",
          key.first.ToString(), waiting.size(), key.second);
  CarryRequest request = shipment.request;
  std::erase_if(request.images, [&](const auto& item) { return !waiting.contains(item.rank); });
  for (const uint32_t rank : waiting) {
    shipment.given_back.insert(rank);
    WriteHere(key.first, rank);
  }
  Withdraw(*job, key.second, std::move(request));
}

void Shipper::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  // For a moment: others may be about to return slots that they do not use.
  const bool is_room_wanted = assignment_.WantsRoom();
  const bool is_room_wanted_still = std::exchange(is_room_wanted_, is_room_wanted) && is_room_wanted;
  std::vector<std::pair<Generation, const char*>> given_up;
  for (const auto& [generation, plan] : plans_) {
    const Version* const version = core_.FindVersion(generation);
    if (version == nullptr || version->writers != Version::Writers::kAwaited) continue;
    if (is_room_wanted_still) {
      given_up.emplace_back(generation, "a rank waits for a place that its flush would free");
    } else if (plan.since_ns != 0 && now_ns - plan.since_ns > (kPlanPatience + plan.patience).count()) {
      given_up.emplace_back(generation, "not all nodes have said in time what they have");
    }
  }
  for (const auto& [generation, why] : given_up) GiveUp(generation, why);
  if (is_room_wanted_still) {
    std::vector<Key> shipped;
    for (const auto& [key, shipment] : shipments_) shipped.push_back(key);
    for (const Key& key : shipped) TakeBackWaiting(key);
  }
  LookAtShares();
  std::erase_if(plans_, [&](const auto& entry) { return core_.FindVersion(entry.first) == nullptr; });
  planner_.Tick();
  job_blocks_.Tick();
  LookAtSteps();
}

const SourcePace* Shipper::PaceOf(const JobKey& job) const {
  const auto found = sources_.find(job);
  return found == sources_.end() ? nullptr : &found->second.pace;
}

void Shipper::LookAtSteps() {
  const int64_t now_ns = core_.clock().NowNs();
  for (const auto& [key, job] : core_.jobs()) {
    if (!Stagers::HasThem(*job)) continue;
    const double allowed = 0.01 * job->hello.keys.staging_alpha_percent;
    Source& source = sources_.try_emplace(key, Source{SourcePace(allowed), {}, now_ns}).first->second;
    uint64_t steps = 0;
    std::map<uint32_t, uint64_t> shown;
    for (const Session* session : core_.sessions().all()) {
      if (session->job != job.get()) continue;
      const uint64_t now = session->box().steps.load(std::memory_order_relaxed);
      const auto before = source.steps.find(session->id);
      if (before != source.steps.end()) steps += std::max(now, before->second) - before->second;
      shown[session->id] = now;
    }
    const bool is_read = std::ranges::any_of(shipments_, [&key = key](const auto& shipment) {
      return JobKeyOf(shipment.first.first) == key && !shipment.second.request.images.empty();
    });
    source.pace.Add(steps, Duration(now_ns - source.looked_ns), is_read);
    source.steps = std::move(shown);
    source.looked_ns = now_ns;
  }
  std::erase_if(sources_, [this](const auto& entry) { return core_.FindJob(entry.first) == nullptr; });
}

}  // namespace kedge

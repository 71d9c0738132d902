#include "agent/bring/bringer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "agent/bring/inventories.h"
#include "agent/images/found_images.h"
#include "agent/images/held_stream.h"
#include "agent/images/open_images.h"
#include "agent/peers/peers.h"
#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/own_slots.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/stream.h"

namespace kedge {
namespace {

constexpr Duration kReservePause = std::chrono::milliseconds(5);

bool ScheduledForStore(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return AnyHeld(replies, generation, [](const HeldImage& image) { return image.scheduled >= Level::kStore && !image.in_store; });
}

// Whether a node knows that it is complete in the store.
bool IsInStore(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return AnyHeld(replies, generation, [](const HeldImage& image) { return image.in_store; });
}

// What the others cannot give is lost only where all have answered.
std::string HowMissing(const std::vector<std::string>& silent_nodes) {
  if (silent_nodes.empty()) return "is lost on the nodes";
  return fmt::format("cannot be had without an answer from {}", fmt::join(silent_nodes, ", "));
}

Status NotHere(const Generation& generation, uint32_t rank) {
  return Status(Code::kNotFound, fmt::format("{} rank {} is not on this node", generation.ToString(), rank));
}

}  // namespace

// One image on its way here.
struct Bringer::Order {
  explicit Order(PeerLink job_link) : link(std::move(job_link)) {}

  Wanted wanted;
  uint32_t ranks = 0;
  PeerLink link;
  bool for_store = false;
  bool in_store = false;
  bool may_be_from_store = false;
  Reach reach = Reach::kJob;  // whom the sources are among
  BringFrom from;
  std::unique_ptr<StreamBringer> bringer;
  ImageRecord record;
  std::vector<OwnRange> chunks;  // of the record's chunks; those in other objects have no unit
  OwnRange record_range;
  HeldStream target;
};

Bringer::Bringer(AgentCore& core, Assignment& assignment, FoundImages& found_images, ImageTable& images, Inventories& inventories,
                 MemoryLedger& memory, OwnSlots& own_slots, Peers& peers, Tiers& tiers)
    : core_(core),
      assignment_(assignment),
      found_images_(found_images),
      images_(images),
      inventories_(inventories),
      memory_(memory),
      own_slots_(own_slots),
      peers_(peers),
      tiers_(tiers) {
  core.requests().On<LocalVersionsRequest>(std::bind_front(&Bringer::ListVersions, this));
}

void Bringer::ListVersions(const LocalVersionsRequest& request, const Question& question) {
  Job* job = core_.FindJob(request.store_id, request.job);
  if (job == nullptr || !job->BringsImages())
    return question.Answer(LocalVersionsReply{ListLocalVersions(images_, request), {}, {}});
  const Reach reach = request.everywhere ? Reach::kJob : Reach::kGroup;
  inventories_.Gather(*job, request.name, reach, [this, request, question](const auto& replies) {
    Job* found = core_.FindJob(request.store_id, request.job);
    if (found == nullptr) return question.Answer(LocalVersionsReply{ListLocalVersions(images_, request), {}, {}});
    // A group that knows of nothing says so: the ranks find out whether others do.
    if (!request.everywhere && !GenerationsIn(*replies).empty() && !inventories_.HasNewest(*found, request.name, *replies)) {
      LocalVersionsRequest of_all = request;
      of_all.everywhere = true;
      return ListVersions(of_all, question);
    }
    LocalVersionsReply reply{ListLocalVersions(images_, request), {}, {}};
    if (request.everywhere) reply.silent_nodes = SilentNodes(*found, *replies);
    std::set<std::pair<Generation, uint32_t>> listed;
    for (const LocalVersion& local : reply.versions) listed.insert({local.generation, local.rank});
    std::set<uint32_t> wanted;
    for (const JobNode& node : found->members.nodes) {
      if (node.name == core_.settings().node) wanted.insert(node.ranks.begin(), node.ranks.end());
    }
    const auto generations = GenerationsIn(*replies);
    for (auto entry = generations.rbegin(); entry != generations.rend(); ++entry) {
      const auto& [generation, ranks] = *entry;
      const auto inventories = ToNodeInventories(*replies, generation);
      for (const uint32_t rank : wanted) {
        if (rank >= ranks || listed.contains({generation, rank})) continue;
        const redundancy::RankPlan plan =
            redundancy::PlanRank(generation, ranks, rank, inventories, false, core_.settings().node);
        if (!plan.sources.empty()) {
          reply.versions.push_back({generation, rank, ranks, Level::kNode});
        } else if (request.everywhere) {
          LogWarning("agent", "{} rank {} {}: {}", generation.ToString(), rank, HowMissing(reply.silent_nodes), plan.why_lost);
          reply.lost.push_back({generation, WasSafe(*replies, generation), fmt::format("rank {}: {}", rank, plan.why_lost)});
        }
      }
    }
    question.Answer(reply);
  });
}

void Bringer::Bring(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
                    std::function<void(Status)> done) {
  if (!options.replace && core_.FindWhole(generation, rank) != nullptr) return done(Status::Ok());
  if (!peers_.is_open()) {
    return done(NotHere(generation, rank));
  }
  if (IsFirst(generation, rank, std::move(done))) SearchWithin(job, {generation, rank, options}, Reach::kGroup);
}

void Bringer::BringFromNode(Job& job, const std::string& node, const ImageIdentity& image, std::function<void(Status)> done) {
  const auto& [generation, rank, ranks] = image;
  if (core_.FindWhole(generation, rank) != nullptr) return done(Status::Ok());
  if (!IsFirst(generation, rank, std::move(done))) return;
  InventoryReply held;
  held.node = node;
  held.images.push_back({generation, rank, ranks, Level::kStore, /*to_node=*/false, /*at_node=*/false, /*in_store=*/false});
  // Nowhere else, should it fail.
  Choose({generation, rank, {}}, Reach::kJob, {inventories_.Own(job, generation.name), std::move(held)});
}

bool Bringer::IsFirst(const Generation& generation, uint32_t rank, std::function<void(Status)> done) {
  auto& waiting = bringing_[{generation, rank}];
  waiting.push_back(std::move(done));
  return waiting.size() == 1;
}

void Bringer::Find(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
                   std::function<void(Result<ReachableImage>)> found) {
  if (!peers_.is_open()) return found(NotHere(generation, rank));
  SearchWithin(job, {generation, rank, options, std::move(found)}, Reach::kJob);
}

// Those of a set's images, but for the wanted one, that lie here whole.
template <typename Members>
void Bringer::TakeOwnImages(Order& order, const Members& members) {
  std::map<uint32_t, HeldStream>& own = order.from.own_images;
  for (const auto& member : members) {
    if (!member.rank || *member.rank == order.wanted.rank || own.contains(*member.rank)) continue;
    const Image* image = core_.FindWhole(order.wanted.generation, *member.rank);
    if (image != nullptr) own.emplace(*member.rank, HeldStream::Of(*image));
  }
}

void Bringer::SearchWithin(Job& job, const Wanted& wanted, Reach reach) {
  inventories_.Gather(job, wanted.generation.name, reach,
                      [this, wanted, reach](const auto& gathered) { Choose(wanted, reach, *gathered); });
}

void Bringer::Choose(const Wanted& wanted, Reach reach, std::vector<InventoryReply> replies) {
  const Generation& generation = wanted.generation;
  const uint32_t rank = wanted.rank;
  const BringOptions& options = wanted.options;
  Job* found = core_.FindJobOf(generation);
  if (found == nullptr) return Answer(wanted, Status(Code::kNotFound, "its job is not known any more"));
  if (options.replace) {
    std::erase_if(replies.front().images,
                  [&](const HeldImage& image) { return image.generation == generation && image.rank == rank; });
  }
  auto order = std::make_shared<Order>(peers_.LinkFor(*found));
  order->wanted = wanted;
  order->reach = reach;
  const auto generations = GenerationsIn(replies);
  auto known = generations.find(generation);
  if (known != generations.end() && rank >= known->second) {
    return Answer(wanted, Status(Code::kInvalidArgument,
                                 fmt::format("{} has no rank {}: {} have taken it", generation.ToString(), rank, known->second)));
  }
  if (known == generations.end() && !options.from_store) {
    return Finish(order, Status(Code::kNotFound, fmt::format("{} is on no node that answers", generation.ToString())));
  }
  order->ranks = known == generations.end() ? found->hello.ranks : known->second;
  order->for_store = ScheduledForStore(replies, generation);
  order->in_store = IsInStore(replies, generation);
  order->may_be_from_store = options.from_store && !order->for_store;
  redundancy::RankPlan plan = redundancy::PlanRank(generation, order->ranks, rank, ToNodeInventories(replies, generation),
                                                   options.from_store, core_.settings().node);
  if (options.from_store) order->from.store = found->store;
  if (plan.sources.empty()) {
    return Finish(order,
                  Status(Code::kNotFound, fmt::format("{} rank {} is lost: {}", generation.ToString(), rank, plan.why_lost)));
  }
  order->from.sources = std::move(plan.sources);
  order->from.generation = generation;
  order->from.rank = rank;
  order->from.self = core_.settings().node;
  for (const InventoryReply& reply : replies) {
    for (const HeldSetInfo& info : reply.sets) {
      if (info.set.identity.generation != generation || !IsOfUse(*order, info.set.identity)) continue;
      const bool has_rank =
          std::any_of(info.set.members.begin(), info.set.members.end(), [&](const auto& member) { return member.rank == rank; });
      if (!has_rank) continue;
      // A node that was lost has no set, and may have images by now.
      TakeOwnImages(*order, info.set.members);
      if (reply.node != core_.settings().node)
        order->from.set_nodes.push_back({reply.node, info.set.identity, info.set.record_crc32c});
    }
  }
  TakeOwnParts(*order);
  Describe(std::move(order));
}

bool Bringer::IsOfUse(const Order& order, const SetIdentity& set) {
  const auto& sources = order.from.sources;
  const auto rebuild =
      std::ranges::find(sources, redundancy::SourceKind::kRebuild, [](const redundancy::Source& source) { return source.kind; });
  return rebuild == sources.end() || rebuild->survivors->set->identity == set;
}

// What lies here of the sets that the rank is in.
void Bringer::TakeOwnParts(Order& order) {
  const Version* version = core_.FindVersion(order.wanted.generation);
  if (version == nullptr) return;
  for (const auto& [identity, held] : version->sets) {
    const auto& members = held->record.members;
    auto self =
        std::find_if(members.begin(), members.end(), [&](const SetMember& member) { return member.rank == order.wanted.rank; });
    if (self == members.end()) continue;
    const auto copy = held->objects.find(static_cast<uint32_t>(self - members.begin()));
    const bool is_whole = held->record.scheme == Scheme::kPartner && self->natural.blocks.empty();
    if (is_whole && copy != held->objects.end()) order.from.own_copy = HeldStream::Of(copy->second.ranges);
    if (order.from.set.has_value() || !IsOfUse(order, identity)) continue;
    order.from.set = held->record;
    TakeOwnImages(order, members);
    for (const auto& [member, object] : held->objects) {
      order.from.own_objects[member] = {HeldStream::Of(object.ranges), object.record.blocks};
    }
  }
}

// On a worker: what the image is made of.
void Bringer::Describe(std::shared_ptr<Order> order) {
  LogDebug("agent", "{} rank {} is asked for", order->wanted.generation.ToString(), order->wanted.rank);
  core_.bringers().Submit([this, order] {
    auto bringer = StreamBringer::Make(order->link, order->from);
    Status status = bringer.status();
    if (bringer.ok()) {
      order->bringer = std::move(*bringer);
      auto record = DecodeImageRecord(order->bringer->image_record());
      status = record.status();
      if (record.ok()) order->record = std::move(*record);
    }
    if (status.ok() &&
        (order->record.identity.generation != order->wanted.generation || order->record.identity.rank != order->wanted.rank)) {
      status = Status(Code::kCorrupt, "the image record is another image's: " + order->record.identity.ToString());
    }
    core_.loop().Post([this, order, status] {
      const bool brings = status.ok() && order->wanted.found == nullptr;
      brings ? AskForRoom(order) : Finish(order, status);
    });
  });
}

void Bringer::AskForRoom(const std::shared_ptr<Order>& order) {
  asking_.push_back(order);
  if (asking_.size() == 1) AskAgain();
}

void Bringer::AskAgain() {
  const std::shared_ptr<Order> order = asking_.front();
  const Status asked = TakeRoom(*order);
  if (asked.code() == Code::kBusy) {
    core_.loop().AddTimer(kReservePause, [this] { AskAgain(); });
    return;
  }
  asking_.pop_front();
  if (!asking_.empty()) {
    core_.loop().Post([this] { AskAgain(); });
  }
  asked.ok() ? Fill(order) : Finish(order, asked);
}

// kBusy: some of it is being made, and none is held until then.
Status Bringer::TakeRoom(Order& order) {
  Job* job = core_.FindJobOf(order.wanted.generation);
  auto tiers = job == nullptr ? Result<std::vector<TierUnit*>>(Status(Code::kNotFound, "the job is gone"))
                              : tiers_.ForJob(job->hello.keys);
  KEDGE_RETURN_IF_ERROR(tiers.status());
  const uint64_t record_bytes = order.bringer->image_record().size();
  KEDGE_ASSIGN_OR_RETURN(const auto stream, redundancy::ImageStream::Make(order.record, record_bytes));
  auto take = [&](uint64_t bytes, uint64_t stream_offset, OwnRange* range) {
    auto taken = own_slots_.Take(*tiers, bytes);
    if (!taken.has_value()) return false;
    *range = *taken;
    order.target.AddRange(stream_offset, *taken);
    return true;
  };
  // All are asked for, so that the memory of those for which there is none yet is made meanwhile.
  memory_.BeginAsking();
  bool has_room = true;
  for (const Chunk& chunk : order.record.chunks) {
    OwnRange& range = order.chunks.emplace_back();
    if (chunk.object == 0 && chunk.bytes > 0) has_room = take(chunk.bytes, chunk.object_offset, &range) && has_room;
  }
  has_room = take(record_bytes, stream.record_offset(), &order.record_range) && has_room;
  if (has_room) return Status::Ok();
  if (memory_.IsMaking(*tiers)) {
    GiveBackRanges(order);
    return Status(Code::kBusy, "memory is being made");
  }
  std::string tiers_have;
  for (const TierUnit* unit : *tiers) {
    tiers_have += fmt::format("; {} has {} free slots", unit->info().name, unit->space->free_slots());
  }
  return Status(Code::kNoSpace,
                fmt::format("the tiers of node {} have no room for {} of {} bytes{}, and there may be {} more in memory ({})",
                            core_.settings().node, order.record.identity.ToString(), stream.bytes(), tiers_have,
                            std::max<int64_t>(0, memory_.Room().bytes), memory_.Room().bound));
}

void Bringer::Fill(const std::shared_ptr<Order>& order) {
  LogDebug("agent", "{} rank {} is brought", order->wanted.generation.ToString(), order->wanted.rank);
  core_.bringers().Submit([this, order] {
    memory_.HoldAhead();
    const auto stream = redundancy::ImageStream::Make(order->record, order->bringer->image_record().size()).value();
    Status status = order->bringer->BringTo(stream, 0, stream.bytes(), [&](uint64_t offset, ByteSpan bytes) {
      return order->target.Write(offset, bytes.size(), bytes.data());
    });
    memory_.ReleaseAhead();
    os::KillPoint("bring-filled");
    core_.loop().Post([this, order, status] { Finish(order, status); });
  });
}

// Nothing is known of them yet beyond the order.
void Bringer::GiveBackRanges(Order& order) {
  if (order.record_range.unit != nullptr) own_slots_.GiveBack(order.record_range);
  for (auto range = order.chunks.rbegin(); range != order.chunks.rend(); ++range) {
    if (range->unit != nullptr) own_slots_.GiveBack(*range);
  }
  order.chunks.clear();
  order.record_range = OwnRange{};
  order.target = HeldStream();
}

void Bringer::Finish(const std::shared_ptr<Order>& order, Status status) {
  if (order->wanted.found != nullptr) {
    if (!status.ok()) return order->wanted.found(status);
    return order->wanted.found(ReachableImage{std::move(order->record), std::move(order->bringer)});
  }
  if (status.ok()) status = HandOver(*order);
  if (!status.ok()) {
    GiveBackRanges(*order);
    Job* job = core_.FindJobOf(order->wanted.generation);
    if (order->reach == Reach::kGroup && status.code() != Code::kNoSpace && job != nullptr) {
      own_slots_.Close();
      Wanted wider = order->wanted;
      wider.failure = status;
      return SearchWithin(*job, wider, Reach::kJob);
    }
    // Who has stopped answering is in no inventory any more, and may have it.
    if (status.code() == Code::kNotFound && !order->wanted.failure.ok()) status = order->wanted.failure;
    LogWarning("agent", "{} rank {} cannot be brought here: {}", order->wanted.generation.ToString(), order->wanted.rank,
               status.ToString());
  }
  own_slots_.Close();
  assignment_.PumpSoon();
  Answer(order->wanted, status);
}

void Bringer::Answer(const Wanted& wanted, const Status& status) {
  if (wanted.found != nullptr) return wanted.found(status);
  auto waiting = bringing_.extract({wanted.generation, wanted.rank});
  if (waiting.empty()) return;
  for (const auto& done : waiting.mapped()) done(status);
}

Status Bringer::HandOver(const Order& order) {
  BroughtImage brought;
  brought.record = &order.record;
  brought.record_bytes = order.bringer->image_record().size();
  brought.record_crc32c = crc32c::Compute(order.bringer->image_record().data(), order.bringer->image_record().size());
  brought.chunks = order.chunks;
  brought.record_range = order.record_range;
  brought.for_store = order.for_store;
  brought.from_store = order.may_be_from_store && order.bringer->used_store();
  brought.in_store = order.in_store || brought.from_store;
  brought.replace = order.wanted.options.replace;
  KEDGE_RETURN_IF_ERROR(found_images_.PutBrought(brought));
  ++core_.counters().images_brought;
  LogInfo("agent", "{} rank {} is here again: {}", order.wanted.generation.ToString(), order.wanted.rank,
          order.bringer->UsedText());
  return Status::Ok();
}

}  // namespace kedge

#include "agent/bring/fetch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "agent/bring/inventories.h"
#include "agent/flush/flush.h"
#include "agent/images/held_stream.h"
#include "agent/images/images.h"
#include "agent/peers/peers.h"
#include "agent/protect/protect.h"
#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/own_slots.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/layout.h"
#include "redundancy/stream.h"
#include "store/attempts.h"

namespace kedge {
namespace {

constexpr Duration kReservePause = std::chrono::milliseconds(5);

// Whether some node holds an image of the generation of which that is true.
template <typename Predicate>
bool AnyHeld(const std::vector<InventoryReply>& replies, const Generation& generation, Predicate is_such) {
  return std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) {
    return std::any_of(reply.images.begin(), reply.images.end(),
                       [&](const HeldImage& image) { return image.generation == generation && is_such(image); });
  });
}

bool ScheduledForStore(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return AnyHeld(replies, generation, [](const HeldImage& image) { return image.scheduled >= Level::kStore && !image.in_store; });
}

// Whether a node knows that it is complete in the store.
bool IsInStore(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return AnyHeld(replies, generation, [](const HeldImage& image) { return image.in_store; });
}

// Whether somebody was told that it survives the loss of a node, or more.
bool WasSafe(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return AnyHeld(replies, generation, [](const HeldImage& image) { return image.at_node || image.in_store; });
}

// Whether the node that the rank was on last has its image.
bool LiesWithItsRank(const Job& job, const redundancy::RankPlan& rank) {
  const auto& nodes = job.members.nodes;
  if (nodes.empty()) return true;  // a job on one node
  const auto home = std::find_if(nodes.begin(), nodes.end(), [&](const JobNode& node) {
    return std::find(node.ranks.begin(), node.ranks.end(), rank.rank) != node.ranks.end();
  });
  return home != nodes.end() && std::any_of(rank.sources.begin(), rank.sources.end(),
                                            [&](const redundancy::Source& source) { return source.node == home->name; });
}

SurvivingVersion Survivors(const Job& job, const Generation& generation, const redundancy::RestorePlan& plan,
                           const std::vector<InventoryReply>& replies) {
  std::vector<uint32_t> given, at_hand;
  for (const redundancy::RankPlan& rank : plan.ranks) {
    if (rank.sources.empty()) continue;
    given.push_back(rank.rank);
    if (job.BringsImages() || LiesWithItsRank(job, rank)) at_hand.push_back(rank.rank);
  }
  const auto ranks = static_cast<uint32_t>(plan.ranks.size());
  return {generation, ranks, RunsOf(given), RunsOf(at_hand), WasSafe(replies, generation), plan.WhatIsLost()};
}

// Whether the nodes can give an image that none of them has for its own: the only whole one of a lost node.
bool IsLost(const Generation& generation, const redundancy::RankPlan& rank, const std::vector<InventoryReply>& replies) {
  if (rank.sources.empty()) return false;
  if (rank.sources.front().kind == redundancy::SourceKind::kRebuild) return true;
  return std::none_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) {
    return std::any_of(reply.images.begin(), reply.images.end(),
                       [&](const HeldImage& image) { return image.generation == generation && image.rank == rank.rank; });
  });
}

// Nodes of the job's attempt that have not answered.
std::vector<std::string> SilentNodes(const Job& job, const std::vector<InventoryReply>& replies) {
  std::vector<std::string> silent;
  for (const JobNode& node : job.members.nodes) {
    const bool answers =
        std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) { return reply.node == node.name; });
    if (!answers) silent.push_back(node.name);
  }
  return silent;
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
struct Fetch::Order {
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

void Fetch::ListVersions(Job& job, const LocalVersionsRequest& request, std::function<void(LocalVersionsReply)> done) {
  const Reach reach = request.everywhere ? Reach::kJob : Reach::kGroup;
  inventories_.Gather(job, request.name, reach, [this, request, done = std::move(done)](const auto& replies) {
    Job* found = core_.FindJob(request.store_id, request.job);
    if (found == nullptr) return done(LocalVersionsReply{images_.LocalVersions(request), {}, {}});
    // A group that knows of nothing says so: the ranks find out whether others do.
    if (!request.everywhere && !GenerationsIn(*replies).empty() && !inventories_.HasNewest(*found, request.name, *replies)) {
      LocalVersionsRequest of_all = request;
      of_all.everywhere = true;
      return ListVersions(*found, of_all, done);
    }
    LocalVersionsReply reply{images_.LocalVersions(request), {}, {}};
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
    done(std::move(reply));
  });
}

void Fetch::Bring(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
                  std::function<void(Status)> done) {
  if (!options.replace && images_.FindWhole(generation, rank) != nullptr) return done(Status::Ok());
  if (!peers_.is_open()) {
    return done(NotHere(generation, rank));
  }
  auto& waiting = bringing_[{generation, rank}];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  SearchWithin(job, {generation, rank, options}, Reach::kGroup);
}

void Fetch::Find(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
                 std::function<void(Result<FoundImage>)> found) {
  if (!peers_.is_open()) return found(NotHere(generation, rank));
  SearchWithin(job, {generation, rank, options, std::move(found)}, Reach::kJob);
}

void Fetch::SearchWithin(Job& job, const Wanted& wanted, Reach reach) {
  inventories_.Gather(job, wanted.generation.name, reach, [this, wanted, reach](const auto& gathered) {
    const Generation& generation = wanted.generation;
    const uint32_t rank = wanted.rank;
    const BringOptions& options = wanted.options;
    Job* found = core_.FindJob(generation.store_id, generation.job);
    if (found == nullptr) return Answer(wanted, Status(Code::kNotFound, "its job is not known any more"));
    auto replies = std::make_shared<std::vector<InventoryReply>>(*gathered);
    if (options.replace) {
      std::erase_if(replies->front().images,
                    [&](const HeldImage& image) { return image.generation == generation && image.rank == rank; });
    }
    auto order = std::make_shared<Order>(peers_.LinkFor(*found));
    order->wanted = wanted;
    order->reach = reach;
    const auto generations = GenerationsIn(*replies);
    auto known = generations.find(generation);
    if ((known == generations.end() && !options.from_store) || (known != generations.end() && rank >= known->second)) {
      return Finish(order, Status(Code::kNotFound, fmt::format("{} is on no node that answers", generation.ToString())));
    }
    order->ranks = known == generations.end() ? found->hello.ranks : known->second;
    order->for_store = ScheduledForStore(*replies, generation);
    order->in_store = IsInStore(*replies, generation);
    order->may_be_from_store = options.from_store && !order->for_store;
    redundancy::RankPlan plan = redundancy::PlanRank(generation, order->ranks, rank, ToNodeInventories(*replies, generation),
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
    for (const InventoryReply& reply : *replies) {
      for (const HeldSetInfo& info : reply.sets) {
        if (info.set.identity.generation != generation) continue;
        const bool has_rank = std::any_of(info.set.members.begin(), info.set.members.end(),
                                          [&](const auto& member) { return member.rank == rank; });
        if (has_rank && reply.node != core_.settings().node)
          order->from.set_nodes.push_back({reply.node, info.set.identity, info.set.record_crc32c});
      }
    }
    TakeOwnParts(*order);
    Describe(std::move(order));
  });
}

// What lies here of the sets that the rank is in.
void Fetch::TakeOwnParts(Order& order) {
  const Version* version = images_.FindVersion(order.wanted.generation);
  if (version == nullptr) return;
  for (const auto& [identity, held] : version->sets) {
    const auto& members = held->record.members;
    auto self =
        std::find_if(members.begin(), members.end(), [&](const SetMember& member) { return member.rank == order.wanted.rank; });
    if (self == members.end()) continue;
    order.from.set = held->record;
    for (uint32_t member = 0; member < members.size(); ++member) {
      const Image* image =
          members[member].rank.has_value() ? images_.FindWhole(order.wanted.generation, *members[member].rank) : nullptr;
      if (image != nullptr && members[member].rank != order.wanted.rank) order.from.own_streams[member] = HeldStream::Of(*image);
    }
    for (const auto& [member, object] : held->objects) {
      order.from.own_objects[member] = {HeldStream::Of(object.ranges), object.record.blocks};
    }
    return;
  }
}

// On a worker: what the image is made of.
void Fetch::Describe(std::shared_ptr<Order> order) {
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
      brings ? Fill(order) : Finish(order, status);
    });
  });
}

void Fetch::Fill(std::shared_ptr<Order> order) {
  Job* job = core_.FindJob(order->wanted.generation.store_id, order->wanted.generation.job);
  auto tiers = job == nullptr ? Result<std::vector<TierUnit*>>(Status(Code::kNotFound, "the job is gone"))
                              : tiers_.ForJob(job->hello.keys);
  if (!tiers.ok()) return Finish(order, tiers.status());
  auto stream = redundancy::ImageStream::Make(order->record, order->bringer->image_record().size());
  if (!stream.ok()) return Finish(order, stream.status());
  auto take = [&](uint64_t bytes, uint64_t stream_offset, OwnRange* range) {
    auto taken = own_slots_.Take(*tiers, bytes);
    if (!taken.has_value()) return false;
    *range = *taken;
    order->target.AddRange(stream_offset, *taken);
    return true;
  };
  // All are asked for, so that the memory of those for which there is none yet is made meanwhile.
  memory_.BeginAsking();
  bool has_room = true;
  for (const Chunk& chunk : order->record.chunks) {
    OwnRange& range = order->chunks.emplace_back();
    if (chunk.object == 0 && chunk.bytes > 0) has_room = take(chunk.bytes, chunk.object_offset, &range) && has_room;
  }
  has_room = take(order->bringer->image_record().size(), stream->record_offset(), &order->record_range) && has_room;
  if (!has_room && memory_.IsMaking(*tiers)) {
    ReleaseRanges(*order);
    own_slots_.Close();
    core_.loop().AddTimer(kReservePause, [this, order] { Fill(order); });
    return;
  }
  if (!has_room) {
    return Finish(
        order, Status(Code::kNoSpace, fmt::format("the tiers of node {} have no room for {} of {} bytes", core_.settings().node,
                                                  order->record.identity.ToString(), stream->bytes())));
  }
  LogDebug("agent", "{} rank {} is brought", order->wanted.generation.ToString(), order->wanted.rank);
  core_.bringers().Submit([this, order, stream = std::move(*stream)] {
    memory_.HoldAhead();
    Status status = order->bringer->BringTo(stream, 0, stream.bytes(), [&](uint64_t offset, ByteSpan bytes) {
      return order->target.Write(offset, bytes.size(), bytes.data());
    });
    memory_.ReleaseAhead();
    os::KillPoint("fetch-filled");
    core_.loop().Post([this, order, status] { Finish(order, status); });
  });
}

void Fetch::ReleaseRanges(Order& order) {
  for (const OwnRange& range : order.chunks) {
    if (range.unit != nullptr) own_slots_.Release(range);
  }
  if (order.record_range.unit != nullptr) own_slots_.Release(order.record_range);
  order.chunks.clear();
  order.record_range = OwnRange{};
  order.target = HeldStream();
}

void Fetch::Finish(const std::shared_ptr<Order>& order, Status status) {
  if (order->wanted.found != nullptr) {
    if (!status.ok()) return order->wanted.found(status);
    return order->wanted.found(FoundImage{std::move(order->record), std::move(order->bringer)});
  }
  if (status.ok()) status = Adopt(*order);
  if (!status.ok()) {
    ReleaseRanges(*order);
    Job* job = core_.FindJob(order->wanted.generation.store_id, order->wanted.generation.job);
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

void Fetch::Answer(const Wanted& wanted, const Status& status) {
  if (wanted.found != nullptr) return wanted.found(status);
  auto waiting = bringing_.extract({wanted.generation, wanted.rank});
  if (waiting.empty()) return;
  for (const auto& done : waiting.mapped()) done(status);
}

Status Fetch::Adopt(const Order& order) {
  AdoptedImage adopted;
  adopted.record = &order.record;
  adopted.record_bytes = order.bringer->image_record().size();
  adopted.record_crc32c = crc32c::Compute(order.bringer->image_record().data(), order.bringer->image_record().size());
  adopted.chunks = order.chunks;
  adopted.record_range = order.record_range;
  adopted.for_store = order.for_store;
  adopted.from_store = order.may_be_from_store && order.bringer->used_store();
  adopted.in_store = order.in_store || adopted.from_store;
  adopted.replace = order.wanted.options.replace;
  KEDGE_RETURN_IF_ERROR(images_.Adopt(adopted));
  ++core_.counters().images_brought;
  LogInfo("agent", "{} rank {} is here again: {}", order.wanted.generation.ToString(), order.wanted.rank,
          order.bringer->UsedText());
  return Status::Ok();
}

// Who takes a lost image: the next member of its group that answers, so that the survivors agree without a word.
bool Fetch::FallsToUs(const Job& job, uint32_t rank, const std::vector<InventoryReply>& replies) const {
  const auto position = job.layout == nullptr ? std::nullopt : job.layout->FindRank(rank);
  if (!position.has_value()) return true;
  const auto& group = job.layout->groups[position->group];
  for (size_t step = 1; step <= group.size(); ++step) {
    const std::string& node = group[(position->member + step) % group.size()].name;
    const bool answers =
        std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) { return reply.node == node; });
    if (answers) return node == core_.settings().node;
  }
  return true;
}

void Fetch::NoteAttempts(Job& job, const std::vector<Generation>& generations, std::function<void(Status)> done) {
  std::map<uint32_t, AttemptRecord> awaited;
  for (const Generation& generation : generations) {
    const auto record = job.store->AwaitedRecordOf(generation.attempt);
    if (record && !core_.sessions().HasAttempt(job, generation.attempt)) awaited.emplace(generation.attempt, *record);
  }
  if (awaited.empty()) return done(Status::Ok());
  core_.bringers().Submit([this, store = job.store, awaited = std::move(awaited), done = std::move(done)] {
    Status failure;
    for (const auto& [attempt, record] : awaited) {
      const auto catalog = store->CatalogFor(attempt);
      LeaseWatch watch;
      const Status noted =
          catalog.ok() ? RegisterEndedAttempt(*catalog, record, &watch, LeasePatience(record.lease_seconds)) : catalog.status();
      if (failure.ok()) failure = noted;
    }
    core_.loop().Post([done, failure] { done(failure); });
  });
}

void Fetch::RebuildLost(Job& job, const RebuildRequest& request, std::function<void(RebuildReply)> done) {
  inventories_.Gather(job, "", Reach::kJob, [this, request, done = std::move(done)](const auto& replies) {
    struct Work {
      RebuildReply reply;
      size_t waiting = 1;
      std::function<void(RebuildReply)> done;
    };
    auto work = std::make_shared<Work>();
    work->done = done;
    Job* found = core_.FindJob(request.store_id, request.job);
    if (found == nullptr) {
      work->reply.failure = Status(Code::kNotFound, "the job is not known any more");
      return done(work->reply);
    }
    work->reply.silent_nodes = SilentNodes(*found, *replies);
    work->reply.restored = found->restored;
    auto finish = [this, work, request] {
      if (--work->waiting > 0) return;
      Job* drained = request.to_store ? core_.FindJob(request.store_id, request.job) : nullptr;
      if (drained == nullptr) return work->done(work->reply);
      protect_.GiveUp(*drained);
      NoteAttempts(*drained, request.wanted, [this, work, wanted = request.wanted](const Status& noted) {
        if (!noted.ok() && work->reply.failure.ok()) work->reply.failure = noted;
        for (const Generation& generation : wanted) {
          Version* version = images_.FindVersion(generation);
          if (version != nullptr) work->reply.images_owed += flush_.SendToStore(*version);
        }
        work->done(work->reply);
      });
    };
    const std::set<Generation> wanted(request.wanted.begin(), request.wanted.end());
    for (const auto& [generation, ranks] : GenerationsIn(*replies)) {
      const redundancy::RestorePlan plan =
          redundancy::PlanRestore(generation, ranks, ToNodeInventories(*replies, generation), false, core_.settings().node);
      work->reply.versions.push_back(Survivors(*found, generation, plan, *replies));
      if (!wanted.contains(generation)) continue;
      for (const redundancy::RankPlan& rank : plan.ranks) {
        if (!IsLost(generation, rank, *replies) || !FallsToUs(*found, rank.rank, *replies)) continue;
        ++work->waiting;
        Bring(*found, generation, rank.rank, {}, [work, finish](const Status& brought) {
          if (brought.ok()) ++work->reply.images_brought;
          if (!brought.ok() && work->reply.failure.ok()) work->reply.failure = brought;
          finish();
        });
      }
    }
    finish();
  });
}

}  // namespace kedge

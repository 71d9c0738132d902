#include "agent/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "agent/agent.h"
#include "agent/assignment.h"
#include "agent/flush.h"
#include "agent/held_sets.h"
#include "agent/held_stream.h"
#include "agent/images.h"
#include "agent/own_slots.h"
#include "agent/peers.h"
#include "agent/protect.h"
#include "agent/stream_bringer.h"
#include "agent/tiers.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/kill_point.h"
#include "redundancy/layout.h"
#include "redundancy/stream.h"

namespace kedge {
namespace {

// How long nodes that do not answer are waited for, and how long an answer counts.
constexpr Duration kInventoryTimeout = std::chrono::seconds(5);
constexpr Duration kInventoryAge = std::chrono::seconds(2);
// Nodes that are being invited: how long they are waited for, and how often is looked for them.
constexpr Duration kGuestsTimeout = std::chrono::seconds(2);
constexpr Duration kGuestsPause = std::chrono::milliseconds(25);
constexpr Duration kReservePause = std::chrono::milliseconds(5);

redundancy::NodeInventory ToNodeInventory(const InventoryReply& reply, const Generation& generation) {
  redundancy::NodeInventory inventory;
  inventory.node = reply.node;
  for (const HeldImage& image : reply.images) {
    if (image.generation == generation) inventory.images.push_back(image.rank);
  }
  for (const HeldSetInfo& info : reply.sets) {
    const redundancy::SetSummary& set = info.set;
    if (set.identity.generation != generation) continue;
    inventory.sets.push_back(std::make_shared<const redundancy::SetSummary>(set));
    for (const uint32_t member : info.objects) {
      if (member >= set.members.size()) continue;
      if (set.scheme == Scheme::kPartner) {
        if (set.members[member].rank.has_value()) inventory.images.push_back(*set.members[member].rank);
      } else {
        inventory.parity.push_back({set.identity, member, set.record_crc32c});
      }
    }
  }
  return inventory;
}

std::vector<redundancy::NodeInventory> ToNodeInventories(const std::vector<InventoryReply>& replies,
                                                         const Generation& generation) {
  std::vector<redundancy::NodeInventory> inventories;
  for (const InventoryReply& reply : replies) inventories.push_back(ToNodeInventory(reply, generation));
  return inventories;
}

// The generations of a name that any node knows, with their ranks.
std::map<Generation, uint32_t> GenerationsIn(const std::vector<InventoryReply>& replies) {
  std::map<Generation, uint32_t> generations;
  for (const InventoryReply& reply : replies) {
    for (const HeldImage& image : reply.images) generations[image.generation] = image.ranks;
    for (const HeldSetInfo& set : reply.sets) generations[set.set.identity.generation] = set.set.identity.ranks;
  }
  return generations;
}

// As if only that name had been asked for.
void KeepName(const std::string& name, InventoryReply* reply) {
  if (name.empty()) return;
  std::erase_if(reply->images, [&](const HeldImage& image) { return image.generation.name != name; });
  std::erase_if(reply->sets, [&](const HeldSetInfo& info) { return info.set.identity.generation.name != name; });
}

bool ScheduledForStore(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) {
    return std::any_of(reply.images.begin(), reply.images.end(), [&](const HeldImage& image) {
      return image.generation == generation && image.scheduled >= Level::kStore && !image.in_store;
    });
  });
}

}  // namespace

// One image on its way here.
struct Fetch::Order {
  explicit Order(PeerLink job_link) : link(std::move(job_link)) {}

  Generation generation;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  PeerLink link;
  bool for_store = false;
  bool in_store = false;
  bool replace = false;
  BringFrom from;
  std::unique_ptr<StreamBringer> bringer;
  ImageRecord record;
  std::vector<OwnRange> chunks;  // of the record's chunks; those in other objects have no unit
  OwnRange record_range;
  HeldStream target;
};

InventoryReply Fetch::Inventory(const Job& job, const std::string& name) const {
  InventoryReply reply;
  reply.node = agent_.settings().node;
  for (const JobNode& guest : job.guests) reply.guests.push_back({guest.name, guest.address});
  reply.is_inviting = agent_.peers().IsInviting(job);
  for (const auto& [generation, version] : job.versions) {
    if (!name.empty() && generation.name != name) continue;
    for (const auto& [rank, image] : version->images) {
      if (agent_.images().FindWhole(generation, rank) == nullptr) continue;
      reply.images.push_back(
          {generation, rank, version->ranks, version->scheduled, version->to_node, version->at_node, version->in_store});
    }
    for (const auto& [identity, set] : version->sets) {
      HeldSetInfo info{redundancy::Summarize(set->record, set->crc32c), {}};
      for (const auto& [member, object] : set->objects) {
        const bool lost =
            std::any_of(object.ranges.begin(), object.ranges.end(), [](const OwnRange& range) { return range.unit->lost; });
        if (!lost) info.objects.push_back(member);
      }
      reply.sets.push_back(std::move(info));
    }
  }
  return reply;
}

void Fetch::Gather(Job& job, const std::string& name, std::function<void(Inventories)> done) {
  const Key key{JobKey(job.store_id, job.name), name};
  const int64_t now_ns = agent_.clock().NowNs();
  // What is known of all names serves for one.
  for (const Key& wider : {key, Key(key.first, "")}) {
    auto known = known_.find(wider);
    if (known == known_.end() || now_ns - known->second.at_ns >= kInventoryAge.count()) continue;
    // Our own part is always of now.
    auto fresh = std::make_shared<std::vector<InventoryReply>>(*known->second.inventories);
    for (InventoryReply& reply : *fresh) KeepName(name, &reply);
    fresh->front() = Inventory(job, name);
    return done(fresh);
  }
  auto& running = gatherings_[key];
  if (!running.empty()) return running.begin()->second.done.push_back(std::move(done));
  const uint64_t number = ++last_number_;
  Gathering& gathering = running[number];
  gathering.replies = std::make_shared<std::vector<InventoryReply>>();
  gathering.replies->push_back(Inventory(job, name));
  gathering.began_ns = now_ns;
  gathering.done.push_back(std::move(done));
  std::vector<std::string> others;
  for (const auto* nodes : {&job.members.nodes, &job.guests}) {
    for (const JobNode& node : *nodes) {
      if (node.name != agent_.settings().node) others.push_back(node.name);
    }
  }
  if (others.empty() || !agent_.peers().is_open()) {
    gathering.waiting = 1;
    agent_.loop().Post([this, key, number] { OnInventory(key, number, Status(Code::kUnavailable, "no other nodes")); });
    return;
  }
  gathering.waiting = others.size();
  gathering.asked.insert(others.begin(), others.end());
  for (const std::string& node : others) AskInventory(job, node, key, number);
}

void Fetch::AskInventory(const Job& job, const std::string& node, const Key& key, uint64_t number) {
  agent_.peers().Call(job, node, PeerKind::kInventory, Encode(InventoryRequest{job.store_id, job.name, key.second}),
                      kInventoryTimeout,
                      [this, key, number](Result<Buffer> answer) { OnInventory(key, number, std::move(answer)); });
}

void Fetch::Forget(const Job& job) {
  std::erase_if(known_, [&](const auto& entry) { return entry.first.first == JobKey(job.store_id, job.name); });
}

Fetch::Gathering* Fetch::FindGathering(const Key& key, uint64_t number) {
  auto running = gatherings_.find(key);
  if (running == gatherings_.end()) return nullptr;
  auto found = running->second.find(number);
  return found == running->second.end() ? nullptr : &found->second;
}

void Fetch::OnInventory(const Key& key, uint64_t number, Result<Buffer> answer) {
  Gathering* gathering = FindGathering(key, number);
  if (gathering == nullptr) return;
  auto reply = answer.ok() ? DecodeInventoryReply(*answer) : Result<InventoryReply>(answer.status());
  if (reply.ok()) {
    // Nodes of former attempts that only some know of are asked, too.
    if (Job* job = agent_.FindJob(key.first.first, key.first.second)) {
      for (const std::string& guest : agent_.peers().Learn(*job, reply->guests)) {
        ++gathering->waiting;
        gathering->asked.insert(guest);
        AskInventory(*job, guest, key, number);
      }
    }
    gathering->replies->push_back(std::move(*reply));
  } else if (answer.status().code() != Code::kUnavailable || gathering->waiting > 1) {
    LogWarning("agent", "inventory of job {}: {}", key.first.second, reply.status().ToString());
  }
  if (--gathering->waiting == 0) Conclude(key, number);
}

void Fetch::Conclude(const Key& key, uint64_t number) {
  Gathering* gathering = FindGathering(key, number);
  const Job* job = agent_.FindJob(key.first.first, key.first.second);
  if (job != nullptr && MoreMayCome(*job, key, *gathering)) {
    agent_.loop().AddTimer(kGuestsPause, [this, key, number] { LookAgain(key, number); });
    return;
  }
  LogDebug("agent", "job {}: the inventories of {} nodes are here after {}", key.first.second, gathering->replies->size(),
           FormatDuration(Duration(agent_.clock().NowNs() - gathering->began_ns)));
  const Gathering finished = std::move(*gathering);
  gatherings_.erase(key);
  known_[key] = Known{finished.replies, agent_.clock().NowNs()};
  for (const auto& done : finished.done) done(finished.replies);
}

// Whether it is worth while to wait for nodes that are being invited, by this node or another.
bool Fetch::MoreMayCome(const Job& job, const Key& key, const Gathering& gathering) const {
  if (agent_.clock().NowNs() - gathering.began_ns > kGuestsTimeout.count()) return false;
  const bool new_guest = std::any_of(job.guests.begin(), job.guests.end(),
                                     [&](const JobNode& guest) { return !gathering.asked.contains(guest.name); });
  const bool is_inviting = agent_.peers().IsInviting(job) || new_guest ||
                           std::any_of(gathering.replies->begin() + 1, gathering.replies->end(),
                                       [](const InventoryReply& reply) { return reply.is_inviting; });
  return is_inviting && !HasNewest(job, key, *gathering.replies);
}

// Whether the nodes that have answered can give what this one may be asked for of the newest version of each name: its ranks'
// images, or for all names (a tool's question) everybody's.
bool Fetch::HasNewest(const Job& job, const Key& key, const std::vector<InventoryReply>& replies) const {
  std::map<std::string, std::pair<Generation, uint32_t>> newest;
  for (const auto& [generation, ranks] : GenerationsIn(replies)) newest[generation.name] = {generation, ranks};
  std::set<uint32_t> own_ranks;
  for (const JobNode& node : job.members.nodes) {
    if (node.name == agent_.settings().node) own_ranks.insert(node.ranks.begin(), node.ranks.end());
  }
  for (const auto& [name, version] : newest) {
    const auto& [generation, ranks] = version;
    const auto inventories = ToNodeInventories(replies, generation);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (!key.second.empty() && !own_ranks.contains(rank)) continue;
      if (redundancy::PlanRank(generation, ranks, rank, inventories, false, agent_.settings().node).sources.empty()) return false;
    }
  }
  return !newest.empty();
}

void Fetch::LookAgain(const Key& key, uint64_t number) {
  Gathering* gathering = FindGathering(key, number);
  Job* job = agent_.FindJob(key.first.first, key.first.second);
  if (gathering == nullptr) return;
  if (job == nullptr) return Conclude(key, number);
  std::vector<std::string> to_ask;
  for (const JobNode& guest : job->guests) {
    if (gathering->asked.insert(guest.name).second) to_ask.push_back(guest.name);
  }
  std::vector<InventoryReply>& replies = *gathering->replies;
  for (auto reply = replies.begin() + 1; reply != replies.end();) {
    if (reply->is_inviting) to_ask.push_back(reply->node);
    reply = reply->is_inviting ? replies.erase(reply) : std::next(reply);
  }
  gathering->waiting = to_ask.size();
  for (const std::string& node : to_ask) AskInventory(*job, node, key, number);
  if (to_ask.empty()) Conclude(key, number);
}

void Fetch::ListVersions(Job& job, const LocalVersionsRequest& request, std::function<void(LocalVersionsReply)> done) {
  Gather(job, request.name, [this, request, done = std::move(done)](const Inventories& replies) {
    LocalVersionsReply reply{agent_.images().LocalVersions(request)};
    std::set<std::pair<Generation, uint32_t>> listed;
    for (const LocalVersion& local : reply.versions) listed.insert({local.generation, local.rank});
    const Job* found = agent_.FindJob(request.store_id, request.job);
    if (found == nullptr) return done(std::move(reply));
    std::set<uint32_t> wanted;
    for (const JobNode& node : found->members.nodes) {
      if (node.name == agent_.settings().node) wanted.insert(node.ranks.begin(), node.ranks.end());
    }
    for (const auto& [generation, ranks] : GenerationsIn(*replies)) {
      const auto inventories = ToNodeInventories(*replies, generation);
      for (const uint32_t rank : wanted) {
        if (rank >= ranks || listed.contains({generation, rank})) continue;
        const redundancy::RankPlan plan =
            redundancy::PlanRank(generation, ranks, rank, inventories, false, agent_.settings().node);
        if (!plan.sources.empty()) {
          reply.versions.push_back({generation, rank, ranks, Level::kNode});
        } else {
          LogWarning("agent", "{} rank {} is lost on the nodes: {}", generation.ToString(), rank, plan.why_lost);
        }
      }
    }
    done(std::move(reply));
  });
}

void Fetch::Bring(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
                  std::function<void(Status)> done) {
  if (!options.replace && agent_.images().FindWhole(generation, rank) != nullptr) return done(Status::Ok());
  if (!agent_.peers().is_open()) {
    return done(Status(Code::kNotFound, fmt::format("{} rank {} is not on this node", generation.ToString(), rank)));
  }
  auto& waiting = bringing_[{generation, rank}];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  Gather(job, generation.name, [this, generation, rank, options](const Inventories& gathered) {
    Job* found = agent_.FindJob(generation.store_id, generation.job);
    if (found == nullptr) return Answer(generation, rank, Status(Code::kNotFound, "its job is not known any more"));
    auto replies = std::make_shared<std::vector<InventoryReply>>(*gathered);
    if (options.replace) {
      std::erase_if(replies->front().images,
                    [&](const HeldImage& image) { return image.generation == generation && image.rank == rank; });
    }
    auto order = std::make_shared<Order>(agent_.peers().LinkFor(*found));
    order->generation = generation;
    order->rank = rank;
    order->replace = options.replace;
    const auto generations = GenerationsIn(*replies);
    auto known = generations.find(generation);
    if ((known == generations.end() && !options.from_store) || (known != generations.end() && rank >= known->second)) {
      return Finish(order, Status(Code::kNotFound, fmt::format("{} is on no node that answers", generation.ToString())));
    }
    order->ranks = known == generations.end() ? found->hello.ranks : known->second;
    order->for_store = ScheduledForStore(*replies, generation);
    order->in_store = options.from_store && !order->for_store;
    redundancy::RankPlan plan = redundancy::PlanRank(generation, order->ranks, rank, ToNodeInventories(*replies, generation),
                                                     options.from_store, agent_.settings().node);
    if (options.from_store) order->from.store = found->store;
    if (plan.sources.empty()) {
      return Finish(order,
                    Status(Code::kNotFound, fmt::format("{} rank {} is lost: {}", generation.ToString(), rank, plan.why_lost)));
    }
    order->from.sources = std::move(plan.sources);
    order->from.generation = generation;
    order->from.rank = rank;
    order->from.self = agent_.settings().node;
    for (const InventoryReply& reply : *replies) {
      for (const HeldSetInfo& info : reply.sets) {
        if (info.set.identity.generation != generation) continue;
        const bool has_rank = std::any_of(info.set.members.begin(), info.set.members.end(),
                                          [&](const auto& member) { return member.rank == rank; });
        if (has_rank && reply.node != agent_.settings().node)
          order->from.set_nodes.push_back({reply.node, info.set.identity, info.set.record_crc32c});
      }
    }
    TakeOwnParts(*order);
    Describe(std::move(order));
  });
}

// What lies here of the sets that the rank is in.
void Fetch::TakeOwnParts(Order& order) {
  const Version* version = agent_.images().FindVersion(order.generation);
  if (version == nullptr) return;
  for (const auto& [identity, held] : version->sets) {
    const auto& members = held->record.members;
    auto self = std::find_if(members.begin(), members.end(), [&](const SetMember& member) { return member.rank == order.rank; });
    if (self == members.end()) continue;
    order.from.set = held->record;
    for (uint32_t member = 0; member < members.size(); ++member) {
      const Image* image =
          members[member].rank.has_value() ? agent_.images().FindWhole(order.generation, *members[member].rank) : nullptr;
      if (image != nullptr && members[member].rank != order.rank) order.from.own_streams[member] = HeldStream::Of(*image);
    }
    for (const auto& [member, object] : held->objects) {
      order.from.own_objects[member] = {HeldStream::Of(object.ranges), object.record.blocks};
    }
    return;
  }
}

// On a worker: what the image is made of.
void Fetch::Describe(std::shared_ptr<Order> order) {
  LogDebug("agent", "{} rank {} is asked for", order->generation.ToString(), order->rank);
  agent_.protect().bringers().Submit([this, order] {
    auto bringer = StreamBringer::Make(order->link, order->from);
    Status status = bringer.status();
    if (bringer.ok()) {
      order->bringer = std::move(*bringer);
      auto record = DecodeImageRecord(order->bringer->image_record());
      status = record.status();
      if (record.ok()) order->record = std::move(*record);
    }
    if (status.ok() && (order->record.identity.generation != order->generation || order->record.identity.rank != order->rank)) {
      status = Status(Code::kCorrupt, "the image record is another image's: " + order->record.identity.ToString());
    }
    agent_.loop().Post([this, order, status] { status.ok() ? Fill(order) : Finish(order, status); });
  });
}

void Fetch::Fill(std::shared_ptr<Order> order) {
  Job* job = agent_.FindJob(order->generation.store_id, order->generation.job);
  auto tiers = job == nullptr ? Result<std::vector<TierUnit*>>(Status(Code::kNotFound, "the job is gone"))
                              : agent_.tiers().ForJob(job->hello.keys);
  if (!tiers.ok()) return Finish(order, tiers.status());
  auto stream = redundancy::ImageStream::Make(order->record, order->bringer->image_record().size());
  if (!stream.ok()) return Finish(order, stream.status());
  auto take = [&](uint64_t bytes, uint64_t stream_offset, OwnRange* range) {
    auto taken = agent_.own_slots().Take(*tiers, bytes);
    if (!taken.has_value()) return false;
    *range = *taken;
    order->target.AddRange(stream_offset, *taken);
    return true;
  };
  bool has_room = true;
  for (const Chunk& chunk : order->record.chunks) {
    OwnRange& range = order->chunks.emplace_back();
    if (chunk.object == 0 && chunk.bytes > 0) has_room = has_room && take(chunk.bytes, chunk.object_offset, &range);
  }
  has_room = has_room && take(order->bringer->image_record().size(), stream->record_offset(), &order->record_range);
  if (!has_room && agent_.tiers().IsReserving(*tiers)) {
    // A spare's agent has just begun: its slots are on their way.
    ReleaseRanges(*order);
    agent_.own_slots().Close();
    agent_.loop().AddTimer(kReservePause, [this, order] { Fill(order); });
    return;
  }
  if (!has_room) {
    return Finish(
        order, Status(Code::kNoSpace, fmt::format("the tiers of node {} have no room for {} of {} bytes", agent_.settings().node,
                                                  order->record.identity.ToString(), stream->bytes())));
  }
  LogDebug("agent", "{} rank {} is brought", order->generation.ToString(), order->rank);
  agent_.protect().bringers().Submit([this, order, stream = std::move(*stream)] {
    agent_.tiers().HoldPreparing();
    Status status = order->bringer->BringTo(stream, order->target);
    agent_.tiers().ReleasePreparing();
    os::KillPoint("fetch-filled");
    agent_.loop().Post([this, order, status] { Finish(order, status); });
  });
}

void Fetch::ReleaseRanges(Order& order) {
  for (const OwnRange& range : order.chunks) {
    if (range.unit != nullptr) agent_.own_slots().Release(range);
  }
  if (order.record_range.unit != nullptr) agent_.own_slots().Release(order.record_range);
  order.chunks.clear();
  order.record_range = OwnRange{};
  order.target = HeldStream();
}

void Fetch::Finish(const std::shared_ptr<Order>& order, Status status) {
  if (status.ok()) status = Adopt(*order);
  if (!status.ok()) {
    ReleaseRanges(*order);
    LogWarning("agent", "{} rank {} cannot be brought here: {}", order->generation.ToString(), order->rank, status.ToString());
  }
  agent_.own_slots().Close();
  agent_.assignment().PumpSoon();
  Answer(order->generation, order->rank, status);
}

void Fetch::Answer(const Generation& generation, uint32_t rank, const Status& status) {
  auto waiting = bringing_.extract({generation, rank});
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
  adopted.in_store = order.in_store && order.bringer->used_store();
  adopted.replace = order.replace;
  KEDGE_RETURN_IF_ERROR(agent_.images().Adopt(adopted));
  ++agent_.counters().images_brought;
  LogInfo("agent", "{} rank {} is here again: {}", order.generation.ToString(), order.rank, order.bringer->UsedText());
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
    if (answers) return node == agent_.settings().node;
  }
  return true;
}

void Fetch::SendToStore(const Generation& generation, RebuildReply* reply) {
  Version* version = agent_.images().FindVersion(generation);
  if (version == nullptr || version->in_store) return;
  version->scheduled = Level::kStore;
  version->skipped = false;
  // Whoever is here goes: the ranks that the node had, and those that it has taken over.
  version->node_ranks = std::max<uint32_t>(1, static_cast<uint32_t>(version->images.size()));
  for (const auto& [rank, image] : version->images) {
    if (image->doomed || !image->ended || image->flush == FlushState::kStored) continue;
    ++reply->images_owed;
    if (!Flush::IsActive(*image)) agent_.flush().Start(*image);
  }
}

void Fetch::RebuildLost(Job& job, const RebuildRequest& request, std::function<void(RebuildReply)> done) {
  Gather(job, "", [this, request, done = std::move(done)](const Inventories& replies) {
    struct Work {
      RebuildReply reply;
      std::vector<Generation> generations;
      size_t waiting = 1;
      std::function<void(RebuildReply)> done;
    };
    auto work = std::make_shared<Work>();
    work->done = done;
    Job* found = agent_.FindJob(request.store_id, request.job);
    if (found == nullptr) {
      work->reply.failure = Status(Code::kNotFound, "the job is not known any more");
      return done(work->reply);
    }
    for (const JobNode& node : found->members.nodes) {
      const bool answers =
          std::any_of(replies->begin(), replies->end(), [&](const InventoryReply& reply) { return reply.node == node.name; });
      if (!answers) work->reply.silent_nodes.push_back(node.name);
    }
    auto finish = [this, work, request] {
      if (--work->waiting > 0) return;
      if (request.act && request.to_store) {
        if (const Job* drained = agent_.FindJob(request.store_id, request.job)) agent_.protect().GiveUp(*drained);
        for (const Generation& generation : work->generations) SendToStore(generation, &work->reply);
      }
      work->done(work->reply);
    };
    std::set<std::string> names_done;
    const auto generations = GenerationsIn(*replies);
    for (auto entry = generations.rbegin(); entry != generations.rend(); ++entry) {
      const Generation& generation = entry->first;
      const uint32_t ranks = entry->second;
      if (names_done.contains(generation.name)) continue;
      const auto inventories = ToNodeInventories(*replies, generation);
      const redundancy::RestorePlan plan = redundancy::PlanRestore(generation, ranks, inventories, false, agent_.settings().node);
      if (!plan.complete()) {
        work->reply.lost.push_back(fmt::format("{}: {}", generation.ToString(), plan.WhatIsLost()));
        continue;
      }
      names_done.insert(generation.name);
      ++work->reply.versions;
      work->generations.push_back(generation);
      for (const redundancy::RankPlan& rank : plan.ranks) {
        const bool is_lost = rank.sources.front().kind == redundancy::SourceKind::kRebuild ||
                             std::none_of(replies->begin(), replies->end(), [&](const InventoryReply& reply) {
                               return std::any_of(reply.images.begin(), reply.images.end(), [&](const HeldImage& image) {
                                 return image.generation == generation && image.rank == rank.rank;
                               });
                             });
        if (!request.act || !is_lost || !FallsToUs(*found, rank.rank, *replies)) continue;
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

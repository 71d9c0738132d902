#include "agent/bring/inventories.h"

#include <algorithm>
#include <utility>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"

namespace kedge {
namespace {

// How long nodes that do not answer are waited for, and how long an answer counts.
constexpr Duration kInventoryTimeout = std::chrono::seconds(5);
constexpr Duration kSecondAnswerTimeout = std::chrono::seconds(1);
constexpr Duration kLastSignTimeout = std::chrono::milliseconds(500);
constexpr Duration kInventoryAge = std::chrono::seconds(2);
// Nodes that are being invited: how long they are waited for, and how often is looked for them.
constexpr Duration kGuestsTimeout = std::chrono::seconds(2);
constexpr Duration kGuestsPause = std::chrono::milliseconds(25);

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
      if (redundancy::CopiesAreWhole(set, member)) {
        if (set.members[member].rank.has_value()) inventory.images.push_back(*set.members[member].rank);
      } else {
        inventory.parity.push_back({set.identity, member, set.record_crc32c});
      }
    }
  }
  return inventory;
}

// Nodes that may have images of the job and are none of its attempt's: those of former attempts, and staging agents.
std::vector<std::string> BesideMembers(const Job& job) {
  std::vector<std::string> names(job.enlisted_at.begin(), job.enlisted_at.end());
  for (const JobNode& guest : job.guests) {
    if (!job.enlisted_at.contains(guest.name)) names.push_back(guest.name);
  }
  return names;
}

// Whether a version has reached level NODE between two answers of a node: others have redundancy by now of which what they said
// at the time of the first says nothing.
bool HasReachedNode(const InventoryReply& before, const InventoryReply& now) {
  std::set<Generation> known;
  for (const HeldImage& image : before.images) {
    if (image.at_node) known.insert(image.generation);
  }
  return std::any_of(now.images.begin(), now.images.end(),
                     [&](const HeldImage& image) { return image.at_node && !known.contains(image.generation); });
}

// As if only that name had been asked for.
void KeepName(const std::string& name, InventoryReply* reply) {
  if (name.empty()) return;
  std::erase_if(reply->images, [&](const HeldImage& image) { return image.generation.name != name; });
  std::erase_if(reply->sets, [&](const HeldSetInfo& info) { return info.set.identity.generation.name != name; });
}

}  // namespace

Inventories::Inventories(AgentCore& core, Peers& peers) : core_(core), peers_(peers) {
  peers.service().On(PeerKind::kInventory, DecodeInventoryRequest,
                     [this](Job& job, const InventoryRequest& request) { return Own(job, request.name); });
}

std::vector<redundancy::NodeInventory> ToNodeInventories(const std::vector<InventoryReply>& replies,
                                                         const Generation& generation) {
  std::vector<redundancy::NodeInventory> inventories;
  for (const InventoryReply& reply : replies) inventories.push_back(ToNodeInventory(reply, generation));
  return inventories;
}

std::map<Generation, uint32_t> GenerationsIn(const std::vector<InventoryReply>& replies) {
  std::map<Generation, uint32_t> generations;
  for (const InventoryReply& reply : replies) {
    for (const HeldImage& image : reply.images) generations[image.generation] = image.ranks;
    for (const HeldSetInfo& set : reply.sets) generations[set.set.identity.generation] = set.set.identity.ranks;
  }
  return generations;
}

bool WasSafe(const std::vector<InventoryReply>& replies, const Generation& generation) {
  return AnyHeld(replies, generation, [](const HeldImage& image) { return image.at_node || image.in_store; });
}

std::vector<std::string> SilentNodes(const Job& job, const std::vector<InventoryReply>& replies) {
  std::vector<std::string> silent;
  for (const JobNode& node : job.members.nodes) {
    const bool answers =
        std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) { return reply.node == node.name; });
    if (!answers) silent.push_back(node.name);
  }
  return silent;
}

InventoryReply Inventories::Own(const Job& job, const std::string& name) const {
  InventoryReply reply;
  reply.node = core_.settings().node;
  for (const JobNode& guest : job.guests) reply.guests.push_back({guest.name, guest.address});
  reply.is_inviting = IsLookingForMore(job);
  for (const auto& [generation, version] : job.versions) {
    if (!name.empty() && generation.name != name) continue;
    for (const auto& [rank, image] : version->images) {
      if (core_.FindWhole(generation, rank) == nullptr) continue;
      reply.images.push_back(
          {generation, rank, version->ranks, version->scheduled(), version->to_node, version->at_node, version->in_store()});
    }
    for (const auto& [identity, set] : version->sets) {
      HeldSetInfo info{redundancy::Summarize(set->record, set->crc32c), {}};
      for (const auto& [member, object] : set->objects) {
        if (!object.IsLost()) info.objects.push_back(member);
      }
      reply.sets.push_back(std::move(info));
    }
  }
  return reply;
}

void Inventories::Gather(Job& job, const std::string& name, Reach reach, std::function<void(Gathered)> done, Haste haste) {
  const Key key{job.key(), name, reach, haste.is_look};
  const int64_t now_ns = core_.clock().NowNs();
  // What is known of all nodes serves for some, and of all names for one.
  for (const Key& wider : {Key{key.job, name, Reach::kJob}, Key{key.job, "", Reach::kJob}, key}) {
    auto known = known_.find(wider);
    if (known == known_.end() || now_ns - known->second.at_ns >= kInventoryAge.count()) continue;
    auto fresh = std::make_shared<std::vector<InventoryReply>>(*known->second.inventories);
    for (InventoryReply& reply : *fresh) KeepName(name, &reply);
    // Our own part is always of now.
    InventoryReply own = Own(job, name);
    if (HasReachedNode(fresh->front(), own)) continue;
    fresh->front() = std::move(own);
    return done(fresh);
  }
  auto& running = gatherings_[key];
  if (!running.empty()) return running.begin()->second.done.push_back(std::move(done));
  const uint64_t number = ++last_number_;
  Gathering& gathering = running[number];
  gathering.replies = std::make_shared<std::vector<InventoryReply>>();
  gathering.replies->push_back(Own(job, name));
  gathering.began_ns = now_ns;
  gathering.done.push_back(std::move(done));
  gathering.most_likely_dead = std::move(haste.most_likely_dead);
  std::vector<std::string> others = MembersWithin(job, core_.settings().node, reach);
  std::ranges::copy(BesideMembers(job), std::back_inserter(others));
  std::erase(others, core_.settings().node);
  if (others.empty() || !peers_.is_open()) {
    core_.loop().Post([this, key, number] {
      if (FindGathering(key, number) != nullptr) Conclude(key, number);
    });
    return;
  }
  gathering.waiting = others.size();
  gathering.asked.insert(others.begin(), others.end());
  for (const std::string& node : others) Ask(job, node, key, number);
  if (!key.is_look) return;
  core_.loop().AddTimer(kLastSignTimeout, [this, key, number] {
    const Gathering* looking = FindGathering(key, number);
    if (looking != nullptr && HasEnough(key, *looking)) Conclude(key, number);
  });
}

bool Inventories::HasEnough(const Key& key, const Gathering& gathering) const {
  const Job* job = core_.FindJob(key.job);
  const bool has_waited = core_.clock().NowNs() - gathering.began_ns >= kLastSignTimeout.count();
  return key.is_look && has_waited && job != nullptr && HasNewest(*job, key.name, *gathering.replies);
}

void Inventories::Ask(const Job& job, const std::string& node, const Key& key, uint64_t number) {
  ++core_.counters().inventories_asked;
  const Gathering* gathering = FindGathering(key, number);
  const Duration patience = gathering->most_likely_dead.contains(node) ? kLastSignTimeout : kInventoryTimeout;
  const Duration left(gathering->began_ns + patience.count() - core_.clock().NowNs());
  const Duration timeout = std::max(left, std::min(patience, kSecondAnswerTimeout));
  peers_.Call(job, node, PeerKind::kInventory, Encode(InventoryRequest{job.store_id, job.name, key.name}), timeout,
              [this, node, key, number](Result<Buffer> answer) {
                // The connection ended, which may have been one of the attempt before: the question went with it.
                Gathering* asking = FindGathering(key, number);
                const Job* of = core_.FindJob(key.job);
                const bool ended = answer.status().code() == Code::kUnavailable;
                if (ended && asking != nullptr && of != nullptr && asking->asked_again.insert(node).second) {
                  return Ask(*of, node, key, number);
                }
                OnAnswer(key, number, std::move(answer));
              });
}

void Inventories::Forget(const Job& job) {
  std::erase_if(known_, [&](const auto& entry) { return entry.first.job == job.key(); });
}

Inventories::Gathering* Inventories::FindGathering(const Key& key, uint64_t number) {
  auto running = gatherings_.find(key);
  if (running == gatherings_.end()) return nullptr;
  auto found = running->second.find(number);
  return found == running->second.end() ? nullptr : &found->second;
}

void Inventories::OnAnswer(const Key& key, uint64_t number, Result<Buffer> answer) {
  Gathering* gathering = FindGathering(key, number);
  if (gathering == nullptr) return;
  auto reply = answer.ok() ? DecodeInventoryReply(*answer) : Result<InventoryReply>(answer.status());
  if (reply.ok()) {
    // Nodes of former attempts that only some know of are asked, too.
    if (Job* job = core_.FindJob(key.job)) {
      for (const std::string& guest : peers_.Learn(*job, reply->guests)) {
        ++gathering->waiting;
        gathering->asked.insert(guest);
        Ask(*job, guest, key, number);
      }
    }
    gathering->replies->push_back(std::move(*reply));
  } else if (answer.status().code() != Code::kUnavailable || gathering->waiting > 1) {
    LogWarning("agent", "inventory of job {}: {}", key.job.second, reply.status().ToString());
  }
  if (--gathering->waiting == 0 || HasEnough(key, *gathering)) Conclude(key, number);
}

void Inventories::Conclude(const Key& key, uint64_t number) {
  Gathering* gathering = FindGathering(key, number);
  const Job* job = core_.FindJob(key.job);
  if (job != nullptr && MoreMayCome(*job, key, *gathering)) {
    core_.loop().AddTimer(kGuestsPause, [this, key, number] { LookAgain(key, number); });
    return;
  }
  LogDebug("agent", "job {}: the inventories of {} nodes are here after {}", key.job.second, gathering->replies->size(),
           FormatDuration(Duration(core_.clock().NowNs() - gathering->began_ns)));
  const Gathering finished = std::move(*gathering);
  gatherings_.erase(key);
  known_[key] = Known{finished.replies, core_.clock().NowNs()};
  for (const auto& done : finished.done) done(finished.replies);
}

bool Inventories::IsLookingForMore(const Job& job) const {
  return peers_.IsInviting(job) || job.seeks_stagers;
}

// Whether it is worth while to wait for nodes that are being invited, by this node or another.
bool Inventories::MoreMayCome(const Job& job, const Key& key, const Gathering& gathering) const {
  if (core_.clock().NowNs() - gathering.began_ns > kGuestsTimeout.count()) return false;
  const bool new_guest =
      std::ranges::any_of(BesideMembers(job), [&](const std::string& node) { return !gathering.asked.contains(node); });
  const bool is_inviting = IsLookingForMore(job) || new_guest ||
                           std::any_of(gathering.replies->begin() + 1, gathering.replies->end(),
                                       [](const InventoryReply& reply) { return reply.is_inviting; });
  return is_inviting && !HasNewest(job, key.name, *gathering.replies);
}

bool Inventories::HasNewest(const Job& job, const std::string& of_name, const std::vector<InventoryReply>& replies) const {
  std::map<std::string, std::pair<Generation, uint32_t>> newest;
  for (const auto& [generation, ranks] : GenerationsIn(replies)) newest[generation.name] = {generation, ranks};
  std::set<uint32_t> own_ranks;
  for (const JobNode& node : job.members.nodes) {
    if (node.name == core_.settings().node) own_ranks.insert(node.ranks.begin(), node.ranks.end());
  }
  for (const auto& [name, version] : newest) {
    const auto& [generation, ranks] = version;
    const auto inventories = ToNodeInventories(replies, generation);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (!of_name.empty() && !own_ranks.contains(rank)) continue;
      if (redundancy::PlanRank(generation, ranks, rank, inventories, false, core_.settings().node).sources.empty()) return false;
    }
  }
  return !newest.empty();
}

void Inventories::LookAgain(const Key& key, uint64_t number) {
  Gathering* gathering = FindGathering(key, number);
  Job* job = core_.FindJob(key.job);
  if (gathering == nullptr) return;
  if (job == nullptr) return Conclude(key, number);
  std::vector<std::string> to_ask;
  for (const std::string& node : BesideMembers(*job)) {
    if (gathering->asked.insert(node).second) to_ask.push_back(node);
  }
  std::vector<InventoryReply>& replies = *gathering->replies;
  for (auto reply = replies.begin() + 1; reply != replies.end();) {
    if (reply->is_inviting) to_ask.push_back(reply->node);
    reply = reply->is_inviting ? replies.erase(reply) : std::next(reply);
  }
  gathering->waiting = to_ask.size();
  for (const std::string& node : to_ask) Ask(*job, node, key, number);
  if (to_ask.empty()) Conclude(key, number);
}

}  // namespace kedge

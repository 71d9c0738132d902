// What the nodes of an attempt hold of a job: asked of many at once, with a bounded wait for those that do not answer.
//
// A restart asks the group first. Its nodes hold what is kept of this node's ranks as long as ranks stay where they are, and who
// asks everybody waits until there is a way to everybody: a new node opens its own to all others first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "agent/tables/members.h"
#include "redundancy/plan.h"

namespace kedge {

class AgentCore;
class Peers;

// What the answers say of one generation, for redundancy/plan.h.
std::vector<redundancy::NodeInventory> ToNodeInventories(const std::vector<InventoryReply>& replies,
                                                         const Generation& generation);
// The generations that any node knows, with their ranks.
std::map<Generation, uint32_t> GenerationsIn(const std::vector<InventoryReply>& replies);
// Whether some node holds an image of the generation of which that is true.
template <typename Predicate>
bool AnyHeld(const std::vector<InventoryReply>& replies, const Generation& generation, Predicate is_such) {
  return std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) {
    return std::any_of(reply.images.begin(), reply.images.end(),
                       [&](const HeldImage& image) { return image.generation == generation && is_such(image); });
  });
}
// Whether somebody was told that it survives the loss of a node, or more.
bool WasSafe(const std::vector<InventoryReply>& replies, const Generation& generation);
// Nodes of the job's attempt that have not answered.
std::vector<std::string> SilentNodes(const Job& job, const std::vector<InventoryReply>& replies);

// How long nodes that do not answer are waited for, less than usual.
struct Haste {
  std::set<std::string> most_likely_dead;  // waited for half a second
  // Who asks only looks, and looks again where that does not do: half a second for all who do not answer, when the others have
  // all of the newest version.
  bool is_look = false;
};

class Inventories {
 public:
  Inventories(AgentCore& core, Peers& peers);

  // What this node holds of a job; an empty name: of all names.
  InventoryReply Own(const Job& job, const std::string& name) const;

  // What the nodes within reach that answer hold, and those that the attempt leaves out: once, on the loop's thread, after some
  // seconds at most. Asked of them anew unless an answer is younger than a moment, and than
  // what has reached level NODE. Nodes that the attempt leaves out, and that
  // have yet to answer their invitation, are waited for only when the others do not have all of the newest version.
  using Gathered = std::shared_ptr<const std::vector<InventoryReply>>;
  void Gather(Job& job, const std::string& name, Reach reach, std::function<void(Gathered)> done, Haste haste = {});
  // Whether these answers can give what this node may be asked for of the newest version of each name that they know: its ranks'
  // images, or with an empty `name` (a tool's question) everybody's. False when they know of none.
  bool HasNewest(const Job& job, const std::string& name, const std::vector<InventoryReply>& replies) const;
  // The job has other nodes now.
  void Forget(const Job& job);

 private:
  struct Gathering {
    std::shared_ptr<std::vector<InventoryReply>> replies;  // this node's own first
    std::set<std::string> asked;
    std::set<std::string> asked_again;  // whose connection ended before they answered
    std::set<std::string> most_likely_dead;
    size_t waiting = 0;
    int64_t began_ns = 0;
    std::vector<std::function<void(Gathered)>> done;
  };
  struct Known {
    Gathered inventories;
    int64_t at_ns = 0;
  };
  struct Key {
    JobKey job;
    std::string name;
    Reach reach = Reach::kJob;
    bool is_look = false;

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  void Ask(const Job& job, const std::string& node, const Key& key, uint64_t number);
  void OnAnswer(const Key& key, uint64_t number, Result<Buffer> answer);
  Gathering* FindGathering(const Key& key, uint64_t number);
  // Nodes beside the attempt's are yet to be reached.
  bool IsLookingForMore(const Job& job) const;
  // Of a look: whether what has come does, so that nobody is waited for any more.
  bool HasEnough(const Key& key, const Gathering& gathering) const;
  // All who are waited for have answered.
  void Conclude(const Key& key, uint64_t number);
  bool MoreMayCome(const Job& job, const Key& key, const Gathering& gathering) const;
  void LookAgain(const Key& key, uint64_t number);

  AgentCore& core_;
  Peers& peers_;
  std::map<Key, std::map<uint64_t, Gathering>> gatherings_;
  std::map<Key, Known> known_;
  uint64_t last_number_ = 0;
};

}  // namespace kedge

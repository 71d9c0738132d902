// Images that are not on this node: which the nodes together can give, and how one comes here.
//
// For a restart the agents of the attempt tell each other what they hold (inventories.h), and redundancy/plan.h says for each
// rank where it can come from: another node that has it whole, a partner's copy, a rebuild from the survivors of its set. An
// image that is brought goes straight into slots of this node, block by block, each held against the set's block table where
// there is one; it is this node's copy from then on, and outlives client and agent as any other. A source that fails, or whose
// bytes are wrong, is passed over for the next. What an attempt has restarted from the store comes here in the same way, to be
// protected again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/bring/inventories.h"
#include "agent/bring/stream_bringer.h"
#include "agent/tables/client_requests.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class Assignment;
class FoundImages;
class ImageTable;
class MemoryLedger;
class OwnSlots;
class Peers;
class Tiers;

// What an image is made of, and what brings it.
struct ReachableImage {
  ImageRecord record;
  std::unique_ptr<StreamBringer> bringer;
};

class Bringer {
 public:
  Bringer(AgentCore& core, Assignment& assignment, FoundImages& found_images, ImageTable& images, Inventories& inventories,
          MemoryLedger& memory, OwnSlots& own_slots, Peers& peers, Tiers& tiers);

  // Brings the image here unless it is. kNotFound: no node has it, and it cannot be rebuilt; the message says what is lost.
  void Bring(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
             std::function<void(Status)> done);
  // The same of an image that is said to be on that node, one of so many ranks', and is owed to the store; no other is asked.
  void BringFromNode(Job& job, const std::string& node, const ImageIdentity& image, std::function<void(Status)> done);
  // Says where it is, for whoever takes it part by part, and brings nothing; errors as above.
  void Find(Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
            std::function<void(Result<ReachableImage>)> found);

 private:
  struct Order;
  // The images of a job's name that a rank of this node could restart from: within the group where it has all of the newest
  // version that it knows of, otherwise wherever they are.
  void ListVersions(const LocalVersionsRequest& request, const Question& question);
  struct Wanted {
    Generation generation;
    uint32_t rank = 0;
    BringOptions options;
    std::function<void(Result<ReachableImage>)> found = nullptr;  // set: it is not brought
    Status failure = {};                                          // why the group did not give it
  };
  // Among those within reach; what is to be brought is looked for in the group first, then wherever it may be.
  void SearchWithin(Job& job, const Wanted& wanted, Reach reach);
  void Choose(const Wanted& wanted, Reach reach, std::vector<InventoryReply> replies);
  // Whether it is the first who asks for it.
  bool IsFirst(const Generation& generation, uint32_t rank, std::function<void(Status)> done);
  template <typename Members>
  void TakeOwnImages(Order& order, const Members& members);
  void TakeOwnParts(Order& order);
  // Of several sets that the rank is in, of former layouts, the one that it is rebuilt from; any where it is from none.
  static bool IsOfUse(const Order& order, const SetIdentity& set);
  void Describe(std::shared_ptr<Order> order);
  // For slots of all of it: one after the other, since two at a time would take those that are made for the other.
  void AskForRoom(const std::shared_ptr<Order>& order);
  void AskAgain();
  Status TakeRoom(Order& order);
  void Fill(const std::shared_ptr<Order>& order);
  void GiveBackRanges(Order& order);
  void Finish(const std::shared_ptr<Order>& order, Status status);
  // All that wait for the image, or who looks for it.
  void Answer(const Wanted& wanted, const Status& status);
  Status HandOver(const Order& order);

  AgentCore& core_;
  Assignment& assignment_;
  FoundImages& found_images_;
  ImageTable& images_;
  Inventories& inventories_;
  MemoryLedger& memory_;
  OwnSlots& own_slots_;
  Peers& peers_;
  Tiers& tiers_;
  std::map<std::pair<Generation, uint32_t>, std::vector<std::function<void(Status)>>> bringing_;
  std::deque<std::shared_ptr<Order>> asking_;
};

}  // namespace kedge

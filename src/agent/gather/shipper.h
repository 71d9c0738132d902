// This node's images on their way to the store by way of other nodes, for store.layout = leaders and for staging.folder.
//
// When all images of a version have ended here, the nodes are told how many bytes they have (planner.h), and until the plan comes
// nothing of them is written. An image goes as a whole to the leader whose run its first byte lies in; that node pulls it, writes
// it and publishes it (carrier.h), and is asked how far it is until it has. Nobody waits for a plan or a leader that does not
// come: then the images are written here, as with store.layout = node. That a leader may publish one of them all the same does
// no harm: the version has the image of each rank once. While a client needs a slot that a flush would free, nothing waits, here
// or there.
//
// With store.layout = posix the leader only lends its object: each node writes its images there itself, tells the leader so when
// they are durable, and asks on until they are published. A node whose share would be less than the store is good for ships its
// images instead. Whoever cannot write there, or is not heard in time, writes objects of its own.
//
// With staging.folder a staging agent writes all images of this node (stagers.h), whatever the layout; there is no plan then.
// When this node is to leave, the staging agent brings its images into slots of its own first, and says that it holds them: from
// then on it owes them to the store, and this node may go. As long as this one is there, it asks on, and writes what gets lost.
//
// An agent that takes over from another has no plans: it writes what it finds. On the event loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/gather/planner.h"
#include "agent/gather/source_pace.h"
#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class Assignment;
class Carrier;
class Flush;
class JobBlocks;
class Peers;
class Publisher;
class Stagers;

class Shipper {
 public:
  Shipper(AgentCore& core, Assignment& assignment, Carrier& carrier, Flush& flush, JobBlocks& job_blocks, Peers& peers,
          Publisher& publisher, Stagers& stagers);

  // The version is to get to the store.
  void OnStoreDue(Version& version);
  // One of its images has ended. REQUIRES: its writers are awaited.
  void OnDue(Version& version);
  // Images of the version are durable in the share of another node's object; they are shipped.
  void OnShareFinished(Version& version, const std::vector<ImageEntry>& entries);
  // This node is to leave: a staging agent takes over what it has been given to write, and need not have written it.
  void HandOver() { is_leaving_ = true; }
  // Some times a second.
  void Tick();
  // Of a job whose images staging agents read; null: of another.
  const SourcePace* PaceOf(const JobKey& job) const;

 private:
  // A version whose writers are awaited, or were.
  struct Plan {
    int64_t since_ns = 0;  // when the first of its images ended; 0: none has
    bool is_offered = false;
    Duration patience{};
    std::vector<std::pair<uint32_t, uint64_t>> images;  // that were offered: ranks and bytes
  };
  // What one leader is to write for this node.
  struct Shipment {
    CarryRequest request;
    uint64_t mark = 0;
    int64_t heard_ns = 0;                             // when it got on last
    int failures = 0;                                 // to reach it, one after the other
    std::set<uint32_t> waiting = {};                  // ranks whose images it has not begun, as it said last
    std::set<uint32_t> given_back = {};               // that are written from here, for want of room
    std::shared_ptr<ObjectUnderWay> share = nullptr;  // in which this node writes them; null: it has, or the leader does
    uint64_t asked = 0;                               // the number of the last question
  };
  // How the application of a job gets on beside what staging agents read.
  struct Source {
    SourcePace pace;
    std::map<uint32_t, uint64_t> steps;  // that its sessions have shown
    int64_t looked_ns = 0;
  };
  using Key = std::pair<Generation, std::string>;  // version and leader

  void Offer(Version& version, Plan& plan);
  void OfferBlocks(Version& version, Plan& plan, uint64_t bytes);
  // Nothing of the version waits for a plan any more.
  void GiveUp(const Generation& generation, const char* why);
  void OnDecided(const Generation& generation, const WritePlan& decided);
  // All images of the version go to that staging agent.
  void OnStager(const Generation& generation, const Result<std::string>& node);
  void Ship(const Key& key, CarryRequest request);
  // In the leader's object, from here.
  void Borrow(const Key& key, CarryRequest request, uint64_t bytes);
  // The request is complete but for what the version says. Null: nothing is shared.
  void Begin(const Key& key, CarryRequest request, std::shared_ptr<ObjectUnderWay> share);
  // All that the plan has of this node goes to the object of one leader.
  void OnDecidedToShare(const Generation& generation, const WritePlan& decided);
  void LetGo(const Generation& generation, std::shared_ptr<ObjectUnderWay> share);
  // A share that has failed is worth nothing to the leader.
  void LookAtShares();
  Image* FindToShip(Version* version, uint32_t rank) const;
  Image* FindShipped(const Generation& generation, uint32_t rank) const;
  // A leader does not.
  void WriteHere(const Generation& generation, uint32_t rank);
  void Ask(const Key& key);
  void OnAnswer(const Key& key, const Result<CarryReply>& answer);
  void TakeBack(const Key& key, const std::string& why);
  // Images that it has not begun: a rank waits for a place that their flush would free.
  void TakeBackWaiting(const Key& key);
  void Withdraw(const Job& job, const std::string& node, CarryRequest request);
  void LookAtSteps();

  AgentCore& core_;
  Assignment& assignment_;
  Carrier& carrier_;
  Flush& flush_;
  JobBlocks& job_blocks_;
  Peers& peers_;
  Publisher& publisher_;
  Stagers& stagers_;
  Planner planner_;
  std::map<Generation, Plan> plans_;
  bool is_room_wanted_ = false;  // by a rank, at the last tick
  bool is_leaving_ = false;
  std::map<Key, Shipment> shipments_;
  uint64_t last_question_ = 0;
  std::map<JobKey, Source> sources_;
};

}  // namespace kedge

// Images of other nodes that go to the store from here, for as long as their nodes ask (shipper.h).
//
// All that this node writes of a version goes to one object: its own images, and those that others ask it to carry. It is
// published when all that the plan has for this node is written; who has promised something and does not come is waited for only
// a moment, and goes to another object. An image that cannot be carried goes back to its node, which then writes it itself.
// Nothing of that survives this agent: the nodes hold their images until they hear that these are stored.
//
// With store.layout = posix the others write their images themselves, to shares of the object that this node lends them, and say
// so when they are durable there (OnShare, CarryRequest::is_shared). Who does not get on with it, or is not heard any more, is
// left out of the object.
//
// So many are written at once as make it faster (writer_count.h); the others wait, the oldest version first. Who has one that
// waits is told that it gets on, as long as those before it do.
//
// Where a node is to leave, its images are brought into slots here first. They are this node's from then on, as any that a
// restart has brought: a successor finds them, and they go to the store with or without their node. Where there is no room for
// one, or it cannot be had, it is carried as before, and its node waits for that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/flush/cargo.h"
#include "agent/gather/carried_image.h"
#include "agent/gather/carry_queue.h"
#include "agent/gather/writer_count.h"
#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "agent/tables/workers.h"
#include "net/network.h"

namespace kedge {

class AgentCore;
class Bringer;
class Flush;
class Peers;
class Publisher;

class Carrier : public Cargo {
 public:
  Carrier(AgentCore& core, Bringer& bringer, Flush& flush, Peers& peers, Publisher& publisher);
  // Work in hand ends, which uses the network.
  void Stop();

  // So many bytes of all nodes, this one's among them, are planned to be written here.
  void Lead(const Generation& generation, uint64_t planned_bytes);
  // So many of these are that node's: those images that it has asked for, and none other.
  void Account(const Generation& generation, const std::string& node, uint64_t bytes);
  // The object that is written here of the version is to be lent to others, and to have so many bytes of this node.
  void Share(const Generation& generation, uint64_t own_bytes);
  // An image that lies here is in the store.
  void OnImageStored(const kedge::Image& image);
  // Answers who has waited, and forgets what nobody asks for any more.
  void Tick();
  // Images are under way for other nodes.
  bool IsBusy() const;
  // Of the job something was written for other nodes, or is, and they may ask what has become of it.
  bool HasLoadOf(const JobKey& job) const;
  // How many images are to be written at once, and how many are waiting.
  uint32_t writers() const { return writers_.now(); }
  size_t waiting() const { return queue_.size(); }

  bool IsAwaited(const Generation& generation) const override;
  bool HasWritten(const Generation& generation) const override;
  Written TakeWritten(const Generation& generation) override;
  void OnPublished(const Generation& generation, uint32_t rank, const Status& status, bool is_complete) override;

 private:
  // Of a carried image. kBrought: into slots here; kHeld: it lies there; kAwaited: its own node writes it to a share.
  enum class State { kPulled, kAwaited, kBrought, kHeld, kWritten, kPublishing, kStored, kFailed };
  struct Image {
    std::string node;
    CarryRequest::Item item;
    State state = State::kPulled;
    int tries = 0;
    Status why;
    std::shared_ptr<FlushObject> object;
    std::shared_ptr<CarryOrder::Progress> progress;
    Buffer record;
    bool is_not_to_be_had = false;             // here: it could not be brought
    int64_t since_ns = 0;                      // it is brought, or published
    std::shared_ptr<ObjectUnderWay> share_of;  // where its own node has written it

    bool IsOver() const { return state == State::kHeld || state == State::kStored || state == State::kFailed; }
  };
  struct Waiting {
    std::string node;
    std::vector<uint32_t> ranks;
    uint32_t held = 0;  // that its node has heard of
    net::Answer answer;
    int64_t since_ns = 0;
  };
  struct Borrower {
    bool is_syncing = false;
    uint64_t written_bytes = 0;
    int64_t asked_ns = 0;     // when it was heard last
    int64_t progress_ns = 0;  // when it had written more than before
  };
  // Of one version.
  struct Load {
    uint32_t ranks = 0;
    std::optional<uint64_t> planned_bytes;
    uint64_t accounted_bytes = 0;
    std::set<std::string> accounted;  // nodes
    int64_t changed_ns = 0;           // when somebody last accounted for something, or an image got on
    int64_t news_ns = 0;              // when somebody last accounted for something, or had written it to a share
    uint64_t changed_bytes = 0;       // written then
    std::map<uint32_t, Image> images;
    std::vector<Waiting> waiting;
    std::shared_ptr<ObjectUnderWay> shared;     // lent to others, until it is published
    bool has_shared = false;                    // there was one
    std::map<std::string, Borrower> borrowers;  // nodes that write to it
    uint64_t own_bytes = 0;                     // that this node had written there when it was looked
    int64_t own_progress_ns = 0;                // when it had last written more
    bool is_complete = false;
    bool is_due = false;  // to be published without those that are awaited
    int64_t asked_ns = 0;

    uint64_t WrittenBytes() const;
    bool IsUnderWay() const;
  };
  void OnCarry(Job& job, const net::Peer& peer, const CarryRequest& request, net::Answer answer);
  void OnShare(Job& job, const net::Peer& peer, const ShareRequest& request, net::Answer answer);
  void Pull(Job& job, const Generation& generation, Image& image);
  // As many of those that wait as are to be written at once.
  void Dispatch();
  void LookAtWriters();
  void OnPulled(const Generation& generation, uint32_t rank, const std::shared_ptr<CarryOrder::Progress>& progress,
                Result<Buffer> record);
  // As its node says: it writes it still, or has written it.
  void TakeShared(Load& load, Image& image, const CarryRequest::Item& item);
  // Those of nodes that are not to be waited for.
  void LeaveOut(Load& load, const std::string& node, const char* why);
  void LookAtBorrowers(const Generation& generation, Load& load);
  void Fail(Image& image, const Status& why);
  // Nothing is written of it any more, as far as it is carried.
  void Withdraw(Image& image);
  // It comes into slots here.
  void Hold(Job& job, const Generation& generation, Image& image);
  void OnBrought(const Generation& generation, uint32_t rank, const std::shared_ptr<CarryOrder::Progress>& progress,
                 const Status& status);
  // It lies here, and goes to the store from here or has gone there.
  bool LooksAfter(const Generation& generation, uint32_t rank) const;
  CarryReply ReplyOf(const Load& load, const Waiting& waiting) const;
  // An image in a share: its node writes it, others are waited for, or this node gets on.
  bool GetsOn(const Load& load, const Image& image) const;
  // Those all of whose images are over, or who have waited long enough.
  void AnswerWaiting(Load& load);
  Load& LoadOf(const Generation& generation);
  // At which the node's images of that job are read.
  std::shared_ptr<ByteRate> RateOf(const JobKey& job, const std::string& node);

  AgentCore& core_;
  Bringer& bringer_;
  Flush& flush_;
  Peers& peers_;
  Publisher& publisher_;
  std::map<Generation, Load> loads_;
  std::map<std::pair<JobKey, std::string>, std::weak_ptr<ByteRate>> rates_;  // while images are read
  CarryQueue<CarryOrder> queue_;
  uint32_t running_ = 0;
  WriterCount writers_;
  std::shared_ptr<std::atomic<uint64_t>> pulled_bytes_ = std::make_shared<std::atomic<uint64_t>>(0);  // of all images
  uint64_t looked_bytes_ = 0;
  int64_t looked_ns_ = 0;
  bool lacked_work_ = true;  // since it was looked
  // Each waits for other nodes: apart from those who do not. The second while a rank waits for what it has taken.
  std::unique_ptr<Workers> workers_, awaited_workers_;
};

}  // namespace kedge

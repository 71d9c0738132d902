// Messages of another node find the module that has registered for them, and nothing else of the job or of others.
#include "agent/peers/peer_service.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/peers/peers.h"
#include "agent/testing/local_agent.h"
#include "net/testing/nodes.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAskPatience = 20s;

// n1 is an agent's service, of an agent that has the job "job"; n0 asks it in the name of a job, on the test's thread.
class PeerServiceTest : public ::testing::Test {
 protected:
  PeerServiceTest() { agent_.Attach(0, 1); }
  ~PeerServiceTest() override {
    for (const auto& network : networks_) network->Close();
    service_.Close();
  }

  void Open() {
    service_.Close();
    networks_.clear();
    net::NetworkOptions options = net::testing::TestOptions("tcp");
    networks_.push_back(net::testing::OpenNetwork(options));
    options.executor = [this](std::function<void()> work) { agent_->core().loop().Post(std::move(work)); };
    networks_.push_back(net::testing::OpenNetwork(options));
    for (const char* job : {"job", "other"}) {
      const net::Secret secret = net::Secret::Generate();
      for (size_t self = 0; self < networks_.size(); ++self) {
        net::Membership members = net::testing::MakeMembership({"n0", "n1"}, networks_, self, secret);
        members.job = Peers::NetworkName(agent_.store_id(), job);
        const Status joined = networks_[self]->Join(std::move(members));
        EXPECT_TRUE(joined.ok()) << joined.ToString();
      }
    }
    service_.Open(networks_[1].get());
  }
  Generation Of(const std::string& job) { return {agent_.store_id(), job, "state", 7, 1, 1}; }
  // In the name of that job.
  Result<Buffer> Ask(const std::string& job, PeerKind kind, Buffer body) {
    auto answered = std::make_shared<std::promise<Result<Buffer>>>();
    auto answer = answered->get_future();
    networks_[0]->Call({Peers::NetworkName(agent_.store_id(), job), "n1"}, static_cast<uint16_t>(kind), std::move(body),
                       kAskPatience, [answered](Result<Buffer> reply) { answered->set_value(std::move(reply)); });
    EXPECT_TRUE(agent_.TurnUntil([&] { return answer.wait_for(0s) == std::future_status::ready; }));
    return answer.get();
  }

  testing::LocalAgent agent_{4, 1 << 20};
  PeerService service_{agent_->core()};
  std::vector<std::unique_ptr<net::Network>> networks_;
};

TEST_F(PeerServiceTest, AMessageGoesToTheModuleThatRegisteredForIt) {
  int64_t version = 0;
  service_.On(PeerKind::kTurn, DecodeTurnRequest, [](Job& job, const TurnRequest&) {
    TurnReply reply;
    reply.decided = job.name == "job";
    return reply;
  });
  service_.On(PeerKind::kPromiseNews, DecodeLocalNews,
              [&version](Job&, const LocalNews& news) { version = news.generation.version; });
  service_.On(PeerKind::kObjectTable, DecodeSetRequest,
              [](Job&, const SetRequest&) -> Result<Buffer> { return Status(Code::kNotFound, "no such set"); });
  std::string asked_by;
  service_.On(PeerKind::kPause, DecodePauseNotice,
              [&asked_by](Job&, const net::Peer& peer, const PauseNotice&, const net::Answer& answer) {
                asked_by = peer.node;
                answer(Buffer());
              });
  // Of a network that opens later on as well.
  for (int times = 0; times < 2; ++times) {
    Open();
    const auto turn = Ask("job", PeerKind::kTurn, Encode(TurnRequest{Of("job")}));
    ASSERT_TRUE(turn.ok()) << turn.status().ToString();
    EXPECT_TRUE(DecodeTurnReply(*turn).value().decided);
    const auto news = Ask("job", PeerKind::kPromiseNews, Encode(LocalNews{Of("job")}));
    ASSERT_TRUE(news.ok()) << news.status().ToString();
    EXPECT_TRUE(news->empty());
    EXPECT_EQ(std::exchange(version, 0), 7);
    EXPECT_TRUE(Ask("job", PeerKind::kPause, Encode(PauseNotice{agent_.store_id(), "job", 1})).ok());
    EXPECT_EQ(std::exchange(asked_by, ""), "n0");
    EXPECT_EQ(Ask("job", PeerKind::kObjectTable, Encode(SetRequest{{Of("job"), 1}, 0})).status().code(), Code::kNotFound);
  }
}

TEST_F(PeerServiceTest, AModuleHearsNothingThatIsNotOfTheJobInWhoseNameItComes) {
  int heard = 0;
  service_.On(PeerKind::kPromiseNews, DecodeLocalNews, [&heard](Job&, const LocalNews&) { ++heard; });
  service_.On(PeerKind::kInventory, DecodeInventoryRequest, [&heard](Job&, const InventoryRequest&) { ++heard; });
  service_.On(PeerKind::kRead, DecodeReadRequest, [&heard](Job&, const ReadRequest&) { ++heard; });
  Open();
  const auto code = [&](const std::string& job, PeerKind kind, Buffer body) {
    return Ask(job, kind, std::move(body)).status().code();
  };
  EXPECT_EQ(code("other", PeerKind::kPromiseNews, Encode(LocalNews{Of("job")})), Code::kNotFound) << "it speaks of another job";
  EXPECT_EQ(code("other", PeerKind::kPromiseNews, Encode(LocalNews{Of("other")})), Code::kNotFound) << "this agent has no such";
  EXPECT_EQ(code("other", PeerKind::kInventory, Encode(InventoryRequest{agent_.store_id(), "job", ""})), Code::kNotFound);
  ReadRequest of_object;
  of_object.of_object = true;
  of_object.set = {Of("job"), 1};
  of_object.bytes = 1;
  EXPECT_EQ(code("other", PeerKind::kRead, Encode(of_object)), Code::kNotFound);
  EXPECT_EQ(code("job", PeerKind::kPromiseNews, Buffer(3)), Code::kCorrupt);
  EXPECT_EQ(heard, 0);
  EXPECT_EQ(code("job", PeerKind::kRead, Encode(of_object)), Code::kOk);
  EXPECT_EQ(heard, 1);
}

TEST_F(PeerServiceTest, MemoryIsLentUntilItsReaderSaysSoAndCountedUntilThen) {
  service_.On(PeerKind::kPromiseNews, DecodeLocalNews, [](Job&, const LocalNews&) {});
  Open();
  ASSERT_TRUE(Ask("job", PeerKind::kPromiseNews, Encode(LocalNews{Of("job")})).ok()) << "they are connected";
  const Buffer memory(4096);
  int ended = 0;
  const auto lent = service_.Lease(*agent_->core().FindJob(agent_.store_id(), "job"), memory, 60s, [&ended] { ++ended; });
  ASSERT_TRUE(lent.ok()) << lent.status().ToString();
  EXPECT_EQ(service_.leases(), 1u);
  networks_[0]->EndLease({Peers::NetworkName(agent_.store_id(), "job"), "n1"}, *lent);
  EXPECT_TRUE(agent_.TurnUntil([&] { return ended == 1; }));
  EXPECT_EQ(service_.leases(), 0u);
}

}  // namespace
}  // namespace kedge

// Nodes as processes: killed in the middle of a read, stopped, restarted at their address, and cut off from each other.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/authentication.h"
#include "os/testing/temporary_folder.h"
#include "tests/support/child_process.h"
#include "tests/support/two_hosts.h"

namespace kedge::net {
namespace {

using namespace std::chrono_literals;
using kedge::testing::ChildProcess;
using kedge::testing::TwoHosts;

constexpr auto kPatience = 60s;

class PeerTest : public ::testing::Test {
 protected:
  struct Peer {
    std::string name;
    std::string address;
    std::unique_ptr<ChildProcess> process;
  };

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  Peer Start(const std::string& name, const std::vector<std::string>& role, const std::string& former = "") {
    std::vector<std::string> command = {KEDGE_NET_PEER, name, secret_.ToHex(), Path("members")};
    command.insert(command.end(), role.begin(), role.end());
    if (!former.empty()) command.insert(command.end(), {"--address", former});
    Peer peer{name, former, nullptr};
    peer.process = std::make_unique<ChildProcess>(command, std::map<std::string, std::string>{},
                                                  Path(name + "." + std::to_string(starts_++) + ".out"));
    EXPECT_TRUE(peer.process->WaitForOutput("address ", kPatience)) << peer.process->Output();
    peer.address = AddressIn(peer.process->Output());
    return peer;
  }
  static std::string AddressIn(const std::string& output) {
    const size_t begin = output.find("address ") + 8;
    return output.substr(begin, output.find('\n', begin) - begin);
  }
  void WriteMembers(const std::vector<std::pair<std::string, std::string>>& members) {
    {
      std::ofstream file(Path("members.new"));
      for (const auto& [name, address] : members) file << name << " " << address << "\n";
    }
    ASSERT_EQ(rename(Path("members.new").c_str(), Path("members").c_str()), 0);
  }
  // The number of the last round that the reader speaks of, and of those that failed.
  static int Count(const std::string& output, const std::string& text) {
    int count = 0;
    for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1)) ++count;
    return count;
  }
  static bool WaitForMore(ChildProcess& process, const std::string& text, std::chrono::seconds patience = kPatience) {
    const int before = Count(process.Output(), text);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end) {
      if (Count(process.Output(), text) > before) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  os::testing::TemporaryFolder folder_;
  const Secret secret_ = Secret::Generate();
  int starts_ = 0;
};

TEST_F(PeerTest, KilledInMidReadAndRestartedAtItsAddress) {
  Peer server = Start("b", {"serve"});
  Peer reader = Start("a", {"read", "b"});
  WriteMembers({{"a", reader.address}, {"b", server.address}});
  ASSERT_TRUE(WaitForMore(*reader.process, " ok")) << reader.process->Output();
  for (int round = 0; round < 3; ++round) {
    server.process->Kill();
    ASSERT_TRUE(WaitForMore(*reader.process, " failed: ")) << reader.process->Output();
    const std::string address = server.address;
    server = Start("b", {"serve"}, address);
    EXPECT_EQ(server.address, address);
    ASSERT_TRUE(WaitForMore(*reader.process, " ok")) << reader.process->Output();
  }
  const std::string output = reader.process->Output();
  EXPECT_NE(output.find("node b at 127.0.0.1:"), std::string::npos) << "the peer is not named: " << output;
  EXPECT_EQ(output.find("WRONG BYTES"), std::string::npos) << output;
}

TEST_F(PeerTest, AStoppedPeerEndsReadsInTimeAndIsFoundAgain) {
  Peer server = Start("b", {"serve"});
  Peer reader = Start("a", {"read", "b"});
  WriteMembers({{"a", reader.address}, {"b", server.address}});
  ASSERT_TRUE(WaitForMore(*reader.process, " ok")) << reader.process->Output();
  server.process->Signal(SIGSTOP);
  ASSERT_TRUE(WaitForMore(*reader.process, " failed: ", 20s)) << reader.process->Output();
  ASSERT_TRUE(WaitForMore(*reader.process, " failed: timeout", 20s)) << reader.process->Output();
  server.process->Signal(SIGCONT);
  ASSERT_TRUE(WaitForMore(*reader.process, " ok")) << reader.process->Output();
  EXPECT_EQ(reader.process->Output().find("WRONG BYTES"), std::string::npos);
}

// A reader that stops with a lease in its hands: the lease ends, others are served meanwhile, and it finds its way back.
TEST_F(PeerTest, AReaderThatStallsHarmsNobody) {
  // So little that the other reader is done within its lease on a machine under load.
  Peer server = Start("b", {"serve", "--mib", "4"});
  Peer stalled = Start("a", {"read", "b"});
  Peer other = Start("c", {"read", "b"});
  WriteMembers({{"a", stalled.address}, {"b", server.address}, {"c", other.address}});
  ASSERT_TRUE(WaitForMore(*stalled.process, " ok")) << stalled.process->Output();
  ASSERT_TRUE(WaitForMore(*other.process, " ok")) << other.process->Output();
  stalled.process->Signal(SIGSTOP);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(WaitForMore(*other.process, " ok")) << other.process->Output();
  std::this_thread::sleep_for(5s);  // the lease of two seconds, and the owner's two more, are over
  stalled.process->Signal(SIGCONT);
  ASSERT_TRUE(WaitForMore(*stalled.process, " ok")) << stalled.process->Output();
  ASSERT_TRUE(WaitForMore(*other.process, " ok")) << other.process->Output();
  for (const Peer* peer : {&stalled, &other}) {
    EXPECT_EQ(peer->process->Output().find("WRONG BYTES"), std::string::npos) << peer->process->Output();
  }
  EXPECT_EQ(other.process->Output().find("failed"), std::string::npos) << other.process->Output();
}

// One that has a lease and does not read before it is over: what lies there now is somebody else's.
TEST_F(PeerTest, AReaderThatComesTooLateGetsNothing) {
  Peer server = Start("b", {"serve", "--reuse", "1", "--mib", "4"});
  Peer late = Start("a", {"read", "b", "--stall", "6"});  // the lease of two seconds, and the owner's two more, are over
  WriteMembers({{"a", late.address}, {"b", server.address}});
  ASSERT_TRUE(late.process->WaitForOutput("leased", kPatience)) << late.process->Output();
  ASSERT_TRUE(server.process->WaitForOutput("lease ended, 1 have expired", 20s)) << server.process->Output();
  ASSERT_TRUE(late.process->WaitForOutput("round 0 ", 30s)) << late.process->Output();
  EXPECT_NE(late.process->Output().find("round 0 failed"), std::string::npos) << late.process->Output();
  EXPECT_EQ(late.process->Output().find("WRONG BYTES"), std::string::npos) << late.process->Output();
}

// Nor does a lease stay behind with a reader that has died.
TEST_F(PeerTest, ADeadReadersLeaseEnds) {
  Peer server = Start("b", {"serve", "--mib", "4"});
  Peer reader = Start("a", {"read", "b", "--stall", "60"});
  WriteMembers({{"a", reader.address}, {"b", server.address}});
  ASSERT_TRUE(reader.process->WaitForOutput("leased", kPatience)) << reader.process->Output();
  reader.process->Kill();
  EXPECT_TRUE(server.process->WaitForOutput("lease ended", 20s)) << server.process->Output();
}

// Two nodes with a network each, and a link between them: "a" reads from "b".
class LinkTest : public PeerTest {
 protected:
  void StartBoth(const std::string& reader, const std::string& server) {
    const std::string peer = std::string(KEDGE_NET_PEER) + " ", common = " " + secret_.ToHex() + " " + Path("members") + " ";
    hosts_ = std::make_unique<TwoHosts>(std::vector<std::string>{peer + "a" + common + "read b --listen 10.77.0.1 " + reader},
                                        peer + "b" + common + "serve --listen 10.77.0.2 " + server);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (const std::string side : {"left", "right"}) {
      while (hosts_->Output(side).find('\n') == std::string::npos && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(20ms);
    }
    const std::string a = AddressIn(Output());
    EXPECT_NE(NodeAddress::FromText(a).value().ToDisplay().find("10.77.0.1:"), std::string::npos) << a;
    WriteMembers({{"a", a}, {"b", AddressIn(hosts_->Output("right"))}});
    ASSERT_TRUE(WaitForReader(" ok", kPatience)) << Output();
  }
  // The reader's.
  std::string Output() const { return hosts_->Output("left"); }
  // For one more.
  bool WaitForReader(const std::string& text, std::chrono::seconds patience) const {
    const int before = Count(Output(), text);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end && Count(Output(), text) == before) std::this_thread::sleep_for(20ms);
    return Count(Output(), text) > before;
  }

  std::unique_ptr<TwoHosts> hosts_;
};

TEST_F(LinkTest, CutForAWhileAndForEver) {
  StartBoth("--silence 2", "--silence 2");
  // Five seconds: what was under way fails and says whom it waited for; then all goes on.
  hosts_->Cut();
  ASSERT_TRUE(WaitForReader(" failed: ", 20s)) << Output();
  std::this_thread::sleep_for(5s);
  hosts_->Mend();
  ASSERT_TRUE(WaitForReader(" ok", kPatience)) << Output();

  // For ever: every round ends by its time.
  hosts_->Cut();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(WaitForReader(" failed: ", 20s)) << Output();
  EXPECT_NE(Output().find("node b at 10.77.0.2:"), std::string::npos) << Output();
  EXPECT_EQ(Output().find("WRONG BYTES"), std::string::npos);
}

// Six reads go out together and take six seconds on that link. Each may wait for three in which nothing comes.
TEST_F(LinkTest, ASlowOneIsNotTakenForADeadOne) {
  StartBoth("", "--mib 6 --lease 60");
  hosts_->HoldLinkTo("8mbit");
  ASSERT_TRUE(WaitForReader("round ", kPatience)) << Output();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(WaitForReader(" ok", kPatience)) << Output();
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 4s) << "the link was not slow, and the test shows nothing";
  EXPECT_EQ(Output().find("failed"), std::string::npos) << Output();
  EXPECT_EQ(Output().find("WRONG BYTES"), std::string::npos);
}

}  // namespace
}  // namespace kedge::net

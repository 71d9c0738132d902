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

namespace kedge::net {
namespace {

using namespace std::chrono_literals;
using kedge::testing::ChildProcess;

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
  Peer server = Start("b", {"serve"});
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
  // As many leases ended as were given: none stays behind with a reader that died.
  stalled.process->Kill();
  other.process->Kill();
  std::this_thread::sleep_for(5s);
  EXPECT_GE(Count(server.process->Output(), "lease ended"), 3);
}

TEST_F(PeerTest, ALinkThatIsCutForAWhileAndForEver) {
  const std::string peer = std::string(KEDGE_NET_PEER) + " ", common = " " + secret_.ToHex() + " " + Path("members") + " ";
  ChildProcess hosts({KEDGE_TWO_HOSTS, folder_.path(), peer + "a" + common + "read b --listen 10.77.0.1 --silence 2",
                      peer + "b" + common + "serve --listen 10.77.0.2 --silence 2"},
                     {}, Path("hosts.out"));
  ASSERT_TRUE(hosts.WaitForOutput("hosts are up", kPatience)) << hosts.Output();
  const auto read = [this](const std::string& name) {
    std::ifstream file(Path(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto wait_for_more = [&](const std::string& text, std::chrono::seconds patience) {
    const int before = Count(read("left.out"), text);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end && Count(read("left.out"), text) == before) std::this_thread::sleep_for(20ms);
    return Count(read("left.out"), text) > before;
  };
  const auto touch = [this](const std::string& name) { std::ofstream(Path(name)) << "x"; };
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while ((read("left.out").find('\n') == std::string::npos || read("right.out").find('\n') == std::string::npos) &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(20ms);
  const std::string a = AddressIn(read("left.out"));
  EXPECT_NE(NodeAddress::FromText(a).value().ToDisplay().find("10.77.0.1:"), std::string::npos) << a;
  WriteMembers({{"a", a}, {"b", AddressIn(read("right.out"))}});
  ASSERT_TRUE(wait_for_more(" ok", kPatience)) << read("left.out");

  // Five seconds: what was under way fails and says whom it waited for; then all goes on.
  touch("cut");
  ASSERT_TRUE(hosts.WaitForOutput("link is cut", kPatience));
  ASSERT_TRUE(wait_for_more(" failed: ", 20s)) << read("left.out");
  std::this_thread::sleep_for(5s);
  touch("mend");
  ASSERT_TRUE(wait_for_more(" ok", kPatience)) << read("left.out");

  // For ever: every round ends by its time.
  touch("cut");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(wait_for_more(" failed: ", 20s)) << read("left.out");
  EXPECT_NE(read("left.out").find("node b at 10.77.0.2:"), std::string::npos) << read("left.out");
  EXPECT_EQ(read("left.out").find("WRONG BYTES"), std::string::npos);
  touch("end");
  EXPECT_TRUE(hosts.Wait(kPatience).has_value());
}

}  // namespace
}  // namespace kedge::net

// Which ports are closed: of a listener, of one that has gone, of what is no address.
#include "os/sockets/tcp_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "os/files/unique_fd.h"

namespace kedge::os {
namespace {

using ::testing::ElementsAre;

// A socket that is bound to a port of this machine, and the port's address.
UniqueFd Bound(bool listens, std::string* address) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), size), 0);
  EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  EXPECT_TRUE(!listens || listen(socket.get(), 4) == 0);
  address->assign(reinterpret_cast<const char*>(&name), sizeof(name));
  return socket;
}

TEST(TcpPortsTest, MachinesTellWhetherSomebodyListens) {
  std::vector<std::string> addresses(4);
  const UniqueFd listener = Bound(true, &addresses[0]);
  const UniqueFd silent = Bound(false, &addresses[1]);
  addresses[2] = "no address";
  const UniqueFd also_silent = Bound(false, &addresses[3]);
  std::vector<size_t> open, closed;
  ProbePorts(addresses, std::chrono::seconds(10),
             [&](size_t index, bool listens) { (listens ? open : closed).push_back(index); });
  EXPECT_THAT(closed, ElementsAre(1, 3));
  EXPECT_THAT(open, ElementsAre(0));
}

TEST(TcpPortsTest, LastingOnesAreThoseThatTheKernelGivesToNobody) {
  const auto usual = LastingPorts("32768\t60999\n");
  ASSERT_TRUE(usual.has_value());
  EXPECT_EQ(usual->first, 20000);
  EXPECT_EQ(usual->last, 32767);
  EXPECT_FALSE(LastingPorts("1024\t65535\n").has_value());
  EXPECT_FALSE(LastingPorts("20999 65535").has_value());
  EXPECT_FALSE(LastingPorts("70000 80000").has_value());
  EXPECT_FALSE(LastingPorts("").has_value());
}

TEST(TcpPortsTest, AnAddressGetsAnotherPort) {
  std::string address;
  const UniqueFd socket = Bound(false, &address);
  const auto other = WithPort(address, 4711);
  ASSERT_TRUE(other.has_value());
  sockaddr_in name{};
  std::memcpy(&name, other->data(), sizeof(name));
  EXPECT_EQ(ntohs(name.sin_port), 4711);
  EXPECT_EQ(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_FALSE(WithPort("no address", 4711).has_value());
}

}  // namespace
}  // namespace kedge::os

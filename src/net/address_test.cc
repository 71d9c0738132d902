#include "net/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace kedge::net {
namespace {

NodeAddress Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return {"tcp;ofi_rxm", std::string(reinterpret_cast<const char*>(&address), sizeof(address))};
}

TEST(Address, SurvivesItsText) {
  const NodeAddress address = Loopback(4711);
  EXPECT_EQ(NodeAddress::FromText(address.ToText()), address);
  EXPECT_EQ(address.ToDisplay(), "127.0.0.1:4711 (tcp;ofi_rxm)");
}

TEST(Address, OtherFormsAreShownAsTheyAre) {
  const NodeAddress address{"shm", "fi_shm://12"};
  EXPECT_EQ(address.ToDisplay(), "shm/66695f73686d3a2f2f3132");
  EXPECT_EQ(NodeAddress().ToDisplay(), "no address");
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "tcp", "tcp/", "/00", "tcp/0", "tcp/0g", "tcp/0A", "t cp/00", "../../x/00"}) {
    EXPECT_FALSE(NodeAddress::FromText(text).has_value()) << text;
  }
  EXPECT_TRUE(NodeAddress::FromText("tcp/" + std::string(2 * kAddressBytesMax, '0')).has_value());
  EXPECT_FALSE(NodeAddress::FromText("tcp/" + std::string(2 * kAddressBytesMax + 2, '0')).has_value());
}

}  // namespace
}  // namespace kedge::net

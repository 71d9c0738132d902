// Where a node's endpoint is reached: the provider and its own form of an address, opaque to everyone else.
//
// As text: "PROVIDER/HEX", for configuration, records and messages between client and agent.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kedge::net {

inline constexpr size_t kAddressBytesMax = 256;

struct NodeAddress {
  std::string provider;  // libfabric's name, for example "tcp;ofi_rxm"
  std::string bytes;     // as fi_getname gives it

  bool empty() const { return bytes.empty(); }
  std::string ToText() const;
  // For people: "192.0.2.7:4711" where the provider can say, else ToText.
  std::string ToDisplay() const;
  // Nothing when it is not such a text, or too long.
  static std::optional<NodeAddress> FromText(std::string_view text);

  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

}  // namespace kedge::net

// Where a node's endpoint is reached: the provider and its own form of an address, opaque to everyone else.
//
// As text: "PROVIDER/HEX", for configuration, records and messages between client and agent.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/duration.h"

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

// Calls `answered` with the index of each address whose machine says whether an endpoint may be there, or certainly none is;
// where it says nothing, or the provider is none whose endpoints listen at TCP ports, nothing is said. Waits for answers at most
// `timeout`.
void Probe(std::span<const NodeAddress> addresses, Duration timeout,
           const std::function<void(size_t index, bool listens)>& answered);

}  // namespace kedge::net

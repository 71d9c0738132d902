#include "net/address.h"

#include <fmt/format.h>

#include <vector>

#include "os/sockets/socket_address.h"
#include "os/sockets/tcp_ports.h"

namespace kedge::net {
namespace {

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

bool IsProviderName(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char letter : name) {
    const bool known = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_' || letter == ';' ||
                       letter == '-' || letter == '+';
    if (!known) return false;
  }
  return true;
}

}  // namespace

std::string NodeAddress::ToText() const {
  if (empty()) return "";
  std::string text = provider + "/";
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string NodeAddress::ToDisplay() const {
  if (empty()) return "no address";
  const std::string socket_address = os::SocketAddressText(bytes);
  return socket_address.empty() ? ToText() : fmt::format("{} ({})", socket_address, provider);
}

std::optional<NodeAddress> NodeAddress::FromText(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view provider = text.substr(0, slash);
  const std::string_view hex = text.substr(slash + 1);
  if (!IsProviderName(provider) || hex.empty() || hex.size() % 2 != 0 || hex.size() / 2 > kAddressBytesMax) return std::nullopt;
  NodeAddress address;
  address.provider = provider;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexDigit(hex[i]);
    const int low = HexDigit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    address.bytes += static_cast<char>(high * 16 + low);
  }
  return address;
}

void Probe(std::span<const NodeAddress> addresses, Duration timeout,
           const std::function<void(size_t index, bool listens)>& answered) {
  std::vector<std::string> ports;
  for (const NodeAddress& address : addresses) ports.push_back(address.provider.starts_with("tcp") ? address.bytes : "");
  os::ProbePorts(ports, timeout, answered);
}

}  // namespace kedge::net

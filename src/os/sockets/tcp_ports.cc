#include "os/sockets/tcp_ports.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "os/files/files.h"
#include "os/files/unique_fd.h"

namespace kedge::os {
namespace {

constexpr size_t kAtOnce = 256;
constexpr uint32_t kFirstLastingPort = 20000;
constexpr uint32_t kLastingPortsMin = 1000;

struct Try {
  size_t index = 0;
  UniqueFd socket;
};

// Whether the connection was refused at once; `*socket` is open while it is under way.
bool BeginTo(const std::string& address, UniqueFd* socket) {
  sockaddr_storage name{};
  std::memcpy(&name, address.data(), address.size());
  *socket = UniqueFd(::socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket->valid()) return false;
  if (connect(socket->get(), reinterpret_cast<const sockaddr*>(&name), static_cast<socklen_t>(address.size())) == 0) {
    *socket = UniqueFd();
    return false;
  }
  const int error = errno;
  if (error != EINPROGRESS) *socket = UniqueFd();
  return error == ECONNREFUSED;
}

bool IsInternetAddress(const std::string& address) {
  if (address.size() != sizeof(sockaddr_in) && address.size() != sizeof(sockaddr_in6)) return false;
  sa_family_t family = 0;
  static_assert(offsetof(sockaddr_in, sin_family) == 0 && offsetof(sockaddr_in6, sin6_family) == 0);
  std::memcpy(&family, address.data(), sizeof(family));
  return family == (address.size() == sizeof(sockaddr_in) ? AF_INET : AF_INET6);
}

}  // namespace

std::optional<PortRange> LastingPorts(std::string_view local_port_range) {
  uint32_t first_local = 0;
  const char* const end = local_port_range.data() + local_port_range.size();
  if (std::from_chars(local_port_range.data(), end, first_local).ec != std::errc()) return std::nullopt;
  if (first_local > UINT16_MAX || first_local < kFirstLastingPort + kLastingPortsMin) return std::nullopt;
  return PortRange{static_cast<uint16_t>(kFirstLastingPort), static_cast<uint16_t>(first_local - 1)};
}

std::optional<PortRange> LastingPorts() {
  const auto text = ReadFile(SystemFileSystem(), "/proc/sys/net/ipv4/ip_local_port_range", 256);
  return text.ok() ? LastingPorts(*text) : std::nullopt;
}

std::optional<std::string> WithPort(std::string address, uint16_t port) {
  if (!IsInternetAddress(address)) return std::nullopt;
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  const uint16_t in_network_order = htons(port);
  std::memcpy(address.data() + offsetof(sockaddr_in, sin_port), &in_network_order, sizeof(in_network_order));
  return address;
}

void ProbePorts(std::span<const std::string> addresses, Duration timeout,
                const std::function<void(size_t index, bool listens)>& answered) {
  std::vector<Try> tries;
  for (size_t i = 0; i < addresses.size() && tries.size() < kAtOnce; ++i) {
    Try begun{i, UniqueFd()};
    if (!IsInternetAddress(addresses[i])) continue;
    if (BeginTo(addresses[i], &begun.socket)) answered(i, false);
    if (begun.socket.valid()) tries.push_back(std::move(begun));
  }
  const int64_t end_ns = SystemClock().NowNs() + timeout.count();
  while (!tries.empty()) {
    const int64_t left_ns = end_ns - SystemClock().NowNs();
    if (left_ns <= 0) return;
    std::vector<pollfd> polled;
    for (const Try& begun : tries) polled.push_back({begun.socket.get(), POLLOUT, 0});
    const int ready = poll(polled.data(), polled.size(), static_cast<int>(left_ns / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) continue;
    for (size_t i = 0; i < tries.size(); ++i) {
      if (polled[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof(error);
      const bool known = getsockopt(tries[i].socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0;
      if (known && (error == 0 || error == ECONNREFUSED)) answered(tries[i].index, error == 0);
      tries[i].socket = UniqueFd();
    }
    std::erase_if(tries, [](const Try& begun) { return !begun.socket.valid(); });
  }
}

}  // namespace kedge::os

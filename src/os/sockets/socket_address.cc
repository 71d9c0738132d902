#include "os/sockets/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cstring>

namespace kedge::os {

std::string SocketAddressText(const std::string& bytes) {
  char text[INET6_ADDRSTRLEN];
  if (bytes.size() == sizeof(sockaddr_in)) {
    sockaddr_in address;
    std::memcpy(&address, bytes.data(), sizeof(address));
    if (address.sin_family != AF_INET || inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text)) == nullptr) return "";
    return fmt::format("{}:{}", text, ntohs(address.sin_port));
  }
  if (bytes.size() == sizeof(sockaddr_in6)) {
    sockaddr_in6 address;
    std::memcpy(&address, bytes.data(), sizeof(address));
    if (address.sin6_family != AF_INET6 || inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text)) == nullptr) return "";
    return fmt::format("[{}]:{}", text, ntohs(address.sin6_port));
  }
  return "";
}

}  // namespace kedge::os

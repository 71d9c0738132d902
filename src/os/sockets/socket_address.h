// Internet addresses in the system's own form, shown to people.
#pragma once

#include <string>

namespace kedge::os {

// "192.0.2.7:4711" or "[2001:db8::7]:4711" when `bytes` are a sockaddr_in or sockaddr_in6, else empty.
std::string SocketAddressText(const std::string& bytes);

}  // namespace kedge::os

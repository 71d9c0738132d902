// See node_faults.h. Of a node that is cut off nothing is refused: what it sends waits, and what others send it waits with them,
// as on a link that carries nothing.
#include "tests/histories/node_faults.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace kedge::histories {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Who waits for a socket that is ready, and gets nothing from it, asks again at once.
constexpr milliseconds kPause{2};
constexpr milliseconds kLookPause{5};

const std::string& RunFolder() {
  static const std::string folder = [] {
    std::ifstream file("/proc/self/cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::string key = "node.run_folder=";
    const size_t at = line.find(key);
    if (at == std::string::npos) return std::string();
    const size_t begin = at + key.size();
    return line.substr(begin, line.find_first_of(std::string("\0\n", 2), begin) - begin);
  }();
  return folder;
}

bool IsCutOff() {
  static std::atomic<int64_t> looked{0};
  static std::atomic<bool> is_cut{false};
  const int64_t now = steady_clock::now().time_since_epoch() / milliseconds(1);
  if (now - looked >= kLookPause.count()) {
    looked = now;
    is_cut = access(CutFile(RunFolder()).c_str(), F_OK) == 0;
  }
  return is_cut;
}

bool IsOfStore(const sockaddr* address) {
  static const int store_port = [] {
    const char* text = std::getenv(kStorePortVariable);
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return address->sa_family == AF_INET && ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port) == store_port;
}

bool LeadsToOtherNodes(int socket) {
  int domain = AF_UNIX;
  socklen_t bytes = sizeof domain;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || (domain != AF_INET && domain != AF_INET6)) return false;
  sockaddr_storage storage{};
  auto* const peer = reinterpret_cast<sockaddr*>(&storage);
  bytes = sizeof storage;
  return getpeername(socket, peer, &bytes) != 0 || !IsOfStore(peer);
}

// Whether nothing goes through the socket; then errno says that it would have to wait.
bool IsSilent(int socket) {
  const int before = errno;
  const bool is_silent = IsCutOff() && LeadsToOtherNodes(socket);
  if (is_silent) std::this_thread::sleep_for(kPause);
  errno = is_silent ? EAGAIN : before;
  return is_silent;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace kedge::histories

using kedge::histories::IsOfStore;
using kedge::histories::IsSilent;
using kedge::histories::Next;

int64_t RealWallTimeNs() asm("__real__ZN5kedge10WallTimeNsEv");
int64_t SteppedWallTimeNs() asm("__wrap__ZN5kedge10WallTimeNsEv");
int64_t SteppedWallTimeNs() {
  int64_t seconds = 0;
  std::ifstream(kedge::histories::ClockStepFile(kedge::histories::RunFolder())) >> seconds;
  return RealWallTimeNs() + seconds * 1'000'000'000;
}

// For the libraries, too.
#pragma GCC visibility push(default)
extern "C" {

ssize_t send(int socket, const void* bytes, size_t count, int flags) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, int)>("send");
  return IsSilent(socket) ? -1 : next(socket, bytes, count, flags);
}
ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const next = Next<ssize_t(int, const msghdr*, int)>("sendmsg");
  return IsSilent(socket) ? -1 : next(socket, message, flags);
}
ssize_t recv(int socket, void* bytes, size_t count, int flags) {
  static auto* const next = Next<ssize_t(int, void*, size_t, int)>("recv");
  return IsSilent(socket) ? -1 : next(socket, bytes, count, flags);
}
ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static auto* const next = Next<ssize_t(int, msghdr*, int)>("recvmsg");
  return IsSilent(socket) ? -1 : next(socket, message, flags);
}
int accept(int socket, sockaddr* address, socklen_t* bytes) {
  static auto* const next = Next<int(int, sockaddr*, socklen_t*)>("accept");
  return IsSilent(socket) ? -1 : next(socket, address, bytes);
}
int accept4(int socket, sockaddr* address, socklen_t* bytes, int flags) {
  static auto* const next = Next<int(int, sockaddr*, socklen_t*, int)>("accept4");
  return IsSilent(socket) ? -1 : next(socket, address, bytes, flags);
}
int connect(int socket, const sockaddr* address, socklen_t bytes) {
  static auto* const next = Next<int(int, const sockaddr*, socklen_t)>("connect");
  if (IsOfStore(address) || !IsSilent(socket)) return next(socket, address, bytes);
  errno = EHOSTUNREACH;
  return -1;
}

}  // extern "C"
#pragma GCC visibility pop

#include "store/s3/testing/s3_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/status.h"
#include "os/files/files.h"
#include "store/s3/bucket.h"

namespace kedge::s3::testing {

namespace {

constexpr std::chrono::seconds kStartPatience{120};
// A port that was free may be another process's by the time that the server wants it.
constexpr int kStartsMax = 5;

bool Listens(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

// In a process group of its own, and killed with this thread's process.
pid_t StartProcess(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  KEDGE_CHECK(process >= 0);
  if (process > 0) return process;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(fd, 1);
  dup2(fd, 2);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = LoopbackAddress(0);
  socklen_t bytes = sizeof(address);
  KEDGE_CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0);
  KEDGE_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  close(fd);
  return ntohs(address.sin_port);
}

namespace {

std::string FindProgram(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string folders = os::ParentPath(KEDGE_PYTHON) + ':' + (path == nullptr ? "" : path);
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    const std::string file = folders.substr(at, end - at) + '/' + name;
    if (access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

}  // namespace

bool HasVersitygw() {
  return !FindProgram("versitygw").empty();
}

bool HasRadosgw() {
  return std::ranges::none_of(std::array{"radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph"},
                              [](const char* program) { return FindProgram(program).empty(); });
}

Environment TestEnvironment() {
  return [](const char* variable) -> std::optional<std::string> {
    const std::string name = variable;
    if (name == "AWS_ACCESS_KEY_ID") return kAccessKey;
    if (name == "AWS_SECRET_ACCESS_KEY") return kSecretKey;
    return std::nullopt;
  };
}

std::unique_ptr<S3Server> S3Server::StartMoto() {
  return std::unique_ptr<S3Server>(new S3Server([](uint16_t port, const std::string& /*folder*/) -> std::vector<std::string> {
    return {KEDGE_PYTHON, KEDGE_MOTO_SERVER, std::to_string(port)};
  }));
}

std::unique_ptr<S3Server> S3Server::StartVersitygw() {
  const std::string program = FindProgram("versitygw");
  if (program.empty()) return nullptr;
  return std::unique_ptr<S3Server>(new S3Server([program](uint16_t port, const std::string& folder) -> std::vector<std::string> {
    return {program,   "--access", kAccessKey, "--secret", kSecretKey, "--port", "127.0.0.1:" + std::to_string(port),
            "--quiet", "posix",    folder};
  }));
}

std::unique_ptr<S3Server> S3Server::StartRadosgw() {
  if (!HasRadosgw()) return nullptr;
  return std::unique_ptr<S3Server>(new S3Server([](uint16_t port, const std::string& folder) -> std::vector<std::string> {
    return {KEDGE_PYTHON, KEDGE_RADOSGW_SERVER, "--access", kAccessKey, "--secret", kSecretKey, std::to_string(port), folder};
  }));
}

S3Server::S3Server(Command command) : command_(std::move(command)) {
  KEDGE_CHECK(mkdir((folder_ / "buckets").c_str(), 0700) == 0);
  for (int starts = 1; !Start() || !MakeBucket(); ++starts) {
    KEDGE_CHECK(starts < kStartsMax);
    Kill();
  }
}

bool S3Server::Start() {
  port_ = FreePort();
  process_ = StartProcess(command_(port_, folder_ / "buckets"), folder_ / "log");
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  while (!Listens(port_) && std::chrono::steady_clock::now() < end) {
    const bool has_ended = waitpid(process_, nullptr, WNOHANG) == process_;
    if (has_ended) {
      const auto log = os::ReadFile(os::SystemFileSystem(), folder_ / "log", 1 << 20);
      std::fprintf(stderr, "the S3 server has ended:\n%s\n", log.ok() ? log->c_str() : "");
      process_ = -1;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

bool S3Server::MakeBucket() const {
  Bucket bucket(At(""), TestEnvironment(), {});
  const Reply made = bucket.Do({.method = "PUT", .is_of_bucket = true});
  if (!made.status.ok()) std::fprintf(stderr, "%s\n", made.status.ToString().c_str());
  return made.status.ok();
}

S3Server::~S3Server() {
  Kill();
}

void S3Server::Kill() {
  if (process_ < 0) return;
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void S3Server::StartAgain() {
  KEDGE_CHECK(process_ < 0);
  for (int starts = 1; !Start(); ++starts) KEDGE_CHECK(starts < kStartsMax);
}

void S3Server::Signal(int signal) {
  if (process_ >= 0) kill(-process_, signal);
}

std::string S3Server::Endpoint() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

Location S3Server::At(const std::string& prefix, const std::string& options) const {
  const std::string text =
      std::string("s3://") + kBucket + (prefix.empty() ? "" : '/' + prefix) + "?endpoint=" + Endpoint() + options;
  return ParseLocation(text, TestEnvironment()).value();
}

}  // namespace kedge::s3::testing

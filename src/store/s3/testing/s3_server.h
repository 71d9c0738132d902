// Real S3 servers for tests: started on a free port of loopback, gone when the test program ends, however it ends.
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "os/testing/temporary_folder.h"
#include "store/s3/s3_location.h"

namespace kedge::s3::testing {

inline constexpr char kAccessKey[] = "kedge-test";
inline constexpr char kSecretKey[] = "kedge-test-secret";
inline constexpr char kBucket[] = "kedge-test";

// The keys of the servers, and nothing else of this process's environment.
Environment TestEnvironment();

class S3Server {
 public:
  // moto: keeps all in memory. Aborts when it does not start.
  static std::unique_ptr<S3Server> StartMoto();
  // versitygw over a folder, where the machine has it (null: it has not).
  static std::unique_ptr<S3Server> StartVersitygw();
  // radosgw over a Ceph cluster in memory, where the machine has both (null: it has not).
  static std::unique_ptr<S3Server> StartRadosgw();
  ~S3Server();

  // Both have the bucket kBucket.
  std::string Endpoint() const;
  uint16_t port() const { return port_; }
  // Where versitygw keeps the bucket's objects: each is a file, named by its key.
  std::string BucketFolder() const { return folder_ / "buckets/" + kBucket; }
  // With SIGKILL.
  void Kill();
  // After Kill, at another port: versitygw has what it had, moto nothing.
  void StartAgain();
  // SIGSTOP, SIGCONT.
  void Signal(int signal);
  // "s3://kedge-test/PREFIX?endpoint=..."; `options`: further ones, "&part=5MiB".
  Location At(const std::string& prefix, const std::string& options = {}) const;

 private:
  // The command for a port, and a folder that is the server's own.
  using Command = std::function<std::vector<std::string>(uint16_t port, const std::string& folder)>;

  explicit S3Server(Command command);
  // False: its process has ended, and said why.
  bool Start();
  bool MakeBucket() const;

  const Command command_;
  os::testing::TemporaryFolder folder_;
  uint16_t port_ = 0;
  pid_t process_ = -1;
};

sockaddr_in LoopbackAddress(uint16_t port);
// A port of loopback at which nobody listens now.
uint16_t FreePort();
// Whether the machine has them: beside the tests' Python, or on PATH.
bool HasVersitygw();
bool HasRadosgw();

}  // namespace kedge::s3::testing

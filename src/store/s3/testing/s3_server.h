// Real S3 servers for tests: started on a free port of loopback, gone when the test program ends, however it ends.
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "os/testing/temporary_folder.h"
#include "store/s3/location.h"

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
  ~S3Server();

  // Both have the bucket kBucket.
  std::string Endpoint() const;
  uint16_t port() const { return port_; }
  // "s3://kedge-test/PREFIX?endpoint=..."; `options`: further ones, "&part=5MiB".
  Location At(const std::string& prefix, const std::string& options = {}) const;

 private:
  S3Server(std::vector<std::string> command, uint16_t port);
  void AwaitAnswer();

  os::testing::TemporaryFolder folder_;
  uint16_t port_;
  pid_t process_ = -1;
};

sockaddr_in LoopbackAddress(uint16_t port);
// A port of loopback at which nobody listens now.
uint16_t FreePort();
// "/path/of/versitygw": beside the tests' Python, or on PATH; empty: there is none.
std::string FindVersitygw();

}  // namespace kedge::s3::testing

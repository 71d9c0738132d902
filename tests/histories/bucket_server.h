// The store of a history that has it in a bucket: a server of this world alone (versitygw), with a proxy in front, through which
// all requests go. Where the proxy is does not change when the server is started again.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "store/s3/testing/fault_proxy.h"
#include "store/s3/testing/s3_server.h"
#include "store/store.h"

namespace kedge::histories {

class BucketServer {
 public:
  // Whether this machine has the program.
  static bool IsHere() { return s3::testing::HasVersitygw(); }
  // Throws where it has not.
  BucketServer();

  // What store.path is.
  std::string StorePath() const;
  // For processes that use it: the keys, and its port (kStorePortVariable).
  std::map<std::string, std::string> Environment() const;
  std::unique_ptr<Store> Open() const;
  // A file for each object, named by its key.
  std::string Folder() const { return server_->BucketFolder(); }

  // "away", "full", "broken", "read-only", "still" or "cut" (history.h), one at a time; false: not now, or no such fault.
  bool Break(const std::string& how);
  void Mend();

 private:
  std::unique_ptr<s3::testing::FaultProxy> proxy_;  // ends after the server: until then requests may wait for answers
  std::unique_ptr<s3::testing::S3Server> server_;
  std::string broken_;  // how; empty: it is not
};

}  // namespace kedge::histories

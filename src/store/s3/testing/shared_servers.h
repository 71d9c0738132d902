// One server of each kind for a whole test program: they take seconds to start. Null where the machine does not have it.
#pragma once

#include <memory>

#include "store/s3/testing/s3_server.h"

namespace kedge::s3::testing {

inline S3Server& Moto() {
  static const std::unique_ptr<S3Server> server = S3Server::StartMoto();
  return *server;
}
inline S3Server* Versitygw() {
  static const std::unique_ptr<S3Server> server = S3Server::StartVersitygw();
  return server.get();
}
inline S3Server* Radosgw() {
  static const std::unique_ptr<S3Server> server = S3Server::StartRadosgw();
  return server.get();
}

}  // namespace kedge::s3::testing

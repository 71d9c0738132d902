// See bucket_server.h.
#include "tests/histories/bucket_server.h"

#include <signal.h>

#include <stdexcept>

#include "store/s3/s3_store.h"
#include "tests/histories/node_faults.h"

namespace kedge::histories {
namespace {

using s3::testing::Fault;

constexpr char kPrefix[] = "histories";
// Of so many requests one is cut before its effect, and another one after.
constexpr size_t kCutEvery = 7;

bool IsRemoval(const std::string& request) {
  return request.starts_with("DELETE ") || (request.starts_with("POST ") && request.find("?delete") != std::string::npos);
}
bool Writes(const std::string& request) {
  return request.starts_with("PUT ") || request.starts_with("POST ") || request.starts_with("DELETE ");
}

// What becomes of each request; nothing: no such fault.
s3::testing::FaultProxy::Choose FaultsNamed(const std::string& how) {
  if (how == "full") {
    return [](size_t, const std::string& request) {
      return Writes(request) && !IsRemoval(request) ? Fault::kFull507 : Fault::kNone;
    };
  }
  if (how == "read-only") {
    return [](size_t, const std::string& request) { return Writes(request) ? Fault::kDenied403 : Fault::kNone; };
  }
  if (how == "broken") return [](size_t, const std::string&) { return Fault::kError500; };
  if (how == "cut") {
    return [](size_t number, const std::string&) {
      const size_t at = number % kCutEvery;
      return at == 2 ? Fault::kCutAfter : at == 5 ? Fault::kCutBefore : Fault::kNone;
    };
  }
  return {};
}

}  // namespace

BucketServer::BucketServer() : server_(s3::testing::S3Server::StartVersitygw()) {
  if (server_ == nullptr) throw std::runtime_error("no versitygw on this machine (scripts/setup long makes it)");
  proxy_ = std::make_unique<s3::testing::FaultProxy>(server_->port());
}

std::string BucketServer::StorePath() const {
  return std::string("s3://") + s3::testing::kBucket + '/' + kPrefix + "?endpoint=" + proxy_->Endpoint() + "&part=5MiB";
}

std::map<std::string, std::string> BucketServer::Environment() const {
  return {{"AWS_ACCESS_KEY_ID", s3::testing::kAccessKey},
          {"AWS_SECRET_ACCESS_KEY", s3::testing::kSecretKey},
          {kStorePortVariable, std::to_string(proxy_->port())}};
}

std::unique_ptr<Store> BucketServer::Open() const {
  const s3::Environment keys = s3::testing::TestEnvironment();
  return s3::MakeS3Store(s3::ParseLocation(StorePath(), keys).value(), keys);
}

bool BucketServer::Break(const std::string& how) {
  if (!broken_.empty()) return false;
  if (how == "away") {
    server_->Kill();
  } else if (how == "still") {
    server_->Signal(SIGSTOP);
  } else if (auto faults = FaultsNamed(how)) {
    proxy_->Use(std::move(faults));
  } else {
    return false;
  }
  broken_ = how;
  return true;
}

void BucketServer::Mend() {
  if (broken_ == "away") {
    server_->StartAgain();
    proxy_->ServerMoves(server_->port());
  }
  if (broken_ == "still") server_->Signal(SIGCONT);
  proxy_->Use({});
  broken_.clear();
}

}  // namespace kedge::histories

// Who asks: the keys that requests are signed with, from the places where AWS's own tools look, in their order. Nothing of them
// goes into a message.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "store/s3/http.h"
#include "store/s3/s3_location.h"
#include "store/s3/signer.h"

namespace kedge::s3 {

struct DatedKeys {
  Keys keys;
  int64_t expires_unix_seconds = 0;  // 0: never
};

class Credentials {
 public:
  // `http` outlives it.
  Credentials(const Location& location, Environment environment, HttpClient& http)
      : profile_(location.profile), environment_(std::move(environment)), http_(http) {}

  // Keys that hold for some minutes yet. Blocks where they are to be fetched. kPermission: there are none, and where was looked.
  Result<Keys> Get();
  // The store has refused them: they are fetched anew.
  void Forget();

 private:
  Result<DatedKeys> Fetch();
  // Nothing where the place is not in use.
  std::optional<Result<DatedKeys>> OfEnvironment();
  std::optional<Result<DatedKeys>> OfFiles();
  std::optional<Result<DatedKeys>> OfWebIdentity();
  std::optional<Result<DatedKeys>> OfInstance();
  std::string Variable(const char* name) const { return environment_(name).value_or(""); }
  std::string Profile() const { return profile_.empty() ? "default" : profile_; }

  const std::string profile_;
  const Environment environment_;
  HttpClient& http_;
  std::mutex mutex_;
  std::optional<DatedKeys> known_;  // guarded by mutex_
};

// One section of a file as AWS's tools have them: "[profile]", then lines "key = value"; '#' and ';' begin comments.
std::optional<std::string> ReadSetting(const std::string& file, const std::string& section, const std::string& key);
// The JSON that credential_process, instance and container metadata answer with.
Result<DatedKeys> ReadKeysJson(std::string_view text, const std::string& where);

// The XML of a role that was assumed.
Result<DatedKeys> ReadRole(ByteSpan body, const std::string& where);

}  // namespace kedge::s3

#include "store/s3/credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "os/files/files.h"
#include "store/s3/answers.h"

namespace kedge::s3 {

namespace {

constexpr uint64_t kFileBytesMax = 1 << 20;
constexpr int64_t kRenewSecondsBefore = 300;
constexpr Duration kInstancePatience = std::chrono::seconds(1);
constexpr char kInstanceMetadata[] = "http://169.254.169.254";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

Status Refuse(const std::string& where, const std::string& why) {
  return Status(Code::kPermission, fmt::format("no keys for S3 from {}: {}", where, why));
}

// Taken out of it: it may be a secret.
std::string TakeText(Json* json, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (json->contains(name) && json->at(name).is_string()) return std::move(json->at(name).get_ref<std::string&>());
  }
  return {};
}

// What a program prints; empty with an error. Its own output to stderr stays as it is: it tells the user what is wrong.
Result<std::string> OutputOf(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return Status(Code::kUnavailable, "it cannot be started");
  std::string output;
  char bytes[4096];
  while (const size_t read = std::fread(bytes, 1, sizeof(bytes), pipe)) {
    if (output.size() < kFileBytesMax) output.append(bytes, read);
  }
  const int status = pclose(pipe);
  if (status != 0) return Status(Code::kUnavailable, "it failed");
  return output;
}

}  // namespace

std::optional<std::string> ReadSetting(const std::string& file, const std::string& section, const std::string& key) {
  bool is_inside = false;
  for (size_t at = 0; at < file.size();) {
    const size_t end = std::min(file.find('\n', at), file.size());
    const std::string_view line = Trim(std::string_view(file).substr(at, end - at));
    at = end + 1;
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_inside = line.ends_with(']') && Trim(line.substr(1, line.size() - 2)) == section;
      continue;
    }
    const size_t equals = line.find('=');
    if (!is_inside || equals == std::string_view::npos || Trim(line.substr(0, equals)) != key) continue;
    return std::string(Trim(line.substr(equals + 1)));
  }
  return std::nullopt;
}

Result<DatedKeys> ReadKeysJson(std::string_view text, const std::string& where) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Refuse(where, "its answer is no JSON");
  DatedKeys found;
  found.keys.access_key = TakeText(&json, {"AccessKeyId"});
  found.keys.secret_key = os::SecretText(TakeText(&json, {"SecretAccessKey"}));
  found.keys.token = os::SecretText(TakeText(&json, {"SessionToken", "Token"}));
  if (found.keys.access_key.empty() || found.keys.secret_key.empty()) return Refuse(where, "its answer has no keys");
  const std::string expires = TakeText(&json, {"Expiration"});
  if (expires.empty()) return found;
  const std::optional<int64_t> at = ParseIsoTime(expires);
  if (!at) return Refuse(where, "it does not say until when they hold");
  found.expires_unix_seconds = *at;
  return found;
}

Result<DatedKeys> ReadRole(ByteSpan body, const std::string& where) {
  pugi::xml_document document;
  if (!document.load_buffer(body.data(), body.size())) return Refuse(where, "the answer is no XML");
  const pugi::xml_node keys =
      document.child("AssumeRoleWithWebIdentityResponse").child("AssumeRoleWithWebIdentityResult").child("Credentials");
  const std::optional<int64_t> expires = ParseIsoTime(keys.child_value("Expiration"));
  DatedKeys found{{keys.child_value("AccessKeyId"), os::SecretText(keys.child_value("SecretAccessKey")),
                   os::SecretText(keys.child_value("SessionToken"))},
                  expires.value_or(0)};
  if (found.keys.secret_key.empty() || !expires) return Refuse(where, "the answer has no keys");
  return found;
}

Result<Keys> Credentials::Get() {
  const std::lock_guard lock(mutex_);
  const int64_t now = WallTimeNs() / 1000000000;
  const bool hold = known_ && (known_->expires_unix_seconds == 0 || known_->expires_unix_seconds - kRenewSecondsBefore > now);
  if (hold) return known_->keys;
  const Result<DatedKeys> fetched = Fetch();
  if (fetched.ok()) {
    known_ = *fetched;
  } else if (!known_ || known_->expires_unix_seconds <= now) {
    return fetched.status();
  }
  return known_->keys;
}

void Credentials::Forget() {
  const std::lock_guard lock(mutex_);
  known_.reset();
}

Result<DatedKeys> Credentials::Fetch() {
  for (auto const look :
       {&Credentials::OfEnvironment, &Credentials::OfWebIdentity, &Credentials::OfFiles, &Credentials::OfInstance}) {
    std::optional<Result<DatedKeys>> found = (this->*look)();
    if (found) return *std::move(found);
  }
  return Status(Code::kPermission,
                fmt::format("no keys for S3: there is no AWS_ACCESS_KEY_ID, no profile \"{}\" in AWS's shared files, no "
                            "AWS_WEB_IDENTITY_TOKEN_FILE, and no machine of a cloud that has a role",
                            Profile()));
}

std::optional<Result<DatedKeys>> Credentials::OfEnvironment() {
  // Who names a profile means it.
  if (!profile_.empty()) return std::nullopt;
  DatedKeys found{{Variable("AWS_ACCESS_KEY_ID"), os::SecretText(Variable("AWS_SECRET_ACCESS_KEY")),
                   os::SecretText(Variable("AWS_SESSION_TOKEN"))},
                  0};
  if (found.keys.access_key.empty()) return std::nullopt;
  if (found.keys.secret_key.empty()) return Refuse("the environment", "AWS_ACCESS_KEY_ID has no AWS_SECRET_ACCESS_KEY beside it");
  return found;
}

std::optional<Result<DatedKeys>> Credentials::OfFiles() {
  const auto file = [&](const char* variable, const char* below_home) {
    const std::string named = Variable(variable);
    const std::string path = named.empty() ? os::JoinPath(Variable("HOME"), below_home) : named;
    return os::ReadFile(os::SystemFileSystem(), path, kFileBytesMax);
  };
  auto credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
  auto config = file("AWS_CONFIG_FILE", ".aws/config");
  const os::WipedAtTheEnd first(credentials.ok() ? &*credentials : nullptr), second(config.ok() ? &*config : nullptr);
  const std::string where = fmt::format("profile \"{}\"", Profile());
  const std::string config_section = Profile() == "default" ? "default" : "profile " + Profile();
  const auto setting = [&](const char* key) -> std::optional<std::string> {
    auto found = credentials.ok() ? ReadSetting(*credentials, Profile(), key) : std::nullopt;
    if (!found && config.ok()) found = ReadSetting(*config, config_section, key);
    return found;
  };
  if (const auto access_key = setting("aws_access_key_id")) {
    auto secret_key = setting("aws_secret_access_key");
    if (!secret_key) return Refuse(where, "it has no aws_secret_access_key");
    return DatedKeys{
        {*access_key, os::SecretText(*std::move(secret_key)), os::SecretText(setting("aws_session_token").value_or(""))}, 0};
  }
  if (const auto process = setting("credential_process")) {
    Result<std::string> output = OutputOf(*process);
    const os::WipedAtTheEnd wiped(output.ok() ? &*output : nullptr);
    if (!output.ok()) return Refuse(where, "credential_process: " + output.status().message());
    return ReadKeysJson(*output, where);
  }
  if (!profile_.empty()) return Refuse(where, "AWS's shared files do not have it, or no key in it that is understood");
  return std::nullopt;
}

std::optional<Result<DatedKeys>> Credentials::OfWebIdentity() {
  const std::string file = Variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!profile_.empty() || file.empty()) return std::nullopt;
  const std::string where = "AWS_WEB_IDENTITY_TOKEN_FILE";
  const auto token = os::ReadFile(os::SystemFileSystem(), file, kFileBytesMax);
  if (!token.ok()) return Refuse(where, token.status().message());
  const std::string named = Variable("AWS_ENDPOINT_URL_STS");
  const std::string region = Variable("AWS_REGION");
  const std::string endpoint = !named.empty()   ? named
                               : region.empty() ? "https://sts.amazonaws.com"
                                                : fmt::format("https://sts.{}.amazonaws.com", region);
  const std::string session = Variable("AWS_ROLE_SESSION_NAME");
  const std::string body = QueryText({{"Action", "AssumeRoleWithWebIdentity"},
                                      {"Version", "2011-06-15"},
                                      {"RoleArn", Variable("AWS_ROLE_ARN")},
                                      {"RoleSessionName", session.empty() ? "kedge" : session},
                                      {"WebIdentityToken", std::string(Trim(*token))}});
  HttpRequest request{.method = "POST", .url = endpoint + '/', .body = AsBytes(body)};
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  const Result<HttpAnswer> answer = http_.Do(std::move(request));
  if (!answer.ok()) return Refuse(where, answer.status().message());
  if (answer->status != 200) return Refuse(where, fmt::format("{} answers {}", endpoint, answer->status));
  return ReadRole(answer->body, where);
}

std::optional<Result<DatedKeys>> Credentials::OfInstance() {
  if (Variable("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  const std::string named = Variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const std::string endpoint = named.empty() ? kInstanceMetadata : named;
  const auto get = [&](const char* method, const std::string& path, Pairs headers) {
    HttpRequest request{.method = method, .url = endpoint + path, .headers = std::move(headers), .timeout = kInstancePatience};
    return http_.Do(std::move(request));
  };
  const Result<HttpAnswer> token = get("PUT", "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}});
  // No such machine.
  if (!token.ok() || token->status != 200) return std::nullopt;
  const Pairs proof = {{"x-aws-ec2-metadata-token", std::string(AsText(token->body))}};
  const std::string path = "/latest/meta-data/iam/security-credentials/";
  const Result<HttpAnswer> role = get("GET", path, proof);
  if (!role.ok() || role->status != 200) return Refuse("the instance's metadata", "the machine has no role");
  const std::string name(Trim(AsText(role->body).substr(0, AsText(role->body).find('\n'))));
  const Result<HttpAnswer> keys = get("GET", path + name, proof);
  if (!keys.ok() || keys->status != 200) return Refuse("the instance's metadata", "it does not give the keys of role " + name);
  return ReadKeysJson(AsText(keys->body), "the instance's metadata");
}

}  // namespace kedge::s3

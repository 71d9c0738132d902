// Where keys come from. The services of a cloud are stood for by a server on loopback that gives their documented answers.
#include "store/s3/credentials.h"

#include <gtest/gtest.h>

#include <map>

#include "base/clock.h"
#include "base/random.h"
#include "os/files/files.h"
#include "os/testing/memory_search.h"
#include "os/testing/temporary_folder.h"
#include "store/s3/bucket.h"
#include "store/s3/testing/fault_proxy.h"

namespace kedge::s3 {
namespace {

class S3Credentials : public ::testing::Test {
 protected:
  S3Credentials() : cloud_(1), http_(HttpClient::Make({}).value()) {
    variables_["HOME"] = folder_.path();
    variables_["AWS_EC2_METADATA_DISABLED"] = "true";
  }
  Credentials Chain(const std::string& profile = {}) {
    Location location;
    location.profile = profile;
    return {location,
            [this](const char* name) -> std::optional<std::string> {
              const auto found = variables_.find(name);
              return found == variables_.end() ? std::nullopt : std::optional(found->second);
            },
            *http_};
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    EXPECT_TRUE(os::MakeFolders(os::SystemFileSystem(), os::ParentPath(path)).ok());
    EXPECT_TRUE(os::WriteFileDurably(os::SystemFileSystem(), path, text, "test").ok());
    return path;
  }
  static std::string KeysJson(const std::string& key, const std::string& expires) {
    return R"({"Version": 1, "Code": "Success", "AccessKeyId": ")" + key +
           R"(", "SecretAccessKey": "hidden", "Token": "token", "Expiration": ")" + expires + "\"}";
  }

  os::testing::TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
  testing::FaultProxy cloud_;
  std::unique_ptr<HttpClient> http_;
};

TEST_F(S3Credentials, OfTheEnvironment) {
  variables_["AWS_ACCESS_KEY_ID"] = "key";
  EXPECT_EQ(Chain().Get().status().code(), Code::kPermission) << "half of them";
  variables_["AWS_SECRET_ACCESS_KEY"] = "hidden";
  variables_["AWS_SESSION_TOKEN"] = "token";
  Credentials chain = Chain();
  const Result<Keys> keys = chain.Get();
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  EXPECT_EQ(keys->access_key, "key");
  EXPECT_EQ(keys->secret_key.view(), "hidden");
  EXPECT_EQ(keys->token.view(), "token");
}

TEST_F(S3Credentials, OfProfiles) {
  Write(".aws/credentials",
        "# mine\n[default]\naws_access_key_id = one\naws_secret_access_key=hidden one\n\n[ two ]\n"
        "aws_access_key_id=two\naws_secret_access_key=hidden two\naws_session_token=t\n");
  Write(".aws/config", "[profile three]\nregion = x\naws_access_key_id = three\naws_secret_access_key = hidden three\n");
  EXPECT_EQ(Chain().Get()->access_key, "one");
  EXPECT_EQ(Chain("two").Get()->token.view(), "t");
  EXPECT_EQ(Chain("three").Get()->secret_key.view(), "hidden three");
  const Status missing = Chain("four").Get().status();
  EXPECT_EQ(missing.code(), Code::kPermission);
  EXPECT_NE(missing.message().find("four"), std::string::npos);
  variables_["AWS_ACCESS_KEY_ID"] = "key";
  variables_["AWS_SECRET_ACCESS_KEY"] = "hidden";
  EXPECT_EQ(Chain("two").Get()->access_key, "two") << "who names a profile means it";
  variables_["AWS_SHARED_CREDENTIALS_FILE"] =
      Write("elsewhere", "[two]\naws_access_key_id=other\naws_secret_access_key=hidden\n");
  EXPECT_EQ(Chain("two").Get()->access_key, "other");
}

TEST_F(S3Credentials, OfAProcess) {
  const std::string json = Write("answer", KeysJson("of-process", "2099-01-01T00:00:00Z"));
  Write(".aws/config", "[default]\ncredential_process = cat '" + json + "'\n[profile broken]\ncredential_process = false\n" +
                           "[profile mute]\ncredential_process = echo no json hidden\n");
  EXPECT_EQ(Chain().Get()->access_key, "of-process");
  EXPECT_EQ(Chain("broken").Get().status().code(), Code::kPermission);
  const Status mute = Chain("mute").Get().status();
  EXPECT_EQ(mute.code(), Code::kPermission);
  EXPECT_EQ(mute.message().find("hidden"), std::string::npos) << "what it says is nobody's business";
}

TEST_F(S3Credentials, OfAWebIdentity) {
  std::string asked;
  cloud_.AnswerWith([&](const std::string& request) {
    asked = request;
    return "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><SessionToken>token</SessionToken>"
           "<SecretAccessKey>hidden</SecretAccessKey><Expiration>2099-01-01T00:00:00Z</Expiration><AccessKeyId>of-role</"
           "AccessKeyId>"
           "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
  });
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = Write("identity", "proof+of me\n");
  variables_["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  variables_["AWS_ENDPOINT_URL_STS"] = cloud_.Endpoint();
  const Result<Keys> keys = Chain().Get();
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  EXPECT_EQ(keys->access_key, "of-role");
  EXPECT_EQ(keys->token.view(), "token");
  EXPECT_NE(asked.find("WebIdentityToken=proof%2Bof%20me"), std::string::npos);
  EXPECT_NE(asked.find("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"), std::string::npos);
  cloud_.AnswerWith([](const std::string&) { return std::string(); });
  EXPECT_EQ(Chain().Get().status().code(), Code::kPermission);
}

TEST_F(S3Credentials, OfTheMachineAndAnewBeforeTheyEnd) {
  int fetched = 0;
  std::string expires = "2099-01-01T00:00:00Z";
  cloud_.AnswerWith([&](const std::string& request) -> std::string {
    if (request.starts_with("PUT /latest/api/token")) return "session";
    if (request.find("x-aws-ec2-metadata-token: session") == std::string::npos) return "";
    if (request.starts_with("GET /latest/meta-data/iam/security-credentials/ ")) return "role\n";
    if (!request.starts_with("GET /latest/meta-data/iam/security-credentials/role ")) return "";
    return KeysJson("key-" + std::to_string(++fetched), expires);
  });
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = cloud_.Endpoint();
  Credentials chain = Chain();
  EXPECT_EQ(chain.Get()->access_key, "key-1");
  EXPECT_EQ(chain.Get()->access_key, "key-1") << "they hold";
  chain.Forget();
  expires = FormatWallTime(WallTimeNs() + int64_t{60} * 1000000000);  // in a minute
  EXPECT_EQ(chain.Get()->access_key, "key-2");
  EXPECT_EQ(chain.Get()->access_key, "key-3");
}

// All that a core file of this process would have is searched. The environment of a real process has a copy of its own.
TEST_F(S3Credentials, KeysLieInNoMemoryThatACoreFileHas) {
  constexpr size_t kLetters = 64;
  const auto fill = [](char* letters) {
    Random random(77);
    for (size_t i = 0; i < kLetters; ++i) letters[i] = static_cast<char>('a' + random.Below(26));
  };
  const os::SecretBytes known(kLetters);
  fill(reinterpret_cast<char*>(known.bytes().data()));
  std::string plain(kLetters, ' ');
  fill(plain.data());
  EXPECT_TRUE(os::testing::IsInDumpedMemory(known.bytes())) << "a plain string is found";
  os::Wipe(&plain);
  ASSERT_FALSE(os::testing::IsInDumpedMemory(known.bytes()));
  int asked = 0;
  const Environment environment = [&](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "AWS_ACCESS_KEY_ID") return "key";
    if (std::string_view(name) != "AWS_SECRET_ACCESS_KEY") return std::nullopt;
    ++asked;
    std::string text(kLetters, ' ');
    fill(text.data());
    return text;
  };
  bool is_signed = false;
  cloud_.AnswerWith([&](const std::string& request) {
    is_signed = request.find("AWS4-HMAC-SHA256 Credential=key/") != std::string::npos;
    return "a record";
  });
  const Location location = ParseLocation("s3://bucket?endpoint=" + cloud_.Endpoint(), environment).value();
  Bucket bucket(location, environment, {});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bucket.Do({.method = "GET", .key = "record"}).status.ok());
  EXPECT_TRUE(is_signed);
  EXPECT_EQ(asked, 1) << "they are kept";
  // Of what was freed malloc overwrites the beginning.
  EXPECT_FALSE(os::testing::IsInDumpedMemory(known.bytes().last(kLetters / 2)));
}

TEST_F(S3Credentials, KeysOfFilesAreWiped) {
  constexpr size_t kLetters = 64;
  const os::SecretBytes known(kLetters);
  Random random(78);
  for (std::byte& letter : known.bytes()) letter = static_cast<std::byte>('a' + random.Below(26));
  {
    std::string text = "[default]\naws_access_key_id = one\naws_secret_access_key = ";
    text.reserve(text.size() + kLetters + 1);
    text.append(known.view());
    const os::WipedAtTheEnd wiped(&text);
    Write(".aws/credentials", text);
  }
  Credentials chain = Chain();
  const Result<Keys> keys = chain.Get();
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  EXPECT_EQ(keys->secret_key.view(), known.view());
  EXPECT_FALSE(os::testing::IsInDumpedMemory(known.bytes().last(kLetters / 2)));
}

TEST_F(S3Credentials, WhereNoneAreItIsSaidWhereWasLooked) {
  const Status none = Chain().Get().status();
  EXPECT_EQ(none.code(), Code::kPermission);
  for (const char* place : {"AWS_ACCESS_KEY_ID", "default", "AWS_WEB_IDENTITY_TOKEN_FILE"}) {
    EXPECT_NE(none.message().find(place), std::string::npos) << none.ToString();
  }
}

}  // namespace
}  // namespace kedge::s3

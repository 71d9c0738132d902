#include "burst/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "buffer/where.h"
#include "net/secret_file.h"
#include "os/files/files.h"
#include "os/testing/temporary_folder.h"
#include "session/config_keys.h"
#include "store/buffer/buffer_location.h"
#include "store/places/store_path.h"

namespace kedge::buffer {
namespace {

TEST(BufferFileName, HasAServerAndAPath) {
  const auto name = ParseFileName("bb://fast/run7/x", false);
  ASSERT_TRUE(name.ok()) << name.status().ToString();
  EXPECT_EQ(name->server, "fast");
  EXPECT_EQ(name->path, "run7/x");
  for (const char* whole : {"bb://fast", "bb://fast/"}) {
    EXPECT_EQ(ParseFileName(whole, false).status().code(), Code::kInvalidArgument) << whole;
    EXPECT_EQ(ParseFileName(whole, true)->server, "fast") << whole;
    EXPECT_EQ(ParseFileName(whole, true)->path, "") << whole;
  }
  for (const char* bad : {"", "fast/x", "bb:/fast/x", "bb://", "bb:///x"})
    EXPECT_EQ(ParseFileName(bad, true).status().code(), Code::kInvalidArgument) << bad;
}

TEST(BufferSettings, NameTheKeyThatIsMissing) {
  const os::testing::TemporaryFolder root;
  const std::string secret = root / "secret";
  ASSERT_TRUE(net::ReadOrMakeSecret(secret).ok());
  ConfigSources sources;
  sources.search_files = false;
  const auto read = [&] { return ReadClientOptions(Config::Load(KedgeConfigRegistry(), sources).value(), "fast"); };
  for (const auto& [key, value] : {std::pair<std::string, std::string>("buffer.folder", root.path()),
                                   std::pair<std::string, std::string>("buffer.owner", "alice"),
                                   std::pair<std::string, std::string>("buffer.secret", secret)}) {
    const Status missing = read().status();
    EXPECT_EQ(missing.code(), Code::kInvalidArgument);
    EXPECT_NE(missing.message().find(key + " is not set"), std::string::npos) << missing.message();
    sources.overrides.emplace_back(key, value);
  }
  const auto options = read();
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->server, "fast");
  EXPECT_EQ(options->owner, "alice");
  EXPECT_EQ(options->folder, root.path());
  EXPECT_EQ(options->provider, "tcp");
}

// buffer.folder goes before the store, and of a store on a buffer the one behind it before that of store.path.
TEST(BufferSettings, AStoreInAFolderSaysWhereServersAre) {
  const os::testing::TemporaryFolder root;
  ASSERT_TRUE(net::ReadOrMakeSecret(root / "secret").ok());
  ConfigSources sources;
  sources.search_files = false;
  sources.overrides = {{"buffer.owner", "alice"}, {"buffer.secret", root / "secret"}, {"store.path", root / "store"}};
  const auto load = [&] { return Config::Load(KedgeConfigRegistry(), sources).value(); };
  const auto of_files = [&] { return ReadClientOptions(load(), "fast"); };
  const auto of_store = [&](const std::string& text) {
    const Config config = load();
    return ParseStoreLocation(text, &config);
  };
  const std::string behind = "bb://fast/ckpt?drain=" + (root / "behind");
  EXPECT_EQ(of_files().status().code(), Code::kInvalidArgument);
  EXPECT_EQ(of_store("bb://fast/ckpt").status().code(), Code::kInvalidArgument);
  for (const char* store : {"/store/buffers", "/behind/buffers"})
    ASSERT_TRUE(os::MakeFolders(os::SystemFileSystem(), root.path() + store).ok());
  EXPECT_EQ(of_files()->folder, root / "store/buffers");
  EXPECT_EQ(of_store("bb://fast/ckpt")->folder, root / "store/buffers");
  EXPECT_EQ(of_store(behind)->folder, root / "behind/buffers");
  EXPECT_EQ(of_store(behind + "&folder=/elsewhere")->folder, "/elsewhere");
  EXPECT_EQ(of_store("bb://fast/ckpt?drain=s3://bucket/prefix").status().code(), Code::kInvalidArgument);
  sources.overrides.emplace_back("buffer.folder", "/shared/buffers");
  EXPECT_EQ(of_files()->folder, "/shared/buffers");
  EXPECT_EQ(of_store(behind)->folder, "/shared/buffers");
}

// The store may be another user's, who could lead a server of root's anywhere.
TEST(BufferSettings, ALinkInAStoreIsNotFollowed) {
  const os::testing::TemporaryFolder root;
  os::FileSystem& fs = os::SystemFileSystem();
  for (const char* folder : {"/store", "/elsewhere"}) ASSERT_TRUE(fs.Mkdir(root.path() + folder, 0755).ok());
  ASSERT_EQ(symlink("../elsewhere", (root.path() + "/store/buffers").c_str()), 0);
  ServerOptions options;
  options.name = "fast";
  options.stores = {root.path() + "/store"};
  const Status said = SayWhereItIs(options, "an address");
  EXPECT_EQ(said.errno_value(), ELOOP) << said.ToString();
  EXPECT_TRUE(fs.List(root.path() + "/elsewhere")->empty());
}

TEST(BufferStoreLocation, SaysAllThatAnotherProcessNeeds) {
  ConfigSources sources;
  sources.search_files = false;
  EXPECT_EQ(ParseStoreLocation("bb://fast/ckpt", nullptr).status().code(), Code::kInvalidArgument);
  for (const auto& [key, value] : {std::pair<std::string, std::string>("buffer.folder", "/shared/buffers"),
                                   std::pair<std::string, std::string>("buffer.owner", "alice"),
                                   std::pair<std::string, std::string>("buffer.secret", "/shared/a secret")}) {
    const Config config = Config::Load(KedgeConfigRegistry(), sources).value();
    const Status missing = ParseStoreLocation("bb://fast/ckpt", &config).status();
    EXPECT_NE(missing.message().find(key + " is not set"), std::string::npos) << missing.message();
    sources.overrides.emplace_back(key, value);
  }
  const Config config = Config::Load(KedgeConfigRegistry(), sources).value();
  const auto location = ParseStoreLocation("bb://fast/ckpt/heat/?interface=10.0.0.1", &config);
  ASSERT_TRUE(location.ok()) << location.status().ToString();
  EXPECT_EQ(location->prefix, "ckpt/heat");
  EXPECT_EQ(location->interface_address, "10.0.0.1");
  EXPECT_EQ(location->ToDisplay(), "bb://fast/ckpt/heat");
  const std::string text = location->ToText();
  EXPECT_EQ(ParseStoreLocation(text, nullptr).value(), *location) << text;
  EXPECT_EQ(ResolveStorePath(text).value(), text);
  EXPECT_EQ(ResolveStorePath("bb://fast/ckpt/heat?interface=10.0.0.1", &config).value(), text);
  EXPECT_FALSE(location->encrypt);
  sources.overrides.emplace_back("net.encrypt", "true");
  const Config sealing = Config::Load(KedgeConfigRegistry(), sources).value();
  const auto sealed = ParseStoreLocation("bb://fast/ckpt", &sealing);
  EXPECT_TRUE(sealed->encrypt && ParseStoreLocation(sealed->ToText(), nullptr)->encrypt);
  EXPECT_FALSE(ParseStoreLocation("bb://fast/ckpt?encrypt=false", &sealing)->encrypt);
  EXPECT_EQ(ParseStoreLocation("bb://fast/ckpt?encrypt=perhaps", &sealing).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(IsResolvedStorePath(text) && !IsResolvedStorePath("bb://fast/ckpt/heat"));
  for (const char* bad : {"bb://fast", "bb://fast/", "bb:///x", "bb://fast/a//b", "bb://fast/../b", "bb://fast/x?colour=red"})
    EXPECT_EQ(ParseStoreLocation(bad, &config).status().code(), Code::kInvalidArgument) << bad;
}

}  // namespace
}  // namespace kedge::buffer

#include "base/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/random.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;
using ::testing::Test;

ConfigRegistry MakeRegistry() {
  ConfigRegistry registry;
  registry.Add({.name = "pool.bytes",
                .type = KeyType::kBytes,
                .default_text = "auto",
                .scope = KeyScope::kNode,
                .doc = "Size of the pool",
                .auto_allowed = true});
  registry.Add({.name = "pool.chunk_bytes",
                .type = KeyType::kBytes,
                .default_text = "64MiB",
                .scope = KeyScope::kNode,
                .doc = "Size of a chunk",
                .minimum = 4096});
  registry.Add({.name = "store.keep",
                .type = KeyType::kInt64,
                .default_text = "2",
                .doc = "Versions kept",
                .unit = "versions",
                .minimum = 1});
  registry.Add({.name = "store.path", .type = KeyType::kString, .default_text = "", .doc = "Folder of the store"});
  registry.Add({.name = "store.secret", .type = KeyType::kString, .default_text = "", .doc = "A secret", .secret = true});
  registry.Add(
      {.name = "job.mode", .type = KeyType::kString, .default_text = "async", .doc = "Mode", .choices = {"sync", "async"}});
  registry.Add({.name = "job.verify", .type = KeyType::kBool, .default_text = "true", .doc = "Verify"});
  registry.Add({.name = "job.rate", .type = KeyType::kDouble, .default_text = "0.5", .doc = "Rate"});
  registry.Add(
      {.name = "agent.idle", .type = KeyType::kDuration, .default_text = "30s", .scope = KeyScope::kNode, .doc = "Idle time"});
  registry.AddTableList({.name = "tier",
                         .doc = "Tiers",
                         .keys = {
                             {.name = "name", .required = true},
                             {.name = "kind", .default_text = "directory", .choices = {"memory", "directory"}},
                             {.name = "path", .default_text = ""},
                             {.name = "capacity", .type = KeyType::kBytes, .default_text = "auto", .auto_allowed = true},
                             {.name = "weight", .type = KeyType::kInt64, .default_text = "1"},
                         }});
  return registry;
}

class ConfigTest : public Test {
 protected:
  ConfigTest() {
    char path[] = "/tmp/kedge-config-XXXXXX";
    folder_ = mkdtemp(path);
    sources_.search_files = false;
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << content;
    return path;
  }
  Result<Config> LoadText(const std::string& content) {
    sources_.file = Write("kedge.toml", content);
    return Config::Load(registry_, sources_);
  }
  // The message of the error that `content` gives.
  std::string ErrorOf(const std::string& content) {
    const auto config = LoadText(content);
    EXPECT_FALSE(config.ok()) << content;
    EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
    return config.ok() ? "" : config.status().message();
  }

  const ConfigRegistry registry_ = MakeRegistry();
  ConfigSources sources_;
  std::string folder_;
};

TEST_F(ConfigTest, RunsOnDefaultsAlone) {
  const Config config = Config::Load(registry_, sources_).value();
  EXPECT_TRUE(config.IsAuto("pool.bytes"));
  EXPECT_EQ(config.GetBytes("pool.bytes"), 0u);
  EXPECT_EQ(config.GetBytes("pool.chunk_bytes"), 64u << 20);
  EXPECT_EQ(config.GetInt64("store.keep"), 2);
  EXPECT_EQ(config.GetString("job.mode"), "async");
  EXPECT_TRUE(config.GetBool("job.verify"));
  EXPECT_DOUBLE_EQ(config.GetDouble("job.rate"), 0.5);
  EXPECT_EQ(config.GetDuration("agent.idle"), 30s);
  EXPECT_TRUE(config.GetTables("tier").empty());
  EXPECT_EQ(config.OriginOf("store.keep").text, "default");
  EXPECT_EQ(config.file(), "");
}

TEST_F(ConfigTest, LaterSourcesWinAndAreRemembered) {
  sources_.environment = {{"KEDGE_STORE_KEEP", "5"}, {"KEDGE_JOB_MODE", "sync"}};
  sources_.overrides = {{"job.mode", "async"}};
  const Config config = LoadText("[store]\nkeep = 3\npath = '/pfs'\n[job]\nmode = \"sync\"\n").value();
  EXPECT_EQ(config.GetString("store.path"), "/pfs");
  EXPECT_EQ(config.OriginOf("store.path").kind, ConfigOrigin::Kind::kFile);
  EXPECT_EQ(config.OriginOf("store.path").text, folder_ + "/kedge.toml:3");
  EXPECT_EQ(config.GetInt64("store.keep"), 5);
  EXPECT_EQ(config.OriginOf("store.keep").text, "KEDGE_STORE_KEEP");
  EXPECT_EQ(config.GetString("job.mode"), "async");
  EXPECT_EQ(config.OriginOf("job.mode").kind, ConfigOrigin::Kind::kProgram);
  EXPECT_EQ(config.file(), folder_ + "/kedge.toml");
}

TEST_F(ConfigTest, ReadsNumbersAndTextsWhereBothMakeSense) {
  const Config config =
      LoadText("pool.bytes = 1048576\npool.chunk_bytes = \"1MiB\"\nagent.idle = 2.5\njob.rate = 3\njob.verify = false\n").value();
  EXPECT_FALSE(config.IsAuto("pool.bytes"));
  EXPECT_EQ(config.GetBytes("pool.bytes"), 1u << 20);
  EXPECT_EQ(config.GetBytes("pool.chunk_bytes"), 1u << 20);
  EXPECT_EQ(config.GetDuration("agent.idle"), 2500ms);
  EXPECT_DOUBLE_EQ(config.GetDouble("job.rate"), 3.0);
  EXPECT_FALSE(config.GetBool("job.verify"));
}

TEST_F(ConfigTest, UnknownKeysNameTheNearestOne) {
  EXPECT_NE(ErrorOf("[store]\n\nkep = 3\n").find("kedge.toml:3: unknown key 'store.kep'; did you mean 'store.keep'?"),
            std::string::npos)
      << ErrorOf("[store]\n\nkep = 3\n");
  EXPECT_NE(ErrorOf("[stor]\nkeep = 3\n").find("'store.keep'"), std::string::npos);
  EXPECT_NE(ErrorOf("zzzzzzzzzzzzzzz = 3\n").find("`kedge config`"), std::string::npos) << "nothing is near";
  EXPECT_NE(ErrorOf("[[tier]]\nname='a'\nkapacity=1\n").find("unknown key 'tier.kapacity'"), std::string::npos);
}

TEST_F(ConfigTest, WrongValuesNamePlaceKeyAndExpectation) {
  const struct {
    const char* content;
    const char* expected;
  } cases[] = {
      {"[store]\nkeep = 'two'\n", "kedge.toml:2: store.keep: expected a value of type whole number, found a string"},
      {"[store]\nkeep = 0\n", "expected a value from 1"},
      {"[store]\nkeep = 1.5\n", "whole number"},
      {"[store]\npath = 3\n", "expected a value of type string, found a whole number"},
      {"[job]\nverify = 'yes'\n", "job.verify: expected a value of type true or false"},
      {"[job]\nmode = 'asink'\n", "expected one of sync, async, found 'asink'"},
      {"[pool]\nchunk_bytes = '64 MiBs'\n", "'64 MiBs' is not a byte count"},
      {"[pool]\nchunk_bytes = 100\n", "4096 B"},
      {"[pool]\nchunk_bytes = 'auto'\n", "'auto' is not a byte count"},
      {"[pool]\nchunk_bytes = -5\n", "'-5' is not a byte count"},
      {"[agent]\nidle = '5m'\n", "'5m' is not a duration"},
      {"[agent\nidle = 5\n", "not TOML"},
      {"[agent]\nidle = 5m\n", "kedge.toml:2: not TOML"},
      {"[agent]\nidle = 5m\n", "times and sizes stand in quotes"},
      {"[agent]\nidle = 5 min", "times and sizes stand in quotes"},
      {"k\u00e9 = 1\n", "not TOML"},
      {"k\u0351y = 1\n", "not TOML"},
      {"store = 3\n", "unknown key 'store'"},
      {"[store.keep]\na = 1\n", "found a table"},
      {"tier = 3\n", "expected an array of tables"},
      {"tier = [1]\n", "expected a table"},
      {"[[tier]]\npath='/x'\n", "tier.name: missing"},
      {"[[tier]]\nname='x'\nkind='tape'\n", "expected one of memory, directory"},
      {"a = 2020-01-01\n", "unknown key"},
      {"[store]\nkeep = 2020-01-01\n", "date"},
  };
  for (const auto& item : cases)
    EXPECT_NE(ErrorOf(item.content).find(item.expected), std::string::npos) << item.content << "gave: " << ErrorOf(item.content);
}

TEST_F(ConfigTest, ReadsTableLists) {
  const Config config =
      LoadText("[[tier]]\nname = 'fast'\nkind = 'memory'\n\n[[tier]]\nname = 'ssd'\npath = '/ssd'\ncapacity = '1GB'\n").value();
  const auto& tiers = config.GetTables("tier");
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0].GetString("kind"), "memory");
  EXPECT_TRUE(tiers[0].IsAuto("capacity"));
  EXPECT_EQ(tiers[1].GetString("kind"), "directory") << "the default";
  EXPECT_EQ(tiers[1].GetBytes("capacity"), 1'000'000'000u);
  EXPECT_EQ(tiers[1].GetInt64("weight"), 1);
  EXPECT_EQ(tiers[1].origin().text, folder_ + "/kedge.toml:5");
}

TEST_F(ConfigTest, TakesTableListsFromTheEnvironment) {
  sources_.environment = {{"KEDGE_TIER", "[{name = 'a', path = '/a\"b'}, {name = 'b', weight = 3}]"}};
  const Config config = LoadText("[[tier]]\nname = 'from-file'\n").value();
  ASSERT_EQ(config.GetTables("tier").size(), 2u) << "replaced, not added";
  EXPECT_EQ(config.GetTables("tier")[1].GetInt64("weight"), 3);
  EXPECT_EQ(config.OriginOf("tier").text, "KEDGE_TIER");
  sources_.environment = {{"KEDGE_TIER", "[{name = 'a'"}};
  EXPECT_NE(ErrorOf("").find("KEDGE_TIER"), std::string::npos);
  sources_.environment = {{"KEDGE_TIER", "[]\nstore.keep = 9"}};
  EXPECT_NE(ErrorOf("").find("one TOML array"), std::string::npos) << "nothing else can be slipped in";
}

TEST_F(ConfigTest, RefusesUnknownVariablesOnly) {
  sources_.environment = {{"KEDGE_NODE", "n1"}, {"KEDGE_LOG", "debug"}, {"KEDGE_SECRET", "x"},    {"KEDGE_CONFIG", ""},
                          {"OTHER", "y"},       {"HOME", "/h"},         {"KEDGE_TEST_LONG", "1"}, {"KEDGE_STRICT", "1"}};
  EXPECT_TRUE(Config::Load(registry_, sources_)->warnings().empty());
  sources_.environment["KEDGE_STORE_KEEPS"] = "3";
  EXPECT_EQ(Config::Load(registry_, sources_).status().message(),
            "unknown environment variable KEDGE_STORE_KEEPS; did you mean KEDGE_STORE_KEEP?");
  sources_.environment["KEDGE_STRICT"] = "0";
  const Config lenient = Config::Load(registry_, sources_).value();
  ASSERT_EQ(lenient.warnings().size(), 1u);
  EXPECT_NE(lenient.warnings()[0].find("KEDGE_STORE_KEEPS"), std::string::npos);

  sources_.environment = {{"KEDGE_LOGS", "info"}};
  EXPECT_NE(Config::Load(registry_, sources_).status().message().find("did you mean KEDGE_LOG?"), std::string::npos);
  sources_.environment = {{"KEDGE_STORE_KEEP", "many"}};
  const auto bad = Config::Load(registry_, sources_);
  EXPECT_NE(bad.status().message().find("KEDGE_STORE_KEEP: store.keep: expected a whole number, found 'many'"),
            std::string::npos);
}

TEST_F(ConfigTest, RefusesALogLevelThatThereIsNot) {
  sources_.environment = {{"KEDGE_LOG", "verbose"}};
  EXPECT_EQ(Config::Load(registry_, sources_).status().message(),
            "KEDGE_LOG: expected debug, info, warning, error or off, found 'verbose'");
  sources_.environment = {{"KEDGE_LOG", ""}};
  EXPECT_TRUE(Config::Load(registry_, sources_).ok()) << "set to nothing is not set";
}

TEST_F(ConfigTest, BooleansInTheEnvironmentMayBeWrittenInManyWays) {
  for (const auto& [text, value] :
       {std::pair("1", true), std::pair("TRUE", true), std::pair("on", true), std::pair("yes", true), std::pair("0", false),
        std::pair("False", false), std::pair("off", false), std::pair("no", false)}) {
    sources_.environment = {{"KEDGE_JOB_VERIFY", text}};
    EXPECT_EQ(Config::Load(registry_, sources_)->GetBool("job.verify"), value) << text;
  }
}

TEST_F(ConfigTest, TextsReadBackToTheSameConfiguration) {
  sources_.environment = {
      {"KEDGE_TIER", "[{name = 'a', path = \"/a\\\"b\\\\c\\u0001\"}, {name = 'b', weight = 3, capacity = '1500kB'}]"}};
  const Config config =
      LoadText("pool.bytes='3MiB'\nstore.keep=7\njob.rate=0.1\nagent.idle='1500ms'\nstore.path='x y'\n").value();
  Config copy = Config::Load(registry_, {.search_files = false}).value();
  for (const ConfigEntry& entry : config.Entries())
    ASSERT_TRUE(copy.Set(entry.key, entry.value_text).ok()) << entry.key << " = " << entry.value_text;
  for (const ConfigEntry& entry : config.Entries()) EXPECT_EQ(copy.TextOf(entry.key), config.TextOf(entry.key));
  EXPECT_EQ(copy.GetTables("tier")[0].GetString("path"), std::string("/a\"b\\c\x01"));
  EXPECT_EQ(copy.GetTables("tier")[1].GetBytes("capacity"), 1'500'000u);
}

TEST_F(ConfigTest, HidesSecrets) {
  sources_.environment = {{"KEDGE_STORE_SECRET", "hunter2"}};
  const Config config = Config::Load(registry_, sources_).value();
  EXPECT_EQ(config.GetString("store.secret"), "hunter2");
  for (const ConfigEntry& entry : config.Entries()) EXPECT_EQ(entry.value_text.find("hunter2"), std::string::npos) << entry.key;
}

TEST_F(ConfigTest, ListsEveryKeyWithItsOrigin) {
  const Config config = LoadText("store.keep = 4\n").value();
  const auto entries = config.Entries();
  ASSERT_EQ(entries.size(), registry_.keys().size() + registry_.table_lists().size());
  const auto keep = std::find_if(entries.begin(), entries.end(), [](const auto& entry) { return entry.key == "store.keep"; });
  EXPECT_EQ(keep->value_text, "4");
  EXPECT_EQ(keep->unit, "versions");
  EXPECT_EQ(keep->doc, "Versions kept");
  EXPECT_EQ(keep->origin.text, folder_ + "/kedge.toml:1");
}

TEST_F(ConfigTest, FindsTheFileWhereItIsLookedFor) {
  const std::string named = Write("named.toml", "store.keep = 11\n");
  const std::string xdg = Write("xdg/kedge/kedge.toml", "store.keep = 12\n");
  const std::string home = Write("home/.config/kedge/kedge.toml", "store.keep = 13\n");
  const auto keep_with = [&](std::map<std::string, std::string> environment) {
    const auto config = Config::Load(registry_, {.environment = std::move(environment)});
    return config.ok() ? config->GetInt64("store.keep") : -1;
  };
  EXPECT_EQ(keep_with({{"KEDGE_CONFIG", named}, {"XDG_CONFIG_HOME", folder_ + "/xdg"}}), 11);
  EXPECT_EQ(keep_with({{"XDG_CONFIG_HOME", folder_ + "/xdg"}, {"HOME", folder_ + "/home"}}), 12);
  EXPECT_EQ(keep_with({{"HOME", folder_ + "/home"}}), 13);
  const auto missing = Config::Load(registry_, {.environment = {{"KEDGE_CONFIG", folder_ + "/none.toml"}}});
  EXPECT_EQ(missing.status().code(), Code::kNotFound) << "a file that was named must be there";
  EXPECT_NE(missing.status().message().find("none.toml"), std::string::npos);
}

TEST_F(ConfigTest, SurvivesGarbage) {
  Random random(4);
  const std::string pieces[] = {"[", "]", "[[tier]]", "=", "\n",   "'",       "\"",   "store", ".",   "keep",
                                "3", "{", "}",        ",", "name", "\\u0000", "\xFF", "#",     "inf", "tier"};
  for (int round = 0; round < 500; ++round) {
    std::string content;
    for (uint64_t i = random.Below(20); i > 0; --i) content += pieces[random.Below(std::size(pieces))];
    const auto config = LoadText(content);
    EXPECT_TRUE(config.ok() || !config.status().message().empty());
  }
}

TEST(ConfigRegistryDeath, RefusesBrokenSpecifications) {
  EXPECT_DEATH(ConfigRegistry().Add({.name = "a.b", .type = KeyType::kInt64, .default_text = "x"}), "invariant");
  EXPECT_DEATH(
      {
        ConfigRegistry registry;
        registry.Add({.name = "a.b_c"});
        registry.Add({.name = "a_b.c"});  // both would be KEDGE_A_B_C
      },
      "invariant");
  EXPECT_DEATH(ConfigRegistry().Add({.name = "log"}), "invariant") << "KEDGE_LOG is taken";
}

}  // namespace
}  // namespace kedge

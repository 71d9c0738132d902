// Keys as structs: defaults, absolute paths, refusals that name the key, and what travels to the agent.
#include "session/config_keys.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kedge {
namespace {

Result<Config> Load(std::vector<std::pair<std::string, std::string>> overrides) {
  ConfigSources sources;
  sources.search_files = false;
  sources.overrides = std::move(overrides);
  return Config::Load(KedgeConfigRegistry(), sources);
}

TEST(ConfigKeys, DefaultsAreSensible) {
  auto config = Load({});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  auto node = ReadNodeSettings(*config);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_FALSE(node->node.empty());
  EXPECT_TRUE(node->run_folder.starts_with("/dev/shm/kedge-"));
  EXPECT_FALSE(node->pool_bytes.has_value());
  EXPECT_EQ(node->piece_bytes, uint64_t{8} << 20);
  auto job = ReadJobSettings(*config);
  ASSERT_TRUE(job.ok()) << job.status().ToString();
  EXPECT_EQ(job->keys.keep_versions, 2u);
  EXPECT_EQ(job->keys.store_mode, 0700u);
  EXPECT_EQ(job->keys.store_path.front(), '/');
  EXPECT_EQ(job->wait_timeout, std::chrono::seconds(600));
  auto keys = ExplicitNodeKeys(*config);
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE(keys->empty());
}

TEST(ConfigKeys, EachNodeHasARunFolderOfItsOwn) {
  auto config = Load({{"node.name", "n7"}, {"node.run_folder", "/run/%n/kedge-%n"}});
  EXPECT_EQ(ReadNodeSettings(*config)->run_folder, "/run/n7/kedge-n7");
  const auto keys = ExplicitNodeKeys(*config).value();
  EXPECT_TRUE(std::ranges::count(keys, std::pair<std::string, std::string>("node.run_folder", "/run/n7/kedge-n7")));
}

TEST(ConfigKeys, TheFailureDomainIsTheLowestSwitchThatSlurmTells) {
  const auto domain = [](const char* address, const char* pattern) {
    setenv("SLURM_TOPOLOGY_ADDR", address, 1);
    setenv("SLURM_TOPOLOGY_ADDR_PATTERN", pattern, 1);
    auto config = Load({{"node.failure_domain", "slurm"}});
    const auto node = ReadNodeSettings(*config);
    unsetenv("SLURM_TOPOLOGY_ADDR");
    unsetenv("SLURM_TOPOLOGY_ADDR_PATTERN");
    return node.ok() ? node->failure_domain : node.status().message();
  };
  EXPECT_EQ(domain("s0.s1.n3", "switch.switch.node"), "s1");
  EXPECT_EQ(domain("leaf.n3.cluster.org", "switch.node"), "leaf") << "a host's name may hold dots";
  EXPECT_NE(domain("n3", "node").find("names no switch"), std::string::npos);
}

TEST(ConfigKeys, BlocksAreComparedAmongWhomTheJobSays) {
  const auto keys_of = [](const char* deduplicate, const char* verify) {
    return ReadJobSettings(*Load({{"reduce.deduplicate", deduplicate}, {"reduce.verify", verify}})).value().keys;
  };
  EXPECT_EQ(keys_of("off", "off").reduce_deduplicate, Deduplication::kOff);
  EXPECT_EQ(keys_of("rank", "off").reduce_deduplicate, Deduplication::kRank);
  EXPECT_EQ(keys_of("node", "off").reduce_deduplicate, Deduplication::kNode);
  EXPECT_FALSE(keys_of("node", "off").reduce_verify);
  EXPECT_TRUE(keys_of("node", "on").reduce_verify);
  EXPECT_EQ(keys_of("job", "off").reduce_deduplicate, Deduplication::kJob);
  EXPECT_TRUE(keys_of("job", "off").DeduplicatesNode());
  EXPECT_FALSE(Load({{"reduce.deduplicate", "all"}}).ok());
  EXPECT_EQ(ReadJobSettings(*Load({{"reduce.common", "7"}})).value().keys.reduce_common_most, 7u);
  EXPECT_FALSE(Load({{"reduce.common", "0"}}).ok());
}

TEST(ConfigKeys, ExplicitNodeKeysSetUpAnAgentAlike) {
  auto config = Load({{"pool.size", "1GiB"},
                      {"store.path", "/s"},
                      {"node.name", "n7"},
                      {"tier", "[{name=\"ssd\", path=\"relative/ssd\", capacity=\"2GiB\"}]"}});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  auto keys = ExplicitNodeKeys(*config);
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  auto has = [&](const std::string& name) {
    return std::any_of(keys->begin(), keys->end(), [&](const auto& key) { return key.first == name; });
  };
  EXPECT_TRUE(has("pool.size"));
  EXPECT_TRUE(has("tier"));
  EXPECT_FALSE(has("store.path")) << "a job's key";
  EXPECT_FALSE(has("node.name"));
  auto agent_config = Load({keys->begin(), keys->end()});
  ASSERT_TRUE(agent_config.ok()) << agent_config.status().ToString();
  auto agent = ReadNodeSettings(*agent_config);
  ASSERT_TRUE(agent.ok());
  EXPECT_EQ(agent->pool_bytes, uint64_t{1} << 30);
  ASSERT_EQ(agent->tiers.size(), 1u);
  EXPECT_EQ(agent->tiers[0].path.front(), '/');
  EXPECT_EQ(agent->tiers[0].capacity_bytes, uint64_t{2} << 30);
  EXPECT_EQ(ExplicitNodeKeys(*agent_config).value(), *keys) << "what is passed on compares equal";
}

TEST(ConfigKeys, PathsAreFoldersOfAnyName) {
  const std::string path = "/it's \"quoted\"\\\t\u00fc";
  auto config = Load({{"tier", "[{name=\"ssd\", path=\"/it's \\\"quoted\\\"\\\\\\t\u00fc\", capacity=\"2GiB\"}]"}});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(ReadNodeSettings(*config).value().tiers[0].path, path);
  auto keys = ExplicitNodeKeys(*config);
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  auto agent_config = Load({keys->begin(), keys->end()});
  ASSERT_TRUE(agent_config.ok()) << agent_config.status().ToString();
  EXPECT_EQ(ReadNodeSettings(*agent_config).value().tiers[0].path, path);

  for (const std::string& bad : {std::string(), std::string("/a\0b", 4)}) {
    auto run_folder = Load({{"node.run_folder", bad}});
    ASSERT_TRUE(run_folder.ok());
    EXPECT_EQ(ReadNodeSettings(*run_folder).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(ExplicitNodeKeys(*run_folder).status().code(), Code::kInvalidArgument);
    auto store = Load({{"store.path", bad}});
    ASSERT_TRUE(store.ok());
    EXPECT_EQ(ReadJobSettings(*store).status().code(), Code::kInvalidArgument);
  }
  auto elsewhere = Load({{"store.path", "s4://bucket"}});
  ASSERT_TRUE(elsewhere.ok());
  const Status refused = ReadJobSettings(*elsewhere).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("store.path"), std::string::npos) << refused.ToString();
  auto tier = Load({{"tier", "[{name=\"ssd\", path=\"\", capacity=\"2GiB\"}]"}});
  ASSERT_TRUE(tier.ok());
  EXPECT_EQ(ReadNodeSettings(*tier).status().code(), Code::kInvalidArgument);
  auto scratch = Load({{"job.scratch", ""}});
  ASSERT_TRUE(scratch.ok());
  EXPECT_EQ(ReadJobSettings(*scratch).value().keys.scratch, "");
}

TEST(ConfigKeys, BadValuesAreRefusedByName) {
  struct Case {
    const char *key, *text;
  };
  for (Case c : {Case{"node.name", "a/b"}, Case{"chunk.size", "1000001"}, Case{"chunk.piece", "100001"}}) {
    auto config = Load({{c.key, c.text}});
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    auto settings = ReadNodeSettings(*config);
    ASSERT_FALSE(settings.ok()) << c.key;
    EXPECT_NE(settings.status().message().find(c.key), std::string::npos) << settings.status().ToString();
  }
  for (const char* mode : {"7", "0600", "9999", "rwx", "07000"}) {
    auto config = Load({{"store.mode", mode}});
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(ReadJobSettings(*config).status().code(), Code::kInvalidArgument) << mode;
  }
  auto levels = Load({{"schedule.adapt_levels", "true"}});
  ASSERT_TRUE(levels.ok());
  EXPECT_NE(ReadJobSettings(*levels).status().message().find("schedule.adapt = true"), std::string::npos);
  levels = Load({{"schedule.adapt_levels", "true"}, {"schedule.adapt", "true"}});
  ASSERT_TRUE(levels.ok());
  EXPECT_TRUE(ReadJobSettings(*levels).value().keys.schedule_adapt_levels);
  auto twice = Load({{"tier", "[{name=\"a\", path=\"/x\"}, {name=\"a\", path=\"/y\"}]"}});
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(ReadNodeSettings(*twice).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kedge

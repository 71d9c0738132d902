// Every message survives the wire; every truncation and thousands of mutations are refused or decode, never more.
#include "session/messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace kedge {
namespace {

Generation SomeGeneration() {
  return Generation{StoreId{7, 9}, "job", "name/with.dots", 12, 3, 1};
}

Hello SomeHello() {
  Hello hello;
  hello.build = "0.1.0";
  hello.job = "heat";
  hello.store_id = StoreId{1, 2};
  hello.attempt = 5;
  hello.rank = 2;
  hello.ranks = 4;
  hello.ranks_on_node = 4;
  hello.keys.store_path = "/store";
  hello.keys.store_layout = StoreLayout::kLeaders;
  hello.keys.store_leaders = 7;
  hello.keys.staging_folder = "/shared/staging";
  hello.keys.staging_alpha_percent = 7;
  hello.keys.store_stripe_bytes = 1 << 20;
  hello.keys.store_targets = 4;
  hello.keys.scratch = "/scratch";
  hello.keys.schedule_store_interval = std::chrono::seconds(30);
  hello.keys.schedule_node = 4;
  hello.keys.schedule_mtbf_node = std::chrono::hours(7);
  hello.keys.schedule_adapt_levels = true;
  hello.keys.schedule_node_interval = std::chrono::seconds(20);
  hello.keys.protect_scheme = ProtectScheme::kReedSolomon;
  hello.keys.protect_group = 6;
  hello.keys.protect_losses = 3;
  hello.keys.protect_required = false;
  hello.keys.reduce_deduplicate = Deduplication::kNode;
  hello.keys.reduce_verify = true;
  hello.node_keys = {{"pool.size", "1GiB"}, {"chunk.size", "64MiB"}};
  hello.session_id = 17;
  hello.held_slots = {{0, 3, 99, false}, {1, 1048575, uint64_t{1} << 35, true}};
  hello.last_image_serial = 1000;
  return hello;
}

std::vector<Message> SampleOfEveryKind() {
  Welcome welcome{3, "0.1.0", true, "n1", 1 << 20, 1 << 20, 1 << 30, true, "", "rack1", "127.0.0.1:7000", {}};
  welcome.tiers = {{"pool", "/dev/shm/pool", TierKind::kMemory, "/dev/shm/pool", 1 << 20, 16}};
  LevelReply level{Level::kLocal, Level::kStore, Status(Code::kNoSpace, "write /a: full", 28), {1, 3}};
  OpenImageReply open{4, SlotRange{0, 1, 2, 3, 4}, {SlotRange{0, 5, 6, 7, 8}, SlotRange{kTierNone, 0, 0, 0, 9}}, true};
  return {SomeHello(),
          welcome,
          ToolHello{kProtocolVersion, "b"},
          ToolWelcome{"b", "n1", 42},
          WaitRequest{SomeGeneration(), Level::kStore, std::chrono::seconds(5)},
          level,
          TestRequest{SomeGeneration()},
          LocalVersionsRequest{StoreId{1, 1}, "job", "", true},
          LocalVersionsReply{{{SomeGeneration(), 0, 2, Level::kStore}, {SomeGeneration(), 1, 2, Level::kLocal}},
                             {{SomeGeneration(), true, "too few"}},
                             {"n3"}},
          OpenImageRequest{SomeGeneration(), 1, true},
          open,
          CloseImageRequest{4},
          CleanupRequest{StoreId{1, 1}, "job", "n", 1},
          CleanupReply{2, 1 << 20},
          RetainRequest{StoreId{1, 1}, "job", "n"},
          StatusRequest{},
          StatusReply{"{\"a\": 1}"},
          DrainRequest{StoreId{}, "", Level::kNode, std::chrono::seconds(1)},
          DrainReply{false, 1, 2, 3, Status(Code::kTimeout, "late")},
          GoodbyeRequest{},
          ShutdownRequest{false},
          DoneReply{},
          ErrorReply{Status(kCodeLast, "gone")},
          MembersRequest{{3, 4, "secret", {{"n1", "rack1", "127.0.0.1:7000", {0, 1}}, {"n2", "rack2", "", {2, 3}}}}},
          HaltRequest{"job", HaltWhen::kNow},
          HaltReply{{{"job", 3, true}, {"other", 1, false}}},
          RestoredRequest{{SomeGeneration(), 9, 2, 7}, true},
          RebuildRequest{StoreId{1, 1}, "job", true, {SomeGeneration()}, {"n2"}},
          RebuildReply{{{SomeGeneration(), 6, {{0, 2, 2}, {5, 1, 1}}, {{0, 1, 1}}, true, "too few"}},
                       {{SomeGeneration(), 9, 2, 7}},
                       2,
                       3,
                       {"n4"},
                       Status(Code::kNoSpace, "full")},
          MeasureRequest{"job", true, std::chrono::seconds(60)},
          MeasureReply{"n1",
                       "job",
                       3,
                       "tcp;ofi_rxm",
                       {{"n2", "192.0.2.7:4711", true, 45'000, uint64_t{3} << 30, Status::Ok()},
                        {"n3", "192.0.2.8:4711", false, 0, 0, Status(Code::kTimeout, "node n3 says nothing")}}},
          KnownJobsRequest{kProtocolVersion, "build", "job", "/store"},
          KnownJobsReply{
              {{StoreId{1, 1}, 7, 2, true, "", {}}, {StoreId{1, 2}, 70000, 0, false, "record", {{SomeGeneration(), 9, 2, 7}}}}},
          OpenWindowRequest{SomeGeneration(), 1, true},
          OpenWindowReply{4, 1 << 20, 4096, 8 << 20},
          ShowRequest{4, 1 << 20},
          ShowReply{1 << 20, 4096},
          PendingRequest{StoreId{1, 1}, "job", 3, 1},
          PendingReply{2, 1 << 20},
          PatienceReply{},
          ShareObjectsRequest{{{"jobs/job/names/n/1-1-1/data/r0", {{0, 3}, {7, 1}}}, {"jobs/job/names/n/1-1-1/data/r1", {}}}},
          ShareObjectsReply{4},
          ReadLineRequest{4, {{0, 2}}, {{1, 1 << 20}}},
          ReadLineReply{true, false, 3, uint64_t{1} << 40, 1 << 19}};
}

TEST(Messages, EveryKindSurvivesTheWire) {
  std::vector<Message> samples = SampleOfEveryKind();
  ASSERT_EQ(samples.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i].index(), i) << "the samples stand in the order of the kinds";
    Buffer frame = EncodeMessage(100 + i, samples[i]);
    auto decoded = DecodeMessage(frame);
    ASSERT_TRUE(decoded.ok()) << i << ": " << decoded.status().ToString();
    EXPECT_EQ(decoded->number, 100 + i);
    ASSERT_EQ(decoded->message.index(), i);
    EXPECT_EQ(EncodeMessage(100 + i, decoded->message), frame) << i;
  }
}

TEST(Messages, FieldsArriveAsTheyWere) {
  auto hello = DecodeHello(EncodeHello(SomeHello()));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->keys, SomeHello().keys);
  EXPECT_EQ(hello->node_keys, SomeHello().node_keys);
  EXPECT_EQ(hello->held_slots[1].slot_generation, uint64_t{1} << 35);
  EXPECT_TRUE(hello->held_slots[1].is_full_chunk);
  EXPECT_EQ(hello->last_image_serial, 1000u);
  auto reply = DecodeMessage(EncodeMessage(1, SampleOfEveryKind()[5]));
  const Status& failure = std::get<LevelReply>(reply->message).failure;
  EXPECT_EQ(failure.code(), Code::kNoSpace);
  EXPECT_EQ(failure.errno_value(), 28);
  EXPECT_EQ(failure.message(), "write /a: full");
}

TEST(Messages, AnotherProtocolIsReadAsFarAsItsNumber) {
  Hello hello = SomeHello();
  hello.protocol = kProtocolVersion + 1;
  auto decoded = DecodeMessage(EncodeMessage(1, hello));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(std::get<Hello>(decoded->message).protocol, kProtocolVersion + 1);
  EXPECT_EQ(std::get<Hello>(decoded->message).build, "0.1.0");
}

// What a former agent has left: levels, for one, had other numbers.
TEST(Messages, AHelloOnFileOfAnotherProtocolIsRefused) {
  Hello hello = SomeHello();
  hello.protocol = kProtocolVersion - 1;
  const Status refused = DecodeHello(EncodeHello(hello)).status();
  EXPECT_EQ(refused.code(), Code::kMismatch);
  EXPECT_NE(refused.message().find(fmt::format("protocol {} (0.1.0)", kProtocolVersion - 1)), std::string::npos);
  EXPECT_NE(refused.message().find(fmt::format("speaks {}", kProtocolVersion)), std::string::npos) << refused.message();
}

TEST(Messages, EveryLevelHasANameAndSurvivesTheWire) {
  const auto decoded = [](Level level) { return DecodeMessage(EncodeMessage(1, WaitRequest{SomeGeneration(), level, {}})); };
  for (const Level level : {Level::kNone, Level::kLocal, Level::kNode, Level::kBuffer, Level::kStore, Level::kLast}) {
    ASSERT_TRUE(decoded(level).ok()) << LevelName(level);
    EXPECT_EQ(std::get<WaitRequest>(decoded(level)->message).level, level);
    EXPECT_STRNE(LevelName(level), "unknown");
  }
  EXPECT_FALSE(decoded(static_cast<Level>(static_cast<uint8_t>(Level::kStore) + 1)).ok());
}

TEST(Messages, EveryTruncationIsRefused) {
  for (const Message& sample : SampleOfEveryKind()) {
    Buffer frame = EncodeMessage(1, sample);
    for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
      if (sample.index() == 2 && bytes > 10) continue;  // what follows a ToolHello's known fields is skipped on purpose
      auto decoded = DecodeMessage(ByteSpan(frame).first(bytes));
      EXPECT_FALSE(decoded.ok()) << "kind " << sample.index() << " cut to " << bytes << " of " << frame.size();
    }
    frame.push_back(std::byte{0});
    if (sample.index() != 2) {
      EXPECT_FALSE(DecodeMessage(frame).ok()) << "a byte too many, kind " << sample.index();
    }
  }
}

TEST(Messages, MutationsAreRefusedOrConsistent) {
  Random random(20261121);
  std::vector<Message> samples = SampleOfEveryKind();
  uint64_t decoded_count = 0;
  for (int round = 0; round < 50000; ++round) {
    Buffer frame = EncodeMessage(1, samples[random.Below(samples.size())]);
    for (uint64_t changes = 1 + random.Below(4); changes > 0; --changes) {
      frame[random.Below(frame.size())] = static_cast<std::byte>(random.Below(256));
    }
    auto decoded = DecodeMessage(frame);
    if (!decoded.ok()) continue;
    ++decoded_count;
    Buffer again = EncodeMessage(decoded->number, decoded->message);
    auto second = DecodeMessage(again);
    ASSERT_TRUE(second.ok()) << round;
    ASSERT_EQ(EncodeMessage(second->number, second->message), again) << round;
  }
  EXPECT_GT(decoded_count, 0u);
}

}  // namespace
}  // namespace kedge

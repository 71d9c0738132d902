// Lines of objects that several readers need: each is read once, and no reader waits for ever for another.
#include "agent/bring/line_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

namespace kedge {
namespace {

constexpr uint64_t kLastLineBytes = 1000;

// Its byte at each place is a function of the place's line.
class PatternReader final : public ObjectReader {
 public:
  PatternReader(uint64_t lines, std::map<uint64_t, int>* reads) : lines_(lines), reads_(reads) {}
  Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
    ++(*reads_)[offset / kSharedLineBytes];
    std::fill(out.begin(), out.end(), static_cast<std::byte>(offset / kSharedLineBytes + 1));
    return Status::Ok();
  }
  uint64_t size_bytes() const override { return (lines_ - 1) * kSharedLineBytes + kLastLineBytes; }

 private:
  const uint64_t lines_;
  std::map<uint64_t, int>* const reads_;
};

class LinePoolTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPoolLines = 4;
  static constexpr uint64_t kLines = 20;

  std::shared_ptr<LinePool> MakePool() {
    LinePoolMeans means;
    means.open = [this](const std::string& key) -> Result<std::unique_ptr<ObjectReader>> {
      if (key == "bad") return Status(Code::kUnavailable, "the store is away");
      return std::unique_ptr<ObjectReader>(std::make_unique<PatternReader>(kLines, &reads_));
    };
    means.work = [this](std::function<void()> work) { work_.push_back(std::move(work)); };
    means.post = [](const std::function<void()>& work) { work(); };
    means.later = [this](Duration, std::function<void()> work) { later_.push_back(std::move(work)); };
    return LinePool::Make(std::move(means), {.lines = kPoolLines});
  }
  static std::vector<WantedObject> All(const std::string& key = "object") { return {{key, {{0, kLines}}}}; }
  void Work() {
    while (!work_.empty()) std::exchange(work_.front(), {})(), work_.erase(work_.begin());
  }
  // Nothing: it waits.
  std::optional<ReadLineReply> Read(LineReader& reader, uint64_t line) {
    auto reply = std::make_shared<std::optional<ReadLineReply>>();
    reader.Read({0, line}, [reply](const Result<ReadLineReply>& got) {
      ASSERT_TRUE(got.ok());
      *reply = *got;
    });
    Work();
    waiting_.push_back(reply);
    return *reply;
  }
  std::optional<ReadLineReply> Last() const { return *waiting_.back(); }
  std::byte FirstByte(const LinePool& pool, const ReadLineReply& reply) {
    auto memory = os::SharedMapping::FromDescriptor(*os::DuplicateDescriptor(pool.descriptor()), "the lines", kSharedLinesBytes);
    std::byte byte{};
    EXPECT_TRUE(CopySharedLine(memory->data(), reply.place, reply.sequence, 0, {&byte, 1}));
    return byte;
  }
  void PatienceEnds() {
    for (const auto& work : std::exchange(later_, {})) work();
    Work();
  }

  std::map<uint64_t, int> reads_;
  std::vector<std::function<void()>> work_, later_;
  std::vector<std::shared_ptr<std::optional<ReadLineReply>>> waiting_;
};

TEST_F(LinePoolTest, EachLineIsReadOnceForAll) {
  const auto pool = MakePool();
  const auto first = pool->Join(All()), second = pool->Join(All()), third = pool->Join(All());
  for (uint64_t line = 0; line < kLines; ++line) {
    for (const auto& reader : {first, second, third}) {
      const auto reply = Read(*reader, line);
      ASSERT_TRUE(reply && reply->is_here) << line;
      EXPECT_EQ(reply->bytes, line == kLines - 1 ? kLastLineBytes : kSharedLineBytes);
      EXPECT_EQ(FirstByte(*pool, *reply), static_cast<std::byte>(line + 1));
      reader->HasTaken({{0, line}});
    }
  }
  ASSERT_EQ(reads_.size(), kLines);
  for (const auto& [line, times] : reads_) EXPECT_EQ(times, 1) << line;
}

TEST_F(LinePoolTest, WhoIsAloneReadsByItself) {
  const auto pool = MakePool();
  const auto first = pool->Join(All());
  EXPECT_TRUE(Read(*first, 0)->is_alone);
  EXPECT_EQ(pool->descriptor(), -1) << "nothing was made for it";
  const auto second = pool->Join(All());
  EXPECT_TRUE(Read(*first, 0)->is_here);
}

TEST_F(LinePoolTest, WhoIsLeftGetsWhatWasReadForAll) {
  const auto pool = MakePool();
  auto first = pool->Join(All());
  const auto second = pool->Join(All());
  for (uint64_t line = 0; line < kPoolLines; ++line) {
    ASSERT_TRUE(Read(*first, line));
    first->HasTaken({{0, line}});
  }
  first.reset();
  for (uint64_t line = 0; line < kLines; ++line) {
    const auto reply = Read(*second, line);
    ASSERT_TRUE(reply && reply->is_here) << line;
    second->HasTaken({{0, line}});
  }
  for (const auto& [line, times] : reads_) EXPECT_EQ(times, 1) << line;
}

TEST_F(LinePoolTest, WhoIsAheadWaitsForTheOthers) {
  const auto pool = MakePool();
  const auto first = pool->Join(All()), second = pool->Join(All());
  uint64_t line = 0;
  while (Read(*first, line)) first->HasTaken({{0, line++}});
  EXPECT_EQ(line, kPoolLines);
  const auto behind = Read(*second, 0);
  ASSERT_TRUE(behind && behind->is_here);
  EXPECT_EQ(reads_[0], 1);
  second->HasTaken({{0, 0}});
  Work();
  EXPECT_EQ(reads_[kPoolLines], 1) << "there is a line for it now";
}

TEST_F(LinePoolTest, NobodyWaitsForOneThatHasGone) {
  const auto pool = MakePool();
  const auto first = pool->Join(All()), third = pool->Join(All());
  auto second = pool->Join(All());
  for (uint64_t line = 0; line < kPoolLines; ++line) {
    ASSERT_TRUE(Read(*first, line));
    ASSERT_TRUE(Read(*third, line));
    first->HasTaken({{0, line}});
    third->HasTaken({{0, line}});
  }
  EXPECT_FALSE(Read(*first, kPoolLines));
  second.reset();
  Work();
  EXPECT_TRUE(Last() && Last()->is_here);
}

TEST_F(LinePoolTest, WhoIsWaitedForInVainIsLeftBehind) {
  const auto pool = MakePool();
  const auto first = pool->Join(All()), third = pool->Join(All()), stopped = pool->Join(All());
  for (uint64_t line = 0; line < kPoolLines; ++line) {
    for (const auto& reader : {first, third}) {
      ASSERT_TRUE(Read(*reader, line));
      reader->HasTaken({{0, line}});
    }
  }
  EXPECT_FALSE(Read(*first, kPoolLines));
  PatienceEnds();
  ASSERT_TRUE(Last() && Last()->is_here);
  first->HasTaken({{0, kPoolLines}});
  for (uint64_t line = kPoolLines; line < kLines; ++line) {
    for (const auto& reader : {first, third}) {
      ASSERT_TRUE(Read(*reader, line)->is_here) << "it is waited for once";
      reader->HasTaken({{0, line}});
    }
  }
  const auto reply = Read(*stopped, 0);
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->is_here || reply->is_alone) << "it reads by itself what is gone";
}

TEST_F(LinePoolTest, ALineThatHoldsSomethingElseByNowIsSeenToDoSo) {
  const auto pool = MakePool();
  const auto first = pool->Join(All()), second = pool->Join(All());
  const auto reply = Read(*first, 0);
  ASSERT_TRUE(reply && reply->is_here);
  for (const auto& reader : {first, second}) reader->HasTaken({{0, 0}});
  for (uint64_t line = 1; line < kLines; ++line) {
    for (const auto& reader : {first, second}) {
      ASSERT_TRUE(Read(*reader, line));
      reader->HasTaken({{0, line}});
    }
  }
  auto memory = os::SharedMapping::FromDescriptor(*os::DuplicateDescriptor(pool->descriptor()), "the lines", kSharedLinesBytes);
  std::byte byte{};
  EXPECT_FALSE(CopySharedLine(memory->data(), reply->place, reply->sequence, 0, {&byte, 1}));
}

TEST_F(LinePoolTest, WhatCannotBeReadHereAllReadByThemselves) {
  const auto pool = MakePool();
  const auto first = pool->Join(All("bad")), second = pool->Join(All("bad"));
  EXPECT_TRUE(Read(*first, 0)->is_alone);
  EXPECT_TRUE(Read(*second, 0)->is_alone);
}

TEST_F(LinePoolTest, ReadsOnTheirWayOutliveTheReaders) {
  auto pool = MakePool();
  auto first = pool->Join(All()), second = pool->Join(All());
  bool is_answered = false;
  first->Read({0, 0}, [&](const Result<ReadLineReply>&) { is_answered = true; });
  pool->Stop();
  pool.reset();
  first.reset();
  second.reset();
  Work();
  EXPECT_TRUE(is_answered);
}

}  // namespace
}  // namespace kedge

// Memory that is copied while it is written: the copy is as it was when it began, whoever writes, and each part has its checksum.
#include "capture/background_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"

namespace kedge {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPage = 4096;
constexpr size_t kHuge = size_t{2} << 20;

// Private memory, in whose middle `bytes` at an odd address are declared.
class WrittenMemory {
 public:
  WrittenMemory(size_t bytes, size_t offset, int advice) : bytes_(bytes), all_(bytes + offset + 2 * kHuge) {
    mapped_ = static_cast<std::byte*>(mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(mapped_, MAP_FAILED);
    madvise(mapped_, all_, advice);
    const auto aligned = (reinterpret_cast<uintptr_t>(mapped_) + kHuge - 1) / kHuge * kHuge;
    data_ = reinterpret_cast<std::byte*>(aligned) + offset;
    Random(bytes).Fill(data_, bytes);
  }
  ~WrittenMemory() { munmap(mapped_, all_); }
  WrittenMemory(const WrittenMemory&) = delete;
  WrittenMemory& operator=(const WrittenMemory&) = delete;

  std::byte* data() { return data_; }
  size_t bytes() const { return bytes_; }
  std::byte* page(size_t number) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(data_) / kPage + 1 + number) * kPage);
  }
  std::vector<std::byte> Now() const { return {data_, data_ + bytes_}; }

 private:
  const size_t bytes_, all_;
  std::byte* mapped_;
  std::byte* data_;
};

class BackgroundCopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status probed = os::HeldWrites::Probe(); !probed.ok()) GTEST_SKIP() << probed.ToString();
  }
  std::unique_ptr<BackgroundCopy> Create() {
    auto created = BackgroundCopy::Create(&order_);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    return std::move(*created);
  }
  // Begins to copy the memory to `image_`, in parts of at most so many bytes.
  void Begin(WrittenMemory& memory, uint64_t part_bytes_max) {
    copy_ = Create();
    ASSERT_TRUE(copy_->Add(memory.data(), memory.bytes()).ok());
    image_.assign(memory.bytes(), std::byte{0});
    Random random(memory.bytes());
    std::vector<CopiedLater> parts;
    for (uint64_t offset = 0; offset < memory.bytes();) {
      const uint64_t bytes = std::min<uint64_t>(1 + random.Below(part_bytes_max), memory.bytes() - offset);
      parts.push_back({static_cast<uint32_t>(parts.size()), 7, memory.data() + offset, image_.data() + offset, bytes, 0});
      offset += bytes;
    }
    done_ = std::promise<Status>();
    ended_ = done_.get_future();
    const auto goes_on = copy_->Start(std::move(parts), [this](Status status) { done_.set_value(std::move(status)); });
    ASSERT_TRUE(goes_on.ok() && *goes_on);
  }
  Status End() { return ended_.get(); }
  void ExpectImage(const std::vector<std::byte>& before) {
    ASSERT_EQ(std::memcmp(image_.data(), before.data(), before.size()), 0);
    for (const CopiedLater& part : copy_->parts()) {
      ASSERT_EQ(part.crc32c, crc32c::Compute(before.data() + (part.to - image_.data()), part.bytes));
    }
  }

  CopyOrder order_;
  std::unique_ptr<BackgroundCopy> copy_;
  std::vector<std::byte> image_;
  std::promise<Status> done_;
  std::future<Status> ended_;
};

// A seed stands for sizes, alignments, parts and what the writers do.
class HammeredTest : public BackgroundCopyTest, public ::testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, HammeredTest, ::testing::Range<uint64_t>(1, 13));

TEST_P(HammeredTest, TheCopyIsAsMemoryWasWhoeverWrites) {
  Random random(GetParam());
  const bool is_huge = random.Below(2) == 0;
  WrittenMemory memory((size_t{1} << 20) + random.Below(size_t{20} << 20), random.Below(3 * kPage),
                       is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  const uint64_t part_bytes = random.Below(2) == 0 ? 100000 : size_t{8} << 20;
  for (int image = 0; image < 3; ++image) {
    const std::vector<std::byte> before = memory.Now();
    Begin(memory, part_bytes);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> writers;
    for (uint64_t writer = 0; writer < 3; ++writer) {
      writers.emplace_back([&, seed = GetParam() * 100 + writer] {
        Random writes(seed);
        while (!is_over) {
          std::atomic_ref(memory.data()[writes.Below(memory.bytes())]).store(static_cast<std::byte>(writes.Below(256)));
        }
      });
    }
    const Status status = End();
    is_over = true;
    for (std::thread& writer : writers) writer.join();
    ASSERT_TRUE(status.ok()) << status.ToString();
    ExpectImage(before);
  }
}

// On a busy machine chance decides whether the copy is over before the test has done its part: then it is tried again.
bool IsSeenSoon(const std::function<bool()>& attempt) {
  for (int i = 0; i < 50 && !::testing::Test::HasFailure(); ++i) {
    if (attempt()) return true;
  }
  return false;
}

TEST_F(BackgroundCopyTest, AWriterWaitsForItsPageAlone) {
  WrittenMemory memory(size_t{64} << 20, 123, MADV_NOHUGEPAGE);
  EXPECT_TRUE(IsSeenSoon([&] {
    const std::vector<std::byte> before = memory.Now();
    Begin(memory, 8 << 20);
    // The last page, which the copy comes to last.
    memory.data()[memory.bytes() - 2 * kPage] ^= std::byte{1};
    const bool went_on_before_the_end = ended_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
    EXPECT_TRUE(End().ok());
    ExpectImage(before);
    order_ = CopyOrder();
    return went_on_before_the_end && copy_->waited() == 1;
  }));
}

TEST_F(BackgroundCopyTest, WhatWaitedComesFirstTheNextTime) {
  WrittenMemory memory(size_t{32} << 20, 0, MADV_NOHUGEPAGE);
  const size_t last = memory.bytes() - (size_t{64} << 10);
  const auto is_copied = [&](size_t offset) {
    std::byte there{};
    EXPECT_TRUE(os::HeldWrites::Read(image_.data() + offset, &there, 1));
    return there == std::byte{1};
  };
  std::memset(memory.data(), 1, memory.bytes());
  EXPECT_TRUE(IsSeenSoon([&] {
    Begin(memory, 8 << 20);
    memory.data()[last] = std::byte{1};
    EXPECT_TRUE(End().ok());
    return copy_->waited() == 1;
  }));
  EXPECT_TRUE(IsSeenSoon([&] {
    Begin(memory, 8 << 20);
    while (!is_copied(last)) std::this_thread::yield();
    const bool is_before_others = !is_copied(last / 2);
    EXPECT_TRUE(End().ok());
    return is_before_others;
  }));
}

TEST_F(BackgroundCopyTest, PagesAtTheEdgesAreCopiedInTheCall) {
  WrittenMemory memory((size_t{1} << 20) + 777, 100, MADV_NOHUGEPAGE);
  const std::vector<std::byte> before = memory.Now();
  Begin(memory, 8 << 20);
  const bool has_edges = std::memcmp(image_.data(), before.data(), kPage - 100) == 0 &&
                         std::memcmp(image_.data() + before.size() - 100, before.data() + before.size() - 100, 100) == 0;
  memory.data()[0] ^= std::byte{1};
  memory.data()[memory.bytes() - 1] ^= std::byte{1};
  ASSERT_TRUE(End().ok());
  EXPECT_TRUE(has_edges);
  EXPECT_EQ(copy_->waited(), 0u);
  ExpectImage(before);
}

TEST_F(BackgroundCopyTest, AForkedChildChangesNothing) {
  WrittenMemory memory(size_t{16} << 20, 50, MADV_HUGEPAGE);
  const std::vector<std::byte> before = memory.Now();
  Begin(memory, 8 << 20);
  const pid_t child = fork();
  if (child == 0) {
    std::memset(memory.data(), 7, memory.bytes());
    _exit(0);
  }
  std::memset(memory.data(), 9, memory.bytes());
  ASSERT_TRUE(End().ok());
  ExpectImage(before);
  int ended = -1;
  EXPECT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

// What lies last is copied last: it is gone before.
TEST_F(BackgroundCopyTest, MemoryThatIsGivenBackBeforeIsFoundOut) {
  WrittenMemory memory(size_t{64} << 20, 0, MADV_NOHUGEPAGE);
  EXPECT_TRUE(IsSeenSoon([&] {
    Begin(memory, 8 << 20);
    EXPECT_EQ(madvise(memory.page(16000), kPage, MADV_DONTNEED), 0);
    const Status given_back = End();
    std::memset(memory.data(), 1, memory.bytes());  // nobody is held
    if (given_back.ok()) return false;
    EXPECT_EQ(given_back.code(), Code::kFailedPrecondition);
    EXPECT_THAT(given_back.message(), HasSubstr("region 7"));
    EXPECT_THAT(given_back.message(), HasSubstr("given back"));
    return true;
  }));
}

TEST_F(BackgroundCopyTest, MemoryThatIsUnmappedOrMovedBeforeIsFoundOut) {
  for (const bool moves : {false, true}) {
    EXPECT_TRUE(IsSeenSoon([&] {
      WrittenMemory memory(size_t{64} << 20, 0, MADV_NOHUGEPAGE);
      void* const elsewhere = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      Begin(memory, 8 << 20);
      if (moves) {
        EXPECT_EQ(mremap(memory.page(16000), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
      } else {
        EXPECT_EQ(munmap(memory.page(16000), kPage), 0);
      }
      const Status status = End();
      std::memset(memory.data(), 1, size_t{32} << 20);
      munmap(elsewhere, kPage);
      if (status.ok()) return false;
      EXPECT_EQ(status.code(), Code::kFailedPrecondition);
      EXPECT_THAT(status.message(), HasSubstr("unmapped"));
      return true;
    }));
  }
}

TEST_F(BackgroundCopyTest, WhatIsAddedTwiceOrSharedIsRefused) {
  WrittenMemory memory(size_t{1} << 20, 0, MADV_NOHUGEPAGE);
  copy_ = Create();
  ASSERT_TRUE(copy_->Add(memory.data(), memory.bytes()).ok());
  EXPECT_EQ(copy_->Add(memory.data() + kPage, kHuge / 4).code(), Code::kBusy);
}

}  // namespace
}  // namespace kedge

// Writes that are held back: by every thread and by the kernel, in huge pages that stay whole; and what becomes of memory under
// them. Where this machine cannot hold them, only that it says why.
#include "os/memory/held_writes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "os/memory/mapping.h"

namespace kedge::os {
namespace {

constexpr size_t kHugeBytes = size_t{2} << 20;

class HeldMemory {
 public:
  explicit HeldMemory(int advice) {
    void* const reserved = mmap(nullptr, 3 * kHugeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(reserved, MAP_FAILED);
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(reserved) + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
    data_ = reinterpret_cast<std::byte*>(begin);
    EXPECT_EQ(madvise(data_, bytes(), advice), 0);
    std::memset(data_, 1, bytes());
  }
  ~HeldMemory() { munmap(data_, bytes()); }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  std::byte* data() { return data_; }
  std::byte* page(size_t number) { return data_ + number * PageBytes(); }
  size_t bytes() const { return 2 * kHugeBytes; }
  MemoryRange PageRange(size_t number) { return {page(number), PageBytes()}; }

 private:
  std::byte* data_;
};

class HeldWritesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status probed = HeldWrites::Probe(); !probed.ok()) GTEST_SKIP() << probed.ToString();
    auto created = HeldWrites::Create();
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    held_ = std::make_unique<HeldWrites>(std::move(*created));
  }
  void Hold(HeldMemory& memory) {
    ASSERT_TRUE(held_->Add(memory.data(), memory.bytes()).ok());
    const Status status = held_->Hold();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  HeldWrites::Happened Await() {
    HeldWrites::Happened happened;
    for (int i = 0; i < 100 && !held_->Next(&happened); ++i) held_->Await();
    return happened;
  }
  void ExpectHeld(const std::byte* page) {
    const auto happened = Await();
    EXPECT_EQ(happened.kind, HeldWrites::Kind::kHeld);
    EXPECT_EQ(happened.begin, reinterpret_cast<uintptr_t>(page));
  }

  std::unique_ptr<HeldWrites> held_;
};

TEST_F(HeldWritesTest, AWriteWaitsUntilItIsLetThrough) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  Hold(memory);
  std::atomic<bool> written{false};
  std::thread writer([&] {
    *memory.page(3) = std::byte{2};
    written = true;
  });
  ExpectHeld(memory.page(3));
  std::byte before{};
  EXPECT_TRUE(HeldWrites::Read(memory.page(3), &before, 1));
  EXPECT_EQ(before, std::byte{1});
  EXPECT_FALSE(written);
  EXPECT_TRUE(held_->LetThrough(memory.PageRange(3)).ok());
  writer.join();
  EXPECT_EQ(*memory.page(3), std::byte{2});
  *memory.page(3) = std::byte{3};  // it is held no longer
}

TEST_F(HeldWritesTest, PagesThatAreNotThereAreHeldToo) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  ASSERT_EQ(madvise(memory.data(), memory.bytes(), MADV_DONTNEED), 0);
  Hold(memory);
  std::thread writer([&] { *memory.page(9) = std::byte{2}; });
  ExpectHeld(memory.page(9));
  EXPECT_TRUE(held_->LetThrough(memory.PageRange(9)).ok());
  writer.join();
}

// read(2) into the memory, which a protection for user mode alone would make fail.
TEST_F(HeldWritesTest, TheKernelsWritesWait) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  Hold(memory);
  std::atomic<ssize_t> got{-1};
  std::thread reader([&] {
    const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    got = read(zero, memory.page(5), PageBytes());
    close(zero);
  });
  ExpectHeld(memory.page(5));
  EXPECT_EQ(got, -1);
  EXPECT_TRUE(held_->LetThrough(memory.PageRange(5)).ok());
  reader.join();
  EXPECT_EQ(got, static_cast<ssize_t>(PageBytes()));
}

TEST_F(HeldWritesTest, HugePagesStayWhole) {
  HeldMemory memory(MADV_HUGEPAGE);
  const MemoryRange all{memory.data(), memory.bytes()};
  const auto huge_before = HeldWrites::HugePages(all);
  ASSERT_TRUE(huge_before.ok());
  if (*huge_before != std::vector<MemoryRange>{all}) GTEST_SKIP() << "this machine gives no huge pages";
  Hold(memory);
  std::thread writer([&] { *memory.page(700) = std::byte{2}; });
  EXPECT_EQ(Await().kind, HeldWrites::Kind::kHeld);
  EXPECT_TRUE(held_->LetThrough({memory.data() + kHugeBytes, kHugeBytes}).ok());
  writer.join();
  EXPECT_EQ(*HeldWrites::HugePages(all), *huge_before);
  held_->LetAll();
  EXPECT_EQ(*HeldWrites::HugePages(all), *huge_before);
}

TEST_F(HeldWritesTest, LettingAllThroughWakesWhoeverWaits) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  Hold(memory);
  std::vector<std::thread> writers;
  for (size_t i = 0; i < 8; ++i) writers.emplace_back([&, i] { *memory.page(i / 2) = std::byte{2}; });
  (void)Await();
  held_->LetAll();
  for (std::thread& writer : writers) writer.join();
}

TEST_F(HeldWritesTest, MemoryThatIsGivenBackIsTold) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  Hold(memory);
  std::thread giver([&] { EXPECT_EQ(madvise(memory.page(4), 2 * PageBytes(), MADV_DONTNEED), 0); });
  // While it is on its way nothing is let through that it may change.
  Status let;
  for (int i = 0; i < 10000 && let.code() != Code::kBusy; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    let = held_->LetThrough(memory.PageRange(7));
  }
  EXPECT_EQ(let.code(), Code::kBusy);
  const auto happened = Await();
  EXPECT_EQ(happened.kind, HeldWrites::Kind::kGivenBack);
  EXPECT_EQ(happened.begin, reinterpret_cast<uintptr_t>(memory.page(4)));
  EXPECT_EQ(happened.end, reinterpret_cast<uintptr_t>(memory.page(6)));
  giver.join();
}

TEST_F(HeldWritesTest, MemoryThatIsGoneIsFound) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  Hold(memory);
  std::byte bytes[8];
  ASSERT_EQ(munmap(memory.page(4), PageBytes()), 0);
  EXPECT_FALSE(HeldWrites::Read(memory.page(4), bytes, sizeof bytes));
  EXPECT_EQ(held_->LetThrough(memory.PageRange(4)).code(), Code::kMismatch);
  // Other memory in its place.
  ASSERT_NE(mmap(memory.page(4), PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  EXPECT_EQ(held_->LetThrough(memory.PageRange(4)).code(), Code::kMismatch);
  *memory.page(4) = std::byte{2};
  held_->LetAll();
  *memory.page(3) = *memory.page(5) = std::byte{2};
}

TEST_F(HeldWritesTest, MemoryThatMovesIsHeldNoLonger) {
  HeldMemory memory(MADV_NOHUGEPAGE);
  Hold(memory);
  void* const elsewhere = mmap(nullptr, PageBytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(mremap(memory.page(4), PageBytes(), PageBytes(), MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
  EXPECT_EQ(held_->LetThrough(memory.PageRange(4)).code(), Code::kMismatch);
  *static_cast<std::byte*>(elsewhere) = std::byte{2};
  held_->LetAll();
  *memory.page(3) = *memory.page(5) = std::byte{2};
  munmap(elsewhere, PageBytes());
}

// Also that a child which lives on keeps nothing of its parent's held.
TEST_F(HeldWritesTest, AForkedChildWritesFreely) {
  HeldMemory memory(MADV_HUGEPAGE);
  Hold(memory);
  int hold_child[2];
  ASSERT_EQ(pipe(hold_child), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::memset(memory.data(), 7, memory.bytes());
    char byte;
    close(hold_child[1]);
    _exit(read(hold_child[0], &byte, 1) == 0 && memory.data()[5] == std::byte{7} ? 0 : 1);
  }
  std::thread writer([&] { *memory.page(3) = std::byte{2}; });
  ExpectHeld(memory.page(3));
  std::byte before{};
  EXPECT_TRUE(HeldWrites::Read(memory.page(3), &before, 1));
  EXPECT_EQ(before, std::byte{1});
  held_->LetAll();
  writer.join();
  std::memset(memory.data(), 3, memory.bytes());
  close(hold_child[0]);
  close(hold_child[1]);
  int ended = -1;
  EXPECT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

TEST_F(HeldWritesTest, RefusesWhatIsNotThisProcessesAlone) {
  void* const shared = mmap(nullptr, kHugeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(held_->Add(shared, kHugeBytes).status().code(), Code::kUnsupported);
  munmap(shared, kHugeBytes);
  EXPECT_EQ(held_->Add(shared, kHugeBytes).status().code(), Code::kInvalidArgument);
  HeldMemory memory(MADV_NOHUGEPAGE);
  EXPECT_EQ(held_->Add(memory.data() + 1, PageBytes()).status().code(), Code::kUnsupported);
  EXPECT_EQ(held_->Add(memory.data() + 1, 3 * PageBytes())->begin, memory.page(1)) << "pages at the edges belong to others, too";
  EXPECT_EQ(held_->Add(memory.page(2), PageBytes()).status().code(), Code::kBusy);
  auto other = HeldWrites::Create();
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->Add(memory.page(2), PageBytes()).status().code(), Code::kBusy) << "another userfaultfd has it";
}

// What a container's profile does.
TEST(HeldWritesWithoutTest, SaysWhyItCannot) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{sizeof program / sizeof program[0], program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(2);
    const Status probed = HeldWrites::Probe();
    _exit(probed.code() == Code::kUnsupported && probed.message().find("vm.unprivileged_userfaultfd") != std::string::npos ? 0
                                                                                                                           : 1);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace kedge::os

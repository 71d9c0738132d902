// Pages that were written: what is told, and that nothing done to the memory meanwhile hides a write. Where this machine cannot
// tell, only that it says why.
#include "os/memory/write_tracking.h"

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

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "os/memory/mapping.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kLargePageBytes = size_t{2} << 20;
constexpr size_t kTrackedBytes = 4 * kLargePageBytes;

// Private anonymous memory at a multiple of the large page.
class Memory {
 public:
  explicit Memory(size_t bytes = kTrackedBytes, int advice = MADV_NOHUGEPAGE) : bytes_(bytes) {
    void* const reserved = mmap(nullptr, bytes + kLargePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(reserved, MAP_FAILED);
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(reserved) + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
    data_ = reinterpret_cast<std::byte*>(begin);
    EXPECT_EQ(madvise(data_, bytes_, advice), 0);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() { return data_; }
  std::byte* page(size_t number) { return data_ + number * page_bytes_; }
  size_t bytes() const { return bytes_; }
  size_t page_bytes() const { return page_bytes_; }
  void Fill(int value) { std::memset(data_, value, bytes_); }

 private:
  const size_t page_bytes_ = PageBytes();
  size_t bytes_;
  std::byte* data_;
};

// In pages of the memory: [first, behind the last).
using PageRuns = std::vector<std::pair<size_t, size_t>>;

class WriteTrackingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto created = WriteTracking::Create();
    if (!created.ok()) GTEST_SKIP() << created.status().ToString();
    tracking_ = std::make_unique<WriteTracking>(std::move(*created));
  }
  // Tracked, and all that was written before taken.
  void Begin(Memory& memory) {
    ASSERT_TRUE(tracking_->Track(memory.data(), memory.bytes()).ok());
    ASSERT_THAT(Take(memory), ElementsAre(std::pair<size_t, size_t>(0, memory.bytes() / memory.page_bytes())));
    ASSERT_THAT(Take(memory), IsEmpty());
  }
  PageRuns Take(Memory& memory) {
    std::vector<MemoryRange> written;
    const Status taken = tracking_->TakeWritten(memory.data(), memory.bytes(), &written);
    EXPECT_TRUE(taken.ok()) << taken.ToString();
    PageRuns runs;
    for (const MemoryRange& range : written) {
      const size_t offset = static_cast<size_t>(range.begin - memory.data());
      EXPECT_EQ(offset % memory.page_bytes(), 0u);
      runs.emplace_back(offset / memory.page_bytes(), (offset + range.bytes) / memory.page_bytes());
    }
    return runs;
  }
  Status TakeFails(Memory& memory) {
    std::vector<MemoryRange> written{{memory.data(), 1}};
    const Status taken = tracking_->TakeWritten(memory.data(), memory.bytes(), &written);
    EXPECT_FALSE(taken.ok());
    EXPECT_THAT(written, IsEmpty());
    // It is tracked no longer.
    EXPECT_EQ(tracking_->TakeWritten(memory.data(), memory.bytes(), &written).code(), Code::kFailedPrecondition);
    return taken;
  }

  std::unique_ptr<WriteTracking> tracking_;
};

TEST_F(WriteTrackingTest, TellsEachWrittenPageOnce) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  *memory.page(3) = *memory.page(4) = *memory.page(700) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(3, 5), std::pair(700, 701)));
  EXPECT_THAT(Take(memory), IsEmpty());
  *memory.page(4) = std::byte{2};  // an equal byte is a write, too
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(4, 5)));
}

TEST_F(WriteTrackingTest, TellsMoreRangesThanOneScanHolds) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  const size_t pages = memory.bytes() / memory.page_bytes();
  PageRuns expected;
  for (size_t page = 0; page < pages; page += 2) {
    *memory.page(page) = std::byte{2};
    expected.emplace_back(page, page + 1);
  }
  EXPECT_EQ(Take(memory), expected);
  EXPECT_THAT(Take(memory), IsEmpty());
}

TEST_F(WriteTrackingTest, BytesThatShareAPageWithOtherMemoryAlwaysCount) {
  Memory memory;
  memory.Fill(1);
  std::byte* const data = memory.page(1) - 100;
  const size_t bytes = 2 * memory.page_bytes() + 150;
  ASSERT_TRUE(tracking_->Track(data, bytes).ok());
  std::vector<MemoryRange> written;
  ASSERT_TRUE(tracking_->TakeWritten(data, bytes, &written).ok());
  EXPECT_THAT(written, ElementsAre(MemoryRange{data, bytes}));
  ASSERT_TRUE(tracking_->TakeWritten(data, bytes, &written).ok());
  EXPECT_THAT(written, ElementsAre(MemoryRange{data, 100}, MemoryRange{memory.page(3), 50}));
  *memory.page(1) = std::byte{2};
  ASSERT_TRUE(tracking_->TakeWritten(data, bytes, &written).ok());
  EXPECT_THAT(written, ElementsAre(MemoryRange{data, 100 + memory.page_bytes()}, MemoryRange{memory.page(3), 50}));
}

// The kernel splits a huge page at its first write: until then it is told whole, then by its pages.
TEST_F(WriteTrackingTest, HugePagesAreToldWholeAndByTheirPagesOnceWritten) {
  Memory memory(kTrackedBytes, MADV_HUGEPAGE);
  memory.Fill(1);
  Begin(memory);
  *memory.page(600) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(600, 601)));
  *memory.page(601) = *memory.page(5) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(5, 6), std::pair(601, 602)));
  EXPECT_EQ(*memory.page(602), std::byte{1});
}

TEST_F(WriteTrackingTest, PagesNeverTouchedAreToldWhenTheyAreWrittenAndNotWhenRead) {
  for (const int advice : {MADV_NOHUGEPAGE, MADV_HUGEPAGE}) {
    Memory memory(kTrackedBytes, advice);
    Begin(memory);
    EXPECT_EQ(*memory.page(9), std::byte{0});
    EXPECT_THAT(Take(memory), IsEmpty());
    *memory.page(9) = *memory.page(1500) = std::byte{1};
    EXPECT_THAT(Take(memory), ElementsAre(std::pair(9, 10), std::pair(1500, 1501)));
    tracking_->Untrack(memory.data());
  }
}

TEST_F(WriteTrackingTest, MemoryGivenBackCountsAsWritten) {
  for (const int advice : {MADV_NOHUGEPAGE, MADV_HUGEPAGE}) {
    Memory memory(kTrackedBytes, advice);
    memory.Fill(1);
    Begin(memory);
    // Some pages, and a range that takes its page tables along.
    ASSERT_EQ(madvise(memory.page(3), 2 * memory.page_bytes(), MADV_DONTNEED), 0);
    ASSERT_EQ(madvise(memory.page(512), kLargePageBytes, MADV_DONTNEED), 0);
    EXPECT_THAT(Take(memory), ElementsAre(std::pair(3, 5), std::pair(512, 1024)));
    EXPECT_EQ(*memory.page(4), std::byte{0});
    EXPECT_THAT(Take(memory), IsEmpty());
    *memory.page(513) = std::byte{2};
    EXPECT_THAT(Take(memory), ElementsAre(std::pair(513, 514)));
    tracking_->Untrack(memory.data());
  }
}

TEST_F(WriteTrackingTest, UnmappedMemoryIsAnErrorAndTrackedNoLonger) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  ASSERT_EQ(munmap(memory.page(7), memory.page_bytes()), 0);
  EXPECT_EQ(TakeFails(memory).code(), Code::kMismatch);
  // Also all of it, and at either end.
  Memory whole, begin, end;
  for (Memory* each : {&whole, &begin, &end}) Begin(*each);
  ASSERT_EQ(munmap(whole.data(), whole.bytes()), 0);
  ASSERT_EQ(munmap(begin.data(), begin.page_bytes()), 0);
  ASSERT_EQ(munmap(end.page(end.bytes() / end.page_bytes() - 1), end.page_bytes()), 0);
  for (Memory* each : {&whole, &begin, &end}) EXPECT_EQ(TakeFails(*each).code(), Code::kMismatch);
}

TEST_F(WriteTrackingTest, MemoryMappedAnewIsAnErrorAndCanBeTrackedAgain) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  void* const anew =
      mmap(memory.page(512), memory.page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(anew, memory.page(512));
  EXPECT_EQ(TakeFails(memory).code(), Code::kMismatch);
  Begin(memory);
  *memory.page(512) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(512, 513)));
}

TEST_F(WriteTrackingTest, MovedMemoryIsAnErrorAlsoWhereItsPlaceStaysMapped) {
  for (const int flags : {0, MREMAP_DONTUNMAP}) {
    Memory memory, elsewhere;
    memory.Fill(1);
    Begin(memory);
    void* const moved =
        mremap(memory.data(), memory.bytes(), memory.bytes(), MREMAP_MAYMOVE | MREMAP_FIXED | flags, elsewhere.data());
    ASSERT_EQ(moved, elsewhere.data());
    std::vector<MemoryRange> written;
    const Status taken = tracking_->TakeWritten(memory.data(), memory.bytes(), &written);
    // What is left behind is empty: an error, or all of it written.
    if (flags == 0 || !taken.ok()) {
      EXPECT_EQ(taken.code(), Code::kMismatch);
    } else {
      EXPECT_THAT(written, ElementsAre(MemoryRange{memory.data(), memory.bytes()}));
    }
    tracking_->Untrack(memory.data());
    elsewhere.Fill(2);  // where it is now nothing is protected
    Begin(elsewhere);
    tracking_->Untrack(elsewhere.data());
  }
}

TEST_F(WriteTrackingTest, MemoryThatShrankAndGrewCountsAsWrittenThere) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  const size_t half = memory.bytes() / 2;
  ASSERT_EQ(mremap(memory.data(), memory.bytes(), half, 0), memory.data());
  if (mremap(memory.data(), half, memory.bytes(), 0) != memory.data()) GTEST_SKIP() << "something else lies behind it by now";
  std::vector<MemoryRange> written;
  const Status taken = tracking_->TakeWritten(memory.data(), memory.bytes(), &written);
  if (taken.ok()) {
    EXPECT_THAT(written, ElementsAre(MemoryRange{memory.data() + half, half}));
  }
}

TEST_F(WriteTrackingTest, AChildsWritesAreNotItsParents) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  std::array<int, 2> pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    *memory.page(3) = std::byte{7};
    std::vector<MemoryRange> written;
    const bool refuses = tracking_->TakeWritten(memory.data(), memory.bytes(), &written).code() == Code::kFailedPrecondition &&
                         tracking_->Track(memory.data(), memory.bytes()).code() == Code::kFailedPrecondition;
    tracking_.reset();  // of the parent's memory nothing is undone
    char go = 0;
    _exit(read(pipe_ends[0], &go, 1) == 1 && refuses ? 7 : 8);
  }
  // While the child shares the pages, and after it.
  *memory.page(5) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(5, 6)));
  ASSERT_EQ(write(pipe_ends[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_EQ(*memory.page(3), std::byte{1});
  EXPECT_THAT(Take(memory), IsEmpty());
  *memory.page(6) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(6, 7)));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(WriteTrackingTest, WhatTheKernelWritesCounts) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  const UniqueFd zeros(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(read(zeros.get(), memory.page(10) + 1, 2 * memory.page_bytes()), static_cast<ssize_t>(2 * memory.page_bytes()));
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(10, 13)));
  EXPECT_EQ(*(memory.page(11)), std::byte{0});
  const testing::TemporaryFolder folder;
  const UniqueFd file(open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(write(file.get(), memory.page(0), memory.page_bytes()), static_cast<ssize_t>(memory.page_bytes()));
  EXPECT_THAT(Take(memory), IsEmpty()) << "it was only read";
  ASSERT_EQ(pread(file.get(), memory.page(20), memory.page_bytes(), 0), static_cast<ssize_t>(memory.page_bytes()));
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(20, 21)));
}

TEST_F(WriteTrackingTest, ProtectionByTheApplicationChangesNothing) {
  Memory memory;
  memory.Fill(1);
  Begin(memory);
  *memory.page(3) = std::byte{2};
  ASSERT_EQ(mprotect(memory.page(2), 4 * memory.page_bytes(), PROT_READ), 0);
  ASSERT_EQ(mprotect(memory.page(2), 4 * memory.page_bytes(), PROT_READ | PROT_WRITE), 0);
  *memory.page(5) = std::byte{2};
  EXPECT_THAT(Take(memory), ElementsAre(std::pair(3, 4), std::pair(5, 6)));
}

TEST_F(WriteTrackingTest, RefusesMemoryThatOthersMayWrite) {
  const testing::TemporaryFolder folder;
  const UniqueFd file(open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), kTrackedBytes), 0);
  struct Case {
    const char* what;
    int protection;
    int flags;
    int fd;
  };
  for (const Case& each : {Case{"shared", PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1},
                           Case{"shared file", PROT_READ | PROT_WRITE, MAP_SHARED, file.get()},
                           Case{"private file", PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get()},
                           Case{"read-only", PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1}}) {
    void* const memory = mmap(nullptr, kTrackedBytes, each.protection, each.flags, each.fd, 0);
    ASSERT_NE(memory, MAP_FAILED) << each.what;
    const Status tracked = tracking_->Track(memory, kTrackedBytes);
    EXPECT_EQ(tracked.code(), Code::kUnsupported) << each.what;
    EXPECT_THAT(tracked.message(), HasSubstr("only private anonymous memory")) << each.what;
    munmap(memory, kTrackedBytes);
  }
  // A part is enough.
  Memory memory;
  void* const inside =
      mmap(memory.page(700), memory.page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(inside, memory.page(700));
  EXPECT_EQ(tracking_->Track(memory.data(), memory.bytes()).code(), Code::kUnsupported);
  ASSERT_EQ(munmap(memory.page(700), memory.page_bytes()), 0);
  EXPECT_EQ(tracking_->Track(memory.data(), memory.bytes()).code(), Code::kInvalidArgument);
  EXPECT_EQ(tracking_->Track(memory.data() + 1, memory.page_bytes()).code(), Code::kUnsupported) << "no page is whole";
}

TEST_F(WriteTrackingTest, MemoryIsTrackedOnce) {
  Memory memory;
  Begin(memory);
  EXPECT_EQ(tracking_->Track(memory.page(3), memory.page_bytes()).code(), Code::kBusy);
  WriteTracking another = WriteTracking::Create().value();
  EXPECT_EQ(another.Track(memory.data(), memory.bytes()).code(), Code::kBusy);
  tracking_->Untrack(memory.data());
  EXPECT_TRUE(another.Track(memory.data(), memory.bytes()).ok());
  // Writes of the time between are not forgotten: all of it counts.
  std::vector<MemoryRange> written;
  ASSERT_TRUE(another.TakeWritten(memory.data(), memory.bytes(), &written).ok());
  EXPECT_THAT(written, ElementsAre(MemoryRange{memory.data(), memory.bytes()}));
}

// A writer puts ever new numbers into pages; each take copies what it is told. Whatever the order of the two, a last take after
// the writer's end leaves a copy that is equal.
TEST_F(WriteTrackingTest, NoWriteIsLostBetweenTakes) {
  Memory memory(kLargePageBytes), copy(kLargePageBytes);
  memory.Fill(0);
  Begin(memory);
  const size_t pages = memory.bytes() / memory.page_bytes();
  constexpr int kRounds = 2000;
  constexpr uint64_t kWrites = 100'000;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> writes{0};
  std::thread writer([&] {
    uint64_t number = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      ++number;
      auto* const word = reinterpret_cast<uint64_t*>(memory.page(number * 7919 % pages));
      std::atomic_ref<uint64_t>(*word).store(number, std::memory_order_relaxed);
      writes.store(number, std::memory_order_relaxed);
    }
  });
  auto take = [&] {
    for (const auto& [first, end] : Take(memory)) {
      for (size_t page = first; page < end; ++page) {
        auto* const word = reinterpret_cast<uint64_t*>(memory.page(page));
        *reinterpret_cast<uint64_t*>(copy.page(page)) = std::atomic_ref<uint64_t>(*word).load(std::memory_order_relaxed);
      }
    }
  };
  for (int round = 0; round < kRounds || writes.load() < kWrites; ++round) take();
  stop = true;
  writer.join();
  take();
  EXPECT_EQ(std::memcmp(memory.data(), copy.data(), memory.bytes()), 0);
}

// In a child with a seccomp filter under which the call fails with `error`: Create must say so, and nothing else happen.
int CreateUnderFilter(uint32_t call, uint32_t second_argument, int error) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + sizeof(uint64_t)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second_argument, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(9);
    const auto created = WriteTracking::Create();
    const bool says_why = created.status().code() == Code::kUnsupported &&
                          created.status().message().find(std::strerror(error)) != std::string::npos;
    _exit(says_why ? 7 : 8);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_F(WriteTrackingTest, SaysWhyItCannotBeHad) {
  EXPECT_EQ(CreateUnderFilter(SYS_userfaultfd, 0, EPERM), 7);
  EXPECT_EQ(CreateUnderFilter(SYS_userfaultfd, 0, ENOSYS), 7);
  constexpr uint32_t kApi = 0xc018aa3f, kRegister = 0xc020aa00, kPageScan = 0xc0606610;
  EXPECT_EQ(CreateUnderFilter(SYS_ioctl, kApi, EINVAL), 7) << "an older kernel";
  EXPECT_EQ(CreateUnderFilter(SYS_ioctl, kRegister, EPERM), 7);
  EXPECT_EQ(CreateUnderFilter(SYS_ioctl, kPageScan, ENOTTY), 7) << "an older kernel";
}

TEST(WriteTracking, IsThereOrSaysWhyNot) {
  const auto created = WriteTracking::Create();
  if (created.ok()) return;
  EXPECT_EQ(created.status().code(), Code::kUnsupported);
  EXPECT_THAT(created.status().message(), HasSubstr("cannot be told"));
}

}  // namespace
}  // namespace kedge::os

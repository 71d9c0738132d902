// Reserved addresses: that nothing else gets them, who lies there already, and what memory is behind them.
#include "os/memory/reserved_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "os/files/files.h"
#include "os/memory/mapping.h"

namespace kedge::os {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRangeAddress = 0x550000000000;
constexpr uint64_t kRangeBytes = uint64_t{1} << 30;

// Of /proc/self/statm: all addresses, and those with memory.
struct Pages {
  size_t all = 0;
  size_t resident = 0;
};
Pages PagesNow() {
  const std::string statm = ReadFile(SystemFileSystem(), "/proc/self/statm", 4096).value();
  return {std::stoul(statm), std::stoul(statm.substr(statm.find(' ')))};
}
size_t ResidentPages() {
  return PagesNow().resident;
}

// How a child ends that runs `body`.
template <typename Body>
int InChild(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it, and end the process otherwise
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(ReservedRangeTest, LiesWhereItIsAskedForAndHasNoMemory) {
  const size_t before = ResidentPages();
  auto range = ReservedRange::At(kRangeAddress, kRangeBytes);
  ASSERT_TRUE(range.ok()) << range.status().ToString();
  EXPECT_EQ(range->address(), kRangeAddress);
  EXPECT_LT(ResidentPages(), before + kRangeBytes / PageBytes() / 100);
  std::byte* const first = range->data();
  const int status = InChild([&] { *static_cast<volatile std::byte*>(first) = std::byte{1}; });
  EXPECT_TRUE(WIFSIGNALED(status)) << "an access to what is only reserved ends the process";
}

TEST(ReservedRangeTest, WhatIsTakenIsRefusedAndNamed) {
  auto range = ReservedRange::At(kRangeAddress, kRangeBytes);
  ASSERT_TRUE(range.ok());
  const auto again = ReservedRange::At(kRangeAddress - PageBytes(), kRangeBytes);
  EXPECT_EQ(again.status().code(), Code::kAlreadyExists);
  EXPECT_THAT(again.status().message(), HasSubstr("memory without a name at 0x550000000000"));
  range = ReservedRange();
  EXPECT_TRUE(ReservedRange::At(kRangeAddress - PageBytes(), kRangeBytes).ok()) << "what has gone is free";

  // Not the address of a variable: sanitizers have these elsewhere.
  const uint64_t on_stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) / PageBytes() * PageBytes();
  EXPECT_THAT(ReservedRange::At(on_stack, PageBytes()).status().message(), HasSubstr("[stack]"));
}

TEST(ReservedRangeTest, MoreThanTheProcessMayHaveIsRefused) {
  const int status = InChild([] {
    const uint64_t bytes = PagesNow().all * PageBytes() + (uint64_t{1} << 30);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    const auto range = ReservedRange::At(kRangeAddress, uint64_t{64} << 30);
    _exit(range.status().code() == Code::kNoSpace ? 7 : 1);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(ReservedRange::At(uint64_t{1} << 62, kRangeBytes).status().code(), Code::kNoSpace)
      << "no processor has such addresses";
}

TEST(ReservedRangeTest, MemoryComesAndGoesInPieces) {
  auto range = ReservedRange::At(kRangeAddress, kRangeBytes);
  ASSERT_TRUE(range.ok());
  constexpr uint64_t kOffset = uint64_t{8} << 20, kPiece = uint64_t{32} << 20;
  ASSERT_TRUE(range->Commit(kOffset, kPiece).ok());
  EXPECT_EQ(range->data()[kOffset], std::byte{0});
  std::memset(range->data() + kOffset, 7, kPiece);
  const size_t with = ResidentPages();
  ASSERT_TRUE(range->GiveBack(kOffset, kPiece).ok());
  EXPECT_LT(ResidentPages() + kPiece / PageBytes() / 2, with) << "the memory has gone back";
  ASSERT_TRUE(range->Commit(kOffset, kPiece).ok());
  EXPECT_EQ(range->data()[kOffset + kPiece - 1], std::byte{0}) << "and is new when it comes again";
  std::memset(range->data() + kOffset, 7, kPiece);
  range->Clear(kOffset, kPiece / 2);
  EXPECT_EQ(range->data()[kOffset], std::byte{0});
  EXPECT_EQ(range->data()[kOffset + kPiece / 2], std::byte{7});
}

TEST(ReservedRangeTest, GrowsWhereNothingLiesBehind) {
  auto range = ReservedRange::At(kRangeAddress, kRangeBytes);
  ASSERT_TRUE(range.ok());
  ASSERT_TRUE(range->Extend(2 * kRangeBytes).ok());
  EXPECT_EQ(range->bytes(), 2 * kRangeBytes);
  EXPECT_TRUE(range->Commit(2 * kRangeBytes - PageBytes(), PageBytes()).ok());
  const auto behind = ReservedRange::At(kRangeAddress + 2 * kRangeBytes, kRangeBytes);
  ASSERT_TRUE(behind.ok());
  EXPECT_EQ(range->Extend(4 * kRangeBytes).code(), Code::kAlreadyExists);
  EXPECT_EQ(range->bytes(), 2 * kRangeBytes);
}

TEST(ReservedRangeTest, WhatIsLeftStaysMappedAndNothingElse) {
  auto range = ReservedRange::At(kRangeAddress, kRangeBytes);
  ASSERT_TRUE(range.ok());
  const size_t page = PageBytes();
  ASSERT_TRUE(range->Commit(0, 4 * page).ok());
  std::byte* const data = range->data();
  data[2 * page] = std::byte{5};
  range->Leave({{2 * page, page}});
  EXPECT_FALSE(range->valid());
  EXPECT_EQ(data[2 * page], std::byte{5});
  EXPECT_TRUE(ReservedRange::At(kRangeAddress, 2 * page).ok());
  EXPECT_TRUE(ReservedRange::At(kRangeAddress + 3 * page, kRangeBytes).ok());
  EXPECT_FALSE(ReservedRange::At(kRangeAddress + 2 * page, page).ok());
  munmap(data + 2 * page, page);
}

}  // namespace
}  // namespace kedge::os

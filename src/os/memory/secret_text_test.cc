#include "os/memory/secret_text.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/random.h"
#include "os/testing/memory_search.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::IsInDumpedMemory;

constexpr size_t kLetters = 64;  // more than a string holds in itself
constexpr int kIsLimited = 2;

// So that it need not lie anywhere to be known.
char Letter(Random& random) {
  return static_cast<char>('a' + random.Below(26));
}

std::string Text(uint64_t seed) {
  Random random(seed);
  std::string text(kLetters, ' ');
  for (char& letter : text) letter = Letter(random);
  return text;
}

TEST(SecretText, IsHeldAndCopied) {
  EXPECT_TRUE(SecretText().empty());
  EXPECT_TRUE(SecretText("").empty());
  const SecretText secret("hidden");
  const SecretText copy = secret;
  EXPECT_EQ(copy.view(), "hidden");
  EXPECT_EQ(copy.view().data(), secret.view().data()) << "in one place";
  EXPECT_EQ(copy, SecretText("hidden"));
  EXPECT_FALSE(copy == SecretText("other"));
}

TEST(SecretText, WhatItWasMadeOfIsWiped) {
  std::string text = Text(1);
  const char* const data = text.data();
  const SecretBytes before(text.size());
  CopySecret(text, before.bytes());
  ASSERT_TRUE(IsInDumpedMemory(before.bytes()));
  const SecretText secret(std::move(text));
  EXPECT_NE(secret.view().data(), data);
  EXPECT_EQ(secret.view(), before.view());
  EXPECT_FALSE(IsInDumpedMemory(before.bytes().last(kLetters / 2))) << "malloc overwrites the beginning of what is freed";

  std::string longer(kLetters, 'x');
  longer.resize(3);
  Wipe(&longer);
  EXPECT_TRUE(longer.empty());
  EXPECT_EQ(std::string_view(longer.data(), kLetters), std::string(kLetters, '\0')) << "also behind its end";
}

// A real core file of a process that has a secret.
TEST(SecretText, IsInNoCoreFile) {
  std::ifstream pattern_file("/proc/sys/kernel/core_pattern");
  const std::string pattern{std::istreambuf_iterator<char>(pattern_file), {}};
  if (pattern.starts_with('|') || pattern.find('/') != std::string::npos) {
    GTEST_SKIP() << "the kernel brings core files elsewhere: " << pattern;
  }
  constexpr uint64_t kSecret = 11, kOpen = 12;
  const testing::TemporaryFolder folder;
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    rlimit limit{};
    getrlimit(RLIMIT_CORE, &limit);
    if (limit.rlim_max != RLIM_INFINITY) _exit(kIsLimited);
    limit.rlim_cur = limit.rlim_max;
    const SecretText secret(Text(kSecret));
    const std::string open = Text(kOpen);
    const bool is_ready = setrlimit(RLIMIT_CORE, &limit) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0 &&
                          chdir(folder.path().c_str()) == 0 && !secret.empty() && !open.empty();
    if (!is_ready) _exit(1);
    signal(SIGABRT, SIG_DFL);
    abort();
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kIsLimited) GTEST_SKIP() << "core files are limited here";
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  if (!WCOREDUMP(status)) GTEST_SKIP() << "this process makes no core file";
  std::string core;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream bytes(file.path(), std::ios::binary);
    core.append(std::istreambuf_iterator<char>(bytes), {});
  }
  EXPECT_NE(core.find(Text(kOpen)), std::string::npos) << "it has what is no secret";
  EXPECT_EQ(core.find(Text(kSecret)), std::string::npos);
}

}  // namespace
}  // namespace kedge::os

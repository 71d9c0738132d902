#include "os/process/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "os/files/files.h"
#include "os/process/process.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::TemporaryFolder;

ChildOptions Shell(const std::string& script) {
  return {"sh", {"-c", script}, {}, {}, {}};
}

ChildEnd EndOf(const Child& child) {
  const ChildEnd end = child.End();
  EXPECT_EQ(kill(child.process_id(), 0), 0) << "the id is not kept";
  child.Reap();
  return end;
}

TEST(Child, EndsWithItsCodeOrSignal) {
  const auto exits = Child::Start(Shell("exit 7"));
  ASSERT_TRUE(exits.ok()) << exits.status().ToString();
  EXPECT_EQ(EndOf(*exits).exit_code, 7);
  const auto dies = Child::Start(Shell("kill -USR1 $$"));
  ASSERT_TRUE(dies.ok());
  EXPECT_EQ(EndOf(*dies).signal, SIGUSR1);
}

TEST(Child, ShowsItsEndByItsDescriptor) {
  const auto child = Child::Start(Shell("exec sleep 600"));
  ASSERT_TRUE(child.ok());
  pollfd end = {child->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 0), 0);
  child->Kill();
  EXPECT_EQ(poll(&end, 1, 10'000), 1);
  EXPECT_EQ(EndOf(*child).signal, SIGKILL);
  child->Kill();
}

TEST(Child, HasTheEnvironmentAndDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reads(ends[0]);
  const UniqueFd writes(ends[1]);
  ASSERT_EQ(setenv("KEDGE_CHILD_TEST", "former", 1), 0);
  ChildOptions options = Shell("test \"$KEDGE_CHILD_TEST\" = new && test -n \"$PATH\" && echo said >&$DESCRIPTOR");
  options.set = {{"KEDGE_CHILD_TEST", "new"}, {"DESCRIPTOR", std::to_string(writes.get())}};
  options.descriptors = {writes.get()};
  const auto child = Child::Start(options);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(EndOf(*child).exit_code, 0);
  char text[8] = {};
  EXPECT_EQ(read(reads.get(), text, sizeof text), 5);
  unsetenv("KEDGE_CHILD_TEST");
}

TEST(Child, ReadsTheInputThatItIsGiven) {
  ChildOptions options = Shell("read word && test \"$word\" = word && test $(cat | wc -c) = 300001 && ! read word");
  options.input = "word\n" + std::string(300'000, 'x') + "\n";
  const auto child = Child::Start(options);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(EndOf(*child).exit_code, 0);
}

TEST(Child, NamesAProgramThatIsNotThere) {
  const auto child = Child::Start({"/nowhere/program", {}, {}, {}, {}});
  ASSERT_EQ(child.status().code(), Code::kNotFound);
  EXPECT_NE(child.status().message().find("/nowhere/program"), std::string::npos);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left over";
}

TEST(Child, EndsWithWhoeverStartedIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/child";
  const pid_t launcher = fork();
  if (launcher == 0) {
    const auto child = Child::Start(Shell("echo $$ > " + path + ".new; mv " + path + ".new " + path + "; exec sleep 600"));
    while (child.ok()) pause();
    _exit(1);
  }
  Result<std::string> text = Status(Code::kNotFound, path);
  for (int i = 0; i < 2000 && !text.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    text = ReadFile(SystemFileSystem(), path, 100);
  }
  ASSERT_TRUE(text.ok());
  const auto child = IdentityOf(std::stoi(*text));
  ASSERT_TRUE(child.ok());
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  for (int i = 0; i < 2000 && IsAlive(*child); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(IsAlive(*child));
}

}  // namespace
}  // namespace kedge::os

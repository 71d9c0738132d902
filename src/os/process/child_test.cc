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

TEST(Child, ItsOutputIsKept) {
  ChildOptions options = Shell("echo said; sh -c 'echo more'");
  options.keeps_output = true;
  const auto child = Child::Start(options);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(EndOf(*child).exit_code, 0);
  EXPECT_EQ(child->Output(100).value(), "said\nmore\n");
  EXPECT_EQ(child->Output(4).value(), "said");
  const auto mute = Child::Start(Shell("true"));
  ASSERT_TRUE(mute.ok());
  EXPECT_FALSE(mute->Output(4).ok());
  EXPECT_EQ(EndOf(*mute).exit_code, 0);
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

// A child of a process that is killed then; it has said its number at `path`.
ProcessIdentity ChildOfTheDead(const std::string& path, bool outlives) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    ChildOptions options = Shell("echo $$ > " + path + ".new; mv " + path + ".new " + path + "; exec sleep 600");
    options.outlives = outlives;
    const auto child = Child::Start(options);
    while (child.ok()) pause();
    _exit(1);
  }
  Result<std::string> text = Status(Code::kNotFound, path);
  for (int i = 0; i < 2000 && !text.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    text = ReadFile(SystemFileSystem(), path, 100);
  }
  EXPECT_TRUE(text.ok());
  const auto child = IdentityOf(text.ok() ? std::stoi(*text) : 0);
  EXPECT_TRUE(child.ok());
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  return child.ok() ? *child : ProcessIdentity();
}

TEST(Child, EndsWithWhoeverStartedIt) {
  const TemporaryFolder folder;
  const ProcessIdentity child = ChildOfTheDead(folder / "child", /*outlives=*/false);
  for (int i = 0; i < 2000 && IsAlive(child); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(IsAlive(child));
}

TEST(Child, MayOutliveWhoeverStartedItAndBeAdopted) {
  const TemporaryFolder folder;
  const ProcessIdentity child = ChildOfTheDead(folder / "child", /*outlives=*/true);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(IsAlive(child));
  const auto adopted = Child::Adopt(child);
  ASSERT_TRUE(adopted.ok()) << adopted.status().ToString();
  EXPECT_EQ(adopted->identity(), child);
  EXPECT_FALSE(adopted->HasEnded());
  adopted->Kill();
  for (int i = 0; i < 2000 && !adopted->HasEnded(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(adopted->HasEnded());
  EXPECT_FALSE(IsAlive(child));
  adopted->Reap();
  EXPECT_EQ(Child::Adopt({child.process_id, child.start_ticks + 1}).status().code(), Code::kNotFound) << "another process";
}

TEST(Child, MayWriteOnWhereNobodyReads) {
  ChildOptions options = Shell("{ echo lost || exit 3; } 2>/dev/null >&$DESCRIPTOR");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd writes(ends[1]);
  close(ends[0]);
  options.set = {{"DESCRIPTOR", std::to_string(writes.get())}};
  options.descriptors = {writes.get()};
  const auto dies = Child::Start(options);
  ASSERT_TRUE(dies.ok());
  EXPECT_EQ(EndOf(*dies).signal, SIGPIPE);
  options.ignores_broken_pipes = true;
  const auto lives = Child::Start(options);
  ASSERT_TRUE(lives.ok());
  EXPECT_EQ(EndOf(*lives).exit_code, 3);
}

}  // namespace
}  // namespace kedge::os

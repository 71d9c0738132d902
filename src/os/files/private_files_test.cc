// What another user may have prepared, or do meanwhile, where our folders are to be; and what users legitimately have.
#include "os/files/private_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "os/files/files.h"
#include "os/testing/other_user.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::AsAnotherUser;
using testing::kOtherUser;
using testing::SharedFolder;
using testing::TemporaryFolder;

class PrivateFilesTest : public ::testing::TestWithParam<Step> {
 protected:
  void SetUp() override {
    if (!testing::CanPlayAnotherUser()) GTEST_SKIP() << "only root can be several users";
    if (GetParam() == Step::kBeneath && BestStep() != Step::kBeneath) GTEST_SKIP() << "no openat2 here";
  }
  // A file there, with the folders on the way.
  Status Put(const std::string& path) {
    KEDGE_RETURN_IF_ERROR(MakeFolders(*files_, ParentPath(path), 0700, false));
    return WriteFileDurably(*files_, path, "ours", "test");
  }
  void ExpectRefused(const Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), Code::kPermission) << status.ToString();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  std::string ContentOf(const std::string& path) {
    const auto text = ReadFile(SystemFileSystem(), path, 100);
    return text.ok() ? *text : text.status().ToString();
  }

  const std::unique_ptr<FileSystem> files_ = MakePrivateFileSystem(GetParam());
  const SharedFolder shared_;        // everybody may write there
  const TemporaryFolder elsewhere_;  // ours alone, and not meant
};
INSTANTIATE_TEST_SUITE_P(Steps, PrivateFilesTest, ::testing::Values(Step::kBeneath, Step::kPlain),
                         [](const auto& step) { return step.param == Step::kBeneath ? "Beneath" : "Plain"; });

TEST_P(PrivateFilesTest, MakeOurFoldersInASharedOne) {
  ASSERT_TRUE(Put(shared_ / "ours/deeper/file").ok()) << Put(shared_ / "ours/deeper/file").ToString();
  EXPECT_EQ(SystemFileSystem().Stat(shared_ / "ours")->mode, 0700u);
  EXPECT_TRUE(RemoveTree(*files_, shared_ / "ours").ok());
  EXPECT_FALSE(*Exists(SystemFileSystem(), shared_ / "ours"));
}

TEST_P(PrivateFilesTest, RefuseAFolderOfAnotherUserAtEveryDepth) {
  ASSERT_TRUE(AsAnotherUser([&] { return mkdir((shared_ / "his").c_str(), 0777) == 0; }));
  ASSERT_EQ(mkdir((shared_ / "his/ours").c_str(), 0700), 0);
  const std::string part =
      fmt::format("{} belongs to user 65534 (mode 0777): below {}, where others may write (user 0, mode 1777)", shared_ / "his",
                  shared_.path().substr(0, 4));
  for (const char* path : {"his/file", "his/ours/file", "his/ours/deeper/file"}) {
    ExpectRefused(Put(shared_ / path), part);
    ExpectRefused(files_->Stat(shared_ / path).status(), part);
    ExpectRefused(files_->Unlink(shared_ / path), part);
    ExpectRefused(OpenPrivate(shared_ / path, O_WRONLY | O_CREAT).status(), part);
  }
  ExpectRefused(files_->List(shared_ / "his").status(), part);
  ExpectRefused(RemoveTree(*files_, shared_ / "his"), part);
  EXPECT_TRUE(*Exists(SystemFileSystem(), shared_ / "his/ours"));
}

TEST_P(PrivateFilesTest, RefuseAFolderThatOthersMayChange) {
  ASSERT_EQ(mkdir((shared_ / "open").c_str(), 0700), 0);
  ASSERT_EQ(chmod((shared_ / "open").c_str(), 0775), 0);
  ExpectRefused(Put(shared_ / "open/ours/file"), "chmod go-w");
  ASSERT_EQ(chmod((shared_ / "open").c_str(), 0755), 0);
  EXPECT_TRUE(Put(shared_ / "open/ours/file").ok()) << "others may look into a folder on the way";
  ExpectRefused(Put(shared_ / "open/file"), "must be a folder of user 0 with mode 0700; found user 0, mode 0755");
}

TEST_P(PrivateFilesTest, FollowNoLinkInASharedFolder) {
  ASSERT_TRUE(AsAnotherUser([&] { return symlink(elsewhere_.path().c_str(), (shared_ / "his").c_str()) == 0; }));
  ASSERT_EQ(symlink(elsewhere_.path().c_str(), (shared_ / "own").c_str()), 0);
  for (const char* link : {"his", "own"}) {
    ExpectRefused(Put(shared_ / link + "/file"), "is a symbolic link (user");
    ExpectRefused(files_->List(shared_ / link).status(), "is a symbolic link (user");
  }
  EXPECT_TRUE(RemoveTree(*files_, shared_ / "his").ok()) << "the link goes itself";
  EXPECT_TRUE(*Exists(SystemFileSystem(), elsewhere_.path()));
  EXPECT_TRUE(SystemFileSystem().List(elsewhere_.path())->empty());
}

TEST_P(PrivateFilesTest, OpenNoLinkAndNoFileOfAnotherUser) {
  ASSERT_TRUE(Put(shared_ / "ours/file").ok());
  ASSERT_EQ(symlink((elsewhere_ / "target").c_str(), (shared_ / "ours/link").c_str()), 0);
  const OpenFlags flags = OpenFlags::kWrite | OpenFlags::kCreate;
  ExpectRefused(files_->Open(shared_ / "ours/link", flags).status(), "is a symbolic link");
  EXPECT_FALSE(*Exists(SystemFileSystem(), elsewhere_ / "target"));
  ASSERT_EQ(chown((shared_ / "ours/file").c_str(), kOtherUser, kOtherUser), 0);
  ExpectRefused(files_->Open(shared_ / "ours/file", flags).status(), "belongs to user 65534");
}

TEST_P(PrivateFilesTest, GoWhereLinksOfRootLead) {
  const TemporaryFolder roots("/run");  // where only root may write
  ASSERT_EQ(chmod(roots.path().c_str(), 0755), 0);
  ASSERT_EQ(symlink(shared_.path().c_str(), (roots / "scratch").c_str()), 0);
  const std::string relative = "../" + BaseName(roots.path()) + "/scratch";
  ASSERT_EQ(symlink(relative.c_str(), (roots / "again").c_str()), 0);
  ASSERT_EQ(symlink("loop", (roots / "loop").c_str()), 0);
  ASSERT_TRUE(Put(roots / "scratch/ours/file").ok()) << Put(roots / "scratch/ours/file").ToString();
  ASSERT_TRUE(Put(roots / "again/ours/second").ok()) << Put(roots / "again/ours/second").ToString();
  EXPECT_EQ(ContentOf(shared_ / "ours/file"), "ours");
  EXPECT_EQ(ContentOf(shared_ / "ours/second"), "ours");
  EXPECT_EQ(Put(roots / "loop/file").errno_value(), ELOOP);
  // Beyond it the rules of where it leads hold.
  ASSERT_TRUE(AsAnotherUser([&] { return mkdir((shared_ / "his").c_str(), 0777) == 0; }));
  ExpectRefused(Put(roots / "scratch/his/file"), "belongs to user 65534");
}

TEST_P(PrivateFilesTest, AProjectsFolderMayBeAnotherUsers) {
  const TemporaryFolder roots("/run");
  ASSERT_EQ(chmod(roots.path().c_str(), 0755), 0);
  ASSERT_EQ(mkdir((roots / "project").c_str(), 0700), 0);
  ASSERT_EQ(chown((roots / "project").c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_EQ(chmod((roots / "project").c_str(), 02775), 0);
  EXPECT_TRUE(Put(roots / "project/ours/file").ok()) << Put(roots / "project/ours/file").ToString();
  ASSERT_TRUE(AsAnotherUser([&] { return mkdir((roots / "project/his").c_str(), 0777) == 0; }));
  ExpectRefused(Put(roots / "project/his/ours/file"), "project, where others may write (user 65534, mode 2775)");
}

// In a user namespace that maps one user only, as unprivileged containers have it, root's folders seem to be the overflow user's.
TEST_P(PrivateFilesTest, RootMayBeUnmapped) {
  constexpr uid_t kUser = 12345;
  const TemporaryFolder roots("/run");
  ASSERT_EQ(chmod(roots.path().c_str(), 01777), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kCannot = 77;
    if (setresgid(kUser, kUser, kUser) != 0 || setresuid(kUser, kUser, kUser) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 ||
        unshare(CLONE_NEWUSER) != 0)
      _exit(kCannot);
    std::ofstream map("/proc/self/uid_map");
    if (!(map << fmt::format("{} {} 1\n", kUser, kUser) << std::flush)) _exit(kCannot);
    const Status put = Put(roots / "ours/file");
    if (!put.ok()) std::fprintf(stderr, "%s\n", put.ToString().c_str());
    const bool refused = mkdir((roots / "open").c_str(), 0700) == 0 && chmod((roots / "open").c_str(), 0777) == 0 &&
                         Put(roots / "open/file").code() == Code::kPermission;
    _exit(put.ok() && refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(status, 0);
}

// Another user who may write in the folder above swaps ours for a link while we write there.
TEST_P(PrivateFilesTest, WriteOnlyIntoWhatWasLookedAt) {
  const TemporaryFolder roots("/run");
  ASSERT_EQ(chmod(roots.path().c_str(), 0777), 0);  // without the sticky bit: he may rename what is ours
  const std::string ours = roots / "ours";
  const std::string aside = roots / "aside";
  ASSERT_TRUE(Put(ours + "/file").ok());
  const pid_t other = fork();
  if (other == 0) {
    if (setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) _exit(1);
    for (;;) {
      (void)rename(ours.c_str(), aside.c_str());
      (void)symlink(elsewhere_.path().c_str(), ours.c_str());
      (void)unlink(ours.c_str());
      (void)rename(aside.c_str(), ours.c_str());
    }
  }
  int written = 0, refused = 0;
  for (int i = 0; i < 20000 && (i < 3000 || written == 0 || refused == 0); ++i) {
    const Status put = files_->Open(ours + "/new", OpenFlags::kWrite | OpenFlags::kCreate).status();
    ++(put.ok() ? written : refused);
  }
  ASSERT_EQ(kill(other, SIGKILL), 0);
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  EXPECT_TRUE(SystemFileSystem().List(elsewhere_.path())->empty());
  EXPECT_GT(written, 0);
  EXPECT_GT(refused, 0) << "nothing was swapped while it was looked at";
}

}  // namespace
}  // namespace kedge::os

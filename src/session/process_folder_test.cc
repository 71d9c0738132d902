// Whose folders go.
#include "session/process_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/files/private_files.h"

namespace kedge {
namespace {

namespace files = std::filesystem;

class ProcessFolder : public ::testing::Test {
 protected:
  ProcessFolder() { files::create_directories(files_); }
  ~ProcessFolder() override { files::remove_all(files::path(files_).parent_path()); }
  void Make(const std::string& name) const {
    files::create_directories(files_ + "/" + name + "/1");
    std::ofstream(files_ + "/" + name + "/1/results") << "of a rank";
  }
  // As a process of now would be called that is gone.
  std::string NameOfDead() const {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const std::string name = ProcessFolderName();
      _exit(write(ends[1], name.data(), name.size()) == static_cast<ssize_t>(name.size()) ? 0 : 1);
    }
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    char name[256];
    const ssize_t bytes = read(ends[0], name, sizeof name);
    close(ends[0]);
    close(ends[1]);
    return {name, bytes > 0 ? static_cast<size_t>(bytes) : 0};
  }
  bool Has(const std::string& name) const { return files::exists(files_ + "/" + name); }

  const std::string files_ = RoutedFilesFolder(files::temp_directory_path() / ("kedge-test-" + std::to_string(getpid())));
};

TEST_F(ProcessFolder, ThoseOfTheDeadGo) {
  const std::string dead = NameOfDead(), own = ProcessFolderName();
  const std::string elsewhere = dead.substr(0, dead.rfind('-', dead.rfind('-') - 1)) + "-1-0123abcd";  // another PID namespace
  for (const std::string& name : {dead, own, elsewhere, std::string("notes")}) Make(name);
  RemoveFoldersOfTheDead(os::PrivateFileSystem(), files_);
  EXPECT_FALSE(Has(dead));
  EXPECT_TRUE(Has(own) && Has(elsewhere) && Has("notes"));
}

TEST_F(ProcessFolder, TheFolderGoesWithTheLast) {
  Make(NameOfDead());
  RemoveFoldersOfTheDead(os::PrivateFileSystem(), files_);
  EXPECT_FALSE(files::exists(files_));
  RemoveFoldersOfTheDead(os::PrivateFileSystem(), files_);
}

}  // namespace
}  // namespace kedge

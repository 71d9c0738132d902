// The folder of a job in which fmirun leaves what a successor needs (job_state.h), of mode 0700:
//   secret     of the job: what the tasks let a successor in for
//   fmirun.N   who has claimed to be the job's N-th fmirun has made it, and holds a lock on it as long as it lives
//   state.N    what that one has written last
// The highest N counts. A successor claims the next one, of several at once only one gets it, and shows it to the tasks, which
// obey nobody with a lower one from then on. Whoever finds a higher one than its own has been replaced.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "fmi/launch/job_state.h"
#include "net/authentication.h"
#include "os/files/file_system.h"

namespace kedge::fmi {

class StateFolder {
 public:
  // A folder of a new job, whole when others see it. kAlreadyExists: there is one.
  static Result<StateFolder> Create(const std::string& path);
  // That of a job whose fmirun may have died: the next number is this process's. kNotFound: there is no job. kBusy: another
  // successor has been faster. kMismatch: it is no such folder.
  static Result<StateFolder> Claim(const std::string& path);
  // Whether the last one that has claimed it lives.
  static Result<bool> IsHeld(const std::string& path);

  const std::string& path() const { return path_; }
  const net::Secret& secret() const { return secret_; }
  uint32_t number() const { return number_; }
  // What any fmirun has written last. kNotFound: nothing.
  Result<JobState> Read() const;
  // Durable when it returns.
  Status Write(const JobState& state) const;
  bool IsReplaced() const;
  // The job has ended.
  void Remove() const;
  // Of a job that nobody follows: nothing where an fmirun lives, or there is no such folder.
  static void RemoveLeft(const std::string& path);

 private:
  // Makes its files in another folder, which is to become it.
  static Result<StateFolder> Fill(const std::string& path, const std::string& made);
  StateFolder(std::string path, net::Secret secret, uint32_t number, std::unique_ptr<os::File> lock)
      : path_(std::move(path)), secret_(std::move(secret)), number_(number), lock_(std::move(lock)) {}

  std::string path_;
  net::Secret secret_;
  uint32_t number_;
  std::unique_ptr<os::File> lock_;
};

// A folder, with a slash in it, or a job of this node: in the memory of this machine, which outlives fmirun.
std::string StatePath(const std::string& folder_or_job);

}  // namespace kedge::fmi

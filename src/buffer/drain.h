// A store on the burst buffer that is drained: its versions are brought to the store behind it, one at each step, and leave the
// buffer then.
//
// The newest version that was brought stays for restarts, until the next one is. Objects of versions that were removed, and that
// others need, stay until the store has them.
//
// What fails is tried again, after a pause that doubles: one version, or all of them where the store behind cannot be asked. The
// log says each cause once, and once that it is over.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/duration.h"
#include "os/files/file_system.h"
#include "store/drained/mirror.h"
#include "store/store.h"

namespace kedge::buffer {

struct StoreDrainOptions {
  std::string path;                          // of the store's files here
  std::string target;                        // as MakeStore takes it
  std::string what;                          // for the log: whose store it is
  TemporaryOwner owner;                      // the server
  Duration retry = std::chrono::seconds(1);  // the first pause after a failure
  // How long a partner, which has the same, is waited for before its work is done here.
  Duration partner_patience = std::chrono::minutes(1);
  uint64_t piece_bytes = uint64_t{8} << 20;  // twice so much is in memory
};

// What one step has come to.
struct DrainReport {
  bool has_failed = false;  // something: `error` says what
  std::string error;        // the last one that is not over
  bool is_due = false;      // there is more to do at once
  Duration pause{};         // until the next look, where one is needed; else zero
  uint64_t waiting_versions = 0;
  uint64_t waiting_bytes = 0;
  uint64_t drained_versions = 0;  // by this step
  uint64_t drained_bytes = 0;
  double seconds = 0;  // that it took
  // What is of no use here any more: for the server to remove, which counts it.
  std::vector<std::string> folders;
  std::vector<std::string> temporaries;
};

// One thread at a time.
class StoreDrain {
 public:
  // `fs` and `stopping` outlive it.
  StoreDrain(os::FileSystem& fs, StoreDrainOptions options, const std::atomic<bool>& stopping);

  // Brings the version that was completed first, of those that wait and may be tried. `has_partner`: of those that have waited
  // for the partner in vain.
  DrainReport Step(bool has_partner = false);

 private:
  struct Failure {
    Status error;
    int tries = 0;
    int64_t not_before_ns = 0;
  };

  Status Work(DrainReport* report);
  // Says when to look again for those that are left to the partner.
  Result<bool> IsLeftToPartner(const Generation& generation, DrainReport* report) const;
  void Forget(const std::vector<BufferedGeneration>& listed);
  bool MayTry(const Generation& generation) const;
  // Of a predecessor, which removed something.
  Status FindOwnTemporaries(DrainReport* report);
  void BringFirst(const Mirror& mirror, std::vector<BufferedGeneration>& listed, DrainReport* report);
  Status FindNeedless(const Mirror& mirror, const std::vector<BufferedGeneration>& listed, DrainReport* report);
  Status BringRest(const Mirror& mirror, const Generation& generation);
  void CountWaiting(const std::vector<BufferedGeneration>& listed, DrainReport* report) const;
  uint64_t BytesOf(const Generation& generation) const;
  void OnFailure(const Status& failed, int doublings_max, Failure* failure) const;
  void OnFailure(const Generation& generation, const Status& failed);
  void OnSuccess(const Generation& generation);
  void AddFailures(DrainReport* report);
  // Says it, when the cause is another than the last one.
  void Say(const Status& error);

  os::FileSystem& fs_;
  const StoreDrainOptions options_;
  const std::atomic<bool>& stopping_;
  bool has_partner_ = false;  // of this step
  std::shared_ptr<Store> source_;
  std::shared_ptr<Store> target_;
  std::unique_ptr<Store> view_;   // of both
  std::set<Generation> brought_;  // by this process, and still here
  std::map<Generation, Failure> failures_;
  Failure failure_;   // of all
  std::string said_;  // the last cause
  bool looked_for_temporaries_ = false;
};

}  // namespace kedge::buffer

// The store of a history that has it on a burst buffer: a server of this world alone (kedge-buffer, its file system's faults
// steered). Where it says that it is, and its files, stay when it is started again.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "store/store.h"
#include "tests/support/child_process.h"

namespace kedge::histories {

class BurstServer {
 public:
  // `programs`: the folder of histories_buffer. `folder` gets its files. `drains_to`: the folder of the store before which it
  // lies; empty: it has the store itself. `partner`: the name of one that begins in the same folder, and has the same; empty:
  // there is none. Throws where it does not begin.
  BurstServer(std::string name, const std::string& programs, const std::string& folder, const std::string& drains_to,
              std::string partner, const std::map<std::string, std::string>& environment);

  // What store.path is: all that a process needs.
  std::string StorePath() const;
  std::unique_ptr<Store> Open() const;
  // A file for each object and record, named by its key.
  std::string Folder() const { return Data() + "/owners/histories/stores/kept"; }

  // "away" (killed), "lost" (and its files are gone) or "still", one at a time; false: not now, or no such fault.
  bool Break(const std::string& how);
  void Mend();

 private:
  void Start();
  std::string Data() const { return folder_ + "/data-" + name_; }

  const std::string name_;
  const std::string programs_;
  const std::string folder_;
  const std::string drains_to_;
  const std::string partner_;
  const std::map<std::string, std::string> environment_;
  std::unique_ptr<testing::ChildProcess> server_;
  int started_ = 0;
  std::string broken_;  // how; empty: it is not
};

}  // namespace kedge::histories

// What an agent makes in its run folder, beside its socket and the lock on it. Who removes that goes by this list: the agent
// itself when it leaves nothing, and `kedge clean` for one that is gone.
#pragma once

#include "os/files/private_files.h"

namespace kedge {

// Where the agent's own files are: run folder, tiers, scratch.
inline os::FileSystem& fs() {
  return os::PrivateFileSystem();
}

// In the order in which they go: what says what the others are worth goes last.
inline constexpr const char* kRunFolderEntries[] = {"pool", "tiers",   "sessions",     "sets",     "records",
                                                    "jobs", "address", "metrics.sock", "agent.log"};

}  // namespace kedge

// What an agent makes in its run folder, beside its socket and the lock on it. Who removes that goes by this list: the agent
// itself when it leaves nothing, and `kedge clean` for one that is gone.
#pragma once

namespace kedge {

// In the order in which they go: what says what the others are worth goes last.
inline constexpr const char* kRunFolderEntries[] = {"pool", "tiers",   "sessions",     "sets",     "records",
                                                    "jobs", "address", "metrics.sock", "agent.log"};

}  // namespace kedge

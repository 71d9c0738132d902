// What a process leaves for `kedge run`, which has launched it and reads it when the launch has ended: why Kedge refuses, where
// it would refuse the next launch as well, and which jobs it has opened. Files in the memory of the node: standard error may go
// anywhere, and whatever the configuration names may be what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace kedge::os {

// How many ranks `kedge run` has launched together with this one (KEDGE_RUN_RANKS); 0: somebody else has launched it.
int LaunchedRanks();

// Leaves the reason, or takes back what this process has left, because it has succeeded since. Nothing where `kedge run` has not
// launched this process (KEDGE_RUN_LAUNCH), or where the file cannot be written, which costs launches that end in the same way.
void LeaveRefusal(const Status& why);
void TakeBackRefusal();

// Adds the job, which this rank has opened and holds as `attempt`, to those of the launch. Nothing where the above writes
// nothing.
void NoteJob(const std::string& job, uint32_t attempt);

// The notes of launches of this user that nobody is going to read: no process here that may be looked at is of such a launch.
// Their paths; empty where processes or notes cannot be listed.
std::vector<std::string> NotesNobodyReads();

}  // namespace kedge::os

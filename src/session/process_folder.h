// Folders that the processes of a node make for themselves side by side, such as for their routed files. A process that dies
// leaves its folder behind, for whoever sees that it is gone.
#pragma once

#include <string>

#include "os/files/file_system.h"

namespace kedge {

// Where routed files lie below the run folder, or the node's folder of a job.scratch.
std::string RoutedFilesFolder(const std::string& place);

// Of this process, and of one user of it: "PID-STARTTICKS-PIDNAMESPACE-RANDOM".
std::string ProcessFolderName();

// Removes the folders of processes that this one can see to be gone, those of its own PID namespace; and `folder` itself, when
// it was the last.
void RemoveFoldersOfTheDead(os::FileSystem& file_system, const std::string& folder);

}  // namespace kedge

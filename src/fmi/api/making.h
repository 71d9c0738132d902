// How calls of the C ABI make communicators of others.
#pragma once

#include "fmi/communicators.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

// Collective over `parent`; the call's answer.
int MakeCommunicator(const char* call, Communicator* parent, Making making, FMI_Comm* made);
// Where a failure has kept the parent from being made: the handle, and the failure once more.
int TakeUnknownCommunicator(FMI_Comm* made);

}  // namespace kedge::fmi

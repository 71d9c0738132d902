// Where a server says where it is, for clients that know its name: in the operator's folder, and in stores.
#pragma once

#include <string>

#include "base/status.h"
#include "buffer/server_core.h"

namespace kedge::buffer {

// Replaces what a former server of that name has said. In the operator's folder anybody may read it: it has no secret. A store
// that is missing is made for this user alone, in a folder that must be there. In a store whoever may read the store may read it.
Status SayWhereItIs(const ServerOptions& options, const std::string& address);

}  // namespace kedge::buffer

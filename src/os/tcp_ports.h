// Whether anybody listens at TCP ports of other machines.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/duration.h"

namespace kedge::os {

// Tries to connect to all of them (each a sockaddr_in or sockaddr_in6; what is neither is passed over) and calls `answered` with
// the index of each whose machine answers, and whether somebody listens there or it refuses. Of a machine that does not answer
// nothing is said. Ends when all have answered, or after `timeout`. A listener sees a connection that ends at once. Of many only
// the first 256 are tried.
void ProbePorts(std::span<const std::string> addresses, Duration timeout,
                const std::function<void(size_t index, bool listens)>& answered);

}  // namespace kedge::os

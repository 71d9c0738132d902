// Where an owner's stores may be drained to: what the operator has allowed, held against what a client asks for.
//
// The server writes there as the user that runs it, with that user's credentials. So a client names no more than a folder or a
// prefix below an allowed place: how a bucket is reached is the operator's.
#pragma once

#include <span>
#include <string>

#include "base/status.h"

namespace kedge::buffer {

// "s3://BUCKET[/PREFIX]" or a folder, canonical. kInvalidArgument: it is neither.
Result<std::string> ParseDrainPlace(const std::string& text);

// The store to write to for a client that asks for `target`, when it is one of the `places` (of ParseDrainPlace) or below one.
// kPermission: it is not. kInvalidArgument: it is no folder or prefix, or has a component "..".
Result<std::string> AllowedTarget(std::span<const std::string> places, const std::string& target);

}  // namespace kedge::buffer

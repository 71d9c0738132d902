// The folder of one user's node below one that users and nodes may share: a tier's, a scratch.
#pragma once

#include <string>

namespace kedge {

// PATH/kedge-UID-NODE, of the effective user.
std::string OwnFolder(const std::string& path, const std::string& node);

}  // namespace kedge

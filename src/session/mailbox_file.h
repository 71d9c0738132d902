// Files that agent and client map: the mailbox of a session, and the control block. Made by the agent, opened by a client
// through the descriptors that come with Welcome, checked before use.
#pragma once

#include <string>

#include "base/status.h"
#include "os/memory/mapping.h"
#include "os/process/process.h"
#include "session/mailbox.h"

namespace kedge {

// A new mailbox; kAlreadyExists when there is one.
Result<os::SharedMapping> CreateMailbox(const std::string& path, uint32_t session_id, const os::ProcessIdentity& owner);
// One that another process made. kCorrupt or kMismatch, naming what was found, unless it is a mailbox of this protocol
// and, when not 0, of this session.
Result<os::SharedMapping> OpenMailbox(const std::string& path, uint32_t session_id);
Result<os::SharedMapping> MapMailbox(os::UniqueFd fd, uint32_t session_id);
inline Mailbox* MailboxOf(const os::SharedMapping& mapping) {
  return reinterpret_cast<Mailbox*>(mapping.data());
}

// Sealed: no client can cut it short under the others. Clients of an earlier agent keep that one's, which nobody writes any more.
Result<os::SharedMapping> CreateControlBlock(const os::ProcessIdentity& agent);
Result<os::SharedMapping> MapControlBlock(os::UniqueFd fd);
inline ControlBlock* ControlOf(const os::SharedMapping& mapping) {
  return reinterpret_cast<ControlBlock*>(mapping.data());
}

}  // namespace kedge

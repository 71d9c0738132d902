#include "session/mailbox_file.h"

#include <fmt/format.h>

#include "os/files/file_system.h"
#include "os/files/files.h"
#include "os/files/private_files.h"

namespace kedge {
namespace {

Status CheckMailbox(const Mailbox& mailbox, const std::string& path, uint32_t session_id) {
  if (mailbox.magic != kMailboxMagic) return Status(Code::kCorrupt, path + " is no mailbox");
  if (mailbox.protocol != kProtocolVersion) {
    return Status(Code::kMismatch,
                  fmt::format("{} is of protocol {}; this build speaks {}", path, mailbox.protocol, kProtocolVersion));
  }
  if (session_id != 0 && mailbox.session_id != session_id) {
    return Status(Code::kMismatch, fmt::format("{} is of session {}; expected was {}", path, mailbox.session_id, session_id));
  }
  return Status::Ok();
}

}  // namespace

Result<os::SharedMapping> CreateMailbox(const std::string& path, uint32_t session_id, const os::ProcessIdentity& owner) {
  // A file of that name is always a whole mailbox.
  const std::string temporary = os::TemporaryPath(path, "mailbox");
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping mapping, os::SharedMapping::Create(temporary, sizeof(Mailbox)));
  Mailbox* mailbox = MailboxOf(mapping);  // zeros: what a new file is made of
  mailbox->protocol = kProtocolVersion;
  mailbox->session_id = session_id;
  mailbox->owner_pid = owner.process_id;
  mailbox->owner_start_time = owner.start_ticks;
  mailbox->magic = kMailboxMagic;
  Status renamed = os::PrivateFileSystem().Link(temporary, path);
  (void)os::PrivateFileSystem().Unlink(temporary);
  KEDGE_RETURN_IF_ERROR(renamed);
  return mapping;
}

Result<os::SharedMapping> OpenMailbox(const std::string& path, uint32_t session_id) {
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping mapping, os::SharedMapping::Open(path, sizeof(Mailbox)));
  KEDGE_RETURN_IF_ERROR(CheckMailbox(*MailboxOf(mapping), path, session_id));
  return mapping;
}

Result<os::SharedMapping> MapMailbox(os::UniqueFd fd, uint32_t session_id) {
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping mapping,
                         os::SharedMapping::FromDescriptor(std::move(fd), "the mailbox", sizeof(Mailbox)));
  KEDGE_RETURN_IF_ERROR(CheckMailbox(*MailboxOf(mapping), "the mailbox", session_id));
  return mapping;
}

Result<os::SharedMapping> CreateControlBlock(const os::ProcessIdentity& agent) {
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping mapping, os::SharedMapping::CreateSealed("kedge-control", sizeof(ControlBlock)));
  ControlBlock* control = ControlOf(mapping);
  control->protocol = kProtocolVersion;
  control->agent_pid = agent.process_id;
  control->agent_start_time = agent.start_ticks;
  control->magic = kControlMagic;
  return mapping;
}

Result<os::SharedMapping> MapControlBlock(os::UniqueFd fd) {
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping mapping,
                         os::SharedMapping::FromDescriptor(std::move(fd), "the control block", sizeof(ControlBlock)));
  const ControlBlock& control = *ControlOf(mapping);
  if (control.magic != kControlMagic || control.protocol != kProtocolVersion) {
    return Status(Code::kMismatch, fmt::format("the control block is not of protocol {}", kProtocolVersion));
  }
  return mapping;
}

}  // namespace kedge

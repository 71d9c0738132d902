#include "session/connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "os/files/private_files.h"
#include "os/machine/machine.h"
#include "session/mailbox_file.h"
#include "session/shared_lines.h"

namespace kedge {
namespace {

// So often the silence that a caller bears is the time that it waits for an agent that says that it is at it.
constexpr int kPatience = 6;

}  // namespace

Status Connection::Send(const Message& request, uint64_t* number, Duration timeout) {
  *number = ++last_number_;
  const Buffer frame = EncodeMessage(*number, request);
  return socket_.Send(AsText(frame), {}, timeout);
}

Result<Message> Connection::Receive(uint64_t number, const Deadline& deadline, std::vector<os::UniqueFd>* descriptors) {
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(os::SocketMessage frame, socket_.Receive(deadline.Remaining()));
    KEDGE_ASSIGN_OR_RETURN(NumberedMessage reply, DecodeMessage(AsBytes(frame.body)));
    if (reply.number != number) continue;  // to a question whose asker has given up
    if (const auto* error = std::get_if<ErrorReply>(&reply.message)) {
      if (error->status.ok()) return Status(Code::kCorrupt, "the agent answered with an error that is none");
      return error->status;
    }
    if (descriptors != nullptr) *descriptors = std::move(frame.descriptors);
    return std::move(reply.message);
  }
}

Result<Message> Connection::CallAny(const Message& request, Duration timeout, std::vector<os::UniqueFd>* descriptors) {
  std::lock_guard lock(mutex_);
  const Deadline last(SystemClock(), timeout * kPatience);
  uint64_t number = 0;
  KEDGE_RETURN_IF_ERROR(Send(request, &number, timeout));
  for (;;) {
    const Deadline silence(SystemClock(), std::min(timeout, last.Remaining()));
    KEDGE_ASSIGN_OR_RETURN(Message reply, Receive(number, silence, descriptors));
    if (!std::holds_alternative<PatienceReply>(reply)) return reply;
  }
}

Result<DrainReply> Connection::Drain(const DrainRequest& request, const std::function<void(const DrainReply&)>& progress) {
  std::lock_guard lock(mutex_);
  uint64_t number = 0;
  KEDGE_RETURN_IF_ERROR(Send(request, &number, std::chrono::seconds(10)));
  for (;;) {
    // The agent reports twice a second, so a long silence is its end.
    const Deadline deadline(SystemClock(), std::chrono::seconds(30));
    KEDGE_ASSIGN_OR_RETURN(Message reply, Receive(number, deadline, nullptr));
    const auto* report = std::get_if<DrainReply>(&reply);
    if (report == nullptr) return Status(Code::kCorrupt, "the agent answered with a message of another kind");
    if (report->finished) return *report;
    if (progress) progress(*report);
  }
}

Result<Attachment> Connection::Attach(const Hello& hello, Duration timeout) {
  std::vector<os::UniqueFd> descriptors;
  KEDGE_ASSIGN_OR_RETURN(Message reply, CallAny(hello, timeout, &descriptors));
  auto* welcome = std::get_if<Welcome>(&reply);
  if (welcome == nullptr) return Status(Code::kCorrupt, "the agent answered Hello with a message of another kind");
  Attachment attachment;
  attachment.welcome = std::move(*welcome);
  const auto& tiers = attachment.welcome.tiers;
  const size_t pools = static_cast<size_t>(
      std::count_if(tiers.begin(), tiers.end(), [](const TierInfo& tier) { return tier.kind == TierKind::kMemory; }));
  if (descriptors.size() != 3 + pools) {
    return Status(Code::kCorrupt,
                  fmt::format("Welcome came with {} descriptors; expected were {}", descriptors.size(), 3 + pools));
  }
  KEDGE_ASSIGN_OR_RETURN(attachment.mailbox, MapMailbox(std::move(descriptors[0]), attachment.welcome.session_id));
  attachment.wake_agent = os::EventFd::FromDescriptor(std::move(descriptors[1]));
  KEDGE_ASSIGN_OR_RETURN(attachment.control, MapControlBlock(std::move(descriptors[2])));
  size_t next_pool = 3;
  for (const TierInfo& info : tiers) {
    auto tier = info.kind == TierKind::kMemory ? AttachMemoryTier(std::move(descriptors[next_pool++]), info)
                                               : AttachDirectoryTier(os::PrivateFileSystem(), info);
    if (!tier.ok()) return tier.status().WithContext("attach to tier " + info.name);
    attachment.tiers.push_back(std::move(*tier));
  }
  return attachment;
}

Result<OpenedWindow> Connection::OpenWindow(const OpenWindowRequest& request, Duration timeout) {
  std::vector<os::UniqueFd> descriptors;
  KEDGE_ASSIGN_OR_RETURN(Message reply, CallAny(request, timeout, &descriptors));
  const auto* opened = std::get_if<OpenWindowReply>(&reply);
  if (opened == nullptr || descriptors.size() != 1 || opened->window_bytes == 0) {
    return Status(Code::kCorrupt, "the agent answered with something else than a window");
  }
  OpenedWindow window{*opened, {}};
  KEDGE_ASSIGN_OR_RETURN(window.memory,
                         os::SharedMapping::FromDescriptor(std::move(descriptors.front()), "the window", opened->window_bytes));
  return window;
}

Result<ReadLineReply> Connection::ReadLine(const ReadLineRequest& request, os::SharedMapping* memory, Duration timeout) {
  std::vector<os::UniqueFd> descriptors;
  KEDGE_ASSIGN_OR_RETURN(const Message reply, CallAny(request, timeout, &descriptors));
  const auto* line = std::get_if<ReadLineReply>(&reply);
  if (line == nullptr || descriptors.size() > 1)
    return Status(Code::kCorrupt, "the agent answered with something else than a line");
  if (!descriptors.empty()) {
    KEDGE_ASSIGN_OR_RETURN(
        *memory, os::SharedMapping::FromDescriptor(std::move(descriptors.front()), "the shared lines", kSharedLinesBytes));
  }
  const bool is_possible = !line->is_here || (memory->valid() && line->place < kSharedLines && line->bytes <= kSharedLineBytes);
  if (!is_possible) return Status(Code::kCorrupt, "the agent answered with a line that cannot be");
  return *line;
}

Result<ToolWelcome> Connection::AttachTool(Duration timeout) {
  return Call<ToolWelcome>(ToolHello{kProtocolVersion, BuildName()}, timeout);
}

const char* BuildName() {
  return KEDGE_BUILD_NAME;
}

}  // namespace kedge

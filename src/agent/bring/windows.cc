#include "agent/bring/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "agent/space/memory_ledger.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

// Long enough for reads of other nodes to overlap. It is memory beside the pool, for each rank that restarts so.
constexpr uint64_t kWindowBytes = 8 * StreamBringer::kPartAlignment;
// What is read out of order may be small.
constexpr uint64_t kSinglePartBytes = 2 * StreamBringer::kPartAlignment;

}  // namespace

Result<std::shared_ptr<ImageWindow>> ImageWindow::Make(ReachableImage image) {
  KEDGE_ASSIGN_OR_RETURN(redundancy::ImageStream stream,
                         redundancy::ImageStream::Make(image.record, image.bringer->image_record().size()));
  const uint64_t bytes = std::min(kWindowBytes, stream.bytes());
  KEDGE_ASSIGN_OR_RETURN(os::SharedMapping memory, os::SharedMapping::CreateSealed("kedge-window", bytes));
  return std::shared_ptr<ImageWindow>(new ImageWindow(std::move(image), std::move(stream), std::move(memory)));
}

ImageWindow::~ImageWindow() {
  if (shown_ == 0) return;
  LogInfo("agent", "{} was shown for want of room, {} bytes: {}", image_.record.identity.ToString(), shown_,
          image_.bringer->UsedText());
}

OpenWindowReply ImageWindow::Describe() const {
  OpenWindowReply reply;
  reply.record_offset = stream_.record_offset();
  reply.record_bytes = stream_.bytes() - stream_.record_offset();
  reply.window_bytes = memory_.bytes();
  return reply;
}

Result<ShowReply> ImageWindow::Show(uint64_t offset) {
  if (offset >= stream_.bytes()) {
    return Status(Code::kInvalidArgument, fmt::format("byte {} of an image of {} is asked for", offset, stream_.bytes()));
  }
  const uint64_t begin = offset / StreamBringer::kPartAlignment * StreamBringer::kPartAlignment;
  const uint64_t end =
      std::min({stream_.bytes(), begin + memory_.bytes(), begin == next_ ? UINT64_MAX : begin + kSinglePartBytes});
  next_ = UINT64_MAX;
  KEDGE_RETURN_IF_ERROR(image_.bringer->BringTo(stream_, begin, end, [&](uint64_t at, ByteSpan bytes) {
    std::memcpy(memory_.data() + (at - begin), bytes.data(), bytes.size());
    return Status::Ok();
  }));
  next_ = end;
  shown_ += end - begin;
  os::KillPoint("window-shown");
  return ShowReply{begin, end - begin};
}

Windows::Windows(AgentCore& core, Bringer& bringer, MemoryLedger& memory) : core_(core), bringer_(bringer), memory_(memory) {
  core.requests().OnSession<OpenWindowRequest>(std::bind_front(&Windows::Open, this));
  core.requests().OnSession<ShowRequest>(std::bind_front(&Windows::Show, this));
}

void Windows::Open(Session& session, const OpenWindowRequest& request, const Question& question) {
  if (std::exchange(session.shown.opening, true)) {
    return question.Answer(Status(Code::kBusy, "the session is being shown another image"));
  }
  bringer_.Find(*session.job, request.generation, request.rank, {.replace = request.replace},
                [this, id = session.id, question](Result<ReachableImage> found) { OnFound(id, std::move(found), question); });
}

void Windows::OnFound(uint32_t session_id, Result<ReachableImage> found, const Question& question) {
  Session* session = core_.sessions().Find(session_id);
  if (session == nullptr) return;
  session->shown = ShownImage{};
  if (session->connection != question.connection()) return;
  auto window = found.ok() ? ImageWindow::Make(std::move(*found)) : Result<std::shared_ptr<ImageWindow>>(found.status());
  if (!window.ok()) return question.Answer(window.status());
  auto descriptor = os::DuplicateDescriptor((*window)->descriptor());
  if (!descriptor.ok()) return question.Answer(descriptor.status());
  OpenWindowReply reply = (*window)->Describe();
  reply.image = ++session->last_handle;
  session->shown = ShownImage{reply.image, std::move(*window)};
  std::vector<os::UniqueFd> descriptors;
  descriptors.push_back(std::move(*descriptor));
  question.Answer(reply, std::move(descriptors));
}

void Windows::Show(const Session& session, const ShowRequest& request, const Question& question) {
  const std::shared_ptr<ImageWindow> window = session.shown.window;
  if (window != nullptr && window->busy) return question.Answer(Status(Code::kBusy, "the part before is on its way still"));
  if (window == nullptr || session.shown.handle != request.image) {
    return question.Answer(Status(Code::kInvalidArgument, fmt::format("there is no window {}", request.image)));
  }
  window->busy = true;
  core_.bringers().Submit([this, window, offset = request.offset, question] {
    memory_.HoldAhead();
    const Result<ShowReply> part = window->Show(offset);
    memory_.ReleaseAhead();
    core_.loop().Post([window, part, question] {
      window->busy = false;
      question.Answer(part);
    });
  });
}

}  // namespace kedge

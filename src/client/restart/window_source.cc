#include "client/restart/window_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace kedge::client {
namespace {

// Of which all but the last may die over one part.
constexpr int kAgentsMax = 3;
constexpr Duration kCloseTimeout = std::chrono::seconds(30);

}  // namespace

Result<std::unique_ptr<ImageView>> ImageView::Open(AgentSession* session, const ImageIdentity& identity, bool replace,
                                                   Duration timeout) {
  std::unique_ptr<ImageView> view(new ImageView(session, identity, replace, timeout));
  KEDGE_RETURN_IF_ERROR(view->OpenWindow());
  return view;
}

ImageView::~ImageView() {
  // Should it get lost, the window ends with the session.
  if (connection_) (void)connection_->Call<DoneReply>(CloseImageRequest{window_.reply.image}, kCloseTimeout);
}

Status ImageView::OpenWindow() {
  connection_ = nullptr;
  const OpenWindowRequest request{identity_.generation, identity_.rank, replace_};
  std::shared_ptr<Connection> connection;
  KEDGE_ASSIGN_OR_RETURN(window_, session_->AskAgent([&](const auto& agent) {
    connection = agent;
    return agent->OpenWindow(request, timeout_);
  }));
  connection_ = std::move(connection);
  return Status::Ok();
}

Status ImageView::Show(uint64_t offset) {
  KEDGE_RETURN_IF_ERROR(lost_);
  // Part of it may be overwritten whatever the answer is.
  shown_ = ShowReply{};
  Status status;
  for (int agents = 0; agents < kAgentsMax; ++agents) {
    const auto shown = connection_->Call<ShowReply>(ShowRequest{window_.reply.image, offset}, timeout_);
    if (shown.ok()) {
      const bool has_it =
          shown->begin <= offset && shown->bytes <= window_.memory.bytes() && offset - shown->begin < shown->bytes;
      if (!has_it) return Status(Code::kCorrupt, fmt::format("the agent shows something else than byte {}", offset));
      shown_ = *shown;
      return Status::Ok();
    }
    status = shown.status();
    if (!connection_->IsGone()) return status;
    LogWarning("client", "{}: {}; the next agent is asked for it", identity_.ToString(), status.message());
    lost_ = OpenWindow();
    // It was there a moment ago.
    if (lost_.code() == Code::kNotFound) lost_ = Status(Code::kUnavailable, std::string(lost_.message()));
    KEDGE_RETURN_IF_ERROR(lost_);
  }
  return status;
}

Status ImageView::Read(uint64_t offset, void* to, uint64_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (offset < shown_.begin || offset - shown_.begin >= shown_.bytes) KEDGE_RETURN_IF_ERROR(Show(offset));
    const uint64_t within = offset - shown_.begin;
    const uint64_t length = std::min(bytes, shown_.bytes - within);
    std::memcpy(out, window_.memory.data() + within, length);
    out += length;
    offset += length;
    bytes -= length;
  }
  return Status::Ok();
}

Status WindowSource::Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) {
  return view_->Read(chunks_[chunk].object_offset + offset, to, bytes);
}

std::string WindowSource::Describe(uint32_t chunk) const {
  return fmt::format("chunk {}, from other nodes", chunk);
}

}  // namespace kedge::client

// An image that this node has no room for, read part by part from the nodes that have it, through the agent's window.
//
// The agent brings each part when it is asked for (session/messages.h, ShowRequest). When the agent dies, its successor is asked
// to go on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "client/session/agent_session.h"
#include "format/image_record.h"
#include "restore/chunk_source.h"

namespace kedge::client {

// The stream of such an image: its chunks at their object offsets, and its record. Guarded by the context's lock: its thread
// alone reads what lies on no mapped tier (restore/image_reader.h).
class ImageView {
 public:
  // `replace`: a copy on this node is left out. `session` outlives it; `timeout` is for each answer of the agent.
  static Result<std::unique_ptr<ImageView>> Open(AgentSession* session, const ImageIdentity& identity, bool replace,
                                                 Duration timeout);
  ~ImageView();

  uint64_t record_offset() const { return window_.reply.record_offset; }
  uint64_t record_bytes() const { return window_.reply.record_bytes; }
  Status Read(uint64_t offset, void* to, uint64_t bytes);

 private:
  ImageView(AgentSession* session, const ImageIdentity& identity, bool replace, Duration timeout)
      : session_(session), identity_(identity), replace_(replace), timeout_(timeout) {}
  // At the agent that there is, or the next one.
  Status OpenWindow();
  Status Show(uint64_t offset);

  AgentSession* const session_;
  const ImageIdentity identity_;
  const bool replace_;
  const Duration timeout_;
  std::shared_ptr<Connection> connection_;
  OpenedWindow window_;
  ShowReply shown_;  // what the window holds
  Status lost_;      // why there is no window any more
};

class WindowSource final : public ChunkSource {
 public:
  WindowSource(const ImageRecord& record, std::unique_ptr<ImageView> view) : chunks_(record.chunks), view_(std::move(view)) {}

  bool Has(uint32_t chunk) const override { return chunks_[chunk].object == 0; }
  SourceKind KindOf(uint32_t) const override { return SourceKind::kMemory; }
  const std::byte* Memory(uint32_t) const override { return nullptr; }
  Status Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) override;
  std::string Describe(uint32_t chunk) const override;

 private:
  const std::vector<Chunk> chunks_;
  const std::unique_ptr<ImageView> view_;
};

}  // namespace kedge::client

// Finds and opens images for a restart: at the agent of this node, and in the store.
//
// Guarded by the context's lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/core/core.h"
#include "client/session/agent_session.h"
#include "restore/candidates.h"
#include "restore/image_reader.h"

namespace kedge::client {

// An image that is open for reading. Its slots stay pinned at the agent as long as this lives.
class OpenImage {
 public:
  OpenImage(std::shared_ptr<AttachedSession> session, std::shared_ptr<Connection> connection, uint64_t handle,
            std::unique_ptr<ImageReader> reader, bool was_brought = false)
      : session_(std::move(session)),
        connection_(std::move(connection)),
        handle_(handle),
        reader_(std::move(reader)),
        was_brought_(was_brought) {}
  ~OpenImage();
  void SetReader(std::unique_ptr<ImageReader> reader) { reader_ = std::move(reader); }
  bool is_local() const { return session_ != nullptr; }
  // It came to this node from others for this restart.
  bool was_brought() const { return was_brought_; }
  ImageReader& reader() const { return *reader_; }
  const ImageRecord& record() const { return reader_->record(); }

 private:
  std::shared_ptr<AttachedSession> session_;  // whose tiers are read; null when only the store is
  std::shared_ptr<Connection> connection_;
  uint64_t handle_;
  std::unique_ptr<ImageReader> reader_;
  bool was_brought_;
};

class ImageOpener {
 public:
  ImageOpener(Core* core, AgentSession* session) : core_(core), session_(session) {}

  // What the store has of `name` at or below `at_most` (negative: no limit), of all ranks: one rank asks it for all. Where its
  // node has `known`, only what may be newer: into nothing else is looked.
  StoredCandidates Stored(const std::string& name, int64_t at_most, const std::optional<RestoreCandidate>& known);
  struct Found {
    std::vector<RestoreCandidate> candidates;
    std::vector<RestoreCandidate> safe;  // that all ranks had captured, as the agent knows that has an image of any rank
    Status agent;                        // why it could not be asked: there may be newer ones
    std::string lost;                    // what was safe on the nodes and is lost there: the newest, and why; empty: none
    std::string silent;  // nodes of this attempt that do not answer, as far as all were asked: it may be there still
  };
  // What this process could restore of `rank`'s images from the nodes, as far as they are asked
  // (LocalVersionsRequest::everywhere). The store is to be asked after all nodes: what has left them meanwhile is there.
  Found FindOnNodes(const std::string& name, uint32_t rank, bool everywhere);
  // That and what of `stored` it could restore, up to `at_most`: newest first.
  std::vector<RestoreCandidate> Merge(const std::string& name, int64_t at_most, uint32_t rank, const Found& on_nodes,
                                      const StoredCandidates& stored) const;
  Result<std::unique_ptr<OpenImage>> Open(const std::string& name, const RestoreCandidate& candidate, uint32_t rank);
  // Reading the image failed for that reason: whether other nodes may have it right, or what it takes to rebuild it.
  bool MayBeReplaced(const OpenImage& image, const Status& why) const;
  // The copy on this node is bad: opens another, which the agent has from other nodes. kNotFound: there is none.
  Result<std::unique_ptr<OpenImage>> OpenReplaced(const ImageIdentity& identity, const Status& why);

 private:
  Status AddStored(const std::string& name, int64_t at_most, const std::optional<RestoreCandidate>& known,
                   StoredCandidates* found);
  Status AddLocal(const std::string& name, uint32_t rank, bool everywhere, Found* found);
  Result<std::unique_ptr<OpenImage>> OpenLocal(const ImageIdentity& identity, bool replace);
  // The node has no room for it: part by part, from where it is.
  Result<std::unique_ptr<OpenImage>> OpenShown(const ImageIdentity& identity, bool replace);
  Result<std::unique_ptr<OpenImage>> OpenStored(const ImageIdentity& identity);

  Core* core_;
  AgentSession* session_;
};

}  // namespace kedge::client

// Images that a restart asks for: which are here, and those that sessions have open.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/tables/session.h"
#include "base/status.h"
#include "session/messages.h"

namespace kedge {

class AgentCore;
class ImageTable;

// Those that lie here, newest first.
std::vector<LocalVersion> ListLocalVersions(const ImageTable& images, const LocalVersionsRequest& request);

class OpenImages {
 public:
  OpenImages(AgentCore& core, ImageTable& images) : core_(core), images_(images) {}

  // It stays where it is until it is closed.
  Result<OpenImageReply> Open(Session& session, const OpenImageRequest& request);
  Status Close(Session& session, uint64_t handle);
  void CloseAll(Session& session);

 private:
  AgentCore& core_;
  ImageTable& images_;
};

}  // namespace kedge

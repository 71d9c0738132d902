// Images that a restart asks for: which are here, and those that sessions have open.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/tables/client_requests.h"
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
  OpenImages(AgentCore& core, ImageTable& images);

  void CloseAll(Session& session);

 private:
  // From this node, or brought here from the others first.
  void OnOpen(Session& session, const OpenImageRequest& request, const Question& question);
  // It stays where it is until it is closed.
  Result<OpenImageReply> Open(Session& session, const OpenImageRequest& request);
  Status Close(Session& session, uint64_t handle);

  AgentCore& core_;
  ImageTable& images_;
};

}  // namespace kedge

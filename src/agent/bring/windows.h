// Images that this node's tiers have no room for, shown to a rank that restarts from them.
//
// Other nodes have such an image, or it can be rebuilt from them. It is never here whole: its reader maps a window of a few MiB,
// says which part of the image it wants, and that part is brought into the window in the place of the one before. The reader
// holds what it takes against the checksums of capture, as everywhere.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/bring/bringer.h"
#include "agent/tables/client_requests.h"
#include "agent/tables/session.h"
#include "base/status.h"
#include "os/memory/mapping.h"
#include "redundancy/stream.h"
#include "session/messages.h"

namespace kedge {

class AgentCore;
class MemoryLedger;

class ImageWindow {
 public:
  static Result<std::shared_ptr<ImageWindow>> Make(ReachableImage image);
  ~ImageWindow();

  OpenWindowReply Describe() const;
  int descriptor() const { return memory_.descriptor(); }
  // Brings the part with that byte of the stream: a short one, or a whole window where one is read after the other. Blocking; one
  // thread at a time. kInvalidArgument: there is no such byte.
  Result<ShowReply> Show(uint64_t offset);

  bool busy = false;  // a worker brings a part; the event loop's

 private:
  ImageWindow(ReachableImage image, redundancy::ImageStream stream, os::SharedMapping memory)
      : image_(std::move(image)), stream_(std::move(stream)), memory_(std::move(memory)) {}

  ReachableImage image_;
  const redundancy::ImageStream stream_;
  const os::SharedMapping memory_;
  uint64_t next_ = 0;   // behind the last part
  uint64_t shown_ = 0;  // bytes so far
};

class Windows {
 public:
  Windows(AgentCore& core, Bringer& bringer, MemoryLedger& memory);

 private:
  // A window of the session, in the place of the one that it has, with its descriptor. kNotFound: the image is lost; kBusy:
  // another is looked for. Nobody is answered whose session has ended, or has another connection by then.
  void Open(Session& session, const OpenWindowRequest& request, const Question& question);
  void OnFound(uint32_t session_id, Result<ReachableImage> found, const Question& question);
  void Show(const Session& session, const ShowRequest& request, const Question& question);

  AgentCore& core_;
  Bringer& bringer_;
  MemoryLedger& memory_;
};

}  // namespace kedge

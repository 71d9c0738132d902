// Images that leave out what the image before them has: the base, and filling the gaps from it.
//
// An ImageEnd with gaps stays in the mailbox until they are filled: whoever else looks at the image sees it whole, and a
// successor that finds the entry fills them again, which changes nothing. The base stays meanwhile, since its client says so in
// the mailbox (session/mailbox.h) and while it is being read.
#pragma once

#include "agent/tables/image.h"
#include "agent/tables/session.h"
#include "base/status.h"

namespace kedge {

class AgentCore;
class ImageTable;

class GapFiller {
 public:
  GapFiller(AgentCore& core, ImageTable& images) : core_(core), images_(images) {}

  // Whether the image can be taken now: what its slots lack is there, or will never be. Else that is being copied, and the loop
  // turns when it is done; `may_wait`: for the end of that. Again for the same entry until it is true.
  bool IsFilled(Session& session, const ImageEnd& end, bool may_wait);
  // The fill's outcome, ok where there were no gaps; its base is let go of.
  Status End(Session& session);

  // The session's next image may be built on it.
  void BecomeBase(Session& session, const Image& image);
  // False: its session builds an image on it right now. Else it is its session's base no more.
  bool MayGo(const Image& image) const;
  // After a predecessor: what its mailbox says is the session's base is kept as that, if it was found.
  void RecoverBase(Session& session);

 private:
  // Fills in `fill`, where there is something to do.
  Status Begin(Session& session, const ImageEnd& end, GapFill* fill);

  AgentCore& core_;
  ImageTable& images_;
};

}  // namespace kedge

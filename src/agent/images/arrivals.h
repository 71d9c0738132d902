// Images as their sessions capture them: from the first entry in a mailbox to the local record.
//
// An image exists for the agent from ImageBegin (a large one: its pieces are flushed as they come) or ImageEnd on. With
// ImageEnd, once its local record is on file, it is at level LOCAL and survives client and agent.
#pragma once

#include <cstdint>

#include "agent/images/announcement.h"
#include "agent/tables/job.h"
#include "agent/tables/session.h"
#include "base/status.h"

namespace kedge {

class AgentCore;
class GapFiller;
class ImageFlusher;
class ImageTable;
class LocalRetention;
class PassingChunks;
class Throughput;

class Arrivals {
 public:
  Arrivals(AgentCore& core, ImageFlusher& flush, GapFiller& gaps, ImageTable& images, PassingChunks& passing,
           LocalRetention& retention, Throughput& throughput)
      : core_(core),
        flush_(flush),
        gaps_(gaps),
        images_(images),
        passing_(passing),
        retention_(retention),
        throughput_(throughput) {}

  // Entries of a session's mailbox. An error means that the entry made no sense: it is refused, the session goes on.
  Status OnBegin(Session& session, const ImageBegin& begin);
  Status OnProgress(Session& session, const ChunkProgress& progress);
  // Whether OnEnd can take it now (GapFiller::IsFilled).
  bool IsFilled(Session& session, const ImageEnd& end, bool may_wait);
  // REQUIRES: IsFilled.
  Status OnEnd(Session& session, const ImageEnd& end);
  void OnAbort(Session& session, uint64_t serial);
  // The session is over: what it has begun and not ended is dropped.
  void DropUnended(Session& session);

 private:
  Image& NewImage(Session& session, const ImageIdentity& identity, uint64_t serial, uint32_t due_levels);
  // Instead of what progress has told of them.
  static void TakeChunks(AnnouncedImage& announced, Image* image);
  // Slots for whole chunks go back with the image's end.
  void ReturnFullSlots(Session& session, const Image& image);

  AgentCore& core_;
  ImageFlusher& flush_;
  GapFiller& gaps_;
  ImageTable& images_;
  PassingChunks& passing_;
  LocalRetention& retention_;
  Throughput& throughput_;
};

}  // namespace kedge

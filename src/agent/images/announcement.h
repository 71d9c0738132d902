// What a client says of an image in its mailbox, read and checked against the agent's own tables: slots must be assigned to that
// session, ranges lie in them, records have their checksum, and the identity is the session's. kInvalidArgument: it made no
// sense.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/tables/image.h"
#include "agent/tables/session.h"
#include "base/status.h"
#include "format/image_record.h"
#include "format/node_records.h"
#include "session/gap_table.h"

namespace kedge {

// An image as its end announces it.
struct AnnouncedImage {
  ImageRecord record;
  PlacementTable table;
  std::vector<std::vector<SummedRun>> captured;  // by chunk
  uint32_t record_crc32c = 0;
  GapTable gaps;
  std::vector<ImageChunk> chunks;  // LocateChunks
};

// What is wrong with it.
Status RefusedEntry(std::string why);
// The range lies in a slot that the session has, which is in *unit.
Status CheckRange(const Session& session, const SlotRange& range, TierUnit** unit);
Status CheckIdentity(const Session& session, const ImageIdentity& identity);
// The path of a routed file that a placement table names; kInvalidArgument: out of the tier's folder.
Result<std::string> RoutedFilePath(const TierUnit& unit, const std::string& relative);

Result<ImageIdentity> ReadBegin(const Session& session, const ImageBegin& begin);
// Without its chunks' places. `piece_bytes`: NodeSettings::piece_bytes.
Result<AnnouncedImage> ReadEnd(const Session& session, const ImageEnd& end, uint64_t piece_bytes);
// Finds the chunks where its table says that they are. `begun` is the image as far as progress has told it (null: nothing has): a
// chunk that lies where progress said keeps what has been flushed of it.
Status LocateChunks(const Session& session, const Image* begun, AnnouncedImage* announced);

}  // namespace kedge

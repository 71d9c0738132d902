// An entry of a client's ring as somebody may write it who means harm: of any kind that there is, or of none, with any content.
// Who tries that on an agent says where the numbers come from.
#pragma once

#include <cstdint>

#include "session/mailbox.h"

namespace kedge::testing {

class EntrySource {
 public:
  virtual ~EntrySource() = default;
  virtual uint64_t Below(uint64_t bound) = 0;  // or any number, now and then
  virtual uint64_t Number() = 0;               // any, and often one that may be an offset or a size
  virtual SlotRange Range() = 0;
};

inline ClientMessage AnyEntry(EntrySource& source) {
  const auto kind = static_cast<ClientMessageKind>(source.Below(static_cast<uint64_t>(ClientMessageKind::kChunkWritten) + 2));
  const auto word = static_cast<uint32_t>(source.Below(4));
  const uint64_t serial = source.Below(8);
  const SlotRange range = source.Range();
  switch (kind) {
    case ClientMessageKind::kRequestPlace:
      return RequestPlace{.place = static_cast<PlaceKind>(word),
                          .number = serial,
                          .bytes = source.Number(),
                          .bytes_to_come = source.Number(),
                          .grow = range};
    case ClientMessageKind::kImageBegin: return ImageBegin{.due_levels = word, .image_serial = serial, .identity = range};
    case ClientMessageKind::kChunkProgress:
      return ChunkProgress{.chunk = word,
                           .image_serial = serial,
                           .range = range,
                           .object_offset = source.Number(),
                           .captured_bytes = source.Number()};
    case ClientMessageKind::kImageEnd:
      return ImageEnd{.due_levels = word,
                      .image_serial = serial,
                      .range = range,
                      .record_bytes = source.Number(),
                      .crc32c = static_cast<uint32_t>(source.Number())};
    case ClientMessageKind::kImageAbort: return ImageAbort{.image_serial = serial};
    case ClientMessageKind::kReturnSlot: return ReturnSlot{.slot = range};
    case ClientMessageKind::kChunkWritten: return ChunkWritten{.range = range, .took_ns = source.Number()};
  }
  return ImageAbort{.kind = kind, .image_serial = serial};
}

}  // namespace kedge::testing

// See object_stream.h.
#include "client/regions/object_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

kedge::Status kedge_reader::Read(void* data, uint64_t bytes) {
  if (!status.ok()) return status;
  if (bytes > bytes_left) {
    status = kedge::Status(kedge::Code::kInvalidArgument,
                           fmt::format("the object has {} bytes left, {} were asked for", bytes_left, bytes));
    return status;
  }
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    if (used == buffer.size()) {
      const kedge::Extent& extent = image->record().extents[next_extent];
      buffer.resize(extent.bytes);
      used = 0;
      status = image->ReadExtent(next_extent++, buffer.data());
      if (!status.ok()) return status;
    }
    const size_t portion = std::min<uint64_t>(bytes, buffer.size() - used);
    std::memcpy(to, buffer.data() + used, portion);
    to += portion;
    used += portion;
    bytes -= portion;
    bytes_left -= portion;
  }
  return status;
}

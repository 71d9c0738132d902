#include "agent/gather/carried_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "agent/bring/stream_bringer.h"
#include "agent/tables/aligned_buffer.h"
#include "agent/tables/summed_runs.h"
#include "base/crc32c.h"
#include "format/image_record.h"
#include "os/process/kill_point.h"
#include "redundancy/stream.h"

namespace kedge {
namespace {

constexpr Duration kRatePauseMax = std::chrono::milliseconds(100);

// Bytes of the stream in order, gathered to pieces of their chunks and written as such.
class PieceWriter {
 public:
  PieceWriter(const CarryOrder& order, const ImageRecord& record) : order_(order), written_(record.chunks.size()) {
    for (uint32_t i = 0; i < record.chunks.size(); ++i) {
      const Chunk& chunk = record.chunks[i];
      if (chunk.object == 0 && chunk.bytes > 0) chunks_.emplace(chunk.object_offset, Part{i, chunk.bytes});
    }
  }

  // What lies in no chunk is passed over.
  Status Add(uint64_t offset, ByteSpan bytes) {
    while (!bytes.empty()) {
      auto chunk = chunks_.upper_bound(offset);
      if (chunk == chunks_.begin()) return Status::Ok();
      --chunk;
      const uint64_t at = offset - chunk->first;
      if (at >= chunk->second.bytes) return Status::Ok();
      const uint64_t left = std::min(order_.piece_bytes - at % order_.piece_bytes, chunk->second.bytes - at);
      const uint64_t taken = std::min<uint64_t>(left, bytes.size());
      std::byte* const buffer = buffer_.OfSize(order_.piece_bytes);
      if (buffer == nullptr) return Status(Code::kNoSpace, fmt::format("no memory for a piece of {} bytes", order_.piece_bytes));
      std::memcpy(buffer + at % order_.piece_bytes, bytes.data(), taken);
      if (taken == left) KEDGE_RETURN_IF_ERROR(Write(chunk->second.index, chunk->first, at + taken));
      offset += taken;
      bytes = bytes.subspan(taken);
    }
    return Status::Ok();
  }

  const std::vector<std::vector<SummedRun>>& written() const { return written_; }

 private:
  struct Part {
    uint32_t index = 0;
    uint64_t bytes = 0;
  };

  // The piece that ends there in its chunk.
  Status Write(uint32_t chunk, uint64_t chunk_offset, uint64_t end) {
    const uint64_t begin = (end - 1) / order_.piece_bytes * order_.piece_bytes;
    for (ByteRate* const rate : {order_.rate, order_.node_rate.get()}) {
      for (Duration pause = rate->Pause(); pause > Duration::zero() && !order_.progress->is_withdrawn; pause = rate->Pause()) {
        std::this_thread::sleep_for(std::min(pause, kRatePauseMax));
      }
    }
    if (order_.progress->is_withdrawn) return Status(Code::kFailedPrecondition, "it is wanted no more");
    order_.rate->Take(end - begin);
    order_.node_rate->Take(end - begin);
    const ByteSpan piece(buffer_.OfSize(order_.piece_bytes), end - begin);
    KEDGE_ASSIGN_OR_RETURN(const PieceWritten written, order_.object->WriteBytes(piece, chunk_offset + begin));
    order_.rate->GiveBack(piece.size() - written.bytes);
    written_[chunk].push_back({begin, piece.size(), written.crc32c});
    order_.progress->bytes += piece.size();
    *order_.pulled_bytes += piece.size();
    order_.progress->written_bytes += written.bytes;
    os::KillPoint("carry-piece-written");
    return Status::Ok();
  }

  const CarryOrder& order_;
  std::map<uint64_t, Part> chunks_;  // by object offset
  std::vector<std::vector<SummedRun>> written_;
  AlignedBuffer buffer_;
};

}  // namespace

Result<Buffer> CarryImage(const CarryOrder& order) {
  BringFrom from;
  from.generation = order.generation;
  from.rank = order.image.rank;
  from.self = order.self;
  from.sources.push_back({redundancy::SourceKind::kNode, order.node, nullptr, 0});
  KEDGE_ASSIGN_OR_RETURN(const auto bringer, StreamBringer::Make(order.link, std::move(from)));
  const Buffer& encoded = bringer->image_record();
  if (encoded.size() != order.image.record_bytes ||
      crc32c::Compute(encoded.data(), encoded.size()) != order.image.record_crc32c) {
    return Status(Code::kCorrupt, "the image record is not the one that its node has announced");
  }
  KEDGE_ASSIGN_OR_RETURN(const ImageRecord record, DecodeImageRecord(encoded));
  if (record.identity.generation != order.generation || record.identity.rank != order.image.rank) {
    return Status(Code::kCorrupt, "the image record is another image's: " + record.identity.ToString());
  }
  KEDGE_ASSIGN_OR_RETURN(const auto captured, CapturedRuns(record, order.piece_bytes));
  KEDGE_ASSIGN_OR_RETURN(const auto stream, redundancy::ImageStream::Make(record, encoded.size()));
  PieceWriter writer(order, record);
  const auto write = [&](uint64_t offset, ByteSpan bytes) { return writer.Add(offset, bytes); };
  KEDGE_RETURN_IF_ERROR(bringer->BringTo(stream, 0, stream.bytes(), write));
  for (uint32_t i = 0; i < captured.size(); ++i) {
    const auto difference = FirstDifference(captured[i], writer.written()[i]);
    if (!difference) continue;
    return Status(Code::kCorrupt, fmt::format("bytes {} to {} of chunk {} did not come from node {} as they were captured",
                                              difference->begin, difference->end, i, order.node));
  }
  return encoded;
}

}  // namespace kedge

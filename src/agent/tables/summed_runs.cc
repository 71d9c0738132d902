#include "agent/tables/summed_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"

namespace kedge {
namespace {

// Runs one after the other, as one.
struct Joined {
  uint64_t end = 0;
  uint32_t crc32c = 0;
  size_t next = 0;

  // False: the next run is not there, or does not follow.
  bool Take(std::span<const SummedRun> runs) {
    if (next == runs.size() || runs[next].begin != end) return false;
    const SummedRun& run = runs[next++];
    crc32c = crc32c::Combine(crc32c, run.crc32c, run.bytes);
    end += run.bytes;
    return true;
  }
};

}  // namespace

Result<std::vector<std::vector<SummedRun>>> CapturedRuns(const ImageRecord& record, uint64_t piece_bytes) {
  std::vector<std::vector<const Extent*>> extents(record.chunks.size());
  for (const Extent& extent : record.extents) {
    if (record.chunks[extent.chunk].object == 0) extents[extent.chunk].push_back(&extent);
  }
  std::vector<std::vector<SummedRun>> captured(record.chunks.size());
  for (size_t i = 0; i < record.chunks.size(); ++i) {
    if (record.chunks[i].object != 0) continue;
    std::sort(extents[i].begin(), extents[i].end(),
              [](const Extent* a, const Extent* b) { return a->chunk_offset < b->chunk_offset; });
    uint64_t end = 0;
    for (const Extent* extent : extents[i]) {
      if (extent->chunk_offset != end) break;
      end += extent->bytes;
      if (captured[i].empty() || extent->chunk_offset % piece_bytes == 0) {
        captured[i].push_back({extent->chunk_offset, extent->bytes, extent->crc32c});
      } else {
        SummedRun& run = captured[i].back();
        run.crc32c = crc32c::Combine(run.crc32c, extent->crc32c, extent->bytes);
        run.bytes += extent->bytes;
      }
    }
    if (end != record.chunks[i].bytes) {
      return Status(Code::kUnsupported, fmt::format("byte {} of chunk {}, which has {}, is not in exactly one extent", end, i,
                                                    record.chunks[i].bytes));
    }
  }
  return captured;
}

std::optional<RunDifference> FirstDifference(std::span<const SummedRun> captured, std::vector<SummedRun> written) {
  std::sort(written.begin(), written.end(), [](const SummedRun& a, const SummedRun& b) { return a.begin < b.begin; });
  Joined theirs, ours;
  uint64_t same = 0;
  while (theirs.next < captured.size() || ours.next < written.size()) {
    const bool took = theirs.end <= ours.end ? theirs.Take(captured) : ours.Take(written);
    const bool meet = theirs.end == ours.end;
    if (!took || (meet && theirs.crc32c != ours.crc32c)) return RunDifference{same, std::max(theirs.end, ours.end)};
    if (meet) same = theirs.end;
  }
  if (theirs.end == ours.end) return std::nullopt;
  return RunDifference{same, std::max(theirs.end, ours.end)};
}

}  // namespace kedge

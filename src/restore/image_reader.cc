// See image_reader.h.
#include "restore/image_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/staged_copy.h"
#include "os/process/thread.h"

namespace kedge {
namespace {

// What is read from a device at a time: still in the cache when it is checked, and long enough for the kernel to read ahead.
constexpr uint64_t kDeviceReadBytes = PartBuffers::kBytes;
// Of mapped memory, where rows are taken out of it: so many of them at a time as end within this, or one. What is copied of them
// goes on while the next ones are read. 8 KiB took a tenth longer, 16 KiB half as long again.
constexpr uint64_t kMemoryPartBytes = 4 << 10;
// Longer ones are copied as they are.
constexpr uint64_t kRowBytesMax = 16 << 10;
// Below this a thread costs more than it brings.
constexpr uint64_t kBytesPerThreadMin = 8 << 20;
constexpr uint64_t kDecompressedBytesPerThreadMin = 2 << 20;

// Does `step` for each of the numbers below `steps`, by so many threads, each in order, and none after one has failed: its error.
Status InParallel(size_t steps, size_t threads, const std::function<Status(size_t)>& step) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status first_error;
  const auto run = [&] {
    for (size_t i = next++; i < steps; i = next++) {
      Status status = step(i);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (first_error.ok()) first_error = std::move(status);
      next = steps;
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < threads; ++i) {
    auto helper = os::StartThread("kedge-read", run);
    if (!helper.ok()) break;  // fewer threads do the same work
    helpers.push_back(std::move(*helper));
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  return first_error;
}

}  // namespace

ImageReader::ImageReader(ImageRecord record, std::vector<std::unique_ptr<ChunkSource>> sources, size_t threads)
    : record_(std::move(record)),
      sources_(std::move(sources)),
      threads_(std::max<size_t>(threads, 1)),
      first_extent_(record_.regions.size() + 1, 0) {
  for (const Extent& extent : record_.extents) ++first_extent_[extent.region + 1];
  for (size_t region = 1; region < first_extent_.size(); ++region) first_extent_[region] += first_extent_[region - 1];
  for (uint32_t region = 0; region < record_.regions.size(); ++region) {
    if (record_.regions[region].kind != RegionKind::kFile) by_id_.emplace(record_.regions[region].id, region);
  }
}

int ImageReader::FindRegion(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? -1 : static_cast<int>(found->second);
}

int ImageReader::FindFile(const std::string& path) const {
  for (size_t i = 0; i < record_.regions.size(); ++i) {
    if (record_.regions[i].kind == RegionKind::kFile && record_.regions[i].name == path) return static_cast<int>(i);
  }
  return -1;
}

void ImageReader::Count(SourceKind kind, uint64_t bytes) {
  (kind == SourceKind::kMemory ? memory_bytes_ : kind == SourceKind::kDirectory ? directory_bytes_ : store_bytes_) += bytes;
}

RestoredBytes ImageReader::restored() const {
  return {memory_bytes_, directory_bytes_, store_bytes_, corrupt_copies_};
}

Status ImageReader::ReadFrom(ChunkSource& source, const Work& work, std::atomic<uint64_t>* taken) {
  const Extent& extent = record_.extents[work.extent];
  uint32_t found = 0;
  if (const std::byte* memory = source.Memory(extent.chunk)) {
    found = ReadMemory(memory + extent.chunk_offset, work, taken);
  } else {
    KEDGE_ASSIGN_OR_RETURN(found, ReadDevice(source, work, taken));
  }
  if (found == extent.crc32c) return Status::Ok();
  return Status(Code::kCorrupt, fmt::format("checksum {:08x} expected, {:08x} found", extent.crc32c, found));
}

uint32_t ImageReader::ReadMemory(const std::byte* from, const Work& work, std::atomic<uint64_t>* taken) {
  const Extent& extent = record_.extents[work.extent];
  const RegionTarget& target = *work.target;
  const uint64_t begin = extent.region_offset, end = begin + extent.bytes, region_bytes = record_.regions[extent.region].bytes;
  PartBuffers::Buffer buffer(work.buffers);
  WantedRuns runs(target, begin, end);
  std::vector<ByteRun> rows;
  uint32_t sum = 0;
  uint64_t bytes = 0, taken_here = 0;
  auto run = runs.Next();
  for (uint64_t at = begin; at < end; at += bytes) {
    const std::byte* const here = from + (at - begin);
    if (!run || run->from > at) {
      bytes = (run ? run->from : end) - at;
      sum = crc32c::ChecksumOnly(here, bytes, sum);
    } else if (target.boxes.empty() || run->bytes > kRowBytesMax) {
      bytes = run->bytes;
      sum = crc32c::CopyAndChecksum(target.memory + run->to, here, bytes, sum, region_bytes);
      taken_here += bytes;
      run = runs.Next();
    } else {
      rows.clear();
      do {
        rows.push_back(*run);
        run = runs.Next();
      } while (run && run->from + run->bytes - at <= kMemoryPartBytes);
      const bool reaches_next = run && run->from - at <= kMemoryPartBytes;
      bytes = (reaches_next ? run->from : rows.back().from + rows.back().bytes) - at;
      // What is taken is what is checked, whoever else writes there.
      std::memcpy(buffer.data(), here, bytes);
      for (const ByteRun& row : rows) {
        crc32c::CopyPastCache(target.memory + row.to, buffer.data() + (row.from - at), row.bytes);
        taken_here += row.bytes;
      }
      sum = crc32c::Extend(sum, buffer.data(), bytes);
    }
  }
  crc32c::OrderCopiesPastCache();
  *taken += taken_here;
  return sum;
}

Result<uint32_t> ImageReader::ReadDevice(ChunkSource& source, const Work& work, std::atomic<uint64_t>* taken) {
  const Extent& extent = record_.extents[work.extent];
  // Where blocks of the chunk begin, parts begin: none is decompressed twice.
  const uint64_t begin = extent.chunk_offset, end = begin + extent.bytes, first = begin / kDeviceReadBytes;
  const auto begin_of = [&](size_t part) { return std::clamp((first + part) * kDeviceReadBytes, begin, end); };
  std::vector<uint32_t> sums(extent.bytes == 0 ? 0 : (end - 1) / kDeviceReadBytes - first + 1);
  const size_t threads =
      source.Decompresses(extent.chunk) ? std::clamp<size_t>(extent.bytes / kDecompressedBytesPerThreadMin, 1, threads_) : 1;
  const auto read_part = [&](size_t part) {
    const uint64_t offset = begin_of(part), bytes = begin_of(part + 1) - offset;
    const uint64_t at = extent.region_offset + (offset - begin);
    PartBuffers::Buffer buffer(work.buffers);
    const auto whole = work.target->Whole(at, at + bytes);
    const bool is_whole = whole.size() == bytes;
    std::byte* const here = is_whole ? whole.data() : buffer.data();
    KEDGE_RETURN_IF_ERROR(source.Read(extent.chunk, offset, here, bytes));
    sums[part] = crc32c::Compute(here, bytes);
    *taken += is_whole ? bytes : work.target->Take(at, {here, bytes});
    crc32c::OrderCopiesPastCache();
    return Status::Ok();
  };
  KEDGE_RETURN_IF_ERROR(InParallel(sums.size(), threads, read_part));
  uint32_t all = 0;
  for (size_t part = 0; part < sums.size(); ++part) all = crc32c::Combine(all, sums[part], begin_of(part + 1) - begin_of(part));
  return all;
}

Status ImageReader::ReadExtent(uint32_t extent, std::byte* to) {
  const RegionTarget target{record_.extents[extent].region, to, record_.extents[extent].region_offset};
  return ReadExtent({extent, &target, nullptr});
}

Status ImageReader::ReadExtent(const Work& work) {
  const Extent& extent = record_.extents[work.extent];
  Status failure(Code::kIncomplete, "no copy is within reach");
  std::string tried;
  for (const auto& source : sources_) {
    if (!source->Has(extent.chunk)) continue;
    std::atomic<uint64_t> taken{0};
    const Status last = ReadFrom(*source, work, &taken);
    if (last.ok()) {
      Count(source->KindOf(extent.chunk), taken);
      return last;
    }
    // A copy that is bad is not one that was never there, and one that cannot be had may be good.
    const bool out_of_reach = last.code() == Code::kTimeout || last.code() == Code::kUnavailable;
    if (tried.empty() || failure.code() == Code::kNotFound || out_of_reach) failure = last;
    ++corrupt_copies_;
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", source->Describe(extent.chunk), last.message());
    LogWarning("restore", "{}: region {} at {}: a bad copy is passed over: {}: {}", record_.identity.ToString(),
               record_.regions[extent.region].id, extent.region_offset, source->Describe(extent.chunk), last.message());
  }
  return Status(failure.code(), fmt::format("{}: region {} at {}: no good copy of {} bytes ({})", record_.identity.ToString(),
                                            record_.regions[extent.region].id, extent.region_offset, extent.bytes,
                                            tried.empty() ? failure.message() : tried));
}

bool ImageReader::InMemory(const Extent& extent) const {
  for (const auto& source : sources_) {
    if (source->Has(extent.chunk)) return source->Memory(extent.chunk) != nullptr;
  }
  return false;
}

Status ImageReader::RunWork(const std::vector<Work>& work, size_t threads) {
  return InParallel(work.size(), threads, [&](size_t i) { return ReadExtent(work[i]); });
}

Status ImageReader::ReadRegions(const std::vector<RegionTarget>& targets, PartBuffers* buffers) {
  std::vector<Work> from_memory;
  std::vector<Work> from_devices;
  uint64_t memory_bytes = 0;
  for (const RegionTarget& target : targets) {
    const auto [begin, end] = ExtentsOf(target.region);
    for (uint32_t index = begin; index < end; ++index) {
      const Extent& extent = record_.extents[index];
      if (!target.Wants(extent.region_offset, extent.region_offset + extent.bytes)) continue;
      const bool in_memory = InMemory(extent);
      (in_memory ? from_memory : from_devices).push_back({index, &target, buffers});
      if (in_memory) memory_bytes += extent.bytes;
    }
  }
  KEDGE_RETURN_IF_ERROR(RunWork(from_memory, std::clamp<size_t>(memory_bytes / kBytesPerThreadMin, 1, threads_)));
  // One sequential reader: the kernel reads ahead while it checks. Two that take turns were a quarter slower, four at a time
  // took half as long again (docs/performance.md).
  return RunWork(from_devices, 1);
}

}  // namespace kedge

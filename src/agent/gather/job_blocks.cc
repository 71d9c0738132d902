#include "agent/gather/job_blocks.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "agent/flush/flush.h"
#include "agent/gather/stagers.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/object_under_way.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "reduce/fingerprint.h"
#include "store/keys.h"
#include "store/publish.h"

namespace kedge {
namespace {

// Nodes that have not agreed by then do not.
constexpr Duration kAgreedWithin = std::chrono::seconds(60);
// Read or written at a time: whole blocks.
constexpr size_t kStepBytes = size_t{4} << 20;

// Before the names of its objects in their keys.
std::string PrefixOf(const Generation& generation) {
  return keys::RelativeToJob(generation.job, keys::GenerationFolder(generation)) + '/';
}

struct FoundBlock {
  reduce::ImageBlock place;  // of one of them
  uint32_t count = 0;
};
using Blocks = std::unordered_map<Fingerprint, FoundBlock, reduce::HashOfFingerprint>;

}  // namespace

struct JobBlocks::Source {
  uint32_t rank = 0;
  HeldStream held;
  struct Run {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  std::vector<Run> chunks;  // in the stream
};

// Where one of each of the blocks lies that have one fingerprint.
struct JobBlocks::Found {
  uint32_t block_bytes = 0;
  Blocks blocks;
};

namespace {

// Of one chunk, what is neither zeros nor in the base. Blocking.
Status LookAtChunk(const HeldStream& held, uint32_t rank, uint64_t offset, uint64_t bytes, uint32_t block_bytes,
                   const reduce::BaseImage* base, Blocks* found) {
  Buffer buffer(std::min<uint64_t>(bytes, kStepBytes));
  for (uint64_t done = 0; done < bytes; done += buffer.size()) {
    buffer.resize(std::min<uint64_t>(bytes - done, kStepBytes));
    KEDGE_RETURN_IF_ERROR(held.Read(offset + done, buffer.size(), buffer.data()));
    for (size_t at = 0; at + block_bytes <= buffer.size(); at += block_bytes) {
      const ByteSpan block = ByteSpan(buffer).subspan(at, block_bytes);
      if (reduce::IsZeros(block)) continue;
      const Fingerprint fingerprint = reduce::FingerprintOf(block);
      const uint64_t place = offset + done + at;
      if (base != nullptr && base->Find({place, block_bytes}, fingerprint)) continue;
      ++found->try_emplace(fingerprint, FoundBlock{{rank, place}}).first->second.count;
    }
  }
  return Status::Ok();
}

// Where it is the first to write it: what several nodes have agreed on is the same object whoever of this node writes it.
// Blocking.
Status WriteShare(StoreContext& store, const Generation& generation, const reduce::CommonBlocks::Share& share,
                  uint32_t block_bytes, const Blocks& blocks, const std::map<uint32_t, HeldStream>& images) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store.CatalogToWrite(generation.job, generation.attempt));
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation));
  ObjectUnderWay object(generation, share.object.key.substr(PrefixOf(generation).size()));
  KEDGE_RETURN_IF_ERROR(object.Begin(catalog, share.object.bytes));
  os::KillPoint("common-begun");
  Buffer buffer;
  for (size_t next = 0; next < share.blocks.size();) {
    buffer.clear();
    const uint64_t offset = next * block_bytes;
    for (; next < share.blocks.size() && buffer.size() + block_bytes <= kStepBytes; ++next) {
      const auto found = blocks.find(share.blocks[next]);
      const auto image = found == blocks.end() ? images.end() : images.find(found->second.place.rank);
      if (image == images.end()) return Status(Code::kNotFound, "a block is not on this node any more");
      const size_t at = buffer.size();
      buffer.resize(at + block_bytes);
      KEDGE_RETURN_IF_ERROR(image->second.Read(found->second.place.stream_offset, block_bytes, &buffer[at]));
      if (reduce::FingerprintOf(ByteSpan(buffer).subspan(at)) != share.blocks[next]) {
        return Status(Code::kCorrupt, "a block has changed in its slot");
      }
    }
    KEDGE_RETURN_IF_ERROR(object.WriteAt(offset, buffer));
    KEDGE_RETURN_IF_ERROR(object.FlushHint(offset, buffer.size()));
  }
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  os::KillPoint("common-written");
  ObjectWriter* const writer = object.writer();
  KEDGE_RETURN_IF_ERROR(catalog.store().Publish(std::span(&writer, 1)).front());
  object.MarkPublished();
  os::KillPoint("common-published");
  return Status::Ok();
}

}  // namespace

bool JobBlocks::AreWanted(const Job& job) {
  const JobKeys& keys = job.hello.keys;
  const bool are_written_here = keys.store_layout != StoreLayout::kLeaders && !Stagers::HasThem(job);
  return keys.DeduplicatesJob() && are_written_here;
}

std::vector<JobBlocks::Source> JobBlocks::TakeReaders(Version& version, const std::vector<uint32_t>& ranks,
                                                      std::vector<uint64_t>* ids) {
  std::vector<Source> taken;
  for (const uint32_t rank : ranks) {
    const auto found = version.images.find(rank);
    if (found == version.images.end() || found->second->doomed || !found->second->ended) continue;
    Image& image = *found->second;
    images_.AddReader(image);
    ids->push_back(image.id);
    taken.push_back({rank, HeldStream::Of(image), {}});
    for (const ImageChunk& chunk : image.chunks) taken.back().chunks.push_back({chunk.object_offset, chunk.bytes});
  }
  return taken;
}

void JobBlocks::EndReaders(const Generation& generation, const std::vector<uint64_t>& ids) {
  for (const uint64_t id : ids) {
    Image* const image = images_.Find(id);
    KEDGE_CHECK(image != nullptr);
    images_.RemoveReader(*image);
  }
  if (const Job* const job = core_.FindJobOf(generation)) retention_.Reconsider(*job, generation.name);
  core_.Nudge();
}

void JobBlocks::Look(Version& version, const std::vector<uint32_t>& ranks, uint32_t member,
                     std::function<void(reduce::PopularBlocks)> done) {
  const uint32_t block_bytes = flush_.BlockBytesOf(*version.job);
  const bool shares = version.job->hello.keys.reduce_incremental != Feature::kOff;
  std::vector<uint64_t> ids;
  std::vector<Source> images = TakeReaders(version, ranks, &ids);
  struct Looked {
    std::shared_ptr<const Found> found;
    reduce::PopularBlocks popular;
  };
  core_.Background(
      core_.flushers(),
      [images = std::move(images), store = version.job->store, generation = version.generation, block_bytes, shares, member,
       most = version.job->hello.keys.reduce_common_most] {
        auto found = std::make_shared<Found>();
        found->block_bytes = block_bytes;
        const auto look = [&]() -> Status {
          std::optional<Catalog> catalog;
          if (shares) {
            KEDGE_ASSIGN_OR_RETURN(catalog, store->CatalogToWrite(generation.job, generation.attempt));
            KEDGE_RETURN_IF_ERROR(PrepareGeneration(*catalog, generation));
          }
          for (const Source& image : images) {
            const auto base =
                catalog ? store->BaseFor(*catalog, generation, image.rank, block_bytes, /*with_neighbours=*/true) : nullptr;
            for (const Source::Run& run : image.chunks) {
              KEDGE_RETURN_IF_ERROR(
                  LookAtChunk(image.held, image.rank, run.offset, run.bytes, block_bytes, base.get(), &found->blocks));
            }
          }
          return Status::Ok();
        };
        const Status looked = look();
        if (!looked.ok()) {
          LogInfo("agent", "{}: blocks in common with other nodes are not looked for: {}", generation.ToString(),
                  looked.ToString());
          found->blocks.clear();
        }
        std::vector<Fingerprint> fingerprints;
        for (const auto& [fingerprint, block] : found->blocks) fingerprints.insert(fingerprints.end(), block.count, fingerprint);
        return Looked{std::move(found), reduce::PopularBlocks::Of(member, fingerprints, most)};
      },
      [this, ids, generation = version.generation, done = std::move(done)](Looked looked) {
        EndReaders(generation, ids);
        if (core_.FindVersion(generation) != nullptr) looked_at_[generation] = {core_.clock().NowNs(), std::move(looked.found)};
        done(std::move(looked.popular));
      });
}

void JobBlocks::OnAgreed(Version& version, const reduce::PopularBlocks& all, uint32_t member) {
  const auto looked_at = looked_at_.extract(version.generation);
  if (looked_at.empty() || all.blocks().empty()) return;
  const std::shared_ptr<const Found> found = looked_at.mapped().found;
  const std::string prefix = PrefixOf(version.generation);
  const auto agreed_on = std::make_shared<const reduce::CommonBlocks>(
      all, found->block_bytes,
      [&](uint32_t node, const Fingerprint& agreed) { return prefix + keys::CommonObject(node, reduce::NumberOf(agreed)); });
  if (version.writers == Version::Writers::kAwaited) version.common = agreed_on;
  auto share = agreed_on->ShareOf(member);
  if (!share) return;
  const uint64_t bytes = share->object.bytes;
  core_.flush_rate().Take(bytes);
  std::vector<uint32_t> ranks;
  for (const auto& [rank, image] : version.images) ranks.push_back(rank);
  std::vector<uint64_t> ids;
  std::map<uint32_t, HeldStream> images;
  for (Source& image : TakeReaders(version, ranks, &ids)) images.emplace(image.rank, std::move(image.held));
  core_.Background(
      core_.flushers(),
      [store = version.job->store, generation = version.generation, share = *std::move(share), found,
       images = std::move(images)] { return WriteShare(*store, generation, share, found->block_bytes, found->blocks, images); },
      [this, ids, generation = version.generation, bytes](const Status& written) {
        EndReaders(generation, ids);
        if (written.ok()) {
          core_.counters().bytes_flushed += bytes;
          return;
        }
        LogWarning("agent", "{}: blocks that other nodes have as well are not written from here: {}", generation.ToString(),
                   written.ToString());
      });
}

void JobBlocks::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(looked_at_, [&](const auto& entry) { return now_ns - entry.second.since_ns > kAgreedWithin.count(); });
}

}  // namespace kedge

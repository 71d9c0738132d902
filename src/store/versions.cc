#include "store/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/crc32c.h"
#include "store/lineage.h"
#include "store/record_io.h"

namespace kedge {

namespace {

constexpr uint32_t kMissingRanksListed = 16;

// Those that have a folder among the entries of their name's.
std::vector<Generation> GenerationsIn(const std::vector<StoreEntry>& entries, const Catalog& catalog, const std::string& job,
                                      const std::string& name) {
  std::vector<Generation> generations;
  for (const StoreEntry& entry : entries) {
    Generation generation{catalog.id(), job, name, 0, 0, 0};
    if (entry.is_folder && keys::ParseGenerationFolder(entry.name, &generation)) generations.push_back(std::move(generation));
  }
  return generations;
}

// The names in a folder; none when the folder is not there.
Result<std::set<std::string>> NamesIn(Store& store, const std::string& folder) {
  std::set<std::string> names;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(store, folder));
  for (const StoreEntry& entry : entries) names.insert(entry.name);
  return names;
}

void AddReferences(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
  std::sort(to->begin(), to->end());
  to->erase(std::unique(to->begin(), to->end()), to->end());
}

// Which of the version record's parts is not there, for people. Their content is checked when it is read.
Result<std::string> MissingPart(const Catalog& catalog, const VersionRecord& version) {
  if (!version.part_inside.empty()) return std::string();
  KEDGE_ASSIGN_OR_RETURN(const std::set<std::string> parts, NamesIn(catalog.store(), keys::PartsFolder(version.generation)));
  for (const PartEntry& part : version.parts) {
    const std::string name = keys::PartName(part.first_rank, part.images);
    if (!parts.contains(name)) return fmt::format("its part record {} is gone", name);
  }
  return std::string();
}

bool MarkUnknown(const Status& status, VersionInfo* info) {
  if (!IsUnknown(status)) return false;
  info->unknown = true;
  info->foreign = status.code() == Code::kMismatch;
  info->unreadable = status;
  info->reason = status.message();
  return true;
}

// What images under way may refer to. Of a damaged record its name alone is taken: FinishVersion looks whether all is there.
Status AddBases(const Catalog& catalog, VersionInfo* info) {
  KEDGE_ASSIGN_OR_RETURN(const std::set<std::string> names, NamesIn(catalog.store(), keys::BasesFolder(info->generation)));
  for (const std::string& name : names) {
    const std::string key = keys::BasesFolder(info->generation) + '/' + name;
    const Result<BaseRecord> base = ReadOwnRecord(catalog, key, &DecodeBaseRecord);
    if (base.status().code() == Code::kNotFound) continue;  // removed while we looked
    if (IsUnknown(base.status())) return base.status();
    Generation named = info->generation;
    if (keys::ParseGenerationFolder(name, &named)) {
      AddReferences({keys::RelativeToJob(named.job, keys::GenerationFolder(named))}, &info->references);
    }
    if (base.ok()) AddReferences(base->references, &info->references);
  }
  return Status::Ok();
}

// Fills in what the parts say of a generation without a usable version record.
Status JudgeParts(const Catalog& catalog, VersionInfo* info) {
  std::vector<std::string> problems;
  const Result<std::vector<PartRecord>> parts = ReadPartRecords(catalog, info->generation, &problems);
  if (MarkUnknown(parts.status(), info)) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(parts.status());
  const Status bases = AddBases(catalog, info);
  if (MarkUnknown(bases, info)) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(bases);
  for (const PartRecord& part : *parts) {
    AddReferences(part.references, &info->references);
    for (const ImageEntry& image : part.images) info->image_bytes += image.image_bytes;
  }
  const Result<Coverage> coverage = CoverageOf(*parts);
  if (!coverage.ok()) {
    info->reason = coverage.status().message();
    return Status::Ok();
  }
  info->ranks = coverage->ranks;
  if (!parts->empty()) info->first_rank = parts->front().images.front().rank;
  info->missing_ranks = coverage->missing_ranks;
  info->missing_count = coverage->missing_count;
  info->finishable = coverage->Complete();
  if (!info->reason.empty()) return Status::Ok();  // a damaged version record says more
  if (info->finishable) {
    info->reason = "all images are there, the version record is missing";
  } else if (!problems.empty()) {
    info->reason = problems.front();
  } else if (info->ranks == 0) {
    info->reason = "no image has been published yet";
  } else {
    info->reason =
        fmt::format("{} of {} images are missing, rank {} first", info->missing_count, info->ranks, info->missing_ranks.front());
  }
  return Status::Ok();
}

// One that is being removed counts for what it is, complete, until it is gone.
void MarkAbandoned(const std::vector<RestoredRecord>& restored, std::vector<VersionInfo>* versions) {
  std::vector<Generation> complete;
  for (const VersionInfo& info : *versions) {
    if (info.complete || info.doomed) complete.push_back(info.generation);
  }
  const Lineage lineage(restored, complete);
  for (VersionInfo& info : *versions) info.abandoned = !lineage.Has(info.generation);
}

// Removers mark a version before they look for another one that is complete. When several have died in between, all
// versions may bear the mark, and the newest one is still there for every reader.
void Reprieve(std::vector<VersionInfo>* newest_first) {
  const auto complete = [](const VersionInfo& info) { return info.complete && !info.abandoned; };
  if (std::any_of(newest_first->begin(), newest_first->end(), complete)) return;
  const auto doomed = std::find_if(newest_first->begin(), newest_first->end(),
                                   [](const VersionInfo& info) { return info.doomed && !info.abandoned; });
  if (doomed == newest_first->end()) return;
  doomed->removed = doomed->doomed = false;
  doomed->complete = doomed->reprieved = true;
  doomed->reason.clear();
}

void MarkSuperseded(std::vector<VersionInfo>* newest_first) {
  std::optional<int64_t> complete;
  for (VersionInfo& info : *newest_first) {
    if (!info.complete || info.abandoned) continue;
    info.superseded = complete == info.generation.version;
    complete = info.generation.version;
  }
}

bool IsSameTaking(const Generation& a, const Generation& b) {
  return a.attempt == b.attempt && a.take == b.take;
}

// Ok: no.
Status DisagreementOf(const VersionInfo& a, const VersionInfo& b) {
  const auto may_wait = [](const VersionInfo& info) {
    return !info.complete && !info.removed && !info.unknown && info.ranks > 0;
  };
  const bool disagree = IsSameTaking(a.generation, b.generation) && a.generation.version != b.generation.version && may_wait(a) &&
                        may_wait(b) && a.first_rank != b.first_rank;
  return disagree ? Disagreement(a.generation, a.first_rank, b.generation, b.first_rank) : Status::Ok();
}

void ExplainDisagreements(std::vector<VersionInfo>* versions) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<VersionInfo*>> takings;
  for (VersionInfo& info : *versions) {
    if (!info.complete) takings[{info.generation.attempt, info.generation.take}].push_back(&info);
  }
  for (const auto& [taking, infos] : takings) {
    for (size_t i = 1; i < infos.size(); ++i) {
      const Status status = DisagreementOf(*infos[0], *infos[i]);
      if (status.ok()) continue;
      infos[0]->reason = infos[i]->reason = status.message();
    }
  }
}

Status CheckPart(const Catalog& catalog, const Generation& generation, const std::string& key, const PartRecord& part,
                 const std::string& component) {
  if (part.generation != generation || keys::PartName(part.images.front().rank, part.images.size()) != component) {
    return Status(Code::kCorrupt,
                  PathInStore(catalog.store(), key) + ": is the part record of " + part.generation.ToString() + ", misplaced");
  }
  return Status::Ok();
}

}  // namespace

Result<VersionRecord> ReadVersionRecord(const Catalog& catalog, const Generation& generation) {
  const std::string key = keys::VersionKey(generation);
  Result<VersionRecord> version = ReadOwnRecord(catalog, key, &DecodeVersionRecord);
  if (version.ok() && version->generation != generation) {
    return Status(Code::kCorrupt, PathInStore(catalog.store(), key) + ": is the version record of " +
                                      version->generation.ToString() + ", misplaced");
  }
  return version;
}

namespace {

// As far as its own folder tells.
Result<VersionInfo> InspectAlone(const Catalog& catalog, const Generation& generation) {
  VersionInfo info;
  info.generation = generation;
  const std::string folder = keys::GenerationFolder(generation);
  const Result<std::vector<StoreEntry>> entries = catalog.store().List(folder);
  if (!entries.ok()) return entries.status();
  bool has_objects = false;
  for (const StoreEntry& entry : *entries) {
    if (entry.name == "pinned") info.pinned = true;
    if (entry.name == "removed") info.removed = true;
    has_objects = has_objects || entry.name == "data";
  }
  if (info.pinned) info.removed = false;  // a pin beats the mark (retention.h)
  const Result<VersionRecord> version = ReadVersionRecord(catalog, generation);
  if (info.removed && (version.status().code() == Code::kNotFound || version.status().code() == Code::kCorrupt)) {
    info.reason = has_objects ? "removed; its objects are kept while others refer to them"
                              : "removed; a mark keeps what nodes still have from coming back";
    return info;
  }
  if (version.ok()) {
    KEDGE_ASSIGN_OR_RETURN(info.reason, MissingPart(catalog, *version));
    const bool whole = info.reason.empty();
    info.complete = whole && !info.removed;
    info.doomed = whole && info.removed;
    if (whole) {
      KEDGE_ASSIGN_OR_RETURN(info.drained, catalog.store().IsDrained(keys::VersionKey(generation)));
    }
    info.references = version->references;
    info.ranks = version->ranks;
    info.image_bytes = version->image_bytes;
    if (whole) info.wall_time_ns = version->wall_time_ns;
    if (info.removed) info.reason = "marked removed";
    if (whole || info.removed) return info;
  } else if (version.status().code() != Code::kNotFound) {
    info.reason = version.status().message();
    info.unknown = info.removed;  // unreadable for now: whether it may go cannot be told
    if (MarkUnknown(version.status(), &info) || info.removed) return info;
  }
  info.image_bytes = 0;
  KEDGE_RETURN_IF_ERROR(JudgeParts(catalog, &info));
  return info;
}

}  // namespace

Result<VersionInfo> InspectGeneration(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(Validate(generation));
  Result<VersionInfo> info = InspectAlone(catalog, generation);
  if (!info.ok() || !info->doomed) return info;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, generation.job, generation.name));
  for (const VersionInfo& other : versions) {
    if (other.generation == generation) return other;
  }
  return info;
}

Result<std::vector<Generation>> ListGenerations(const Catalog& catalog, const std::string& job, const std::string& name) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), keys::NameFolder(job, name)));
  std::vector<Generation> generations = GenerationsIn(entries, catalog, job, name);
  std::sort(generations.begin(), generations.end());
  return generations;
}

Result<std::vector<RestoredRecord>> ReadRestored(const Catalog& catalog, const std::string& job, const std::string& name) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), keys::NameFolder(job, name)));
  return catalog.RestoredIn(job, name, entries);
}

Result<std::vector<VersionInfo>> ListVersions(const Catalog& catalog, const std::string& job, const std::string& name,
                                              const std::function<bool(const Generation&)>& is_wanted) {
  KEDGE_RETURN_IF_ERROR(ValidateName(job, "job name"));
  KEDGE_RETURN_IF_ERROR(ValidateName(name, "checkpoint name"));
  std::vector<VersionInfo> versions;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), keys::NameFolder(job, name)));
  for (const Generation& generation : GenerationsIn(entries, catalog, job, name)) {
    if (is_wanted && !is_wanted(generation)) continue;
    Result<VersionInfo> info = InspectAlone(catalog, generation);
    if (info.status().code() == Code::kNotFound) continue;  // removed while we looked
    if (!info.ok()) return info.status();
    versions.push_back(std::move(*info));
  }
  std::sort(versions.begin(), versions.end(),
            [](const VersionInfo& a, const VersionInfo& b) { return a.generation > b.generation; });
  KEDGE_ASSIGN_OR_RETURN(const std::vector<RestoredRecord> restored, catalog.RestoredIn(job, name, entries));
  MarkAbandoned(restored, &versions);
  Reprieve(&versions);
  MarkSuperseded(&versions);
  ExplainDisagreements(&versions);
  return versions;
}

bool IsDisplaced(const VersionInfo& info, const std::vector<VersionInfo>& versions) {
  const auto order = [](const Generation& generation) { return std::pair(MomentOf(generation), generation.version); };
  return std::any_of(versions.begin(), versions.end(), [&](const VersionInfo& other) {
    return other.complete && !other.abandoned && order(other.generation) > order(info.generation);
  });
}

bool IsWithdrawn(const VersionInfo& info, const std::vector<VersionInfo>& versions) {
  return info.removed && !info.unknown && !IsDisplaced(info, versions);
}

Status Disagreement(const Generation& one, uint32_t rank, const Generation& other, uint32_t other_rank) {
  const bool in_order = rank < other_rank;
  return Status(
      Code::kMismatch,
      fmt::format("checkpoint {} of '{}' in attempt {} is version {} on rank {} and version {} on rank {}: neither is ever "
                  "complete. All ranks must take the same versions in the same order",
                  one.take, one.name, one.attempt, in_order ? one.version : other.version, in_order ? rank : other_rank,
                  in_order ? other.version : one.version, in_order ? other_rank : rank));
}

Status DisagreementAmong(const std::vector<VersionInfo>& versions) {
  Moment complete;
  for (const VersionInfo& info : versions) {
    if (info.complete) complete = std::max(complete, MomentOf(info.generation));
  }
  Status latest;
  Moment latest_moment = complete;
  for (size_t i = 0; i < versions.size(); ++i) {
    if (!(latest_moment < MomentOf(versions[i].generation))) continue;
    for (size_t j = 0; j < versions.size(); ++j) {
      const Status status = DisagreementOf(versions[i], versions[j]);
      if (status.ok()) continue;
      latest = status;
      latest_moment = MomentOf(versions[i].generation);
      break;
    }
  }
  return latest;
}

Status FindDisagreement(const Catalog& catalog, const Generation& generation) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries,
                         ListIfThere(catalog.store(), keys::NameFolder(generation.job, generation.name)));
  for (const Generation& other : GenerationsIn(entries, catalog, generation.job, generation.name)) {
    if (other.version == generation.version || !IsSameTaking(other, generation)) continue;
    const Result<VersionInfo> info = InspectAlone(catalog, generation), found = InspectAlone(catalog, other);
    if (info.ok() && found.ok()) KEDGE_RETURN_IF_ERROR(DisagreementOf(*info, *found));
  }
  return Status::Ok();
}

Result<std::vector<VersionInfo>> CompleteVersions(const Catalog& catalog, const std::string& job, const std::string& name,
                                                  int64_t at_most) {
  KEDGE_ASSIGN_OR_RETURN(std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
  std::erase_if(versions, [at_most](const VersionInfo& info) {
    return !info.complete || info.abandoned || info.superseded || (at_most >= 0 && info.generation.version > at_most);
  });
  return versions;
}

namespace {

// None: nothing. From the latest taking on: none that was taken before one of the lineage is newer and of the lineage, too.
Result<std::optional<VersionInfo>> FindNewest(const Catalog& catalog, const std::string& job, const std::string& name,
                                              int64_t at_most, std::vector<RestoredRecord>* told) {
  std::optional<VersionInfo> newest;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), keys::NameFolder(job, name)));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<RestoredRecord> restored, catalog.RestoredIn(job, name, entries));
  if (told != nullptr) *told = restored;
  // Without those that are complete: these leave behind nothing but greater versions that were taken before them.
  const Lineage lineage(restored, {});
  std::vector<Generation> latest_first = GenerationsIn(entries, catalog, job, name);
  std::erase_if(latest_first, [&](const Generation& generation) {
    return !lineage.Has(generation) || (at_most >= 0 && generation.version > at_most);
  });
  std::sort(latest_first.begin(), latest_first.end(), [](const Generation& a, const Generation& b) {
    return std::pair(MomentOf(a), a.version) > std::pair(MomentOf(b), b.version);
  });
  for (const Generation& generation : latest_first) {
    Result<VersionInfo> info = InspectAlone(catalog, generation);
    if (info.status().code() == Code::kNotFound) continue;  // removed while we looked
    if (!info.ok()) return info.status();
    if (info->complete) {
      newest = std::move(*info);
      break;
    }
    if (!info->doomed) continue;
    // Whether it counts depends on all others.
    KEDGE_ASSIGN_OR_RETURN(std::vector<VersionInfo> versions, CompleteVersions(catalog, job, name, at_most));
    if (!versions.empty()) newest = std::move(versions.front());
    break;
  }
  return newest;
}

}  // namespace

Result<VersionInfo> NewestAtOrBelow(const Catalog& catalog, const std::string& job, const std::string& name, int64_t at_most,
                                    std::vector<RestoredRecord>* restored) {
  KEDGE_RETURN_IF_ERROR(ValidateName(job, "job name"));
  KEDGE_RETURN_IF_ERROR(ValidateName(name, "checkpoint name"));
  KEDGE_ASSIGN_OR_RETURN(std::optional<VersionInfo> newest, FindNewest(catalog, job, name, at_most, restored));
  if (newest) return std::move(*newest);
  return Status(Code::kNotFound, fmt::format("{}: no complete version of '{}' of job '{}'{}", catalog.store().description(), name,
                                             job, at_most < 0 ? "" : fmt::format(" at or below {}", at_most)));
}

Result<std::vector<PartRecord>> ReadParts(const Catalog& catalog, const Generation& generation,
                                          std::vector<std::string>* problems) {
  const Result<VersionRecord> version = ReadVersionRecord(catalog, generation);
  if (!version.ok() || version->part_inside.empty()) return ReadPartRecords(catalog, generation, problems);
  KEDGE_ASSIGN_OR_RETURN(PartRecord part, ReadPart(catalog, *version, version->parts.front()));
  return std::vector{std::move(part)};
}

Result<std::vector<PartRecord>> ReadPartRecords(const Catalog& catalog, const Generation& generation,
                                                std::vector<std::string>* problems) {
  std::vector<PartRecord> parts;
  KEDGE_ASSIGN_OR_RETURN(const std::set<std::string> names, NamesIn(catalog.store(), keys::PartsFolder(generation)));
  for (const std::string& name : names) {
    const std::optional<keys::PartNumbers> numbers = keys::ParsePartName(name);
    if (!numbers) continue;
    const std::string key = keys::PartKey(generation, numbers->first_rank, numbers->images);
    Result<PartRecord> part = ReadOwnRecord(catalog, key, &DecodePartRecord);
    Status status = part.ok() ? CheckPart(catalog, generation, key, *part, name) : part.status();
    if (IsUnknown(status)) return status;
    if (status.ok()) {
      parts.push_back(std::move(*part));
    } else if (problems != nullptr && status.code() != Code::kNotFound) {
      problems->push_back(status.message());
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const PartRecord& a, const PartRecord& b) { return a.images.front().rank < b.images.front().rank; });
  return parts;
}

std::vector<RankRun> RanksIn(const std::vector<PartRecord>& parts) {
  std::set<uint32_t> ranks;
  for (const PartRecord& part : parts) {
    for (const ImageEntry& image : part.images) ranks.insert(image.rank);
  }
  return RunsOf({ranks.begin(), ranks.end()});
}

Result<Coverage> CoverageOf(const std::vector<PartRecord>& parts) {
  Coverage coverage;
  if (parts.empty()) return coverage;
  coverage.ranks = parts.front().ranks;
  std::vector<bool> present(coverage.ranks);
  for (const PartRecord& part : parts) {
    if (part.ranks != coverage.ranks) {
      return Status(Code::kMismatch, fmt::format("{}: its parts disagree about the number of ranks, {} and {}",
                                                 part.generation.ToString(), coverage.ranks, part.ranks));
    }
    for (const ImageEntry& image : part.images) present[image.rank] = true;
  }
  for (uint32_t rank = 0; rank < coverage.ranks; ++rank) {
    if (present[rank]) continue;
    if (coverage.missing_count++ < kMissingRanksListed) coverage.missing_ranks.push_back(rank);
  }
  return coverage;
}

Result<PartRecord> ReadPart(const Catalog& catalog, const VersionRecord& version, const PartEntry& entry) {
  if (!version.part_inside.empty()) return DecodePartRecord(version.part_inside);  // checked with the version record
  const Generation& generation = version.generation;
  const std::string key = keys::PartKey(generation, entry.first_rank, entry.images);
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, catalog.store().Get(key, kSmallRecordBytesMax));
  const std::string path = PathInStore(catalog.store(), key);
  if (crc32c::Compute(bytes.data(), bytes.size()) != entry.record_crc32c) {
    return Status(Code::kCorrupt, path + ": is not the part record that the version was made of");
  }
  Result<PartRecord> part = DecodePartRecord(bytes);
  if (!part.ok()) return part.status().WithContext(path);
  KEDGE_RETURN_IF_ERROR(CheckPart(catalog, generation, key, *part, keys::PartName(entry.first_rank, entry.images)));
  return part;
}

const ImageEntry* EntryOf(const PartRecord& part, uint32_t rank) {
  const auto image = std::lower_bound(part.images.begin(), part.images.end(), rank,
                                      [](const ImageEntry& one, uint32_t r) { return one.rank < r; });
  return image != part.images.end() && image->rank == rank ? &*image : nullptr;
}

Result<PartRecord> ReadPartWith(const Catalog& catalog, const Generation& generation, uint32_t rank) {
  KEDGE_ASSIGN_OR_RETURN(const VersionRecord version, ReadVersionRecord(catalog, generation));
  for (const PartEntry& entry : version.parts) {
    if (!Contains(entry.ranks, rank)) continue;
    KEDGE_ASSIGN_OR_RETURN(const PartRecord part, ReadPart(catalog, version, entry));
    if (EntryOf(part, rank) != nullptr) return part;
  }
  return Status(Code::kNotFound,
                fmt::format("{}: {} has no image of rank {}", catalog.store().description(), generation.ToString(), rank));
}

Result<StoredImage> ReadImage(const Catalog& catalog, const Generation& generation, uint32_t rank) {
  KEDGE_ASSIGN_OR_RETURN(const PartRecord part, ReadPartWith(catalog, generation, rank));
  return ReadImage(catalog, part, *EntryOf(part, rank));
}

Result<StoredImage> ReadPublishedImage(const Catalog& catalog, const Generation& generation, uint32_t rank) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<PartRecord> parts, ReadParts(catalog, generation, nullptr));
  for (const PartRecord& part : parts) {
    for (const ImageEntry& entry : part.images) {
      if (entry.rank == rank) return ReadImage(catalog, part, entry);
    }
  }
  return Status(Code::kNotFound,
                fmt::format("{}: {} has no part with rank {}", catalog.store().description(), generation.ToString(), rank));
}

namespace {

// The block map behind the image record, which is read already.
Status ReadMap(ObjectReader& object, StoredImage* image) {
  const ImageEntry& entry = image->entry;
  const uint64_t map_offset = entry.record_offset + entry.record_bytes;
  if (entry.map_bytes > object.size_bytes() - map_offset) return Status(Code::kCorrupt, "ends before its block map does");
  Buffer bytes(entry.map_bytes);
  KEDGE_RETURN_IF_ERROR(object.ReadAt(map_offset, bytes));
  if (crc32c::Compute(bytes.data(), bytes.size()) != entry.map_crc32c) {
    return Status(Code::kCorrupt, "its block map is not the one that was published");
  }
  KEDGE_ASSIGN_OR_RETURN(image->map, DecodeBlockMap(bytes));
  const BlockLayout layout(image->record, image->map->block_bytes);
  uint64_t blocks = 0;
  auto stored_bytes = image->map->stored_bytes.begin();
  for (const BlockRun& run : image->map->runs) {
    blocks += run.blocks;
    uint64_t compressed_bytes = 0;
    for (uint64_t i = 0; run.is_compressed && i < run.blocks; ++i) compressed_bytes += *stored_bytes++;
    if (run.object != kOwnBlocks || blocks > layout.blocks()) continue;
    const uint64_t plain_bytes = (run.blocks - 1) * layout.block_bytes() + layout.At(blocks - 1).bytes;
    const uint64_t end = run.offset + (run.is_compressed ? compressed_bytes : plain_bytes);
    if (end > entry.record_offset) return Status(Code::kCorrupt, fmt::format("a block should end at {}", end));
  }
  if (blocks != layout.blocks() || image->map->identity != image->record.identity) {
    return Status(Code::kCorrupt, "its block map is that of " + image->map->identity.ToString());
  }
  return Status::Ok();
}

}  // namespace

Result<StoredImage> ReadImage(const Catalog& catalog, const PartRecord& part, const ImageEntry& entry) {
  StoredImage image;
  image.entry = entry;
  image.object_key = keys::GenerationFolder(part.generation) + '/' + entry.object;
  const std::string path = PathInStore(catalog.store(), image.object_key);
  const auto corrupt = [&path](const std::string& why) { return Status(Code::kCorrupt, path + ": " + why); };

  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectReader> object, catalog.store().OpenObject(image.object_key));
  const uint64_t object_bytes = object->size_bytes();
  if (entry.record_offset > object_bytes || entry.record_bytes > object_bytes - entry.record_offset) {
    return corrupt(fmt::format("has {} bytes; its image record should lie at {} and have {}", object_bytes, entry.record_offset,
                               entry.record_bytes));
  }
  Buffer bytes(entry.record_bytes);
  KEDGE_RETURN_IF_ERROR(object->ReadAt(entry.record_offset, bytes));
  if (crc32c::Compute(bytes.data(), bytes.size()) != entry.record_crc32c) {
    return corrupt("its image record is not the one that was published");
  }
  Result<ImageRecord> record = DecodeImageRecord(bytes);
  if (!record.ok()) return record.status().WithContext(path);
  if (record->identity != ImageIdentity{part.generation, entry.rank, part.ranks}) {
    return corrupt("holds the image of " + record->identity.ToString());
  }
  image.record = std::move(*record);
  if (entry.map_bytes > 0) {
    const Status mapped = ReadMap(*object, &image);
    if (!mapped.ok()) return mapped.WithContext(path);
    return image;
  }
  for (const Chunk& chunk : image.record.chunks) {
    if (chunk.object == 0 && chunk.object_offset + chunk.bytes > object_bytes) {
      return corrupt(fmt::format("has {} bytes; a chunk should end at {}", object_bytes, chunk.object_offset + chunk.bytes));
    }
  }
  return image;
}

std::string ChunkObjectKey(const StoredImage& image, const Chunk& chunk) {
  if (chunk.object == 0) return image.object_key;
  return keys::JobFolder(image.record.identity.generation.job) + '/' + image.record.objects[chunk.object - 1];
}

}  // namespace kedge

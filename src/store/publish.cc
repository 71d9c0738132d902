#include "store/publish.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "os/files/files.h"
#include "store/attempts.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/versions.h"

namespace kedge {

namespace {

// A folder of the generation is missing.
Status Gone(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  return Status(Code::kNotFound, catalog.store().description() + ": " + generation.ToString() + " has been removed");
}

// Whether the objects that the parts name are there, and the generations in whose objects some of their blocks lie. They were
// published whole before the parts were, but the generation may have been removed and its folder made anew since, or the store
// have become an older copy of itself.
Status CheckObjects(const Catalog& catalog, const Generation& generation, const std::vector<PartRecord>& parts) {
  std::set<std::string> listed_folders;
  std::set<std::string> objects;
  std::set<std::string> common;  // of the generation, that hold blocks of several nodes
  for (const PartRecord& part : parts) {
    for (const std::string& reference : part.references) {
      if (keys::IsCommonObject(reference)) {
        common.insert(keys::JobFolder(generation.job) + '/' + reference);
        continue;
      }
      const std::string folder = keys::JobFolder(generation.job) + '/' + reference + "/data";
      if (!listed_folders.insert(folder).second) continue;
      const Status listed = catalog.store().List(folder).status();
      if (!listed.ok()) return listed.WithContext(generation.ToString() + " refers to " + reference);
    }
    for (const ImageEntry& image : part.images) {
      const std::string key = keys::GenerationFolder(generation) + '/' + image.object;
      const std::string folder = os::ParentPath(key);
      if (listed_folders.insert(folder).second) {
        const Result<std::vector<StoreEntry>> entries = catalog.store().List(folder);
        if (!entries.ok() && entries.status().code() != Code::kNotFound) return entries.status();
        if (entries.ok()) {
          for (const StoreEntry& entry : *entries) objects.insert(os::JoinPath(folder, entry.name));
        }
      }
      if (!objects.contains(key)) {
        return Status(Code::kNotFound,
                      fmt::format("{}: the image of rank {} is gone", PathInStore(catalog.store(), key), image.rank));
      }
    }
  }
  for (const std::string& key : common) {
    if (objects.contains(key)) continue;
    return Status(Code::kNotFound, PathInStore(catalog.store(), key) + ": blocks that several nodes have are gone");
  }
  return Status::Ok();
}

VersionRecord MakeVersionRecord(const Generation& generation, const std::vector<PartRecord>& parts) {
  VersionRecord version;
  version.generation = generation;
  version.ranks = parts.front().ranks;
  version.wall_time_ns = WallTimeNs();
  std::set<std::string> references;
  std::vector<bool> covered(version.ranks);
  for (const PartRecord& part : parts) {
    std::vector<uint32_t> ranks;  // that no part before has
    for (const ImageEntry& image : part.images) {
      if (covered[image.rank]) continue;
      covered[image.rank] = true;
      ranks.push_back(image.rank);
      version.image_bytes += image.image_bytes;
    }
    if (ranks.empty()) continue;
    const Buffer bytes = Encoded(part);  // equal records have equal bytes
    version.parts.push_back({part.images.front().rank, static_cast<uint32_t>(part.images.size()),
                             crc32c::Compute(bytes.data(), bytes.size()), RunsOf(ranks)});
    references.insert(part.references.begin(), part.references.end());
  }
  version.references.assign(references.begin(), references.end());
  return version;
}

// How many images the parts there announce by their names, and the ranks that one of them says there are; nothing when
// there is no part. Parts may overlap, so this many or more says nothing yet, but fewer means that some are missing.
struct Announced {
  uint64_t images = 0;
  uint32_t ranks = 0;
};
Result<Announced> AnnouncedImages(const Catalog& catalog, const Generation& generation) {
  Announced announced;
  const Result<std::vector<StoreEntry>> entries = catalog.store().List(keys::PartsFolder(generation));
  if (entries.status().code() == Code::kNotFound) return Gone(catalog, generation);
  if (!entries.ok()) return entries.status();
  for (const StoreEntry& entry : *entries) {
    const std::optional<keys::PartNumbers> numbers = keys::ParsePartName(entry.name);
    if (!numbers) continue;
    announced.images += numbers->images;
    if (announced.ranks > 0) continue;
    const std::string key = keys::PartKey(generation, numbers->first_rank, numbers->images);
    const Result<PartRecord> part = ReadOwnRecord(catalog, key, &DecodePartRecord);
    if (part.ok()) announced.ranks = part->ranks;
  }
  return announced;
}

// Creates the version record that `draft` is of, durably, or finds the one of somebody who was faster.
Status ShowVersion(const Catalog& catalog, const VersionRecord& version, RecordDraft& draft, bool* created) {
  const std::string& key = draft.key();
  const Status status = catalog.store().Show(draft);
  *created = status.ok();
  if (status.ok()) return catalog.store().EnsureDurable(std::span(&key, 1));
  if (status.code() != Code::kAlreadyExists) return status;
  const Result<VersionRecord> there = ReadOwnRecord(catalog, key, &DecodeVersionRecord);
  if (there.ok() && there->generation == version.generation) return catalog.store().EnsureDurable(std::span(&key, 1));
  // Damaged: all parts are there and checked, so it can be made anew. What is not understood is left alone.
  if (!there.ok() && there.status().code() != Code::kCorrupt) return there.status();
  *created = true;
  return catalog.store().Replace(key, draft.bytes(), catalog.owner(), Folders::kMustExist);
}

Status ValidatePart(const PartRecord& part) {
  KEDGE_RETURN_IF_ERROR(Validate(part.generation));
  const auto not_increasing = [](const ImageEntry& a, const ImageEntry& b) { return a.rank >= b.rank; };
  const bool in_order = std::adjacent_find(part.images.begin(), part.images.end(), not_increasing) == part.images.end();
  if (part.images.empty() || !in_order || part.images.back().rank >= part.ranks || part.ranks > kRanksMax) {
    return Status(Code::kInvalidArgument,
                  part.generation.ToString() + ": a part needs images, of ranks in order below " + std::to_string(part.ranks));
  }
  return Status::Ok();
}

std::string KeyOf(const PartRecord& part) {
  return keys::PartKey(part.generation, part.images.front().rank, part.images.size());
}

// A larger part has a record of its own: whoever lists versions reads all version records.
constexpr size_t kPartInsideBytesMax = size_t{64} << 10;

// The version record with the part inside. Nothing: the part does not cover all ranks, or is too large, or the store could not
// keep the record from coming to be in a folder without its objects.
std::optional<VersionRecord> WholeVersionOf(const Catalog& catalog, const PartRecord& part) {
  if (part.images.size() != part.ranks || !catalog.store().shows_in_place()) return std::nullopt;
  VersionRecord version = MakeVersionRecord(part.generation, {part});
  version.part_inside = Encoded(part);
  return version.part_inside.size() <= kPartInsideBytesMax ? std::optional(std::move(version)) : std::nullopt;
}

// What is written beside the objects of a part: the version record where it has the part inside, else the part record.
struct PartDraft {
  bool whole = false;
  std::unique_ptr<RecordDraft> record;  // null: it cannot be drafted, for a reason that putting it will tell
};
PartDraft DraftOf(const Catalog& catalog, const PartRecord& part) {
  const std::optional<VersionRecord> whole = WholeVersionOf(catalog, part);
  PartDraft made{whole.has_value(), nullptr};
  const std::string key = whole ? keys::VersionKey(part.generation) : KeyOf(part);
  auto draft = catalog.store().Draft(key, whole ? Encoded(*whole) : Encoded(part), catalog.owner(), Folders::kMustExist);
  if (draft.ok()) made.record = std::move(*draft);
  return made;
}

// Of a part, what those in the store do not have.
struct Uncovered {
  PartRecord part;                  // the images that no part there has
  std::set<std::string> displaced;  // objects of the others, which were written once more under names of their own
  std::set<std::string> named;      // by the parts there

  void TakeOff(const PartRecord& there) {
    for (const ImageEntry& covered : there.images) {
      named.insert(covered.object);
      const auto image = std::ranges::find(part.images, covered.rank, &ImageEntry::rank);
      if (image == part.images.end()) continue;
      if (image->map_bytes > 0 && image->object != covered.object) displaced.insert(image->object);
      part.images.erase(image);
    }
  }
};

// Images that were put may have blocks in them; nobody else ever will.
Status RemoveDisplaced(const Catalog& catalog, const Uncovered& uncovered) {
  for (const std::string& object : uncovered.displaced) {
    if (uncovered.named.contains(object)) continue;  // of several images, others of which count
    KEDGE_RETURN_IF_ERROR(catalog.store().Remove(keys::GenerationFolder(uncovered.part.generation) + '/' + object));
  }
  return Status::Ok();
}

// `there`: what is in the record at `key`.
Status CheckSameRanks(const Catalog& catalog, const std::string& key, const PartRecord& there, const PartRecord& part) {
  if (there.generation == part.generation && there.ranks == part.ranks) return Status::Ok();
  return Status(Code::kMismatch, fmt::format("{}: is of {} with {} ranks, not of {} with {}", PathInStore(catalog.store(), key),
                                             there.generation.ToString(), there.ranks, part.generation.ToString(), part.ranks));
}

// Puts the record `part`, or what of it no part in the store covers: again is ok. It is seen then, and what is still to be made
// durable, if anything, is `shown`. `draft`: of `part`, or null. kMismatch: a part there says another number of ranks.
Status ShowPart(const Catalog& catalog, const PartRecord& part, std::unique_ptr<RecordDraft> draft,
                std::vector<std::string>* shown) {
  Uncovered uncovered{part, {}, {}};
  const PartRecord& remaining = uncovered.part;
  while (!remaining.images.empty()) {
    const std::string key = KeyOf(remaining);
    Status status;
    if (draft == nullptr) {
      auto drafted = catalog.store().Draft(key, Encoded(remaining), catalog.owner(), Folders::kMustExist);
      status = drafted.status();
      if (status.ok()) draft = std::move(*drafted);
    }
    if (status.ok()) status = catalog.store().Show(*draft);
    draft = nullptr;
    if (status.ok()) {
      shown->push_back(key);
      return status;
    }
    if (status.code() == Code::kNotFound) return Gone(catalog, part.generation);
    if (status.code() != Code::kAlreadyExists) return status;
    // Published before, by this node or another; what it covers is done, and the rest gets a record of its own.
    const Result<PartRecord> there = ReadOwnRecord(catalog, key, &DecodePartRecord);
    if (!there.ok() && there.status().code() == Code::kCorrupt) {
      return catalog.store().Replace(key, Encoded(remaining), catalog.owner(), Folders::kMustExist);
    }
    if (!there.ok()) return there.status();
    KEDGE_RETURN_IF_ERROR(CheckSameRanks(catalog, key, *there, part));
    KEDGE_RETURN_IF_ERROR(catalog.store().EnsureDurable(std::span(&key, 1)));
    uncovered.TakeOff(*there);
  }
  return RemoveDisplaced(catalog, uncovered);
}

// The part inside the version record. Nothing: there is none, or Finish will tell why nobody knows.
std::optional<PartRecord> FindPartInside(const Catalog& catalog, const Generation& generation) {
  const Result<VersionRecord> version = ReadVersionRecord(catalog, generation);
  if (!version.ok() || version->part_inside.empty()) return std::nullopt;
  Result<PartRecord> part = ReadPart(catalog, *version, version->parts.front());
  return part.ok() ? std::optional(std::move(*part)) : std::nullopt;
}

// Of a generation whose version record has its part inside: complete when this returns ok, and durably so.
Result<FinishOutcome> ConfirmWhole(const Catalog& catalog, const Generation& generation) {
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(catalog, generation));
  if (!info.complete) return Gone(catalog, generation);
  const std::string key = keys::VersionKey(generation);
  KEDGE_RETURN_IF_ERROR(catalog.store().EnsureDurable(std::span(&key, 1)));
  return FinishOutcome{.complete = true};
}

// FinishVersion of one without a part inside, after the parts `shown` were put by this process, which are durable when it returns
// ok. The version record is written in the same step with them, and appears after it.
Result<FinishOutcome> Finish(const Catalog& catalog, const Generation& generation, std::vector<std::string> shown) {
  FinishOutcome outcome;
  const auto with_parts = [&](const FinishOutcome& so_far) -> Result<FinishOutcome> {
    KEDGE_RETURN_IF_ERROR(catalog.store().EnsureDurable(shown));
    return so_far;
  };
  KEDGE_ASSIGN_OR_RETURN(const Announced announced, AnnouncedImages(catalog, generation));
  if (announced.ranks == 0) return with_parts(outcome);
  if (announced.images < announced.ranks) {
    outcome.missing_count = announced.ranks - static_cast<uint32_t>(announced.images);
    return with_parts(outcome);
  }
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(catalog, generation));
  if (info.removed) return Gone(catalog, generation);
  if (info.unknown) return Status(Code::kUnsupported, info.reason);
  if (info.complete) {
    shown.push_back(keys::VersionKey(generation));
    outcome.complete = true;
    return with_parts(outcome);
  }
  KEDGE_ASSIGN_OR_RETURN(const std::vector<PartRecord> parts, ReadPartRecords(catalog, generation, nullptr));
  KEDGE_ASSIGN_OR_RETURN(const Coverage coverage, CoverageOf(parts));
  outcome.missing_count = coverage.missing_count;
  if (!coverage.Complete()) return with_parts(outcome);
  KEDGE_RETURN_IF_ERROR(CheckObjects(catalog, generation, parts));
  // The other nodes' records are seen, but perhaps not durable yet; a version must not be complete before they are.
  std::set<std::string> keys(shown.begin(), shown.end());
  for (const PartRecord& part : parts) keys.insert(KeyOf(part));
  const VersionRecord version = MakeVersionRecord(generation, parts);
  auto draft = catalog.store().Draft(keys::VersionKey(generation), Encoded(version), catalog.owner(), Folders::kMustExist);
  if (draft.status().code() == Code::kNotFound) return Gone(catalog, generation);
  KEDGE_RETURN_IF_ERROR(draft.status());
  KEDGE_RETURN_IF_ERROR(catalog.store().EnsureDurableBeside(draft->get(), std::vector<std::string>(keys.begin(), keys.end())));
  KEDGE_RETURN_IF_ERROR(CheckNotAbandoned(catalog, generation));
  const Status status = ShowVersion(catalog, version, **draft, &outcome.created);
  if (status.code() == Code::kNotFound) return Gone(catalog, generation);
  KEDGE_RETURN_IF_ERROR(status);
  outcome.complete = true;
  return outcome;
}

// Whether nothing that says what is complete lies in the generation: neither part nor version record, nor a mark.
Result<bool> IsUntouched(const Catalog& catalog, const Generation& generation) {
  const Result<std::vector<StoreEntry>> entries = catalog.store().List(keys::GenerationFolder(generation));
  if (entries.status().code() == Code::kNotFound) return Gone(catalog, generation);
  if (!entries.ok()) return entries.status();
  for (const StoreEntry& entry : *entries) {
    if (entry.name == "version" || entry.name == "removed" || entry.name == "pinned") return false;
  }
  const Result<std::vector<StoreEntry>> parts = catalog.store().List(keys::PartsFolder(generation));
  // An object that came late has made the generation's folder anew.
  if (parts.status().code() == Code::kNotFound) return Gone(catalog, generation);
  if (!parts.ok()) return parts.status();
  return std::ranges::none_of(*parts, [](const StoreEntry& entry) { return keys::ParsePartName(entry.name).has_value(); });
}

// Creates the version record with `part` inside, which covers all ranks. Nothing: it goes the way of parts, for the generation
// has records already, or the draft has gone. What is looked at lies in the folder in which the draft does, which is shown only
// there: no version comes to be without its objects, whoever removes the generation meanwhile.
Result<std::optional<FinishOutcome>> CommitWhole(const Catalog& catalog, const PartRecord& part, RecordDraft& draft) {
  const std::optional<FinishOutcome> none;
  KEDGE_ASSIGN_OR_RETURN(const bool untouched, IsUntouched(catalog, part.generation));
  if (!untouched) return none;
  KEDGE_RETURN_IF_ERROR(CheckObjects(catalog, part.generation, {part}));
  KEDGE_RETURN_IF_ERROR(CheckNotAbandoned(catalog, part.generation));
  const Status shown = catalog.store().ShowInPlace(draft);
  const bool is_none =
      shown.code() == Code::kNotFound || shown.code() == Code::kAlreadyExists || shown.code() == Code::kUnsupported;
  if (is_none) return none;
  KEDGE_RETURN_IF_ERROR(shown);
  return std::optional(FinishOutcome{.complete = true, .created = true});
}

Result<FinishOutcome> CommitInParts(const Catalog& catalog, const PartRecord& part, std::unique_ptr<RecordDraft> draft) {
  if (const std::optional<PartRecord> inside = FindPartInside(catalog, part.generation)) {
    KEDGE_RETURN_IF_ERROR(CheckSameRanks(catalog, keys::VersionKey(part.generation), *inside, part));
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, ConfirmWhole(catalog, part.generation));
    Uncovered uncovered{part, {}, {}};
    uncovered.TakeOff(*inside);  // all
    KEDGE_RETURN_IF_ERROR(RemoveDisplaced(catalog, uncovered));
    return outcome;
  }
  std::vector<std::string> shown;
  KEDGE_RETURN_IF_ERROR(ShowPart(catalog, part, std::move(draft), &shown));
  return Finish(catalog, part.generation, std::move(shown));
}

// `draft`: of `part`.
Result<FinishOutcome> CommitPart(const Catalog& catalog, const PartRecord& part, PartDraft draft) {
  if (!draft.whole) return CommitInParts(catalog, part, std::move(draft.record));
  if (draft.record != nullptr) {
    KEDGE_ASSIGN_OR_RETURN(const std::optional<FinishOutcome> whole, CommitWhole(catalog, part, *draft.record));
    if (whole) return *whole;
  }
  return CommitInParts(catalog, part, nullptr);
}

// `draft`: of `part`, or nothing.
Result<FinishOutcome> Commit(const Catalog& catalog, const PartRecord& part, std::optional<PartDraft> draft) {
  KEDGE_RETURN_IF_ERROR(ValidatePart(part));
  KEDGE_RETURN_IF_ERROR(CheckStoreId(part.generation.store_id, catalog.id(), "part record"));
  if (!draft) draft = DraftOf(catalog, part);
  const Result<FinishOutcome> outcome = CommitPart(catalog, part, std::move(*draft));
  if (!outcome.ok() && outcome.status().code() != Code::kBusy) return outcome;
  // Whoever completes the version has looked; the others learn it here.
  if (!outcome.ok() || !outcome->complete) KEDGE_RETURN_IF_ERROR(LeaveNothingBehind(catalog, part.generation));
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  return outcome;
}

}  // namespace

Status PrepareGeneration(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(Validate(generation));
  KEDGE_RETURN_IF_ERROR(CheckStoreId(generation.store_id, catalog.id(), "generation"));
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  KEDGE_RETURN_IF_ERROR(catalog.CheckRecordOf(generation.job, generation.attempt));
  KEDGE_RETURN_IF_ERROR(catalog.EnsureName(generation.job, generation.name));
  // What its attempt went on from stands there before anything of it can be complete.
  KEDGE_RETURN_IF_ERROR(catalog.NoteAwaitedRestored(generation.job, generation.name));
  return catalog.store().MakeFolder(keys::PartsFolder(generation));
}

Result<FinishOutcome> FinishVersion(const Catalog& catalog, const Generation& generation) {
  return FindPartInside(catalog, generation) ? ConfirmWhole(catalog, generation) : Finish(catalog, generation, {});
}

Result<FinishOutcome> CommitPart(const Catalog& catalog, const PartRecord& part) {
  return Commit(catalog, part, std::nullopt);
}

namespace {

// Fails what leans on an object that is not published with `part`, and what leans on that.
void FailLeaning(const PartRecord& part, std::span<const LeansOn> leans_on, std::vector<Status>* images) {
  for (bool is_new = !leans_on.empty(); is_new;) {
    is_new = false;
    std::set<std::string> stand;
    for (size_t i = 0; i < images->size(); ++i) {
      if ((*images)[i].ok()) stand.insert(part.images[i].object);
    }
    for (size_t i = 0; i < images->size(); ++i) {
      if (!(*images)[i].ok() || std::ranges::includes(stand, leans_on[i])) continue;
      (*images)[i] = Status(Code::kIncomplete, fmt::format("{} rank {} has blocks in an object that is not published",
                                                           part.generation.ToString(), part.images[i].rank));
      is_new = true;
    }
  }
}

PartRecord WithoutFailed(const PartRecord& part, const std::vector<Status>& images) {
  PartRecord good{part.generation, part.ranks, {}, part.references};
  for (size_t i = 0; i < images.size(); ++i) {
    if (images[i].ok()) good.images.push_back(part.images[i]);
  }
  return good;
}

// Those of which nothing is known to be wrong, beside `draft`.
void Publish(const Catalog& catalog, std::span<ObjectWriter* const> writers, RecordDraft* draft, std::vector<Status>* images) {
  std::vector<ObjectWriter*> good;  // each once
  std::vector<std::pair<size_t, Status*>> statuses;
  std::map<const ObjectWriter*, size_t> places;  // in `good`
  for (size_t i = 0; i < writers.size(); ++i) {
    if (!(*images)[i].ok()) continue;
    const auto [place, is_first] = places.emplace(writers[i], good.size());
    if (is_first) good.push_back(writers[i]);
    statuses.emplace_back(place->second, &(*images)[i]);
  }
  const std::vector<Status> published = catalog.store().PublishBeside(draft, good);
  for (const auto& [place, status] : statuses) *status = published[place];
  if (std::ranges::all_of(published, [](const Status& status) { return status.ok(); })) return;
  const Status stands = catalog.Confirm();
  for (const auto& [place, status] : statuses) *status = status->ok() || stands.ok() ? *status : stands;
}

}  // namespace

PublishOutcome PublishImages(const Catalog& catalog, std::span<ObjectWriter* const> writers, const PartRecord& part,
                             std::span<const LeansOn> leans_on) {
  PublishOutcome outcome;
  outcome.published = part;
  outcome.published.images.clear();
  Status status = ValidatePart(part);
  const bool is_one_to_one = writers.size() == part.images.size() && (leans_on.empty() || leans_on.size() == writers.size());
  if (status.ok() && !is_one_to_one) {
    status = Status(Code::kInternal, part.generation.ToString() + ": as many writers as images are needed");
  }
  // The writers' files are open, perhaps in a folder that is not where a restart looks any more.
  if (status.ok()) status = catalog.Confirm();
  if (!status.ok()) {
    outcome.images.assign(writers.size(), status);
    return outcome;
  }
  outcome.images.resize(writers.size());
  FailLeaning(part, leans_on, &outcome.images);
  const PartRecord hoped = WithoutFailed(part, outcome.images);
  std::optional<PartDraft> draft;
  if (!hoped.images.empty()) draft = DraftOf(catalog, hoped);
  Publish(catalog, writers, draft ? draft->record.get() : nullptr, &outcome.images);
  const std::vector<Status> published = outcome.images;
  FailLeaning(part, leans_on, &outcome.images);
  outcome.published = WithoutFailed(part, outcome.images);
  std::set<const ObjectWriter*> needed;
  for (size_t i = 0; i < writers.size(); ++i) {
    if (outcome.images[i].ok()) needed.insert(writers[i]);
  }
  for (size_t i = 0; i < writers.size(); ++i) {
    if (!published[i].ok() || !needed.insert(writers[i]).second) continue;
    // It stands there, and nobody will ever refer to it. What cannot be removed now goes with the generation.
    static_cast<void>(catalog.store().Remove(writers[i]->key()));
  }
  if (outcome.published.images.empty()) return outcome;
  if (outcome.published.images.size() < hoped.images.size()) draft.reset();
  const Result<FinishOutcome> finished = Commit(catalog, outcome.published, std::move(draft));
  outcome.commit = finished.status();
  if (finished.ok()) outcome.finish = *finished;
  return outcome;
}

}  // namespace kedge

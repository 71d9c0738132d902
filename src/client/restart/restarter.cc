// See restarter.h.
#include "client/restart/restarter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "client/core/callback.h"
#include "client/core/told_restarts.h"
#include "client/regions/object_stream.h"
#include "client/restart/redistribution.h"
#include "client/restart/second_try.h"
#include "format/wire.h"
#include "os/files/private_files.h"
#include "restore/file_publisher.h"
#include "store/attempts.h"
#include "store/reached.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

// What rank 0 says of the record that it noted; anything else: the store has it not.
constexpr char kNoted[] = "noted";
constexpr char kTakenOver[] = "taken over";
// How often is looked what there is: on the ranks' own nodes, everywhere, and once more where something has gone meanwhile.
constexpr int kLooksMax = 3;

Status NoneFound(const std::string& name, int64_t at_most) {
  const std::string bound = at_most >= 0 ? fmt::format(" at or below {}", at_most) : std::string();
  return Status(Code::kNotFound, fmt::format("there is no version of '{}'{} that all ranks can restore", name, bound));
}

// Nobody can say what nodes hold that are cut off, or whose agents stand still. `nodes`: their names, as text.
Status SilentNodes(const std::string& name, const std::string& nodes, const std::string& without) {
  return Status(Code::kUnavailable, fmt::format("'{}' cannot be restored now: nodes {} of this attempt do not answer, and what "
                                                "they hold may be needed; without them: {}",
                                                name, nodes, without));
}

std::string Abandoned(const RestoreCandidate& candidate) {
  return fmt::format(
      "version {} of attempt {} is abandoned, since the job went on from an older one: restart.version = {} with "
      "restart.attempt = {} goes back to it nevertheless",
      candidate.version, candidate.attempt, candidate.version, candidate.attempt);
}

std::string GlobalShapeText(const Region& region) {
  return region.global_shape.empty() ? "" : fmt::format(" of the global shape {}", fmt::join(region.global_shape, " x "));
}

}  // namespace

Restarter::Restarter(Core* core, Ledger* ledger, AgentSession* session, const std::string& files_folder)
    : core_(core), ledger_(ledger), session_(session), opener_(core, session), files_(os::PrivateFileSystem(), files_folder) {}

Result<StoredCandidates> Restarter::ShareStored(const std::string& name, int64_t at_most,
                                                const std::optional<RestoreCandidate>& known) {
  if (alone()) return opener_.Stored(name, at_most, known);
  std::string mine;
  if (core_->rank() == 0) {
    StoredCandidates stored = opener_.Stored(name, at_most, known);
    if (!stored.status.ok()) stored.status = Status(stored.status.code(), "rank 0: " + stored.status.message());
    mine = EncodeStored(stored);
  }
  KEDGE_ASSIGN_OR_RETURN(const std::string told, core_->collective.BroadcastFromFirst(mine));
  return DecodeStored(told);
}

Result<CandidateRule> Restarter::ShareRule(const std::string& name, const Bound& bound) {
  std::string mine;
  if (alone() || core_->rank() == 0) {
    std::vector<RestoredRecord> restored = core_->restored;
    // Without the store the nodes' word holds.
    (void)TryAgain([&] {
      auto stored = ReadRestored(*core_->catalog, core_->job.job, name);
      if (stored.ok()) restored.insert(restored.end(), stored->begin(), stored->end());
      return stored.status();
    });
    std::erase_if(restored, [&](const RestoredRecord& record) { return record.origin.name != name; });
    mine = EncodeRestored(restored);
  }
  if (!alone()) {
    KEDGE_ASSIGN_OR_RETURN(mine, core_->collective.BroadcastFromFirst(mine));
  }
  KEDGE_ASSIGN_OR_RETURN(std::vector<RestoredRecord> restored, DecodeRestored(mine));
  CandidateRule rule{std::move(restored), {}, {}};
  const RestartKeys& keys = core_->job.restart;
  if (keys.attempt > 0 && bound.Allows(keys.version)) rule.asked = {keys.version, keys.attempt};
  return rule;
}

Status Restarter::WhetherAskedIsMissed(const std::string& name, const AskedVersion& asked, const CommonCandidates& common,
                                       const std::string& silent, const Status& store) const {
  const std::string which = fmt::format("version {} of attempt {} of '{}', which restart.version and restart.attempt ask for,",
                                        asked.version, asked.attempt, name);
  if (common.goes_back && common.candidates.empty()) {
    return Status(Code::kIncomplete, which + " cannot be restored by all ranks; without these keys the job's newest is");
  }
  if (!common.misses_asked) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(Agree(silent.empty() ? Status::Ok() : SilentNodes(name, silent, which + " is not there")));
  if (!store.ok()) return Status(store.code(), which + " may be in the store: " + store.message());
  if (core_->rank() == 0 || alone()) LogWarning("client", "{} is not there: the job's newest is restored", which);
  return Status::Ok();
}

Result<Restarter::Choice> Restarter::Look(const std::string& name, const Bound& bound, bool everywhere) {
  const int64_t at_most = bound.at_most;
  // All ranks' nodes first: a version goes from them to the store, never back, so that none is missed on its way.
  ImageOpener::Found mine = opener_.FindOnNodes(name, source_rank(), everywhere || alone());
  const Status fenced = core_->CheckNotSuperseded();
  const Status asked = Agree(fenced.ok() ? mine.agent : fenced);
  if (asked.code() == Code::kBusy) return asked;
  KEDGE_ASSIGN_OR_RETURN(CandidateRule rule, ShareRule(name, bound));
  std::optional<RestoreCandidate> known;
  if (!everywhere && !alone() && !rule.asked.is_set()) {
    std::vector<RestoreCandidate> on_nodes = mine.candidates;
    std::erase_if(on_nodes, [&](const RestoreCandidate& candidate) { return at_most >= 0 && candidate.version > at_most; });
    SortCandidates(&on_nodes);
    KEDGE_ASSIGN_OR_RETURN(const auto allowed, IntersectCandidates({EncodeCandidates(on_nodes, 0)}, rule));
    if (!allowed.candidates.empty()) known = allowed.candidates.front();
  }
  KEDGE_ASSIGN_OR_RETURN(const StoredCandidates stored, ShareStored(name, at_most, known));
  // What the nodes know as the newest may be among them: then older ones count, that the store was not asked for.
  if (!stored.withdrawn.empty() && !everywhere && !alone()) return Look(name, bound, true);
  rule.withdrawn = stored.withdrawn;
  const std::vector<RestoreCandidate> candidates = opener_.Merge(name, at_most, source_rank(), mine, stored);
  std::vector<std::string> all = {EncodeCandidates(candidates, ledger_->TakesOf(name))};
  if (!alone()) {
    KEDGE_ASSIGN_OR_RETURN(all, core_->collective.AllGather(all.front()));
  }
  KEDGE_ASSIGN_OR_RETURN(CommonCandidates common, IntersectCandidates(all, rule));
  // One may have missed a checkpoint that others began: from here on all count alike again.
  if (!alone()) ledger_->CatchUp(name, common.takes);
  if ((!common.is_newest || common.misses_asked) && !everywhere && !alone()) return Look(name, bound, true);
  if (!common.is_newest && !alone()) KEDGE_RETURN_IF_ERROR(Agree(WhatSilentNodesMayHave(name, mine, common)));
  KEDGE_RETURN_IF_ERROR(WhetherAskedIsMissed(name, rule.asked, common, mine.silent, stored.status));
  const RestoreCandidate* const newest = common.candidates.empty() ? nullptr : &common.candidates.front();
  if (core_->rank() == 0 && !common.abandoned.empty() && (newest == nullptr || common.abandoned.front() > *newest)) {
    LogWarning("client", "'{}': {}", name, Abandoned(common.abandoned.front()));
  }
  Choice choice;
  choice.candidates = std::move(common.candidates);
  choice.abandoned = std::move(common.abandoned);
  choice.everywhere = everywhere || alone();
  choice.store = stored.status.ok() ? asked : stored.status;
  choice.lost = std::move(mine.lost);
  choice.silent = std::move(mine.silent);
  SortCandidates(&mine.safe);
  for (const RestoreCandidate& safe : mine.safe) {
    if (!choice.safe && !rule.IsWithdrawn(safe)) choice.safe = safe;
    choice.known.insert(safe.version);
  }
  if (choice.candidates.empty()) choice.incomplete = WhatIsMissing(stored);
  return choice;
}

// Going on from an older version would abandon a newer one that is only out of reach.
Status Restarter::WhatSilentNodesMayHave(const std::string& name, const ImageOpener::Found& mine,
                                         const CommonCandidates& common) {
  if (mine.silent.empty()) return Status::Ok();
  constexpr char kNewer[] = "some ranks have a newer version than all have";
  if (common.candidates.empty()) return SilentNodes(name, mine.silent, fmt::format("none can be restored: {}", kNewer));
  const int64_t older = common.candidates.front().version;
  return SilentNodes(name, mine.silent, fmt::format("version {} can be restored (at_most = {}): {}", older, older, kNewer));
}

Status Restarter::NoteRestored(const Generation& generation) {
  RestoredRecord record = ledger_->Restored(generation);
  record.beside = core_->attempt_record.beside;
  core_->restored.push_back(record);
  Status noted(Code::kUnavailable, "the store has no record of the attempt yet");
  if (core_->rank() == 0) {
    if (!core_->attempt_unrecorded.load()) noted = core_->Heard(NoteInStore(record));
    if (!noted.ok()) {
      LogWarning("client", "that attempt {} goes on from {} is noted in the store before its first version gets there: {}",
                 record.attempt, generation.ToString(), noted.message());
    }
  }
  const auto told = core_->collective.BroadcastFromFirst(noted.ok() ? kNoted : noted.code() == Code::kBusy ? kTakenOver : "");
  if (told.ok() && *told == kTakenOver) core_->superseded.store(true);
  KEDGE_RETURN_IF_ERROR(core_->CheckNotSuperseded());
  const bool is_noted = told.ok() && *told == kNoted;
  if (!is_noted) core_->catalog->AwaitRestored(record);
  session_->TellRestored(record, is_noted);
  return Status::Ok();
}

// What a newer attempt goes on from must not depend on where one that it has taken over from went back to meanwhile.
// One error of the store is no reason not to look.
Status Restarter::NoteInStore(const RestoredRecord& record) const {
  return TryAgain([&] {
    const Status fenced = CheckNotTakenOver(*core_->catalog, core_->job.job, core_->attempt);
    return fenced.ok() ? core_->catalog->NoteRestored(record) : fenced;
  });
}

// Of the newest version that was safe: which ranks' images are gone, by whoever knows it, and the first one's word why.
Result<Restarter::Loss> Restarter::GatherLoss(const Choice& choice) const {
  const std::string safe =
      choice.safe ? fmt::format("version {} of attempt {}", choice.safe->version, choice.safe->attempt) : std::string();
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.String(choice.lost), encoder.String(choice.silent), encoder.String(safe);
  encoder.Finish();
  std::vector<std::string> all = {std::string(AsText(buffer))};
  if (!alone()) {
    KEDGE_ASSIGN_OR_RETURN(all, core_->collective.AllGather(all.front()));
  }
  Loss loss;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t bytes_max = all[rank].size();
    Decoder decoder(AsBytes(all[rank]));
    const std::string_view lost = decoder.String(bytes_max), silent = decoder.String(bytes_max),
                           is_safe = decoder.String(bytes_max);
    KEDGE_RETURN_IF_ERROR(decoder.Finish("what a rank knows of a loss"));
    if (!lost.empty()) loss.ranks.push_back(alone() ? source_rank() : static_cast<uint32_t>(rank));
    if (loss.what.empty()) loss.what = lost;
    if (loss.silent.empty()) loss.silent = silent;
    if (loss.safe.empty()) loss.safe = is_safe;
  }
  return loss;
}

Status Restarter::WhatIsLost(const std::string& name, const Choice& choice) const {
  KEDGE_ASSIGN_OR_RETURN(const Loss loss, GatherLoss(choice));
  // Without a scheme nobody has asked the other ranks' nodes.
  const bool may_be_elsewhere = !core_->brings_images && core_->ranks_on_node < core_->ranks();
  const std::string what_to_do = fmt::format(
      "{}. Begin anew only if you mean to: another job name, or restart.if_lost=begin",
      may_be_elsewhere ? "nodes bring each other nothing without protect.scheme: what other nodes have comes back when the "
                         "ranks are launched there again, or when kedge wait has ended"
                       : "no copy of any version is left");
  const auto unless_silent = [&](const Status& lost) {
    return loss.silent.empty() ? lost : SilentNodes(name, loss.silent, lost.message());
  };
  if (!loss.what.empty()) {
    const bool is_one = loss.ranks.size() == 1;
    return unless_silent(Status(
        Code::kLost, fmt::format("'{}' is lost: the image{} of rank{} {}: {}; the store has none; {}", name, is_one ? "" : "s",
                                 is_one ? "" : "s", fmt::join(loss.ranks, ", "), loss.what, what_to_do)));
  }
  const auto was_safe = [&](const std::string& which) {
    return unless_silent(Status(
        Code::kLost, fmt::format("'{}' is lost: {}, and perhaps later ones, were safe on their nodes, and neither the {} nor the "
                                 "store have any; {}",
                                 name, which, may_be_elsewhere ? "ranks' own nodes" : "nodes of this attempt", what_to_do)));
  };
  // The node of rank 0 may have been lost before the store was told.
  if (!loss.safe.empty()) return was_safe(loss.safe);
  Status noted;
  if (alone() || core_->rank() == 0) {
    const auto reached = FindReached(*core_->catalog, core_->job.job, name);
    noted = reached.status();
    if (reached.ok() && reached->has_value()) {
      const Generation& first = (*reached)->generation;
      noted = was_safe(fmt::format("version {} of attempt {}", first.version, first.attempt));
    }
  }
  return Agree(noted);
}

Status Restarter::WhetherLost(const std::string& name, int64_t at_most, const Choice& choice, const Status& none) {
  if (none.code() != Code::kNotFound) return none;
  // Who cannot look everywhere does not know that there is none: a caller that hears of no version begins anew.
  if (!choice.store.ok()) return choice.store;
  if (at_most >= 0) {
    // Older versions go as newer ones come: that is no loss.
    KEDGE_ASSIGN_OR_RETURN(const Choice all, Look(name, {}, choice.everywhere));
    if (!all.candidates.empty() || !all.abandoned.empty()) return none;
  }
  const Status lost = WhatIsLost(name, choice);
  if (lost.ok()) return choice.incomplete.empty() ? none : Status(none.code(), none.message() + ": " + choice.incomplete);
  const bool begins = lost.code() == Code::kLost && core_->job.begins_if_lost;
  if (core_->rank() == 0 || alone()) {
    LogWarning("client", "{}{}", lost.message(), begins ? " (restart.if_lost=begin: so it is taken for a first launch)" : "");
  }
  return begins ? none : lost;
}

Result<int64_t> Restarter::Newest(const std::string& name, int64_t at_most) {
  KEDGE_ASSIGN_OR_RETURN(const Choice choice, Look(name, {at_most}, false));
  if (choice.candidates.empty()) return WhetherLost(name, at_most, choice, NoneFound(name, at_most));
  return choice.candidates.front().version;
}

Status Restarter::CheckRanks(const RestoreCandidate& candidate) const {
  if (alone()) {
    if (source_rank() < candidate.ranks) return Status::Ok();
    return Status(Code::kMismatch,
                  fmt::format("the checkpoint was taken by {} ranks; there is no rank {}", candidate.ranks, source_rank()));
  }
  if (candidate.ranks == core_->ranks()) return Status::Ok();
  return Status(Code::kMismatch,
                fmt::format("version {} was taken by {} ranks, and this job has {}: run it with {}, let kedge_restart divide its "
                            "arrays anew, or read single images with kedge_restart_as",
                            candidate.version, candidate.ranks, core_->ranks(), candidate.ranks));
}

Status Restarter::CheckRegion(DeclaredRegion* declared) const {
  if (declared->moves()) {
    const CallbackScope scope(core_);
    KEDGE_RETURN_IF_ERROR(declared->Locate());
  }
  Region wanted = declared->description;
  const int found = image_->reader().FindRegion(wanted.id);
  if (found < 0) {
    return Status(Code::kMismatch, fmt::format("region {} is not in the checkpoint, which holds {} regions of group '{}'",
                                               wanted.id, image_->record().regions.size(), image_->record().group));
  }
  const Region& saved = image_->record().regions[static_cast<size_t>(found)];
  if (saved.kind != wanted.kind) {
    return Status(Code::kMismatch, fmt::format("region {} was saved as {}", wanted.id,
                                               saved.kind == RegionKind::kObject ? "an object" : "plain memory"));
  }
  if (declared->moving.resize != nullptr && saved.bytes % wanted.element_bytes == 0) {
    wanted.bytes = saved.bytes;
    wanted.shape.clear();
  }
  if (wanted.kind == RegionKind::kMemory && saved.bytes != wanted.bytes) {
    return Status(Code::kMismatch,
                  fmt::format("region {}{} was saved with {} bytes{}, and {}{} are protected: ask kedge_saved_region and "
                              "protect that size; a run with another input needs another job.name",
                              wanted.id, saved.name.empty() ? "" : " '" + saved.name + "'", saved.bytes, GlobalShapeText(saved),
                              wanted.bytes, GlobalShapeText(wanted)));
  }
  if (!declared->reinterpret && !MeansTheSame(saved, wanted)) {
    return Status(Code::kMismatch,
                  fmt::format("region {} was saved as {}, and {} is protected: protect what kedge_saved_region says, or set "
                              "`reinterpret` to take the bytes as they are",
                              wanted.id, Meaning(saved), Meaning(wanted)));
  }
  return Status::Ok();
}

Status Restarter::CheckAll() {
  for (DeclaredRegion& declared : core_->regions.current().regions()) {
    if (!declared.is_block) KEDGE_RETURN_IF_ERROR(CheckRegion(&declared));
  }
  if (RestoresHeap()) KEDGE_RETURN_IF_ERROR(core_->heap.Check(image_->record()));
  for (const Region& saved : image_->record().regions) {
    if (saved.kind == RegionKind::kFile || IsHeapBlock(saved)) continue;
    if (core_->regions.current().Find(saved.id) == nullptr) {
      LogWarning("client", "rank {}: region {} of {} bytes is in the checkpoint, but not protected: it is left out",
                 core_->rank(), saved.id, saved.bytes);
    }
  }
  return Status::Ok();
}

Status Restarter::OpenAndCheck(const std::string& name, const RestoreCandidate& candidate, bool check_regions) {
  KEDGE_RETURN_IF_ERROR(CheckRanks(candidate));
  KEDGE_ASSIGN_OR_RETURN(image_, opener_.Open(name, candidate, source_rank()));
  return check_regions ? CheckAll() : Status::Ok();
}

Status Restarter::TryRedistributed(const std::string& name, const RestoreCandidate& candidate) {
  Redistribution redistribution(core_, &opener_, name, candidate);
  const auto explain = [&](const Status& status) {
    if (status.code() != Code::kMismatch) return status;
    return Status(status.code(), fmt::format("version {} was taken by {} ranks, and this job has {}; {}: run it with as many, or "
                                             "protect the same arrays; a run with another input needs another job.name",
                                             candidate.version, candidate.ranks, core_->ranks(), status.message()));
  };
  const auto share = redistribution.ReadShare();
  KEDGE_RETURN_IF_ERROR(explain(Agree(share.status())));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, core_->collective.AllGather(EncodeParts(*share)));
  std::vector<SavedPart> parts;
  for (const std::string& one : all) {
    KEDGE_ASSIGN_OR_RETURN(std::vector<SavedPart> told, DecodeParts(one));
    std::ranges::move(told, std::back_inserter(parts));
  }
  KEDGE_RETURN_IF_ERROR(explain(Agree(redistribution.Plan(std::move(parts)))));
  const Status read = Agree(redistribution.Read([this](const OpenImage& image) { Count(image); }));
  restored_ = {core_->catalog->id(), core_->job.job, name, candidate.version, candidate.attempt, candidate.take};
  return read;
}

Status Restarter::TryWhole(const std::string& name, const RestoreCandidate& candidate) {
  if (!alone() && candidate.ranks != core_->ranks()) return TryRedistributed(name, candidate);
  Status status = Agree(OpenAndCheck(name, candidate, /*check_regions=*/true));
  if (status.ok()) {
    Status mine = MakeHeap();
    std::vector<DeclaredRegion*> regions;
    for (DeclaredRegion& declared : core_->regions.current().regions()) {
      if (!declared.is_block || RestoresHeap()) regions.push_back(&declared);
    }
    if (mine.ok()) mine = Read(regions);
    if (mine.ok()) mine = core_->heap.Adopt();
    status = Agree(mine);
  }
  CountRestored();
  if (image_) restored_ = image_->record().identity.generation;
  image_.reset();
  return status;
}

Status Restarter::MakeHeap() {
  return RestoresHeap() ? core_->heap.Make(image_->record()) : Status::Ok();
}

Result<int64_t> Restarter::Whole(const std::string& name, int64_t at_most) {
  if (active()) return Status(Code::kFailedPrecondition, "a restart has begun and not ended");
  tally_.Begin();
  Status status = NoneFound(name, at_most), failure;
  Choice choice;
  std::set<RestoreCandidate> tried;
  for (int look = 0; look < kLooksMax; ++look) {
    const bool everywhere = look > 0;
    KEDGE_ASSIGN_OR_RETURN(choice, Look(name, {at_most}, everywhere));
    // It was there a moment ago: where a node has lost it meanwhile, it is elsewhere, and no reason yet for an older one. What
    // another node had may have got to the store meanwhile, and older ones have gone for it.
    bool has_gone = false;
    for (const RestoreCandidate& candidate : choice.candidates) {
      if (tried.contains(candidate)) continue;
      status = TryAgain([&] { return TryWhole(name, candidate); });
      if (status.ok()) {
        if (goes_on()) KEDGE_RETURN_IF_ERROR(NoteRestored(restored_));
        CountRestart(goes_on());
        return candidate.version;
      }
      // The bytes are there, but do not fit: an older version would only hide the mistake.
      if (status.code() == Code::kMismatch || status.code() == Code::kInvalidArgument) return status;
      has_gone = has_gone || status.code() == Code::kNotFound;
      if (has_gone && !everywhere) break;
      if (status.code() != Code::kNotFound) {
        tried.insert(candidate);
        failure = status;
      }
      // All ranks have the same status.
      if (alone() || core_->rank() == 0) {
        LogWarning("client", "'{}' version {} cannot be restored; trying the next older one: {}", name, candidate.version,
                   status.message());
      }
    }
    if ((choice.everywhere && !has_gone) || choice.candidates.empty()) break;
  }
  // What cannot be had is not lost: who hears that there is none begins anew.
  if (!failure.ok()) return failure;
  return WhetherLost(name, at_most, choice, status);
}

Status Restarter::Begin(const std::string& name, int64_t version, Purpose purpose) {
  if (active()) return Status(Code::kFailedPrecondition, "a restart has begun and not ended");
  tally_.Begin();
  Status status(Code::kNotFound, fmt::format("version {} of '{}' cannot be restored by all ranks", version, name)), failure;
  Choice choice;
  for (const bool everywhere : {false, true}) {
    KEDGE_ASSIGN_OR_RETURN(choice, Look(name, {version, true}, everywhere));
    bool has_gone = false;
    if (!choice.abandoned.empty() && choice.abandoned.front().version == version) {
      status = Status(Code::kNotFound, status.message() + ": " + Abandoned(choice.abandoned.front()));
    }
    for (const RestoreCandidate& candidate : choice.candidates) {
      if (candidate.version != version) break;
      status = TryAgain([&] { return Agree(OpenAndCheck(name, candidate, /*check_regions=*/false)); });
      if (status.ok()) {
        ++restart_number_;
        purpose_ = purpose;
        return status;
      }
      image_.reset();
      if (status.code() == Code::kMismatch) return status;
      has_gone = status.code() == Code::kNotFound;
      if (!has_gone) failure = status;
    }
    if ((choice.everywhere && !has_gone) || choice.candidates.empty()) break;
  }
  if (!failure.ok()) return failure;
  if (alone() && status.code() == Code::kNotFound && choice.known.contains(version)) {
    return Status(
        Code::kUnavailable,
        fmt::format("rank {}'s image of '{}' version {} is neither on this node nor in the store: of other ranks' images "
                    "a process reads those only (kedge_restart_as)",
                    source_rank(), name, version));
  }
  return WhetherLost(name, version, choice, status);
}

Status Restarter::Part(kedge_selection selection, const int* ids, size_t count) {
  if (!active()) return Status(Code::kFailedPrecondition, "no restart has begun");
  // The heap comes back as a whole, once.
  const bool with_heap =
      RestoresHeap() && (selection == KEDGE_ALL || (selection == KEDGE_REST && heap_restored_by_ != restart_number_));
  std::vector<DeclaredRegion*> regions;
  const auto select = [&] {
    regions.clear();
    return core_->regions.current().ForEachSelected(selection, ids, count, restart_number_, [&](DeclaredRegion* declared) {
      if (!declared->is_block || with_heap) regions.push_back(declared);
      return Status::Ok();
    });
  };
  KEDGE_RETURN_IF_ERROR(select());
  for (DeclaredRegion* declared : regions) {
    if (!declared->is_block) KEDGE_RETURN_IF_ERROR(CheckRegion(declared));
  }
  if (with_heap) {
    KEDGE_RETURN_IF_ERROR(core_->heap.Check(image_->record()));
    KEDGE_RETURN_IF_ERROR(MakeHeap());
    KEDGE_RETURN_IF_ERROR(select());
  }
  KEDGE_RETURN_IF_ERROR(Read(regions));
  if (with_heap) {
    KEDGE_RETURN_IF_ERROR(core_->heap.Adopt());
    heap_restored_by_ = restart_number_;
  }
  for (DeclaredRegion* declared : regions) declared->taken_by = restart_number_;
  return Status::Ok();
}

Status Restarter::Read(const std::vector<DeclaredRegion*>& regions) {
  const Status status = ReadOnce(regions);
  if (!opener_.MayBeReplaced(*image_, status)) return status;
  const ImageRecord record = image_->record();
  const ImageIdentity& identity = record.identity;
  CountRestored();
  image_.reset();  // its slots are let go, so that they can be replaced
  auto replaced = opener_.OpenReplaced(identity, status);
  if (!replaced.ok()) {
    // What was there is opened again: the restart is still to be ended, by all ranks.
    const RestoreCandidate same{identity.generation.version, identity.generation.attempt, identity.generation.take,
                                identity.ranks};
    replaced = opener_.Open(identity.generation.name, same, identity.rank);
    image_ = replaced.ok()
                 ? std::move(*replaced)
                 : std::make_unique<OpenImage>(
                       nullptr, nullptr, 0, std::make_unique<ImageReader>(record, std::vector<std::unique_ptr<ChunkSource>>{}));
    return status;
  }
  image_ = std::move(*replaced);
  return ReadOnce(regions);
}

Status Restarter::ReadOnce(const std::vector<DeclaredRegion*>& regions) {
  std::vector<RegionTarget> targets;
  for (DeclaredRegion* declared : regions) {
    if (declared->description.kind == RegionKind::kObject) continue;
    const int found = image_->reader().FindRegion(declared->description.id);
    if (found < 0 && declared->is_block) continue;  // the program holds it, and the version has none there
    const auto region = static_cast<uint32_t>(found);
    if (declared->moves()) {
      const CallbackScope scope(core_);
      KEDGE_RETURN_IF_ERROR(declared->Resize(image_->record().regions[region].bytes));
    }
    targets.push_back({region, static_cast<std::byte*>(declared->address)});
  }
  KEDGE_RETURN_IF_ERROR(image_->reader().ReadRegions(targets));
  for (DeclaredRegion* declared : regions) {
    if (declared->description.kind != RegionKind::kObject) continue;
    KEDGE_RETURN_IF_ERROR(Deserialize(declared, static_cast<uint32_t>(image_->reader().FindRegion(declared->description.id))));
  }
  return Status::Ok();
}

Status Restarter::Deserialize(DeclaredRegion* declared, uint32_t region) {
  kedge_reader reader;
  reader.image = &image_->reader();
  std::tie(reader.next_extent, reader.last_extent) = image_->reader().ExtentsOf(region);
  reader.bytes_left = image_->record().regions[region].bytes;
  int code = 0;
  {
    const CallbackScope scope(core_);
    code = declared->object.deserialize(declared->object.user, &reader, reader.bytes_left);
  }
  KEDGE_RETURN_IF_ERROR(reader.status);
  if (code == 0 && reader.bytes_left > 0) {
    LogWarning("client", "rank {}: object {}: its deserialize call-back has left {} of {} bytes unread", core_->rank(),
               declared->description.id, reader.bytes_left, image_->record().regions[region].bytes);
  }
  if (code == 0) return Status::Ok();
  return Status(Code::kFailedPrecondition,
                fmt::format("object {}: its deserialize call-back returned {}", declared->description.id, code));
}

Result<std::string> Restarter::RouteFile(const std::string& original) {
  if (!active()) return Status(Code::kFailedPrecondition, "no restart has begun");
  KEDGE_ASSIGN_OR_RETURN(const std::string routed, files_.Route(original));
  const int region = image_->reader().FindFile(files_.OriginalOf(routed));
  if (region < 0)
    return Status(Code::kNotFound, fmt::format("'{}' is not among the files of the checkpoint", files_.OriginalOf(routed)));
  KEDGE_RETURN_IF_ERROR(WriteFileRegion(os::PrivateFileSystem(), image_->reader(), static_cast<uint32_t>(region), routed));
  return routed;
}

Status Restarter::End(bool success) {
  if (!active()) return Status(Code::kFailedPrecondition, "no restart has begun");
  const Generation generation = image_->record().identity.generation;
  const bool goes_on = this->goes_on();
  restored_ = generation;
  CountRestored();
  Abandon();
  const Status mine = success ? Status::Ok()
                              : Status(Code::kIncomplete, fmt::format("reported that the restart of '{}' version {} "
                                                                      "failed",
                                                                      generation.name, generation.version));
  KEDGE_RETURN_IF_ERROR(Agree(mine));
  if (goes_on) KEDGE_RETURN_IF_ERROR(NoteRestored(generation));
  CountRestart(goes_on);
  return Status::Ok();
}

Status Restarter::As(int rank) {
  if (active()) return Status(Code::kFailedPrecondition, "a restart has begun and not ended");
  if (rank < -1) return Status(Code::kInvalidArgument, fmt::format("rank {}: expected a rank, or -1 for this one's own", rank));
  as_rank_ = rank;
  return Status::Ok();
}

Result<const ImageRecord*> Restarter::Record() const {
  if (!active()) return Status(Code::kFailedPrecondition, "no restart has begun");
  return &image_->record();
}

const Region* Restarter::FindSaved(int id) const {
  const int region = image_->reader().FindRegion(id);
  return region < 0 ? nullptr : &image_->record().regions[static_cast<size_t>(region)];
}

void Restarter::CountRestored() {
  if (image_) Count(*image_);
}

void Restarter::Count(const OpenImage& image) {
  const RestoredBytes restored = image.reader().restored();
  tally_.Add(restored, image.was_brought());
  kedge_statistics& statistics = core_->statistics;
  statistics.bytes_restored_pool += restored.memory;
  statistics.bytes_restored_directory += restored.directory;
  statistics.bytes_restored_store += restored.store;
  statistics.corrupt_copies += restored.corrupt_copies;
}

void Restarter::CountRestart(bool goes_on) {
  const double seconds = tally_.seconds();
  core_->statistics.last_restart_seconds = seconds;
  if (!goes_on) return;  // to read is no restart of the job
  // Every agent counts the level that one rank needed, also where its ranks had their copies.
  const RestartSummary summary = tally_.Gather(core_->collective);
  if (core_->rank() == 0) LogInfo("client", "{}", Describe(restored_, summary, seconds));
  session_->CountRestart(seconds, summary.needed);
}

void Restarter::Abandon() {
  image_.reset();
  purpose_ = Purpose::kRestore;
  files_.RemoveAll();
}

}  // namespace kedge::client

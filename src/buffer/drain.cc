#include "buffer/drain.h"

#include <algorithm>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/log.h"
#include "buffer/disk_files.h"
#include "os/files/files.h"
#include "store/drained/drained_store.h"
#include "store/keys.h"
#include "store/places/make_store.h"
#include "store/temporary_tag.h"

namespace kedge::buffer {
namespace {

using State = BufferedGeneration::State;

constexpr int kDoublingsMax = 8;       // of one version: all of it is read before each try
constexpr int kDoublingsOfAllMax = 5;  // of what costs a look
constexpr double kNsPerSecond = 1e9;
constexpr int kLooksForPartner = 4;  // while it is waited for

void LookAgain(Duration pause, DrainReport* report) {
  report->pause = report->pause == Duration::zero() ? pause : std::min(report->pause, pause);
}

std::shared_ptr<Store> OpenStoreAt(os::FileSystem& fs, const std::string& path, bool direct) {
  PosixStoreOptions options;
  options.path = path;
  options.direct = direct;
  // Neither is made here: the clients make both.
  options.making = RootMaking::kNever;
  return MakeStore(fs, options);
}

}  // namespace

StoreDrain::StoreDrain(os::FileSystem& fs, StoreDrainOptions options, const std::atomic<bool>& stopping)
    : fs_(fs),
      options_(std::move(options)),
      stopping_(stopping),
      source_(OpenStoreAt(fs, options_.path, true)),
      target_(OpenStoreAt(os::SystemFileSystem(), options_.target, false)),
      view_(MakeDrainedStore(source_, target_)) {}

DrainReport StoreDrain::Step(bool has_partner) {
  has_partner_ = has_partner;
  DrainReport report;
  const int64_t begin_ns = SystemClock().NowNs();
  const Status worked = Work(&report);
  report.seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) / kNsPerSecond;
  if (worked.ok()) {
    failure_ = {};
  } else {
    OnFailure(worked, kDoublingsOfAllMax, &failure_);
  }
  if (!stopping_) AddFailures(&report);
  return report;
}

void StoreDrain::AddFailures(DrainReport* report) {
  const int64_t now_ns = SystemClock().NowNs();
  std::vector<const Failure*> all;
  if (failure_.tries > 0) all.push_back(&failure_);
  for (const auto& [generation, failure] : failures_) all.push_back(&failure);
  if (all.empty()) return Say(Status::Ok());
  report->has_failed = true;
  report->error = all.front()->error.ToString();
  Say(all.front()->error);
  const auto earlier = [](const Failure* a, const Failure* b) { return a->not_before_ns < b->not_before_ns; };
  // Not earlier than where nothing can be asked.
  const int64_t next_ns = failure_.tries > 0 ? failure_.not_before_ns : (*std::ranges::min_element(all, earlier))->not_before_ns;
  LookAgain(std::max(Duration(next_ns - now_ns), options_.retry), report);
}

Status StoreDrain::Work(DrainReport* report) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> root, ListIfThere(*source_, ""));
  if (root.empty()) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(FindOwnTemporaries(report));
  MirrorOptions options;
  options.piece_bytes = options_.piece_bytes;
  options.goes_on = [this] { return !stopping_; };
  KEDGE_ASSIGN_OR_RETURN(const Mirror mirror, Mirror::Open(*source_, *target_, *view_, options_.owner, options));
  KEDGE_ASSIGN_OR_RETURN(std::vector<BufferedGeneration> listed, mirror.List());
  Forget(listed);
  BringFirst(mirror, listed, report);
  CountWaiting(listed, report);
  return FindNeedless(mirror, listed, report);
}

// What was brought and is not here any more, and what failed and is not to be brought any more.
void StoreDrain::Forget(const std::vector<BufferedGeneration>& listed) {
  std::set<Generation> here, tried;
  for (const BufferedGeneration& one : listed) {
    here.insert(one.generation);
    if (one.state == State::kWaits || one.state == State::kBrought || !one.problem.empty()) tried.insert(one.generation);
    if (!one.problem.empty() && MayTry(one.generation)) OnFailure(one.generation, {Code::kUnsupported, one.problem});
  }
  std::erase_if(brought_, [&](const Generation& one) { return !here.contains(one); });
  std::erase_if(failures_, [&](const auto& one) { return !tried.contains(one.first); });
}

bool StoreDrain::MayTry(const Generation& generation) const {
  const auto failure = failures_.find(generation);
  return failure == failures_.end() || SystemClock().NowNs() >= failure->second.not_before_ns;
}

Status StoreDrain::FindOwnTemporaries(DrainReport* report) {
  if (looked_for_temporaries_) return Status::Ok();
  const auto found = source_->ListTemporaries("", options_.owner);
  KEDGE_RETURN_IF_ERROR(found.status());
  looked_for_temporaries_ = true;
  const std::string own = MakeTemporaryTag(options_.owner);
  for (const Temporary& one : *found) {
    if (one.tag == own) report->temporaries.push_back(one.handle);
  }
  return Status::Ok();
}

Result<bool> StoreDrain::IsLeftToPartner(const Generation& generation, DrainReport* report) const {
  KEDGE_ASSIGN_OR_RETURN(const double age_seconds, source_->AgeSeconds(keys::VersionKey(generation), options_.owner));
  const auto age = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(age_seconds));
  // One that is of the future is no reason to wait for ever.
  if (age < Duration::zero() || age >= options_.partner_patience) return false;
  // Also to see that the partner has done it.
  LookAgain(std::min(options_.partner_patience - age, options_.partner_patience / kLooksForPartner), report);
  return true;
}

// Those that fail are passed over.
void StoreDrain::BringFirst(const Mirror& mirror, std::vector<BufferedGeneration>& listed, DrainReport* report) {
  for (BufferedGeneration& one : listed) {
    if (one.state != State::kWaits || stopping_) continue;
    if (!MayTry(one.generation)) continue;
    if (report->drained_versions > 0) {
      report->is_due = true;
      return;
    }
    if (has_partner_) {
      const Result<bool> is_left = IsLeftToPartner(one.generation, report);
      if (is_left.ok() && *is_left) continue;
    }
    uint64_t bytes = 0;
    const Status brought = mirror.Bring(one.generation, &bytes);
    if (brought.ok()) {
      OnSuccess(one.generation);
      one.state = State::kBrought;
      report->drained_versions = 1;
      report->drained_bytes = bytes;
    } else if (brought.code() == Code::kNotFound) {
      one.state = State::kUnderWay;  // or removed
      failures_.erase(one.generation);
    } else if (!stopping_) {
      OnFailure(one.generation, brought);
    }
  }
}

Status StoreDrain::FindNeedless(const Mirror& mirror, const std::vector<BufferedGeneration>& listed, DrainReport* report) {
  // `listed` has the newest last.
  std::map<std::pair<std::string, std::string>, const BufferedGeneration*> newest;
  for (const BufferedGeneration& one : listed) {
    if (one.state == State::kBrought) newest[{one.generation.job, one.generation.name}] = &one;
  }
  for (const BufferedGeneration& one : listed) {
    if (stopping_) break;
    bool is_needless = false;
    if (one.state == State::kBrought) {
      const Status rest = BringRest(mirror, one.generation);
      is_needless = rest.ok() && newest.at({one.generation.job, one.generation.name}) != &one;
      const bool has_failed = !rest.ok() && rest.code() != Code::kBusy && rest.code() != Code::kNotFound;
      if (has_failed && !stopping_) OnFailure(one.generation, rest);
    } else if (one.state == State::kEmptied) {
      KEDGE_ASSIGN_OR_RETURN(is_needless, mirror.HasObjectsOf(one.generation));
    }
    if (is_needless) report->folders.push_back(keys::GenerationFolder(one.generation));
  }
  return Status::Ok();
}

// Of one whose version record this process did not bring: a predecessor did, a client that did not reach the buffer, or the
// partner, which has the same objects.
Status StoreDrain::BringRest(const Mirror& mirror, const Generation& generation) {
  if (brought_.contains(generation)) return Status::Ok();
  if (has_partner_) {
    KEDGE_ASSIGN_OR_RETURN(const bool has_all, mirror.HasObjectsOf(generation));
    if (has_all) return OnSuccess(generation), Status::Ok();
  }
  if (!MayTry(generation)) return {Code::kBusy, "it is not tried yet"};
  uint64_t bytes = 0;
  KEDGE_RETURN_IF_ERROR(mirror.Bring(generation, &bytes));
  OnSuccess(generation);
  return Status::Ok();
}

void StoreDrain::CountWaiting(const std::vector<BufferedGeneration>& listed, DrainReport* report) const {
  for (const BufferedGeneration& one : listed) {
    if (one.state != State::kWaits) continue;
    ++report->waiting_versions;
    const auto bytes = BytesBelow(fs_, os::JoinPath(options_.path, keys::GenerationFolder(one.generation)));
    report->waiting_bytes += bytes.ok() ? *bytes : 0;
  }
}

void StoreDrain::OnSuccess(const Generation& generation) {
  brought_.insert(generation);
  failures_.erase(generation);
}

void StoreDrain::OnFailure(const Generation& generation, const Status& failed) {
  OnFailure(failed, kDoublingsMax, &failures_[generation]);
}

void StoreDrain::OnFailure(const Status& failed, int doublings_max, Failure* failure) const {
  failure->error = failed;
  const Duration pause = options_.retry * (1 << std::min(failure->tries, doublings_max));
  failure->not_before_ns = SystemClock().NowNs() + pause.count();
  ++failure->tries;
}

void StoreDrain::Say(const Status& error) {
  // Names of temporary files are others each time.
  const std::string cause = error.code() == Code::kCorrupt ? error.ToString() : CodeName(error.code());
  if (cause == said_) return;
  if (!error.ok()) {
    LogWarning("buffer", "{} is not drained to {}: {}; it is tried again", options_.what, options_.target, error.ToString());
  } else if (!said_.empty()) {
    LogInfo("buffer", "{} is drained to {} again", options_.what, options_.target);
  }
  said_ = cause;
}

}  // namespace kedge::buffer

#include "buffer/server_drains.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "buffer/drain_places.h"

namespace kedge::buffer {
namespace {

constexpr ptrdiff_t kDrainedOfOwnerMax = 1024;

}  // namespace

Status ServerDrains::Start(std::map<std::string, Owner>& owners) {
  for (const DrainPlace& allowed : core_.options.drains) {
    const auto is_owner = [&](const auto& entry) { return entry.second.options.name == allowed.owner; };
    if (std::ranges::none_of(owners, is_owner))
      return Status(Code::kInvalidArgument, fmt::format("--drain {}:{}: no --owner has that name", allowed.owner, allowed.place));
    KEDGE_ASSIGN_OR_RETURN(std::string place, ParseDrainPlace(allowed.place));
    places_[allowed.owner].push_back(std::move(place));
  }
  workers_ = std::make_unique<Workers>(core_.options.drain_threads, std::chrono::seconds(10), Workers::Priority::kLow);
  for (auto& [name, owner] : owners) {
    KEDGE_ASSIGN_OR_RETURN(const auto noted, owner.folder->ReadDrains());
    for (const auto& [store, target] : noted) Begin(owner, store, target, /*has_partner=*/false);
  }
  return Status::Ok();
}

void ServerDrains::Stop() {
  stopping_ = true;
  workers_.reset();
  for (const auto& [key, drained] : drained_) core_.loop.CancelTimer(drained.timer);
}

Result<std::string> ServerDrains::Allowed(const Owner& owner, const std::string& target) const {
  const auto places = places_.find(owner.options.name);
  static const std::vector<std::string> kNone;
  auto granted = AllowedTarget(places == places_.end() ? kNone : places->second, target);
  if (granted.status().code() != Code::kPermission) return granted;
  return Status(Code::kPermission,
                fmt::format("{} from owner {}: the server's operator allows it with --drain {}:PLACE, or name another store",
                            granted.status().message(), owner.options.name, owner.options.name));
}

void ServerDrains::Reply(const net::Answer& answer, const Status& status) const {
  StoreReply reply;
  reply.status = core_.InContext(status);
  answer(Encode(reply));
}

void ServerDrains::OnDrainTo(Owner& owner, const StoreRequest& request, net::Answer answer) {
  const Status named = ValidateKey(request.store);
  if (!named.ok()) return Reply(answer, named);
  const Result<std::string> allowed = Allowed(owner, request.other);
  if (!allowed.ok()) return Reply(answer, allowed.status());
  const auto known = drained_.find({owner.options.name, request.store});
  // Programs say it from time to time.
  if (known != drained_.end() && known->second.target == request.other) {
    known->second.has_partner = request.flag;
    return Reply(answer, Status::Ok());
  }
  const auto is_of_owner = [&](const auto& entry) { return entry.second.owner == &owner; };
  if (known == drained_.end() && std::ranges::count_if(drained_, is_of_owner) >= kDrainedOfOwnerMax)
    return Reply(answer, Status(Code::kNoSpace, fmt::format("owner {} has {} stores that are drained already", owner.options.name,
                                                            kDrainedOfOwnerMax)));
  core_.Background(
      [folder = owner.folder.get(), request] { return folder->NoteDrain(request.store, request.other); },
      [this, &owner, request, answer = std::move(answer)](const Result<std::string>& stands) {
        if (!stands.ok()) return Reply(answer, stands.status());
        Begin(owner, request.store, *stands, request.flag);
        if (*stands == request.other) return Reply(answer, Status::Ok());
        Reply(answer,
              Status(Code::kMismatch, fmt::format("what lies in {} of owner {} is drained to {}, not to {}: name that store, or "
                                                  "another prefix",
                                                  request.store, owner.options.name, *stands, request.other)));
      });
}

void ServerDrains::OnVersion(Owner& owner, const std::string& store) {
  const Key key{owner.options.name, store};
  if (drained_.contains(key)) Run(key);
}

void ServerDrains::Begin(Owner& owner, const std::string& store, const std::string& target, bool has_partner) {
  const Key key{owner.options.name, store};
  if (drained_.contains(key)) return;
  Drained drained;
  drained.owner = &owner;
  drained.target = target;
  drained.has_partner = has_partner;
  const Result<std::string> allowed = Allowed(owner, target);
  if (allowed.ok()) {
    StoreDrainOptions options;
    options.path = owner.folder->StorePath(store);
    options.target = *allowed;
    options.what = fmt::format("{} of owner {}", store, owner.options.name);
    options.owner = {"buffer-" + core_.options.name, 0, "drain"};
    options.retry = core_.options.drain_retry;
    options.partner_patience = core_.options.partner_patience;
    drained.drain = std::make_shared<StoreDrain>(core_.fs, std::move(options), stopping_);
  } else {
    LogWarning("buffer", "{}", allowed.status().ToString());
    drained.last.error = allowed.status().ToString();
  }
  drained_[key] = std::move(drained);
  Run(key);
}

void ServerDrains::Run(const Key& key) {
  Drained& drained = drained_.at(key);
  if (drained.drain == nullptr) return;
  drained.again = drained.runs;
  if (drained.runs) return;
  drained.runs = true;
  workers_->Submit([this, alive = core_.alive, key, drain = drained.drain, has_partner = drained.has_partner] {
    core_.loop.Post([this, alive, key, report = drain->Step(has_partner)] {
      if (*alive) OnReport(key, report);
    });
  });
}

void ServerDrains::OnReport(const Key& key, const DrainReport& report) {
  Drained& drained = drained_.at(key);
  drained.last = report;
  drained.drained_versions += report.drained_versions;
  drained.drained_bytes += report.drained_bytes;
  if (report.drained_versions > 0) drained.bytes_per_second = static_cast<double>(report.drained_bytes) / report.seconds;
  RemoveThen(key, report);
}

void ServerDrains::RemoveThen(const Key& key, const DrainReport& report) {
  Drained& drained = drained_.at(key);
  std::vector<StoreRequest> requests;
  for (const std::string& folder : report.folders)
    requests.push_back({.operation = StoreOperation::kRemoveFolder, .key = folder, .other = folder + "/version"});
  for (const std::string& handle : report.temporaries)
    requests.push_back({.operation = StoreOperation::kRemoveTemporary, .other = handle});
  if (requests.empty()) return EndRun(key);
  const auto left = std::make_shared<size_t>(requests.size());
  for (StoreRequest& request : requests) {
    request.store = key.second;
    request.owner = {"buffer-" + core_.options.name, 0, "drain"};
    stores_.Remove(*drained.owner, request, [this, key, left](const StoreReply& reply) {
      if (!reply.status.ok()) LogWarning("buffer", "what is drained stays: {}", reply.status.ToString());
      if (--*left == 0) EndRun(key);
    });
  }
}

void ServerDrains::EndRun(const Key& key) {
  Drained& drained = drained_.at(key);
  drained.runs = false;
  if (drained.again || drained.last.is_due) return Run(key);
  core_.loop.CancelTimer(drained.timer);
  if (drained.last.pause > Duration::zero()) drained.timer = core_.loop.AddTimer(drained.last.pause, [this, key] { Run(key); });
}

Json ServerDrains::Describe(const Owner& owner) const {
  Json all = Json::array();
  for (const auto& [key, drained] : drained_) {
    if (drained.owner != &owner) continue;
    all.push_back({{"store", key.second},
                   {"target", drained.target},
                   {"waiting_versions", drained.last.waiting_versions},
                   {"waiting_bytes", drained.last.waiting_bytes},
                   {"drained_versions", drained.drained_versions},
                   {"drained_bytes", drained.drained_bytes},
                   {"bytes_per_second", drained.bytes_per_second},
                   {"last_error", drained.last.error}});
  }
  return all;
}

}  // namespace kedge::buffer

#include "agent/protect/set_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "agent/peers/peers.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/node_level.h"
#include "agent/protect/set_under_way.h"
#include "redundancy/layout.h"

namespace kedge {

SetExchange::SetExchange(AgentCore& core, HeldSets& held_sets, NodeLevel& node_level, Peers& peers)
    : core_(core), held_sets_(held_sets), node_level_(node_level), peers_(peers) {
  peers.service().On(PeerKind::kExchange, DecodeExchangeRequest, std::bind_front(&SetExchange::OnAsked, this));
}

void SetExchange::OnBegun(Version& version) {
  for (SetProgress& set : version.protection->sets) {
    for (auto early = early_.begin(); early != early_.end();) {
      if (early->set != set.identity || early->from >= set.members.size()) {
        ++early;
        continue;
      }
      set.members[early->from] = std::move(early->member);
      set.done[early->from] = early->done;
      early = early_.erase(early);
    }
  }
}

void SetExchange::OnVersionGone(const Version& version) {
  std::erase_if(early_, [&](const Early& early) { return early.set.generation == version.generation; });
}

void SetExchange::AskMembers(Version& version, SetProgress& set) {
  const uint32_t self = version.protection->member;
  const int64_t now_ns = core_.clock().NowNs();
  for (uint32_t member = 0; member < set.members.size(); ++member) {
    if (set.IsToAsk(self, member, now_ns)) Ask(version, set, member);
  }
}

void SetExchange::Ask(Version& version, SetProgress& set, uint32_t member) {
  const Protection& protection = *version.protection;
  SetProgress::Contact& contact = set.contacts[member];
  contact.asking = true;
  contact.telling_done = set.done[protection.member];
  const ExchangeRequest request{set.identity, protection.member, set.done[protection.member], *set.members[protection.member]};
  peers_.Call(*version.job, protection.NodeOf(member).name, PeerKind::kExchange, Encode(request), kCallTimeout,
              [this, identity = set.identity, member, told_done = request.done](const Result<Buffer>& answer) {
                OnAnswer(identity, member, told_done, answer);
              });
}

void SetExchange::OnAnswer(const SetIdentity& identity, uint32_t member, bool told_done, const Result<Buffer>& answer) {
  const auto [version, set] = SetUnderWay::Find(core_, identity);
  if (set == nullptr || member >= set->contacts.size()) return;
  Protection& protection = *version->protection;
  const int64_t now_ns = core_.clock().NowNs();
  SetProgress::Contact& asked = set->contacts[member];
  asked.asking = false;
  auto reply = answer.ok() ? DecodeExchangeReply(*answer, identity.ranks) : Result<ExchangeReply>(answer.status());
  asked.error = reply.status();
  // Often enough to hear of a slow member in time that it gets on.
  const Duration ask_pause = std::clamp<Duration>(version->job->hello.keys.protect_timeout / 4, kAskPauseMin, kAskPauseMax);
  asked.next_ns = now_ns + (reply.ok() ? ask_pause : kRetryPause).count();
  if (!reply.ok()) return node_level_.OnRefusal(*version, reply.status());
  asked.told_done = told_done;
  if (reply->mark > asked.mark) {
    asked.mark = reply->mark;
    protection.progress_ns = now_ns;
  }
  if (reply->theirs.has_value() && !set->members[member].has_value()) {
    set->members[member] = std::move(*reply->theirs);
    protection.OnStep(now_ns);
  }
  if (reply->done && !set->done[member]) {
    set->done[member] = true;
    protection.OnStep(now_ns);
  }
  // What has come since is told at once.
  if (set->done[protection.member] && !asked.telling_done) asked.next_ns = 0;
  core_.events().set_changed(*version);
}

Result<ExchangeReply> SetExchange::OnAsked(Job& job, const ExchangeRequest& request) {
  const auto& layout = job.layout;
  const SetIdentity& identity = request.set;
  if (layout == nullptr || layout->id != identity.layout) {
    return Status(Code::kMismatch,
                  fmt::format("{}: node {} knows another layout of the job", identity.ToString(), core_.settings().node));
  }
  const auto self = layout->Find(core_.settings().node);
  const bool sane = self.has_value() && self->group == identity.group && request.from < layout->groups[identity.group].size() &&
                    request.from != self->member && identity.index < layout->SetCount(identity.group) &&
                    layout->groups[identity.group][request.from].name == request.mine.node &&
                    layout->RankAt(identity.group, request.from, identity.index) == request.mine.rank;
  if (!sane) return Status(Code::kInvalidArgument, identity.ToString() + ": not what the layout says");
  ExchangeReply reply;
  const auto [version, set] = SetUnderWay::Find(core_, identity);
  if (set != nullptr) {
    if (!set->members[request.from].has_value() || (request.done && !set->done[request.from])) {
      set->members[request.from] = request.mine;
      set->done[request.from] = set->done[request.from] || request.done;
      version->protection->OnStep(core_.clock().NowNs());
      core_.events().set_changed(*version);
    }
    reply.theirs = set->members[self->member];
    reply.done = set->done[self->member];
    reply.mark = set->Mark();
    return reply;
  }
  // Done here already; or given up; or not begun.
  const HeldSet* held = held_sets_.Find(identity);
  if (held != nullptr && version != nullptr && version->at_node && version->node_failure.ok()) {
    reply.theirs = held->record.members[self->member];
    reply.done = true;
    return reply;
  }
  if (const Status* outcome = node_level_.OutcomeOf(identity.generation, identity.layout)) {
    if (!outcome->ok()) return *outcome;
    reply.done = true;
    return reply;
  }
  const auto rank = layout->RankAt(self->group, self->member, identity.index);
  if (rank.has_value() && job.HasPassedOver(identity.generation, *rank)) {
    return Status(Code::kIncomplete,
                  fmt::format("node {} has no image of rank {}, and has later ones", core_.settings().node, *rank));
  }
  std::erase_if(early_, [&](const Early& early) { return early.set == identity && early.from == request.from; });
  early_.push_back({identity, request.from, request.done, request.mine});
  if (early_.size() > kEarlyMax) early_.pop_front();
  return reply;
}

}  // namespace kedge

#include "agent/protect/set_proofs.h"

#include <functional>
#include <utility>

#include "agent/images/held_stream.h"
#include "agent/peers/peers.h"
#include "agent/protect/node_level.h"
#include "agent/protect/set_under_way.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {

SetProofs::SetProofs(AgentCore& core, NodeLevel& node_level, Peers& peers) : core_(core), node_level_(node_level), peers_(peers) {
  peers.service().On(PeerKind::kProve, DecodeSetRequest, std::bind_front(&SetProofs::OnAsked, this));
}

void SetProofs::Fail(const SetIdentity& identity, const Status& why) {
  const auto found = SetUnderWay::Find(core_, identity);
  if (found && found.version->IsOwedToNodes()) node_level_.Fail(*found.version, why);
}

void SetProofs::Ask(const Version& version, const SetIdentity& identity, uint32_t member) {
  peers_.Call(*version.job, version.protection->NodeOf(member).name, PeerKind::kProve, Encode(SetRequest{identity, member}),
              kProofTimeout, [this, identity](const Result<Buffer>& answer) {
                if (answer.status().code() == Code::kCorrupt) Fail(identity, answer.status());
              });
}

void SetProofs::OnAsked(const Job&, const net::Peer&, const SetRequest& request, net::Answer answer) {
  const auto [version, set] = SetUnderWay::Find(core_, request.set);
  // Another member was faster to ask.
  if (version != nullptr && !version->node_failure.ok()) return answer(version->node_failure);
  const bool is_ours = set != nullptr && request.member == version->protection->member && request.member < set->members.size() &&
                       set->members[request.member].has_value() && set->members[request.member]->rank.has_value();
  const Image* image = is_ours ? version->FindWhole(*set->members[request.member]->rank) : nullptr;
  if (image == nullptr) return answer(Status(Code::kNotFound, request.set.ToString() + ": there is no image of it to prove"));
  LogWarning("agent", "{}: another node doubts the image of rank {}, which is read again", request.set.ToString(), image->rank);
  core_.servers().Submit([this, identity = request.set, id = image->id, stream = HeldStream::Of(*image),
                          offset = image->record_object_offset, bytes = image->record_bytes, answer = std::move(answer)] {
    Status proved = ProveImage(stream, offset, bytes);
    core_.loop().Post([this, identity, id, proved, answer] {
      answer(proved.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(proved));
      if (proved.ok()) return;
      node_level_.NoteIfDamaged(id, proved);
      Fail(identity, proved);
    });
  });
}

}  // namespace kedge

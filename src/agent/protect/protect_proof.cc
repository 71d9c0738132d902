// Who is asked when a block does not fit its table (protect.h): a byte of it has changed on the way, or in its owner's memory
// since the capture. The owner reads the whole image again and holds it against the checksums of capture; where that fails, its
// version is given up there and where it was asked from.
#include "agent/images/held_stream.h"
#include "agent/peers/peers.h"
#include "agent/protect/protect.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {
namespace {

// A pass over an image; who proves wrong gives up by himself anyway.
constexpr Duration kProofTimeout = std::chrono::seconds(60);

}  // namespace

void Protect::AskForProof(const Version& version, const SetIdentity& identity, uint32_t member) {
  const Protection& protection = *version.protection;
  peers_.Call(*version.job, protection.layout->groups[protection.group][member].name, PeerKind::kProve,
              Encode(SetRequest{identity, member}), kProofTimeout, [this, identity](const Result<Buffer>& answer) {
                Version* owner = nullptr;
                if (answer.status().code() != Code::kCorrupt || FindSet(identity, &owner) == nullptr) return;
                if (owner->IsOwedToNodes()) Fail(*owner, answer.status());
              });
}

void Protect::OnProve(const SetRequest& request, net::Answer answer) {
  Version* version = nullptr;
  const SetProgress* set = FindSet(request.set, &version);
  // Another member was faster to ask.
  if (version != nullptr && !version->node_failure.ok()) return answer(version->node_failure);
  const bool is_ours = set != nullptr && request.member == version->protection->member && request.member < set->members.size() &&
                       set->members[request.member].has_value() && set->members[request.member]->rank.has_value();
  const Image* image = is_ours ? core_.FindWhole(request.set.generation, *set->members[request.member]->rank) : nullptr;
  if (image == nullptr) return answer(Status(Code::kNotFound, request.set.ToString() + ": there is no image of it to prove"));
  LogWarning("agent", "{}: another node doubts the image of rank {}, which is read again", request.set.ToString(), image->rank);
  core_.servers().Submit([this, identity = request.set, id = image->id, stream = HeldStream::Of(*image),
                          offset = image->record_object_offset, bytes = image->record_bytes, answer = std::move(answer)] {
    Status proved = ProveImage(stream, offset, bytes);
    core_.loop().Post([this, identity, id, proved, answer] {
      answer(proved.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(proved));
      if (!proved.ok()) NoteIfDamaged(id, proved);
      Version* owner = nullptr;
      if (proved.ok() || FindSet(identity, &owner) == nullptr) return;
      if (owner->IsOwedToNodes()) Fail(*owner, proved);
    });
  });
}

}  // namespace kedge

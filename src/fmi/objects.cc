#include "fmi/objects.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace kedge::fmi {
namespace {

void EncodeGroup(Encoder& encoder, const std::shared_ptr<const Group>& group) {
  encoder.Varint(group->size());
  for (const uint32_t rank : group->ranks()) encoder.Varint(rank);
}

Result<std::shared_ptr<const Group>> DecodeGroup(Decoder& decoder, uint32_t job_ranks) {
  std::vector<uint32_t> ranks;
  for (size_t left = decoder.Count(1); left > 0; --left) ranks.push_back(decoder.Varint32());
  KEDGE_RETURN_IF_ERROR(decoder.status("a group"));
  KEDGE_ASSIGN_OR_RETURN(Group group, Group::Checked(std::move(ranks), job_ranks));
  return std::shared_ptr<const Group>(std::make_shared<Group>(std::move(group)));
}

void EncodeType(Encoder& encoder, const DerivedType& type) {
  encoder.U8(type.is_committed ? 1 : 0);
  type.map->Encode(&encoder);
}

Result<DerivedType> DecodeType(Decoder& decoder) {
  const bool is_committed = decoder.U8() != 0;
  KEDGE_ASSIGN_OR_RETURN(TypeMap map, TypeMap::Decode(&decoder));
  return DerivedType{std::make_shared<TypeMap>(std::move(map)), is_committed};
}

}  // namespace

Buffer Objects::Encode() const {
  Buffer encoded;
  Encoder encoder(encoded);
  communicators.Encode(&encoder);
  groups.Encode(&encoder, EncodeGroup);
  types.Encode(&encoder, EncodeType);
  operations.EncodeNumbers(&encoder);
  requests.EncodeNumbers(&encoder);
  encoder.Finish();
  return encoded;
}

Status Objects::Restore(ByteSpan encoded) {
  Decoder decoder(encoded);
  const uint32_t job_ranks = communicators.world().channel.ranks();
  KEDGE_RETURN_IF_ERROR(communicators.Decode(&decoder));
  KEDGE_RETURN_IF_ERROR(groups.Decode(&decoder, [&](Decoder& from) { return DecodeGroup(from, job_ranks); }));
  KEDGE_RETURN_IF_ERROR(types.Decode(&decoder, DecodeType));
  // Checkpoints of before there were operations and persistent requests end here.
  if (decoder.remaining() > 0) KEDGE_RETURN_IF_ERROR(operations.DecodeNumbers(&decoder));
  if (decoder.remaining() > 0) KEDGE_RETURN_IF_ERROR(requests.DecodeNumbers(&decoder));
  return decoder.Finish("the handles");
}

}  // namespace kedge::fmi

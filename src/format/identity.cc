#include "format/identity.h"

#include "format/envelope.h"

namespace kedge {

std::string Generation::ToString() const {
  return job + "/" + name + " version " + std::to_string(version) + " (attempt " + std::to_string(attempt) + ", take " +
         std::to_string(take) + ")";
}

std::string ImageIdentity::ToString() const {
  return generation.ToString() + " rank " + std::to_string(rank) + " of " + std::to_string(ranks);
}

Status ValidateName(std::string_view name, const char* what) {
  if (name.empty()) return Status(Code::kInvalidArgument, std::string(what) + " is empty");
  if (name.size() > kNameBytesMax) {
    return Status(Code::kInvalidArgument, std::string(what) + " has " + std::to_string(name.size()) + " bytes; at most " +
                                              std::to_string(kNameBytesMax) + " are allowed");
  }
  if (name.find('\0') != std::string_view::npos) {
    return Status(Code::kInvalidArgument, std::string(what) + " holds a NUL byte");
  }
  return Status::Ok();
}

Status Validate(const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(ValidateName(generation.job, "job name"));
  KEDGE_RETURN_IF_ERROR(ValidateName(generation.name, "checkpoint name"));
  if (generation.version < 0) {
    return Status(Code::kInvalidArgument, "version " + std::to_string(generation.version) + " is negative");
  }
  if (generation.attempt < 1 || generation.take < 1) {
    return Status(Code::kInvalidArgument, "attempt and take count from 1: " + generation.ToString());
  }
  return Status::Ok();
}

Status Validate(const ImageIdentity& identity) {
  KEDGE_RETURN_IF_ERROR(Validate(identity.generation));
  if (identity.ranks < 1 || identity.ranks > kRanksMax || identity.rank >= identity.ranks) {
    return Status(Code::kInvalidArgument,
                  "rank " + std::to_string(identity.rank) + " of " + std::to_string(identity.ranks) + " is out of range");
  }
  return Status::Ok();
}

void EncodeFields(Encoder& encoder, const Generation& generation) {
  encoder.String(generation.job);
  encoder.String(generation.name);
  encoder.Varint(static_cast<uint64_t>(generation.version));
  encoder.Varint(generation.attempt);
  encoder.Varint(generation.take);
}

void EncodeFields(Encoder& encoder, const ImageIdentity& identity) {
  EncodeFields(encoder, identity.generation);
  encoder.Varint(identity.rank);
  encoder.Varint(identity.ranks);
}

std::string DecodeName(Decoder& decoder) {
  const std::string_view name = decoder.String(kNameBytesMax);
  decoder.Require(!name.empty() && name.find('\0') == std::string_view::npos, "a name is empty or holds a NUL byte");
  return std::string(name);
}

void DecodeFields(Decoder& decoder, const StoreId& store_id, Generation* generation) {
  generation->store_id = store_id;
  generation->job = DecodeName(decoder);
  generation->name = DecodeName(decoder);
  generation->version = static_cast<int64_t>(decoder.VarintAtMost(INT64_MAX));
  generation->attempt = decoder.Varint32();
  generation->take = decoder.Varint32();
  decoder.Require(generation->attempt >= 1 && generation->take >= 1, "attempt or take is zero");
}

void DecodeFields(Decoder& decoder, const StoreId& store_id, ImageIdentity* identity) {
  DecodeFields(decoder, store_id, &identity->generation);
  identity->rank = decoder.Varint32();
  identity->ranks = static_cast<uint32_t>(decoder.VarintAtMost(kRanksMax));
  decoder.Require(identity->rank < identity->ranks, "a rank is out of range");
}

void EncodeImageIdentity(const ImageIdentity& identity, Buffer* out) {
  RecordEncoder record(RecordKind::kImageIdentity, identity.generation.store_id, out);
  EncodeFields(record.encoder(), identity);
  record.Finish();
}

Result<ImageIdentity> DecodeImageIdentity(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kImageIdentity));
  Decoder decoder(record.payload);
  ImageIdentity identity;
  DecodeFields(decoder, record.store_id, &identity);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return identity;
}

}  // namespace kedge

#include "format/set_records.h"

#include <algorithm>
#include <bit>
#include <set>

#include "format/envelope.h"
#include "format/node_records.h"

namespace kedge {

namespace {

constexpr size_t kMemberBytesMin = 8;
constexpr size_t kParitySlotBytesMin = 5;
constexpr size_t kNaturalBlockBytesMin = 1 + sizeof(Fingerprint);

bool TextIsValid(std::string_view text, size_t bytes_max) {
  return !text.empty() && text.size() <= bytes_max && text.find('\0') == std::string_view::npos;
}

const char* TableFault(const BlockTable& table) {
  if (table.block_bytes < kBlockBytesMin || table.block_bytes > kBlockBytesMax || !std::has_single_bit(table.block_bytes)) {
    return "a block size is out of bounds";
  }
  if (table.crc32c.size() != table.BlockCount()) return "a block table does not cover its bytes";
  return nullptr;
}

const char* MemberFault(const SetMember& member, uint32_t ranks) {
  if (!TextIsValid(member.node, kNodeNameBytesMax)) return "a node's name is empty, too long or holds a NUL byte";
  if (!TextIsValid(member.domain, kNodeNameBytesMax)) return "a failure domain is empty, too long or holds a NUL byte";
  if (const char* fault = TableFault(member.blocks)) return fault;
  if (member.rank.has_value() ? *member.rank >= ranks : member.blocks.bytes != 0) return "a member's rank is out of range";
  if (member.image_record.empty() == member.rank.has_value()) return "a member has an image without its record";
  if (member.image_record.size() > member.blocks.bytes) return "an image record is longer than its image";
  return nullptr;
}

const char* NaturalFault(const NaturalBlocks& natural, const SetMember& member) {
  if (natural.blocks.empty()) return natural.block_bytes == 0 ? nullptr : "natural blocks of a size and none of them";
  const uint32_t step = member.blocks.block_bytes;
  if (natural.block_bytes == 0 || natural.block_bytes > kBlockBytesMax || natural.block_bytes % step != 0)
    return "the size of natural blocks is out of bounds";
  const uint64_t end = member.blocks.bytes - member.image_record.size();
  uint64_t free = 0;
  for (const NaturalBlocks::Block& block : natural.blocks) {
    if (block.offset < free || block.offset % step != 0 || block.offset > end || natural.block_bytes > end - block.offset)
      return "a natural block is out of place";
    free = block.offset + natural.block_bytes;
  }
  return nullptr;
}

const char* IdentityFault(const SetIdentity& identity) {
  if (!Validate(identity.generation).ok()) return "its generation is not valid";
  if (identity.ranks < 1 || identity.ranks > kRanksMax) return "its number of ranks is out of range";
  return nullptr;
}

const char* SchemeFault(const SetRecord& set) {
  if (set.members.size() < 2 || set.members.size() > kSetMembersMax) return "its number of members is out of range";
  if (set.scheme < Scheme::kPartner || set.scheme > Scheme::kReedSolomon) return "its scheme is unknown";
  if (set.parity < 1 || set.parity >= set.members.size()) return "its parity is out of range";
  if (set.scheme == Scheme::kXor && set.parity != 1) return "its parity is out of range";
  return nullptr;
}

const char* SetFault(const SetRecord& set) {
  if (const char* fault = IdentityFault(set.identity)) return fault;
  if (const char* fault = SchemeFault(set)) return fault;
  std::set<std::string_view> nodes;
  std::set<uint32_t> ranks;
  for (const SetMember& member : set.members) {
    if (const char* fault = MemberFault(member, set.identity.ranks)) return fault;
    if (const char* fault = NaturalFault(member.natural, member)) return fault;
    if (!nodes.insert(member.node).second) return "a node is a member twice";
    if (member.rank && !ranks.insert(*member.rank).second) return "a rank is there twice";
  }
  return nullptr;
}

bool HasNatural(const SetRecord& set) {
  return std::any_of(set.members.begin(), set.members.end(),
                     [](const SetMember& member) { return !member.natural.blocks.empty(); });
}

const char* ParityFault(const ParityRecord& parity) {
  if (const char* fault = IdentityFault(parity.identity)) return fault;
  if (parity.member >= kSetMembersMax) return "its member is out of range";
  if (const char* fault = TableFault(parity.blocks)) return fault;
  for (const std::string& tier : parity.tiers) {
    if (!TextIsValid(tier, kTierKeyBytesMax)) return "a tier key is empty, too long or holds a NUL byte";
  }
  uint64_t left = parity.blocks.bytes;
  for (const ParitySlot& slot : parity.slots) {
    if (slot.tier >= parity.tiers.size()) return "a slot's tier is out of range";
    if (slot.bytes == 0 || slot.bytes > left) return "its slots do not hold its bytes";
    left -= slot.bytes;
  }
  return left == 0 ? nullptr : "its slots do not hold its bytes";
}

Status FaultStatus(const char* what, const char* fault) {
  return fault == nullptr ? Status::Ok() : Status(Code::kInternal, std::string(what) + ": " + fault);
}

}  // namespace

const char* SchemeName(Scheme scheme) {
  switch (scheme) {
    case Scheme::kNone: return "none";
    case Scheme::kPartner: return "partner";
    case Scheme::kXor: return "xor";
    case Scheme::kReedSolomon: return "rs";
  }
  return "unknown";
}

std::string SetIdentity::ToString() const {
  return generation.ToString() + " set " + std::to_string(index) + " of group " + std::to_string(group);
}

Status Validate(const SetRecord& set) {
  return FaultStatus("set record", SetFault(set));
}

Status Validate(const ParityRecord& parity) {
  return FaultStatus("parity record", ParityFault(parity));
}

void EncodeFields(Encoder& encoder, const BlockTable& table) {
  encoder.Varint(table.bytes);
  encoder.U8(static_cast<uint8_t>(std::countr_zero(table.block_bytes)));
  encoder.Raw(std::as_bytes(std::span(table.crc32c)));
}

void EncodeFields(Encoder& encoder, const SetIdentity& identity) {
  EncodeFields(encoder, identity.generation);
  encoder.Varint(identity.ranks);
  encoder.U64(identity.layout);
  encoder.Varint(identity.group);
  encoder.Varint(identity.index);
}

void EncodeFields(Encoder& encoder, const SetMember& member) {
  encoder.String(member.node);
  encoder.String(member.domain);
  encoder.Varint(member.rank ? uint64_t{*member.rank} + 1 : 0);
  EncodeFields(encoder, member.blocks);
  encoder.String(AsText(member.image_record));
}

void EncodeFields(Encoder& encoder, const NaturalBlocks& natural, const BlockTable& table) {
  encoder.Varint(natural.blocks.size());
  if (natural.blocks.empty()) return;
  encoder.Varint(natural.block_bytes);
  uint64_t free = 0;
  for (const NaturalBlocks::Block& block : natural.blocks) {
    encoder.Varint((block.offset - free) / table.block_bytes);
    encoder.Raw(block.fingerprint);
    free = block.offset + natural.block_bytes;
  }
}

void DecodeFields(Decoder& decoder, BlockTable* table) {
  table->bytes = decoder.Varint();
  const uint8_t shift = decoder.U8();
  decoder.Require(shift < 32 && (1u << shift) >= kBlockBytesMin && (1u << shift) <= kBlockBytesMax,
                  "a block size is out of bounds");
  if (!decoder.ok()) return;
  table->block_bytes = 1u << shift;
  const uint64_t blocks = table->BlockCount();
  if (blocks > decoder.remaining() / sizeof(uint32_t)) return decoder.Fail("more blocks announced than bytes are left");
  const ByteSpan raw = decoder.Raw(blocks * sizeof(uint32_t));
  table->crc32c.resize(blocks);
  if (blocks > 0) std::memcpy(table->crc32c.data(), raw.data(), raw.size());
}

void DecodeFields(Decoder& decoder, const StoreId& store_id, SetIdentity* identity) {
  DecodeFields(decoder, store_id, &identity->generation);
  identity->ranks = static_cast<uint32_t>(decoder.VarintAtMost(kRanksMax));
  decoder.Require(identity->ranks >= 1, "no ranks");
  identity->layout = decoder.U64();
  identity->group = decoder.Varint32();
  identity->index = decoder.Varint32();
}

void DecodeFields(Decoder& decoder, uint32_t ranks, SetMember* member) {
  member->node = decoder.String(kNodeNameBytesMax);
  member->domain = decoder.String(kNodeNameBytesMax);
  const uint64_t rank = decoder.VarintAtMost(ranks);
  if (rank > 0) member->rank = static_cast<uint32_t>(rank - 1);
  DecodeFields(decoder, &member->blocks);
  const std::string_view image = decoder.String(kRecordBytesMax);
  const ByteSpan bytes = AsBytes(image);
  member->image_record.assign(bytes.begin(), bytes.end());
  if (!decoder.ok()) return;
  if (const char* fault = MemberFault(*member, ranks)) decoder.Fail(fault);
}

void DecodeFields(Decoder& decoder, const SetMember& member, NaturalBlocks* natural) {
  natural->blocks.resize(decoder.Count(kNaturalBlockBytesMin));
  if (natural->blocks.empty()) return;
  natural->block_bytes = decoder.Varint32();
  uint64_t free = 0;
  for (NaturalBlocks::Block& block : natural->blocks) {
    block.offset = free + decoder.VarintAtMost(member.blocks.BlockCount()) * member.blocks.block_bytes;
    const ByteSpan fingerprint = decoder.Raw(block.fingerprint.size());
    if (!decoder.ok()) return;
    std::copy(fingerprint.begin(), fingerprint.end(), block.fingerprint.begin());
    free = block.offset + natural->block_bytes;
  }
  if (const char* fault = NaturalFault(*natural, member)) decoder.Fail(fault);
}

Status EncodeSetRecord(const SetRecord& set, Buffer* out) {
  KEDGE_RETURN_IF_ERROR(Validate(set));
  RecordEncoder record(RecordKind::kSet, set.identity.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, set.identity);
  encoder.U8(static_cast<uint8_t>(set.scheme));
  encoder.Varint(set.parity);
  encoder.Varint(set.members.size());
  for (const SetMember& member : set.members) EncodeFields(encoder, member);
  // A record without any ends here, as it did before there were such.
  if (HasNatural(set)) {
    for (const SetMember& member : set.members) EncodeFields(encoder, member.natural, member.blocks);
  }
  record.Finish();
  return Status::Ok();
}

Result<SetRecord> DecodeSetRecord(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kSet));
  Decoder decoder(record.payload);
  SetRecord set;
  DecodeFields(decoder, record.store_id, &set.identity);
  set.scheme = static_cast<Scheme>(decoder.U8());
  set.parity = decoder.Varint32();
  const size_t members = decoder.Count(kMemberBytesMin);
  decoder.Require(members <= kSetMembersMax, "too many members");
  for (size_t i = 0; i < members && decoder.ok(); ++i) {
    DecodeFields(decoder, set.identity.ranks, &set.members.emplace_back());
  }
  const bool has_natural = decoder.ok() && decoder.remaining() > 0;
  for (size_t i = 0; has_natural && i < members && decoder.ok(); ++i) {
    DecodeFields(decoder, set.members[i], &set.members[i].natural);
  }
  decoder.Require(HasNatural(set) == has_natural, "lists of natural blocks, and none in them");
  if (decoder.ok()) {
    if (const char* fault = SetFault(set)) decoder.Fail(fault);
  }
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return set;
}

Status EncodeParityRecord(const ParityRecord& parity, Buffer* out) {
  KEDGE_RETURN_IF_ERROR(Validate(parity));
  RecordEncoder record(RecordKind::kParity, parity.identity.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, parity.identity);
  encoder.Varint(parity.member);
  encoder.U32(parity.set_record_crc32c);
  EncodeFields(encoder, parity.blocks);
  encoder.Varint(parity.tiers.size());
  for (const std::string& tier : parity.tiers) encoder.String(tier);
  encoder.Varint(parity.slots.size());
  for (const ParitySlot& slot : parity.slots) {
    encoder.Varint(slot.tier);
    encoder.Varint(slot.slot);
    encoder.Varint(slot.slot_generation);
    encoder.Varint(slot.offset);
    encoder.Varint(slot.bytes);
  }
  record.Finish();
  return Status::Ok();
}

Result<ParityRecord> DecodeParityRecord(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kParity));
  Decoder decoder(record.payload);
  ParityRecord parity;
  DecodeFields(decoder, record.store_id, &parity.identity);
  parity.member = decoder.Varint32();
  parity.set_record_crc32c = decoder.U32();
  DecodeFields(decoder, &parity.blocks);
  const size_t tiers = decoder.Count(1);
  for (size_t i = 0; i < tiers && decoder.ok(); ++i) parity.tiers.emplace_back(decoder.String(kTierKeyBytesMax));
  const size_t slots = decoder.Count(kParitySlotBytesMin);
  parity.slots.reserve(slots);
  for (size_t i = 0; i < slots && decoder.ok(); ++i) {
    ParitySlot& slot = parity.slots.emplace_back();
    slot.tier = decoder.Varint32();
    slot.slot = decoder.Varint32();
    slot.slot_generation = decoder.Varint();
    slot.offset = decoder.Varint();
    slot.bytes = decoder.Varint();
  }
  if (decoder.ok()) {
    if (const char* fault = ParityFault(parity)) decoder.Fail(fault);
  }
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return parity;
}

}  // namespace kedge

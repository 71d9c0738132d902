#include "agent/peers/peer_messages.h"

#include <algorithm>
#include <functional>

namespace kedge {
namespace {

void Put(Encoder& encoder, const StoreId& id) {
  encoder.U64(id.high);
  encoder.U64(id.low);
}

StoreId GetStoreId(Decoder& decoder) {
  StoreId id;
  id.high = decoder.U64();
  id.low = decoder.U64();
  return id;
}

void Put(Encoder& encoder, const Generation& generation) {
  Put(encoder, generation.store_id);
  EncodeFields(encoder, generation);
}

void Get(Decoder& decoder, Generation* generation) {
  const StoreId id = GetStoreId(decoder);
  DecodeFields(decoder, id, generation);
}

void Put(Encoder& encoder, const SetIdentity& set) {
  Put(encoder, set.generation.store_id);
  EncodeFields(encoder, set);
}

void Get(Decoder& decoder, SetIdentity* set) {
  const StoreId id = GetStoreId(decoder);
  DecodeFields(decoder, id, set);
}

bool GetFlag(Decoder& decoder) {
  const uint8_t byte = decoder.U8();
  decoder.Require(byte <= 1, "a flag is neither 0 nor 1");
  return byte == 1;
}

void Put(Encoder& encoder, const HeldImage& image) {
  Put(encoder, image.generation);
  encoder.Varint(image.rank);
  encoder.Varint(image.ranks);
  encoder.U8(static_cast<uint8_t>(image.scheduled));
  encoder.U8(static_cast<uint8_t>((image.to_node ? 1 : 0) | (image.in_store ? 2 : 0) | (image.at_node ? 4 : 0)));
}

void Get(Decoder& decoder, HeldImage* image) {
  Get(decoder, &image->generation);
  image->rank = decoder.Varint32();
  image->ranks = static_cast<uint32_t>(decoder.VarintAtMost(kRanksMax));
  decoder.Require(image->rank < image->ranks, "a rank beyond the ranks");
  image->scheduled = static_cast<Level>(decoder.U8());
  decoder.Require(image->scheduled <= Level::kStore, "no such level");
  const uint8_t flags = decoder.U8();
  decoder.Require(flags <= 7, "no such flag");
  image->to_node = (flags & 1) != 0;
  image->in_store = (flags & 2) != 0;
  image->at_node = (flags & 4) != 0;
}

void Put(Encoder& encoder, const redundancy::SetSummary& set) {
  Put(encoder, set.identity);
  encoder.U8(static_cast<uint8_t>(set.scheme));
  encoder.Varint(set.parity);
  encoder.U32(set.record_crc32c);
  encoder.Varint(set.members.size());
  for (const auto& member : set.members) {
    encoder.String(member.node);
    encoder.Varint(member.rank.has_value() ? uint64_t{*member.rank} + 1 : 0);
    encoder.Varint(member.bytes);
  }
}

void Get(Decoder& decoder, redundancy::SetSummary* set) {
  Get(decoder, &set->identity);
  set->scheme = static_cast<Scheme>(decoder.U8());
  set->parity = decoder.Varint32();
  set->record_crc32c = decoder.U32();
  set->members.resize(decoder.Count(3));
  for (auto& member : set->members) {
    member.node = decoder.String(kNodeNameBytesMax);
    const uint64_t rank = decoder.VarintAtMost(kRanksMax);
    if (rank > 0) member.rank = static_cast<uint32_t>(rank - 1);
    member.bytes = decoder.Varint();
  }
  decoder.Require(!decoder.ok() || redundancy::Validate(*set).ok(), "not a valid set");
}

void Put(Encoder& encoder, const std::vector<uint32_t>& numbers) {
  encoder.Varint(numbers.size());
  for (const uint32_t number : numbers) encoder.Varint(number);
}

std::vector<uint32_t> GetNumbers(Decoder& decoder) {
  std::vector<uint32_t> numbers(decoder.Count(1));
  for (uint32_t& number : numbers) number = decoder.Varint32();
  return numbers;
}

std::vector<uint32_t> GetAscending(Decoder& decoder) {
  std::vector<uint32_t> numbers = GetNumbers(decoder);
  const bool ascends = std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>()) == numbers.end();
  decoder.Require(ascends, "numbers that do not ascend");
  return numbers;
}

// All of `body` is a message, or none of it.
template <typename Message, typename Read>
Result<Message> Whole(ByteSpan body, const char* what, Read read) {
  Decoder decoder(body);
  Message message;
  read(decoder, message);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(what));
  return message;
}

template <typename Write>
Buffer Written(Write write) {
  Buffer out;
  Encoder encoder(out);
  write(encoder);
  encoder.Finish();
  return out;
}

}  // namespace

Buffer Encode(const ExchangeRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.set);
    e.Varint(m.from);
    e.U8(m.done ? 1 : 0);
    EncodeFields(e, m.mine);
  });
}

Result<ExchangeRequest> DecodeExchangeRequest(ByteSpan body) {
  return Whole<ExchangeRequest>(body, "exchange", [](Decoder& d, ExchangeRequest& m) {
    Get(d, &m.set);
    m.from = d.Varint32();
    m.done = GetFlag(d);
    if (d.ok()) DecodeFields(d, m.set.ranks, &m.mine);
  });
}

Buffer Encode(const ExchangeReply& m) {
  return Written([&](Encoder& e) {
    e.U8(m.done ? 1 : 0);
    e.U8(m.theirs.has_value() ? 1 : 0);
    if (m.theirs.has_value()) EncodeFields(e, *m.theirs);
    e.Varint(m.mark);
  });
}

Result<ExchangeReply> DecodeExchangeReply(ByteSpan body, uint32_t ranks) {
  return Whole<ExchangeReply>(body, "exchange's reply", [&](Decoder& d, ExchangeReply& m) {
    m.done = GetFlag(d);
    if (GetFlag(d)) DecodeFields(d, ranks, &m.theirs.emplace());
    m.mark = d.Varint();
  });
}

Buffer Encode(const GroupsNotice& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.U64(m.layout);
    e.U8(m.from_child ? 1 : 0);
    Put(e, m.done);
    e.String(m.given_up);
  });
}

Result<GroupsNotice> DecodeGroupsNotice(ByteSpan body) {
  return Whole<GroupsNotice>(body, "notice of groups", [](Decoder& d, GroupsNotice& m) {
    Get(d, &m.generation);
    m.layout = d.U64();
    m.from_child = GetFlag(d);
    m.done = GetAscending(d);
    m.given_up = d.String(kReasonBytesMax);
  });
}

Buffer Encode(const GroupsReply& m) {
  return Written([&](Encoder& e) {
    Put(e, m.done);
    e.Varint(m.mark);
  });
}

Result<GroupsReply> DecodeGroupsReply(ByteSpan body) {
  return Whole<GroupsReply>(body, "state of groups", [](Decoder& d, GroupsReply& m) {
    m.done = GetAscending(d);
    m.mark = d.Varint();
  });
}

Buffer Encode(const InventoryRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.store_id);
    e.String(m.job);
    e.String(m.name);
  });
}

Result<InventoryRequest> DecodeInventoryRequest(ByteSpan body) {
  return Whole<InventoryRequest>(body, "inventory request", [](Decoder& d, InventoryRequest& m) {
    m.store_id = GetStoreId(d);
    m.job = d.String(kNameBytesMax);
    m.name = d.String(kNameBytesMax);
  });
}

Buffer Encode(const InventoryReply& m) {
  return Written([&](Encoder& e) {
    e.String(m.node);
    e.Varint(m.guests.size());
    for (const GuestNode& guest : m.guests) {
      e.String(guest.node);
      e.String(guest.address);
    }
    e.U8(m.is_inviting ? 1 : 0);
    e.Varint(m.images.size());
    for (const HeldImage& image : m.images) Put(e, image);
    e.Varint(m.sets.size());
    for (const HeldSetInfo& set : m.sets) {
      Put(e, set.set);
      Put(e, set.objects);
    }
  });
}

Result<InventoryReply> DecodeInventoryReply(ByteSpan body) {
  return Whole<InventoryReply>(body, "inventory", [](Decoder& d, InventoryReply& m) {
    m.node = d.String(kNodeNameBytesMax);
    m.guests.resize(d.Count(2));
    for (GuestNode& guest : m.guests) {
      guest.node = d.String(kNodeNameBytesMax);
      guest.address = d.String(kNameBytesMax);
    }
    m.is_inviting = GetFlag(d);
    m.images.resize(d.Count(20));
    for (HeldImage& image : m.images) {
      if (!d.ok()) break;
      Get(d, &image);
    }
    m.sets.resize(d.Count(20));
    for (HeldSetInfo& set : m.sets) {
      if (!d.ok()) break;
      Get(d, &set.set);
      set.objects = GetNumbers(d);
    }
  });
}

Buffer Encode(const DescribeRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.Varint(m.rank);
  });
}

Result<DescribeRequest> DecodeDescribeRequest(ByteSpan body) {
  return Whole<DescribeRequest>(body, "request for an image's record", [](Decoder& d, DescribeRequest& m) {
    Get(d, &m.generation);
    m.rank = d.Varint32();
  });
}

Buffer Encode(const DescribeReply& m) {
  return Written([&](Encoder& e) {
    e.Varint(m.stream_bytes);
    e.Varint(m.image_record.size());
    e.Raw(m.image_record);
  });
}

Result<DescribeReply> DecodeDescribeReply(ByteSpan body) {
  return Whole<DescribeReply>(body, "an image's record", [&](Decoder& d, DescribeReply& m) {
    m.stream_bytes = d.Varint();
    const ByteSpan record = d.Raw(d.VarintAtMost(body.size()));
    m.image_record.assign(record.begin(), record.end());
  });
}

Buffer Encode(const SetRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.set);
    e.Varint(m.member);
  });
}

Result<SetRequest> DecodeSetRequest(ByteSpan body) {
  return Whole<SetRequest>(body, "request for a set", [](Decoder& d, SetRequest& m) {
    Get(d, &m.set);
    m.member = d.Varint32();
  });
}

Buffer Encode(const ReadRequest& m) {
  return Written([&](Encoder& e) {
    e.U8(m.of_object ? 1 : 0);
    if (m.of_object) {
      Put(e, m.set);
      e.Varint(m.member);
    } else {
      Put(e, m.generation);
      e.Varint(m.rank);
    }
    e.Varint(m.offset);
    e.Varint(m.bytes);
  });
}

Result<ReadRequest> DecodeReadRequest(ByteSpan body) {
  return Whole<ReadRequest>(body, "read request", [](Decoder& d, ReadRequest& m) {
    m.of_object = GetFlag(d);
    if (m.of_object) {
      Get(d, &m.set);
      m.member = d.Varint32();
    } else {
      Get(d, &m.generation);
      m.rank = d.Varint32();
    }
    m.offset = d.Varint();
    m.bytes = static_cast<uint32_t>(d.VarintAtMost(kBlockBytesMax));
  });
}

Buffer Encode(const LeaseReply& m) {
  return Written([&](Encoder& e) {
    e.Varint(m.parts.size());
    for (const LeasedPart& part : m.parts) {
      e.Varint(part.offset);
      net::EncodeRemoteMemory(part.memory, &e);
    }
    e.U8(m.sealed ? 1 : 0);
  });
}

Result<LeaseReply> DecodeLeaseReply(ByteSpan body) {
  return Whole<LeaseReply>(body, "lease", [](Decoder& d, LeaseReply& m) {
    m.parts.resize(d.Count(2));
    for (LeasedPart& part : m.parts) {
      if (!d.ok()) break;
      part.offset = d.Varint();
      part.memory = net::DecodeRemoteMemory(&d);
    }
    m.sealed = GetFlag(d);
  });
}

Buffer Encode(const SealedReply& m) {
  return Written([&](Encoder& e) {
    net::EncodeRemoteMemory(m.memory, &e);
    e.Raw(m.seal.key);
    e.Raw(m.seal.tag);
  });
}

Result<SealedReply> DecodeSealedReply(ByteSpan body) {
  return Whole<SealedReply>(body, "sealed block", [](Decoder& d, SealedReply& m) {
    m.memory = net::DecodeRemoteMemory(&d);
    const ByteSpan key = d.Raw(m.seal.key.size());
    std::copy(key.begin(), key.end(), m.seal.key.begin());
    const ByteSpan tag = d.Raw(m.seal.tag.size());
    std::copy(tag.begin(), tag.end(), m.seal.tag.begin());
  });
}

Buffer Encode(const Invitation& m) {
  return Written([&](Encoder& e) {
    Put(e, m.store_id);
    e.String(m.job);
    e.Raw(EncodeMembership(m.members));
  });
}

Result<Invitation> DecodeInvitation(ByteSpan body) {
  Result<Membership> members = Status(Code::kCorrupt, "an invitation without members");
  auto invitation = Whole<Invitation>(body, "invitation", [&](Decoder& d, Invitation& m) {
    m.store_id = GetStoreId(d);
    m.job = d.String(kNameBytesMax);
    members = DecodeMembership(d.Raw(d.remaining()));
  });
  if (!invitation.ok() || !members.ok()) return invitation.ok() ? members.status() : invitation.status();
  invitation->members = std::move(*members);
  return invitation;
}

Buffer Encode(const TurnRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.U8(m.is_late ? 1 : 0);
  });
}

Result<TurnRequest> DecodeTurnRequest(ByteSpan body) {
  return Whole<TurnRequest>(body, "question for a turn", [](Decoder& d, TurnRequest& m) {
    Get(d, &m.generation);
    m.is_late = GetFlag(d);
  });
}

Buffer Encode(const TurnReply& m) {
  return Written([&](Encoder& e) {
    e.U8(m.decided ? 1 : 0);
    e.U8(m.levels.node ? 1 : 0);
    e.U8(m.levels.store ? 1 : 0);
  });
}

Result<TurnReply> DecodeTurnReply(ByteSpan body) {
  return Whole<TurnReply>(body, "answer on a turn", [](Decoder& d, TurnReply& m) {
    m.decided = GetFlag(d);
    m.levels.node = GetFlag(d);
    m.levels.store = GetFlag(d);
  });
}

Buffer Encode(const LocalPromise& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.String(m.node);
    e.U8(m.held ? 1 : 0);
  });
}

Result<LocalPromise> DecodeLocalPromise(ByteSpan body) {
  return Whole<LocalPromise>(body, "promise of a version", [](Decoder& d, LocalPromise& m) {
    Get(d, &m.generation);
    m.node = d.String(kNodeNameBytesMax);
    m.held = GetFlag(d);
  });
}

Buffer Encode(const LocalReply& m) {
  return Written([&](Encoder& e) {
    e.U8(m.complete ? 1 : 0);
    e.U8(m.needed.has_value() ? 1 : 0);
    if (m.needed.has_value()) Put(e, *m.needed);
    e.Varint(m.missing.size());
    for (const std::string& node : m.missing) e.String(node);
  });
}

Result<LocalReply> DecodeLocalReply(ByteSpan body) {
  return Whole<LocalReply>(body, "answer to a promise", [](Decoder& d, LocalReply& m) {
    m.complete = GetFlag(d);
    if (GetFlag(d)) Get(d, &m.needed.emplace());
    m.missing.resize(d.Count(1));
    for (std::string& node : m.missing) node = d.String(kNodeNameBytesMax);
  });
}

Buffer Encode(const LocalNews& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.U8(m.complete ? 1 : 0);
  });
}

Result<LocalNews> DecodeLocalNews(ByteSpan body) {
  return Whole<LocalNews>(body, "news of a promise", [](Decoder& d, LocalNews& m) {
    Get(d, &m.generation);
    m.complete = GetFlag(d);
  });
}

Buffer Encode(const BlockTable& table) {
  return Written([&](Encoder& e) { EncodeFields(e, table); });
}

Result<BlockTable> DecodeBlockTable(ByteSpan body) {
  return Whole<BlockTable>(body, "block table", [](Decoder& d, BlockTable& table) { DecodeFields(d, &table); });
}

}  // namespace kedge

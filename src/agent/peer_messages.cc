#include "agent/peer_messages.h"

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
  Decoder d(body);
  ExchangeRequest m;
  Get(d, &m.set);
  m.from = d.Varint32();
  m.done = GetFlag(d);
  if (d.ok()) DecodeFields(d, m.set.ranks, &m.mine);
  KEDGE_RETURN_IF_ERROR(d.Finish("exchange"));
  return m;
}

Buffer Encode(const ExchangeReply& m) {
  return Written([&](Encoder& e) {
    e.U8(m.done ? 1 : 0);
    e.U8(m.theirs.has_value() ? 1 : 0);
    if (m.theirs.has_value()) EncodeFields(e, *m.theirs);
  });
}

Result<ExchangeReply> DecodeExchangeReply(ByteSpan body, uint32_t ranks) {
  Decoder d(body);
  ExchangeReply m;
  m.done = GetFlag(d);
  if (GetFlag(d)) DecodeFields(d, ranks, &m.theirs.emplace());
  KEDGE_RETURN_IF_ERROR(d.Finish("exchange's reply"));
  return m;
}

Buffer Encode(const GroupNotice& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.U64(m.layout);
    e.Varint(m.group);
  });
}

Result<GroupNotice> DecodeGroupNotice(ByteSpan body) {
  Decoder d(body);
  GroupNotice m;
  Get(d, &m.generation);
  m.layout = d.U64();
  m.group = d.Varint32();
  KEDGE_RETURN_IF_ERROR(d.Finish("notice of a group"));
  return m;
}

Buffer Encode(const GroupStateReply& m) {
  return Written([&](Encoder& e) { e.U8(m.done ? 1 : 0); });
}

Result<GroupStateReply> DecodeGroupStateReply(ByteSpan body) {
  Decoder d(body);
  GroupStateReply m;
  m.done = GetFlag(d);
  KEDGE_RETURN_IF_ERROR(d.Finish("state of a group"));
  return m;
}

Buffer Encode(const InventoryRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.store_id);
    e.String(m.job);
    e.String(m.name);
  });
}

Result<InventoryRequest> DecodeInventoryRequest(ByteSpan body) {
  Decoder d(body);
  InventoryRequest m;
  m.store_id = GetStoreId(d);
  m.job = d.String(kNameBytesMax);
  m.name = d.String(kNameBytesMax);
  KEDGE_RETURN_IF_ERROR(d.Finish("inventory request"));
  return m;
}

Buffer Encode(const InventoryReply& m) {
  return Written([&](Encoder& e) {
    e.String(m.node);
    e.Varint(m.images.size());
    for (const HeldImage& image : m.images) {
      Put(e, image.generation);
      e.Varint(image.rank);
      e.Varint(image.ranks);
      e.U8(static_cast<uint8_t>(image.scheduled));
      e.U8(static_cast<uint8_t>((image.to_node ? 1 : 0) | (image.in_store ? 2 : 0) | (image.at_node ? 4 : 0)));
    }
    e.Varint(m.sets.size());
    for (const HeldSetInfo& set : m.sets) {
      Put(e, set.set);
      e.Varint(set.objects.size());
      for (const uint32_t member : set.objects) e.Varint(member);
    }
  });
}

Result<InventoryReply> DecodeInventoryReply(ByteSpan body) {
  Decoder d(body);
  InventoryReply m;
  m.node = d.String(kNodeNameBytesMax);
  m.images.resize(d.Count(20));
  for (HeldImage& image : m.images) {
    if (!d.ok()) break;
    Get(d, &image.generation);
    image.rank = d.Varint32();
    image.ranks = static_cast<uint32_t>(d.VarintAtMost(kRanksMax));
    d.Require(image.rank < image.ranks, "a rank beyond the ranks");
    image.scheduled = static_cast<Level>(d.U8());
    d.Require(image.scheduled <= Level::kStore, "no such level");
    const uint8_t flags = d.U8();
    d.Require(flags <= 7, "no such flag");
    image.to_node = (flags & 1) != 0;
    image.in_store = (flags & 2) != 0;
    image.at_node = (flags & 4) != 0;
  }
  m.sets.resize(d.Count(20));
  for (HeldSetInfo& set : m.sets) {
    if (!d.ok()) break;
    Get(d, &set.set);
    set.objects.resize(d.Count(1));
    for (uint32_t& member : set.objects) member = d.Varint32();
  }
  KEDGE_RETURN_IF_ERROR(d.Finish("inventory"));
  return m;
}

Buffer Encode(const DescribeRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.generation);
    e.Varint(m.rank);
  });
}

Result<DescribeRequest> DecodeDescribeRequest(ByteSpan body) {
  Decoder d(body);
  DescribeRequest m;
  Get(d, &m.generation);
  m.rank = d.Varint32();
  KEDGE_RETURN_IF_ERROR(d.Finish("request for an image's record"));
  return m;
}

Buffer Encode(const DescribeReply& m) {
  return Written([&](Encoder& e) {
    e.Varint(m.stream_bytes);
    e.Varint(m.image_record.size());
    e.Raw(m.image_record);
  });
}

Result<DescribeReply> DecodeDescribeReply(ByteSpan body) {
  Decoder d(body);
  DescribeReply m;
  m.stream_bytes = d.Varint();
  const ByteSpan record = d.Raw(d.VarintAtMost(body.size()));
  m.image_record.assign(record.begin(), record.end());
  KEDGE_RETURN_IF_ERROR(d.Finish("an image's record"));
  return m;
}

Buffer Encode(const SetRequest& m) {
  return Written([&](Encoder& e) {
    Put(e, m.set);
    e.Varint(m.member);
  });
}

Result<SetRequest> DecodeSetRequest(ByteSpan body) {
  Decoder d(body);
  SetRequest m;
  Get(d, &m.set);
  m.member = d.Varint32();
  KEDGE_RETURN_IF_ERROR(d.Finish("request for a set"));
  return m;
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
  Decoder d(body);
  ReadRequest m;
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
  KEDGE_RETURN_IF_ERROR(d.Finish("read request"));
  return m;
}

Buffer Encode(const LeaseReply& m) {
  return Written([&](Encoder& e) {
    e.Varint(m.parts.size());
    for (const LeasedPart& part : m.parts) {
      e.Varint(part.offset);
      net::EncodeRemoteMemory(part.memory, &e);
    }
  });
}

Result<LeaseReply> DecodeLeaseReply(ByteSpan body) {
  Decoder d(body);
  LeaseReply m;
  m.parts.resize(d.Count(2));
  for (LeasedPart& part : m.parts) {
    if (!d.ok()) break;
    part.offset = d.Varint();
    part.memory = net::DecodeRemoteMemory(&d);
  }
  KEDGE_RETURN_IF_ERROR(d.Finish("lease"));
  return m;
}

Buffer Encode(const BlockTable& table) {
  return Written([&](Encoder& e) { EncodeFields(e, table); });
}

Result<BlockTable> DecodeBlockTable(ByteSpan body) {
  Decoder d(body);
  BlockTable table;
  DecodeFields(d, &table);
  KEDGE_RETURN_IF_ERROR(d.Finish("block table"));
  return table;
}

}  // namespace kedge

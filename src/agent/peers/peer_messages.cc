// One list of fields for each message, walked by a writer and by a reader, so that the two cannot disagree.
#include "agent/peers/peer_messages.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace kedge {
namespace {

// Of a temporary object, which a store may have made of other stores' handles.
constexpr size_t kHandleBytesMax = 4096;
constexpr uint64_t kShareEndMax = uint64_t{1} << 62;

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(Encoder& encoder) : encoder_(encoder) {}

  void operator()(const bool& value) { encoder_.U8(value ? 1 : 0); }
  void operator()(const uint32_t& value, uint32_t = 0) { encoder_.Varint(value); }
  void operator()(const uint64_t& value) { encoder_.Varint(value); }
  void operator()(const std::string& value, size_t) { encoder_.String(value); }
  void operator()(const StoreId& id) { encoder_.U64(id.high), encoder_.U64(id.low); }
  void operator()(const Generation& generation) { (*this)(generation.store_id), EncodeFields(encoder_, generation); }
  void operator()(const SetIdentity& set) { (*this)(set.generation.store_id), EncodeFields(encoder_, set); }
  void operator()(const SetMember& member, uint32_t) {
    EncodeFields(encoder_, member), EncodeFields(encoder_, member.natural, member.blocks);
  }
  void operator()(const BlockTable& table) { EncodeFields(encoder_, table); }
  void operator()(const net::RemoteMemory& memory) { net::EncodeRemoteMemory(memory, &encoder_); }
  template <typename T>
  void Byte(const T& value) {
    encoder_.U8(static_cast<uint8_t>(value));
  }
  void U32(const uint32_t& value) { encoder_.U32(value); }
  void U64(const uint64_t& value) { encoder_.U64(value); }
  void Flags(std::initializer_list<const bool*> flags) {
    uint32_t byte = 0, bit = 1;
    for (const bool* flag : flags) byte |= *flag ? bit : 0, bit <<= 1;
    encoder_.U8(static_cast<uint8_t>(byte));
  }
  void Fixed(ByteSpan bytes) { encoder_.Raw(bytes); }
  void Bytes(const Buffer& bytes) { encoder_.Varint(bytes.size()), encoder_.Raw(bytes); }
  template <typename T, typename Each>
  void Optional(const std::optional<T>& value, Each each) {
    (*this)(value.has_value());
    if (value.has_value()) each(*value);
  }
  template <typename T, typename Each>
  void List(const std::vector<T>& values, size_t, Each each) {
    encoder_.Varint(values.size());
    for (const T& value : values) each(value);
  }
  template <typename Condition>
  void Check(Condition, const char*) {}

 private:
  Encoder& encoder_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(Decoder& decoder) : decoder_(decoder) {}

  void operator()(bool& value) {
    const uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= 1, "a flag is neither 0 nor 1");
    value = byte == 1;
  }
  void operator()(uint32_t& value, uint32_t max = UINT32_MAX) { value = static_cast<uint32_t>(decoder_.VarintAtMost(max)); }
  void operator()(uint64_t& value) { value = decoder_.Varint(); }
  void operator()(std::string& value, size_t bytes_max) { value = decoder_.String(bytes_max); }
  void operator()(StoreId& id) { id.high = decoder_.U64(), id.low = decoder_.U64(); }
  void operator()(Generation& generation) { DecodeFields(decoder_, TakeStoreId(), &generation); }
  void operator()(SetIdentity& set) { DecodeFields(decoder_, TakeStoreId(), &set); }
  void operator()(SetMember& member, uint32_t ranks) {
    if (decoder_.ok()) DecodeFields(decoder_, ranks, &member);
    if (decoder_.ok()) DecodeFields(decoder_, member, &member.natural);
  }
  void operator()(BlockTable& table) { DecodeFields(decoder_, &table); }
  void operator()(net::RemoteMemory& memory) { memory = net::DecodeRemoteMemory(&decoder_); }
  template <typename T>
  void Byte(T& value) {
    value = static_cast<T>(decoder_.U8());
  }
  void U32(uint32_t& value) { value = decoder_.U32(); }
  void U64(uint64_t& value) { value = decoder_.U64(); }
  void Flags(std::initializer_list<bool*> flags) {
    uint32_t byte = decoder_.U8();
    decoder_.Require(byte >> flags.size() == 0, "no such flag");
    for (bool* flag : flags) *flag = (byte & 1) != 0, byte >>= 1;
  }
  void Fixed(std::span<std::byte> bytes) {
    const ByteSpan read = decoder_.Raw(bytes.size());
    std::copy(read.begin(), read.end(), bytes.begin());
  }
  void Bytes(Buffer& bytes) {
    const ByteSpan read = decoder_.Raw(decoder_.VarintAtMost(decoder_.offset() + decoder_.remaining()));
    bytes.assign(read.begin(), read.end());
  }
  template <typename T, typename Each>
  void Optional(std::optional<T>& value, Each each) {
    bool is_there = false;
    (*this)(is_there);
    if (is_there) each(value.emplace());
  }
  template <typename T, typename Each>
  void List(std::vector<T>& values, size_t element_bytes_min, Each each) {
    values.resize(decoder_.Count(element_bytes_min));
    for (size_t i = 0; i < values.size() && decoder_.ok(); ++i) each(values[i]);
  }
  template <typename Condition>
  void Check(Condition condition, const char* why) {
    decoder_.Require(!decoder_.ok() || condition(), why);
  }

 private:
  StoreId TakeStoreId() {
    StoreId id;
    (*this)(id);
    return id;
  }

  Decoder& decoder_;
};

// ---- The fields of each type. `Walk` is Writer with a const object or Reader with a mutable one. ----

#define KEDGE_FIELDS(Type) \
  template <typename Walk> \
  void Fields(Walk& walk, std::conditional_t<Walk::kReads, Type, const Type>& m)

KEDGE_FIELDS(std::vector<uint32_t>) {
  walk.List(m, 1, walk);
}
template <typename Walk, typename Numbers>
void Ascending(Walk& walk, Numbers& m) {
  Fields(walk, m);
  const auto ascends = [&] { return std::adjacent_find(m.begin(), m.end(), std::greater_equal<>()) == m.end(); };
  walk.Check(ascends, "numbers that do not ascend");
}
KEDGE_FIELDS(ExchangeRequest) {
  walk(m.set), walk(m.from), walk(m.done), walk(m.mine, m.set.ranks);
}
KEDGE_FIELDS(GroupsNotice) {
  walk(m.generation), walk.U64(m.layout), walk(m.from_child), Ascending(walk, m.done), walk(m.given_up, kReasonBytesMax);
}
KEDGE_FIELDS(GroupsReply) {
  Ascending(walk, m.done), walk(m.mark);
}
KEDGE_FIELDS(InventoryRequest) {
  walk(m.store_id), walk(m.job, kNameBytesMax), walk(m.name, kNameBytesMax);
}
KEDGE_FIELDS(HeldImage) {
  walk(m.generation), walk(m.rank), walk(m.ranks, kRanksMax);
  walk.Check([&] { return m.rank < m.ranks; }, "a rank beyond the ranks");
  walk.Byte(m.scheduled);
  walk.Check([&] { return m.scheduled <= Level::kStore; }, "no such level");
  walk.Flags({&m.to_node, &m.in_store, &m.at_node});
}
KEDGE_FIELDS(redundancy::SetSummary) {
  walk(m.identity), walk.Byte(m.scheme), walk(m.parity), walk(m.block_bytes), walk.U32(m.record_crc32c);
  walk.List(m.members, 4, [&](auto& member) {
    uint32_t rank = member.rank.has_value() ? *member.rank + 1 : 0;
    walk(member.node, kNodeNameBytesMax), walk(rank, kRanksMax), walk(member.bytes), walk(member.natural_bytes);
    if constexpr (Walk::kReads) {
      if (rank > 0) member.rank = rank - 1;
    }
  });
  walk.Check([&] { return redundancy::Validate(m).ok(); }, "not a valid set");
}
KEDGE_FIELDS(InventoryReply) {
  walk(m.node, kNodeNameBytesMax);
  walk.List(m.guests, 2, [&](auto& guest) { walk(guest.node, kNodeNameBytesMax), walk(guest.address, kNameBytesMax); });
  walk(m.is_inviting);
  walk.List(m.images, 20, [&](auto& image) { Fields(walk, image); });
  walk.List(m.sets, 20, [&](auto& set) { Fields(walk, set.set), Fields(walk, set.objects); });
}
KEDGE_FIELDS(DescribeRequest) {
  walk(m.generation), walk(m.rank);
}
KEDGE_FIELDS(DescribeReply) {
  walk(m.stream_bytes), walk.Bytes(m.image_record);
}
KEDGE_FIELDS(SetRequest) {
  walk(m.set), walk(m.member);
}
KEDGE_FIELDS(ReadRequest) {
  walk(m.of_object);
  if (m.of_object) {
    walk(m.set), walk(m.member);
  } else {
    walk(m.generation), walk(m.rank);
  }
  walk(m.offset), walk(m.bytes, kBlockBytesMax);
}
KEDGE_FIELDS(LeaseReply) {
  walk.List(m.parts, 2, [&](auto& part) { walk(part.offset), walk(part.memory); });
  walk(m.sealed);
}
KEDGE_FIELDS(SealedReply) {
  walk(m.memory), walk.Fixed(m.seal.key), walk.Fixed(m.seal.tag);
}
KEDGE_FIELDS(TurnRequest) {
  walk(m.generation), walk(m.is_late);
}
KEDGE_FIELDS(TurnReply) {
  walk(m.decided), walk(m.levels.node), walk(m.levels.store);
}
KEDGE_FIELDS(LocalPromise) {
  walk(m.generation), walk(m.node, kNodeNameBytesMax), walk(m.held);
}
KEDGE_FIELDS(LocalReply) {
  walk(m.complete);
  walk.Optional(m.needed, walk);
  walk.List(m.missing, 1, [&](auto& node) { walk(node, kNodeNameBytesMax); });
}
KEDGE_FIELDS(aggregation::Summary) {
  walk(m.bytes);
  walk.List(m.district_bytes, 1, walk);
  walk.List(m.candidates, 3, [&](auto& candidate) {
    uint32_t load = candidate.load;
    walk(candidate.node), walk(candidate.bytes), walk(load, UINT8_MAX);
    if constexpr (Walk::kReads) candidate.load = static_cast<uint8_t>(load);
  });
}
KEDGE_FIELDS(reduce::PopularBlocks) {
  std::vector<reduce::PopularBlock> blocks = m.blocks();
  std::vector<reduce::PopularBlocks::Load> loads = m.loads();
  walk.List(blocks, sizeof(Fingerprint) + 3, [&](auto& block) {
    uint32_t second = block.second_owner + 1;  // kNobody: 0
    walk.Fixed(block.fingerprint), walk(block.count), walk(block.owner), walk(second);
    if constexpr (Walk::kReads) block.second_owner = second - 1;
  });
  walk.List(loads, 2, [&](auto& load) { walk(load.member), walk(load.blocks); });
  if constexpr (Walk::kReads) {
    auto made = reduce::PopularBlocks::Make(std::move(blocks), std::move(loads));
    walk.Check([&] { return made.ok(); }, "popular blocks of no members");
    if (made.ok()) m = *std::move(made);
  }
}
KEDGE_FIELDS(ScanRequest) {
  walk(m.generation), walk(m.leaders), walk(m.stripe_bytes), walk(m.block_bytes), Fields(walk, m.summary);
  Fields(walk, m.popular);
}
KEDGE_FIELDS(ScanReply) {
  Fields(walk, m.root), Fields(walk, m.popular), walk(m.before);
}
KEDGE_FIELDS(CarryRequest) {
  walk(m.generation), walk(m.ranks, kRanksMax), walk(m.is_withdrawn), walk(m.is_leaving), walk(m.held, kRanksMax);
  walk(m.accounted_bytes), walk(m.rate), walk(m.is_shared), walk(m.written_bytes), walk(m.is_syncing);
  walk.List(m.images, 14, [&](auto& image) {
    walk(image.rank, kRanksMax), walk(image.record_bytes), walk.U32(image.record_crc32c), walk(image.image_bytes);
    walk(image.object, kObjectKeyBytesMax), walk(image.record_offset), walk(image.map_bytes), walk.U32(image.map_crc32c);
  });
  const auto rank = [](const auto& image) { return image.rank; };
  walk.Check([&] { return std::ranges::adjacent_find(m.images, std::greater_equal<>(), rank) == m.images.end(); },
             "ranks that do not ascend");
  walk.Check([&] { return m.images.empty() || m.images.back().rank < m.ranks; }, "a rank beyond the ranks");
}
KEDGE_FIELDS(CarryReply) {
  walk.List(m.images, 2, [&](auto& image) { walk.Byte(image.state), walk(image.why, kReasonBytesMax); });
  const auto is_known = [](const auto& image) { return image.state <= CarryState::kWaiting; };
  walk.Check([&] { return std::ranges::all_of(m.images, is_known); }, "no such state");
  walk(m.is_complete), walk(m.mark);
}
KEDGE_FIELDS(ShareRequest) {
  walk(m.generation), walk(m.bytes);
}
KEDGE_FIELDS(ShareReply) {
  walk(m.object, kObjectKeyBytesMax), walk(m.handle, kHandleBytesMax), walk(m.begin), walk(m.bytes);
  walk.Check([&] { return m.bytes <= kShareEndMax && m.begin <= kShareEndMax - m.bytes; }, "a share beyond any object");
}
KEDGE_FIELDS(PauseNotice) {
  walk(m.store_id), walk(m.job, kNameBytesMax), walk(m.milliseconds);
}
KEDGE_FIELDS(LocalNews) {
  walk(m.generation), walk(m.complete);
}
KEDGE_FIELDS(CompletedNotice) {
  walk(m.generation);
}
KEDGE_FIELDS(BlockTable) {
  walk(m);
}

#undef KEDGE_FIELDS

// What an exchange's reply does not say itself: of how many ranks the generation is.
template <typename Walk, typename Reply>
void Fields(Walk& walk, Reply& m, uint32_t ranks) {
  walk(m.done);
  walk.Optional(m.theirs, [&](auto& member) { walk(member, ranks); });
  walk(m.mark);
}

template <typename Message, typename... Ranks>
Buffer Written(const Message& message, Ranks... ranks) {
  Buffer out;
  Encoder encoder(out);
  Writer walk(encoder);
  Fields(walk, message, ranks...);
  encoder.Finish();
  return out;
}

// All of `body` is a message, or none of it.
template <typename Message, typename... Ranks>
Result<Message> Whole(ByteSpan body, const char* what, Ranks... ranks) {
  Decoder decoder(body);
  Reader walk(decoder);
  Message message;
  Fields(walk, message, ranks...);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(what));
  return message;
}

}  // namespace

#define KEDGE_MESSAGE(Type, what)            \
  Buffer Encode(const Type& message) {       \
    return Written(message);                 \
  }                                          \
  Result<Type> Decode##Type(ByteSpan body) { \
    return Whole<Type>(body, what);          \
  }

KEDGE_MESSAGE(ExchangeRequest, "exchange")
KEDGE_MESSAGE(GroupsNotice, "notice of groups")
KEDGE_MESSAGE(GroupsReply, "state of groups")
KEDGE_MESSAGE(InventoryRequest, "inventory request")
KEDGE_MESSAGE(InventoryReply, "inventory")
KEDGE_MESSAGE(DescribeRequest, "request for an image's record")
KEDGE_MESSAGE(DescribeReply, "an image's record")
KEDGE_MESSAGE(SetRequest, "request for a set")
KEDGE_MESSAGE(ReadRequest, "read request")
KEDGE_MESSAGE(LeaseReply, "lease")
KEDGE_MESSAGE(SealedReply, "sealed block")
KEDGE_MESSAGE(TurnRequest, "question for a turn")
KEDGE_MESSAGE(TurnReply, "answer on a turn")
KEDGE_MESSAGE(ScanRequest, "scan of a version")
KEDGE_MESSAGE(ScanReply, "answer to a scan")
KEDGE_MESSAGE(CarryRequest, "request to carry images")
KEDGE_MESSAGE(CarryReply, "answer on carried images")
KEDGE_MESSAGE(ShareRequest, "request for a share of an object")
KEDGE_MESSAGE(ShareReply, "share of an object")
KEDGE_MESSAGE(PauseNotice, "word of a pause")
KEDGE_MESSAGE(LocalPromise, "promise of a version")
KEDGE_MESSAGE(LocalReply, "answer to a promise")
KEDGE_MESSAGE(LocalNews, "news of a promise")
KEDGE_MESSAGE(CompletedNotice, "notice of completion")
KEDGE_MESSAGE(BlockTable, "block table")

#undef KEDGE_MESSAGE

Buffer Encode(const ExchangeReply& message) {
  return Written(message, kRanksMax);
}

Result<ExchangeReply> DecodeExchangeReply(ByteSpan body, uint32_t ranks) {
  return Whole<ExchangeReply>(body, "exchange's reply", ranks);
}

Buffer Encode(const EnlistRequest& message) {
  Buffer out;
  Encoder encoder(out);
  Writer walk(encoder);
  walk.Bytes(EncodeHello(message.hello)), walk.Bytes(EncodeMembership(message.members));
  encoder.Finish();
  return out;
}

Result<EnlistRequest> DecodeEnlistRequest(ByteSpan body) {
  Decoder decoder(body);
  Reader walk(decoder);
  Buffer hello, members;
  walk.Bytes(hello), walk.Bytes(members);
  KEDGE_RETURN_IF_ERROR(decoder.Finish("request to enlist"));
  EnlistRequest request;
  KEDGE_ASSIGN_OR_RETURN(request.hello, DecodeHello(hello));
  KEDGE_ASSIGN_OR_RETURN(request.members, DecodeMembership(members));
  return request;
}

Buffer Encode(const Invitation& message) {
  Buffer out;
  Encoder encoder(out);
  Writer walk(encoder);
  walk(message.store_id), walk(message.job, kNameBytesMax), walk.Fixed(EncodeMembership(message.members));
  encoder.Finish();
  return out;
}

Result<Invitation> DecodeInvitation(ByteSpan body) {
  Decoder decoder(body);
  Reader walk(decoder);
  Invitation invitation;
  walk(invitation.store_id), walk(invitation.job, kNameBytesMax);
  const ByteSpan members = decoder.Raw(decoder.remaining());
  KEDGE_RETURN_IF_ERROR(decoder.Finish("invitation"));
  KEDGE_ASSIGN_OR_RETURN(invitation.members, DecodeMembership(members));
  return invitation;
}

}  // namespace kedge

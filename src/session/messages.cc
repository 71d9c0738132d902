// One list of fields for each message, walked by a writer and by a reader, so that the two cannot disagree.
#include "session/messages.h"

#include <fmt/format.h>

#include <bit>
#include <type_traits>

#include "format/block_map.h"

namespace kedge {
namespace {

constexpr size_t kTextBytesMax = 64 << 10;
constexpr size_t kJsonBytesMax = 8 << 20;

class FieldWriter {
 public:
  static constexpr bool kReads = false;
  explicit FieldWriter(Buffer& out) : encoder_(out) {}
  Encoder& encoder() { return encoder_; }

  void operator()(const bool& value) { encoder_.U8(value ? 1 : 0); }
  void operator()(const uint8_t& value) { encoder_.U8(value); }
  void operator()(const uint32_t& value) { encoder_.Varint(value); }
  void operator()(const int32_t& value) { encoder_.SignedVarint(value); }
  void operator()(const uint64_t& value) { encoder_.Varint(value); }
  void operator()(const int64_t& value) { encoder_.SignedVarint(value); }
  void operator()(const std::string& value) { encoder_.String(value); }
  void operator()(const Duration& value) { encoder_.SignedVarint(value.count()); }
  void operator()(const StoreId& value) {
    encoder_.U64(value.high);
    encoder_.U64(value.low);
  }
  void operator()(const Status& value) {
    encoder_.SignedVarint(static_cast<int>(value.code()));
    encoder_.SignedVarint(value.errno_value());
    encoder_.String(value.message());
  }
  template <typename T>
  requires std::is_enum_v<T>
  void operator()(const T& value) { encoder_.U8(static_cast<uint8_t>(value)); }
  template <typename T>
  void List(const std::vector<T>& values, size_t element_bytes_min);
  void Json(const std::string& value) { encoder_.String(value); }

 private:
  Encoder encoder_;
};

class FieldReader {
 public:
  static constexpr bool kReads = true;
  explicit FieldReader(ByteSpan bytes) : decoder_(bytes) {}
  Decoder& decoder() { return decoder_; }

  void operator()(bool& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= 1, "a flag is neither 0 nor 1");
    value = byte == 1;
  }
  void operator()(uint8_t& value) { value = decoder_.U8(); }
  void operator()(uint32_t& value) { value = decoder_.Varint32(); }
  void operator()(int32_t& value) {
    int64_t wide = decoder_.SignedVarint();
    decoder_.Require(wide >= INT32_MIN && wide <= INT32_MAX, "a number is out of range");
    value = static_cast<int32_t>(wide);
  }
  void operator()(uint64_t& value) { value = decoder_.Varint(); }
  void operator()(int64_t& value) { value = decoder_.SignedVarint(); }
  void operator()(std::string& value) { value = decoder_.String(kTextBytesMax); }
  void operator()(Duration& value) { value = Duration(decoder_.SignedVarint()); }
  void operator()(StoreId& value) {
    value.high = decoder_.U64();
    value.low = decoder_.U64();
  }
  void operator()(Status& value);
  void operator()(Level& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= static_cast<uint8_t>(Level::kStore) || byte == static_cast<uint8_t>(Level::kLast), "no such level");
    value = static_cast<Level>(byte);
  }
  void operator()(TierKind& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte == 1 || byte == 2, "no such kind of tier");
    value = static_cast<TierKind>(byte);
  }
  void operator()(ProtectScheme& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= static_cast<uint8_t>(ProtectScheme::kReedSolomon), "no such scheme");
    value = static_cast<ProtectScheme>(byte);
  }
  void operator()(Feature& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= static_cast<uint8_t>(Feature::kAuto), "neither off, on nor auto");
    value = static_cast<Feature>(byte);
  }
  void operator()(Deduplication& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= static_cast<uint8_t>(Deduplication::kJob), "no such deduplication");
    value = static_cast<Deduplication>(byte);
  }
  void operator()(StoreLayout& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= static_cast<uint8_t>(StoreLayout::kPosix), "no such layout of the store");
    value = static_cast<StoreLayout>(byte);
  }
  void operator()(HaltWhen& value) {
    uint8_t byte = decoder_.U8();
    decoder_.Require(byte <= static_cast<uint8_t>(HaltWhen::kNever), "no such time to halt");
    value = static_cast<HaltWhen>(byte);
  }
  template <typename T>
  void List(std::vector<T>& values, size_t element_bytes_min);
  void Json(std::string& value) { value = decoder_.String(kJsonBytesMax); }

 private:
  Decoder decoder_;
};

void FieldReader::operator()(Status& value) {
  int64_t code = decoder_.SignedVarint();
  int64_t errno_value = decoder_.SignedVarint();
  std::string text(decoder_.String(kTextBytesMax));
  decoder_.Require(code >= 0 && code <= static_cast<int>(kCodeLast), "no such status code");
  decoder_.Require(errno_value >= 0 && errno_value <= 4095, "no such errno");
  if (!decoder_.ok() || code == 0) return;
  value = Status(static_cast<Code>(code), std::move(text), static_cast<int>(errno_value));
}

// ---- The fields of each type. `Walk` is FieldWriter with a const object or FieldReader with a mutable one. ----

#define KEDGE_FIELDS(Type) \
  template <typename Walk> \
  void Fields(Walk& walk, std::conditional_t<Walk::kReads, Type, const Type>& m)

KEDGE_FIELDS(uint32_t) {
  walk(m);
}
KEDGE_FIELDS(Generation) {
  walk(m.store_id), walk(m.job), walk(m.name), walk(m.version), walk(m.attempt), walk(m.take);
  if constexpr (Walk::kReads) {
    if (walk.decoder().ok() && !Validate(m).ok()) walk.decoder().Fail("not a valid generation");
  }
}
KEDGE_FIELDS(SlotRange) {
  walk(m.tier), walk(m.slot), walk(m.slot_generation), walk(m.offset), walk(m.bytes);
}
using TextPair = std::pair<std::string, std::string>;
KEDGE_FIELDS(TextPair) {
  walk(m.first), walk(m.second);
}
KEDGE_FIELDS(HeldSlot) {
  walk(m.tier), walk(m.slot), walk(m.slot_generation), walk(m.is_full_chunk);
}
KEDGE_FIELDS(JobKeys) {
  walk(m.store_path), walk(m.store_mode), walk(m.store_direct), walk(m.store_layout), walk(m.store_leaders),
      walk(m.store_stripe_bytes), walk(m.store_targets), walk(m.staging_folder), walk(m.staging_alpha_percent), walk(m.scratch),
      walk(m.keep_versions);
  walk(m.keep_local), walk(m.schedule_store), walk(m.schedule_store_interval), walk(m.schedule_interval);
  walk(m.schedule_adapt), walk(m.schedule_adapt_levels), walk(m.schedule_mtbf_local), walk(m.schedule_mtbf_node),
      walk(m.schedule_mtbf_store);
  walk(m.skip_queued), walk(m.files_publish), walk(m.reduce_incremental), walk(m.reduce_deduplicate), walk(m.reduce_verify),
      walk(m.reduce_compress), walk(m.reduce_block_bytes), walk(m.reduce_common_most);
  walk(m.schedule_node), walk(m.schedule_node_interval), walk(m.protect_scheme), walk(m.protect_group);
  walk(m.protect_losses), walk(m.protect_copies), walk(m.protect_timeout), walk(m.protect_required);
  if constexpr (Walk::kReads) {
    walk.decoder().Require(std::has_single_bit(m.reduce_block_bytes) && m.reduce_block_bytes >= kMapBlockBytesMin &&
                               m.reduce_block_bytes <= kMapBlockBytesMax,
                           "no size of blocks");
    walk.decoder().Require(m.reduce_common_most >= 1 && m.reduce_common_most <= kCommonBlocksMost, "no number of blocks");
  }
}
KEDGE_FIELDS(Hello) {
  walk(m.protocol), walk(m.build);
  // A Hello of another protocol is read no further: its sender is told both numbers.
  if constexpr (Walk::kReads) {
    if (m.protocol != kProtocolVersion) return void(walk.decoder().Raw(walk.decoder().remaining()));
  }
  walk(m.job), walk(m.store_id), walk(m.attempt), walk(m.unrecorded), walk(m.rank), walk(m.ranks), walk(m.ranks_on_node);
  Fields(walk, m.keys);
  walk.List(m.node_keys, 2);
  walk(m.session_id);
  walk.List(m.held_slots, 4);
  walk(m.last_image_serial);
}
KEDGE_FIELDS(KnownJobsRequest) {
  walk(m.protocol), walk(m.build);
  if constexpr (Walk::kReads) {
    if (m.protocol != kProtocolVersion) return void(walk.decoder().Raw(walk.decoder().remaining()));
  }
  walk(m.job), walk(m.store_path);
}
KEDGE_FIELDS(RestoredRecord) {
  Fields(walk, m.origin);
  walk(m.attempt), walk(m.take), walk(m.wall_time_ns);
  walk(m.beside.first), walk(m.beside.end);
}
KEDGE_FIELDS(KnownJob) {
  walk(m.store_id), walk(m.attempt), walk(m.live_ranks), walk(m.knows_versions), walk(m.unrecorded);
  walk.List(m.restored, 24);
}
KEDGE_FIELDS(KnownJobsReply) {
  walk.List(m.jobs, 20);
}
KEDGE_FIELDS(TierInfo) {
  walk(m.name), walk(m.key), walk(m.kind), walk(m.path), walk(m.slot_bytes), walk(m.slots);
}
KEDGE_FIELDS(Welcome) {
  walk(m.session_id), walk(m.build), walk(m.attached_again), walk(m.node), walk(m.chunk_bytes), walk(m.piece_bytes);
  walk(m.capacity_bytes), walk(m.speaks_for_node), walk(m.no_tiers);
  walk(m.failure_domain), walk(m.address);
  walk.List(m.tiers, 6);
}
KEDGE_FIELDS(JobNode) {
  walk(m.name), walk(m.failure_domain), walk(m.address);
  walk.List(m.ranks, 1);
}
KEDGE_FIELDS(Membership) {
  walk(m.attempt), walk(m.ranks), walk(m.secret);
  walk.List(m.nodes, 4);
}
KEDGE_FIELDS(MembersRequest) {
  Fields(walk, m.members);
}
KEDGE_FIELDS(std::string) {
  walk(m);
}
KEDGE_FIELDS(LostVersion) {
  Fields(walk, m.generation);
  walk(m.was_safe), walk(m.why);
}
KEDGE_FIELDS(RebuildRequest) {
  walk(m.store_id), walk(m.job), walk(m.to_store);
  walk.List(m.wanted, 13);
  walk.List(m.left_out, 1);
}
KEDGE_FIELDS(RankRun) {
  walk(m.first), walk(m.stride), walk(m.count);
  if constexpr (Walk::kReads) walk.decoder().Require(m.stride >= 1, "a run of ranks without a stride");
}
KEDGE_FIELDS(SurvivingVersion) {
  Fields(walk, m.generation);
  walk(m.ranks);
  walk.List(m.given, 3);
  walk.List(m.at_hand, 3);
  walk(m.was_safe), walk(m.why_lost);
}
KEDGE_FIELDS(RebuildReply) {
  walk.List(m.versions, 18);
  walk.List(m.restored, 24);
  walk(m.images_brought), walk(m.images_owed);
  walk.List(m.silent_nodes, 1);
  walk(m.failure);
}
KEDGE_FIELDS(MeasureRequest) {
  walk(m.job), walk(m.all_nodes), walk(m.timeout);
}
KEDGE_FIELDS(MeasuredNode) {
  walk(m.node), walk(m.address), walk(m.is_reached), walk(m.round_trip_ns), walk(m.read_bytes_per_second), walk(m.failure);
}
KEDGE_FIELDS(MeasureReply) {
  walk(m.node), walk(m.job), walk(m.attempt), walk(m.provider);
  walk.List(m.nodes, 8);
}
KEDGE_FIELDS(RestoredRequest) {
  Fields(walk, m.record);
  walk(m.noted);
}
KEDGE_FIELDS(ToolHello) {
  walk(m.protocol), walk(m.build);
  if constexpr (Walk::kReads) walk.decoder().Raw(walk.decoder().remaining());
}
KEDGE_FIELDS(ToolWelcome) {
  walk(m.build), walk(m.node), walk(m.agent_pid);
}
KEDGE_FIELDS(WaitRequest) {
  Fields(walk, m.generation);
  walk(m.level), walk(m.timeout);
}
KEDGE_FIELDS(LevelReply) {
  walk(m.level), walk(m.scheduled), walk(m.failure);
  walk.List(m.missing_ranks, 1);
}
KEDGE_FIELDS(TestRequest) {
  Fields(walk, m.generation);
}
KEDGE_FIELDS(LocalVersionsRequest) {
  walk(m.store_id), walk(m.job), walk(m.name), walk(m.everywhere);
}
KEDGE_FIELDS(LocalVersion) {
  Fields(walk, m.generation);
  walk(m.rank), walk(m.ranks), walk(m.level);
}
KEDGE_FIELDS(LocalVersionsReply) {
  walk.List(m.versions, 16);
  walk.List(m.lost, 15);
  walk.List(m.silent_nodes, 1);
}
KEDGE_FIELDS(OpenImageRequest) {
  Fields(walk, m.generation);
  walk(m.rank), walk(m.replace);
}
KEDGE_FIELDS(OpenImageReply) {
  walk(m.image);
  Fields(walk, m.record);
  walk.List(m.chunks, 5);
  walk(m.was_brought);
}
KEDGE_FIELDS(OpenWindowRequest) {
  Fields(walk, m.generation);
  walk(m.rank), walk(m.replace);
}
KEDGE_FIELDS(OpenWindowReply) {
  walk(m.image), walk(m.record_offset), walk(m.record_bytes), walk(m.window_bytes);
}
KEDGE_FIELDS(ShowRequest) {
  walk(m.image), walk(m.offset);
}
KEDGE_FIELDS(ShowReply) {
  walk(m.begin), walk(m.bytes);
}
KEDGE_FIELDS(LineRun) {
  walk(m.first), walk(m.lines);
}
KEDGE_FIELDS(WantedObject) {
  walk(m.key);
  walk.List(m.lines, 2);
}
KEDGE_FIELDS(ShareObjectsRequest) {
  walk.List(m.objects, 2);
}
KEDGE_FIELDS(ShareObjectsReply) {
  walk(m.image);
}
KEDGE_FIELDS(SharedLineName) {
  walk(m.object), walk(m.line);
}
KEDGE_FIELDS(ReadLineRequest) {
  walk(m.image);
  walk.List(m.done, 2);
  walk.List(m.wanted, 2);
}
KEDGE_FIELDS(ReadLineReply) {
  walk(m.is_here), walk(m.is_alone), walk(m.place), walk(m.sequence), walk(m.bytes);
}
KEDGE_FIELDS(CloseImageRequest) {
  walk(m.image);
}
KEDGE_FIELDS(CleanupRequest) {
  walk(m.store_id), walk(m.job), walk(m.name), walk(m.rank);
}
KEDGE_FIELDS(CleanupReply) {
  walk(m.images), walk(m.bytes);
}
KEDGE_FIELDS(PendingRequest) {
  walk(m.store_id), walk(m.job), walk(m.attempt), walk(m.rank);
}
KEDGE_FIELDS(PendingReply) {
  walk(m.images), walk(m.bytes);
}
KEDGE_FIELDS(RetainRequest) {
  walk(m.store_id), walk(m.job), walk(m.name);
}
KEDGE_FIELDS(StatusReply) {
  walk.Json(m.json);
}
KEDGE_FIELDS(DrainRequest) {
  walk(m.store_id), walk(m.job), walk(m.level), walk(m.timeout);
}
KEDGE_FIELDS(DrainReply) {
  walk(m.finished), walk(m.images_pending), walk(m.bytes_pending), walk(m.images_failed), walk(m.failure);
}
KEDGE_FIELDS(ShutdownRequest) {
  walk(m.when_drained);
}
KEDGE_FIELDS(HaltRequest) {
  walk(m.job), walk(m.when);
}
KEDGE_FIELDS(HaltedJob) {
  walk(m.job), walk(m.attempt), walk(m.has_rank_0);
}
KEDGE_FIELDS(HaltReply) {
  walk.List(m.jobs, 3);
}
KEDGE_FIELDS(ErrorReply) {
  walk(m.status);
}
template <typename Walk>
void Fields(Walk&, const StatusRequest&) {}
template <typename Walk>
void Fields(Walk&, const GoodbyeRequest&) {}
template <typename Walk>
void Fields(Walk&, const DoneReply&) {}
template <typename Walk>
void Fields(Walk&, const PatienceReply&) {}

#undef KEDGE_FIELDS

template <typename T>
void FieldWriter::List(const std::vector<T>& values, size_t) {
  encoder_.Varint(values.size());
  for (const T& value : values) Fields(*this, value);
}

template <typename T>
void FieldReader::List(std::vector<T>& values, size_t element_bytes_min) {
  values.resize(decoder_.Count(element_bytes_min));
  for (T& value : values) {
    if (!decoder_.ok()) return values.clear();
    Fields(*this, value);
  }
}

template <size_t kIndex = 0>
bool DecodeKind(size_t kind, FieldReader& reader, Message* out) {
  if constexpr (kIndex == std::variant_size_v<Message>) {
    return false;
  } else {
    if (kind != kIndex) return DecodeKind<kIndex + 1>(kind, reader, out);
    Fields(reader, out->emplace<kIndex>());
    return true;
  }
}

}  // namespace

const char* LevelName(Level level) {
  switch (level) {
    case Level::kNone: return "none";
    case Level::kLocal: return "local";
    case Level::kNode: return "node";
    case Level::kBuffer: return "buffer";
    case Level::kStore: return "store";
    case Level::kLast: return "last";
  }
  return "unknown";
}

const char* ProtectSchemeName(ProtectScheme scheme) {
  switch (scheme) {
    case ProtectScheme::kNone: return "none";
    case ProtectScheme::kPartner: return "partner";
    case ProtectScheme::kXor: return "xor";
    case ProtectScheme::kReedSolomon: return "rs";
  }
  return "unknown";
}

Buffer EncodeMessage(uint64_t number, const Message& message) {
  Buffer out;
  FieldWriter writer(out);
  writer.encoder().U8(static_cast<uint8_t>(message.index()));
  writer.encoder().U64(number);
  std::visit([&](const auto& fields) { Fields(writer, fields); }, message);
  writer.encoder().Finish();
  return out;
}

Result<NumberedMessage> DecodeMessage(ByteSpan frame) {
  if (frame.size() > kMessageBytesMax) return Status(Code::kCorrupt, "message: longer than allowed");
  FieldReader reader(frame);
  size_t kind = reader.decoder().U8();
  NumberedMessage result;
  result.number = reader.decoder().U64();
  if (reader.decoder().ok() && !DecodeKind(kind, reader, &result.message)) reader.decoder().Fail("unknown kind");
  KEDGE_RETURN_IF_ERROR(reader.decoder().Finish("message"));
  return result;
}

Buffer EncodeMembership(const Membership& members) {
  return EncodeMessage(0, MembersRequest{members});
}

Result<Membership> DecodeMembership(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(NumberedMessage decoded, DecodeMessage(bytes));
  MembersRequest* request = std::get_if<MembersRequest>(&decoded.message);
  if (request == nullptr) return Status(Code::kCorrupt, "not the members of a job");
  return std::move(request->members);
}

Buffer EncodeHello(const Hello& hello) {
  return EncodeMessage(0, hello);
}

Result<Hello> DecodeHello(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(NumberedMessage decoded, DecodeMessage(bytes));
  Hello* hello = std::get_if<Hello>(&decoded.message);
  if (hello == nullptr) return Status(Code::kCorrupt, "not a hello");
  if (hello->protocol != kProtocolVersion) {
    return Status(Code::kMismatch, fmt::format("it is of protocol {} ({}); this build speaks {}", hello->protocol, hello->build,
                                               kProtocolVersion));
  }
  return std::move(*hello);
}

}  // namespace kedge

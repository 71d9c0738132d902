#include "burst/store_messages.h"

#include <algorithm>

namespace kedge::buffer {
namespace {

constexpr size_t kKeyBytesMax = 4096;
constexpr size_t kNameBytesMax = 255;
constexpr size_t kMessageTextBytesMax = 16384;
constexpr size_t kStatusBytesMin = 3;

void PutOwner(const StoreOwner& owner, Encoder* out) {
  out->String(owner.node);
  out->U32(owner.attempt);
  out->String(owner.writer);
}
StoreOwner TakeOwner(Decoder* in) {
  StoreOwner owner;
  owner.node = in->String(kKeyBytesMax);
  owner.attempt = in->U32();
  owner.writer = in->String(kNameBytesMax);
  return owner;
}

void PutStatus(const Status& status, Encoder* out) {
  out->U8(static_cast<uint8_t>(status.code()));
  out->SignedVarint(status.errno_value());
  out->String(std::string_view(status.message()).substr(0, kMessageTextBytesMax));
}
Status TakeStatus(Decoder* in) {
  const uint8_t code = in->U8();
  in->Require(code <= static_cast<uint8_t>(kCodeLast), "an unknown code");
  const int64_t errno_value = in->SignedVarint();
  in->Require(errno_value >= 0 && errno_value <= INT32_MAX, "an errno out of range");
  std::string message(in->String(kMessageTextBytesMax));
  if (!in->ok() || code == 0) return Status::Ok();
  return {static_cast<Code>(code), std::move(message), static_cast<int>(errno_value)};
}

bool TakeFlag(Decoder* in) {
  const uint8_t value = in->U8();
  in->Require(value <= 1, "neither yes nor no");
  return value != 0;
}

size_t TakeCount(Decoder* in, size_t element_bytes_min, size_t most) {
  const size_t count = in->Count(element_bytes_min);
  in->Require(count <= most, "more elements than a message has");
  return in->ok() ? count : 0;
}

void PutContent(const Buffer& content, Encoder* out) {
  out->Varint(content.size());
  out->Raw(content);
}
Buffer TakeContent(Decoder* in, uint64_t most) {
  const ByteSpan content = in->Raw(in->VarintAtMost(most));
  return {content.begin(), content.end()};
}

// Memory, with a checksum for each block that a run of its length touches, and perhaps seals; or none.
void PutMemory(const net::RemoteMemory& memory, const std::vector<uint32_t>& sums, const std::vector<net::BlockSeal>& seals,
               Encoder* out) {
  out->U8(memory.bytes > 0 ? 1 : 0);
  if (memory.bytes == 0) return;
  net::EncodeRemoteMemory(memory, out);
  for (const uint32_t sum : sums) out->U32(sum);
  PutSeals(seals, out);
}
void TakeMemory(Decoder* in, uint64_t most, net::RemoteMemory* memory, std::vector<uint32_t>* sums,
                std::vector<net::BlockSeal>* seals) {
  if (!TakeFlag(in)) return;
  *memory = net::DecodeRemoteMemory(in);
  in->Require(memory->bytes > 0 && memory->bytes <= most, "a run out of bounds");
  if (!in->ok()) return;
  sums->resize(CutAtBlocks(0, memory->bytes).size());
  for (uint32_t& sum : *sums) sum = in->U32();
  *seals = TakeSeals(sums->size(), in);
}

}  // namespace

Buffer Encode(const StoreRequest& request) {
  Buffer bytes;
  Encoder out(bytes);
  out.U8(static_cast<uint8_t>(request.operation));
  out.String(request.store);
  out.U8(request.making);
  out.String(request.key);
  out.String(request.other);
  PutOwner(request.owner, &out);
  out.U64(request.handle);
  out.U64(request.offset);
  out.U64(request.number);
  out.U8(request.flag ? 1 : 0);
  out.Varint(request.keys.size());
  for (const std::string& key : request.keys) out.String(key);
  out.Varint(request.handles.size());
  for (const uint64_t handle : request.handles) out.U64(handle);
  PutContent(request.content, &out);
  PutMemory(request.memory, request.sums, request.seals, &out);
  out.Finish();
  return bytes;
}
Result<StoreRequest> DecodeStoreRequest(ByteSpan bytes) {
  Decoder in(bytes);
  StoreRequest request;
  const uint8_t operation = in.U8();
  in.Require(operation >= 1 && operation <= static_cast<uint8_t>(kStoreOperationLast), "an unknown operation");
  request.operation = static_cast<StoreOperation>(operation);
  request.store = in.String(kPathBytesMax);
  request.making = in.U8();
  in.Require(request.making <= kMakingLast, "an unknown way to make a folder");
  request.key = in.String(kKeyBytesMax);
  request.other = in.String(kKeyBytesMax);
  request.owner = TakeOwner(&in);
  request.handle = in.U64();
  request.offset = in.U64();
  request.number = in.U64();
  request.flag = TakeFlag(&in);
  request.keys.resize(TakeCount(&in, 1, kStoreListMax));
  for (std::string& key : request.keys) key = in.String(kKeyBytesMax);
  request.handles.resize(TakeCount(&in, sizeof(uint64_t), kStoreListMax));
  for (uint64_t& handle : request.handles) handle = in.U64();
  request.content = TakeContent(&in, kRecordInMessageMax);
  TakeMemory(&in, kStoreRecordBytesMax, &request.memory, &request.sums, &request.seals);
  in.Require(request.memory.bytes == 0 || request.content.empty(), "a record in two places");
  KEDGE_RETURN_IF_ERROR(in.Finish("request to a store"));
  return request;
}

Buffer Encode(const StoreReply& reply) {
  Buffer bytes;
  Encoder out(bytes);
  PutStatus(reply.status, &out);
  out.U64(reply.handle);
  out.U64(reply.number);
  out.U64(reply.free_bytes);
  out.I64(reply.stamp);
  out.F64(reply.seconds);
  out.String(reply.text);
  out.String(reply.other_text);
  PutContent(reply.content, &out);
  out.Varint(reply.statuses.size());
  for (const Status& status : reply.statuses) PutStatus(status, &out);
  out.Varint(reply.entries.size());
  for (const StoreFolderEntry& entry : reply.entries) {
    out.String(entry.name);
    out.U8(entry.is_folder ? 1 : 0);
  }
  out.Varint(reply.temporaries.size());
  for (const StoreTemporary& temporary : reply.temporaries) {
    out.String(temporary.handle);
    PutOwner(temporary.owner, &out);
    out.String(temporary.tag);
    out.U64(temporary.bytes);
    out.F64(temporary.age_seconds);
  }
  out.U8(reply.has_more ? 1 : 0);
  out.Finish();
  return bytes;
}
Result<StoreReply> DecodeStoreReply(ByteSpan bytes) {
  constexpr size_t kEntryBytesMin = 2;
  constexpr size_t kTemporaryBytesMin = 24;
  Decoder in(bytes);
  StoreReply reply;
  reply.status = TakeStatus(&in);
  reply.handle = in.U64();
  reply.number = in.U64();
  reply.free_bytes = in.U64();
  reply.stamp = in.I64();
  reply.seconds = in.F64();
  reply.text = in.String(kKeyBytesMax);
  reply.other_text = in.String(kKeyBytesMax);
  reply.content = TakeContent(&in, kRecordInMessageMax);
  reply.statuses.resize(TakeCount(&in, kStatusBytesMin, kStoreListMax));
  for (Status& status : reply.statuses) status = TakeStatus(&in);
  reply.entries.resize(TakeCount(&in, kEntryBytesMin, kStoreListMax));
  for (StoreFolderEntry& entry : reply.entries) {
    entry.name = in.String(kNameBytesMax);
    entry.is_folder = TakeFlag(&in);
  }
  reply.temporaries.resize(TakeCount(&in, kTemporaryBytesMin, kTemporariesMax));
  for (StoreTemporary& temporary : reply.temporaries) {
    temporary.handle = in.String(kKeyBytesMax);
    temporary.owner = TakeOwner(&in);
    temporary.tag = in.String(kNameBytesMax);
    temporary.bytes = in.U64();
    temporary.age_seconds = in.F64();
  }
  reply.has_more = TakeFlag(&in);
  KEDGE_RETURN_IF_ERROR(in.Finish("reply of a store"));
  return reply;
}

Buffer Encode(const StoreReadRequest& request) {
  Buffer bytes;
  Encoder out(bytes);
  out.U64(request.handle);
  out.U64(request.offset);
  out.U64(request.bytes);
  out.U8(request.ahead ? 1 : 0);
  out.U8(request.sealed ? 1 : 0);
  out.Finish();
  return bytes;
}
Result<StoreReadRequest> DecodeStoreReadRequest(ByteSpan bytes) {
  Decoder in(bytes);
  StoreReadRequest request;
  request.handle = in.U64();
  request.offset = in.U64();
  request.bytes = in.U64();
  request.ahead = in.U8() != 0;
  request.sealed = in.U8() != 0;
  in.Require(request.bytes > 0 && request.bytes <= kPieceBytesMax && request.offset <= UINT64_MAX - request.bytes,
             "a run out of bounds");
  KEDGE_RETURN_IF_ERROR(in.Finish("request to read of a store"));
  return request;
}

Buffer Encode(const StoreReadReply& reply) {
  Buffer bytes;
  Encoder out(bytes);
  PutStatus(reply.status, &out);
  PutContent(reply.content, &out);
  PutMemory(reply.memory, reply.sums, reply.seals, &out);
  out.Finish();
  return bytes;
}
Result<StoreReadReply> DecodeStoreReadReply(ByteSpan bytes) {
  Decoder in(bytes);
  StoreReadReply reply;
  reply.status = TakeStatus(&in);
  reply.content = TakeContent(&in, kReadInMessageMax);
  TakeMemory(&in, kPieceBytesMax, &reply.memory, &reply.sums, &reply.seals);
  KEDGE_RETURN_IF_ERROR(in.Finish("piece of an object"));
  return reply;
}

}  // namespace kedge::buffer

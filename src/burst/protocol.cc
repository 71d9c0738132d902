#include "burst/protocol.h"

#include <algorithm>

#include "base/crc32c.h"

namespace kedge::buffer {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{1} << 50;

void PutSums(const std::vector<uint32_t>& sums, Encoder* out) {
  out->Varint(sums.size());
  for (const uint32_t sum : sums) out->U32(sum);
}
// As many as a run of `bytes` at `offset` touches blocks.
std::vector<uint32_t> TakeSums(uint64_t offset, uint64_t bytes, Decoder* in) {
  std::vector<uint32_t> sums(in->Count(sizeof(uint32_t)));
  for (uint32_t& sum : sums) sum = in->U32();
  in->Require(in->ok() && sums.size() == CutAtBlocks(offset, bytes).size(), "not one checksum for each block");
  return sums;
}
// A run that a file may have, of 1 to `bytes_max` bytes.
void RequireRun(uint64_t offset, uint64_t bytes, uint64_t bytes_max, Decoder* in) {
  in->Require(bytes > 0 && bytes <= bytes_max && offset <= kFileBytesMax, "a run out of bounds");
}

template <typename Put>
Buffer Encoded(Put put) {
  Buffer bytes;
  Encoder out(bytes);
  put(&out);
  out.Finish();
  return bytes;
}

template <typename Message, typename Take>
Result<Message> Decoded(ByteSpan bytes, const char* what, Take take) {
  Decoder in(bytes);
  Message message;
  take(&in, &message);
  KEDGE_RETURN_IF_ERROR(in.Finish(what));
  return message;
}

// Two paths, or parts of such.
Buffer EncodedTexts(const std::string& first, const std::string& second) {
  return Encoded([&](Encoder* out) {
    out->String(first);
    out->String(second);
  });
}
template <typename Message>
Result<Message> DecodedTexts(ByteSpan bytes, const char* what, std::string Message::*first, std::string Message::*second) {
  return Decoded<Message>(bytes, what, [=](Decoder* in, Message* message) {
    message->*first = in->String(kPathBytesMax);
    message->*second = in->String(kPathBytesMax);
  });
}

}  // namespace

Buffer Encode(const PathRequest& request) {
  return Encoded([&](Encoder* out) { out->String(request.path); });
}
Result<PathRequest> DecodePathRequest(ByteSpan bytes) {
  return Decoded<PathRequest>(bytes, "request for a path",
                              [](Decoder* in, PathRequest* request) { request->path = in->String(kPathBytesMax); });
}

Buffer Encode(const OpenedFile& reply) {
  return Encoded([&](Encoder* out) {
    out->U64(reply.handle);
    out->U64(reply.bytes);
  });
}
Result<OpenedFile> DecodeOpenedFile(ByteSpan bytes) {
  return Decoded<OpenedFile>(bytes, "opened file", [](Decoder* in, OpenedFile* reply) {
    reply->handle = in->U64();
    reply->bytes = in->U64();
    in->Require(reply->bytes <= kFileBytesMax, "a file out of bounds");
  });
}

Buffer Encode(const WriteRequest& request) {
  return Encoded([&](Encoder* out) {
    out->U64(request.handle);
    out->U64(request.offset);
    net::EncodeRemoteMemory(request.memory, out);
    PutSums(request.sums, out);
    PutSeals(request.seals, out);
  });
}
Result<WriteRequest> DecodeWriteRequest(ByteSpan bytes) {
  return Decoded<WriteRequest>(bytes, "request to write", [](Decoder* in, WriteRequest* request) {
    request->handle = in->U64();
    request->offset = in->U64();
    request->memory = net::DecodeRemoteMemory(in);
    RequireRun(request->offset, request->memory.bytes, kChunkBytesMax, in);
    if (in->ok()) request->sums = TakeSums(request->offset, request->memory.bytes, in);
    if (in->ok()) request->seals = TakeSeals(request->sums.size(), in);
  });
}

Buffer Encode(const CloseRequest& request) {
  return Encoded([&](Encoder* out) {
    out->U64(request.handle);
    out->U64(request.bytes);
    out->U8(request.sync ? 1 : 0);
  });
}
Result<CloseRequest> DecodeCloseRequest(ByteSpan bytes) {
  return Decoded<CloseRequest>(bytes, "request to close", [](Decoder* in, CloseRequest* request) {
    request->handle = in->U64();
    request->bytes = in->U64();
    request->sync = in->U8() != 0;
    in->Require(request->bytes <= kFileBytesMax, "a file out of bounds");
  });
}

Buffer Encode(const ReadRequest& request) {
  return Encoded([&](Encoder* out) {
    out->U64(request.handle);
    out->U64(request.offset);
    out->U64(request.bytes);
    out->U8(request.ahead ? 1 : 0);
    out->U8(request.sealed ? 1 : 0);
  });
}
Result<ReadRequest> DecodeReadRequest(ByteSpan bytes) {
  return Decoded<ReadRequest>(bytes, "request to read", [](Decoder* in, ReadRequest* request) {
    request->handle = in->U64();
    request->offset = in->U64();
    request->bytes = in->U64();
    request->ahead = in->U8() != 0;
    request->sealed = in->U8() != 0;
    RequireRun(request->offset, request->bytes, kPieceBytesMax, in);
    in->Require(request->offset % kBlockBytes == 0, "a piece begins with a block");
  });
}

Buffer Encode(const ReadReply& reply) {
  return Encoded([&](Encoder* out) {
    net::EncodeRemoteMemory(reply.memory, out);
    PutSums(reply.sums, out);
    PutSeals(reply.seals, out);
  });
}
Result<ReadReply> DecodeReadReply(ByteSpan bytes) {
  return Decoded<ReadReply>(bytes, "piece of a file", [](Decoder* in, ReadReply* reply) {
    reply->memory = net::DecodeRemoteMemory(in);
    RequireRun(0, reply->memory.bytes, kPieceBytesMax, in);
    if (in->ok()) reply->sums = TakeSums(0, reply->memory.bytes, in);
    if (in->ok()) reply->seals = TakeSeals(reply->sums.size(), in);
  });
}

Buffer Encode(const EndRequest& request) {
  return Encoded([&](Encoder* out) { out->U64(request.handle); });
}
Result<EndRequest> DecodeEndRequest(ByteSpan bytes) {
  return Decoded<EndRequest>(bytes, "request to end", [](Decoder* in, EndRequest* request) { request->handle = in->U64(); });
}

Buffer Encode(const ListRequest& request) {
  return EncodedTexts(request.prefix, request.after);
}
Result<ListRequest> DecodeListRequest(ByteSpan bytes) {
  return DecodedTexts(bytes, "request for a list", &ListRequest::prefix, &ListRequest::after);
}

Buffer Encode(const RenameRequest& request) {
  return EncodedTexts(request.from, request.to);
}
Result<RenameRequest> DecodeRenameRequest(ByteSpan bytes) {
  return DecodedTexts(bytes, "request to rename", &RenameRequest::from, &RenameRequest::to);
}

Buffer Encode(const FileList& reply) {
  return Encoded([&](Encoder* out) {
    out->Varint(reply.entries.size());
    for (const FileEntry& entry : reply.entries) {
      out->String(entry.path);
      out->U64(entry.bytes);
      out->I64(entry.modified_ns);
    }
    out->U8(reply.has_more ? 1 : 0);
  });
}
Result<FileList> DecodeFileList(ByteSpan bytes) {
  return Decoded<FileList>(bytes, "list of files", [](Decoder* in, FileList* reply) {
    constexpr size_t kEntryBytesMin = 1 + sizeof(uint64_t) + sizeof(int64_t);
    reply->entries.resize(std::min(in->Count(kEntryBytesMin), kListEntriesMax + 1));
    in->Require(reply->entries.size() <= kListEntriesMax, "more files than one list has");
    for (FileEntry& entry : reply->entries) {
      entry.path = in->String(kPathBytesMax);
      entry.bytes = in->U64();
      entry.modified_ns = in->I64();
    }
    reply->has_more = in->U8() != 0;
  });
}

Buffer Encode(const DescribeRequest&) {
  return Buffer();
}
Result<DescribeRequest> DecodeDescribeRequest(ByteSpan bytes) {
  return Decoded<DescribeRequest>(bytes, "request for a description", [](Decoder*, DescribeRequest*) {});
}

Buffer Encode(const Description& reply) {
  return Encoded([&](Encoder* out) {
    for (const uint64_t value : {reply.capacity_bytes, reply.free_bytes, reply.used_bytes, reply.quota_bytes, reply.own_bytes})
      out->U64(value);
  });
}
Result<Description> DecodeDescription(ByteSpan bytes) {
  return Decoded<Description>(bytes, "description of a server", [](Decoder* in, Description* reply) {
    for (uint64_t* value :
         {&reply->capacity_bytes, &reply->free_bytes, &reply->used_bytes, &reply->quota_bytes, &reply->own_bytes})
      *value = in->U64();
  });
}

std::vector<RunPart> CutAtBlocks(uint64_t offset, uint64_t bytes) {
  std::vector<RunPart> parts;
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t in_block = kBlockBytes - (offset + at) % kBlockBytes;
    parts.push_back({at, std::min(in_block, bytes - at)});
    at += parts.back().bytes;
  }
  return parts;
}

std::vector<uint32_t> SumsOfBlocks(uint64_t offset, ByteSpan bytes) {
  std::vector<uint32_t> sums;
  for (const RunPart& part : CutAtBlocks(offset, bytes.size()))
    sums.push_back(crc32c::Compute(bytes.data() + part.at, part.bytes));
  return sums;
}

std::vector<net::BlockSeal> SealBlocks(uint64_t offset, std::span<std::byte> bytes) {
  std::vector<net::BlockSeal> seals;
  for (const RunPart& part : CutAtBlocks(offset, bytes.size()))
    seals.push_back(net::SealBlock(bytes.subspan(part.at, part.bytes)));
  return seals;
}

Status OpenBlockOf(const std::vector<net::BlockSeal>& seals, size_t index, const net::ReadBuffer& arrived) {
  if (seals.empty() || net::OpenBlock(seals[index], arrived.bytes())) return Status::Ok();
  return {Code::kCorrupt, "a sealed block did not arrive as it was sent"};
}

void PutSeals(const std::vector<net::BlockSeal>& seals, Encoder* out) {
  out->U8(seals.empty() ? 0 : 1);
  for (const net::BlockSeal& seal : seals) {
    out->Raw(seal.key);
    out->Raw(seal.tag);
  }
}

std::vector<net::BlockSeal> TakeSeals(size_t blocks, Decoder* in) {
  const uint8_t has_seals = in->U8();
  in->Require(has_seals <= 1, "neither sealed nor in the clear");
  std::vector<net::BlockSeal> seals(in->ok() && has_seals == 1 ? blocks : 0);
  for (net::BlockSeal& seal : seals) {
    for (const std::span<std::byte> field : {std::span<std::byte>(seal.key), std::span<std::byte>(seal.tag)}) {
      const ByteSpan taken = in->Raw(field.size());
      if (taken.size() == field.size()) std::copy(taken.begin(), taken.end(), field.begin());
    }
  }
  return seals;
}

std::string NetworkName(const std::string& server, const std::string& owner) {
  return "buffer/" + server + "/" + owner;
}

}  // namespace kedge::buffer

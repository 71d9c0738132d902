// What clients and servers of burst buffers say to each other, over src/net. Bytes only, no I/O.
//
// A file is cut into blocks of kBlockBytes, counted from its begin; each has a CRC32C. A run of bytes (a chunk that is written, a
// piece that is read) has one checksum for each block that it touches, of those bytes of the block that belong to the run. Where
// the client wants it sealed (net.encrypt), the run lies sealed in its owner's memory, block by block, and has a seal for each,
// too: the message with these is sealed itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/wire.h"
#include "net/network.h"

namespace kedge::buffer {

inline constexpr uint64_t kBlockBytes = net::kReadBytesMax;
inline constexpr uint64_t kChunkBytesMax = uint64_t{64} << 20;  // as in IBIO
inline constexpr uint64_t kPieceBytesMax = 4 * kBlockBytes;
inline constexpr size_t kPathBytesMax = 1024;
inline constexpr size_t kListEntriesMax = 1000;

enum class RequestKind : uint16_t {
  kCreate = 101,
  kWrite = 102,
  kClose = 103,
  kOpen = 104,
  kRead = 105,
  kEnd = 106,
  kRemove = 107,
  kList = 108,
  kDescribe = 109,
  kRename = 110
};

// kCreate, kOpen, kRemove. The first two are answered with an OpenedFile.
struct PathRequest {
  std::string path;
};
struct OpenedFile {
  uint64_t handle = 0;  // of this client alone
  uint64_t bytes = 0;   // that the file has
};
// The memory is the client's, and is read before the answer, which is empty.
struct WriteRequest {
  uint64_t handle = 0;
  uint64_t offset = 0;
  net::RemoteMemory memory;
  std::vector<uint32_t> sums;
  std::vector<net::BlockSeal> seals = {};  // none: it lies there in the clear
};
// Makes the file visible, with `bytes` that have all been written. Answered with nothing.
struct CloseRequest {
  uint64_t handle = 0;
  uint64_t bytes = 0;
  bool sync = false;  // only when it is durable
};
// `offset` is a multiple of kBlockBytes. `ahead`: answered kBusy when others may need the memory.
struct ReadRequest {
  uint64_t handle = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool ahead = false;
  bool sealed = false;
};
// The memory is the server's, until the client ends the lease.
struct ReadReply {
  net::RemoteMemory memory;
  std::vector<uint32_t> sums;
  std::vector<net::BlockSeal> seals = {};  // as it was asked for
};
// Ends reading, or gives up a file that is being written. Answered with nothing.
struct EndRequest {
  uint64_t handle = 0;
};
// The owner's visible files whose paths begin with `prefix` and come behind `after`, in the order of their bytes. Answered with
// a FileList.
struct ListRequest {
  std::string prefix;
  std::string after;
};
struct FileEntry {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970, by the server's clock
};
struct FileList {
  std::vector<FileEntry> entries;  // at most kListEntriesMax
  bool has_more = false;
};
// A visible file gets another name, in one step; a former file of that name goes. Answered with nothing.
struct RenameRequest {
  std::string from;
  std::string to;
};
// The server, as this owner may see it.
struct DescribeRequest {};
struct Description {
  uint64_t capacity_bytes = 0;  // 0: what the disk has
  uint64_t free_bytes = 0;      // of the disk
  uint64_t used_bytes = 0;      // by all owners
  uint64_t quota_bytes = 0;     // 0: none
  uint64_t own_bytes = 0;
};

Buffer Encode(const PathRequest& request);
Buffer Encode(const OpenedFile& reply);
Buffer Encode(const WriteRequest& request);
Buffer Encode(const CloseRequest& request);
Buffer Encode(const ReadRequest& request);
Buffer Encode(const ReadReply& reply);
Buffer Encode(const EndRequest& request);
Buffer Encode(const ListRequest& request);
Buffer Encode(const FileList& reply);
Buffer Encode(const RenameRequest& request);
Buffer Encode(const DescribeRequest& request);
Buffer Encode(const Description& reply);
// kCorrupt: not such a message, or beyond the bounds above.
Result<PathRequest> DecodePathRequest(ByteSpan bytes);
Result<OpenedFile> DecodeOpenedFile(ByteSpan bytes);
Result<WriteRequest> DecodeWriteRequest(ByteSpan bytes);
Result<CloseRequest> DecodeCloseRequest(ByteSpan bytes);
Result<ReadRequest> DecodeReadRequest(ByteSpan bytes);
Result<ReadReply> DecodeReadReply(ByteSpan bytes);
Result<EndRequest> DecodeEndRequest(ByteSpan bytes);
Result<ListRequest> DecodeListRequest(ByteSpan bytes);
Result<FileList> DecodeFileList(ByteSpan bytes);
Result<RenameRequest> DecodeRenameRequest(ByteSpan bytes);
Result<DescribeRequest> DecodeDescribeRequest(ByteSpan bytes);
Result<Description> DecodeDescription(ByteSpan bytes);

// The part of a run that lies in one block.
struct RunPart {
  uint64_t at = 0;  // in the run
  uint64_t bytes = 0;
};
std::vector<RunPart> CutAtBlocks(uint64_t offset, uint64_t bytes);
// The checksum of each of these parts of `bytes`, which lie at `offset`.
std::vector<uint32_t> SumsOfBlocks(uint64_t offset, ByteSpan bytes);
// Seals each of these parts where it lies.
std::vector<net::BlockSeal> SealBlocks(uint64_t offset, std::span<std::byte> bytes);
// Opens the block that has arrived as the run's `index`th where it lies; nothing where the run has no seals. kCorrupt: it is not
// what was sealed.
Status OpenBlockOf(const std::vector<net::BlockSeal>& seals, size_t index, const net::ReadBuffer& arrived);
// For each of `blocks` blocks one, or none at all.
void PutSeals(const std::vector<net::BlockSeal>& seals, Encoder* out);
std::vector<net::BlockSeal> TakeSeals(size_t blocks, Decoder* in);
// How the network names an owner's clients of a server.
std::string NetworkName(const std::string& server, const std::string& owner);

}  // namespace kedge::buffer

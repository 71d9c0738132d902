#include "burst/protocol.h"

#include <gtest/gtest.h>

namespace kedge::buffer {
namespace {

// Whole it is taken, cut short anywhere it is not.
template <typename Message>
Message Again(const Message& message, Result<Message> (*decode)(ByteSpan)) {
  const Buffer bytes = Encode(message);
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(decode(ByteSpan(bytes).first(cut)).ok()) << cut;
  auto decoded = decode(bytes);
  EXPECT_TRUE(decoded.ok()) << decoded.status().ToString();
  return decoded.ok() ? *decoded : Message();
}

TEST(BufferProtocol, MessagesComeBackAsTheyWent) {
  EXPECT_EQ(Again(PathRequest{"a/b"}, DecodePathRequest).path, "a/b");
  const OpenedFile opened = Again(OpenedFile{7, 1234567}, DecodeOpenedFile);
  EXPECT_EQ(opened.handle, 7u);
  EXPECT_EQ(opened.bytes, 1234567u);
  const CloseRequest close = Again(CloseRequest{7, 99, true}, DecodeCloseRequest);
  EXPECT_EQ(close.handle, 7u);
  EXPECT_EQ(close.bytes, 99u);
  EXPECT_TRUE(close.sync);
  const ReadRequest read = Again(ReadRequest{7, kBlockBytes, 5, true}, DecodeReadRequest);
  EXPECT_EQ(read.offset, kBlockBytes);
  EXPECT_EQ(read.bytes, 5u);
  EXPECT_TRUE(read.ahead);
  EXPECT_EQ(Again(EndRequest{7}, DecodeEndRequest).handle, 7u);
  const ListRequest list = Again(ListRequest{"run7/", "run7/a"}, DecodeListRequest);
  EXPECT_EQ(list.prefix, "run7/");
  EXPECT_EQ(list.after, "run7/a");
  const RenameRequest rename = Again(RenameRequest{"a", "b"}, DecodeRenameRequest);
  EXPECT_EQ(rename.from + rename.to, "ab");
  const FileList files = Again(FileList{{{"run7/b", 5, -6}, {"run7/c", 7, 8}}, true}, DecodeFileList);
  ASSERT_EQ(files.entries.size(), 2u);
  EXPECT_EQ(files.entries[0].path, "run7/b");
  EXPECT_EQ(files.entries[0].modified_ns, -6);
  EXPECT_EQ(files.entries[1].bytes, 7u);
  EXPECT_TRUE(files.has_more);
  const Description description = Again(Description{1, 2, 3, 4, 5}, DecodeDescription);
  EXPECT_EQ(description.capacity_bytes, 1u);
  EXPECT_EQ(description.own_bytes, 5u);
  WriteRequest write{7, kBlockBytes - 1, {}, {11, 12}};
  write.memory.bytes = 2;
  const WriteRequest written = Again(write, DecodeWriteRequest);
  EXPECT_EQ(written.offset, kBlockBytes - 1);
  EXPECT_EQ(written.sums, write.sums);
  EXPECT_TRUE(written.seals.empty());
  write.seals.resize(write.sums.size());
  write.seals.back().key[31] = write.seals.front().tag[15] = std::byte{7};
  EXPECT_EQ(Again(write, DecodeWriteRequest).seals, write.seals);
  write.seals.pop_back();
  EXPECT_EQ(DecodeWriteRequest(Encode(write)).status().code(), Code::kCorrupt) << "not one for each block";
  write.seals.clear();
  ReadReply reply{{}, {21, 22}};
  reply.memory.bytes = kBlockBytes + 1;
  EXPECT_EQ(Again(reply, DecodeReadReply).sums, reply.sums);
}

TEST(BufferProtocol, WhatIsOutOfBoundsIsRefused) {
  WriteRequest write{1, 0, {}, {1}};
  EXPECT_FALSE(DecodeWriteRequest(Encode(write)).ok()) << "no bytes";
  write.memory.bytes = kBlockBytes + 1;
  EXPECT_FALSE(DecodeWriteRequest(Encode(write)).ok()) << "a checksum is missing";
  write.memory.bytes = kChunkBytesMax + 1;
  write.sums.resize(65);
  EXPECT_FALSE(DecodeWriteRequest(Encode(write)).ok()) << "more than a chunk";
  write.memory.bytes = kChunkBytesMax;
  write.sums.resize(64);
  EXPECT_TRUE(DecodeWriteRequest(Encode(write)).ok());
  write.offset = UINT64_MAX;
  EXPECT_FALSE(DecodeWriteRequest(Encode(write)).ok()) << "beyond every file";
  EXPECT_FALSE(DecodeReadRequest(Encode(ReadRequest{1, 1, 1, false})).ok()) << "within a block";
  EXPECT_FALSE(DecodeReadRequest(Encode(ReadRequest{1, 0, kPieceBytesMax + 1, false})).ok());
  EXPECT_FALSE(DecodeFileList(Encode(FileList{std::vector<FileEntry>(kListEntriesMax + 1), false})).ok());
  EXPECT_FALSE(DecodePathRequest(Encode(PathRequest{std::string(kPathBytesMax + 1, 'a')})).ok());
}

TEST(BufferProtocol, RunsAreCutAtTheBlocksOfTheFile) {
  const std::vector<RunPart> parts = CutAtBlocks(kBlockBytes - 3, kBlockBytes + 5);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].bytes, 3u);
  EXPECT_EQ(parts[1].at, 3u);
  EXPECT_EQ(parts[1].bytes, kBlockBytes);
  EXPECT_EQ(parts[2].at, 3u + kBlockBytes);
  EXPECT_EQ(parts[2].bytes, 2u);
  EXPECT_TRUE(CutAtBlocks(5, 0).empty());
}

}  // namespace
}  // namespace kedge::buffer

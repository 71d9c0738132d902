#include "burst/store_messages.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace kedge::buffer {
namespace {

// Whole it is taken, cut short anywhere or with a byte more it is not.
template <typename Message>
Message TakenAgain(const Message& message, Result<Message> (*decode)(ByteSpan)) {
  Buffer bytes = Encode(message);
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(decode(ByteSpan(bytes).first(cut)).ok()) << cut;
  const auto decoded = decode(bytes);
  EXPECT_TRUE(decoded.ok()) << decoded.status().ToString();
  bytes.push_back({});
  EXPECT_FALSE(decode(bytes).ok());
  return decoded.ok() ? *decoded : Message();
}

TEST(StoreMessages, RequestsComeBackAsTheyWent) {
  StoreRequest request{
      .operation = StoreOperation::kPutIfAbsent, .store = "ckpt/a", .making = 2, .key = "jobs/j/x", .other = "y"};
  request.owner = {"node1", 3, "agent"};
  request.handle = 7;
  request.offset = 8;
  request.number = 9;
  request.flag = true;
  request.keys = {"a/b", "c"};
  request.handles = {1, UINT64_MAX};
  request.content = Buffer(5, std::byte{6});
  const StoreRequest again = TakenAgain(request, DecodeStoreRequest);
  EXPECT_EQ(again.operation, StoreOperation::kPutIfAbsent);
  EXPECT_EQ(again.store + again.key + again.other, "ckpt/ajobs/j/xy");
  EXPECT_EQ(again.making, 2);
  EXPECT_EQ(again.owner.node + again.owner.writer, "node1agent");
  EXPECT_EQ(again.owner.attempt, 3u);
  EXPECT_EQ(again.handle + again.offset + again.number, 24u);
  EXPECT_TRUE(again.flag);
  EXPECT_EQ(again.keys, request.keys);
  EXPECT_EQ(again.handles, request.handles);
  EXPECT_EQ(again.content, request.content);
}

TEST(StoreMessages, LargeRecordsLieInTheClientsMemory) {
  StoreRequest request{.operation = StoreOperation::kReplace};
  request.memory.bytes = 2 * kBlockBytes + 1;
  request.sums = {1, 2, 3};
  const StoreRequest again = TakenAgain(request, DecodeStoreRequest);
  EXPECT_EQ(again.memory.bytes, request.memory.bytes);
  EXPECT_EQ(again.sums, request.sums);
  request.content = Buffer(1);
  EXPECT_FALSE(DecodeStoreRequest(Encode(request)).ok()) << "in two places";
}

TEST(StoreMessages, RepliesComeBackAsTheyWent) {
  StoreReply reply{.status = Status::FromErrno(ENOSPC, "write /a/b"), .handle = 1, .number = 2, .free_bytes = 3, .stamp = -4};
  reply.seconds = -0.5;
  reply.text = "where";
  reply.other_text = "boot";
  reply.content = Buffer(3, std::byte{1});
  reply.statuses = {Status::Ok(), Status(Code::kNotFound, "none", ENOENT)};
  reply.entries = {{"a", true}, {"b", false}};
  reply.temporaries = {{"f/x.tmp", {"node1", 2, "r3"}, "node1-2-r3", 5, 1.5}};
  reply.has_more = true;
  const StoreReply again = TakenAgain(reply, DecodeStoreReply);
  EXPECT_EQ(again.status.code(), Code::kNoSpace);
  EXPECT_EQ(again.status.errno_value(), ENOSPC);
  EXPECT_EQ(again.status.message(), reply.status.message());
  EXPECT_EQ(again.handle + again.number + again.free_bytes, 6u);
  EXPECT_EQ(again.stamp, -4);
  EXPECT_EQ(again.seconds, -0.5);
  EXPECT_EQ(again.text + again.other_text, "whereboot");
  EXPECT_EQ(again.content, reply.content);
  ASSERT_EQ(again.statuses.size(), 2u);
  EXPECT_TRUE(again.statuses[0].ok());
  EXPECT_EQ(again.statuses[1].errno_value(), ENOENT);
  ASSERT_EQ(again.entries.size(), 2u);
  EXPECT_TRUE(again.entries[0].is_folder && again.entries[1].name == "b");
  ASSERT_EQ(again.temporaries.size(), 1u);
  EXPECT_EQ(again.temporaries[0].tag, "node1-2-r3");
  EXPECT_EQ(again.temporaries[0].age_seconds, 1.5);
  EXPECT_TRUE(again.has_more);
}

TEST(StoreMessages, PiecesComeBackAsTheyWent) {
  const StoreReadRequest read = TakenAgain(StoreReadRequest{1, 3, 5, true}, DecodeStoreReadRequest);
  EXPECT_EQ(read.offset, 3u);
  EXPECT_EQ(read.bytes, 5u);
  StoreReadReply reply;
  reply.content = Buffer(4, std::byte{9});
  EXPECT_EQ(TakenAgain(reply, DecodeStoreReadReply).content, reply.content);
  reply.content.clear();
  reply.memory.bytes = kBlockBytes + 1;
  reply.sums = {4, 5};
  EXPECT_EQ(TakenAgain(reply, DecodeStoreReadReply).sums, reply.sums);
  reply.seals.resize(2);
  reply.seals[1].tag[0] = std::byte{9};
  EXPECT_EQ(TakenAgain(reply, DecodeStoreReadReply).seals, reply.seals);
}

TEST(StoreMessages, WhatIsOutOfBoundsIsRefused) {
  StoreRequest request;
  request.making = kMakingLast + 1;
  EXPECT_FALSE(DecodeStoreRequest(Encode(request)).ok());
  request.making = 0;
  request.operation = static_cast<StoreOperation>(static_cast<int>(kStoreOperationLast) + 1);
  EXPECT_FALSE(DecodeStoreRequest(Encode(request)).ok());
  request.operation = StoreOperation::kReplace;
  request.content = Buffer(kRecordInMessageMax + 1);
  EXPECT_FALSE(DecodeStoreRequest(Encode(request)).ok());
  request.content.clear();
  request.handles.resize(kStoreListMax + 1);
  EXPECT_FALSE(DecodeStoreRequest(Encode(request)).ok());
  StoreReply reply;
  reply.entries.resize(kStoreListMax + 1);
  EXPECT_FALSE(DecodeStoreReply(Encode(reply)).ok());
  EXPECT_FALSE(DecodeStoreReadRequest(Encode(StoreReadRequest{1, 0, kPieceBytesMax + 1})).ok());
  EXPECT_FALSE(DecodeStoreReadRequest(Encode(StoreReadRequest{1, UINT64_MAX, 1})).ok());
  EXPECT_FALSE(DecodeStoreReadRequest(Encode(StoreReadRequest{1, 0, 0})).ok());
}

}  // namespace
}  // namespace kedge::buffer

// What every Store keeps (store.h): a suite that each implementation instantiates with a factory, in one file of a test program:
// each file that includes it has the suite.
//
// A bucket keeps less in one thing, which is not asked here: Folders::kMustExist (s3/s3_store.h). It sees a folder that is gone
// before it begins, and none that goes while it writes. So a record may come to a generation that was removed meanwhile; no
// reader takes it for a version, and gc removes it. store_races.h lets that happen.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "store/testing/ground.h"

namespace kedge::testing {

// In every program that includes it.
namespace {

const TemporaryOwner kAgent{"node1.example.org", 3, "agent"};
const TemporaryOwner kTool{"login", 0, "tool"};

struct Case {
  std::string name;
  MakeGround make;
  size_t copies = 1;  // of what is being written, each a temporary of its own
};

class StoreConformance : public ::testing::TestWithParam<Case> {
 protected:
  StoreConformance() : ground_(GetParam().make()), store_(ground_->store()) {}

  Buffer Text(std::string_view text) { return {AsBytes(text).begin(), AsBytes(text).end()}; }
  // Publishes `content` at `key`.
  Status PutObject(const std::string& key, std::string_view content) {
    KEDGE_ASSIGN_OR_RETURN(const auto writer, store_.CreateObject(key, kAgent, content.size()));
    KEDGE_RETURN_IF_ERROR(writer->WriteAt(0, AsBytes(content)));
    return writer->Commit();
  }
  ::testing::AssertionResult Committed(ObjectWriter& writer) {
    const Status status = writer.Commit();
    return status.ok() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << status.ToString();
  }
  std::string Content(const std::string& key) {
    const auto reader = store_.OpenObject(key);
    if (!reader.ok()) return reader.status().ToString();
    Buffer bytes((*reader)->size_bytes());
    const Status read = (*reader)->ReadAt(0, bytes);
    return read.ok() ? std::string(AsText(bytes)) : read.ToString();
  }
  std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    const auto entries = store_.List(folder);
    EXPECT_TRUE(entries.ok()) << entries.status().ToString();
    if (!entries.ok()) return names;
    for (const StoreEntry& entry : *entries) names.push_back(entry.name + (entry.is_folder ? "/" : ""));
    return names;
  }
  size_t Temporaries() {
    const auto found = store_.ListTemporaries("", kTool);
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return found.ok() ? found->size() / GetParam().copies : 999;
  }

  std::unique_ptr<Ground> ground_;
  Store& store_;
};

TEST_P(StoreConformance, ObjectsAreSeenWholeOrNotAtAll) {
  auto writer = store_.CreateObject("a/b/object", kAgent, 0);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  EXPECT_EQ((*writer)->key(), "a/b/object");
  ASSERT_TRUE((*writer)->WriteAt(4, AsBytes("efgh")).ok());
  EXPECT_EQ(store_.OpenObject("a/b/object").status().code(), Code::kNotFound);
  EXPECT_TRUE(Names("a/b").empty());
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("abcd")).ok());
  ASSERT_TRUE((*writer)->FlushHint(0, 8, false).ok());
  ASSERT_TRUE((*writer)->FlushHint(0, 8, true).ok());
  ASSERT_TRUE(Committed(**writer));
  EXPECT_EQ(Content("a/b/object"), "abcdefgh");
  EXPECT_EQ(Names("a/b"), std::vector<std::string>{"object"});
  EXPECT_EQ(Temporaries(), 0u);
  EXPECT_FALSE((*writer)->Commit().ok()) << "twice";
  EXPECT_EQ(Content("a/b/object"), "abcdefgh");
}

TEST_P(StoreConformance, PublishingReplacesWhatWasThere) {
  ASSERT_TRUE(PutObject("object", "the first one").ok());
  ASSERT_TRUE(PutObject("object", "second").ok());
  EXPECT_EQ(Content("object"), "second");
}

TEST_P(StoreConformance, GapsReadAsZeros) {
  auto writer = store_.CreateObject("object", kAgent, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->WriteAt(3, AsBytes("x")).ok());
  ASSERT_TRUE(Committed(**writer));
  EXPECT_EQ(Content("object"), std::string("\0\0\0x", 4));
}

TEST_P(StoreConformance, EmptyObjects) {
  auto writer = store_.CreateObject("object", kAgent, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(Committed(**writer));
  EXPECT_EQ(Content("object"), "");
}

TEST_P(StoreConformance, AbandonedObjectsLeaveNothing) {
  auto writer = store_.CreateObject("object", kAgent, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("x")).ok());
  EXPECT_EQ(Temporaries(), 1u);
  ASSERT_TRUE((*writer)->Abandon().ok());
  EXPECT_EQ(Temporaries(), 0u);
  EXPECT_FALSE((*writer)->Commit().ok());
  EXPECT_EQ(store_.OpenObject("object").status().code(), Code::kNotFound);
}

TEST_P(StoreConformance, ManyThreadsWriteOneObject) {
  constexpr size_t kPieces = 16;
  constexpr size_t kPieceBytes = 20000;  // no multiple of a block
  auto writer = store_.CreateObject("object", kAgent, kPieces * kPieceBytes);
  ASSERT_TRUE(writer.ok());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t piece = t; piece < kPieces; piece += 4) {
        const std::string bytes(kPieceBytes, static_cast<char>('a' + piece));
        EXPECT_TRUE((*writer)->WriteAt(piece * kPieceBytes, AsBytes(bytes)).ok());
        EXPECT_TRUE((*writer)->FlushHint(piece * kPieceBytes, kPieceBytes, false).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(Committed(**writer));
  std::string expected;
  for (size_t piece = 0; piece < kPieces; ++piece) expected += std::string(kPieceBytes, static_cast<char>('a' + piece));
  EXPECT_TRUE(Content("object") == expected);
}

TEST_P(StoreConformance, AlignedPiecesAndTails) {
  constexpr size_t kBytes = 4096 * 5 + 123;
  auto memory =
      std::unique_ptr<std::byte, decltype(&std::free)>(static_cast<std::byte*>(std::aligned_alloc(4096, 4096 * 6)), &std::free);
  for (size_t i = 0; i < kBytes; ++i) memory.get()[i] = static_cast<std::byte>(i * 7 + i / 4096);
  auto writer = store_.CreateObject("object", kAgent, kBytes);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->WriteAt(4096, ByteSpan(memory.get() + 4096, kBytes - 4096)).ok());
  ASSERT_TRUE((*writer)->WriteAt(0, ByteSpan(memory.get(), 4096)).ok());
  ASSERT_TRUE(Committed(**writer));
  EXPECT_TRUE(Content("object") == AsText(ByteSpan(memory.get(), kBytes)));
}

TEST_P(StoreConformance, SeveralArePublishedTogetherEachWithItsOwnStatus) {
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  std::vector<ObjectWriter*> pointers;
  for (const char* key : {"f/one", "f/two", "g/three"}) {
    auto writer = store_.CreateObject(key, kAgent, 3);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->WriteAt(0, AsBytes(key)).ok());
    pointers.push_back(writer->get());
    writers.push_back(std::move(*writer));
  }
  ASSERT_TRUE(writers[1]->Abandon().ok());
  const std::vector<Status> statuses = store_.Publish(pointers);
  ASSERT_EQ(statuses.size(), 3u);
  EXPECT_TRUE(statuses[0].ok() && statuses[2].ok());
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_EQ(Content("f/one"), "f/one");
  EXPECT_EQ(Content("g/three"), "g/three");
  EXPECT_EQ(store_.OpenObject("f/two").status().code(), Code::kNotFound);
  EXPECT_TRUE(store_.Publish({}).empty());
}

TEST_P(StoreConformance, AnotherProcessContributes) {
  auto writer = store_.CreateObject("f/object", kAgent, 0);
  ASSERT_TRUE(writer.ok());
  const std::string own(std::max<uint64_t>(ground_->share_bytes(), 6), 'a');
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes(own)).ok());
  {
    const std::unique_ptr<Store> other = ground_->OtherProcess();
    auto contributor = other->JoinObject((*writer)->handle());
    ASSERT_TRUE(contributor.ok()) << contributor.status().ToString();
    ASSERT_TRUE((*contributor)->WriteAt(own.size(), AsBytes("client")).ok());
    ASSERT_TRUE((*contributor)->Finish().ok());
  }
  ASSERT_TRUE(Committed(**writer));
  EXPECT_TRUE(Content("f/object") == own + "client");
}

// A share is a run between borders; one of which nothing was written reads as zeros.
TEST_P(StoreConformance, ManyProcessesWriteSharesOfAnObject) {
  auto writer = store_.CreateObject("f/object", kAgent, 0);
  ASSERT_TRUE(writer.ok());
  std::vector<uint64_t> borders = {0};
  while (borders.size() < 4) borders.push_back((*writer)->NextBorder(borders.back() + 1));
  EXPECT_EQ((*writer)->NextBorder(0), 0u);
  EXPECT_EQ((*writer)->NextBorder(borders[2]), borders[2]);
  const auto share = [&](size_t number) {
    return std::string(borders[number + 1] - borders[number], static_cast<char>('a' + number));
  };
  const std::unique_ptr<Store> others[] = {ground_->OtherProcess(), ground_->OtherProcess()};
  {
    auto second = others[0]->JoinObject((*writer)->handle());
    auto last = others[1]->JoinObject((*writer)->handle());
    ASSERT_TRUE(second.ok() && last.ok()) << second.status().ToString() << last.status().ToString();
    EXPECT_EQ((*last)->NextBorder(borders[1] + 1), borders[2]);
    ASSERT_TRUE((*last)->WriteAt(borders[3], AsBytes("end")).ok());
    ASSERT_TRUE((*last)->FlushHint(borders[3], 3).ok());
    ASSERT_TRUE((*second)->WriteAt(borders[1], AsBytes(share(1))).ok());
    ASSERT_TRUE((*last)->Finish().ok());
    ASSERT_TRUE((*second)->Finish().ok());
  }
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes(share(0))).ok());
  ASSERT_TRUE(Committed(**writer));
  EXPECT_TRUE(Content("f/object") == share(0) + share(1) + std::string(share(2).size(), '\0') + "end");
}

TEST_P(StoreConformance, ASuccessorGoesOnWithAnObject) {
  std::string handle;
  {
    auto writer = store_.CreateObject("f/object", kAgent, 0);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("one")).ok());
    handle = (*writer)->handle();
  }
  EXPECT_EQ(Temporaries(), 1u) << "destruction leaves it";
  const std::unique_ptr<Store> successor = ground_->OtherProcess();
  auto writer = successor->AdoptObject("f/object", handle);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  // What the first wrote may have been lost.
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("onetwo")).ok());
  ASSERT_TRUE(Committed(**writer));
  EXPECT_EQ(Content("f/object"), "onetwo");
  EXPECT_EQ(successor->AdoptObject("f/object", handle).status().code(), Code::kNotFound);
  EXPECT_EQ(successor->JoinObject(handle).status().code(), Code::kNotFound);
}

TEST_P(StoreConformance, HandlesThatAreNoneAreRefused) {
  ASSERT_TRUE(PutObject("f/object", "x").ok());
  EXPECT_EQ(store_.JoinObject("f/object").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(store_.JoinObject("../f/object").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(store_.AdoptObject("f/object", "f/object").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(store_.RemoveTemporary("f/object").code(), Code::kInvalidArgument);
  EXPECT_EQ(Content("f/object"), "x");
}

TEST_P(StoreConformance, ReadingPastTheEndIsCorrupt) {
  ASSERT_TRUE(PutObject("object", "12345").ok());
  auto reader = store_.OpenObject("object");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->size_bytes(), 5u);
  Buffer bytes(3);
  ASSERT_TRUE((*reader)->ReadAt(2, bytes).ok());
  EXPECT_EQ(AsText(bytes), "345");
  EXPECT_EQ((*reader)->ReadAt(3, bytes).code(), Code::kCorrupt);
}

TEST_P(StoreConformance, RecordsAreCreatedOnce) {
  ASSERT_TRUE(store_.PutIfAbsent("r/record", Text("first"), kAgent, Folders::kCreate).ok());
  EXPECT_EQ(store_.PutIfAbsent("r/record", Text("second"), kTool, Folders::kCreate).code(), Code::kAlreadyExists);
  EXPECT_EQ(AsText(store_.Get("r/record", 100).value()), "first");
  EXPECT_EQ(store_.Get("r/record", 4).status().code(), Code::kCorrupt);
  EXPECT_EQ(store_.Get("r/none", 4).status().code(), Code::kNotFound);
  ASSERT_TRUE(store_.Replace("r/record", Text("third"), kAgent, Folders::kCreate).ok());
  EXPECT_EQ(AsText(store_.Get("r/record", 100).value()), "third");
  ASSERT_TRUE(store_.Replace("r/new", Text(""), kAgent, Folders::kCreate).ok());
  EXPECT_TRUE(store_.Get("r/new", 100).value().empty());
  EXPECT_EQ(Temporaries(), 0u);
}

TEST_P(StoreConformance, OfManyCreatorsOneWins) {
  std::atomic<int> won = 0;
  std::atomic<int> lost = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const Status status = store_.PutIfAbsent("r/" + std::to_string(i), Text(std::to_string(t)), kAgent, Folders::kCreate);
        ++(status.ok() ? won : lost);
        EXPECT_TRUE(status.ok() || status.code() == Code::kAlreadyExists) << status.ToString();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 10);
  EXPECT_EQ(lost, 30);
}

TEST_P(StoreConformance, FoldersThatMustExist) {
  EXPECT_EQ(store_.PutIfAbsent("g/record", Text("x"), kAgent, Folders::kMustExist).code(), Code::kNotFound);
  EXPECT_EQ(store_.Replace("g/record", Text("x"), kAgent, Folders::kMustExist).code(), Code::kNotFound);
  ASSERT_TRUE(store_.MakeFolder("g/h").ok());
  ASSERT_TRUE(store_.MakeFolder("g/h").ok()) << "again";
  EXPECT_TRUE(store_.PutIfAbsent("g/h/record", Text("x"), kAgent, Folders::kMustExist).ok());
  ASSERT_TRUE(ground_->OtherProcess()->RemoveFolder("g", "g/h/record", kTool).ok());
  EXPECT_EQ(store_.PutIfAbsent("g/h/record", Text("x"), kAgent, Folders::kMustExist).code(), Code::kNotFound);
  EXPECT_EQ(store_.List("g").status().code(), Code::kNotFound);
  EXPECT_TRUE(store_.PutIfAbsent("g/h/record", Text("y"), kAgent, Folders::kCreate).ok());
  EXPECT_TRUE(PutObject("g/i/object", "z").ok());
  EXPECT_EQ(Names("g"), (std::vector<std::string>{"h/", "i/"}));
}

TEST_P(StoreConformance, RemovingAFolderTakesAllOfItAndNothingElse) {
  ASSERT_TRUE(PutObject("f/data/object", "x").ok());
  ASSERT_TRUE(PutObject("f/version", "x").ok());
  ASSERT_TRUE(PutObject("f2/version", "x").ok());
  auto writer = store_.CreateObject("f/data/unfinished", kAgent, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(store_.RemoveFolder("f", "f/version", kAgent).ok());
  EXPECT_EQ(Names(""), std::vector<std::string>{"f2/"});
  EXPECT_EQ(Temporaries(), 0u);
  EXPECT_FALSE((*writer)->Commit().ok()) << "its folder is gone";
  EXPECT_EQ(Names(""), std::vector<std::string>{"f2/"}) << "and does not come back";
  EXPECT_TRUE(store_.RemoveFolder("f", "f/version", kAgent).ok()) << "again";
  EXPECT_TRUE(store_.RemoveFolder("never/there", "never/there/x", kAgent).ok());
}

TEST_P(StoreConformance, RemovingOneIsIdempotent) {
  ASSERT_TRUE(PutObject("f/object", "x").ok());
  ASSERT_TRUE(store_.Remove("f/object").ok());
  EXPECT_EQ(store_.OpenObject("f/object").status().code(), Code::kNotFound);
  EXPECT_TRUE(store_.Remove("f/object").ok());
  EXPECT_TRUE(store_.Remove("no/folder/either").ok());
}

TEST_P(StoreConformance, TemporariesSayWhoseTheyAre) {
  auto agent = store_.CreateObject("f/one", kAgent, 0);
  auto client = store_.CreateObject("f/g/two", {std::string(300, 'n'), 7, "r12"}, 0);
  ASSERT_TRUE(agent.ok() && client.ok());
  ASSERT_TRUE((*agent)->WriteAt(0, AsBytes("12345")).ok());
  auto found = store_.ListTemporaries("f", kTool);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 2u * GetParam().copies);
  std::stable_sort(found->begin(), found->end(), [](const auto& a, const auto& b) { return a.owner.attempt < b.owner.attempt; });
  const Temporary& one = found->front();
  const Temporary& two = found->back();
  EXPECT_EQ(one.owner, kAgent);
  EXPECT_TRUE(one.handle == (*agent)->handle() || GetParam().copies > 1);
  EXPECT_LE(one.bytes, 5u);
  EXPECT_GE(one.age_seconds, 0);
  EXPECT_LT(one.age_seconds, 60);
  EXPECT_EQ(two.owner.attempt, 7u);
  EXPECT_EQ(two.owner.writer, "r12");
  EXPECT_EQ(store_.ListTemporaries("f/g", kTool).value().size(), GetParam().copies);
  EXPECT_EQ(Names("f"), std::vector<std::string>{"g/"});
  for (const Temporary& its : *found) {
    if (its.owner.attempt != kAgent.attempt) continue;
    ASSERT_TRUE(store_.RemoveTemporary(its.handle).ok());
    ASSERT_TRUE(store_.RemoveTemporary(its.handle).ok()) << "again";
  }
  ASSERT_TRUE(store_.RemoveTemporary((*agent)->handle()).ok());
  EXPECT_FALSE((*agent)->Commit().ok());
  EXPECT_EQ(Temporaries(), 1u);
}

TEST_P(StoreConformance, AgesAreTheStoresOwn) {
  ASSERT_TRUE(store_.PutIfAbsent("r/record", Text("x"), kAgent, Folders::kCreate).ok());
  const Result<double> age = store_.AgeSeconds("r/record", kAgent);
  ASSERT_TRUE(age.ok()) << age.status().ToString();
  EXPECT_GE(*age, 0);
  EXPECT_LT(*age, 60);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = store_.AgeSeconds("r/record", kAgent).value();
  ASSERT_TRUE(store_.Touch("r/record", kAgent).ok());
  EXPECT_LT(store_.AgeSeconds("r/record", kAgent).value(), before + 1.05) << "whole seconds, on some stores";
  EXPECT_EQ(AsText(store_.Get("r/record", 10).value()), "x");
  EXPECT_EQ(store_.AgeSeconds("r/none", kAgent).status().code(), Code::kNotFound);
  EXPECT_EQ(store_.Touch("r/none", kAgent).code(), Code::kNotFound);
  EXPECT_EQ(Temporaries(), 0u);
}

TEST_P(StoreConformance, MakingDurableNeedsTheThing) {
  ASSERT_TRUE(store_.PutIfAbsent("r/a", Text("x"), kAgent, Folders::kCreate).ok());
  ASSERT_TRUE(PutObject("s/b", "y").ok());
  const std::vector<std::string> keys = {"r/a", "s/b"};
  const std::unique_ptr<Store> other = ground_->OtherProcess();
  EXPECT_TRUE(other->EnsureDurable(keys).ok());
  EXPECT_TRUE(other->EnsureDurable({}).ok());
  const std::vector<std::string> missing = {"r/a", "r/none"};
  EXPECT_EQ(other->EnsureDurable(missing).code(), Code::kNotFound);
}

TEST_P(StoreConformance, BadKeysAreRefused) {
  for (const std::string& key : {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("../a"),
                                 std::string("a/./b"), std::string("a\0b", 3), std::string("a/") + std::string(256, 'x')}) {
    EXPECT_EQ(store_.CreateObject(key, kAgent, 0).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store_.PutIfAbsent(key, {}, kAgent, Folders::kCreate).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store_.Remove(key).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store_.RemoveFolder(key, "x", kAgent).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store_.Get(key, 1).status().code(), Code::kInvalidArgument) << key;
  }
}

TEST_P(StoreConformance, SpaceIsToldWhereTheStoreDoes) {
  const Result<StoreSpace> space = store_.Space();
  if (space.status().code() == Code::kUnsupported) return;
  ASSERT_TRUE(space.ok()) << space.status().ToString();
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->available_bytes, space->total_bytes);
}

TEST_P(StoreConformance, ListsAreSortedAndMissingFoldersAreTold) {
  for (const char* key : {"f/c", "f/a", "f/b/x"}) ASSERT_TRUE(PutObject(key, "x").ok());
  EXPECT_EQ(Names("f"), (std::vector<std::string>{"a", "b/", "c"}));
  EXPECT_EQ(Names(""), std::vector<std::string>{"f/"});
  EXPECT_EQ(store_.List("none").status().code(), Code::kNotFound);
}

inline std::string NameOfCase(const ::testing::TestParamInfo<Case>& instance) {
  return instance.param.name;
}

}  // namespace
}  // namespace kedge::testing

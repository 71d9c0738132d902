// Each request of an S3 store may fail in each way, and nothing is lost, doubled or left behind.
//
// A script does all that a store is for. It runs once undisturbed through a proxy, which counts its requests; then once for each
// request and each fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "store/s3/s3_store.h"
#include "store/s3/testing/fault_fixture.h"
#include "store/s3/uploads.h"

namespace kedge::s3 {
namespace {

using testing::Content;
using testing::Fault;
using testing::FaultProxy;
using testing::kObjectBytes;
using testing::kWriter;
using testing::Moto;
using testing::Server;

constexpr uint64_t kScriptBytes = kPartBytesMin + 1000;  // two parts
constexpr size_t kSlowScriptsAtATime = 6;
// Of an answer that nobody is to wait for, and of who does not.
constexpr std::chrono::seconds kStall{100};
constexpr std::chrono::seconds kNoStall{50};

class S3Faults : public testing::FaultFixture {};

Status Expect(bool holds, const std::string& what) {
  return holds ? Status::Ok() : Status(Code::kInternal, "not so: " + what);
}

// Both fail with the first thing that is not as it should be.
Status RecordScript(Store& store) {
  KEDGE_RETURN_IF_ERROR(store.PutIfAbsent("a/record", AsBytes("one"), kWriter, Folders::kCreate));
  KEDGE_RETURN_IF_ERROR(
      Expect(store.PutIfAbsent("a/record", AsBytes("two"), kWriter, Folders::kMustExist).code() == Code::kAlreadyExists,
             "the second creator is told so"));
  KEDGE_ASSIGN_OR_RETURN(const Buffer record, store.Get("a/record", 100));
  KEDGE_RETURN_IF_ERROR(Expect(AsText(record) == "one", "the record is the first creator's"));
  KEDGE_RETURN_IF_ERROR(store.Replace("a/other", AsBytes("three"), kWriter, Folders::kCreate));
  KEDGE_RETURN_IF_ERROR(store.MakeFolder("a/folder"));
  KEDGE_ASSIGN_OR_RETURN(const auto entries, store.List("a"));
  KEDGE_RETURN_IF_ERROR(Expect(entries.size() == 3, "three entries"));
  KEDGE_ASSIGN_OR_RETURN(const int64_t before, store.Stamp("a/record"));
  KEDGE_RETURN_IF_ERROR(store.Touch("a/record", kWriter));
  KEDGE_ASSIGN_OR_RETURN(const int64_t after, store.Stamp("a/record"));
  KEDGE_RETURN_IF_ERROR(Expect(before != after, "a sign of life is seen"));
  KEDGE_RETURN_IF_ERROR(store.AgeSeconds("a/record", kWriter).status());
  const std::string keys[] = {"a/record", "a/other"};
  KEDGE_RETURN_IF_ERROR(store.EnsureDurable(keys));
  KEDGE_RETURN_IF_ERROR(store.Remove("a/other"));
  KEDGE_RETURN_IF_ERROR(store.RemoveFolder("a", "a/record", kWriter));
  return Expect(store.List("a").status().code() == Code::kNotFound, "the folder is gone");
}

Status ObjectScript(Store& store) {
  const ByteSpan content = ByteSpan(Content()).first(kScriptBytes);
  KEDGE_ASSIGN_OR_RETURN(const auto writer, store.CreateObject("a/data/object", kWriter, content.size()));
  KEDGE_RETURN_IF_ERROR(writer->WriteAt(0, content));
  KEDGE_RETURN_IF_ERROR(writer->Commit());
  KEDGE_ASSIGN_OR_RETURN(const auto small, store.CreateObject("a/data/small", kWriter, 10));
  KEDGE_RETURN_IF_ERROR(small->WriteAt(0, AsBytes("0123456789")));
  KEDGE_RETURN_IF_ERROR(small->Commit());
  KEDGE_ASSIGN_OR_RETURN(const auto reader, store.OpenObject("a/data/object"));
  Buffer read(content.size());
  KEDGE_RETURN_IF_ERROR(reader->ReadAt(0, read));
  KEDGE_RETURN_IF_ERROR(
      Expect(std::memcmp(read.data(), content.data(), content.size()) == 0, "the object reads as it was written"));
  KEDGE_ASSIGN_OR_RETURN(const auto given_up, store.CreateObject("a/data/given-up", kWriter, 0));
  KEDGE_RETURN_IF_ERROR(given_up->WriteAt(0, content));
  KEDGE_RETURN_IF_ERROR(given_up->Abandon());
  KEDGE_RETURN_IF_ERROR(store.RemoveFolder("a", {}, kWriter));
  return Expect(store.List("a").status().code() == Code::kNotFound, "the folder is gone");
}

class S3FaultAtEachRequest : public S3Faults, public ::testing::WithParamInterface<Fault> {
 protected:
  void GoThrough(Status (*script)(Store&)) {
    proxy_.Use(nullptr);
    const Status undisturbed = script(*StoreAt(NewPrefix()));
    ASSERT_TRUE(undisturbed.ok()) << undisturbed.ToString();
    const std::vector<std::string> requests = proxy_.Requests();
    EXPECT_GT(requests.size(), 15u);
    // Faults that take their time are waited for together.
    const bool is_slow = GetParam() == Fault::kStalled || GetParam() == Fault::kTrickled;
    std::atomic<size_t> next{0};
    const auto go = [&] {
      for (size_t spoilt = next++; spoilt < requests.size() && !HasFailure(); spoilt = next++) {
        if (MayFail(requests[spoilt])) GoOnce(script, spoilt);
      }
    };
    std::vector<std::jthread> others;
    for (size_t i = 1; is_slow && i < kSlowScriptsAtATime; ++i) others.emplace_back(go);
    go();
  }

 private:
  // Only a completion fails with a good status.
  static bool MayFail(const std::string& request) {
    return GetParam() != Fault::kErrorIn200 || (request.starts_with("POST ") && request.find("uploadId=") != std::string::npos);
  }

  void GoOnce(Status (*script)(Store&), size_t spoilt) {
    std::string request;
    const std::string prefix = NewPrefix();
    FaultProxy proxy(Server().port());
    proxy.StallFor(kStall);
    std::atomic<bool> is_spoilt{false};
    proxy.Use([&](size_t number, const std::string& line) {
      if (number != spoilt) return Fault::kNone;
      request = line;
      is_spoilt = MayFail(line);
      return is_spoilt ? GetParam() : Fault::kNone;
    });
    const std::unique_ptr<Store> store = StoreThrough(proxy, prefix);
    const int64_t begin_ns = SystemClock().NowNs();
    const Status status = script(*store);
    EXPECT_LT(Duration(SystemClock().NowNs() - begin_ns), kNoStall) << "request " << spoilt << ", " << request;
    EXPECT_TRUE(is_spoilt) << "request " << spoilt << " was not made";
    EXPECT_TRUE(status.ok()) << "request " << spoilt << ", " << request << ": " << status.ToString();
    // The answer to a new upload was lost: nobody knows of it but the store, and gc.
    const auto left = store->ListTemporaries("", kWriter);
    ASSERT_TRUE(left.ok()) << left.status().ToString();
    for (const Temporary& temporary : *left) EXPECT_TRUE(store->RemoveTemporary(temporary.handle).ok());
    EXPECT_EQ(UploadsLeft(prefix), 0u) << "request " << spoilt << ", " << request;
  }
};

class S3FaultAtEachCompletion : public S3FaultAtEachRequest {};

TEST_P(S3FaultAtEachRequest, RecordsAndFolders) {
  GoThrough(&RecordScript);
}

TEST_P(S3FaultAtEachRequest, Objects) {
  GoThrough(&ObjectScript);
}

TEST_P(S3FaultAtEachCompletion, Objects) {
  GoThrough(&ObjectScript);
}

std::string NameOf(const ::testing::TestParamInfo<Fault>& instance) {
  return testing::FaultName(instance.param);
}

INSTANTIATE_TEST_SUITE_P(Faults, S3FaultAtEachRequest,
                         ::testing::Values(Fault::kCutBefore, Fault::kCutAfter, Fault::kError500, Fault::kError500After,
                                           Fault::kSlowDown503, Fault::kTruncated, Fault::kConflict409, Fault::kSkewed403,
                                           Fault::kStalled, Fault::kTrickled),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Faults, S3FaultAtEachCompletion, ::testing::Values(Fault::kErrorIn200), NameOf);

TEST_F(S3Faults, AServerThatDoesNotAnswerIsAskedAgain) {
  proxy_.StallFor(kStall);
  proxy_.Use([](size_t number, const std::string&) { return number == 1 ? Fault::kStalled : Fault::kNone; });
  const int64_t begin_ns = SystemClock().NowNs();
  const auto store = StoreAt(NewPrefix());
  const Status put = store->PutIfAbsent("record", AsBytes("x"), kWriter, Folders::kCreate);
  EXPECT_TRUE(put.ok()) << put.ToString();
  EXPECT_LT(Duration(SystemClock().NowNs() - begin_ns), kNoStall);
  EXPECT_EQ(AsText(store->Get("record", 10).value()), "x");
}

// What comes slowly comes: for longer than a silent server is waited for, and the request is not made again.
TEST_F(S3Faults, AnAnswerThatComesSlowlyIsWaitedFor) {
  const std::string prefix = NewPrefix();
  proxy_.Use(nullptr);
  ASSERT_TRUE(StoreAt(prefix)->Replace("record", AsBytes("slowly"), kWriter, Folders::kCreate).ok());
  proxy_.Use([](size_t, const std::string&) { return Fault::kTrickled; });
  const int64_t begin_ns = SystemClock().NowNs();
  const auto read = StoreAt(prefix)->Get("record", 10);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(AsText(*read), "slowly");
  EXPECT_GT(Duration(SystemClock().NowNs() - begin_ns), impatient_.silence_timeout);
  EXPECT_EQ(proxy_.Requests().size(), 1u);
}

TEST_F(S3Faults, AStoreInTroubleIsLeftAloneAfterAWhile) {
  proxy_.Use([](size_t, const std::string&) { return Fault::kSlowDown503; });
  impatient_.patience = std::chrono::seconds(2);
  impatient_.pause_first = std::chrono::milliseconds(50);
  const auto store = StoreAt(NewPrefix());
  const int64_t begin_ns = SystemClock().NowNs();
  const Status status = store->Get("record", 10).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("SlowDown"), std::string::npos) << status.ToString();
  EXPECT_LT(ToSeconds(Duration(SystemClock().NowNs() - begin_ns)), 10);
  EXPECT_LT(proxy_.Requests().size(), 30u) << "pauses grow";
}

// Whoever asks for several things loses its patience once.
TEST_F(S3Faults, AServerThatIsAwayIsAskedOnceForEachThing) {
  impatient_.patience = std::chrono::seconds(1);
  impatient_.away_timeout = std::chrono::milliseconds(300);  // a busy moto answers later than after 100 ms
  for (const Fault fault : {Fault::kCutBefore, Fault::kError500, Fault::kStalled}) {
    SCOPED_TRACE(testing::FaultName(fault));
    proxy_.Use([fault](size_t, const std::string&) { return fault; });
    const auto store = StoreAt(NewPrefix());
    EXPECT_EQ(store->Get("record", 10).status().code(), Code::kUnavailable);
    const int64_t begin_ns = SystemClock().NowNs();
    const size_t made = proxy_.Requests().size();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(store->Get("record", 10).status().code(), Code::kUnavailable);
    EXPECT_EQ(proxy_.Requests().size(), made + 5);
    EXPECT_LT(ToSeconds(Duration(SystemClock().NowNs() - begin_ns)), 2.5) << "none had the patience of the first";
    proxy_.Use(nullptr);
    EXPECT_EQ(store->Get("record", 10).status().code(), Code::kNotFound) << "it is back at once";
    proxy_.Use([](size_t number, const std::string&) { return number == 0 ? Fault::kError500 : Fault::kNone; });
    EXPECT_EQ(store->Get("record", 10).status().code(), Code::kNotFound) << "and requests are repeated again";
  }
}

TEST_F(S3Faults, AnUploadThatFailsForGoodLeavesNothing) {
  proxy_.Use([](size_t, const std::string& line) {
    return line.find("partNumber=2") != std::string::npos ? Fault::kError500 : Fault::kNone;
  });
  impatient_.patience = std::chrono::seconds(1);
  const std::string prefix = NewPrefix();
  const auto store = StoreAt(prefix);
  const auto writer = store->CreateObject("object", kWriter, kObjectBytes);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  static_cast<void>((*writer)->WriteAt(0, Content()));
  EXPECT_EQ((*writer)->Commit().code(), Code::kUnavailable);
  EXPECT_EQ(store->OpenObject("object").status().code(), Code::kNotFound);
  EXPECT_TRUE(store->ListTemporaries("", kWriter)->empty());
  EXPECT_EQ(UploadsLeft(prefix), 0u);
}

// The owner would complete the object of what is listed, with zeros for the rest.
TEST_F(S3Faults, WhoContributesIsToldOfAPartThatIsNotListed) {
  const auto store = StoreAt(NewPrefix());
  const auto writer = store->CreateObject("object", kWriter, 0);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  const auto contributor = store->JoinObject((*writer)->handle());
  ASSERT_TRUE(contributor.ok()) << contributor.status().ToString();
  proxy_.Use([](size_t, const std::string& line) {
    return line.find("partNumber=1") != std::string::npos ? Fault::kPretended204 : Fault::kNone;
  });
  ASSERT_TRUE((*contributor)->WriteAt(0, Content()).ok());
  EXPECT_EQ((*contributor)->Finish().code(), Code::kUnavailable);
  EXPECT_TRUE((*writer)->Abandon().ok());
}

// It is asked for as long as any request; then the object is given up, and a new one may be written.
TEST_F(S3Faults, ACompletionThatAlwaysMeetsAnotherRequestGivesTheObjectUp) {
  const auto is_completion = [](const std::string& line) {
    return line.starts_with("POST ") && line.find("uploadId=") != std::string::npos;
  };
  proxy_.Use([&](size_t, const std::string& line) { return is_completion(line) ? Fault::kConflict409 : Fault::kNone; });
  impatient_.patience = std::chrono::seconds(1);
  const std::string prefix = NewPrefix();
  const auto store = StoreAt(prefix);
  const auto write = [&] {
    const auto writer = store->CreateObject("object", kWriter, kObjectBytes);
    if (!writer.ok()) return writer.status();
    KEDGE_RETURN_IF_ERROR((*writer)->WriteAt(0, Content()));
    return (*writer)->Commit();
  };
  const Status given_up = write();
  EXPECT_EQ(given_up.code(), Code::kUnavailable) << given_up.ToString();
  EXPECT_NE(given_up.message().find("409"), std::string::npos) << given_up.ToString();
  EXPECT_GT(std::ranges::count_if(proxy_.Requests(), is_completion), 1);
  EXPECT_EQ(UploadsLeft(prefix), 0u);
  EXPECT_EQ(store->OpenObject("object").status().code(), Code::kNotFound);
  proxy_.Use(nullptr);
  const Status again = write();
  EXPECT_TRUE(again.ok()) << again.ToString();
  EXPECT_EQ((*store->OpenObject("object"))->size_bytes(), kObjectBytes);
}

// A server of old that knows nothing of If-None-Match: the second write to the probe succeeds.
TEST_F(S3Faults, AStoreThatOverwritesIsRefused) {
  proxy_.Use([](size_t, const std::string& line) {
    return line.find("conditional-writes") != std::string::npos ? Fault::kErrorIn200 : Fault::kNone;
  });
  const auto store = StoreAt(NewPrefix());
  const Status refused = store->PutIfAbsent("record", AsBytes("x"), kWriter, Folders::kCreate);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find("If-None-Match"), std::string::npos) << refused.ToString();
  EXPECT_EQ(store->Get("record", 10).status().code(), Code::kNotFound);
}

TEST_F(S3Faults, OfManyCreatorsOneWins) {
  for (testing::S3Server* const server : {&Moto(), &Server()}) {
    const std::string prefix = NewPrefix();
    std::atomic<int> winner{-1}, won{0};
    std::vector<std::thread> creators;
    for (int i = 0; i < 32; ++i) {
      creators.emplace_back([&, i] {
        const auto store = MakeS3Store(server->At(prefix), testing::TestEnvironment());
        const Status put = store->PutIfAbsent("record", AsBytes(std::to_string(i)), kWriter, Folders::kCreate);
        if (put.ok()) winner = i;
        won += put.ok() ? 1 : 0;
        EXPECT_TRUE(put.ok() || put.code() == Code::kAlreadyExists) << put.ToString();
      });
    }
    for (std::thread& creator : creators) creator.join();
    EXPECT_EQ(won, 1) << server->Endpoint();
    const auto there = MakeS3Store(server->At(prefix), testing::TestEnvironment())->Get("record", 10);
    ASSERT_TRUE(there.ok()) << there.status().ToString();
    EXPECT_EQ(AsText(*there), std::to_string(winner));
  }
}

// One checksum of the object, which no one has computed over all of its bytes.
TEST_F(S3Faults, TheServerComparesTheChecksumOfTheWhole) {
  if (!testing::HasVersitygw()) GTEST_SKIP() << "moto does not compare";
  const std::string prefix = NewPrefix();
  const auto store = MakeS3Store(Server().At(prefix, "&part=5MiB"), testing::TestEnvironment());
  const auto writer = store->CreateObject("object", kWriter, kObjectBytes);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  constexpr uint64_t kPieceBytes = 700001;  // no multiple of anything
  for (uint64_t at = 0; at < kObjectBytes; at += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, kObjectBytes - at);
    ASSERT_TRUE((*writer)->WriteAt(at, ByteSpan(Content()).subspan(at, bytes)).ok());
  }
  ASSERT_TRUE((*writer)->Commit().ok());
  Bucket bucket(Server().At(prefix), testing::TestEnvironment(), {});
  const Reply there = bucket.Do({.method = "HEAD", .key = "object", .headers = {{"x-amz-checksum-mode", "ENABLED"}}});
  ASSERT_TRUE(there.status.ok()) << there.status.ToString();
  EXPECT_EQ(there.answer.Header("x-amz-checksum-type"), "FULL_OBJECT");
  EXPECT_EQ(ParseChecksum(std::string(there.answer.Header("x-amz-checksum-crc32c"))),
            crc32c::Compute(Content().data(), Content().size()));

  // What is combined from parts of other lengths is another sum, though each part is what it was.
  Uploads uploads(bucket);
  const auto upload = uploads.Begin("other", Uploads::MakeHandle("other", kWriter));
  ASSERT_TRUE(upload.ok() && upload->is_summed_whole) << upload.status().ToString();
  std::vector<ListedPart> parts;
  for (const uint32_t number : {1u, 2u}) {
    const ByteSpan bytes = ByteSpan(Content()).subspan((number - 1) * kPartBytesMin, kPartBytesMin);
    const uint32_t sum = crc32c::Compute(bytes.data(), bytes.size());
    const Reply sent = bucket.Do(uploads.PartRequest(*upload, number, bytes, sum, nullptr));
    ASSERT_TRUE(sent.status.ok()) << sent.status.ToString();
    parts.push_back({number, std::string(sent.answer.Header("etag")), ChecksumText(sum), kPartBytesMin + number, 0});
  }
  EXPECT_FALSE(uploads.Settle(*upload, bucket.Do(Uploads::CompletionRequest(*upload, parts))).ok());
  EXPECT_TRUE(uploads.Abort(upload->key, upload->id).ok());
}

// A server takes its time to put parts together; the second completion has to come while the first waits.
TEST_F(S3Faults, ObjectsThatArePublishedTogetherAreCompletedTogether) {
  std::mutex mutex;
  std::condition_variable changed;
  int completions = 0;
  bool have_met = true;
  proxy_.Use([&](size_t, const std::string& line) {
    if (!line.starts_with("POST ") || line.find("uploadId=") == std::string::npos) return Fault::kNone;
    std::unique_lock lock(mutex);
    ++completions;
    changed.notify_all();
    have_met = changed.wait_for(lock, std::chrono::seconds(20), [&] { return completions == 2; }) && have_met;
    return Fault::kNone;
  });
  impatient_.silence_timeout = std::chrono::seconds(30);
  const auto store = StoreAt(NewPrefix());
  std::vector<std::unique_ptr<ObjectWriter>> owned;
  std::vector<ObjectWriter*> writers;
  for (const char* const key : {"one", "two", "small"}) {
    const uint64_t bytes = std::string(key) == "small" ? 100 : kObjectBytes;
    auto writer = store->CreateObject(key, kWriter, bytes);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    ASSERT_TRUE((*writer)->WriteAt(0, ByteSpan(Content()).first(bytes)).ok());
    writers.push_back(writer->get());
    owned.push_back(*std::move(writer));
  }
  for (const Status& status : store->Publish(writers)) EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(have_met);
  EXPECT_EQ((*store->OpenObject("two"))->size_bytes(), kObjectBytes);
  EXPECT_EQ((*store->OpenObject("small"))->size_bytes(), 100u);
}

TEST_F(S3Faults, AServerThatKnowsChecksumsOfPartsAloneDoes) {
  proxy_.Use([](size_t number, const std::string& line) {
    return number == 0 && line.find("?uploads") != std::string::npos ? Fault::kNotImplemented501 : Fault::kNone;
  });
  const auto store = StoreAt(NewPrefix());
  const auto writer = store->CreateObject("object", kWriter, kObjectBytes);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  ASSERT_TRUE((*writer)->WriteAt(0, Content()).ok());
  const Status committed = (*writer)->Commit();
  ASSERT_TRUE(committed.ok()) << committed.ToString();
  Buffer read(kObjectBytes);
  ASSERT_TRUE((*store->OpenObject("object"))->ReadAt(0, read).ok());
  EXPECT_TRUE(read == Content());
}

TEST_F(S3Faults, AnObjectIsReadWholeOrTheReaderIsTold) {
  proxy_.Use(nullptr);
  const auto store = StoreAt(NewPrefix());
  const auto put = [&](std::string_view text) {
    const auto writer = store->CreateObject("object", kWriter, text.size());
    ASSERT_TRUE((*writer)->WriteAt(0, AsBytes(text)).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  };
  put("first content");
  const auto reader = store->OpenObject("object");
  ASSERT_TRUE(reader.ok());
  put("other content");
  Buffer bytes(5);
  EXPECT_EQ((*reader)->ReadAt(0, bytes).code(), Code::kNotFound);
}

// As a restart reads: small pieces in order, which come from a few large requests.
TEST_F(S3Faults, WhoReadsInOrderFindsTheNextPiecesThere) {
  constexpr uint64_t kBytes = 100 << 20, kPieceBytes = (1 << 20) - 1;
  Buffer content(kBytes);
  Random(8).Fill(content.data(), content.size());
  proxy_.Use(nullptr);
  impatient_.silence_timeout = std::chrono::seconds(30);  // no request is sent again because the machine is busy
  const auto store = StoreAt(NewPrefix());
  const auto writer = store->CreateObject("object", kWriter, kBytes);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  ASSERT_TRUE((*writer)->WriteAt(0, content).ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  const auto reader = store->OpenObject("object");
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  proxy_.Use([](size_t number, const std::string&) { return number == 5 ? Fault::kCutAfter : Fault::kNone; });
  Buffer read(kBytes);
  for (uint64_t at = 0; at < kBytes; at += kPieceBytes) {
    const Status status = (*reader)->ReadAt(at, std::span(read).subspan(at, std::min(kPieceBytes, kBytes - at)));
    ASSERT_TRUE(status.ok()) << at << ": " << status.ToString();
  }
  EXPECT_TRUE(read == content);
  EXPECT_LT(proxy_.Requests().size(), 20u);
  // Elsewhere, and in order again from there; and a reader that goes while something is on its way.
  for (const uint64_t at : {kBytes / 2, kBytes / 2 + 1000, kBytes / 2 + 2000, kBytes - 1000, uint64_t{0}, uint64_t{1000}}) {
    Buffer piece(1000);
    ASSERT_TRUE((*reader)->ReadAt(at, piece).ok());
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), content.begin() + static_cast<ptrdiff_t>(at))) << at;
  }
}

// An upload without a marker, as a process leaves that is killed between the two: it is found, and goes.
TEST_F(S3Faults, UploadsOfNobodyAreFound) {
  const std::string prefix = NewPrefix();
  proxy_.Use(nullptr);
  Bucket bucket(Server().At(prefix), testing::TestEnvironment(), {});
  ASSERT_TRUE(bucket.Do({.method = "POST", .key = "a/b c", .query = {{"uploads", ""}}}).status.ok());
  const auto store = StoreAt(prefix);
  const auto found = store->ListTemporaries("a", kWriter);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].owner.attempt, 0u) << "of no attempt: its age tells";
  EXPECT_TRUE(store->RemoveTemporary((*found)[0].handle).ok());
  EXPECT_TRUE(store->ListTemporaries("", kWriter)->empty());
}

}  // namespace
}  // namespace kedge::s3

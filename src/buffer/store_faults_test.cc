// Stores on a burst buffer whose server, disk or client fails.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "buffer/testing/local_server.h"
#include "os/testing/faulty_file_system.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "store/catalog.h"
#include "store/retention.h"
#include "store/testing/promise_ledger.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::buffer {
namespace {

using namespace std::chrono_literals;
using os::testing::Call;
using os::testing::CallsOf;
using testing::LocalServer;

const TemporaryOwner kWriter{"node1", 1, "agent"};

Buffer RandomBytes(size_t bytes, uint64_t seed = 1) {
  Buffer content(bytes);
  Random(seed).Fill(content.data(), content.size());
  return content;
}

Status PutThere(Store& store, const std::string& key, ByteSpan content) {
  KEDGE_ASSIGN_OR_RETURN(const auto writer, store.CreateObject(key, kWriter, content.size()));
  const Status written = writer->WriteAt(0, content);
  if (!written.ok()) (void)writer->Abandon();
  return written.ok() ? writer->Commit() : written;
}

Result<Buffer> ReadThere(Store& store, const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(const auto reader, store.OpenObject(key));
  Buffer content(reader->size_bytes());
  KEDGE_RETURN_IF_ERROR(reader->ReadAt(0, content));
  return content;
}

TEST(BufferStore, LargeObjectsAndRecordsComeBack) {
  const LocalServer server;
  const auto store = server.Open("s");
  for (const size_t bytes : {kReadInMessageMax, kReadInMessageMax + 1, 37 * kBlockBytes + 12345}) {
    const Buffer content = RandomBytes(bytes, bytes);
    ASSERT_TRUE(PutThere(*store, "f/object", content).ok());
    EXPECT_TRUE(ReadThere(*store, "f/object").value() == content) << bytes;
  }
  for (const size_t bytes : {kRecordInMessageMax, kRecordInMessageMax + 1, 3 * kRecordInMessageMax}) {
    const Buffer content = RandomBytes(bytes, bytes);
    ASSERT_TRUE(store->Remove("f/record").ok());
    ASSERT_TRUE(store->PutIfAbsent("f/record", content, kWriter, Folders::kCreate).ok()) << bytes;
    EXPECT_EQ(store->PutIfAbsent("f/record", content, kWriter, Folders::kCreate).code(), Code::kAlreadyExists);
    EXPECT_TRUE(store->Get("f/record", bytes).value() == content);
    EXPECT_EQ(store->Get("f/record", bytes - 1).status().code(), Code::kCorrupt);
    EXPECT_TRUE(store->Replace("f/record", content, kWriter, Folders::kMustExist).ok());
  }
  const Buffer too_large(kStoreRecordBytesMax + 1);
  EXPECT_EQ(store->Replace("f/record", too_large, kWriter, Folders::kCreate).code(), Code::kUnsupported);
}

// As a restart reads: small pieces, one behind the other.
void ReadInOrder(ObjectReader& reader, const Buffer& content, uint64_t from, uint64_t piece_bytes) {
  Buffer read(content.size());
  for (uint64_t at = from; at < content.size(); at += piece_bytes) {
    const auto piece = std::span(read).subspan(at, std::min(piece_bytes, content.size() - at));
    const Status status = reader.ReadAt(at, piece);
    ASSERT_TRUE(status.ok()) << at << ": " << status.ToString();
    ASSERT_EQ(std::memcmp(piece.data(), content.data() + at, piece.size()), 0) << at;
  }
}

TEST(BufferStore, WhoReadsInOrderFindsTheNextPiecesThere) {
  const LocalServer server;
  const auto store = server.Open("s");
  const Buffer content = RandomBytes(5 * kPieceBytesMax + 12345);
  ASSERT_TRUE(PutThere(*store, "f/object", content).ok());
  for (const uint64_t piece_bytes : {uint64_t{512} << 10, kBlockBytes - 1, kPieceBytesMax - 1, 2 * kPieceBytesMax}) {
    const auto reader = store->OpenObject("f/object");
    ASSERT_TRUE(reader.ok());
    ReadInOrder(**reader, content, 0, piece_bytes);
    ReadInOrder(**reader, content, content.size() / 2, piece_bytes);
    ReadInOrder(**reader, content, 77, piece_bytes);
  }
  // It goes while something is on its way.
  const auto reader = store->OpenObject("f/object");
  Buffer piece(1000);
  for (const uint64_t at : {0, 1000, 2000}) ASSERT_TRUE((*reader)->ReadAt(at, piece).ok());
}

TEST(BufferStore, NothingIsReadAheadWhereOthersNeedTheMemory) {
  LocalServer::Options options;
  options.memory_bytes = 4 * kPieceBytesMax;  // the least
  const LocalServer server(os::PrivateFileSystem(), options);
  const auto store = server.Open("s");
  const Buffer content = RandomBytes(5 * kPieceBytesMax);
  ASSERT_TRUE(PutThere(*store, "f/object", content).ok());
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 6; ++i) {
    readers.emplace_back([&, i] {
      const auto reader = store->OpenObject("f/object");
      ASSERT_TRUE(reader.ok());
      ReadInOrder(**reader, content, 0, (uint64_t{512} << 10) + i);
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST(BufferStore, ListsHavePages) {
  const LocalServer server;
  const auto store = server.Open("s");
  ASSERT_TRUE(store->MakeFolder("f").ok());
  size_t files = 0;
  for (; files < 2 * kStoreListMax + 7; ++files)
    ASSERT_TRUE(
        os::WriteFileDurably(os::PrivateFileSystem(), fmt::format("{}/f/{:05}", server.StorePath("s"), files), "", "t").ok());
  const auto listed = store->List("f");
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), files);
  EXPECT_TRUE(std::ranges::is_sorted(*listed, {}, &StoreEntry::name));
  EXPECT_EQ(listed->back().name, fmt::format("{:05}", files - 1));
}

TEST(BufferStore, WithoutItsFolderNothingIsMadeWhereNothingMayBe) {
  const LocalServer server;
  const auto agent = server.Open("s", 15s, RootMaking::kNever);
  EXPECT_EQ(agent->PutIfAbsent("f/record", {}, kWriter, Folders::kCreate).code(), Code::kNotFound);
  EXPECT_TRUE(server.Open("s")->PutIfAbsent("f/record", {}, kWriter, Folders::kCreate).ok());
  EXPECT_TRUE(agent->PutIfAbsent("f/other", {}, kWriter, Folders::kCreate).ok());
}

TEST(BufferStore, OtherSecretsAndOtherOwnersSeeNothing) {
  const LocalServer server;
  ASSERT_TRUE(server.Open("s")->PutIfAbsent("record", {}, kWriter, Folders::kCreate).ok());
  const os::testing::TemporaryFolder other;
  StoreLocation location = server.Location("s");
  location.secret = other / "secret";
  ASSERT_TRUE(net::ReadOrMakeSecret(location.secret).ok());
  const auto forger = MakeBufferStore(location, RootMaking::kLast, {.patience = 10ms});
  EXPECT_TRUE(MeansNotReached(forger->Get("record", 10).status())) << forger->Get("record", 10).status().ToString();
  for (const char* outside : {"..", "../../files", "a/../../x"}) {
    StoreLocation up = server.Location(outside);
    EXPECT_EQ(MakeBufferStore(up, RootMaking::kLast)->List("").status().code(), Code::kInvalidArgument) << outside;
  }
}

// ---- The server ends ----

TEST(BufferStore, GoesOnWithTheNextServer) {
  LocalServer server;
  const auto store = server.Open("s");
  const Buffer content = RandomBytes(3 * kBlockBytes + 5);
  ASSERT_TRUE(PutThere(*store, "f/object", content).ok());
  const auto reader = store->OpenObject("f/object");
  ASSERT_TRUE(reader.ok());
  server.Stop();
  std::thread later([&] {
    std::this_thread::sleep_for(500ms);
    server.Start();
  });
  Buffer read(content.size());
  const Status again = (*reader)->ReadAt(0, read);
  later.join();
  ASSERT_TRUE(again.ok()) << again.ToString();
  EXPECT_TRUE(read == content);
  EXPECT_TRUE(store->PutIfAbsent("f/record", {}, kWriter, Folders::kMustExist).ok());
}

TEST(BufferStore, WhoReadsInOrderGoesOnWithTheNextServer) {
  LocalServer server;
  const auto store = server.Open("s");
  const Buffer content = RandomBytes(6 * kPieceBytesMax);
  ASSERT_TRUE(PutThere(*store, "f/object", content).ok());
  const auto reader = store->OpenObject("f/object");
  ASSERT_TRUE(reader.ok());
  Buffer read(uint64_t{512} << 10);
  for (uint64_t at = 0; at < content.size(); at += read.size()) {
    if (at == content.size() / 4 || at == content.size() / 2) {
      server.Stop();  // while more is on its way
      server.Start();
    }
    const Status status = (*reader)->ReadAt(at, read);
    ASSERT_TRUE(status.ok()) << at << ": " << status.ToString();
    ASSERT_EQ(std::memcmp(read.data(), content.data() + at, read.size()), 0) << at;
  }
}

// What was written is in the page cache of the server's machine: another server there goes on with it, whatever else is open by
// then.
TEST(BufferStore, AnObjectThatIsBeingWrittenGoesOnWithTheNextServer) {
  LocalServer server;
  const auto store = server.Open("s");
  auto writer = store->CreateObject("f/object", kWriter, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("one")).ok());
  server.Stop();
  server.Start();
  std::vector<std::unique_ptr<ObjectWriter>> others;
  for (int i = 0; i < 8; ++i) others.push_back(store->CreateObject("f/other" + std::to_string(i), kWriter, 0).value());
  ASSERT_TRUE((*writer)->FlushHint(0, 3, true).ok());
  ASSERT_TRUE((*writer)->WriteAt(3, AsBytes("two")).ok());
  server.Stop();
  server.Start();
  const Status committed = (*writer)->Commit();
  ASSERT_TRUE(committed.ok()) << committed.ToString();
  EXPECT_EQ(AsText(ReadThere(*store, "f/object").value()), "onetwo");
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(others[i]->Commit().ok());
    EXPECT_TRUE(ReadThere(*store, "f/other" + std::to_string(i)).value().empty());
  }
  EXPECT_TRUE(store->ListTemporaries("", kWriter).value().empty());
}

// After a crash of that machine the temporary may be there still, and hold zeros.
TEST(BufferStore, AnObjectThatACrashHasStruckIsNeverCommitted) {
  LocalServer server;
  const auto store = server.Open("s");
  auto written = store->CreateObject("f/written", kWriter, 0);
  auto whole = store->CreateObject("f/whole", kWriter, 0);
  ASSERT_TRUE((*written)->WriteAt(0, AsBytes("lost")).ok());
  ASSERT_TRUE((*whole)->WriteAt(0, AsBytes("lost")).ok());
  server.Stop();
  server.StartOn(os::PrivateFileSystem());
  EXPECT_EQ((*written)->WriteAt(4, AsBytes("x")).errno_value(), ESTALE);
  EXPECT_EQ((*written)->Commit().errno_value(), ESTALE);
  EXPECT_EQ((*whole)->Commit().errno_value(), ESTALE);
  EXPECT_EQ(store->OpenObject("f/written").status().code(), Code::kNotFound);
  EXPECT_EQ(store->OpenObject("f/whole").status().code(), Code::kNotFound);
  EXPECT_TRUE(store->ListTemporaries("", kWriter).value().empty());
  EXPECT_TRUE(PutThere(*store, "f/whole", AsBytes("anew")).ok());
}

TEST(BufferStore, ACommitThatFindsNobodyMayBeCalledAgain) {
  LocalServer server;
  const auto store = server.Open("s", 100ms);
  auto writer = store->CreateObject("f/object", kWriter, 0);
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("text")).ok());
  server.Stop();
  EXPECT_TRUE(MeansNotReached((*writer)->Commit()));
  server.Start();
  const Status committed = (*writer)->Commit();
  EXPECT_TRUE(committed.ok()) << committed.ToString();
  EXPECT_EQ(AsText(ReadThere(*store, "f/object").value()), "text");
  EXPECT_FALSE((*writer)->Commit().ok()) << "twice";
}

TEST(BufferStore, ServersThatStayAwayAreTold) {
  LocalServer server;
  const auto store = server.Open("s", 300ms);
  ASSERT_TRUE(store->PutIfAbsent("record", {}, kWriter, Folders::kCreate).ok());
  server.Stop();
  EXPECT_TRUE(MeansNotReached(store->Get("record", 10).status()));
  EXPECT_TRUE(MeansNotReached(store->List("").status()));
  EXPECT_TRUE(MeansNotReached(store->PutIfAbsent("other", {}, kWriter, Folders::kCreate)));
  server.Start();
  EXPECT_TRUE(store->Get("record", 10).ok());
  EXPECT_TRUE(store->PutIfAbsent("other", {}, kWriter, Folders::kCreate).ok());
}

// ---- The disk fails ----

// Its machine says so: nobody waits until a connection is given up, which takes some seconds.
TEST(BufferStore, AServerThatHasEndedIsFoundAtOnce) {
  LocalServer server;
  const auto known = server.Open("s", 100ms);
  ASSERT_TRUE(known->MakeFolder("f").ok());
  server.Stop();
  const auto unknown = server.Open("s", 100ms);
  const auto begin = std::chrono::steady_clock::now();
  for (Store* const store : {known.get(), unknown.get()}) {
    for (int i = 0; i < 3; ++i) {
      const Status status = store->List("f").status();
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
    }
    EXPECT_NE(store->List("f").status().message().find("burst buffer fast has ended"), std::string::npos);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 7s) << "two first requests of a second, and others that wait for nothing";
}

TEST(BufferStore, ErrorsOfTheDiskComeWithTheirErrno) {
  os::testing::FaultPlan plan;
  os::testing::FaultyFileSystem fs(os::PrivateFileSystem(), plan);
  const LocalServer server(fs);
  const auto store = server.Open("s");
  ASSERT_TRUE(store->MakeFolder("f").ok());
  for (const int errno_value : {ENOSPC, EIO, EDQUOT}) {
    for (const Call call : {Call::kPwrite, Call::kFsync}) {
      plan.Clear();
      plan.Add(
          {.calls = CallsOf(call), .path_contains = "/stores/s/", .count = os::testing::kForEver, .errno_value = errno_value});
      const Status written = PutThere(*store, "f/object", RandomBytes(100));
      EXPECT_EQ(written.errno_value(), errno_value) << written.ToString();
      EXPECT_EQ(store->PutIfAbsent("f/record", AsBytes("x"), kWriter, Folders::kCreate).errno_value(), errno_value);
    }
  }
  plan.Clear();
  EXPECT_EQ(store->OpenObject("f/object").status().code(), Code::kNotFound);
  EXPECT_EQ(store->Get("f/record", 10).status().code(), Code::kNotFound);
  EXPECT_TRUE(store->ListTemporaries("", kWriter).value().empty());
  plan.Add({.calls = CallsOf(Call::kPread), .path_contains = "/stores/s/", .count = os::testing::kForEver, .errno_value = EIO});
  ASSERT_TRUE(PutThere(*store, "f/object", RandomBytes(100)).ok());
  EXPECT_EQ(ReadThere(*store, "f/object").status().errno_value(), EIO);
}

TEST(BufferStore, QuotasHoldAndWhatIsRemovedIsFreeAgain) {
  const LocalServer server(os::PrivateFileSystem(), {.quota_bytes = 4 << 20});
  const auto store = server.Open("s");
  ASSERT_TRUE(PutThere(*store, "f/one", RandomBytes(3 << 20)).ok());
  const Status refused = PutThere(*store, "f/two", RandomBytes(2 << 20));
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_NE(refused.message().find("quota"), std::string::npos) << refused.ToString();
  EXPECT_TRUE(store->ListTemporaries("", kWriter).value().empty());
  EXPECT_EQ(server.UsedBytes(), uint64_t{3} << 20);
  EXPECT_LE(store->Space().value().available_bytes, uint64_t{1} << 20);
  ASSERT_TRUE(PutThere(*store, "f/one", RandomBytes(1 << 20)).ok()) << "replaces the larger one";
  EXPECT_EQ(server.UsedBytes(), uint64_t{1} << 20);
  ASSERT_TRUE(store->PutIfAbsent("f/record", RandomBytes(100), kWriter, Folders::kCreate).ok());
  EXPECT_FALSE(store->PutIfAbsent("f/record", RandomBytes(100), kWriter, Folders::kCreate).ok());
  EXPECT_EQ(server.UsedBytes(), (uint64_t{1} << 20) + 100);
  auto abandoned = store->CreateObject("f/three", kWriter, 0);
  ASSERT_TRUE((*abandoned)->WriteAt(1000, RandomBytes(1000)).ok());
  EXPECT_EQ(server.UsedBytes(), (uint64_t{1} << 20) + 2100);
  ASSERT_TRUE((*abandoned)->Abandon().ok());
  auto left = store->CreateObject("f/four", kWriter, 0);
  ASSERT_TRUE((*left)->WriteAt(0, RandomBytes(500)).ok());
  ASSERT_TRUE(store->RemoveFolder("f", "f/record", kWriter).ok());
  EXPECT_EQ((*left)->WriteAt(500, RandomBytes(500)).code(), Code::kNotFound);
  EXPECT_EQ(server.UsedBytes(), 0u);
  EXPECT_TRUE(PutThere(*store, "f/two", RandomBytes(4 << 20)).ok());
}

TEST(BufferStore, ANextServerCountsWhatItFinds) {
  LocalServer server;
  const auto store = server.Open("s");
  ASSERT_TRUE(PutThere(*store, "f/one", RandomBytes(1000)).ok());
  auto unfinished = store->CreateObject("f/two", kWriter, 0);
  ASSERT_TRUE((*unfinished)->WriteAt(0, RandomBytes(500)).ok());
  const std::string handle = (*unfinished)->handle();
  server.Stop();
  server.Start();
  EXPECT_EQ(server.UsedBytes(), 1500u);
  auto adopted = store->AdoptObject("f/two", handle);
  ASSERT_TRUE(adopted.ok());
  ASSERT_TRUE((*adopted)->WriteAt(0, RandomBytes(700)).ok());
  ASSERT_TRUE((*adopted)->Commit().ok());
  EXPECT_EQ(server.UsedBytes(), 1700u);
}

// ---- The machine of the server crashes at each call to its file system ----

const ::kedge::testing::MakerOptions kSmallImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {700, 9}, .chunk_bytes = 512, .piece_bytes = 300};

Status TakeSome(Store& store, ::kedge::testing::Ledger* ledger) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::OpenOrCreate(store, kWriter));
  for (int64_t version = 1; version <= 2; ++version) {
    const Generation generation{catalog.id(), "job", "grid", version, 1, 1};
    KEDGE_RETURN_IF_ERROR(::kedge::testing::TakeVersion(catalog, generation, kSmallImages));
    ledger->Acknowledge(generation);
  }
  ledger->AllowRemoval("grid", 1);
  return ApplyRetention(catalog, "job", "grid", {1, {}}, nullptr);
}

TEST(BufferStore, NothingAcknowledgedIsLostWhenTheServersMachineCrashes) {
  uint64_t calls = 0;
  uint64_t die_at = UINT64_MAX;
  bool counts = false;
  std::mutex mutex;
  const auto before = [&](Call, const std::string& path) {
    const std::lock_guard lock(mutex);
    if (!counts || path.find("/stores/") == std::string::npos) return os::testing::Interposition::kPass;
    return calls++ >= die_at ? os::testing::Interposition::kDie : os::testing::Interposition::kPass;
  };
  uint64_t all = 0;
  {
    os::testing::SimulatedFileSystem disk;
    os::testing::InterposedFileSystem fs(disk, before);
    const LocalServer server(fs, {.path = "/data"});
    counts = true;
    ::kedge::testing::Ledger ledger;
    ASSERT_TRUE(TakeSome(*server.Open("s"), &ledger).ok());
    all = calls;
  }
  ASSERT_GT(all, 100u);
  constexpr uint64_t kCrashes = 40;  // starting servers takes a while; each step is met in some run
  for (uint64_t crash = 0; crash < kCrashes; ++crash) {
    die_at = crash * all / kCrashes + Random(crash).Below(std::max<uint64_t>(all / kCrashes, 1));
    SCOPED_TRACE("at call " + std::to_string(die_at));
    os::testing::SimulatedFileSystem disk({.seed = crash});
    os::testing::InterposedFileSystem fs(disk, before);
    counts = false;
    LocalServer server(fs, {.path = "/data"});
    calls = 0;
    counts = true;
    ::kedge::testing::Ledger ledger;
    (void)TakeSome(*server.Open("s", 10ms), &ledger);
    server.Stop();
    counts = false;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto crashed = disk.Clone();
      crashed->Crash(MixSeed(crash, seed));
      server.StartOn(*crashed);
      const auto store = server.Open("s");
      const auto catalog = Catalog::OpenOrCreate(*store, kWriter);
      ASSERT_TRUE(catalog.ok()) << catalog.status().ToString();
      const Status kept = ledger.Check(*catalog);
      EXPECT_TRUE(kept.ok()) << kept.ToString();
      server.Stop();
    }
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace kedge::buffer

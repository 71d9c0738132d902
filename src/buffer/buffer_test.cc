// Server and clients in one process, over the real network.
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "buffer/buffer_server.h"
#include "burst/client.h"
#include "os/files/files.h"
#include "os/process/thread.h"
#include "os/testing/faulty_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::buffer {
namespace {

using namespace std::chrono_literals;

Buffer Pattern(size_t bytes, uint64_t seed = 1) {
  Buffer content(bytes);
  Random(seed).Fill(content.data(), content.size());
  return content;
}

class BufferTest : public ::testing::Test {
 protected:
  void TearDown() override { Stop(); }

  void Start(uint64_t capacity_bytes = 0, uint64_t quota_bytes = 0, uint64_t memory_bytes = uint64_t{64} << 20) {
    net::SetFabricDefaults();
    loop_ = os::EventLoop::Create().value();
    ServerOptions options;
    options.name = "fast";
    options.path = root_ / "data";
    options.folder = root_.path();
    options.capacity_bytes = capacity_bytes;
    options.memory_bytes = memory_bytes;
    options.owners = {{"alice", alice_, quota_bytes}, {"bob", bob_, 0}};
    options.interface_address = "127.0.0.1";
    auto server = BufferServer::Start(std::move(options), *loop_, fs_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    thread_ = os::StartThread("test-loop", [this] { EXPECT_TRUE(loop_->Run().ok()); }).value();
  }
  void Stop() {
    if (!thread_.joinable()) return;
    loop_->Stop();
    thread_.join();
    server_.reset();
    loop_.reset();
  }
  Json Describe() {
    std::promise<Json> described;
    loop_->Post([&] { described.set_value(server_->Describe()); });
    return described.get_future().get();
  }

  std::shared_ptr<Client> Connect(const std::string& owner, const net::Secret& secret) {
    ClientOptions options;
    options.server = "fast";
    options.folder = root_.path();
    options.owner = owner;
    options.secret = secret;
    options.interface_address = "127.0.0.1";
    auto client = Client::Open(options);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    return client.ok() ? *client : nullptr;
  }
  static Status Put(const std::shared_ptr<Client>& client, const std::string& path, ByteSpan content,
                    size_t at_a_time = 1 << 30) {
    KEDGE_ASSIGN_OR_RETURN(const auto upload, Upload::Open(client, path));
    for (size_t at = 0; at < content.size(); at += at_a_time)
      KEDGE_RETURN_IF_ERROR(upload->Write(content.subspan(at, std::min(at_a_time, content.size() - at))));
    return upload->Close(false);
  }
  static Result<Buffer> Get(const std::shared_ptr<Client>& client, const std::string& path, size_t at_a_time = 1 << 30) {
    KEDGE_ASSIGN_OR_RETURN(const auto download, Download::Open(client, path));
    Buffer content(download->bytes() + 1);
    size_t done = 0;
    for (;;) {
      KEDGE_ASSIGN_OR_RETURN(const size_t bytes,
                             download->Read(std::span(content).subspan(done, std::min(at_a_time, content.size() - done))));
      if (bytes == 0) break;
      done += bytes;
    }
    content.resize(done);
    return content;
  }
  std::string DataPath(const std::string& path) const { return root_ / ("data/owners/alice/" + path); }
  bool NothingIsBeingWritten() {
    const Deadline deadline(SystemClock(), 30s);
    const auto is_empty = [&] { return os::PrivateFileSystem().List(DataPath("incoming"))->empty(); };
    while (!is_empty() && !deadline.Passed()) std::this_thread::sleep_for(5ms);
    return is_empty();
  }

  os::testing::TemporaryFolder root_;
  os::testing::FaultPlan plan_;
  os::testing::FaultyFileSystem fs_{os::PrivateFileSystem(), plan_};
  const net::Secret alice_ = net::Secret::Generate();
  const net::Secret bob_ = net::Secret::Generate();
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<BufferServer> server_;
  std::thread thread_;
};

TEST_F(BufferTest, WhatIsWrittenComesBack) {
  Start();
  const auto client = Connect("alice", alice_);
  for (const size_t bytes : {size_t{0}, size_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1, 21 * kBlockBytes + 123}) {
    const Buffer content = Pattern(bytes, bytes);
    const Status put = Put(client, "dir/file", content);
    ASSERT_TRUE(put.ok()) << put.ToString();
    const auto got = Get(client, "dir/file");
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_TRUE(*got == content) << bytes;
  }
  const Buffer content = Pattern(5 * kBlockBytes + 7);
  ASSERT_TRUE(Put(client, "odd", content, 300'001).ok());
  EXPECT_TRUE(Get(client, "odd", 77'777).value() == content);
}

TEST_F(BufferTest, AFileIsSeenWhenItIsClosedAndTheFormerOneUntilThen) {
  Start();
  const auto client = Connect("alice", alice_);
  const Buffer first = Pattern(1000, 1), second = Pattern(2 * kBlockBytes, 2);
  {
    const auto upload = Upload::Open(client, "file");
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Write(first).ok());
    EXPECT_EQ(Get(client, "file").status().code(), Code::kNotFound);
    ASSERT_TRUE((*upload)->Close(true).ok());
    EXPECT_EQ((*upload)->Close(true).code(), Code::kFailedPrecondition);
  }
  {
    const auto upload = Upload::Open(client, "file");
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Write(second).ok());
    EXPECT_TRUE(Get(client, "file").value() == first);
  }
  // It was given up.
  EXPECT_TRUE(NothingIsBeingWritten());
  EXPECT_TRUE(Get(client, "file").value() == first);
  ASSERT_TRUE(Put(client, "file", second).ok());
  EXPECT_TRUE(Get(client, "file").value() == second);
  EXPECT_EQ(Describe()["used_bytes"], second.size() + TableBytes(second.size()));
}

TEST_F(BufferTest, AClientsEndRemovesWhatItWasWriting) {
  Start();
  auto client = Connect("alice", alice_);
  auto upload = Upload::Open(client, "file");
  ASSERT_TRUE(upload.ok());
  ASSERT_TRUE((*upload)->Write(Pattern(kBlockBytes)).ok());
  EXPECT_FALSE(os::PrivateFileSystem().List(DataPath("incoming"))->empty());
  client->network().Close();
  EXPECT_TRUE(NothingIsBeingWritten());
  EXPECT_EQ(Describe()["used_bytes"], 0);
  EXPECT_EQ(Describe()["being_written"], 0);
}

TEST_F(BufferTest, OwnersSeeTheirOwnFilesOnly) {
  Start();
  const auto alice = Connect("alice", alice_), bob = Connect("bob", bob_);
  ASSERT_TRUE(Put(alice, "file", Pattern(10)).ok());
  EXPECT_EQ(Get(bob, "file").status().code(), Code::kNotFound);
  EXPECT_EQ(bob->Remove("file").code(), Code::kNotFound);
  for (const char* path : {"../alice/files/file", "../../alice/files/file", "/etc/passwd", "a/../../x"}) {
    EXPECT_EQ(Get(bob, path).status().code(), Code::kInvalidArgument) << path;
    EXPECT_EQ(Put(bob, path, Pattern(10)).code(), Code::kInvalidArgument) << path;
    EXPECT_EQ(bob->Remove(path).code(), Code::kInvalidArgument) << path;
  }
  EXPECT_TRUE(Get(alice, "file").ok());
  // With Bob's secret nobody is Alice.
  const auto liar = Connect("alice", bob_);
  EXPECT_EQ(Get(liar, "file").status().code(), Code::kTimeout);
  EXPECT_EQ(Put(Connect("carol", bob_), "file", Pattern(10)).code(), Code::kTimeout);
}

TEST_F(BufferTest, QuotaAndCapacityAreKept) {
  Start(4 * kBlockBytes, 2 * kBlockBytes);
  const auto alice = Connect("alice", alice_), bob = Connect("bob", bob_);
  const Status over = Put(alice, "large", Pattern(2 * kBlockBytes + 1));
  EXPECT_EQ(over.code(), Code::kNoSpace);
  EXPECT_NE(over.message().find("the quota of owner alice of burst buffer fast is used up"), std::string::npos) << over.message();
  EXPECT_NE(over.message().find("remove files"), std::string::npos) << over.message();
  EXPECT_TRUE(NothingIsBeingWritten());
  ASSERT_TRUE(Put(alice, "small", Pattern(kBlockBytes)).ok());
  EXPECT_EQ(Put(alice, "second", Pattern(kBlockBytes)).code(), Code::kNoSpace);
  const Status full = Put(bob, "larger", Pattern(3 * kBlockBytes));
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_NE(full.message().find("the capacity of burst buffer fast"), std::string::npos) << full.message();
  ASSERT_TRUE(alice->Remove("small").ok());
  EXPECT_TRUE(Put(alice, "second", Pattern(kBlockBytes)).ok());
  // A successor counts what is there.
  const Json before = Describe();
  Stop();
  Start(4 * kBlockBytes, 2 * kBlockBytes);
  EXPECT_EQ(Describe()["used_bytes"], before["used_bytes"]);
  EXPECT_EQ(Put(Connect("alice", alice_), "third", Pattern(kBlockBytes)).code(), Code::kNoSpace);
}

TEST_F(BufferTest, AFlippedByteIsNotReturned) {
  Start();
  const auto client = Connect("alice", alice_);
  ASSERT_TRUE(Put(client, "file", Pattern(6 * kBlockBytes)).ok());
  const std::string path = DataPath("files/file");
  const auto file = os::PrivateFileSystem().Open(path, os::OpenFlags::kReadWrite).value();
  std::byte byte{};
  ASSERT_TRUE(os::ReadAll(*file, &byte, 1, 5 * kBlockBytes + 17).ok());
  byte ^= std::byte{1};
  ASSERT_TRUE(os::WriteAll(*file, &byte, 1, 5 * kBlockBytes + 17).ok());
  const Status damaged = Get(client, "file").status();
  EXPECT_EQ(damaged.code(), Code::kCorrupt);
  EXPECT_NE(damaged.message().find("file: the block at 5242880 fails its checksum"), std::string::npos) << damaged.message();
}

TEST_F(BufferTest, AFailingDiskIsToldAndLeavesNothing) {
  Start();
  const auto client = Connect("alice", alice_);
  const Buffer former = Pattern(100, 7);
  ASSERT_TRUE(Put(client, "file", former).ok());
  using os::testing::Call;
  const struct {
    Call call;
    int errno_value;
    Code code;
  } faults[] = {{Call::kPwrite, EDQUOT, Code::kNoSpace}, {Call::kOpen, EROFS, Code::kPermission},
                {Call::kPwrite, ENOSPC, Code::kNoSpace}, {Call::kPwrite, EIO, Code::kIo},
                {Call::kFsync, EIO, Code::kIo},          {Call::kClose, EIO, Code::kIo},
                {Call::kRename, EIO, Code::kIo},         {Call::kOpen, ENOSPC, Code::kNoSpace}};
  for (const auto& fault : faults) {
    os::testing::FaultRule rule;
    rule.calls = os::testing::CallsOf(fault.call);
    rule.path_contains = "incoming/";
    rule.errno_value = fault.errno_value;
    plan_.Add(rule);
    auto upload = Upload::Open(client, "file");
    Status status = upload.status();
    if (status.ok()) status = (*upload)->Write(Pattern(3 * kBlockBytes));
    if (status.ok()) status = (*upload)->Close(true);
    EXPECT_EQ(status.code(), fault.code) << status.ToString();
    EXPECT_EQ(status.errno_value(), fault.errno_value) << status.ToString();
    plan_.Clear();
    if (upload.ok()) upload->reset();
    EXPECT_TRUE(NothingIsBeingWritten()) << os::testing::CallName(fault.call);
    EXPECT_TRUE(Get(client, "file").value() == former) << os::testing::CallName(fault.call);
  }
  os::testing::FaultRule rule;
  rule.calls = os::testing::CallsOf(Call::kPread);
  rule.skip = 2;  // the table's
  rule.errno_value = EIO;
  plan_.Add(rule);
  const Status failed = Get(client, "file").status();
  EXPECT_EQ(failed.code(), Code::kIo);
  EXPECT_EQ(failed.errno_value(), EIO);
}

TEST_F(BufferTest, WhatIsAppendedGoesInTheBackground) {
  Start();
  const auto client = Connect("alice", alice_);
  const Buffer content = Pattern(23 * kBlockBytes + 5);
  const auto upload = Upload::Open(client, "file").value();
  const ByteSpan bytes(content);
  ASSERT_TRUE(upload->Append(bytes.first(3)).ok());
  ASSERT_TRUE(upload->Append(bytes.subspan(3, 2 * kBlockBytes)).ok());
  // Directly, from where the buffers have not been sent yet.
  size_t at = 3 + 2 * kBlockBytes;
  ASSERT_TRUE(upload->Write(bytes.subspan(at, 5 * kBlockBytes + 1)).ok());
  at += 5 * kBlockBytes + 1;
  while (at < content.size()) {
    const auto room = upload->Room();
    ASSERT_TRUE(room.ok() && !room->empty());
    const size_t part = std::min<size_t>({room->size(), content.size() - at, 700'001});
    std::copy_n(content.begin() + static_cast<ptrdiff_t>(at), part, room->begin());
    ASSERT_TRUE(upload->Fill(part).ok());
    at += part;
    EXPECT_EQ(upload->position(), at);
  }
  ASSERT_TRUE(upload->Close(false).ok());
  EXPECT_TRUE(Get(client, "file").value() == content);
}

TEST_F(BufferTest, AnErrorInTheBackgroundIsToldAtCloseAtTheLatest) {
  Start();
  const auto client = Connect("alice", alice_);
  os::testing::FaultRule rule;
  rule.calls = os::testing::CallsOf(os::testing::Call::kPwrite);
  rule.path_contains = "incoming/";
  rule.errno_value = ENOSPC;
  rule.count = 1000;
  plan_.Add(rule);
  {
    const auto upload = Upload::Open(client, "file").value();
    ASSERT_TRUE(upload->Append(Pattern(100)).ok());
    EXPECT_EQ(upload->Close(false).code(), Code::kNoSpace);
    EXPECT_EQ(upload->Append(Pattern(100)).code(), Code::kNoSpace) << "it is of no more use";
  }
  EXPECT_TRUE(NothingIsBeingWritten());
  {
    const auto upload = Upload::Open(client, "file").value();
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) status = upload->Append(Pattern(kBlockBytes));
    EXPECT_EQ(status.code(), Code::kNoSpace);
  }
  EXPECT_TRUE(NothingIsBeingWritten());
}

TEST_F(BufferTest, ReadingGoesOnElsewhere) {
  Start();
  const auto client = Connect("alice", alice_);
  const Buffer content = Pattern(11 * kBlockBytes + 9);
  ASSERT_TRUE(Put(client, "file", content).ok());
  const auto download = Download::Open(client, "file").value();
  EXPECT_EQ(download->Seek(content.size() + 1).code(), Code::kInvalidArgument);
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    // Near to where it is, at a block, or anywhere; a little, or several blocks.
    const uint64_t near = download->position() + random.Below(3000) - std::min<uint64_t>(download->position(), 1500);
    const uint64_t anywhere = random.Below(content.size() + 1);
    const uint64_t places[] = {std::min<uint64_t>(near, content.size()), anywhere / kBlockBytes * kBlockBytes, anywhere,
                               content.size(), download->position()};
    const uint64_t offset = places[random.Below(std::size(places))];
    ASSERT_TRUE(download->Seek(offset).ok());
    EXPECT_EQ(download->position(), offset);
    std::vector<std::byte> bytes(random.Below(i % 3 == 0 ? 3 * kBlockBytes : 5000));
    const auto read = download->Read(bytes);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    ASSERT_EQ(*read, std::min<uint64_t>(bytes.size(), content.size() - offset));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(*read),
                           content.begin() + static_cast<ptrdiff_t>(offset)))
        << offset;
    EXPECT_EQ(download->position(), offset + *read);
  }
}

TEST_F(BufferTest, WhatIsNotReadAfterAllHoldsNoMemory) {
  Start(0, 0, kMemoryBytesMin);
  const auto client = Connect("alice", alice_), other = Connect("alice", alice_);
  const Buffer content = Pattern(9 * kBlockBytes);
  ASSERT_TRUE(Put(client, "file", content).ok());
  const Deadline deadline(SystemClock(), 25s);  // what is held is given up after 30
  const auto download = Download::Open(client, "file").value();
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(download->Seek(i * 5 % 9 * kBlockBytes + 1).ok());
    std::byte one{};
    if (i % 2 == 0) {
      ASSERT_TRUE(download->Read({&one, 1}).ok());
    }
  }
  EXPECT_TRUE(Get(other, "file").value() == content);
  EXPECT_FALSE(deadline.Passed());
}

TEST_F(BufferTest, WhoeverStopsReadingKeepsHisConnection) {
  Start();
  const auto client = Connect("alice", alice_);
  const Buffer content = Pattern(9 * kBlockBytes);
  ASSERT_TRUE(Put(client, "file", content).ok());
  std::byte one{};
  for (int i = 0; i < 40; ++i) {
    const auto download = Download::Open(client, "file");
    ASSERT_TRUE(download.ok()) << download.status().ToString();
    ASSERT_TRUE((*download)->Read({&one, 1}).ok());
  }
  EXPECT_TRUE(Get(client, "file").value() == content);
}

TEST_F(BufferTest, FilesAndRoomAreListedForTheirOwner) {
  Start(100 * kBlockBytes, 10 * kBlockBytes);
  const auto alice = Connect("alice", alice_), bob = Connect("bob", bob_);
  for (const char* path : {"b", "a/2", "a/1", "ab"}) ASSERT_TRUE(Put(alice, path, Pattern(1000)).ok());
  ASSERT_TRUE(Put(bob, "a/3", Pattern(10)).ok());
  const auto paths = [](const std::shared_ptr<Client>& client, const std::string& prefix) {
    std::vector<std::string> found;
    for (const FileEntry& entry : client->List(prefix).value()) {
      found.push_back(entry.path);
      EXPECT_EQ(entry.bytes, client->List(entry.path)->front().bytes);
      EXPECT_GT(entry.modified_ns, 0);
    }
    return found;
  };
  EXPECT_EQ(paths(alice, ""), (std::vector<std::string>{"a/1", "a/2", "ab", "b"}));
  EXPECT_EQ(paths(alice, "a/"), (std::vector<std::string>{"a/1", "a/2"}));
  EXPECT_EQ(paths(alice, "a/1"), (std::vector<std::string>{"a/1"}));
  EXPECT_TRUE(paths(alice, "c").empty());
  EXPECT_TRUE(paths(alice, "../bob").empty());
  EXPECT_EQ(paths(bob, ""), (std::vector<std::string>{"a/3"}));
  EXPECT_EQ(alice->List("b")->front().bytes, 1000u);
  const Description description = alice->Describe().value();
  EXPECT_EQ(description.own_bytes, 4 * (1000 + TableBytes(1000)));
  EXPECT_EQ(description.used_bytes, description.own_bytes + 10 + TableBytes(10));
  EXPECT_EQ(description.quota_bytes, 10 * kBlockBytes);
  EXPECT_EQ(description.capacity_bytes, 100 * kBlockBytes);
  EXPECT_GT(description.free_bytes, 0u);
  EXPECT_EQ(bob->Describe()->quota_bytes, 0u);
}

TEST_F(BufferTest, AFileGetsAnotherName) {
  Start();
  const auto client = Connect("alice", alice_);
  const Buffer first = Pattern(1000, 1), second = Pattern(3000, 2);
  ASSERT_TRUE(Put(client, "a", first).ok());
  ASSERT_TRUE(Put(client, "dir/b", second).ok());
  EXPECT_EQ(client->Rename("none", "a").code(), Code::kNotFound);
  EXPECT_EQ(client->Rename("a", "../bob/files/a").code(), Code::kInvalidArgument);
  ASSERT_TRUE(client->Rename("a", "a").ok());
  ASSERT_TRUE(client->Rename("a", "dir/b").ok());
  EXPECT_TRUE(Get(client, "dir/b").value() == first);
  EXPECT_EQ(Get(client, "a").status().code(), Code::kNotFound);
  EXPECT_EQ(Describe()["used_bytes"], first.size() + TableBytes(first.size()));
}

TEST_F(BufferTest, LittleMemoryServesMany) {
  Start(0, 0, kMemoryBytesMin);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const auto client = Connect("alice", alice_);
      const std::string path = "file" + std::to_string(i);
      const Buffer content = Pattern(13 * kBlockBytes + i, i);
      const Status put = Put(client, path, content);
      EXPECT_TRUE(put.ok()) << put.ToString();
      const auto got = Get(client, path, 3 * kBlockBytes + 5);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      EXPECT_TRUE(*got == content);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(BufferTest, AClientHasSoManyFilesOpenAndNoMore) {
  Start();
  const auto client = Connect("alice", alice_);
  std::vector<std::unique_ptr<Upload>> open;
  Status refused;
  while (refused.ok() && open.size() < 1000) {
    auto upload = Upload::Open(client, "file" + std::to_string(open.size()));
    if (upload.ok()) open.push_back(std::move(*upload));
    refused = upload.status();
  }
  EXPECT_EQ(open.size(), 256u);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.ToString();
  EXPECT_TRUE(Put(Connect("alice", alice_), "other", Pattern(10)).ok());
  open.pop_back();
  EXPECT_TRUE(Put(client, "file", Pattern(10)).ok());
}

TEST_F(BufferTest, ASecondServerOfAFolderIsRefused) {
  Start();
  ServerOptions options;
  options.name = "other";
  options.path = root_ / "data";
  options.folder = root_.path();
  options.owners = {{"alice", alice_, 0}};
  EXPECT_EQ(BufferServer::Start(std::move(options), *loop_).status().code(), Code::kBusy);
}

}  // namespace
}  // namespace kedge::buffer

#include "store/buffer/buffer_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/clock.h"
#include "base/crc32c.h"
#include "os/process/kill_point.h"

namespace kedge::buffer {
namespace {

constexpr uint64_t kWriteBytes = 16 * kBlockBytes;  // several of one write go to several of the server's writers
constexpr size_t kWritesUnderWay = 4;
constexpr size_t kPiecesUnderWay = 4;
constexpr Duration kReadTimeout = std::chrono::seconds(30);
constexpr int kGoOnsMax = 5;  // with servers and connections that end again and again

Status StatusOf(const Result<Buffer>& answer) {
  if (!answer.ok()) return answer.status();
  const auto reply = DecodeStoreReply(*answer);
  return reply.ok() ? reply->status : reply.status();
}

// A piece of an object that was asked for.
struct Asked {
  std::span<std::byte> out;
  std::future<Result<Buffer>> reply;
};

// A block of a piece that has arrived.
// The piece's `index`th.
Status TakeBlock(const Result<net::ReadBuffer>& block, const StoreReadReply& piece, size_t index, std::span<std::byte> out) {
  if (!block.ok()) return block.status();
  KEDGE_RETURN_IF_ERROR(OpenBlockOf(piece.seals, index, *block));
  if (crc32c::CopyAndChecksum(out.data(), block->bytes().data(), out.size()) == piece.sums[index]) return Status::Ok();
  return {Code::kCorrupt, "a block did not arrive as it was sent"};
}

Result<StoreReadReply> DecodePiece(const Client& client, const Result<Buffer>& answer, uint64_t bytes) {
  if (!answer.ok()) return answer.status();
  KEDGE_ASSIGN_OR_RETURN(StoreReadReply reply, DecodeStoreReadReply(*answer));
  if (!reply.status.ok()) return reply.status;
  if (reply.content.size() + reply.memory.bytes != bytes)
    return Status(Code::kCorrupt, "another number of bytes came than was asked for");
  if (client.seals() && reply.memory.bytes > 0 && reply.seals.empty())
    return Status(Code::kMismatch, "a piece came in the clear, and was asked for sealed");
  return reply;
}

Asked AskForPiece(const Handle& handle, uint64_t offset, std::span<std::byte> out) {
  auto [reply, set] = Awaited<Buffer>();
  handle.client->AskThen(
      kStoreReadKind, Encode(StoreReadRequest{handle.number, offset, out.size(), false, handle.client->seals()}), std::move(set));
  return {out, std::move(reply)};
}

// Reads the server's memory, and checks it. The blocks are taken in the order in which they were asked for, so that whoever waits
// for a buffer of the network's waits for nobody who waits for another one.
Status ReadMemory(const Handle& handle, const StoreReadReply& reply, std::span<std::byte> out) {
  net::Network& network = handle.client->network();
  std::deque<std::pair<RunPart, std::future<Result<net::ReadBuffer>>>> blocks;
  for (const RunPart& part : CutAtBlocks(0, out.size())) {
    auto [block, set] = Awaited<net::ReadBuffer>();
    network.Read(handle.client->server(), reply.memory, part.at, part.bytes, kReadTimeout, std::move(set));
    blocks.emplace_back(part, std::move(block));
  }
  Status status;
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto& [part, future] = blocks[i];
    const auto block = future.get();  // all of them: a read of memory that is leased no more would cost the connection
    if (status.ok()) status = TakeBlock(block, reply, i, out.subspan(part.at, part.bytes));
  }
  network.EndLease(handle.client->server(), reply.memory);
  return status;
}

Status TakePiece(const Handle& handle, Asked& asked) {
  KEDGE_ASSIGN_OR_RETURN(const StoreReadReply reply, DecodePiece(*handle.client, asked.reply.get(), asked.out.size()));
  if (reply.memory.bytes > 0) return ReadMemory(handle, reply, asked.out);
  std::memcpy(asked.out.data(), reply.content.data(), reply.content.size());
  return Status::Ok();
}

// What was asked for and is not wanted any more: its lease ends.
void DropPiece(const Handle& handle, Asked& asked) {
  const auto answer = asked.reply.get();
  const auto reply = answer.ok() ? DecodeStoreReadReply(*answer) : Result<StoreReadReply>(answer.status());
  if (reply.ok() && reply->memory.bytes > 0) handle.client->network().EndLease(handle.client->server(), reply->memory);
}

Status ReadPieces(const Handle& handle, uint64_t offset, std::span<std::byte> out) {
  std::deque<Asked> pieces;
  size_t asked = 0;
  const auto ask = [&] {
    while (pieces.size() < kPiecesUnderWay && asked < out.size()) {
      const size_t bytes = std::min<size_t>(kPieceBytesMax, out.size() - asked);
      pieces.push_back(AskForPiece(handle, offset + asked, out.subspan(asked, bytes)));
      asked += bytes;
    }
  };
  Status status;
  for (ask(); !pieces.empty();) {
    Asked piece = std::move(pieces.front());
    pieces.pop_front();
    if (!status.ok()) {
      DropPiece(handle, piece);
      continue;
    }
    status = TakePiece(handle, piece);
    if (status.ok()) ask();
  }
  return status;
}

}  // namespace

Status WriteChunks(Link& link, const Handle& handle, uint64_t offset, ByteSpan bytes) {
  struct Chunk {
    Buffer sealed;  // a copy, where it is
    LeasedBytes leased;
    std::future<Result<Buffer>> answer;
  };
  std::deque<Chunk> chunks;
  Status status;
  const auto finish_oldest = [&] {
    const Status written = StatusOf(chunks.front().answer.get());
    if (status.ok()) status = written;
    chunks.pop_front();
  };
  for (size_t at = 0; at < bytes.size() && status.ok();) {
    const size_t part = std::min<size_t>(kWriteBytes - (offset + at) % kBlockBytes, bytes.size() - at);
    const ByteSpan run = bytes.subspan(at, part);
    if (chunks.size() == kWritesUnderWay) finish_oldest();
    std::vector<uint32_t> sums = SumsOfBlocks(offset + at, run);
    std::vector<net::BlockSeal> seals;
    Buffer sealed;
    if (handle.client->seals()) {
      sealed.assign(run.begin(), run.end());
      seals = SealBlocks(offset + at, sealed);
    }
    auto leased = LeasedBytes::Of(handle.client, sealed.empty() ? run : ByteSpan(sealed));
    if (!leased.ok()) {
      status = leased.status();
      break;
    }
    WriteRequest request{handle.number, offset + at, leased->memory(), std::move(sums), std::move(seals)};
    auto [answer, set] = Awaited<Buffer>();
    handle.client->AskThen(kStoreWriteKind, Encode(request), std::move(set));
    chunks.push_back({std::move(sealed), std::move(*leased), std::move(answer)});
    os::KillPoint("buffer-store-sent");
    at += part;
  }
  while (!chunks.empty()) finish_oldest();
  if (status.ok()) link.OnAnswer();
  return status;
}

bool MeansLostHandle(const Status& status) {
  return MeansNotReached(status) || status.errno_value() == ESTALE;
}

void Leave(const Handle& handle) {
  if (handle.client == nullptr) return;
  StoreRequest request{.operation = StoreOperation::kLeave};
  request.handle = handle.number;
  handle.client->AskThen(kStoreKind, Encode(request), [](const Result<Buffer>&) {});
}

// ---- Writing ----

BufferObjectWriter::~BufferObjectWriter() {
  const std::lock_guard lock(mutex_);
  if (!closed_) Leave(handle_);
}

Status BufferObjectWriter::Remember(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!status.ok() && failure_.ok()) failure_ = status.WithContext(link_.location().ToDisplay() + '/' + key_);
  return status.ok() ? status : failure_;
}

Handle BufferObjectWriter::open() const {
  const std::lock_guard lock(mutex_);
  return handle_;
}

Status BufferObjectWriter::GoOn(const Handle& lost) {
  if (open().number != lost.number) return Status::Ok();  // another thread has
  auto opened = link_.Open({.operation = StoreOperation::kAdoptObject, .key = key_, .other = temporary_});
  if (!opened.ok() && opened.status().code() != Code::kNotFound) return opened.status();
  if (opened.ok() && !lost.boot.empty() && opened->reply.other_text == lost.boot) {
    const std::lock_guard lock(mutex_);
    handle_ = {std::move(opened->client), opened->reply.handle, lost.boot};
    return Status::Ok();
  }
  if (opened.ok()) Leave({opened->client, opened->reply.handle});
  return Status::FromErrno(ESTALE, "write " + key_ + ": the burst buffer has lost what it had of it");
}

// What was written already may be written again: it is the same.
Status BufferObjectWriter::WriteAt(uint64_t offset, ByteSpan bytes) {
  if (bytes.empty()) return Status::Ok();
  for (int tries = 0;; ++tries) {
    const Handle handle = open();
    Status status = WriteChunks(link_, handle, offset, bytes);
    if (!MeansLostHandle(status) || tries == kGoOnsMax) return Remember(status);
    status = GoOn(handle);
    if (!status.ok()) return Remember(status);
  }
}

// A hint: where the server is not reached, the commit does it all.
Status BufferObjectWriter::FlushHint(uint64_t offset, uint64_t bytes, bool wait) {
  const Handle handle = open();
  StoreRequest request{.operation = StoreOperation::kFlush, .handle = handle.number, .offset = offset, .number = bytes};
  request.flag = wait;
  const Status flushed = link_.AskBy(*handle.client, std::move(request)).status();
  return MeansLostHandle(flushed) ? Status::Ok() : Remember(flushed);
}

Status BufferObjectWriter::BeginCommit() {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return {Code::kFailedPrecondition, "object " + key_ + " is closed already"};
    closed_ = true;
    status = failure_;
  }
  if (!status.ok()) GiveUp();
  return status;
}

void BufferObjectWriter::EndCommit(const Status& status) {
  if (status.ok()) return;
  if (!MeansNotReached(status)) return GiveUp();
  const std::lock_guard lock(mutex_);
  closed_ = false;
}

void BufferObjectWriter::GiveUp() {
  const Handle handle = open();
  StoreRequest request{.operation = StoreOperation::kAbandon, .handle = handle.number};
  if (link_.AskBy(*handle.client, std::move(request)).ok()) return;
  Leave(handle);
  (void)link_.Ask({.operation = StoreOperation::kRemoveTemporary, .other = temporary_}, Link::Repeat::kNo);
}

Status BufferObjectWriter::Commit() {
  ObjectWriter* const self = this;
  return store_.Publish(std::span(&self, 1)).front();
}

Status BufferObjectWriter::Abandon() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  const Handle handle = open();
  StoreRequest request{.operation = StoreOperation::kAbandon, .handle = handle.number};
  const Status abandoned = link_.AskBy(*handle.client, std::move(request)).status();
  if (abandoned.ok()) return abandoned;
  Leave(handle);
  return store_.RemoveTemporary(temporary_);
}

Status BufferObjectContributor::WriteAt(uint64_t offset, ByteSpan bytes) {
  if (bytes.empty()) return Status::Ok();
  const Status status = WriteChunks(link_, handle_, offset, bytes);
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
  return status;
}

Status BufferObjectContributor::Finish() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
  }
  return link_.AskBy(*handle_.client, {.operation = StoreOperation::kFinish, .handle = handle_.number}).status();
}

// ---- Reading ----

namespace {

// A piece that is read ahead: its blocks are taken as they come, and in any order.
struct Arrival {
  Arrival(const Handle& handle, std::span<std::byte> into, std::shared_ptr<const void> keeps, std::function<void(Status)> done)
      : client(*handle.client), out(into), keeps_out(std::move(keeps)), end(std::move(done)) {}

  Client& client;
  const std::span<std::byte> out;
  const std::shared_ptr<const void> keeps_out;
  const std::function<void(Status)> end;
  StoreReadReply reply;
  // Of the network's thread:
  size_t blocks_left = 0;
  Status status;
};

void ReadBlocks(const std::shared_ptr<Arrival>& arrival) {
  const std::vector<RunPart> parts = CutAtBlocks(0, arrival->out.size());
  arrival->blocks_left = parts.size();
  net::Network& network = arrival->client.network();
  for (size_t i = 0; i < parts.size(); ++i) {
    network.Read(arrival->client.server(), arrival->reply.memory, parts[i].at, parts[i].bytes, kReadTimeout,
                 [arrival, i, part = parts[i], &network](Result<net::ReadBuffer> block) {
                   const auto out = arrival->out.subspan(part.at, part.bytes);
                   if (arrival->status.ok()) arrival->status = TakeBlock(block, arrival->reply, i, out);
                   if (--arrival->blocks_left > 0) return;
                   network.EndLease(arrival->client.server(), arrival->reply.memory);
                   arrival->end(arrival->status);
                 });
  }
}

}  // namespace

BufferObjectReader::BufferObjectReader(Link& link, std::string key, Handle handle, uint64_t size_bytes)
    : link_(link),
      key_(std::move(key)),
      handle_(std::move(handle)),
      size_bytes_(size_bytes),
      ahead_(size_bytes, kPieceBytesMax, kPiecesUnderWay,
             [this](uint64_t offset, std::span<std::byte> into, std::shared_ptr<const void> keeps,
                    std::function<void(Status)> done) { Fetch(offset, into, std::move(keeps), std::move(done)); }) {}

// What is being read ahead uses the connection, which goes with its last user.
BufferObjectReader::~BufferObjectReader() {
  std::unique_lock lock(mutex_);
  fetched_.wait(lock, [this] { return fetching_ == 0; });
  Leave(handle_);
}

void BufferObjectReader::Fetch(uint64_t offset, std::span<std::byte> into, std::shared_ptr<const void> keeps,
                               std::function<void(Status)> done) {
  Handle handle;
  {
    const std::lock_guard lock(mutex_);
    ++fetching_;
    handle = handle_;
  }
  const auto end = [this, done = std::move(done)](Status status) {
    done(std::move(status));
    const std::lock_guard lock(mutex_);
    --fetching_;
    fetched_.notify_all();
  };
  const auto arrival = std::make_shared<Arrival>(handle, into, std::move(keeps), end);
  handle.client->AskThen(kStoreReadKind,
                         Encode(StoreReadRequest{handle.number, offset, into.size(), true, handle.client->seals()}),
                         [arrival](const Result<Buffer>& answer) {
                           auto reply = DecodePiece(arrival->client, answer, arrival->out.size());
                           if (!reply.ok()) return arrival->end(reply.status());
                           arrival->reply = *std::move(reply);
                           if (arrival->reply.memory.bytes > 0) return ReadBlocks(arrival);
                           std::memcpy(arrival->out.data(), arrival->reply.content.data(), arrival->reply.content.size());
                           arrival->end(Status::Ok());
                         });
}

Result<std::unique_ptr<BufferObjectReader>> BufferObjectReader::Open(Link& link, const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(const Link::Opened opened, link.Open({.operation = StoreOperation::kOpenObject, .key = key}));
  Handle handle{opened.client, opened.reply.handle};
  return std::unique_ptr<BufferObjectReader>(new BufferObjectReader(link, key, std::move(handle), opened.reply.number));
}

Handle BufferObjectReader::Current() {
  const std::lock_guard lock(mutex_);
  return handle_;
}

Status BufferObjectReader::OpenAgain(const Handle& lost) {
  {
    const std::lock_guard lock(mutex_);
    if (handle_.number != lost.number) return Status::Ok();  // another thread has
  }
  KEDGE_ASSIGN_OR_RETURN(const Link::Opened opened, link_.Open({.operation = StoreOperation::kOpenObject, .key = key_}));
  Handle handle{opened.client, opened.reply.handle};
  if (opened.reply.number != size_bytes_) {
    Leave(handle);
    return {Code::kCorrupt, fmt::format("{}/{} is another object now", link_.location().ToDisplay(), key_)};
  }
  const std::lock_guard lock(mutex_);
  // A connection that goes calls nobody back any more.
  if (fetching_ > 0) former_.push_back(std::move(handle_));
  handle_ = std::move(handle);
  return Status::Ok();
}

std::string BufferObjectReader::Where() const {
  return link_.location().ToDisplay() + '/' + key_;
}

Status BufferObjectReader::CheckWithin(uint64_t offset, uint64_t bytes) const {
  if (offset <= size_bytes_ && bytes <= size_bytes_ - offset) return Status::Ok();
  return {Code::kCorrupt, fmt::format("{} has {} bytes, and not {} at {}", Where(), size_bytes_, bytes, offset)};
}

Status BufferObjectReader::ReadJust(uint64_t offset, std::span<std::byte> out) {
  KEDGE_RETURN_IF_ERROR(CheckWithin(offset, out.size()));
  return ReadDirectly(offset, out).WithContext(Where());
}

Status BufferObjectReader::ReadAt(uint64_t offset, std::span<std::byte> out) {
  KEDGE_RETURN_IF_ERROR(CheckWithin(offset, out.size()));
  while (!out.empty()) {
    const auto taken = ahead_.Take(offset, out);
    // Nothing is read ahead by a server that has little memory left, nor by a connection that has ended.
    if (!taken.ok() || *taken == 0) return ReadDirectly(offset, out).WithContext(Where());
    offset += *taken;
    out = out.subspan(*taken);
  }
  return Status::Ok();
}

Status BufferObjectReader::ReadDirectly(uint64_t offset, std::span<std::byte> out) {
  const int64_t begin_ns = SystemClock().NowNs();
  for (int tries = 0;;) {
    const Handle handle = Current();
    const Status read = ReadPieces(handle, offset, out);
    if (read.ok()) {
      link_.OnAnswer();
      return read;
    }
    // The lease of a piece that was taken too slowly is over; a server or connection that has ended has another successor.
    const bool is_late = read.code() == Code::kFailedPrecondition && tries++ == 0;
    if (is_late) continue;
    const bool is_stale = read.errno_value() == ESTALE && tries++ < kGoOnsMax;
    if (!is_stale && !link_.MayRepeat(read, begin_ns, &tries)) return read;
    KEDGE_RETURN_IF_ERROR(OpenAgain(handle));
  }
}

}  // namespace kedge::buffer

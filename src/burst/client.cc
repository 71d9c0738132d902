#include "burst/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/crc32c.h"
#include "base/json.h"
#include "base/random.h"
#include "os/files/file_system.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"

namespace kedge::buffer {
namespace {

constexpr size_t kWhereBytesMax = 4096;
constexpr Duration kProbeTimeout = std::chrono::seconds(1);
// While an answer is waited for.
constexpr Duration kLookFirst = std::chrono::seconds(1);
constexpr Duration kLookMax = std::chrono::seconds(2);
constexpr Duration kConnectTimeout = std::chrono::seconds(5);
// A slow disk is waited for; a server that is gone is found much sooner.
constexpr Duration kAnswerTimeout = std::chrono::minutes(5);
constexpr Duration kEndTimeout = std::chrono::seconds(5);
constexpr Duration kChunkLease = std::chrono::minutes(10);
constexpr Duration kBlockTimeout = std::chrono::seconds(30);
constexpr uint64_t kChunkBytes = 16 * kBlockBytes;  // several of one write go to several writers
constexpr size_t kChunksUnderWay = 4;
constexpr uint64_t kOwnChunkBytes = 4 * kBlockBytes;  // of an upload's buffers, of which there are kChunksUnderWay
constexpr size_t kReadBuffers = 2 * kPieceBytesMax / kBlockBytes;

}  // namespace

Result<net::NodeAddress> FindServer(const ClientOptions& options) {
  const std::string path = os::JoinPath(options.folder, options.server + ".buffer");
  const auto text = os::ReadFile(os::SystemFileSystem(), path, kWhereBytesMax);
  if (!text.ok())
    return Status(Code::kNotFound, fmt::format("no burst buffer called {}: {}; name the folder in which it says where it is",
                                               options.server, text.status().message()));
  const Json where = Json::parse(*text, nullptr, false);
  const auto address = where.is_object() && where.contains("address") && where["address"].is_string()
                           ? net::NodeAddress::FromText(where["address"].get<std::string>())
                           : std::nullopt;
  if (!address.has_value()) return Status(Code::kCorrupt, fmt::format("{} does not say where a burst buffer is", path));
  return *address;
}

Status CheckServes(const std::string& server, const net::NodeAddress& address) {
  bool is_gone = false;
  net::Probe(std::span(&address, 1), kProbeTimeout, [&](size_t /*index*/, bool listens) { is_gone = !listens; });
  if (!is_gone) return Status::Ok();
  return {Code::kUnavailable, fmt::format("burst buffer {} has ended: nobody listens at {}", server, address.ToDisplay())};
}

Result<std::shared_ptr<Client>> Client::Open(const ClientOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const net::NodeAddress address, FindServer(options));
  net::NetworkOptions network_options;
  network_options.provider = options.provider;
  network_options.interface_address = options.interface_address;
  network_options.connect_timeout = kConnectTimeout;
  network_options.read_buffers = kReadBuffers;
  network_options.reads_per_peer_max = kPieceBytesMax / kBlockBytes;
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<net::Network> network, net::Network::Open(network_options));
  net::Membership membership;
  membership.job = NetworkName(options.server, options.owner);
  membership.self = fmt::format("client-{}", Id128::Generate().ToHex());
  membership.secret = options.secret;
  membership.members = {{options.server, address}};
  membership.is_guest = true;
  net::Peer server{membership.job, options.server};
  KEDGE_RETURN_IF_ERROR(network->Join(std::move(membership)));
  return std::shared_ptr<Client>(new Client(std::move(network), std::move(server), address, options.encrypt));
}

void Client::AskThen(uint16_t kind, Buffer request, std::function<void(Result<Buffer>)> done) {
  network_->Call(server_, kind, std::move(request), kAnswerTimeout, std::move(done));
}

Result<Buffer> Client::Ask(uint16_t kind, Buffer request) {
  auto [answer, set] = Awaited<Buffer>();
  AskThen(kind, std::move(request), std::move(set));
  // A server that has ended shows before the connection is given up.
  for (Duration pause = kLookFirst; answer.wait_for(pause) != std::future_status::ready; pause = std::min(2 * pause, kLookMax)) {
    KEDGE_RETURN_IF_ERROR(CheckServes(server_.node, address_));
  }
  auto reply = answer.get();
  if (!reply.ok() && reply.status().code() == Code::kTimeout)
    return Status(Code::kTimeout, reply.status().message() + "; it does not answer who has another secret than its owner's");
  return reply;
}

void Client::End(uint64_t handle) {
  network_->Call(server_, static_cast<uint16_t>(RequestKind::kEnd), Encode(EndRequest{handle}), kEndTimeout,
                 [](const Result<Buffer>&) {});
}

Status Client::Remove(const std::string& path) {
  return Ask(RequestKind::kRemove, Encode(PathRequest{path})).status();
}

Status Client::Rename(const std::string& from, const std::string& to) {
  return Ask(RequestKind::kRename, Encode(RenameRequest{from, to})).status();
}

Status Client::Visit(const std::string& prefix, const std::function<bool(const FileEntry&)>& visit) {
  ListRequest request{prefix, {}};
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(const Buffer reply, Ask(RequestKind::kList, Encode(request)));
    KEDGE_ASSIGN_OR_RETURN(const FileList list, DecodeFileList(reply));
    for (const FileEntry& entry : list.entries) {
      if (!visit(entry)) return Status::Ok();
    }
    if (!list.has_more) return Status::Ok();
    if (!list.entries.empty()) request.after = list.entries.back().path;
  }
}

Result<std::vector<FileEntry>> Client::List(const std::string& prefix) {
  std::vector<FileEntry> entries;
  KEDGE_RETURN_IF_ERROR(Visit(prefix, [&](const FileEntry& entry) {
    entries.push_back(entry);
    return true;
  }));
  return entries;
}

Result<Description> Client::Describe() {
  KEDGE_ASSIGN_OR_RETURN(const Buffer reply, Ask(RequestKind::kDescribe, Encode(DescribeRequest())));
  return DecodeDescription(reply);
}

// --- writing ------------------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Upload>> Upload::Open(std::shared_ptr<Client> client, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const Buffer reply, client->Ask(RequestKind::kCreate, Encode(PathRequest{path})));
  KEDGE_ASSIGN_OR_RETURN(const OpenedFile file, DecodeOpenedFile(reply));
  return std::unique_ptr<Upload>(new Upload(std::move(client), file.handle));
}

Upload::~Upload() {
  if (!is_closed_) client_->End(handle_);
  for (Chunk& chunk : under_way_) EndLease(chunk);
}

void Upload::EndLease(Chunk& chunk) {
  client_->network().EndLease(chunk.lease);
  (void)chunk.lease_ended.get();
}

void Upload::FinishOldest() {
  Chunk chunk = std::move(under_way_.front());
  under_way_.pop_front();
  const auto answer = chunk.answer.get();
  if (!answer.ok() && failed_.ok()) failed_ = answer.status();
  EndLease(chunk);
  if (chunk.memory != nullptr) free_.push_back(std::move(chunk.memory));
}

Status Upload::FinishAll() {
  while (!under_way_.empty()) FinishOldest();
  return failed_;
}

Status Upload::Send(ByteSpan part, Memory memory) {
  if (under_way_.size() == kChunksUnderWay) FinishOldest();
  if (!failed_.ok()) return failed_;
  WriteRequest request{handle_, bytes_, {}, SumsOfBlocks(bytes_, part)};
  if (client_->seals()) request.seals = SealBlocks(bytes_, {memory.get(), part.size()});
  auto [ended, end] = Awaited<int>();
  // It is only read.
  const std::span<std::byte> leased(const_cast<std::byte*>(part.data()), part.size());
  const auto lease =
      client_->network().Lease(client_->server().job, leased, kChunkLease, [end = std::move(end)] { end(Result<int>(0)); });
  if (!lease.ok()) return failed_ = lease.status();
  request.memory = *lease;
  auto [answer, set] = Awaited<Buffer>();
  client_->AskThen(RequestKind::kWrite, Encode(request), std::move(set));
  under_way_.push_back({std::move(answer), std::move(ended), lease->lease, std::move(memory)});
  os::KillPoint("buffer-sent");
  bytes_ += part.size();
  return Status::Ok();
}

Status Upload::SendFilled() {
  if (filled_ == 0) return failed_;
  const ByteSpan part(filling_.get(), std::exchange(filled_, 0));
  return Send(part, std::move(filling_));
}

Result<std::span<std::byte>> Upload::Room() {
  if (!failed_.ok()) return failed_;
  if (filling_ == nullptr) {
    if (free_.empty() && buffers_ < kChunksUnderWay) {
      free_.push_back(std::make_unique_for_overwrite<std::byte[]>(kOwnChunkBytes));
      ++buffers_;
    }
    while (free_.empty()) FinishOldest();
    if (!failed_.ok()) return failed_;
    filling_ = std::move(free_.back());
    free_.pop_back();
  }
  // It ends where a block does.
  return std::span(filling_.get() + filled_, kOwnChunkBytes - bytes_ % kBlockBytes - filled_);
}

Status Upload::Fill(size_t bytes) {
  filled_ += bytes;
  return filled_ == kOwnChunkBytes - bytes_ % kBlockBytes ? SendFilled() : failed_;
}

Status Upload::Append(ByteSpan bytes) {
  while (!bytes.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const std::span<std::byte> room, Room());
    const size_t part = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), part);
    KEDGE_RETURN_IF_ERROR(Fill(part));
    bytes = bytes.subspan(part);
  }
  return failed_;
}

Status Upload::Write(ByteSpan bytes) {
  if (client_->seals()) KEDGE_RETURN_IF_ERROR(Append(bytes));
  KEDGE_RETURN_IF_ERROR(SendFilled());
  if (client_->seals()) return FinishAll();
  for (size_t at = 0, part = 0; at < bytes.size() && failed_.ok(); at += part) {
    part = std::min<size_t>(kChunkBytes - bytes_ % kBlockBytes, bytes.size() - at);
    (void)Send(bytes.subspan(at, part), nullptr);
  }
  return FinishAll();
}

Status Upload::Close(bool sync) {
  if (is_closed_) return Status(Code::kFailedPrecondition, "the file is closed already");
  (void)SendFilled();
  KEDGE_RETURN_IF_ERROR(FinishAll());
  is_closed_ = true;
  return client_->Ask(RequestKind::kClose, Encode(CloseRequest{handle_, bytes_, sync})).status();
}

// --- reading ------------------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Download>> Download::Open(std::shared_ptr<Client> client, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const Buffer reply, client->Ask(RequestKind::kOpen, Encode(PathRequest{path})));
  KEDGE_ASSIGN_OR_RETURN(const OpenedFile file, DecodeOpenedFile(reply));
  std::unique_ptr<Download> download(new Download(std::move(client), file));
  download->AskAhead();
  return download;
}

// The server ends its leases with the file.
Download::~Download() {
  for (Piece& piece : pieces_) AwaitBlocks(piece);
  client_->End(handle_);
}

uint64_t Download::BlockBytes(uint64_t offset) const {
  return std::min(kBlockBytes, bytes_ - offset);
}

Download::Piece Download::AskFor(uint64_t offset, uint64_t bytes, bool ahead) {
  Piece piece;
  piece.offset = offset;
  piece.bytes = bytes;
  piece.settled = std::make_shared<Settled>();
  auto [reply, set] = Awaited<Buffer>();
  piece.reply = std::move(reply);
  client_->AskThen(RequestKind::kRead, Encode(ReadRequest{handle_, offset, bytes, ahead, client_->seals()}),
                   [client = client_.get(), settled = piece.settled, set = std::move(set)](Result<Buffer> answer) {
                     const Result<ReadReply> memory = answer.ok() ? DecodeReadReply(*answer) : Result<ReadReply>(answer.status());
                     set(std::move(answer));
                     if (settled->test_and_set() && memory.ok()) client->network().EndLease(client->server(), memory->memory);
                   });
  return piece;
}

void Download::AskAhead() {
  const uint64_t piece_bytes = ahead_ == 1 ? kBlockBytes : kPieceBytesMax;
  while (pieces_.size() < ahead_ && asked_ < bytes_) {
    pieces_.push_back(AskFor(asked_, std::min(piece_bytes, bytes_ - asked_), !pieces_.empty()));
    asked_ += pieces_.back().bytes;
  }
}

void Download::AskAnew(uint64_t offset) {
  for (Piece& piece : pieces_) {
    if (piece.has_begun) EndPiece(piece);
    if (piece.has_begun || piece.is_declined || !piece.settled->test_and_set()) continue;
    const auto reply = piece.reply.get();
    if (!reply.ok()) continue;
    const auto memory = DecodeReadReply(*reply);
    if (memory.ok()) client_->network().EndLease(client_->server(), memory->memory);
  }
  pieces_.clear();
  asked_ = at_ = offset;
  AskAhead();
}

// Waits until the server has the piece ready, and begins to read its blocks; not so when it has declined to read ahead.
Status Download::Begin(Piece& piece) {
  if (piece.is_declined) piece = AskFor(piece.offset, piece.bytes, false);
  auto reply = piece.reply.get();
  piece.is_declined = !reply.ok() && reply.status().code() == Code::kBusy;
  if (piece.is_declined) return Status::Ok();
  if (!reply.ok()) return reply.status();
  KEDGE_ASSIGN_OR_RETURN(piece.memory, DecodeReadReply(*reply));
  if (piece.memory.memory.bytes != piece.bytes)
    return Status(Code::kCorrupt,
                  fmt::format("a piece of {} bytes came, {} were asked for", piece.memory.memory.bytes, piece.bytes));
  if (client_->seals() && piece.memory.seals.empty())
    return Status(Code::kMismatch, "a piece came in the clear, and was asked for sealed");
  piece.has_begun = true;
  for (const RunPart& part : CutAtBlocks(0, piece.bytes)) {
    auto [block, set] = Awaited<net::ReadBuffer>();
    client_->network().Read(client_->server(), piece.memory.memory, part.at, part.bytes, kBlockTimeout, std::move(set));
    piece.blocks.push_back(std::move(block));
  }
  return Status::Ok();
}

// A read of memory that is leased no more would cost the connection.
void Download::AwaitBlocks(Piece& piece) {
  for (auto& block : piece.blocks) block.wait();
}

void Download::EndPiece(Piece& piece) {
  AwaitBlocks(piece);
  client_->network().EndLease(client_->server(), piece.memory.memory);
}

Status Download::TakeBlock(std::span<std::byte> out) {
  for (int tries = 0;; ++tries) {
    Piece& piece = pieces_.front();
    while (!piece.has_begun) KEDGE_RETURN_IF_ERROR(Begin(piece));
    // The next one arrives while this one is taken. It is not waited for: others may wait for what this one holds.
    if (pieces_.size() > 1 && !pieces_[1].has_begun && !pieces_[1].is_declined &&
        pieces_[1].reply.wait_for(Duration::zero()) == std::future_status::ready)
      KEDGE_RETURN_IF_ERROR(Begin(pieces_[1]));
    auto block = piece.blocks.front().get();
    piece.blocks.pop_front();
    if (!block.ok()) {
      // We were too slow for the lease.
      if (block.status().code() != Code::kFailedPrecondition || tries > 0) return block.status();
      AskAnew(at_);
      continue;
    }
    const size_t index = (at_ - piece.offset) / kBlockBytes;
    KEDGE_RETURN_IF_ERROR(OpenBlockOf(piece.memory.seals, index, *block));
    const uint32_t sum = crc32c::CopyAndChecksum(out.data(), block->bytes().data(), out.size());
    if (sum != piece.memory.sums[index])
      return Status(Code::kCorrupt, fmt::format("the block at {} did not arrive as it was sent", at_));
    if (piece.blocks.empty()) {
      EndPiece(piece);
      pieces_.pop_front();
      ahead_ = std::min(2 * ahead_, kPiecesAhead);
      AskAhead();
    }
    at_ += out.size();
    return Status::Ok();
  }
}

Result<size_t> Download::Read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (block_at_ < block_.size()) {
      const size_t bytes = std::min(block_.size() - block_at_, out.size() - done);
      std::memcpy(out.data() + done, block_.data() + block_at_, bytes);
      block_at_ += bytes;
      done += bytes;
      continue;
    }
    if (at_ == bytes_) break;
    const uint64_t bytes = BlockBytes(at_);
    if (out.size() - done >= bytes && skip_ == 0) {
      block_.clear();
      block_at_ = 0;
      KEDGE_RETURN_IF_ERROR(TakeBlock(out.subspan(done, bytes)));
      done += bytes;
    } else {
      block_.resize(bytes);
      block_at_ = bytes;
      KEDGE_RETURN_IF_ERROR(TakeBlock(block_));
      block_at_ = std::exchange(skip_, 0);
    }
  }
  return done;
}

Status Download::Seek(uint64_t offset) {
  if (offset > bytes_)
    return Status(Code::kInvalidArgument, fmt::format("the file has {} bytes, and none at {}", bytes_, offset));
  const uint64_t block_begin = at_ - block_.size();
  if (offset >= block_begin && offset < at_) {
    block_at_ = offset - block_begin;
    return Status::Ok();
  }
  block_.clear();
  block_at_ = 0;
  skip_ = offset == at_ ? 0 : offset % kBlockBytes;
  if (offset - skip_ == at_) return Status::Ok();
  ahead_ = 1;
  AskAnew(offset - skip_);
  return Status::Ok();
}

}  // namespace kedge::buffer

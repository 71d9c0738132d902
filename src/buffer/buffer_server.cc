#include "buffer/buffer_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "buffer/pull.h"
#include "buffer/where.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"

namespace kedge::buffer {
namespace {

constexpr size_t kAddressFileBytesMax = 4096;
constexpr size_t kGuestsMax = 4096;
constexpr size_t kReadsOfClient = 8;
constexpr size_t kFilesOfClientMax = 256;
constexpr size_t kEndpointsAhead = 2;
// A client that does not take what it has asked for must ask again.
constexpr Duration kPieceLease = std::chrono::seconds(30);

Status NoSuchFile(uint64_t handle) {
  return Status(Code::kFailedPrecondition, fmt::format("this client has no open file {} here", handle));
}

}  // namespace

BufferServer::BufferServer(ServerOptions options, os::EventLoop& loop, os::FileSystem& fs) : core_(std::move(options), loop, fs) {
  stores_.WhenVersionIsPut([this](Owner& owner, const std::string& store) { drains_.OnVersion(owner, store); });
}

BufferServer::~BufferServer() {
  for (const auto& [key, upload] : uploads_) upload->cancelled = true;
  stores_.Cancel();
  drains_.Stop();
  core_.workers.reset();
  if (core_.network) core_.network->Close();
  *core_.alive = false;
  for (const auto& [key, upload] : uploads_) upload->owner->folder->RemoveTemporary(upload->temporary);
}

Result<std::unique_ptr<BufferServer>> BufferServer::Start(ServerOptions options, os::EventLoop& loop, os::FileSystem& fs) {
  if (!CheckPath(options.name).ok() || options.name.find('/') != std::string::npos)
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" cannot name a burst buffer", options.name));
  if (options.owners.empty()) return Status(Code::kInvalidArgument, "a burst buffer needs an owner");
  if (options.memory_bytes < kMemoryBytesMin)
    return Status(Code::kInvalidArgument, fmt::format("{} of memory are less than {}", FormatByteSize(options.memory_bytes),
                                                      FormatByteSize(kMemoryBytesMin)));
  std::unique_ptr<BufferServer> server(new BufferServer(std::move(options), loop, fs));
  KEDGE_RETURN_IF_ERROR(server->Prepare());
  server->core_.workers =
      std::make_unique<Workers>(server->core_.options.writers, std::chrono::seconds(10), Workers::Priority::kAwaited);
  KEDGE_RETURN_IF_ERROR(server->drains_.Start(server->owners_));
  KEDGE_RETURN_IF_ERROR(server->OpenNetwork());
  return server;
}

Status BufferServer::Prepare() {
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(core_.fs, core_.options.path));
  KEDGE_ASSIGN_OR_RETURN(lock_, core_.fs.Open(core_.options.path + "/lock", os::OpenFlags::kReadWrite | os::OpenFlags::kCreate));
  KEDGE_ASSIGN_OR_RETURN(const bool locked, lock_->TryLock(true));
  if (!locked) return Status(Code::kBusy, fmt::format("another process serves {}", core_.options.path));
  for (const OwnerOptions& options : core_.options.owners) {
    if (!CheckPath(options.name).ok() || options.name.find('/') != std::string::npos)
      return Status(Code::kInvalidArgument, fmt::format("\"{}\" cannot name an owner", options.name));
    Owner owner{options, std::make_unique<OwnerFolder>(core_.fs, core_.options.path + "/owners/" + options.name)};
    KEDGE_RETURN_IF_ERROR(owner.folder->Prepare());
    KEDGE_ASSIGN_OR_RETURN(owner.used_bytes, owner.folder->UsedBytes());
    core_.used_bytes += owner.used_bytes;
    if (!owners_.emplace(NetworkName(core_.options.name, options.name), std::move(owner)).second)
      return Status(Code::kInvalidArgument, fmt::format("owner {} is there twice", options.name));
  }
  return Status::Ok();
}

Status BufferServer::OpenNetwork() {
  net::NetworkOptions options;
  options.provider = core_.options.provider;
  options.interface_address = core_.options.interface_address;
  options.read_buffers = core_.options.memory_bytes / 2 / net::kReadBytesMax;
  options.reads_per_peer_max = kReadsOfClient;
  options.endpoints_ahead = kEndpointsAhead;
  options.executor = [this, alive = core_.alive](std::function<void()> work) {
    core_.loop.Post([alive, work = std::move(work)] {
      if (*alive) work();
    });
  };
  const auto former = os::ReadFile(core_.fs, core_.options.path + "/address", kAddressFileBytesMax);
  if (former.ok()) options.former_address = net::NodeAddress::FromText(*former).value_or(net::NodeAddress{});
  auto network = net::Network::Open(options);
  if (!network.ok() && !options.former_address.empty()) {
    options.former_address = net::NodeAddress{};
    network = net::Network::Open(options);
  }
  if (!network.ok()) return network.status();
  core_.network = std::move(*network);
  Serve();
  for (const auto& [name, owner] : owners_) {
    net::Membership membership;
    membership.job = name;
    membership.self = core_.options.name;
    membership.secret = owner.options.secret;
    membership.guests_max = kGuestsMax;
    membership.guest_left = [this](const net::Peer& client) { OnLeft(client); };
    KEDGE_RETURN_IF_ERROR(core_.network->Join(std::move(membership)));
  }
  const std::string address = core_.network->address().ToText();
  KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(core_.fs, core_.options.path + "/address", address, "buffer"));
  return SayWhereItIs(core_.options, address);
}

template <typename Request, typename Handle>
void BufferServer::On(uint16_t kind, Result<Request> (*decode)(ByteSpan), Handle handle) {
  core_.network->Serve(kind, [this, decode, handle](const net::Peer& client, ByteSpan body, net::Answer answer) {
    const auto request = decode(body);
    if (!request.ok()) return answer(request.status());
    const auto owner = owners_.find(client.job);
    if (owner == owners_.end()) return answer(Status(Code::kPermission, "the client has no owner here"));
    handle(client, owner->second, *request, std::move(answer));
  });
}

void BufferServer::Serve() {
  On<PathRequest>(static_cast<uint16_t>(RequestKind::kCreate), DecodePathRequest,
                  [this](const auto& client, Owner& owner, const auto& request, net::Answer answer) {
                    OnCreate(client, owner, request, std::move(answer));
                  });
  On<WriteRequest>(static_cast<uint16_t>(RequestKind::kWrite), DecodeWriteRequest,
                   [this](const auto& client, Owner& owner, const auto& request, net::Answer answer) {
                     OnWrite(client, owner, request, std::move(answer));
                   });
  On<CloseRequest>(static_cast<uint16_t>(RequestKind::kClose), DecodeCloseRequest,
                   [this](const auto& client, Owner&, const auto& request, net::Answer answer) {
                     OnClose(client, request, std::move(answer));
                   });
  On<PathRequest>(static_cast<uint16_t>(RequestKind::kOpen), DecodePathRequest,
                  [this](const auto& client, Owner& owner, const auto& request, net::Answer answer) {
                    OnOpen(client, owner, request, std::move(answer));
                  });
  On<ReadRequest>(static_cast<uint16_t>(RequestKind::kRead), DecodeReadRequest,
                  [this](const auto& client, Owner&, const auto& request, net::Answer answer) {
                    OnRead(client, request, std::move(answer));
                  });
  On<EndRequest>(
      static_cast<uint16_t>(RequestKind::kEnd), DecodeEndRequest,
      [this](const auto& client, Owner&, const auto& request, net::Answer answer) { OnEnd(client, request, std::move(answer)); });
  On<PathRequest>(static_cast<uint16_t>(RequestKind::kRemove), DecodePathRequest,
                  [this](const auto&, Owner& owner, const auto& request, net::Answer answer) {
                    OnRemove(owner, request, std::move(answer));
                  });
  On<RenameRequest>(static_cast<uint16_t>(RequestKind::kRename), DecodeRenameRequest,
                    [this](const auto&, Owner& owner, const auto& request, net::Answer answer) {
                      OnRename(owner, request, std::move(answer));
                    });
  On<ListRequest>(
      static_cast<uint16_t>(RequestKind::kList), DecodeListRequest,
      [this](const auto&, Owner& owner, const auto& request, net::Answer answer) { OnList(owner, request, std::move(answer)); });
  On<StoreRequest>(kStoreKind, DecodeStoreRequest,
                   [this](const auto& client, Owner& owner, const auto& request, net::Answer answer) {
                     if (request.operation == StoreOperation::kDrainTo)
                       return drains_.OnDrainTo(owner, request, std::move(answer));
                     stores_.OnRequest(client, owner, request, std::move(answer));
                   });
  On<WriteRequest>(kStoreWriteKind, DecodeWriteRequest,
                   [this](const auto& client, Owner& owner, const auto& request, net::Answer answer) {
                     stores_.OnWrite(client, owner, request, std::move(answer));
                   });
  On<StoreReadRequest>(kStoreReadKind, DecodeStoreReadRequest,
                       [this](const auto& client, Owner&, const auto& request, net::Answer answer) {
                         stores_.OnRead(client, request, std::move(answer));
                       });
  On<DescribeRequest>(
      static_cast<uint16_t>(RequestKind::kDescribe), DecodeDescribeRequest,
      [this](const auto&, Owner& owner, const auto&, net::Answer answer) { OnDescribe(owner, std::move(answer)); });
}

Status BufferServer::CheckMayOpen(const net::Peer& client, const std::string& path) const {
  const auto is_of_client = [&client](const auto& entry) { return entry.first.first == client; };
  const auto open = std::count_if(uploads_.begin(), uploads_.end(), is_of_client) +
                    std::count_if(downloads_.begin(), downloads_.end(), is_of_client);
  if (static_cast<size_t>(open) >= kFilesOfClientMax)
    return Status(Code::kNoSpace,
                  fmt::format("this client has {} files open on burst buffer {}; close some", open, core_.options.name));
  return CheckPath(path);
}

// --- writing ------------------------------------------------------------------------------------------------------------------

void BufferServer::OnCreate(const net::Peer& client, Owner& owner, const PathRequest& request, net::Answer answer) {
  const Status valid = CheckMayOpen(client, request.path);
  if (!valid.ok()) return answer(valid);
  const Key key{client, core_.NewHandle()};
  auto upload = std::make_shared<Upload>();
  upload->owner = &owner;
  upload->path = request.path;
  upload->temporary = fmt::format("{}.tmp", key.second);
  upload->running = 1;
  uploads_[key] = upload;
  core_.Background([upload] { return upload->owner->folder->CreateTemporary(upload->temporary); },
                   [this, key, upload, answer = std::move(answer)](Result<std::unique_ptr<os::File>> file) {
                     os::KillPoint("buffer-created");
                     if (file.ok()) upload->file = std::move(*file);
                     if (!file.ok()) upload->ended = true;
                     Rest(key);
                     answer(file.ok() ? Result<Buffer>(Encode(OpenedFile{key.second, 0})) : Result<Buffer>(file.status()));
                   });
}

void BufferServer::OnWrite(const net::Peer& client, Owner& owner, const WriteRequest& request, net::Answer answer) {
  const Key key{client, request.handle};
  const auto found = uploads_.find(key);
  if (found == uploads_.end() || found->second->file == nullptr || found->second->closing)
    return answer(NoSuchFile(request.handle));
  const std::shared_ptr<Upload> upload = found->second;
  if (upload->failed.ok()) upload->failed = core_.Reserve(owner, request.memory.bytes);
  if (!upload->failed.ok()) return answer(upload->failed);
  upload->reserved_bytes += request.memory.bytes;
  ++upload->running;
  core_.Background(
      [this, client, request, upload] {
        const auto write = [&](uint64_t offset, ByteSpan bytes) {
          return os::WriteAll(*upload->file, bytes.data(), bytes.size(), offset);
        };
        return PullChunk(*core_.network, client, request, write, upload->cancelled);
      },
      [this, key, request, upload, answer = std::move(answer)](const Status& pulled) {
        os::KillPoint("buffer-chunk");
        if (pulled.ok()) {
          const std::vector<RunPart> parts = CutAtBlocks(request.offset, request.memory.bytes);
          for (size_t i = 0; i < parts.size(); ++i)
            upload->sums.Add(request.offset + parts[i].at, parts[i].bytes, request.sums[i]);
        } else if (upload->failed.ok()) {
          upload->failed = pulled.WithContext("burst buffer " + core_.options.name + ", file " + upload->path);
          LogWarning("buffer", "{}", upload->failed.ToString());
        }
        Rest(key);
        answer(pulled.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(upload->failed));
      });
}

void BufferServer::OnClose(const net::Peer& client, const CloseRequest& request, net::Answer answer) {
  const Key key{client, request.handle};
  const auto found = uploads_.find(key);
  if (found == uploads_.end() || found->second->running > 0) return answer(NoSuchFile(request.handle));
  const std::shared_ptr<Upload> upload = found->second;
  const auto sums = upload->sums.OfFile(request.bytes);
  const uint64_t table_bytes = TableBytes(request.bytes);
  if (upload->failed.ok()) upload->failed = sums.ok() ? core_.Reserve(*upload->owner, table_bytes) : sums.status();
  if (!upload->failed.ok()) {
    End(key);
    return answer(upload->failed);
  }
  upload->reserved_bytes += table_bytes;
  upload->closing = true;
  ++upload->running;
  core_.Background(
      [upload, table = FileTable{request.bytes, *sums}, sync = request.sync] {
        return upload->owner->folder->Publish(upload->temporary, *upload->file, table, upload->path, sync);
      },
      [this, key, upload, answer = std::move(answer)](const Result<uint64_t>& replaced) {
        // What was reserved is the visible file's from now on.
        if (replaced.ok()) {
          core_.Release(*upload->owner, *replaced);
          upload->reserved_bytes = 0;
        }
        upload->ended = true;
        Rest(key);
        if (!replaced.ok()) Count(*upload->owner);
        answer(replaced.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(core_.InContext(replaced.status())));
      });
}

void BufferServer::End(const Key& key) {
  const auto found = uploads_.find(key);
  if (found == uploads_.end()) return;
  found->second->ended = true;
  found->second->cancelled = true;
  ++found->second->running;
  Rest(key);
}

void BufferServer::Rest(const Key& key) {
  const auto found = uploads_.find(key);
  if (found == uploads_.end()) return;
  const std::shared_ptr<Upload> upload = found->second;
  if (--upload->running > 0 || !upload->ended) return;
  uploads_.erase(found);
  core_.Release(*upload->owner, upload->reserved_bytes);
  core_.Background(
      [upload] {
        upload->owner->folder->RemoveTemporary(upload->temporary);
        return 0;
      },
      [](int) {});
}

// What is there was not as an error said, perhaps.
void BufferServer::Count(Owner& owner) {
  core_.Background([folder = owner.folder.get()] { return folder->UsedBytes(); },
                   [this, &owner](const Result<uint64_t>& visible) {
                     if (!visible.ok()) return;
                     uint64_t used = *visible;
                     for (const auto& [key, upload] : uploads_) used += upload->owner == &owner ? upload->reserved_bytes : 0;
                     core_.used_bytes += used - owner.used_bytes;
                     owner.used_bytes = used;
                   });
}

// --- reading ------------------------------------------------------------------------------------------------------------------

void BufferServer::OnOpen(const net::Peer& client, Owner& owner, const PathRequest& request, net::Answer answer) {
  const Status valid = CheckMayOpen(client, request.path);
  if (!valid.ok()) return answer(valid);
  const Key key{client, core_.NewHandle()};
  struct Opened {
    std::shared_ptr<os::File> file;
    FileTable table;
  };
  downloads_[key] = Download{&owner, request.path, nullptr, nullptr, {}};
  core_.Background(
      [folder = owner.folder.get(), path = request.path]() -> Result<Opened> {
        KEDGE_ASSIGN_OR_RETURN(std::shared_ptr<os::File> file, folder->Open(path));
        KEDGE_ASSIGN_OR_RETURN(FileTable table, ReadTable(*file));
        return Opened{std::move(file), std::move(table)};
      },
      [this, key, answer = std::move(answer)](Result<Opened> opened) {
        const auto download = downloads_.find(key);
        if (download == downloads_.end()) return;
        if (!opened.ok()) {
          downloads_.erase(download);
          return answer(core_.InContext(opened.status()));
        }
        const uint64_t bytes = opened->table.bytes;
        download->second.file = std::move(opened->file);
        download->second.table = std::make_shared<const FileTable>(std::move(opened->table));
        answer(Encode(OpenedFile{key.second, bytes}));
      });
}

void BufferServer::OnRead(const net::Peer& client, const ReadRequest& request, net::Answer answer) {
  const Key key{client, request.handle};
  const auto download = downloads_.find(key);
  if (download == downloads_.end() || download->second.table == nullptr) return answer(NoSuchFile(request.handle));
  const uint64_t bytes = download->second.table->bytes;
  if (request.offset > bytes || request.bytes > bytes - request.offset)
    return answer(Status(Code::kInvalidArgument,
                         fmt::format("{} has no {} bytes at {}", download->second.path, request.bytes, request.offset)));
  if (const Status may = core_.pieces.MayAsk(request.ahead); !may.ok()) return answer(may);
  core_.pieces.Ask([this, read = WaitingRead{key, request, std::move(answer)}](Piece piece) {
    if (!downloads_.contains(read.key)) return core_.pieces.GiveBack(std::move(piece));
    ReadPiece(read, std::move(piece));
  });
}

void BufferServer::ReadPiece(const WaitingRead& read, Piece piece) {
  const Download& download = downloads_.at(read.key);
  core_.Background(
      [file = download.file, table = download.table, path = download.path, request = read.request, piece]() -> Result<ReadReply> {
        KEDGE_RETURN_IF_ERROR(os::ReadAll(*file, piece->bytes.data(), request.bytes, request.offset));
        ReadReply reply;
        for (const RunPart& part : CutAtBlocks(request.offset, request.bytes)) {
          const uint64_t offset = request.offset + part.at;
          const uint64_t block = offset / kBlockBytes;
          const uint64_t block_bytes = std::min(kBlockBytes, table->bytes - block * kBlockBytes);
          const uint32_t sum = crc32c::Compute(piece->bytes.data() + part.at, part.bytes);
          if (part.bytes != block_bytes) return Status(Code::kInvalidArgument, "a piece ends within a block");
          if (sum != table->sums[block])
            return Status(Code::kCorrupt,
                          fmt::format("{}: the block at {} fails its checksum: the disk has lost it", path, offset));
          reply.sums.push_back(sum);
        }
        if (request.sealed) reply.seals = SealBlocks(request.offset, {piece->bytes.data(), request.bytes});
        return reply;
      },
      [this, read, piece](Result<ReadReply> reply) {
        if (reply.ok()) return LeasePiece(read, piece, std::move(*reply));
        LogWarning("buffer", "{}", reply.status().ToString());
        read.answer(core_.InContext(reply.status()));
        core_.pieces.GiveBack(piece);
      });
}

void BufferServer::LeasePiece(const WaitingRead& read, const Piece& piece, ReadReply reply) {
  const auto download = downloads_.find(read.key);
  if (download == downloads_.end()) return core_.pieces.GiveBack(piece);
  const auto lease_number = std::make_shared<uint64_t>(0);
  const auto memory = core_.network->Lease(read.key.first.job, {piece->bytes.data(), read.request.bytes}, kPieceLease,
                                           [this, key = read.key, piece, lease_number] {
                                             const auto open = downloads_.find(key);
                                             if (open != downloads_.end()) open->second.leases.erase(*lease_number);
                                             core_.pieces.GiveBack(piece);
                                           });
  if (!memory.ok()) {
    read.answer(memory.status());
    return core_.pieces.GiveBack(piece);
  }
  *lease_number = memory->lease;
  download->second.leases.insert(memory->lease);
  reply.memory = *memory;
  read.answer(Encode(reply));
}

void BufferServer::EndDownload(std::map<Key, Download>::iterator download) {
  for (const uint64_t lease : download->second.leases) core_.network->EndLease(lease);
  downloads_.erase(download);
}

// --- the rest -----------------------------------------------------------------------------------------------------------------

void BufferServer::OnEnd(const net::Peer& client, const EndRequest& request, net::Answer answer) {
  const Key key{client, request.handle};
  End(key);
  const auto download = downloads_.find(key);
  if (download != downloads_.end()) EndDownload(download);
  answer(Buffer());
}

void BufferServer::OnRemove(Owner& owner, const PathRequest& request, net::Answer answer) {
  const Status valid = CheckPath(request.path);
  if (!valid.ok()) return answer(valid);
  core_.Background([folder = owner.folder.get(), path = request.path] { return folder->Remove(path); },
                   [this, &owner, answer = std::move(answer)](const Result<uint64_t>& removed) {
                     if (removed.ok()) core_.Release(owner, *removed);
                     answer(removed.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(removed.status()));
                   });
}

void BufferServer::OnRename(Owner& owner, const RenameRequest& request, net::Answer answer) {
  for (const std::string& path : {request.from, request.to}) {
    const Status valid = CheckPath(path);
    if (!valid.ok()) return answer(valid);
  }
  core_.Background([folder = owner.folder.get(), request] { return folder->Rename(request.from, request.to); },
                   [this, &owner, answer = std::move(answer)](const Result<uint64_t>& replaced) {
                     if (replaced.ok()) core_.Release(owner, *replaced);
                     answer(replaced.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(core_.InContext(replaced.status())));
                   });
}

void BufferServer::OnList(Owner& owner, const ListRequest& request, net::Answer answer) {
  core_.Background([folder = owner.folder.get(), request] { return folder->List(request); },
                   [this, answer = std::move(answer)](const Result<FileList>& list) {
                     answer(list.ok() ? Result<Buffer>(Encode(*list)) : Result<Buffer>(core_.InContext(list.status())));
                   });
}

void BufferServer::OnDescribe(Owner& owner, net::Answer answer) {
  core_.Background([folder = owner.folder.get()] { return folder->FreeBytes(); },
                   [this, &owner, answer = std::move(answer)](const Result<uint64_t>& free_bytes) {
                     if (!free_bytes.ok()) return answer(core_.InContext(free_bytes.status()));
                     answer(Encode(Description{core_.options.capacity_bytes, *free_bytes, core_.used_bytes,
                                               owner.options.quota_bytes, owner.used_bytes}));
                   });
}

void BufferServer::OnLeft(const net::Peer& client) {
  const auto is_of_client = [&client](const auto& entry) { return entry.first.first == client; };
  std::vector<Key> keys;
  for (const auto& entry : uploads_) {
    if (is_of_client(entry) && !entry.second->closing) keys.push_back(entry.first);
  }
  for (const Key& key : keys) End(key);
  for (auto download = downloads_.begin(); download != downloads_.end();) {
    const auto here = download++;
    if (is_of_client(*here)) EndDownload(here);
  }
  stores_.OnLeft(client);
  if (!keys.empty()) LogInfo("buffer", "client {} has left; what it was writing is removed: {} files", client.node, keys.size());
}

Json BufferServer::Describe() const {
  Json owners = Json::array();
  for (const auto& [name, owner] : owners_) {
    owners.push_back({{"name", owner.options.name},
                      {"used_bytes", owner.used_bytes},
                      {"quota_bytes", owner.options.quota_bytes},
                      {"drains", drains_.Describe(owner)}});
  }
  return {{"name", core_.options.name},
          {"path", core_.options.path},
          {"address", core_.network->address().ToText()},
          {"capacity_bytes", core_.options.capacity_bytes},
          {"used_bytes", core_.used_bytes},
          {"memory_bytes", core_.options.memory_bytes},
          {"owners", owners},
          {"clients", core_.network->Peers().size()},
          {"being_written", uploads_.size()},
          {"being_read", downloads_.size()},
          {"open_in_stores", stores_.open_count()}};
}

}  // namespace kedge::buffer

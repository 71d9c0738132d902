#include "buffer/server_stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "buffer/pull.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"
#include "store/posix/posix_store.h"

namespace kedge::buffer {
namespace {

constexpr size_t kStoresMax = 256;
constexpr ptrdiff_t kOpenOfClientMax = 1024;
// A client that does not take what it has asked for must ask again.
constexpr Duration kStorePieceLease = std::chrono::seconds(30);

StoreReply Said(Status status) {
  StoreReply reply;
  reply.status = std::move(status);
  return reply;
}

template <typename Value, typename Take>
StoreReply Said(const Result<Value>& result, Take take) {
  StoreReply reply = Said(result.status());
  if (result.ok()) take(*result, &reply);
  return reply;
}

Status NoSuchObject() {
  return Status::FromErrno(ESTALE, "it does not know this object any more, since it was started anew or the connection was lost");
}

TemporaryOwner OwnerOf(const StoreRequest& request) {
  return {request.owner.node, request.owner.attempt, request.owner.writer};
}

Folders FoldersOf(const StoreRequest& request) {
  return request.flag ? Folders::kMustExist : Folders::kCreate;
}

// 0: nothing is there.
uint64_t BytesOf(os::FileSystem& fs, const std::string& path) {
  const auto info = fs.Stat(path);
  return info.ok() && info->kind == os::FileKind::kFile ? info->size_bytes : 0;
}

StoreReply ListPage(Store& store, const StoreRequest& request) {
  return Said(store.List(request.key), [&](const std::vector<StoreEntry>& all, StoreReply* reply) {
    auto entry = std::ranges::upper_bound(all, request.other, {}, &StoreEntry::name);
    for (; entry != all.end() && reply->entries.size() < kStoreListMax; ++entry)
      reply->entries.push_back({entry->name, entry->is_folder});
    reply->has_more = entry != all.end();
  });
}

StoreReply ListTemporariesPage(Store& store, const StoreRequest& request) {
  auto listed = store.ListTemporaries(request.key, OwnerOf(request));
  if (listed.ok()) std::ranges::sort(*listed, {}, &Temporary::handle);
  return Said(listed, [&](const std::vector<Temporary>& all, StoreReply* reply) {
    auto one = std::ranges::upper_bound(all, request.other, {}, &Temporary::handle);
    for (; one != all.end() && reply->temporaries.size() < kTemporariesMax; ++one) {
      const StoreOwner owner{one->owner.node, one->owner.attempt, one->owner.writer};
      reply->temporaries.push_back({one->handle, owner, one->tag, one->bytes, one->age_seconds});
    }
    reply->has_more = one != all.end();
  });
}

// What needs no handle, and changes nothing that is counted.
StoreReply DoSimple(Store& store, const StoreRequest& request) {
  switch (request.operation) {
    case StoreOperation::kGet:
      return Said(store.Get(request.key, std::min(request.number, kRecordInMessageMax)),
                  [](const Buffer& content, StoreReply* reply) { reply->content = content; });
    case StoreOperation::kEnsureDurable: return Said(store.EnsureDurable(request.keys));
    case StoreOperation::kMakeFolder: return Said(store.MakeFolder(request.key));
    case StoreOperation::kList: return ListPage(store, request);
    case StoreOperation::kListTemporaries: return ListTemporariesPage(store, request);
    case StoreOperation::kTouch: return Said(store.Touch(request.key, OwnerOf(request)));
    case StoreOperation::kStamp:
      return Said(store.Stamp(request.key), [](int64_t stamp, StoreReply* reply) { reply->stamp = stamp; });
    case StoreOperation::kAge:
      return Said(store.AgeSeconds(request.key, OwnerOf(request)),
                  [](double seconds, StoreReply* reply) { reply->seconds = seconds; });
    case StoreOperation::kPlace:
      return Said(store.Place(), [](const std::string& place, StoreReply* reply) { reply->text = place; });
    default: return Said(Status(Code::kInternal, "an operation that nobody does"));
  }
}

}  // namespace

// --- which ones ---------------------------------------------------------------------------------------------------------------

Result<ServerStores::StorePointer> ServerStores::Find(const Owner& owner, const StoreRequest& request) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(request.store));
  PosixStoreOptions options;
  options.path = owner.folder->StorePath(request.store);
  options.direct = true;
  // Nothing is mounted on the way to it.
  options.making = static_cast<RootMaking>(request.making) == RootMaking::kNever ? RootMaking::kNever : RootMaking::kParents;
  const std::string key = options.path + (options.making == RootMaking::kNever ? "\nnever" : "");
  const auto found = stores_.find(key);
  if (found != stores_.end()) return found->second;
  if (stores_.size() >= kStoresMax) std::erase_if(stores_, [](const auto& entry) { return entry.second.use_count() == 1; });
  return stores_[key] = MakePosixStore(core_.fs, std::move(options));
}

ServerStores::Opened ServerStores::FindOpen(const Key& key) const {
  const auto found = open_.find(key);
  return found == open_.end() || found->second->store == nullptr ? nullptr : found->second;
}

void ServerStores::Reply(const net::Answer& answer, StoreReply reply) const {
  reply.status = core_.InContext(reply.status);
  for (Status& status : reply.statuses) status = core_.InContext(status);
  answer(Encode(reply));
}

void ServerStores::OnRequest(const net::Peer& client, Owner& owner, const StoreRequest& request, net::Answer answer) {
  const Key key{client, request.handle};
  switch (request.operation) {
    case StoreOperation::kPublish: return OnPublish(client, owner, request, std::move(answer));
    case StoreOperation::kFlush: return OnFlush(key, request, std::move(answer));
    case StoreOperation::kFinish:
    case StoreOperation::kAbandon:
    case StoreOperation::kLeave: return OnEnding(key, owner, request.operation, std::move(answer));
    default: break;
  }
  const Result<StorePointer> store = Find(owner, request);
  if (!store.ok()) return Reply(answer, Said(store.status()));
  switch (request.operation) {
    case StoreOperation::kCreateObject:
    case StoreOperation::kAdoptObject:
    case StoreOperation::kJoinObject:
    case StoreOperation::kOpenObject: return OnOpen(client, owner, request, *store, std::move(answer));
    case StoreOperation::kPutIfAbsent:
    case StoreOperation::kReplace: return OnPut(client, owner, request, *store, std::move(answer));
    case StoreOperation::kRemove:
    case StoreOperation::kRemoveFolder:
    case StoreOperation::kRemoveTemporary:
      return QueueRemoval(owner, request, *store,
                          [this, answer = std::move(answer)](const StoreReply& reply) { Reply(answer, reply); });
    case StoreOperation::kSpace: return OnSpace(owner, *store, std::move(answer));
    default: break;
  }
  core_.Background([one = *store, request] { return DoSimple(*one, request); },
                   [this, answer = std::move(answer)](StoreReply reply) { Reply(answer, std::move(reply)); });
}

// --- objects ------------------------------------------------------------------------------------------------------------------

void ServerStores::OnOpen(const net::Peer& client, Owner& owner, const StoreRequest& request, const StorePointer& store,
                          net::Answer answer) {
  const auto open_here = std::ranges::count_if(open_, [&](const auto& entry) { return entry.first.first == client; });
  if (open_here >= kOpenOfClientMax) {
    const Status refused(Code::kNoSpace, fmt::format("this client has {} objects open; close some", open_here));
    return Reply(answer, Said(refused));
  }
  const Key key{client, core_.NewHandle()};
  // It is known from now on, so that its client's end ends it.
  const auto open = std::make_shared<Open>();
  open_[key] = open;
  core_.Background([this, store, open, request,
                    root = owner.folder->StorePath(request.store)] { return OpenIt(*store, root, request, open.get()); },
                   [this, key, store, open, answer = std::move(answer)](Outcome outcome) {
                     os::KillPoint("buffer-store-opened");
                     outcome.reply.other_text = core_.options.boot;
                     if (!outcome.reply.status.ok()) {
                       open_.erase(key);
                     } else if (open_.contains(key)) {
                       open->store = store;
                       outcome.reply.handle = key.second;
                       if (open->reader == nullptr) counted_.try_emplace(open->path, outcome.bytes);
                     } else {
                       // What it was to write stays, for its owner.
                       outcome.reply = Said(Status(Code::kUnavailable, "the client has left"));
                     }
                     Reply(answer, std::move(outcome.reply));
                   });
}

ServerStores::Outcome ServerStores::OpenIt(Store& store, const std::string& root, const StoreRequest& request, Open* open) const {
  Outcome outcome;
  const auto failed = [&](const Status& status) {
    outcome.reply = Said(status);
    return outcome;
  };
  if (request.operation == StoreOperation::kOpenObject) {
    auto reader = store.OpenObject(request.key);
    if (!reader.ok()) return failed(reader.status());
    open->reader = std::move(*reader);
    outcome.reply.number = open->reader->size_bytes();
    return outcome;
  }
  if (request.operation == StoreOperation::kJoinObject) {
    auto contributor = store.JoinObject(request.other);
    if (!contributor.ok()) return failed(contributor.status());
    open->contributor = std::move(*contributor);
    outcome.reply.text = request.other;
  } else {
    auto writer = request.operation == StoreOperation::kCreateObject
                      ? store.CreateObject(request.key, OwnerOf(request), request.number)
                      : store.AdoptObject(request.key, request.other);
    if (!writer.ok()) return failed(writer.status());
    open->writer = std::move(*writer);
    open->target = os::JoinPath(root, request.key);
    outcome.reply.text = open->writer->handle();
  }
  open->path = os::JoinPath(root, outcome.reply.text);
  outcome.bytes = BytesOf(core_.fs, open->path);
  return outcome;
}

void ServerStores::OnWrite(const net::Peer& client, Owner& owner, const WriteRequest& request, net::Answer answer) {
  const Opened open = FindOpen({client, request.handle});
  if (open == nullptr || open->ends || (open->writer == nullptr && open->contributor == nullptr))
    return Reply(answer, Said(NoSuchObject()));
  const auto counted = counted_.find(open->path);
  if (counted == counted_.end()) return Reply(answer, Said(Status::FromErrno(ENOENT, "write " + open->path)));
  const uint64_t end = request.offset + request.memory.bytes;
  const uint64_t more = end > counted->second ? end - counted->second : 0;
  if (open->failed.ok()) open->failed = core_.Reserve(owner, more);
  if (!open->failed.ok()) return Reply(answer, Said(open->failed));
  counted->second += more;
  ++open->running;
  core_.Background(
      [this, client, request, open] {
        const auto write = [&](uint64_t offset, ByteSpan bytes) {
          return open->writer != nullptr ? open->writer->WriteAt(offset, bytes) : open->contributor->WriteAt(offset, bytes);
        };
        return PullChunk(*core_.network, client, request, write, open->cancelled);
      },
      [this, open, answer = std::move(answer)](const Status& written) {
        os::KillPoint("buffer-store-written");
        --open->running;
        if (!written.ok() && open->failed.ok()) {
          open->failed = written;
          LogWarning("buffer", "{}: {}", open->path, written.ToString());
        }
        Reply(answer, Said(written));
      });
}

void ServerStores::OnFlush(const Key& key, const StoreRequest& request, net::Answer answer) {
  const Opened open = FindOpen(key);
  if (open == nullptr || open->ends || open->writer == nullptr) return Reply(answer, Said(NoSuchObject()));
  ++open->running;
  core_.Background([open, request] { return open->writer->FlushHint(request.offset, request.number, request.flag); },
                   [this, open, answer = std::move(answer)](const Status& flushed) {
                     --open->running;
                     Reply(answer, Said(flushed));
                   });
}

void ServerStores::OnPublish(const net::Peer& client, Owner& owner, const StoreRequest& request, net::Answer answer) {
  struct Publication {
    std::vector<Opened> objects;  // null: its status says why
    std::vector<Status> statuses;
    std::vector<uint64_t> replaced;  // bytes of what lay there before
  };
  auto all = std::make_shared<Publication>();
  for (const uint64_t handle : request.handles) {
    Opened open = FindOpen({client, handle});
    Status status;
    if (open == nullptr || open->writer == nullptr || open->ends || open->running > 0) {
      status = NoSuchObject();
      open = nullptr;
    } else if (!counted_.contains(open->path)) {
      status = Status::FromErrno(ENOENT, "publish " + open->path);
    } else {
      status = open->failed;
    }
    if (open != nullptr) open->ends = true;
    all->objects.push_back(std::move(open));
    all->statuses.push_back(std::move(status));
  }
  all->replaced.resize(all->objects.size());
  core_.Background(
      [this, all] {
        std::map<Store*, std::vector<size_t>> by_store;
        for (size_t i = 0; i < all->objects.size(); ++i) {
          const Opened& open = all->objects[i];
          if (open == nullptr) continue;
          if (!all->statuses[i].ok()) {
            (void)open->writer->Abandon();
            continue;
          }
          by_store[open->store.get()].push_back(i);
          all->replaced[i] = BytesOf(core_.fs, open->target);
        }
        os::KillPoint("buffer-store-publish");
        for (const auto& [store, members] : by_store) {
          std::vector<ObjectWriter*> writers;
          for (const size_t i : members) writers.push_back(all->objects[i]->writer.get());
          std::vector<Status> statuses = store->Publish(writers);
          for (size_t i = 0; i < members.size(); ++i) all->statuses[members[i]] = std::move(statuses[i]);
        }
        return 0;
      },
      [this, all, client, &owner, handles = request.handles, answer = std::move(answer)](int) {
        os::KillPoint("buffer-store-published");
        for (size_t i = 0; i < all->objects.size(); ++i) {
          if (all->objects[i] == nullptr) continue;
          const std::string& path = all->objects[i]->path;
          if (all->statuses[i].ok()) {
            counted_.erase(path);
            core_.Release(owner, all->replaced[i]);
          } else {
            Uncount(owner, path);
          }
          Forget({client, handles[i]});
        }
        StoreReply reply;
        reply.statuses = all->statuses;
        Reply(answer, std::move(reply));
      });
}

void ServerStores::OnEnding(const Key& key, Owner& owner, StoreOperation operation, net::Answer answer) {
  const Opened open = FindOpen(key);
  if (operation == StoreOperation::kLeave) {
    Forget(key);
    return Reply(answer, {});
  }
  const bool finishes = operation == StoreOperation::kFinish;
  const bool is_one = open != nullptr && !open->ends && (finishes ? open->contributor != nullptr : open->writer != nullptr);
  if (!is_one || open->running > 0) return Reply(answer, Said(NoSuchObject()));
  open->ends = true;
  core_.Background(
      [open, finishes, failed = open->failed] {
        if (!finishes) return open->writer->Abandon();
        return failed.ok() ? open->contributor->Finish() : failed;
      },
      [this, open, key, finishes, &owner, answer = std::move(answer)](const Status& ended) {
        os::KillPoint("buffer-store-ended");
        if (!finishes && ended.ok()) Uncount(owner, open->path);
        Forget(key);
        Reply(answer, Said(ended));
      });
}

void ServerStores::Uncount(Owner& owner, const std::string& path) {
  const auto counted = counted_.find(path);
  if (counted == counted_.end()) return;
  core_.Release(owner, counted->second);
  counted_.erase(counted);
}

void ServerStores::Forget(const Key& key) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  const Opened open = found->second;
  open_.erase(found);
  const std::set<uint64_t> leases = open->leases;
  for (const uint64_t lease : leases) core_.network->EndLease(lease);
}

void ServerStores::OnLeft(const net::Peer& client) {
  std::vector<Key> keys;
  for (const auto& [key, open] : open_) {
    if (key.first == client) keys.push_back(key);
  }
  for (const Key& key : keys) {
    open_.at(key)->cancelled = true;
    Forget(key);
  }
}

void ServerStores::Cancel() {
  cancelled_ = true;
  for (const auto& [key, open] : open_) open->cancelled = true;
}

// --- reading ------------------------------------------------------------------------------------------------------------------

void ServerStores::OnRead(const net::Peer& client, const StoreReadRequest& request, net::Answer answer) {
  const Key key{client, request.handle};
  const Opened open = FindOpen(key);
  if (open == nullptr || open->reader == nullptr) {
    StoreReadReply reply;
    reply.status = core_.InContext(NoSuchObject());
    return answer(Encode(reply));
  }
  if (request.bytes > kReadInMessageMax) {
    if (const Status may = core_.pieces.MayAsk(request.ahead); !may.ok()) return answer(may);
    core_.pieces.Ask([this, key, open, request, answer = std::move(answer)](const PiecePool::Piece& piece) {
      ReadPiece(key, open, request, piece, answer);
    });
    return;
  }
  core_.Background(
      [open, request] {
        StoreReadReply reply;
        reply.content.resize(request.bytes);
        reply.status = open->reader->ReadAt(request.offset, reply.content);
        if (!reply.status.ok()) reply.content.clear();
        return reply;
      },
      [this, answer = std::move(answer)](StoreReadReply reply) {
        reply.status = core_.InContext(reply.status);
        answer(Encode(reply));
      });
}

void ServerStores::ReadPiece(const Key& key, const Opened& open, const StoreReadRequest& request, const PiecePool::Piece& piece,
                             net::Answer answer) {
  core_.Background(
      [open, request, piece]() -> Result<StoreReadReply> {
        const std::span<std::byte> bytes(piece->bytes.data(), request.bytes);
        KEDGE_RETURN_IF_ERROR(open->reader->ReadAt(request.offset, bytes));
        StoreReadReply reply;
        reply.sums = SumsOfBlocks(0, bytes);
        if (request.sealed) reply.seals = SealBlocks(0, bytes);
        return reply;
      },
      [this, key, open, bytes = request.bytes, piece, answer = std::move(answer)](Result<StoreReadReply> ready) {
        if (ready.ok() && FindOpen(key) == open) return LeasePiece(key, open, bytes, piece, std::move(*ready), answer);
        StoreReadReply refused;
        refused.status = core_.InContext(ready.ok() ? NoSuchObject() : ready.status());
        answer(Encode(refused));
        core_.pieces.GiveBack(piece);
      });
}

void ServerStores::LeasePiece(const Key& key, const Opened& open, uint64_t bytes, const PiecePool::Piece& piece,
                              StoreReadReply reply, const net::Answer& answer) {
  const auto lease_number = std::make_shared<uint64_t>(0);
  const auto memory =
      core_.network->Lease(key.first.job, {piece->bytes.data(), bytes}, kStorePieceLease, [this, open, piece, lease_number] {
        open->leases.erase(*lease_number);
        core_.pieces.GiveBack(piece);
      });
  if (!memory.ok()) {
    answer(memory.status());
    return core_.pieces.GiveBack(piece);
  }
  *lease_number = memory->lease;
  open->leases.insert(memory->lease);
  reply.memory = *memory;
  answer(Encode(reply));
}

// --- records and removal ------------------------------------------------------------------------------------------------------

void ServerStores::OnPut(const net::Peer& client, Owner& owner, const StoreRequest& request, const StorePointer& store,
                         net::Answer answer) {
  const uint64_t bytes = request.memory.bytes > 0 ? request.memory.bytes : request.content.size();
  const Status reserved = core_.Reserve(owner, bytes);
  if (!reserved.ok()) return Reply(answer, Said(reserved));
  const std::string path = os::JoinPath(owner.folder->StorePath(request.store), request.key);
  core_.Background([this, client, store, path, request] { return PutIt(client, *store, path, request); },
                   [this, bytes, &owner, request, answer = std::move(answer)](Outcome outcome) {
                     os::KillPoint("buffer-store-recorded");
                     core_.Release(owner, outcome.reply.status.ok() ? outcome.bytes : bytes);
                     if (outcome.reply.status.ok() && os::BaseName(request.key) == "version")
                       version_is_put_(owner, request.store);
                     Reply(answer, std::move(outcome.reply));
                   });
}

ServerStores::Outcome ServerStores::PutIt(const net::Peer& client, Store& store, const std::string& path,
                                          const StoreRequest& request) {
  Buffer pulled;
  std::unique_lock<std::mutex> large;
  if (request.memory.bytes > 0) {
    large = std::unique_lock(large_record_);
    pulled.resize(request.memory.bytes);
    const auto write = [&](uint64_t offset, ByteSpan block) {
      std::memcpy(pulled.data() + offset, block.data(), block.size());
      return Status::Ok();
    };
    const Status arrived =
        PullChunk(*core_.network, client, {0, 0, request.memory, request.sums, request.seals}, write, cancelled_);
    if (!arrived.ok()) return {Said(arrived), 0};
  }
  const ByteSpan content = request.memory.bytes > 0 ? ByteSpan(pulled) : ByteSpan(request.content);
  os::KillPoint("buffer-store-record");
  if (request.operation == StoreOperation::kPutIfAbsent)
    return {Said(store.PutIfAbsent(request.key, content, OwnerOf(request), FoldersOf(request))), 0};
  const uint64_t before = BytesOf(core_.fs, path);
  return {Said(store.Replace(request.key, content, OwnerOf(request), FoldersOf(request))), before};
}

void ServerStores::Remove(Owner& owner, const StoreRequest& request, std::function<void(const StoreReply&)> done) {
  const Result<StorePointer> store = Find(owner, request);
  if (!store.ok()) return done(Said(store.status()));
  QueueRemoval(owner, request, *store, std::move(done));
}

void ServerStores::QueueRemoval(Owner& owner, const StoreRequest& request, const StorePointer& store,
                                std::function<void(const StoreReply&)> done) {
  const bool is_temporary = request.operation == StoreOperation::kRemoveTemporary;
  const std::string path = os::JoinPath(owner.folder->StorePath(request.store), is_temporary ? request.other : request.key);
  owner.removals.push_back([this, request, store, path, is_temporary, &owner, done = std::move(done)] {
    core_.Background(
        [this, request, store, path, is_temporary] {
          Outcome outcome;
          os::KillPoint("buffer-store-remove");
          // A key that breaks the rules is refused before anything lies there.
          const bool is_key = ValidateKey(is_temporary ? request.other : request.key).ok();
          if (is_key) outcome.bytes = BytesOf(core_.fs, path);
          if (is_key && request.operation != StoreOperation::kRemove) {
            const Result<uint64_t> below = BytesBelow(core_.fs, path);
            outcome.bytes += below.ok() ? *below : 0;
          }
          outcome.reply = Said(request.operation == StoreOperation::kRemove ? store->Remove(request.key)
                               : is_temporary                               ? store->RemoveTemporary(request.other)
                                              : store->RemoveFolder(request.key, request.other, OwnerOf(request)));
          return outcome;
        },
        [this, path, &owner, done](const Outcome& outcome) {
          os::KillPoint("buffer-store-removed");
          if (outcome.reply.status.ok()) {
            const auto own = counted_.find(path);
            core_.Release(owner, own != counted_.end() ? own->second : outcome.bytes);
            std::erase_if(counted_,
                          [&](const auto& entry) { return entry.first == path || entry.first.starts_with(path + '/'); });
          }
          done(outcome.reply);
          owner.removals.pop_front();
          NextRemoval(owner);
        });
  });
  if (owner.removals.size() == 1) NextRemoval(owner);
}

void ServerStores::NextRemoval(Owner& owner) {
  if (!owner.removals.empty()) owner.removals.front()();
}

void ServerStores::OnSpace(Owner& owner, const StorePointer& store, net::Answer answer) {
  core_.Background([store] { return store->Space(); },
                   [this, &owner, answer = std::move(answer)](const Result<StoreSpace>& space) {
                     StoreReply reply = Said(space.status());
                     if (!space.ok()) return Reply(answer, std::move(reply));
                     reply.number = space->total_bytes;
                     reply.free_bytes = space->available_bytes;
                     const auto limit = [&](uint64_t limit_bytes, uint64_t used) {
                       if (limit_bytes == 0) return;
                       reply.number = std::min(reply.number, limit_bytes);
                       reply.free_bytes = std::min(reply.free_bytes, limit_bytes - std::min(limit_bytes, used));
                     };
                     limit(core_.options.capacity_bytes, core_.used_bytes);
                     limit(owner.options.quota_bytes, owner.used_bytes);
                     Reply(answer, std::move(reply));
                   });
}

}  // namespace kedge::buffer

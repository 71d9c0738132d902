#include "store/buffer/buffer_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "os/process/kill_point.h"
#include "store/buffer/buffer_object.h"

namespace kedge::buffer {
namespace {

static_assert(static_cast<uint8_t>(RootMaking::kParents) == kMakingLast);

constexpr int kCommitTriesMax = 5;  // with servers and connections that end again and again

StoreOwner OwnerOf(const TemporaryOwner& owner) {
  return {owner.node, owner.attempt, owner.writer};
}

class BufferStore final : public Store {
 public:
  BufferStore(const StoreLocation& location, RootMaking making, const LinkOptions& options)
      : link_(location, static_cast<uint8_t>(making), options), description_(location.ToDisplay()) {}

  const std::string& description() const override { return description_; }
  bool is_far() const override { return true; }
  Result<std::string> Place() override;

  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override;
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override;
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override;
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override;
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override;

  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return Put(StoreOperation::kPutIfAbsent, key, bytes, owner, folders);
  }
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return Put(StoreOperation::kReplace, key, bytes, owner, folders);
  }
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override;
  Status EnsureDurable(std::span<const std::string> keys) override;

  Status MakeFolder(const std::string& folder) override {
    return Do({.operation = StoreOperation::kMakeFolder, .key = folder}).status();
  }
  Result<std::vector<StoreEntry>> List(const std::string& folder) override;

  Status Remove(const std::string& key) override { return Do({.operation = StoreOperation::kRemove, .key = key}).status(); }
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override {
    return Do({.operation = StoreOperation::kRemoveFolder, .key = folder, .other = first, .owner = OwnerOf(owner)}).status();
  }
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override;
  Status RemoveTemporary(const std::string& handle) override {
    return Do({.operation = StoreOperation::kRemoveTemporary, .other = handle}).status();
  }

  Status Touch(const std::string& key, const TemporaryOwner& owner) override {
    return Do({.operation = StoreOperation::kTouch, .key = key, .owner = OwnerOf(owner)}).status();
  }
  Result<int64_t> Stamp(const std::string& key) override {
    KEDGE_ASSIGN_OR_RETURN(const StoreReply reply, Do({.operation = StoreOperation::kStamp, .key = key}));
    return reply.stamp;
  }
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override {
    KEDGE_ASSIGN_OR_RETURN(const StoreReply reply, Do({.operation = StoreOperation::kAge, .key = key, .owner = OwnerOf(owner)}));
    return reply.seconds;
  }
  Result<StoreSpace> Space() override {
    KEDGE_ASSIGN_OR_RETURN(const StoreReply reply, Do({.operation = StoreOperation::kSpace}));
    return StoreSpace{reply.number, reply.free_bytes};
  }

  Status DrainTo(const std::string& target, Drainer drainer) {
    StoreRequest request{.operation = StoreOperation::kDrainTo, .other = target};
    request.flag = drainer == Drainer::kPartner;
    return Do(std::move(request)).status();
  }

 private:
  Result<StoreReply> Do(StoreRequest request) { return link_.Ask(std::move(request), Link::Repeat::kYes); }
  Status Put(StoreOperation operation, const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders);
  struct Commit {
    BufferObjectWriter* writer;
    Handle handle;
    Status* status;
  };
  void PublishAll(const std::vector<Commit>& commits);

  Link link_;
  const std::string description_;
};

Result<std::string> BufferStore::Place() {
  KEDGE_ASSIGN_OR_RETURN(const StoreReply reply, Do({.operation = StoreOperation::kPlace}));
  return link_.location().server + ' ' + reply.text;
}

// ---- Objects ----

Result<std::unique_ptr<ObjectWriter>> BufferStore::CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                                uint64_t expected_bytes) {
  StoreRequest request{.operation = StoreOperation::kCreateObject, .key = key, .owner = OwnerOf(owner)};
  request.number = expected_bytes;
  KEDGE_ASSIGN_OR_RETURN(const Link::Opened opened, link_.Open(request));
  Handle handle{opened.client, opened.reply.handle, opened.reply.other_text};
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<BufferObjectWriter>(*this, link_, std::move(handle), key, opened.reply.text));
}

Result<std::unique_ptr<ObjectWriter>> BufferStore::AdoptObject(const std::string& key, const std::string& handle) {
  KEDGE_ASSIGN_OR_RETURN(const Link::Opened opened,
                         link_.Open({.operation = StoreOperation::kAdoptObject, .key = key, .other = handle}));
  Handle open{opened.client, opened.reply.handle, opened.reply.other_text};
  return std::unique_ptr<ObjectWriter>(std::make_unique<BufferObjectWriter>(*this, link_, std::move(open), key, handle));
}

Result<std::unique_ptr<ObjectContributor>> BufferStore::JoinObject(const std::string& handle) {
  KEDGE_ASSIGN_OR_RETURN(const Link::Opened opened, link_.Open({.operation = StoreOperation::kJoinObject, .other = handle}));
  Handle open{opened.client, opened.reply.handle};
  return std::unique_ptr<ObjectContributor>(std::make_unique<BufferObjectContributor>(link_, std::move(open)));
}

std::vector<Status> BufferStore::Publish(std::span<ObjectWriter* const> writers) {
  std::vector<Status> statuses(writers.size());
  std::vector<Commit> commits;
  for (size_t i = 0; i < writers.size(); ++i) {
    auto* const writer = dynamic_cast<BufferObjectWriter*>(writers[i]);
    statuses[i] =
        writer != nullptr ? writer->BeginCommit() : Status(Code::kInternal, writers[i]->key() + " is an object of another store");
    if (statuses[i].ok()) commits.push_back({writer, writer->open(), &statuses[i]});
  }
  std::vector<Commit> left = commits;
  for (int tries = 0; tries < kCommitTriesMax && !left.empty(); ++tries) {
    PublishAll(left);
    // One whose server or connection has ended goes on with the next one, where nothing of it is lost.
    std::erase_if(left, [](Commit& commit) {
      if (!MeansLostHandle(*commit.status)) return true;
      const Status goes_on = commit.writer->GoOn(commit.handle);
      if (!goes_on.ok()) *commit.status = goes_on;
      commit.handle = commit.writer->open();
      return !goes_on.ok();
    });
  }
  for (const Commit& commit : commits) {
    *commit.status = commit.status->WithContext(description_ + '/' + commit.writer->key());
    commit.writer->EndCommit(*commit.status);
  }
  return statuses;
}

void BufferStore::PublishAll(const std::vector<Commit>& commits) {
  std::map<Client*, std::vector<const Commit*>> groups;  // by connection
  for (const Commit& commit : commits) groups[commit.handle.client.get()].push_back(&commit);
  for (const auto& [client, group] : groups) {
    for (size_t at = 0; at < group.size(); at += kStoreListMax) {
      const auto part = std::span(group).subspan(at, std::min(kStoreListMax, group.size() - at));
      StoreRequest request{.operation = StoreOperation::kPublish};
      for (const Commit* const commit : part) request.handles.push_back(commit->handle.number);
      os::KillPoint("buffer-store-commit");
      auto reply = link_.AskBy(*client, std::move(request));
      if (reply.ok() && reply->statuses.size() != part.size())
        reply = Status(Code::kCorrupt, "the server does not say what became of each object");
      for (size_t i = 0; i < part.size(); ++i) *part[i]->status = reply.ok() ? reply->statuses[i] : reply.status();
    }
  }
}

Result<std::unique_ptr<ObjectReader>> BufferStore::OpenObject(const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<BufferObjectReader> reader, BufferObjectReader::Open(link_, key));
  return std::unique_ptr<ObjectReader>(std::move(reader));
}

// ---- Records ----

Status BufferStore::Put(StoreOperation operation, const std::string& key, ByteSpan bytes, const TemporaryOwner& owner,
                        Folders folders) {
  if (bytes.size() > kStoreRecordBytesMax)
    return {Code::kUnsupported,
            fmt::format("{}/{}: a record of {} bytes; {} are allowed", description_, key, bytes.size(), kStoreRecordBytesMax)};
  StoreRequest request{.operation = operation, .key = key, .owner = OwnerOf(owner)};
  request.flag = folders == Folders::kMustExist;
  const auto repeat = operation == StoreOperation::kReplace ? Link::Repeat::kYes : Link::Repeat::kNo;
  if (bytes.size() <= kRecordInMessageMax) {
    request.content.assign(bytes.begin(), bytes.end());
    return link_.Ask(std::move(request), repeat).status();
  }
  KEDGE_ASSIGN_OR_RETURN(const std::shared_ptr<Client> client, link_.Connection());
  request.sums = SumsOfBlocks(0, bytes);
  Buffer sealed;
  if (client->seals()) {
    sealed.assign(bytes.begin(), bytes.end());
    request.seals = SealBlocks(0, sealed);
  }
  KEDGE_ASSIGN_OR_RETURN(const LeasedBytes leased, LeasedBytes::Of(client, sealed.empty() ? bytes : ByteSpan(sealed)));
  request.memory = leased.memory();
  return link_.AskBy(*client, std::move(request)).status();
}

Result<Buffer> BufferStore::Get(const std::string& key, uint64_t bytes_max) {
  auto reply = Do({.operation = StoreOperation::kGet, .key = key, .number = bytes_max});
  if (reply.ok()) return std::move(reply->content);
  if (reply.status().code() != Code::kCorrupt || bytes_max <= kRecordInMessageMax) return reply.status();
  // More than a message has.
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectReader> reader, OpenObject(key));
  if (reader->size_bytes() > bytes_max) return reply.status();
  Buffer content(reader->size_bytes());
  KEDGE_RETURN_IF_ERROR(reader->ReadAt(0, content));
  return content;
}

Status BufferStore::EnsureDurable(std::span<const std::string> keys) {
  for (size_t at = 0; at < keys.size(); at += kStoreListMax) {
    StoreRequest request{.operation = StoreOperation::kEnsureDurable};
    const auto part = keys.subspan(at, std::min(kStoreListMax, keys.size() - at));
    request.keys.assign(part.begin(), part.end());
    KEDGE_RETURN_IF_ERROR(Do(std::move(request)).status());
  }
  return Status::Ok();
}

// ---- Lists ----

Result<std::vector<StoreEntry>> BufferStore::List(const std::string& folder) {
  std::vector<StoreEntry> entries;
  StoreRequest request{.operation = StoreOperation::kList, .key = folder};
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(StoreReply reply, Do(request));
    for (StoreFolderEntry& entry : reply.entries) entries.push_back({std::move(entry.name), entry.is_folder});
    if (!reply.has_more || reply.entries.empty()) return entries;
    request.other = entries.back().name;
  }
}

Result<std::vector<Temporary>> BufferStore::ListTemporaries(const std::string& folder, const TemporaryOwner& self) {
  std::vector<Temporary> found;
  StoreRequest request{.operation = StoreOperation::kListTemporaries, .key = folder, .owner = OwnerOf(self)};
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(StoreReply reply, Do(request));
    for (StoreTemporary& one : reply.temporaries) {
      TemporaryOwner owner{std::move(one.owner.node), one.owner.attempt, std::move(one.owner.writer)};
      found.push_back({std::move(one.handle), std::move(owner), std::move(one.tag), one.bytes, one.age_seconds});
    }
    if (!reply.has_more || reply.temporaries.empty()) return found;
    request.other = found.back().handle;
  }
}

}  // namespace

std::unique_ptr<Store> MakeBufferStore(const StoreLocation& location, RootMaking making, const LinkOptions& options) {
  return std::make_unique<BufferStore>(location, making, options);
}

Status DrainTo(Store& store, const std::string& target, Drainer drainer) {
  return dynamic_cast<BufferStore&>(store).DrainTo(target, drainer);
}

}  // namespace kedge::buffer

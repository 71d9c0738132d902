#include "store/s3/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "os/files/files.h"
#include "os/process/kill_point.h"
#include "store/s3/answers.h"
#include "store/s3/bytes_in_flight.h"
#include "store/s3/object.h"
#include "store/s3/uploads.h"
#include "store/temporary_tag.h"

namespace kedge::s3 {

namespace {

constexpr size_t kRemovalsAtATime = 64;
// Times are whole seconds, and a server may keep the one of its header for that long.
constexpr int64_t kClockSteps = 1;
constexpr char kProbe[] = "kedge.conditional-writes.0000000000000000.tmp";  // hidden as a temporary is

bool IsHidden(std::string_view name) {
  return os::IsTemporaryName(name);
}

std::string_view NameOf(std::string_view key) {
  return key.substr(key.rfind('/') + 1);  // npos + 1 is 0
}

int64_t StampOf(const HttpAnswer& answer) {
  const std::string_view nonce = answer.Header(kNonceHeader);
  uint64_t number = 0;
  std::from_chars(nonce.data(), nonce.data() + std::min<size_t>(nonce.size(), 16), number, 16);
  const int64_t modified = ParseHttpTime(std::string(answer.Header("last-modified"))).value_or(0);
  return static_cast<int64_t>(number >> 1) ^ modified;
}

class S3Store final : public Store {
 public:
  S3Store(const Location& location, const Environment& environment, const BucketOptions& options)
      : memory_(uint64_t{location.connections} * location.part_bytes),
        bucket_(location, environment, options),
        description_(bucket_.Describe("")) {}

  const std::string& description() const override { return description_; }
  bool is_far() const override { return true; }
  Result<std::string> Place() override { return description_; }

  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override;
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override;
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override;
  // Its last part goes whole, with zeros behind its bytes.
  uint64_t share_bytes_min() const override { return bucket_.location().part_bytes; }
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override;
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override;

  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override;
  Status EnsureDurable(std::span<const std::string> keys) override;

  Status MakeFolder(const std::string& folder) override;
  Result<std::vector<StoreEntry>> List(const std::string& folder) override;

  Status Remove(const std::string& key) override;
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override;
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override;
  Status RemoveTemporary(const std::string& handle) override;

  Status Touch(const std::string& key, const TemporaryOwner& owner) override;
  Result<int64_t> Stamp(const std::string& key) override;
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override;
  Result<StoreSpace> Space() override;

 private:
  struct Seen {
    std::vector<ListedKey> keys;        // the store's keys, also those of temporaries and folders ("a/b/")
    std::vector<std::string> prefixes;  // "a/b/", with a delimiter
    int64_t now_unix_seconds = 0;       // by the store's clock
  };
  // Keys that begin with `prefix` (of the store's keys). `keys_max` 0: all of them.
  Result<Seen> ListKeys(const std::string& prefix, bool by_folder, uint32_t keys_max = 0);
  Result<bool> IsThere(const std::string& folder);
  Status CheckFolder(const std::string& key, Folders folders);
  // Once in the life of this object, before the first write that relies on it.
  Status CheckConditionalWrites();
  Status PutRecord(const std::string& key, ByteSpan bytes, bool if_absent);
  // kNotFound: there is none.
  Result<HttpAnswer> Head(const std::string& key);
  Status RemoveAll(const std::vector<std::string>& keys);
  std::string FolderPrefix(const std::string& folder) const { return folder.empty() ? "" : folder + '/'; }

  BytesInFlight memory_;  // outlives the requests
  Bucket bucket_;
  const std::string description_;
  std::mutex mutex_;
  bool has_conditional_writes_ = false;  // guarded by mutex_: known so far
};

// ---- Objects ----

Result<std::unique_ptr<ObjectWriter>> S3Store::CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                            uint64_t expected_bytes) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  const uint64_t part_bytes = bucket_.location().part_bytes;
  S3ObjectWriter::Place place{key, Uploads::MakeHandle(key, owner), expected_bytes, false};
  std::optional<Upload> upload;
  if (expected_bytes == 0 || expected_bytes > part_bytes) {
    KEDGE_ASSIGN_OR_RETURN(upload, Uploads(bucket_).Begin(key, place.handle));
  }
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<S3ObjectWriter>(bucket_, memory_, std::move(place), std::move(upload), part_bytes));
}

Result<std::unique_ptr<ObjectWriter>> S3Store::AdoptObject(const std::string& key, const std::string& handle) {
  KEDGE_ASSIGN_OR_RETURN(const Upload upload, Uploads(bucket_).Find(handle));
  if (upload.key != key) return Status(Code::kInvalidArgument, "'" + handle + "' is not of " + key);
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<S3ObjectWriter>(bucket_, memory_, S3ObjectWriter::Place{key, handle, 0, true}, upload, upload.part_bytes));
}

Result<std::unique_ptr<ObjectContributor>> S3Store::JoinObject(const std::string& handle) {
  KEDGE_ASSIGN_OR_RETURN(const Upload upload, Uploads(bucket_).Find(handle));
  return std::unique_ptr<ObjectContributor>(std::make_unique<S3ObjectContributor>(bucket_, memory_, upload));
}

std::vector<Status> S3Store::Publish(std::span<ObjectWriter* const> writers) {
  std::vector<Status> statuses;
  for (ObjectWriter* const one : writers) {
    auto* const writer = dynamic_cast<S3ObjectWriter*>(one);
    statuses.push_back(writer != nullptr ? writer->SendRest()
                                         : Status(Code::kInternal, one->key() + " is an object of another store"));
  }
  // A server may take long to put parts together: of all objects at a time.
  std::vector<size_t> completed;
  std::vector<Request> requests;
  for (size_t i = 0; i < writers.size(); ++i) {
    if (!statuses[i].ok()) continue;
    Result<Request> request = static_cast<S3ObjectWriter*>(writers[i])->CompletionRequest();
    statuses[i] = request.status();
    if (!request.ok()) continue;
    completed.push_back(i);
    requests.push_back(*std::move(request));
  }
  const std::vector<Reply> replies = bucket_.DoAll(std::move(requests));
  for (size_t i = 0; i < completed.size(); ++i) {
    statuses[completed[i]] = static_cast<S3ObjectWriter*>(writers[completed[i]])->Settle(replies[i]);
  }
  return statuses;
}

Result<HttpAnswer> S3Store::Head(const std::string& key) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  Reply reply = bucket_.Do({.method = "HEAD", .key = key});
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.answer);
}

Result<std::unique_ptr<ObjectReader>> S3Store::OpenObject(const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(const HttpAnswer head, Head(key));
  uint64_t bytes = 0;
  const std::string_view length = head.Header("content-length");
  const auto read = std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (read.ec != std::errc() || length.empty()) {
    return Status(Code::kCorrupt, bucket_.Describe(key) + ": the store does not say how long it is");
  }
  return std::unique_ptr<ObjectReader>(std::make_unique<S3ObjectReader>(bucket_, key, std::string(head.Header("etag")), bytes));
}

// ---- Records ----

Status S3Store::CheckFolder(const std::string& key, Folders folders) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  const size_t slash = key.rfind('/');
  if (folders == Folders::kCreate || slash == std::string::npos) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const bool is_there, IsThere(key.substr(0, slash)));
  return is_there ? Status::Ok()
                  : Status(Code::kNotFound, bucket_.Describe(key.substr(0, slash)) + ": there is nothing below it");
}

// The first may create the probe; the second must not. Where it stood already, one request tells.
Status S3Store::CheckConditionalWrites() {
  {
    const std::lock_guard lock(mutex_);
    if (has_conditional_writes_) return Status::Ok();
  }
  Reply reply;
  for (int writes = 0; writes < 2; ++writes) {
    Request put{.method = "PUT", .key = kProbe, .headers = {{"if-none-match", "*"}}};
    reply = bucket_.Do(std::move(put));
    if (reply.http_status == 412) {
      const std::lock_guard lock(mutex_);
      has_conditional_writes_ = true;
      return Status::Ok();
    }
    if (!reply.status.ok() && reply.http_status != 501) return reply.status;
  }
  return Status(
      Code::kUnsupported,
      fmt::format("{}: this object store does not create objects only where there are none (If-None-Match: *), and so two "
                  "launches of a job could both take it: use another store, or a newer version of its server",
                  description_));
}

Status S3Store::PutRecord(const std::string& key, ByteSpan bytes, bool if_absent) {
  const std::string nonce = Id128::Generate().ToHex();
  Request put{.method = "PUT", .key = key, .headers = {{kNonceHeader, nonce}}, .body = bytes};
  if (if_absent) put.headers.emplace_back("if-none-match", "*");
  const Reply reply = bucket_.Do(std::move(put));
  if (reply.status.ok() || !if_absent) return reply.status;
  const bool is_unsure = reply.http_status == 0 || reply.http_status >= 500 || reply.may_have_acted;
  if (!is_unsure) return reply.status;
  // An answer was lost: the record that stands there may be this one.
  const Result<HttpAnswer> there = Head(key);
  if (there.ok() && there->Header(kNonceHeader) == nonce) return Status::Ok();
  return reply.status;
}

Status S3Store::PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& /*owner*/, Folders folders) {
  KEDGE_RETURN_IF_ERROR(CheckFolder(key, folders));
  KEDGE_RETURN_IF_ERROR(CheckConditionalWrites());
  return PutRecord(key, bytes, /*if_absent=*/true);
}

Status S3Store::Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& /*owner*/, Folders folders) {
  KEDGE_RETURN_IF_ERROR(CheckFolder(key, folders));
  return PutRecord(key, bytes, /*if_absent=*/false);
}

Result<Buffer> S3Store::Get(const std::string& key, uint64_t bytes_max) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  Reply reply = bucket_.Do({.method = "GET", .key = key, .body_max = bytes_max});
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.answer.body);
}

Status S3Store::EnsureDurable(std::span<const std::string> keys) {
  std::vector<Request> requests;
  for (const std::string& key : keys) {
    KEDGE_RETURN_IF_ERROR(ValidateKey(key));
    requests.push_back({.method = "HEAD", .key = key});
  }
  for (const Reply& reply : bucket_.DoAll(std::move(requests))) KEDGE_RETURN_IF_ERROR(reply.status);
  return Status::Ok();
}

// ---- Folders ----

Result<S3Store::Seen> S3Store::ListKeys(const std::string& prefix, bool by_folder, uint32_t keys_max) {
  const std::string own = bucket_.location().prefix.empty() ? "" : bucket_.location().prefix + '/';
  Seen seen;
  std::string next;
  do {
    Request request{.method = "GET", .query = {{"list-type", "2"}, {"prefix", own + prefix}}, .is_of_bucket = true};
    if (by_folder) request.query.emplace_back("delimiter", "/");
    if (keys_max > 0) request.query.emplace_back("max-keys", std::to_string(keys_max));
    if (!next.empty()) request.query.emplace_back("continuation-token", next);
    const Reply reply = bucket_.Do(std::move(request));
    KEDGE_RETURN_IF_ERROR(reply.status);
    KEDGE_ASSIGN_OR_RETURN(ListAnswer page, ReadList(reply.answer.body));
    seen.now_unix_seconds = ParseHttpTime(std::string(reply.answer.Header("date"))).value_or(0);
    for (ListedKey& key : page.keys) {
      if (!key.key.starts_with(own)) continue;
      key.key.erase(0, own.size());
      seen.keys.push_back(std::move(key));
    }
    for (const std::string& folder : page.prefixes) {
      if (folder.starts_with(own)) seen.prefixes.push_back(folder.substr(own.size()));
    }
    const bool stands_still = !next.empty() && page.next == next;
    if (stands_still) return Status(Code::kCorrupt, description_ + ": the store's list of keys does not go on");
    next = keys_max > 0 ? "" : page.next;
  } while (!next.empty());
  return seen;
}

Result<bool> S3Store::IsThere(const std::string& folder) {
  KEDGE_ASSIGN_OR_RETURN(const Seen seen, ListKeys(FolderPrefix(folder), /*by_folder=*/false, 1));
  return !seen.keys.empty();
}

Status S3Store::MakeFolder(const std::string& folder) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  KEDGE_ASSIGN_OR_RETURN(const bool is_there, IsThere(folder));
  if (is_there) return Status::Ok();
  return bucket_.Do({.method = "PUT", .key = folder + '/'}).status;
}

Result<std::vector<StoreEntry>> S3Store::List(const std::string& folder) {
  if (!folder.empty()) KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  const std::string prefix = FolderPrefix(folder);
  KEDGE_ASSIGN_OR_RETURN(const Seen seen, ListKeys(prefix, /*by_folder=*/true));
  if (!folder.empty() && seen.keys.empty() && seen.prefixes.empty()) {
    return Status(Code::kNotFound, bucket_.Describe(folder) + ": there is nothing below it");
  }
  std::vector<StoreEntry> entries;
  for (const ListedKey& key : seen.keys) {
    if (key.key.size() > prefix.size() && !IsHidden(NameOf(key.key))) entries.push_back({key.key.substr(prefix.size()), false});
  }
  for (const std::string& below : seen.prefixes) {
    entries.push_back({below.substr(prefix.size(), below.size() - prefix.size() - 1), true});
  }
  std::ranges::sort(entries, {}, &StoreEntry::name);
  return entries;
}

// ---- Removal ----

Status S3Store::Remove(const std::string& key) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  return RemoveAll({key});
}

Status S3Store::RemoveAll(const std::vector<std::string>& keys) {
  Status first;
  for (size_t at = 0; at < keys.size(); at += kRemovalsAtATime) {
    std::vector<Request> requests;
    for (size_t i = at; i < std::min(at + kRemovalsAtATime, keys.size()); ++i)
      requests.push_back({.method = "DELETE", .key = keys[i]});
    for (const Reply& reply : bucket_.DoAll(std::move(requests))) {
      if (first.ok() && reply.status.code() != Code::kNotFound) first = reply.status;
    }
    KEDGE_RETURN_IF_ERROR(first);
    os::KillPoint("s3-removed");
  }
  return first;
}

// `first`, which makes the rest mean nothing; then uploads, so that none is completed any more; then what lies deeper, the last
// names first (parts before the data that they name); then what lies in the folder itself, the marks of a removal among it.
Status S3Store::RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  if (!first.empty()) KEDGE_RETURN_IF_ERROR(Remove(first));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Temporary> temporaries, ListTemporaries(folder, owner));
  for (const Temporary& temporary : temporaries) KEDGE_RETURN_IF_ERROR(RemoveTemporary(temporary.handle));
  const std::string prefix = FolderPrefix(folder);
  KEDGE_ASSIGN_OR_RETURN(const Seen seen, ListKeys(prefix, /*by_folder=*/false));
  std::vector<std::string> deeper, own;
  for (const ListedKey& key : seen.keys) {
    const bool is_own = key.key.find('/', prefix.size()) == std::string::npos;
    (is_own ? own : deeper).push_back(key.key);
  }
  std::ranges::reverse(deeper);
  KEDGE_RETURN_IF_ERROR(RemoveAll(deeper));
  return RemoveAll(own);
}

Result<std::vector<Temporary>> S3Store::ListTemporaries(const std::string& folder, const TemporaryOwner& /*self*/) {
  if (!folder.empty()) KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  Uploads uploads(bucket_);
  // Uploads first: one that is begun meanwhile has its marker in the list of keys, or is not in that of uploads.
  KEDGE_ASSIGN_OR_RETURN(const std::vector<ListedUpload> listed, uploads.List(FolderPrefix(folder)));
  KEDGE_ASSIGN_OR_RETURN(const Seen seen, ListKeys(FolderPrefix(folder), /*by_folder=*/false));
  std::set<std::string> marked;
  std::vector<Temporary> found;
  for (const ListedKey& key : seen.keys) {
    std::string tag;
    if (!os::IsTemporaryName(NameOf(key.key), &tag)) continue;
    const std::optional<TemporaryOwner> owner = ParseTemporaryTag(tag);
    if (!owner) continue;
    Temporary temporary{key.key, *owner, tag, 0, 0};
    int64_t written = key.modified_unix_seconds;
    if (const Result<Upload> upload = uploads.Find(key.key); upload.ok()) {
      marked.insert(upload->id);
      const auto parts = uploads.Parts(upload->key, upload->id);
      for (const ListedPart& part : parts.ok() ? *parts : std::vector<ListedPart>()) {
        temporary.bytes += part.bytes;
        written = std::max(written, part.modified_unix_seconds);
      }
    } else if (upload.status().code() == Code::kNotFound) {
      continue;  // meanwhile
    }
    temporary.age_seconds = static_cast<double>(std::max<int64_t>(seen.now_unix_seconds - written, 0));
    found.push_back(std::move(temporary));
  }
  for (const ListedUpload& upload : listed) {
    if (marked.contains(upload.id)) continue;
    const TemporaryOwner nobody{"unknown", 0, "upload"};
    const int64_t age = std::max<int64_t>(seen.now_unix_seconds - upload.initiated_unix_seconds, 0);
    found.push_back(
        {Uploads::HandleOfUnmarked(upload.key, upload.id), nobody, MakeTemporaryTag(nobody), 0, static_cast<double>(age)});
  }
  return found;
}

Status S3Store::RemoveTemporary(const std::string& handle) {
  if (!Uploads::IsHandle(handle)) return Status(Code::kInvalidArgument, "'" + handle + "' does not name a temporary object");
  return Uploads(bucket_).Remove(handle);
}

// ---- Time and space ----

// A copy onto itself with another nonce: nothing where the record is gone, so that it does not come back.
Status S3Store::Touch(const std::string& key, const TemporaryOwner& /*owner*/) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  const Location& location = bucket_.location();
  Request copy{.method = "PUT", .key = key, .may_fail_with_200 = true};
  copy.headers = {{"x-amz-copy-source", Encode('/' + location.bucket + '/' + location.KeyOf(key), "/")},
                  {"x-amz-metadata-directive", "REPLACE"},
                  {kNonceHeader, Id128::Generate().ToHex()}};
  return bucket_.Do(std::move(copy)).status;
}

Result<int64_t> S3Store::Stamp(const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(const HttpAnswer head, Head(key));
  return StampOf(head);
}

Result<double> S3Store::AgeSeconds(const std::string& key, const TemporaryOwner& /*owner*/) {
  KEDGE_ASSIGN_OR_RETURN(const HttpAnswer head, Head(key));
  const std::optional<int64_t> now = ParseHttpTime(std::string(head.Header("date")));
  const std::optional<int64_t> modified = ParseHttpTime(std::string(head.Header("last-modified")));
  if (!now || !modified) return Status(Code::kUnsupported, bucket_.Describe(key) + ": the store does not tell the time");
  const int64_t age = *now - *modified;
  return static_cast<double>(age < 0 && age >= -kClockSteps ? 0 : age);
}

Result<StoreSpace> S3Store::Space() {
  return Status(Code::kUnsupported, description_ + ": an object store does not tell how much room it has");
}

}  // namespace

std::unique_ptr<Store> MakeS3Store(const Location& location, const Environment& environment, const BucketOptions& options) {
  return std::make_unique<S3Store>(location, environment, options);
}

}  // namespace kedge::s3

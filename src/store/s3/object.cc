#include "store/s3/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "os/memory/private_pages.h"
#include "os/process/kill_point.h"
#include "store/s3/piece_sums.h"

namespace kedge::s3 {

namespace {

constexpr uint64_t kRangeBytes = uint64_t{8} << 20;  // of one GET
constexpr uint32_t kRangesAheadMax = 8;              // by one reader

// Of `what`, a part with so many bytes.
Status CheckRange(const std::string& what, const Reply& reply, uint64_t bytes) {
  if (reply.http_status == 412) return Status(Code::kNotFound, what + ": another object has taken its place");
  KEDGE_RETURN_IF_ERROR(reply.status);
  if (reply.answer.into_bytes == bytes && reply.http_status == 206) return Status::Ok();
  return Status(Code::kCorrupt, fmt::format("{}: {} bytes came where {} were asked for", what, reply.answer.into_bytes, bytes));
}

using PartsByNumber = std::map<uint32_t, ListedPart>;

// What the server has of the upload, where that has all parts that arrived from here. An object is made of what is listed, and
// the rest would be zeros.
Result<PartsByNumber> ListedWith(const std::vector<ListedPart>& arrived, Bucket& bucket, const Upload& upload) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<ListedPart> parts, Uploads(bucket).Parts(upload.key, upload.id));
  PartsByNumber listed;
  for (const ListedPart& part : parts) listed[part.number] = part;
  for (const ListedPart& part : arrived) {
    const auto found = listed.find(part.number);
    if (found == listed.end() || found->second.bytes != part.bytes) {
      return Status(Code::kUnavailable,
                    fmt::format("{}: part {} of its upload is gone", bucket.Describe(upload.key), part.number));
    }
  }
  return listed;
}

}  // namespace

// ---- Parts ----

struct PartCollector::Part {
  Part(uint64_t size, BytesInFlight& limit) : bytes(size), taken(size, limit), pages(size), data(pages.data()) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // Of the first `end`, which no one writes to any more.
  uint32_t Checksum(uint64_t end) const {
    if (const std::optional<uint32_t> known = sums.Of(end)) return *known;
    return crc32c::ChecksumOnly(data, end);
  }

  // Before there is memory, and after.
  struct Taken {
    Taken(uint64_t size, BytesInFlight& limit) : bytes(size), memory(limit) { memory.Take(bytes); }
    ~Taken() { memory.Free(bytes); }
    const uint64_t bytes;
    BytesInFlight& memory;
  };

  const uint64_t bytes;
  const Taken taken;
  const os::PrivatePages pages;
  std::byte* const data;
  // Guarded by the collector's mutex:
  uint32_t writers = 0;
  PieceSums sums;
};

struct PartCollector::Sending {
  Sending(Bucket& to, BytesInFlight& limit) : bucket(to), memory(limit) {}

  Bucket& bucket;
  BytesInFlight& memory;
  mutable std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  uint32_t under_way = 0;
  Status failure;
  std::vector<ListedPart> arrived;
};

PartCollector::PartCollector(Bucket& bucket, BytesInFlight& memory, uint64_t part_bytes)
    : layout_(part_bytes), sending_(std::make_shared<Sending>(bucket, memory)) {}

PartCollector::~PartCollector() {
  Drop();
}

void PartCollector::Drop() {
  {
    const std::lock_guard lock(mutex_);
    open_.clear();
  }
  static_cast<void>(Await());
}

Result<std::shared_ptr<PartCollector::Part>> PartCollector::PartFor(uint32_t number) {
  if (number > kPartsMax) return Status(Code::kUnsupported, "an object that large does not fit an upload's 10,000 parts");
  {
    const std::lock_guard lock(mutex_);
    // Its bytes are not here any more. Who writes them once more has given up what was written first.
    if (sent_.contains(number)) return Status(Code::kFailedPrecondition, fmt::format("part {} was written before", number));
    if (const auto found = open_.find(number); found != open_.end()) {
      ++found->second->writers;
      return found->second;
    }
  }
  // Waits for memory, so without the lock.
  auto made = std::make_shared<Part>(layout_.BytesOf(number), sending_->memory);
  if (made->data == nullptr) return Status(Code::kNoSpace, fmt::format("no memory for a part of {} bytes", made->bytes));
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = open_.emplace(number, std::move(made));
  ++place->second->writers;
  return place->second;
}

Status PartCollector::Write(uint64_t offset, ByteSpan bytes, const BeginUpload& begin) {
  while (!bytes.empty()) {
    const uint32_t number = layout_.NumberOf(offset);
    const uint64_t part_begin = layout_.BeginOf(number);
    const size_t now = std::min<uint64_t>(bytes.size(), layout_.EndOf(number) - offset);
    KEDGE_ASSIGN_OR_RETURN(const std::shared_ptr<Part> part, PartFor(number));
    const uint64_t at = offset - part_begin;
    const uint32_t crc32c = crc32c::CopyAndChecksum(part->data + at, bytes.data(), now);
    {
      const std::lock_guard lock(mutex_);
      --part->writers;
      part->sums.Add(at, now, crc32c);
      written_.Add(offset, offset + now);
    }
    KEDGE_RETURN_IF_ERROR(SendWhole(begin));
    bytes = bytes.subspan(now);
    offset += now;
  }
  return Status::Ok();
}

Status PartCollector::SendWhole(const BeginUpload& begin) {
  std::vector<std::pair<uint32_t, std::shared_ptr<Part>>> whole;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = open_.begin(); at != open_.end();) {
      const bool is_whole = at->second->writers == 0 && written_.Cover(layout_.BeginOf(at->first), layout_.EndOf(at->first));
      // What may be all of the object is not sent yet: one request at the commit is less than an upload of one part.
      const bool may_be_all = at->first == 1 && written_.end() <= layout_.BytesOf(1);
      if (!is_whole || may_be_all) {
        ++at;
        continue;
      }
      sent_.insert(at->first);
      whole.emplace_back(at->first, std::move(at->second));
      at = open_.erase(at);
    }
  }
  if (whole.empty()) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const Upload upload, begin());
  for (auto& [number, part] : whole) {
    const uint64_t part_bytes = part->bytes;
    Send(number, std::move(part), part_bytes, upload);
  }
  return Status::Ok();
}

void PartCollector::Send(uint32_t number, std::shared_ptr<Part> part, uint64_t bytes, const Upload& upload) {
  const std::shared_ptr<Sending> sending = sending_;
  {
    const std::lock_guard lock(sending->mutex);
    ++sending->under_way;
  }
  sending->memory.BeginSending(bytes);
  Uploads uploads(sending->bucket);
  Request request = uploads.PartRequest(upload, number, ByteSpan(part->data, bytes), part->Checksum(bytes), part);
  ListedPart sent{number, "", request.headers.front().second, bytes, 0};
  part.reset();
  sending->bucket.Start(std::move(request), [sending, sent, bytes](const Reply& reply) mutable {
    if (reply.status.ok()) os::KillPoint("s3-part-arrived");
    sent.etag = reply.answer.Header("etag");
    sending->memory.EndSending(bytes);
    const std::lock_guard lock(sending->mutex);
    --sending->under_way;
    if (reply.status.ok()) {
      sending->arrived.push_back(std::move(sent));
    } else if (sending->failure.ok()) {
      sending->failure = reply.status;
    }
    sending->changed.notify_all();
  });
}

Status PartCollector::SendRest(const BeginUpload& begin, uint64_t end) {
  std::map<uint32_t, std::shared_ptr<Part>> rest;
  {
    const std::lock_guard lock(mutex_);
    rest.swap(open_);
    for (const auto& [number, part] : rest) sent_.insert(number);
  }
  if (rest.empty()) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const Upload upload, begin());
  for (auto& [number, part] : rest) {
    const uint64_t bytes = std::min(part->bytes, end - layout_.BeginOf(number));
    Send(number, std::move(part), bytes, upload);
  }
  return Status::Ok();
}

Status PartCollector::SendZeros(uint32_t number, uint64_t bytes, const BeginUpload& begin) {
  {
    const std::lock_guard lock(mutex_);
    sent_.insert(number);
  }
  KEDGE_ASSIGN_OR_RETURN(const Upload upload, begin());
  auto zeros = std::make_shared<Part>(bytes, sending_->memory);
  if (zeros->data == nullptr) return Status(Code::kNoSpace, fmt::format("no memory for a part of {} bytes", bytes));
  Send(number, std::move(zeros), bytes, upload);
  return Status::Ok();
}

Status PartCollector::Await() {
  std::unique_lock lock(sending_->mutex);
  sending_->changed.wait(lock, [&] { return sending_->under_way == 0; });
  return sending_->failure;
}

std::vector<ListedPart> PartCollector::Sent() const {
  const std::lock_guard lock(sending_->mutex);
  std::vector<ListedPart> parts = sending_->arrived;
  std::ranges::sort(parts, {}, &ListedPart::number);
  return parts;
}

std::optional<PartCollector::Whole> PartCollector::Small() const {
  const std::lock_guard lock(mutex_);
  if (!sent_.empty() || written_.end() > layout_.BytesOf(1)) return std::nullopt;
  if (open_.empty()) return Whole{};
  const Part& part = *open_.begin()->second;
  return Whole{ByteSpan(part.data, written_.end()), part.Checksum(written_.end())};
}

uint64_t PartCollector::end() const {
  const std::lock_guard lock(mutex_);
  return written_.end();
}

// ---- Writing ----

Status S3ObjectWriter::CheckOpen() {
  const std::lock_guard lock(mutex_);
  return closed_ ? Status(Code::kFailedPrecondition, "object " + place_.key + " is closed already") : Status::Ok();
}

Result<Upload> S3ObjectWriter::BeginUpload() {
  const std::lock_guard lock(mutex_);
  if (!upload_) {
    KEDGE_ASSIGN_OR_RETURN(upload_, Uploads(bucket_).Begin(place_.key, place_.handle));
  }
  return *upload_;
}

Status S3ObjectWriter::WriteAt(uint64_t offset, ByteSpan bytes) {
  KEDGE_RETURN_IF_ERROR(CheckOpen());
  return parts_.Write(offset, bytes, [this] { return BeginUpload(); }).WithContext(bucket_.Describe(place_.key));
}

Status S3ObjectWriter::FlushHint(uint64_t /*offset*/, uint64_t /*bytes*/, bool wait) {
  return wait ? parts_.Await() : Status::Ok();
}

Status S3ObjectWriter::SendRest() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kFailedPrecondition, "object " + place_.key + " is closed already");
    closed_ = true;
    // With an upload that nobody else knows of, a small object need not use it; but then it would have to be aborted.
    if (!upload_ && parts_.Small()) return Status::Ok();
  }
  return parts_.SendRest([this] { return BeginUpload(); }, parts_.end());
}

std::optional<Upload> S3ObjectWriter::BegunUpload() {
  const std::lock_guard lock(mutex_);
  return upload_;
}

Status S3ObjectWriter::GiveUp(const Status& why) {
  parts_.Drop();
  // What cannot be removed now is a temporary of the owner.
  if (BegunUpload()) static_cast<void>(Uploads(bucket_).Remove(place_.handle));
  return why;
}

Request S3ObjectWriter::PutRequest(const PartCollector::Whole& whole) const {
  Request put{.method = "PUT", .key = place_.key, .body = whole.bytes, .is_bulk = true};
  put.headers = {{"x-amz-checksum-crc32c", ChecksumText(whole.crc32c)}};
  return put;
}

Result<std::vector<ListedPart>> S3ObjectWriter::AllParts(const Upload& upload) {
  std::vector<ListedPart> own = parts_.Sent();
  const uint64_t end = parts_.end();
  const uint32_t last = end == 0 ? 0 : parts_.layout().NumberOf(end - 1);
  const bool has_gaps = own.size() < last;
  const bool may_be_more = place_.expected_bytes == 0 || end < place_.expected_bytes;
  if (!has_gaps && !may_be_more && !place_.is_shared) return own;
  KEDGE_ASSIGN_OR_RETURN(PartsByNumber all, ListedWith(own, bucket_, upload));
  for (const ListedPart& part : own) all[part.number] = part;
  const uint32_t count = all.empty() ? last : std::max(last, all.rbegin()->first);
  for (uint32_t number = 1; number <= count; ++number) {
    if (all.contains(number)) continue;
    KEDGE_RETURN_IF_ERROR(parts_.SendZeros(number, parts_.layout().BytesOf(number), [this] { return BeginUpload(); }));
  }
  KEDGE_RETURN_IF_ERROR(parts_.Await());
  for (const ListedPart& part : parts_.Sent()) all[part.number] = part;
  std::vector<ListedPart> parts;
  for (const auto& [number, part] : all) {
    if (number < count && part.bytes != parts_.layout().BytesOf(number)) {
      return Status(Code::kFailedPrecondition,
                    fmt::format("{}: part {} has {} bytes, and others follow: several processes share an "
                                "object part by part",
                                bucket_.Describe(place_.key), number, part.bytes));
    }
    parts.push_back(part);
  }
  return parts;
}

Result<Request> S3ObjectWriter::CompletionRequest() {
  const std::optional<Upload> upload = BegunUpload();
  if (!upload) {
    const std::optional<PartCollector::Whole> small = parts_.Small();
    if (!small) return Status(Code::kInternal, place_.key + " has parts and no upload");
    return PutRequest(*small);
  }
  if (const Status arrived = parts_.Await(); !arrived.ok()) return GiveUp(arrived);
  const Result<std::vector<ListedPart>> parts = AllParts(*upload);
  if (!parts.ok()) return GiveUp(parts.status());
  os::KillPoint("s3-complete-before");
  // No upload may be completed without a part.
  has_no_parts_ = parts->empty();
  return has_no_parts_ ? PutRequest({}) : Uploads::CompletionRequest(*upload, *parts);
}

Status S3ObjectWriter::Settle(const Reply& completed) {
  const std::optional<Upload> upload = BegunUpload();
  if (!upload) return completed.status;
  const Status settled = has_no_parts_ ? completed.status : Uploads(bucket_).Settle(*upload, completed);
  if (!settled.ok()) return GiveUp(settled);
  os::KillPoint("s3-completed");
  if (has_no_parts_) static_cast<void>(Uploads(bucket_).Abort(upload->key, upload->id));
  // The object is there and whole, whatever becomes of the marker: it names an upload that is gone, and is garbage.
  static_cast<void>(Uploads(bucket_).RemoveMarker(place_.handle));
  return Status::Ok();
}

Status S3ObjectWriter::Commit() {
  KEDGE_RETURN_IF_ERROR(SendRest());
  KEDGE_ASSIGN_OR_RETURN(Request completion, CompletionRequest());
  return Settle(bucket_.Do(std::move(completion)));
}

Status S3ObjectWriter::Abandon() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  parts_.Drop();
  const std::lock_guard lock(mutex_);
  return upload_ ? Uploads(bucket_).Remove(place_.handle) : Status::Ok();
}

Status S3ObjectContributor::WriteAt(uint64_t offset, ByteSpan bytes) {
  return parts_.Write(offset, bytes, [this] { return Result<Upload>(upload_); }).WithContext(upload_.key);
}

Status S3ObjectContributor::Finish() {
  KEDGE_RETURN_IF_ERROR(parts_.SendRest([this] { return Result<Upload>(upload_); }, parts_.end()));
  KEDGE_RETURN_IF_ERROR(parts_.Await());
  const std::vector<ListedPart> sent = parts_.Sent();
  if (sent.empty()) return Status::Ok();
  // The owner knows of these parts by the server's list alone.
  return ListedWith(sent, bucket_, upload_).status();
}

// ---- Reading ----

S3ObjectReader::S3ObjectReader(Bucket& bucket, std::string key, std::string etag, uint64_t size_bytes)
    : bucket_(bucket),
      key_(std::move(key)),
      etag_(std::move(etag)),
      size_bytes_(size_bytes),
      ahead_(size_bytes, kRangeBytes, std::min(bucket.location().connections, kRangesAheadMax),
             [this](uint64_t offset, std::span<std::byte> into, std::shared_ptr<const void> keeps,
                    std::function<void(Status)> done) {
               Request get = RangeRequest(offset, into);
               get.keeps = std::move(keeps);
               // The reader may be gone by then.
               bucket_.Start(std::move(get), [what = bucket_.Describe(key_), into, done](const Reply& reply) {
                 done(CheckRange(what, reply, into.size()));
               });
             }) {}

Request S3ObjectReader::RangeRequest(uint64_t offset, std::span<std::byte> into) const {
  Request get{.method = "GET", .key = key_, .into = into, .is_bulk = true};
  get.headers = {{"range", fmt::format("bytes={}-{}", offset, offset + into.size() - 1)}, {"if-match", etag_}};
  return get;
}

Status S3ObjectReader::CheckWithin(uint64_t offset, uint64_t bytes) const {
  if (offset <= size_bytes_ && bytes <= size_bytes_ - offset) return Status::Ok();
  return Status(Code::kCorrupt, fmt::format("{}: ends at {}, before {}", bucket_.Describe(key_), size_bytes_, offset + bytes));
}

Status S3ObjectReader::ReadJust(uint64_t offset, std::span<std::byte> out) {
  KEDGE_RETURN_IF_ERROR(CheckWithin(offset, out.size()));
  return ReadDirectly(offset, out);
}

Status S3ObjectReader::ReadAt(uint64_t offset, std::span<std::byte> out) {
  KEDGE_RETURN_IF_ERROR(CheckWithin(offset, out.size()));
  while (!out.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const uint64_t bytes, ahead_.Take(offset, out));
    if (bytes == 0) return ReadDirectly(offset, out);
    offset += bytes;
    out = out.subspan(bytes);
  }
  return Status::Ok();
}

Status S3ObjectReader::ReadDirectly(uint64_t offset, std::span<std::byte> out) {
  std::vector<Request> requests;
  std::vector<uint64_t> wanted;
  for (uint64_t done = 0; done < out.size(); done += kRangeBytes) {
    wanted.push_back(std::min<uint64_t>(kRangeBytes, out.size() - done));
    requests.push_back(RangeRequest(offset + done, out.subspan(done, wanted.back())));
  }
  const std::vector<Reply> replies = bucket_.DoAll(std::move(requests));
  for (size_t i = 0; i < replies.size(); ++i) {
    KEDGE_RETURN_IF_ERROR(CheckRange(bucket_.Describe(key_), replies[i], wanted[i]));
  }
  return Status::Ok();
}

}  // namespace kedge::s3

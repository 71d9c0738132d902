#include "store/s3/uploads.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/crc32c.h"
#include "base/json.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"
#include "store/temporary_tag.h"

namespace kedge::s3 {

namespace {

constexpr uint64_t kMarkerBytesMax = 64 << 10;
constexpr int kAbortsMax = 10;
constexpr Duration kAbortPause = std::chrono::milliseconds(100);
constexpr char kChecksumType[] = "x-amz-checksum-type";
constexpr char kWholeObject[] = "FULL_OBJECT";
constexpr std::string_view kUnmarked = "?uploadId=";

bool IsMarker(const std::string& handle) {
  return os::IsTemporaryName(os::BaseName(handle));
}

std::string TextOfMarker(const Upload& upload) {
  return ToText(Json{{"key", upload.key},
                     {"upload", upload.id},
                     {"nonce", upload.nonce},
                     {"part_bytes", upload.part_bytes},
                     {"summed_whole", upload.is_summed_whole}});
}

Result<Upload> ReadMarker(ByteSpan bytes, const std::string& where) {
  const Json json = Json::parse(AsText(bytes), nullptr, /*allow_exceptions=*/false);
  Upload upload;
  const auto text = [&](const char* name, std::string* value) {
    const bool is_there = json.is_object() && json.contains(name) && json.at(name).is_string();
    if (is_there) *value = json.at(name).get<std::string>();
    return is_there;
  };
  const bool is_whole = text("key", &upload.key) && text("upload", &upload.id) && text("nonce", &upload.nonce) &&
                        json.contains("part_bytes") && json.at("part_bytes").is_number_unsigned();
  if (is_whole) upload.part_bytes = json.at("part_bytes").get<uint64_t>();
  if (!is_whole || upload.part_bytes < kPartBytesMin || upload.part_bytes > kPartBytesMax) {
    return Status(Code::kCorrupt, where + ": is no marker of an upload");
  }
  upload.is_summed_whole = json.contains("summed_whole") && json.at("summed_whole") == true;
  return upload;
}

// Nothing where that of a part is not known, as on a server that lists none.
std::optional<uint32_t> SumOfAll(const std::vector<ListedPart>& parts) {
  uint32_t sum = 0;
  for (const ListedPart& part : parts) {
    const std::optional<uint32_t> own = ParseChecksum(part.crc32c);
    if (!own) return std::nullopt;
    sum = crc32c::Combine(sum, *own, part.bytes);
  }
  return sum;
}

}  // namespace

std::string ChecksumText(uint32_t crc32c) {
  const std::array<std::byte, 4> bytes = {static_cast<std::byte>(crc32c >> 24), static_cast<std::byte>(crc32c >> 16),
                                          static_cast<std::byte>(crc32c >> 8), static_cast<std::byte>(crc32c)};
  return Base64(bytes);
}

std::optional<uint32_t> ParseChecksum(const std::string& text) {
  std::array<unsigned char, 6> bytes{};  // with the two that stand for "=="
  if (text.size() != 8 || !text.ends_with("==")) return std::nullopt;
  if (EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()), 8) != 6) return std::nullopt;
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string Uploads::MakeHandle(const std::string& key, const TemporaryOwner& owner) {
  return os::TemporaryPath(key, MakeTemporaryTag(owner));
}

std::string Uploads::HandleOfUnmarked(const std::string& key, const std::string& id) {
  return key + std::string(kUnmarked) + Encode(id);
}

bool Uploads::IsHandle(const std::string& handle) {
  return IsMarker(handle) || handle.rfind(kUnmarked) != std::string::npos;
}

Request Uploads::BeginRequest(const Upload& upload, bool summed_whole) const {
  Request begin{.method = "POST", .key = upload.key, .query = {{"uploads", ""}}};
  begin.headers = {{"x-amz-checksum-algorithm", "CRC32C"}, {kNonceHeader, upload.nonce}};
  if (summed_whole) begin.headers.emplace_back(kChecksumType, kWholeObject);
  return begin;
}

Result<Upload> Uploads::Begin(const std::string& key, const std::string& handle) {
  Upload upload{key, "", Id128::Generate().ToHex(), bucket_.location().part_bytes};
  Reply begun = bucket_.Do(BeginRequest(upload, /*summed_whole=*/true));
  // Some know checksums of parts alone, and most of those do not look at what they do not know.
  if (begun.http_status == 400 || begun.http_status == 501) begun = bucket_.Do(BeginRequest(upload, /*summed_whole=*/false));
  KEDGE_RETURN_IF_ERROR(begun.status);
  KEDGE_ASSIGN_OR_RETURN(upload.id, ReadUploadId(begun.answer.body));
  upload.is_summed_whole = begun.answer.Header(kChecksumType) == kWholeObject;
  os::KillPoint("s3-upload-begun");
  const std::string text = TextOfMarker(upload);
  const Reply marked = bucket_.Do({.method = "PUT", .key = handle, .body = AsBytes(text)});
  if (!marked.status.ok()) {
    static_cast<void>(Abort(upload.key, upload.id));
    return marked.status;
  }
  os::KillPoint("s3-upload-marked");
  return upload;
}

Result<Upload> Uploads::Find(const std::string& handle) {
  if (!ValidateKey(handle).ok() || !IsMarker(handle)) {
    return Status(Code::kInvalidArgument, "'" + handle + "' does not name a temporary object");
  }
  const Reply found = bucket_.Do({.method = "GET", .key = handle, .body_max = kMarkerBytesMax});
  KEDGE_RETURN_IF_ERROR(found.status);
  return ReadMarker(found.answer.body, bucket_.Describe(handle));
}

Request Uploads::PartRequest(const Upload& upload, uint32_t number, ByteSpan bytes, uint32_t crc32c,
                             std::shared_ptr<const void> keeps) {
  Request request{.method = "PUT", .key = upload.key, .body = bytes, .keeps = std::move(keeps), .is_bulk = true};
  request.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload.id}};
  request.headers = {{"x-amz-checksum-crc32c", ChecksumText(crc32c)}};
  return request;
}

Result<std::vector<ListedPart>> Uploads::Parts(const std::string& key, const std::string& id) {
  std::vector<ListedPart> parts;
  for (uint32_t after = 0;;) {
    Request request{.method = "GET", .key = key, .query = {{"uploadId", id}}};
    if (after > 0) request.query.emplace_back("part-number-marker", std::to_string(after));
    const Reply reply = bucket_.Do(std::move(request));
    KEDGE_RETURN_IF_ERROR(reply.status);
    KEDGE_ASSIGN_OR_RETURN(const PartsAnswer page, ReadParts(reply.answer.body));
    parts.insert(parts.end(), page.parts.begin(), page.parts.end());
    if (!page.goes_on) return parts;
    // Whoever took it for all would fill the rest with zeros.
    if (page.next <= after) return Status(Code::kCorrupt, bucket_.Describe(key) + ": the store's list of parts does not go on");
    after = page.next;
  }
}

Request Uploads::CompletionRequest(const Upload& upload, const std::vector<ListedPart>& parts) {
  const auto text = std::make_shared<const std::string>(CompletionText(parts));
  Request request{.method = "POST", .key = upload.key, .query = {{"uploadId", upload.id}}, .may_fail_with_200 = true};
  request.body = AsBytes(*text);
  request.keeps = text;
  if (upload.is_summed_whole) {
    request.headers.emplace_back(kChecksumType, kWholeObject);
    if (const auto sum = SumOfAll(parts)) request.headers.emplace_back("x-amz-checksum-crc32c", ChecksumText(*sum));
  }
  return request;
}

Status Uploads::Settle(const Upload& upload, const Reply& completed) {
  if (completed.status.ok()) return Status::Ok();
  // Done already, perhaps, by a request whose answer was lost: then the object is there, and says that it is this upload's.
  const bool may_be_done = completed.http_status == 0 || completed.may_have_acted || completed.http_status >= 500;
  if (!may_be_done) return completed.status;
  const Reply there = bucket_.Do({.method = "HEAD", .key = upload.key});
  const bool is_done = there.status.ok() && there.answer.Header(kNonceHeader) == upload.nonce;
  return is_done ? Status::Ok() : completed.status;
}

Status Uploads::Abort(const std::string& key, const std::string& id) {
  for (int aborts = 0; aborts < kAbortsMax; ++aborts) {
    if (aborts > 0) std::this_thread::sleep_for(kAbortPause);
    const Reply aborted = bucket_.Do({.method = "DELETE", .key = key, .query = {{"uploadId", id}}});
    if (aborted.status.code() == Code::kNotFound) return Status::Ok();
    KEDGE_RETURN_IF_ERROR(aborted.status);
    os::KillPoint("s3-aborted");
    const auto left = Parts(key, id);
    if (left.status().code() == Code::kNotFound) return Status::Ok();
    KEDGE_RETURN_IF_ERROR(left.status());
  }
  return Status(Code::kUnavailable,
                fmt::format("{}: parts of an upload still come in after {} aborts", bucket_.Describe(key), kAbortsMax));
}

Status Uploads::RemoveMarker(const std::string& handle) {
  const Reply removed = bucket_.Do({.method = "DELETE", .key = handle});
  return removed.status.code() == Code::kNotFound ? Status::Ok() : removed.status;
}

Status Uploads::Remove(const std::string& handle) {
  if (const size_t at = handle.rfind(kUnmarked); at != std::string::npos) {
    const std::string key = handle.substr(0, at);
    KEDGE_RETURN_IF_ERROR(ValidateKey(key));
    return Abort(key, Decode(handle.substr(at + kUnmarked.size())));
  }
  const Result<Upload> upload = Find(handle);
  if (upload.status().code() == Code::kNotFound) return Status::Ok();
  if (upload.ok()) {
    KEDGE_RETURN_IF_ERROR(Abort(upload->key, upload->id));
  } else if (upload.status().code() != Code::kCorrupt) {
    return upload.status();
  }
  return RemoveMarker(handle);
}

Result<std::vector<ListedUpload>> Uploads::List(const std::string& prefix) {
  std::vector<ListedUpload> uploads;
  const std::string whole = bucket_.location().KeyOf(prefix);
  const size_t own = bucket_.location().KeyOf("").size() + (bucket_.location().prefix.empty() ? 0 : 1);
  std::string next_key, next_id;
  for (;;) {
    Request request{.method = "GET", .query = {{"uploads", ""}, {"prefix", whole}}, .is_of_bucket = true};
    if (!next_key.empty()) {
      request.query.emplace_back("key-marker", next_key);
      request.query.emplace_back("upload-id-marker", next_id);
    }
    const Reply reply = bucket_.Do(std::move(request));
    KEDGE_RETURN_IF_ERROR(reply.status);
    KEDGE_ASSIGN_OR_RETURN(UploadsAnswer page, ReadUploads(reply.answer.body));
    for (ListedUpload& upload : page.uploads) {
      if (!upload.key.starts_with(whole) || upload.key.size() < own) continue;
      upload.key = upload.key.substr(own);
      uploads.push_back(std::move(upload));
    }
    if (!page.goes_on || page.next_key.empty() || (page.next_key == next_key && page.next_id == next_id)) return uploads;
    next_key = page.next_key;
    next_id = page.next_id;
  }
}

}  // namespace kedge::s3

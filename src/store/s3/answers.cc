#include "store/s3/answers.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <pugixml.hpp>

namespace kedge::s3 {

namespace {

// The root element, whose name begins so; null where it is another, or no XML. Some servers say Response for Result.
pugi::xml_node RootOf(pugi::xml_document* document, ByteSpan body, std::string_view name) {
  if (!document->load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node root = document->document_element();
  return std::string_view(root.name()).starts_with(name) ? root : pugi::xml_node();
}

Status NoAnswer(const char* what) {
  return Status(Code::kCorrupt, fmt::format("the store's answer is no {}", what));
}

bool IsTrue(const pugi::xml_node& node, const char* name) {
  return std::string_view(node.child_value(name)) == "true";
}

int64_t TimeOf(const pugi::xml_node& node, const char* name) {
  return ParseIsoTime(node.child_value(name)).value_or(0);
}

// By hand: strptime knows the names of the application's language.
std::optional<int64_t> Seconds(int year, int month, int day, int hour, int minute, int second) {
  std::tm time{};
  time.tm_year = year - 1900, time.tm_mon = month - 1, time.tm_mday = day;
  time.tm_hour = hour, time.tm_min = minute, time.tm_sec = second;
  return timegm(&time);
}

}  // namespace

std::optional<ErrorAnswer> ReadError(ByteSpan body) {
  pugi::xml_document document;
  const pugi::xml_node root = RootOf(&document, body, "Error");
  if (!root) return std::nullopt;
  return ErrorAnswer{root.child_value("Code"), root.child_value("Message")};
}

Result<ListAnswer> ReadList(ByteSpan body) {
  pugi::xml_document document;
  const pugi::xml_node root = RootOf(&document, body, "ListBucketResult");
  if (!root) return NoAnswer("list of keys");
  ListAnswer answer;
  for (const pugi::xml_node& key : root.children("Contents")) {
    answer.keys.push_back({key.child_value("Key"), key.child("Size").text().as_ullong(), TimeOf(key, "LastModified")});
  }
  for (const pugi::xml_node& prefix : root.children("CommonPrefixes")) answer.prefixes.push_back(prefix.child_value("Prefix"));
  if (IsTrue(root, "IsTruncated")) {
    answer.next = root.child_value("NextContinuationToken");
    if (answer.next.empty()) return NoAnswer("list of keys: it does not say where it goes on");
  }
  return answer;
}

Result<UploadsAnswer> ReadUploads(ByteSpan body) {
  pugi::xml_document document;
  const pugi::xml_node root = RootOf(&document, body, "ListMultipartUploads");
  if (!root) return NoAnswer("list of uploads");
  UploadsAnswer answer;
  for (const pugi::xml_node& upload : root.children("Upload")) {
    answer.uploads.push_back({upload.child_value("Key"), upload.child_value("UploadId"), TimeOf(upload, "Initiated")});
  }
  answer.goes_on = IsTrue(root, "IsTruncated");
  answer.next_key = root.child_value("NextKeyMarker");
  answer.next_id = root.child_value("NextUploadIdMarker");
  return answer;
}

Result<PartsAnswer> ReadParts(ByteSpan body) {
  pugi::xml_document document;
  const pugi::xml_node root = RootOf(&document, body, "ListParts");
  if (!root) return NoAnswer("list of parts");
  PartsAnswer answer;
  for (const pugi::xml_node& part : root.children("Part")) {
    answer.parts.push_back({part.child("PartNumber").text().as_uint(), part.child_value("ETag"),
                            part.child_value("ChecksumCRC32C"), part.child("Size").text().as_ullong(),
                            TimeOf(part, "LastModified")});
  }
  answer.goes_on = IsTrue(root, "IsTruncated");
  answer.next = root.child("NextPartNumberMarker").text().as_uint();
  return answer;
}

Result<std::string> ReadUploadId(ByteSpan body) {
  pugi::xml_document document;
  const pugi::xml_node root = RootOf(&document, body, "InitiateMultipartUpload");
  const std::string id = root.child_value("UploadId");
  if (id.empty()) return NoAnswer("new upload");
  return id;
}

std::string CompletionText(const std::vector<ListedPart>& parts) {
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const ListedPart& part : parts) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", part.number, part.etag);
    if (!part.crc32c.empty()) text += "<ChecksumCRC32C>" + part.crc32c + "</ChecksumCRC32C>";
    text += "</Part>";
  }
  return text + "</CompleteMultipartUpload>";
}

std::optional<int64_t> ParseIsoTime(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second);
  return read == 6 ? Seconds(year, month, day, hour, minute, second) : std::nullopt;
}

std::optional<int64_t> ParseHttpTime(const std::string& text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  char name[4] = {};
  int year = 0, day = 0, hour = 0, minute = 0, second = 0;
  const int read = std::sscanf(text.c_str(), "%*3s, %2d %3s %4d %2d:%2d:%2d", &day, name, &year, &hour, &minute, &second);
  const size_t month = kMonths.find(name);
  if (read != 6 || month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  return Seconds(year, static_cast<int>(month / 3) + 1, day, hour, minute, second);
}

}  // namespace kedge::s3

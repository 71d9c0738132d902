// What S3 answers, as XML, read into structs. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/wire.h"

namespace kedge::s3 {

struct ErrorAnswer {
  std::string code;  // "NoSuchKey"
  std::string message;
};
// Nothing where the body is no <Error>, which answers of proxies, and those to HEAD, are not.
std::optional<ErrorAnswer> ReadError(ByteSpan body);

struct ListedKey {
  std::string key;
  uint64_t bytes = 0;
  int64_t modified_unix_seconds = 0;
};
struct ListAnswer {
  std::vector<ListedKey> keys;
  std::vector<std::string> prefixes;  // of what lies deeper, ending in '/'
  std::string next;                   // where the list goes on; empty: this was all
};
// kCorrupt: it is no such answer.
Result<ListAnswer> ReadList(ByteSpan body);

struct ListedUpload {
  std::string key;
  std::string id;
  int64_t initiated_unix_seconds = 0;
};
struct UploadsAnswer {
  std::vector<ListedUpload> uploads;
  bool goes_on = false;  // behind these two:
  std::string next_key;
  std::string next_id;
};
Result<UploadsAnswer> ReadUploads(ByteSpan body);

struct ListedPart {
  uint32_t number = 0;
  std::string etag;
  std::string crc32c;  // base64
  uint64_t bytes = 0;
  int64_t modified_unix_seconds = 0;
};
struct PartsAnswer {
  std::vector<ListedPart> parts;
  bool goes_on = false;
  uint32_t next = 0;
};
Result<PartsAnswer> ReadParts(ByteSpan body);

// The id of a new upload.
Result<std::string> ReadUploadId(ByteSpan body);

// The body of a completion; CRC32Cs are in base64.
std::string CompletionText(const std::vector<ListedPart>& parts);

// "2026-01-02T03:04:05.000Z", and "Fri, 02 Jan 2026 03:04:05 GMT" of headers; nothing where it is no time.
std::optional<int64_t> ParseIsoTime(const std::string& text);
std::optional<int64_t> ParseHttpTime(const std::string& text);

}  // namespace kedge::s3

// Multipart uploads: an object that is being written, and what the store knows of it until it is completed.
//
// An upload is not among the keys of a bucket, and its listing does not say whose it is. So a small object stands beside it, its
// *marker*, under a temporary's name with the owner's tag; the name is the handle, and the content says which upload it is and
// how its parts lie. An upload without a marker is one whose process died between the two, or after the marker was removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/s3/answers.h"
#include "store/s3/bucket.h"
#include "store/store.h"

namespace kedge::s3 {

// The header of metadata that says which writing of an object it is: whoever lost the answer to a write finds out with it.
inline constexpr char kNonceHeader[] = "x-amz-meta-kedge-nonce";

struct Upload {
  std::string key;  // of the store
  std::string id;
  std::string nonce;
  uint64_t part_bytes = 0;       // of the first parts
  bool is_summed_whole = false;  // the store compares a checksum of the whole object when it is completed
};

class Uploads {
 public:
  explicit Uploads(Bucket& bucket) : bucket_(bucket) {}

  // Called as the temporaries of a store in a folder are; no request is made.
  static std::string MakeHandle(const std::string& key, const TemporaryOwner& owner);

  // Makes the upload and its marker.
  Result<Upload> Begin(const std::string& key, const std::string& handle);
  // kNotFound: there is none; kInvalidArgument: the text is no handle.
  Result<Upload> Find(const std::string& handle);
  Request PartRequest(const Upload& upload, uint32_t number, ByteSpan bytes, uint32_t crc32c, std::shared_ptr<const void> keeps);
  // What has arrived of it; kNotFound: it is not there any more.
  Result<std::vector<ListedPart>> Parts(const std::string& key, const std::string& id);
  // Makes the object of these parts. Where the store compares it, the checksum of the whole is combined from theirs.
  static Request CompletionRequest(const Upload& upload, const std::vector<ListedPart>& parts);
  // What came of it: ok also when an earlier request had done so.
  Status Settle(const Upload& upload, const Reply& completed);
  // Parts that arrive meanwhile survive an abort: again, until nothing is left. Ok when there is none.
  Status Abort(const std::string& key, const std::string& id);
  Status RemoveMarker(const std::string& handle);
  // The upload first, then its marker.
  Status Remove(const std::string& handle);
  // Those of keys that begin with `prefix`, which is one of the store's.
  Result<std::vector<ListedUpload>> List(const std::string& prefix);

  // Of an upload that has no marker, and back: the id stands behind the key.
  static std::string HandleOfUnmarked(const std::string& key, const std::string& id);
  static bool IsHandle(const std::string& handle);

 private:
  Request BeginRequest(const Upload& upload, bool summed_whole) const;

  Bucket& bucket_;
};

// Base64 of a CRC32C, as the protocol has it, and back.
std::string ChecksumText(uint32_t crc32c);
std::optional<uint32_t> ParseChecksum(const std::string& text);

}  // namespace kedge::s3

// The objects of an S3Store. One that fits a part is one PUT at its commit; a larger one is an upload, whose parts go as soon as
// they are whole, several at a time, while the next are being written.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/reading/read_ahead.h"
#include "store/s3/bucket.h"
#include "store/s3/bytes_in_flight.h"
#include "store/s3/part_layout.h"
#include "store/s3/uploads.h"
#include "store/s3/written_ranges.h"
#include "store/store.h"

namespace kedge::s3 {

// The parts that one process writes of an object: collected in memory until they are whole, sent in the background. Thread safe.
class PartCollector {
 public:
  // `bucket` and `memory` outlive it.
  PartCollector(Bucket& bucket, BytesInFlight& memory, uint64_t part_bytes);
  ~PartCollector();

  // Blocks where the store's memory is used up. `upload`: makes the upload that parts go to, when the first one is whole.
  using BeginUpload = std::function<Result<Upload>()>;
  Status Write(uint64_t offset, ByteSpan bytes, const BeginUpload& begin);
  // Sends what is left, whole or not: of the last part what there is, of all others with zeros where nothing was written.
  Status SendRest(const BeginUpload& begin, uint64_t end);
  // Until all that was sent has arrived; the first error of any of it.
  Status Await();
  // What has arrived, in order.
  std::vector<ListedPart> Sent() const;
  struct Whole {
    ByteSpan bytes;
    uint32_t crc32c = 0;
  };
  // The whole object, where nothing was sent yet and it fits the first part.
  std::optional<Whole> Small() const;
  uint64_t end() const;
  const PartLayout& layout() const { return layout_; }
  Status SendZeros(uint32_t number, uint64_t bytes, const BeginUpload& begin);
  // Gives up what is collected and waits for what is on its way.
  void Drop();

 private:
  struct Part;
  struct Sending;

  Result<std::shared_ptr<Part>> PartFor(uint32_t number);
  void Send(uint32_t number, std::shared_ptr<Part> part, uint64_t bytes, const Upload& upload);
  Status SendWhole(const BeginUpload& begin);

  const PartLayout layout_;
  const std::shared_ptr<Sending> sending_;  // its callbacks may be the last to need it
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<uint32_t, std::shared_ptr<Part>> open_;
  WrittenRanges written_;
  std::set<uint32_t> sent_;
};

class S3ObjectWriter final : public ObjectWriter {
 public:
  struct Place {
    std::string key;
    std::string handle;
    uint64_t expected_bytes = 0;  // 0: unknown
    bool is_shared = false;       // others may have written parts
  };
  S3ObjectWriter(Bucket& bucket, BytesInFlight& memory, Place place, std::optional<Upload> upload, uint64_t part_bytes)
      : bucket_(bucket), place_(std::move(place)), upload_(std::move(upload)), parts_(bucket, memory, part_bytes) {}

  Status WriteAt(uint64_t offset, ByteSpan bytes) override;
  bool is_buffered() const override { return true; }
  // Parts go when they are whole; there is nothing else to carry. With `wait` all that went has arrived.
  Status FlushHint(uint64_t offset, uint64_t bytes, bool wait) override;
  uint64_t NextBorder(uint64_t offset) const override { return parts_.layout().NextBorder(offset); }
  Status Commit() override;
  Status Abandon() override;
  const std::string& handle() const override { return place_.handle; }
  const std::string& key() const override { return place_.key; }

  // The steps of a commit, apart so that Publish can interleave those of several objects. At most once.
  Status SendRest();
  // The request that makes the object, when all parts have arrived.
  Result<Request> CompletionRequest();
  Status Settle(const Reply& completed);

 private:
  Status CheckOpen();
  Result<Upload> BeginUpload();
  std::optional<Upload> BegunUpload();
  Request PutRequest(const PartCollector::Whole& whole) const;
  // All parts, also those of others; gaps are filled.
  Result<std::vector<ListedPart>> AllParts(const Upload& upload);
  Status GiveUp(const Status& why);

  Bucket& bucket_;
  const Place place_;
  std::mutex mutex_;
  std::optional<Upload> upload_;  // guarded by mutex_
  bool closed_ = false;           // guarded by mutex_
  bool has_no_parts_ = false;     // of the thread that commits
  PartCollector parts_;
};

// Writes whole parts of an upload that another process has begun; the object's last part may be shorter.
class S3ObjectContributor final : public ObjectContributor {
 public:
  S3ObjectContributor(Bucket& bucket, BytesInFlight& memory, const Upload& upload)
      : bucket_(bucket), upload_(upload), parts_(bucket, memory, upload.part_bytes) {}
  Status WriteAt(uint64_t offset, ByteSpan bytes) override;
  uint64_t NextBorder(uint64_t offset) const override { return parts_.layout().NextBorder(offset); }
  Status Finish() override;

 private:
  Bucket& bucket_;
  const Upload upload_;
  PartCollector parts_;
};

class S3ObjectReader final : public ObjectReader {
 public:
  S3ObjectReader(Bucket& bucket, std::string key, std::string etag, uint64_t size_bytes);
  Status ReadAt(uint64_t offset, std::span<std::byte> out) override;
  Status ReadJust(uint64_t offset, std::span<std::byte> out) override;
  uint64_t size_bytes() const override { return size_bytes_; }

 private:
  Status CheckWithin(uint64_t offset, uint64_t bytes) const;
  Request RangeRequest(uint64_t offset, std::span<std::byte> into) const;
  Status ReadDirectly(uint64_t offset, std::span<std::byte> out);

  Bucket& bucket_;
  const std::string key_;
  const std::string etag_;  // what is read is all of one object, also when the key gets another one
  const uint64_t size_bytes_;
  ReadAhead ahead_;
};

}  // namespace kedge::s3

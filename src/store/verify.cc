#include "store/verify.h"

#include "store/image_stream.h"
#include "store/versions.h"

namespace kedge {

namespace {

// Ends a StreamImage because the caller asked for it; never leaves this file.
Status Stopped() {
  return Status(Code::kTimeout, "stopped by the caller");
}

class Verifier {
 public:
  Verifier(const Catalog& catalog, const VerifyOptions& options) : catalog_(catalog), options_(options) {}

  // False when the caller wants no more.
  bool VerifyImage(const PartRecord& part, const ImageEntry& entry) {
    const Result<StoredImage> image = ReadImage(catalog_, part, entry);
    if (!image.ok()) {
      Problem(entry.rank, image.status().ToString());
      return true;
    }
    if (options_.image) options_.image(image->record);
    ImageStreamOptions stream;
    stream.buffer_bytes = options_.buffer_bytes;
    stream.problem = [&](const std::string& what) { Problem(entry.rank, what); };
    stream.piece = [&](size_t, uint64_t, ByteSpan bytes) {
      report_.bytes += bytes.size();
      return Progress() ? Status::Ok() : Stopped();
    };
    return StreamImage(catalog_, *image, stream).ok();
  }

  void Problem(uint32_t rank, const std::string& what) {
    if (report_.problems.size() < options_.problems_max) report_.problems.push_back({rank, what});
  }
  bool Progress() {
    progress_.bytes_done = report_.bytes;
    progress_.ranks_done = report_.ranks;
    return !options_.progress || options_.progress(progress_);
  }

  VerifyReport report_;
  VerifyProgress progress_;

 private:
  const Catalog& catalog_;
  const VerifyOptions& options_;
};

}  // namespace

Result<VerifyReport> VerifyVersion(const Catalog& catalog, const Generation& generation, const VerifyOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(catalog, generation));
  if (!info.complete) {
    return Status(Code::kIncomplete, generation.ToString() + " is not complete: " + info.reason);
  }
  KEDGE_ASSIGN_OR_RETURN(const VersionRecord version, ReadVersionRecord(catalog, generation));
  Verifier verifier(catalog, options);
  verifier.progress_.bytes_total = version.image_bytes;
  verifier.progress_.ranks = version.ranks;
  for (const PartEntry& entry : version.parts) {
    const Result<PartRecord> part = ReadPart(catalog, version, entry);
    if (!part.ok()) {
      for (const RankRun& run : entry.ranks) verifier.Problem(run.first, part.status().ToString());
      continue;
    }
    for (const ImageEntry& image : part->images) {
      if (!Contains(entry.ranks, image.rank)) continue;
      if (!verifier.VerifyImage(*part, image)) return verifier.report_;
      ++verifier.report_.ranks;
      if (!verifier.Progress()) return verifier.report_;
    }
  }
  return verifier.report_;
}

}  // namespace kedge

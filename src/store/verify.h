// Verification: reads every byte of a version and compares every checksum.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "store/catalog.h"

namespace kedge {

struct VerifyProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  uint32_t ranks_done = 0;
  uint32_t ranks = 0;
};

struct VerifyProblem {
  uint32_t rank = 0;
  std::string what;  // region, offset, object, expected and found checksum
};

struct VerifyReport {
  uint64_t bytes = 0;
  uint32_t ranks = 0;
  std::vector<VerifyProblem> problems;  // empty: every byte is as it was written
};

struct VerifyOptions {
  uint64_t buffer_bytes = 8 << 20;  // read at a time
  // Called after each buffer; false stops (the report then covers what was read).
  std::function<bool(const VerifyProgress&)> progress;
  // Called with what each image holds.
  std::function<void(const ImageRecord&)> image = {};
  size_t problems_max = 1000;
};

// kIncomplete: the version is not complete (the reason says what is missing). Bad images are problems in the report,
// not errors; errors are for a store that cannot be asked.
Result<VerifyReport> VerifyVersion(const Catalog& catalog, const Generation& generation, const VerifyOptions& options);

}  // namespace kedge

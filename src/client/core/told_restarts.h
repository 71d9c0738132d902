// What the job's attempts went on from, as ranks tell each other.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "format/store_records.h"

namespace kedge::client {

std::string EncodeRestored(const std::vector<RestoredRecord>& records);
Result<std::vector<RestoredRecord>> DecodeRestored(const std::string& text);

}  // namespace kedge::client

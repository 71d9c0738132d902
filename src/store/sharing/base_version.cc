#include "store/sharing/base_version.h"

#include <algorithm>

#include "base/clock.h"
#include "store/record_io.h"
#include "store/versions.h"

namespace kedge {

Result<std::optional<Generation>> ClaimBase(const Catalog& catalog, const Generation& generation) {
  const std::optional<Generation> none;
  // The newest of all: one that is not may be on its way out unmarked, as what an attempt has left incomplete.
  const Result<VersionInfo> newest = NewestAtOrBelow(catalog, generation.job, generation.name, -1);
  if (newest.status().code() == Code::kNotFound) return none;
  if (!newest.ok()) return newest.status();
  const Generation& base = newest->generation;
  // In order, so that whoever looks from the oldest to the newest who refers to what misses nobody (References::Read).
  if (!(base < generation) || newest->reprieved) return none;
  BaseRecord record{generation, WallTimeNs(), newest->references};
  std::erase_if(record.references, keys::IsCommonObject);  // they lie in the base
  record.references.push_back(keys::RelativeToJob(base.job, keys::GenerationFolder(base)));
  std::sort(record.references.begin(), record.references.end());
  const std::string key = keys::BaseKey(generation, base);
  const Status put = catalog.store().PutIfAbsent(key, Encoded(record), catalog.owner(), Folders::kCreate);
  if (put.code() == Code::kAlreadyExists) {
    KEDGE_RETURN_IF_ERROR(catalog.store().EnsureDurable(std::span(&key, 1)));
  } else {
    KEDGE_RETURN_IF_ERROR(put);
  }
  const Result<VersionInfo> still = InspectGeneration(catalog, base);
  if (still.status().code() == Code::kNotFound) return none;
  if (!still.ok()) return still.status();
  return still->complete && !still->reprieved ? std::optional<Generation>(base) : none;
}

}  // namespace kedge

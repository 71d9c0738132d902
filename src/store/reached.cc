#include "store/reached.h"

#include "base/clock.h"
#include "store/record_io.h"

namespace kedge {

Status NoteReached(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(catalog.CheckRecordOf(generation.job, generation.attempt));
  KEDGE_RETURN_IF_ERROR(catalog.EnsureName(generation.job, generation.name));
  const Status noted =
      catalog.store().PutIfAbsent(keys::ReachedKey(generation.job, generation.name),
                                  Encoded(ReachedRecord{generation, WallTimeNs()}), catalog.owner(), Folders::kMustExist);
  return noted.code() == Code::kAlreadyExists ? Status::Ok() : noted;
}

Status ForgetReached(const Catalog& catalog, const std::string& job, const std::string& name) {
  return catalog.store().Remove(keys::ReachedKey(job, name));
}

Result<std::optional<ReachedRecord>> FindReached(const Catalog& catalog, const std::string& job, const std::string& name) {
  const auto record = ReadOwnRecord(catalog, keys::ReachedKey(job, name), &DecodeReachedRecord);
  if (record.status().code() == Code::kNotFound) return std::optional<ReachedRecord>();
  if (!record.ok()) return record.status();
  return std::optional(*record);
}

}  // namespace kedge

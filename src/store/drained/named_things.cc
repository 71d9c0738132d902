#include "store/drained/named_things.h"

#include <set>
#include <vector>

#include "base/crc32c.h"
#include "os/files/files.h"
#include "store/keys.h"
#include "store/versions.h"

namespace kedge {
namespace {

Status CheckPart(Store& store, ByteSpan record) {
  KEDGE_ASSIGN_OR_RETURN(const PartRecord part, DecodePartRecord(record));
  const Catalog catalog = Catalog::Assume(store, part.generation.store_id, {});
  std::set<std::string> named;
  for (const ImageEntry& entry : part.images) {
    KEDGE_ASSIGN_OR_RETURN(const StoredImage image, ReadImage(catalog, part, entry));
    named.insert(image.record.objects.begin(), image.record.objects.end());
    if (!image.map) continue;
    for (const SharedObject& object : image.map->objects) named.insert(object.key);
  }
  for (const std::string& key : named)
    KEDGE_RETURN_IF_ERROR(store.Stamp(keys::JobFolder(part.generation.job) + '/' + key).status());
  return Status::Ok();
}

Status CheckVersion(Store& store, ByteSpan record) {
  KEDGE_ASSIGN_OR_RETURN(const VersionRecord version, DecodeVersionRecord(record));
  if (!version.part_inside.empty()) return CheckPart(store, version.part_inside);
  for (const PartEntry& part : version.parts) {
    const std::string key = keys::PartKey(version.generation, part.first_rank, part.images);
    KEDGE_ASSIGN_OR_RETURN(const Buffer there, store.Get(key, kSmallRecordBytesMax));
    if (crc32c::Compute(there.data(), there.size()) != part.record_crc32c)
      return {Code::kNotFound, key + " is there as another one"};
  }
  return Status::Ok();
}

}  // namespace

std::string VersionOfRecord(const std::string& key) {
  std::string folder = os::ParentPath(key);
  const bool is_part = os::BaseName(folder) == "parts";
  if (is_part) folder = os::ParentPath(folder);
  Generation generation;
  if (!keys::ParseGenerationFolder(os::BaseName(folder), &generation)) return {};
  std::string version = folder + "/version";
  return is_part || key == version ? version : std::string();
}

Status CheckNamedThings(Store& store, const std::string& key, ByteSpan record) {
  const std::string version = VersionOfRecord(key);
  if (version.empty()) return Status::Ok();
  return key == version ? CheckVersion(store, record) : CheckPart(store, record);
}

}  // namespace kedge

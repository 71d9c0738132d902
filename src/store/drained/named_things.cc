#include "store/drained/named_things.h"

#include <set>
#include <vector>

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
  for (const PartEntry& part : version.parts)
    KEDGE_RETURN_IF_ERROR(store.Stamp(keys::PartKey(version.generation, part.first_rank, part.images)).status());
  return Status::Ok();
}

}  // namespace

Status CheckNamedThings(Store& store, const std::string& key, ByteSpan record) {
  const std::string folder = os::ParentPath(key);
  Generation generation;
  if (os::BaseName(folder) == "parts" && keys::ParseGenerationFolder(os::BaseName(os::ParentPath(folder)), &generation))
    return CheckPart(store, record);
  if (os::BaseName(key) == "version" && keys::ParseGenerationFolder(os::BaseName(folder), &generation))
    return CheckVersion(store, record);
  return Status::Ok();
}

}  // namespace kedge

#include "store/places/make_store.h"

#include "store/buffer/buffer_store.h"
#include "store/places/store_path.h"
#include "store/s3/s3_store.h"

namespace kedge {

std::unique_ptr<Store> MakeStore(os::FileSystem& file_system, const PosixStoreOptions& options) {
  if (SchemeOf(options.path).empty()) return MakePosixStore(file_system, options);
  if (SchemeOf(options.path) == "bb") {
    const Result<buffer::StoreLocation> place = buffer::ParseStoreLocation(options.path, nullptr);
    KEDGE_CHECK(place.ok());
    return buffer::MakeBufferStore(*place, options.making);
  }
  const Result<s3::Location> location = s3::ParseLocation(options.path, s3::ProcessEnvironment);
  KEDGE_CHECK(location.ok());
  return s3::MakeS3Store(*location);
}

}  // namespace kedge

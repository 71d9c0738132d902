#include "store/places/make_store.h"

#include "store/places/store_path.h"
#include "store/s3/s3_store.h"

namespace kedge {

std::unique_ptr<Store> MakeStore(os::FileSystem& file_system, const PosixStoreOptions& options) {
  if (SchemeOf(options.path).empty()) return MakePosixStore(file_system, options);
  const Result<s3::Location> location = s3::ParseLocation(options.path, s3::ProcessEnvironment);
  KEDGE_CHECK(location.ok());
  return s3::MakeS3Store(*location);
}

}  // namespace kedge

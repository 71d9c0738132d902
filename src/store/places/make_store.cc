#include "store/places/make_store.h"

#include "store/buffer/buffer_store.h"
#include "store/copies/copied_store.h"
#include "store/drained/drained_store.h"
#include "store/places/store_path.h"
#include "store/s3/s3_store.h"

namespace kedge {

std::unique_ptr<Store> MakeStore(os::FileSystem& file_system, const PosixStoreOptions& options) {
  if (SchemeOf(options.path).empty()) return MakePosixStore(file_system, options);
  if (SchemeOf(options.path) == "bb") {
    const Result<buffer::StoreLocation> place = buffer::ParseStoreLocation(options.path, nullptr);
    KEDGE_CHECK(place.ok());
    if (place->drain.empty()) return buffer::MakeBufferStore(*place, options.making);
    // Who made the store made nothing on the buffer. Where the buffer is away, the store is near.
    const auto on_buffer = [](const buffer::StoreLocation& of_one) -> std::shared_ptr<Store> {
      return buffer::MakeBufferStore(of_one, RootMaking::kParents, {.patience = std::chrono::seconds(3)});
    };
    PosixStoreOptions of_store = options;
    of_store.path = place->drain;
    const std::shared_ptr<Store> buffer = on_buffer(place->Alone());
    DrainedStoreOptions of_both;
    of_both.begin = [buffer, target = place->drain] { return buffer::DrainTo(*buffer, target, buffer::Drainer::kFirst); };
    if (place->partner.empty()) return MakeDrainedStore(buffer, MakeStore(file_system, of_store), of_both);
    const std::shared_ptr<Store> partner = on_buffer(place->Partner());
    of_both.begin = [buffer, partner, target = place->drain] {
      KEDGE_RETURN_IF_ERROR(buffer::DrainTo(*buffer, target, buffer::Drainer::kFirst));
      return buffer::DrainTo(*partner, target, buffer::Drainer::kPartner);
    };
    return MakeDrainedStore(MakeCopiedStore(buffer, partner), MakeStore(file_system, of_store), of_both);
  }
  const Result<s3::Location> location = s3::ParseLocation(options.path, s3::ProcessEnvironment);
  KEDGE_CHECK(location.ok());
  return s3::MakeS3Store(*location);
}

}  // namespace kedge

#include "store/reading/fallback_reader.h"

namespace kedge {

Status FallbackReader::Read(const std::function<Status(ObjectReader&)>& read) {
  Status failed;
  if (!near_has_failed_) {
    failed = read(*near_);
    if (failed.ok()) return failed;
  }
  ObjectReader* const far = Far();
  return far == nullptr ? failed : read(*far);
}

ObjectReader* FallbackReader::Far() {
  const std::lock_guard lock(mutex_);
  if (far_ != nullptr) return far_.get();
  auto opened = open_far_();
  if (!opened.ok() || (*opened)->size_bytes() != size_bytes()) return nullptr;
  far_ = std::move(*opened);
  near_has_failed_ = true;
  return far_.get();
}

}  // namespace kedge

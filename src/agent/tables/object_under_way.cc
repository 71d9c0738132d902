#include "agent/tables/object_under_way.h"

#include <utility>

#include "store/keys.h"

namespace kedge {

ObjectUnderWay::~ObjectUnderWay() {
  if (writer_ != nullptr && !published_) (void)writer_->Abandon();  // what stays is a temporary that gc finds
}

Status ObjectUnderWay::Begin(const Catalog& catalog, uint64_t expected_bytes) {
  const std::lock_guard lock(mutex_);
  KEDGE_RETURN_IF_ERROR(failure_);
  if (writer_ != nullptr) return Status::Ok();
  const std::string key = keys::GenerationFolder(generation_) + '/' + name_;
  auto created = catalog.store().CreateObject(key, catalog.owner(), expected_bytes);
  if (created.ok()) {
    writer_ = std::move(*created);
  } else {
    failure_ = created.status();
    has_failed_ = true;
  }
  return failure_;
}

Result<ObjectUnderWay::Writing> ObjectUnderWay::BeginPiece() {
  Writing writing(pieces_);
  if (is_closed_) return Status(Code::kFailedPrecondition, name_ + " is being published");
  return writing;
}

Status ObjectUnderWay::Remember(const Status& written) {
  if (written.ok()) return written;
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = written;
  has_failed_ = true;
  return written;
}

Status ObjectUnderWay::WriteAt(uint64_t offset, ByteSpan bytes) {
  if (has_failed_) {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  return Remember(writer_->WriteAt(offset, bytes));
}

Status ObjectUnderWay::FlushHint(uint64_t offset, uint64_t bytes) {
  return Remember(writer_->FlushHint(offset, bytes, /*wait=*/false));
}

std::shared_ptr<ObjectUnderWay> NodeObjects::Of(const Generation& generation) {
  std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<ObjectUnderWay> object = objects_[generation].lock();
  if (object == nullptr || !object->IsUsable()) {
    object = std::make_shared<ObjectUnderWay>(generation, keys::NodeObject());
    objects_[generation] = object;
  }
  return object;
}

void ObjectUnderWay::Close() {
  const std::unique_lock lock(pieces_);
  is_closed_ = true;
}

}  // namespace kedge

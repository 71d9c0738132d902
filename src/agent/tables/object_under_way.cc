#include "agent/tables/object_under_way.h"

#include <algorithm>
#include <array>
#include <utility>

#include "os/process/kill_point.h"
#include "store/keys.h"

namespace kedge {

ObjectUnderWay::~ObjectUnderWay() {
  if (writer_ != nullptr && !published_) (void)writer_->Abandon();  // what stays is a temporary that gc finds
}

bool ObjectUnderWay::Share(uint64_t own_bytes) {
  const std::lock_guard lock(room_mutex_);
  if (!is_shared_ && is_created_) return false;
  is_shared_ = true;
  share_bytes_ = own_bytes;
  return true;
}

Status ObjectUnderWay::Begin(const Catalog& catalog, uint64_t expected_bytes) {
  const std::lock_guard lock(begin_mutex_);
  if (has_failed_) return Failure();
  if (writer_ != nullptr || contributor_ != nullptr) return Status::Ok();
  return Remember(is_borrowed() ? Join(catalog.store()) : Create(catalog, expected_bytes));
}

Status ObjectUnderWay::Create(const Catalog& catalog, uint64_t expected_bytes) {
  {
    const std::lock_guard lock(room_mutex_);
    is_created_ = true;
    if (is_shared_) expected_bytes = 0;
  }
  const std::string key = keys::GenerationFolder(generation_) + '/' + name_;
  KEDGE_ASSIGN_OR_RETURN(auto created, catalog.store().CreateObject(key, catalog.owner(), expected_bytes));
  const std::lock_guard lock(room_mutex_);
  writer_ = std::move(created);
  return Status::Ok();
}

Status ObjectUnderWay::Join(Store& store) {
  const std::lock_guard lock(room_mutex_);
  KEDGE_ASSIGN_OR_RETURN(const LentShare lent, lender_->Lend(std::exchange(share_bytes_, 0)));
  os::KillPoint("share-borrowed");
  KEDGE_ASSIGN_OR_RETURN(contributor_, store.JoinObject(lent.handle));
  name_ = lent.name;
  share_ = {lent.begin, lent.begin + lent.bytes};
  return Status::Ok();
}

uint64_t ObjectUnderWay::NextBorder(uint64_t offset) const {
  return writer_ != nullptr ? writer_->NextBorder(offset) : contributor_->NextBorder(offset);
}

ObjectUnderWay::Run ObjectUnderWay::Grant(uint64_t bytes) {
  const uint64_t begin = NextBorder(end_);
  end_ = NextBorder(begin + bytes);
  return {begin, end_};
}

Result<LentShare> ObjectUnderWay::Lend(uint64_t bytes) {
  const std::lock_guard lock(room_mutex_);
  if (!IsUsable() || !is_shared_ || writer_ == nullptr) {
    return Status(Code::kFailedPrecondition, name_ + " is not to be shared, or not any more");
  }
  is_lent_ = true;
  const Run run = Grant(bytes);
  return LentShare{name_, writer_->handle(), run.begin, run.end - run.begin};
}

Result<ObjectUnderWay::Run> ObjectUnderWay::TakeShare(uint64_t bytes) {
  bytes = std::max(bytes, std::exchange(share_bytes_, 0));
  if (!is_borrowed()) return Grant(bytes);
  KEDGE_ASSIGN_OR_RETURN(const LentShare lent, lender_->Lend(bytes));
  if (lent.name != name_ || lent.bytes < bytes) return Status(Code::kFailedPrecondition, name_ + " is lent no more");
  return Run{lent.begin, lent.begin + lent.bytes};
}

Result<uint64_t> ObjectUnderWay::TakeRoom(uint64_t bytes) {
  bytes = AlignChunkOffset(bytes);
  std::unique_lock lock(room_mutex_);
  if (!is_shared_ && !is_borrowed()) return std::exchange(end_, end_ + bytes);
  if (share_.end - share_.begin < bytes) {
    const Result<Run> share = TakeShare(bytes);
    if (!share.ok()) {
      lock.unlock();
      return Remember(share.status());
    }
    share_ = *share;
  }
  return std::exchange(share_.begin, share_.begin + bytes);
}

Result<ObjectUnderWay::Writing> ObjectUnderWay::BeginPiece() {
  Writing writing(pieces_);
  if (is_closed_) return Status(Code::kFailedPrecondition, name_ + " is being published");
  return writing;
}

Status ObjectUnderWay::Failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status ObjectUnderWay::Remember(const Status& written) {
  if (written.ok()) return written;
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = written;
  has_failed_ = true;
  return written;
}

Status ObjectUnderWay::WriteAt(uint64_t offset, ByteSpan bytes) {
  if (has_failed_) return Failure();
  written_bytes_ += bytes.size();
  for (uint64_t end = written_end_;
       end < offset + bytes.size() && !written_end_.compare_exchange_weak(end, offset + bytes.size());) {
  }
  return Remember(writer_ != nullptr ? writer_->WriteAt(offset, bytes) : contributor_->WriteAt(offset, bytes));
}

Status ObjectUnderWay::FlushHint(uint64_t offset, uint64_t bytes) {
  return Remember(writer_ != nullptr ? writer_->FlushHint(offset, bytes, /*wait=*/false)
                                     : contributor_->FlushHint(offset, bytes));
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

// A part of an upload that others follow has to be whole.
Status ObjectUnderWay::FinishShare() {
  bool ends_at_border = is_borrowed();
  if (!is_borrowed()) {
    const std::lock_guard lock(room_mutex_);
    ends_at_border = is_lent_;
  }
  const uint64_t end = written_end_, border = ends_at_border ? NextBorder(end) : end;
  if (border > end) {
    static constexpr std::array<std::byte, 1> kZero{};
    (void)WriteAt(border - kZero.size(), kZero);  // its own failure is known when it is published
  }
  if (!is_borrowed()) return Status::Ok();
  os::KillPoint("share-written");
  const Status finished = has_failed_ ? Failure() : Remember(contributor_->Finish());
  os::KillPoint("share-finished");
  return finished;
}

}  // namespace kedge

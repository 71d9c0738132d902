#include "store/posix/posix_object.h"

#include <cerrno>

#include "os/files/direct_io.h"
#include "os/files/files.h"

namespace kedge {

namespace {

bool IsAligned(uint64_t number) {
  return number % os::kDirectAlignmentBytes == 0;
}

// `direct` is the same file with O_DIRECT, or null.
Status WriteToEither(os::File& file, os::File* direct, uint64_t offset, ByteSpan bytes) {
  if (direct != nullptr && IsAligned(offset) && IsAligned(reinterpret_cast<uintptr_t>(bytes.data()))) {
    // Whole blocks; a short write of O_DIRECT ends on one, too.
    const size_t whole = bytes.size() / os::kDirectAlignmentBytes * os::kDirectAlignmentBytes;
    const Status written = os::WriteAll(*direct, bytes.data(), whole, offset);
    // A file system may open a file with O_DIRECT and ask for a greater alignment, or refuse each write.
    if (written.code() != Code::kInvalidArgument) {
      KEDGE_RETURN_IF_ERROR(written);
      bytes = bytes.subspan(whole);
      offset += whole;
    }
  }
  return os::WriteAll(file, bytes.data(), bytes.size(), offset);
}

// Where the file system cannot, fsync does it all. Any other error is one of write-back, and the bytes may be lost.
Status BeginWriteBack(os::File& file, uint64_t offset, uint64_t bytes, os::SyncRange how) {
  const Status status = file.SyncFileRange(offset, bytes, how);
  return status.code() == Code::kUnsupported || status.code() == Code::kInvalidArgument ? Status::Ok() : status;
}

}  // namespace

Status PosixObjectWriter::Remember(const Status& written) {
  if (written.ok()) return written;
  // The name of the temporary file tells nobody anything.
  const Status failure = written.errno_value() == 0 ? written : Status::FromErrno(written.errno_value(), "write " + place_.path);
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = failure;
  return failure;
}

Status PosixObjectWriter::WriteAt(uint64_t offset, ByteSpan bytes) {
  return Remember(WriteToEither(*file_, direct_.get(), offset, bytes));
}

uint64_t PosixObjectWriter::NextBorder(uint64_t offset) const {
  return (offset + place_.border_bytes - 1) / place_.border_bytes * place_.border_bytes;
}

Status PosixObjectWriter::CloseFiles() {
  const Status direct_closed = direct_ != nullptr ? direct_->Close() : Status::Ok();
  const Status closed = file_->Close();
  return closed.ok() ? direct_closed : closed;
}

Status PosixObjectWriter::FlushHint(uint64_t offset, uint64_t bytes, bool wait) {
  return Remember(BeginWriteBack(*file_, offset, bytes, wait ? os::SyncRange::kStartAndWait : os::SyncRange::kStart));
}

Status PosixObjectWriter::BeginCommit() {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kFailedPrecondition, "object " + place_.key + " is closed already");
    closed_ = true;
    status = failure_;
  }
  return status.ok() ? status : EndSync(status);
}

Status PosixObjectWriter::ShowIfAbsent() {
  const Status linked = fs_.Link(place_.temporary_path, place_.path);
  is_in_place_ = linked.ok();
  // A temporary that stays behind is gc's, and not worth failing for.
  if (linked.ok()) static_cast<void>(fs_.Unlink(place_.temporary_path));
  const bool is_later = linked.errno_value() == EEXIST || os::MeansNoHardLinks(linked);
  return linked.ok() || is_later ? Status::Ok() : EndSync(linked);
}

Status PosixObjectWriter::EndSync(const Status& synced) {
  const Status closed = CloseFiles();
  const Status status = synced.ok() ? closed : synced;
  if (status.ok()) return status;
  if (is_in_place_) TakeBack();
  static_cast<void>(os::UnlinkIfPresent(fs_, place_.temporary_path));
  return status;
}

Status PosixObjectWriter::MoveIntoPlace() {
  const Status renamed = fs_.Rename(place_.temporary_path, place_.path);
  is_in_place_ = renamed.ok();
  // Also when that went well: where both were links to one file (a link whose answer was lost), the temporary is still there.
  static_cast<void>(os::UnlinkIfPresent(fs_, place_.temporary_path));
  return renamed;
}

void PosixObjectWriter::TakeBack() {
  static_cast<void>(os::UnlinkIfPresent(fs_, place_.path));
}

Status PosixObjectWriter::Commit() {
  ObjectWriter* const self = this;
  return store_.Publish(std::span(&self, 1)).front();
}

Status PosixObjectWriter::Abandon() {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) static_cast<void>(CloseFiles());  // what it says about bytes that are given up does not matter
    closed_ = true;
  }
  return os::UnlinkIfPresent(fs_, place_.temporary_path);
}

Status PosixObjectContributor::Remember(const Status& written) {
  if (written.ok()) return written;
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = written;
  return written;
}

Status PosixObjectContributor::WriteAt(uint64_t offset, ByteSpan bytes) {
  return Remember(WriteToEither(*file_, direct_.get(), offset, bytes));
}

Status PosixObjectContributor::FlushHint(uint64_t offset, uint64_t bytes) {
  return Remember(BeginWriteBack(*file_, offset, bytes, os::SyncRange::kStart));
}

Status PosixObjectContributor::Finish() {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    status = failure_;
  }
  if (status.ok()) status = file_->Fsync();
  for (os::File* const file : {direct_.get(), file_.get()}) {
    const Status closed = file == nullptr ? Status::Ok() : file->Close();
    if (status.ok()) status = closed;
  }
  return status;
}

Status PosixObjectReader::ReadAt(uint64_t offset, std::span<std::byte> out) {
  return os::ReadAll(*file_, out.data(), out.size(), offset);
}

}  // namespace kedge

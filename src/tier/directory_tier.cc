// A directory tier: a folder with one file for each slot, and a small text file that says how it is cut.
//
// Whole pieces at aligned places go around the page cache (O_DIRECT) where the file system allows it: the bytes are read
// once more, by the flush or a restart, and must not push the application's own pages out. The rest is written plainly.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "os/files.h"
#include "tier/tier.h"

namespace kedge {
namespace {

constexpr char kLayoutName[] = "layout";
constexpr char kSlotPrefix[] = "slot-";
constexpr uint64_t kDirectAlignment = 4096;

std::string LayoutText(const TierInfo& info) {
  return fmt::format("kedge tier 1\nslot_bytes {}\nslots {}\n", info.slot_bytes, info.slots);
}

std::string SlotPath(const TierInfo& info, uint32_t slot) {
  return os::JoinPath(info.path, fmt::format("{}{:06}", kSlotPrefix, slot));
}

class DirectoryTier final : public Tier {
 public:
  static Result<std::unique_ptr<Tier>> Open(os::FileSystem& fs, const TierInfo& info) {
    KEDGE_ASSIGN_OR_RETURN(auto folder, fs.Open(info.path, os::OpenFlags::kRead | os::OpenFlags::kFolder));
    KEDGE_ASSIGN_OR_RETURN(os::FileInfo folder_info, folder->Fstat());
    return std::unique_ptr<Tier>(new DirectoryTier(fs, info, std::move(folder), folder_info));
  }

  std::byte* SlotMemory(uint32_t) override { return nullptr; }

  Status Write(uint32_t slot, uint64_t offset, const void* data, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    const auto* from = static_cast<const std::byte*>(data);
    uint64_t direct_bytes = DirectBytes(data, offset, bytes);
    if (direct_bytes > 0) {
      auto file = OpenSlot(slot, os::OpenFlags::kReadWrite | os::OpenFlags::kDirect);
      Status written = file.ok() ? os::WriteAll(**file, from, direct_bytes, offset) : file.status();
      if (written.ok()) written = (*file)->Close();
      if (!written.ok() && written.errno_value() != EINVAL) return written;
      if (!written.ok()) {
        direct_works_.store(false, std::memory_order_relaxed);
        direct_bytes = 0;
      }
    }
    if (direct_bytes == bytes) return Status::Ok();
    KEDGE_ASSIGN_OR_RETURN(auto file, OpenSlot(slot, os::OpenFlags::kReadWrite | os::OpenFlags::kCreate));
    KEDGE_RETURN_IF_ERROR(os::WriteAll(*file, from + direct_bytes, bytes - direct_bytes, offset + direct_bytes));
    return file->Close();
  }

  Status Read(uint32_t slot, uint64_t offset, void* data, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    auto* to = static_cast<std::byte*>(data);
    uint64_t direct_bytes = DirectBytes(data, offset, bytes);
    if (direct_bytes > 0) {
      auto file = OpenSlot(slot, os::OpenFlags::kRead | os::OpenFlags::kDirect);
      Status read = file.ok() ? os::ReadAll(**file, to, direct_bytes, offset) : file.status();
      if (!read.ok() && read.errno_value() != EINVAL) return read;
      if (!read.ok()) {
        direct_works_.store(false, std::memory_order_relaxed);
        direct_bytes = 0;
      }
    }
    if (direct_bytes == bytes) return Status::Ok();
    KEDGE_ASSIGN_OR_RETURN(auto file, OpenSlot(slot, os::OpenFlags::kRead));
    return os::ReadAll(*file, to + direct_bytes, bytes - direct_bytes, offset + direct_bytes);
  }

  Status Reserve(uint32_t slot) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, 0, info().slot_bytes));
    KEDGE_ASSIGN_OR_RETURN(auto file, OpenSlot(slot, os::OpenFlags::kReadWrite | os::OpenFlags::kCreate));
    Status reserved = file->Fallocate(0, info().slot_bytes, false);
    if (reserved.code() != Code::kUnsupported) return reserved;
    // Without fallocate nothing can be promised; what is free now is the best answer.
    KEDGE_ASSIGN_OR_RETURN(auto slot_file, file->Fstat());
    KEDGE_ASSIGN_OR_RETURN(auto volume, fs_.StatVolume(info().path));
    if (slot_file.allocated_bytes + volume.available_bytes >= info().slot_bytes) {
      return slot_file.size_bytes >= info().slot_bytes ? Status::Ok() : file->Ftruncate(info().slot_bytes);
    }
    return Status(Code::kNoSpace, fmt::format("tier {}: {} has {} bytes left; a slot needs {}", info().name, info().path,
                                              volume.available_bytes, info().slot_bytes));
  }

  Status Populate(uint32_t slot, uint64_t offset, uint64_t bytes) override { return CheckRange(slot, offset, bytes); }

  Status CheckPresent() override {
    auto found = fs_.Stat(info().path);
    if (found.ok() && found->inode == folder_info_.inode && found->device == folder_info_.device) return Status::Ok();
    return Status(Code::kUnavailable, fmt::format("tier {}: the folder {} is gone{}", info().name, info().path,
                                                  found.ok() ? ": another one stands there" : ""));
  }

  Status Remove() override {
    if (!CheckPresent().ok()) return Status::Ok();
    return os::RemoveTree(fs_, info().path);
  }

 private:
  DirectoryTier(os::FileSystem& fs, const TierInfo& info, std::unique_ptr<os::File> folder, os::FileInfo folder_info)
      : Tier(info), fs_(fs), folder_(std::move(folder)), folder_info_(folder_info) {}

  Result<std::unique_ptr<os::File>> OpenSlot(uint32_t slot, os::OpenFlags flags) {
    return fs_.Open(SlotPath(info(), slot), flags | os::OpenFlags::kNoFollow);
  }
  uint64_t DirectBytes(const void* data, uint64_t offset, uint64_t bytes) const {
    bool aligned = reinterpret_cast<uintptr_t>(data) % kDirectAlignment == 0 && offset % kDirectAlignment == 0;
    return aligned && direct_works_.load(std::memory_order_relaxed) ? bytes / kDirectAlignment * kDirectAlignment : 0;
  }

  os::FileSystem& fs_;
  const std::unique_ptr<os::File> folder_;  // held open, so that its inode number is not given to another
  const os::FileInfo folder_info_;
  std::atomic<bool> direct_works_{true};
};

Status RemoveSlots(os::FileSystem& fs, const TierInfo& info) {
  KEDGE_ASSIGN_OR_RETURN(auto entries, fs.List(info.path));
  for (const auto& entry : entries) {
    if (entry.name.starts_with(kSlotPrefix) && entry.kind == os::FileKind::kFile) {
      KEDGE_RETURN_IF_ERROR(fs.Unlink(os::JoinPath(info.path, entry.name)));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<CreatedTier> CreateDirectoryTier(os::FileSystem& fs, const TierInfo& info) {
  KEDGE_RETURN_IF_ERROR(ValidateTierInfo(info));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs, info.path, 0700, false));
  std::string layout_path = os::JoinPath(info.path, kLayoutName);
  auto layout = os::ReadFile(fs, layout_path, 4096);
  bool fresh = !layout.ok() || *layout != LayoutText(info);
  if (fresh) {
    KEDGE_RETURN_IF_ERROR(RemoveSlots(fs, info));
    KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(fs, layout_path, LayoutText(info), "tier"));
  }
  KEDGE_ASSIGN_OR_RETURN(auto tier, DirectoryTier::Open(fs, info));
  return CreatedTier{std::move(tier), fresh};
}

Result<std::unique_ptr<Tier>> AttachDirectoryTier(os::FileSystem& fs, const TierInfo& info) {
  KEDGE_RETURN_IF_ERROR(ValidateTierInfo(info));
  return DirectoryTier::Open(fs, info);
}

}  // namespace kedge

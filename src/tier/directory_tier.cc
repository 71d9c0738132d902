// A directory tier: a folder with one file for each slot, and a small text file that says how it is cut.
//
// Large ranges go around the page cache (O_DIRECT) where the file system allows it: the bytes are read once more, by the flush or
// a restart, and must not push the application's own pages out. They go as several requests in flight through io_uring, or one
// after the other where there is none (os/files/direct_io.h): from the caller's memory where that is aligned, as captures' is,
// else through registered buffers. Small ranges are written plainly.
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "os/files/files.h"
#include "tier/tier.h"

namespace kedge {
namespace {

constexpr char kLayoutName[] = "layout";
constexpr char kSlotPrefix[] = "slot-";
// Less is not worth an engine: records and their like.
constexpr uint64_t kEngineBytesMin = uint64_t{128} << 10;
constexpr size_t kRequestBytes = size_t{512} << 10;
constexpr unsigned kRequestsInFlight = 8;
constexpr size_t kEnginesKept = 8;

std::string LayoutText(const TierInfo& info) {
  return fmt::format("kedge tier 1\nslot_bytes {}\nslots {}\n", info.slot_bytes, info.slots);
}

std::string SlotPath(const TierInfo& info, uint32_t slot) {
  return os::JoinPath(info.path, fmt::format("{}{:06}", kSlotPrefix, slot));
}

Status RemoveSlots(os::FileSystem& fs, const TierInfo& info) {
  KEDGE_ASSIGN_OR_RETURN(auto entries, fs.List(info.path));
  for (const auto& entry : entries) {
    if (entry.name.starts_with(kSlotPrefix) && entry.kind == os::FileKind::kFile) {
      KEDGE_RETURN_IF_ERROR(fs.Unlink(os::JoinPath(info.path, entry.name)));
    }
  }
  return Status::Ok();
}

class DirectoryTier final : public Tier {
 public:
  static Result<std::unique_ptr<Tier>> Open(os::FileSystem& fs, const TierInfo& info, DirectEngine engine) {
    KEDGE_ASSIGN_OR_RETURN(auto folder, fs.Open(info.path, os::OpenFlags::kRead | os::OpenFlags::kFolder));
    KEDGE_ASSIGN_OR_RETURN(os::FileInfo folder_info, folder->Fstat());
    return std::unique_ptr<Tier>(new DirectoryTier(fs, info, std::move(folder), folder_info, engine));
  }

  std::byte* SlotMemory(uint32_t) override { return nullptr; }

  Status Write(uint32_t slot, uint64_t offset, const void* data, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    if (bytes >= kEngineBytesMin) {
      if (auto engine = TakeEngine()) {
        const Status written = WriteBy(*engine, slot, offset, data, bytes);
        GiveBack(std::move(engine));
        return written;
      }
    }
    KEDGE_ASSIGN_OR_RETURN(auto file, OpenSlot(slot, os::OpenFlags::kReadWrite | os::OpenFlags::kCreate));
    KEDGE_RETURN_IF_ERROR(os::WriteAll(*file, data, bytes, offset));
    return file->Close();
  }

  Status Read(uint32_t slot, uint64_t offset, void* data, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    if (bytes >= kEngineBytesMin) {
      if (auto engine = TakeEngine()) {
        const Status read = ReadBy(*engine, slot, offset, data, bytes);
        GiveBack(std::move(engine));
        return read;
      }
    }
    KEDGE_ASSIGN_OR_RETURN(auto file, OpenSlot(slot, os::OpenFlags::kRead));
    return os::ReadAll(*file, data, bytes, offset);
  }

  Status Reserve(uint32_t slot, uint64_t offset, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    KEDGE_ASSIGN_OR_RETURN(auto file, OpenSlot(slot, os::OpenFlags::kReadWrite | os::OpenFlags::kCreate));
    const uint64_t end = offset + bytes;
    Status reserved = file->Fallocate(0, end, false);
    if (reserved.code() != Code::kUnsupported) return reserved;
    // Without fallocate nothing can be promised; what is free now is the best answer.
    KEDGE_ASSIGN_OR_RETURN(auto slot_file, file->Fstat());
    KEDGE_ASSIGN_OR_RETURN(auto volume, fs_.StatVolume(info().path));
    if (slot_file.allocated_bytes + volume.available_bytes >= end) {
      return slot_file.size_bytes >= end ? Status::Ok() : file->Ftruncate(end);
    }
    return Status(Code::kNoSpace, fmt::format("tier {}: {} has {} bytes left; a slot needs {}", info().name, info().path,
                                              volume.available_bytes, end));
  }
  Status Release(uint32_t slot) override { return CheckRange(slot, 0, info().slot_bytes); }
  Result<uint64_t> SpaceBytes() override { return uint64_t{0}; }

  Status Populate(uint32_t slot, uint64_t offset, uint64_t bytes) override { return CheckRange(slot, offset, bytes); }

  Status CheckPresent() override {
    auto found = fs_.Stat(info().path);
    if (found.ok() && found->inode == folder_info_.inode && found->device == folder_info_.device) return Status::Ok();
    return Status(Code::kUnavailable, fmt::format("tier {}: the folder {} is gone{}", info().name, info().path,
                                                  found.ok() ? ": another one stands there" : ""));
  }

  Status Remove() override {
    if (!CheckPresent().ok()) return Status::Ok();
    KEDGE_RETURN_IF_ERROR(RemoveSlots(fs_, info()));
    KEDGE_RETURN_IF_ERROR(os::UnlinkIfPresent(fs_, os::JoinPath(info().path, kLayoutName)));
    // It stays with what is not the tier's: routed files of a client that works without an agent.
    const Status removed = fs_.Rmdir(info().path);
    return removed.errno_value() == ENOTEMPTY || removed.errno_value() == EEXIST ? Status::Ok() : removed;
  }

 private:
  DirectoryTier(os::FileSystem& fs, const TierInfo& info, std::unique_ptr<os::File> folder, os::FileInfo folder_info,
                DirectEngine engine)
      : Tier(info), fs_(fs), folder_(std::move(folder)), folder_info_(folder_info) {
    engine_options_.engine = engine;
    engine_options_.buffer_bytes = kRequestBytes;
    engine_options_.buffer_count = kRequestsInFlight;
  }

  Result<std::unique_ptr<os::File>> OpenSlot(uint32_t slot, os::OpenFlags flags) {
    return fs_.Open(SlotPath(info(), slot), flags | os::OpenFlags::kNoFollow);
  }

  Status WriteBy(os::DirectIo& engine, uint32_t slot, uint64_t offset, const void* data, uint64_t bytes) {
    KEDGE_ASSIGN_OR_RETURN(auto writer, os::DirectWriter::Open(engine, fs_, SlotPath(info(), slot), false, 0600, false));
    KEDGE_RETURN_IF_ERROR(writer->Write(data, bytes, offset));
    return writer->Close();
  }
  Status ReadBy(os::DirectIo& engine, uint32_t slot, uint64_t offset, void* data, uint64_t bytes) {
    KEDGE_ASSIGN_OR_RETURN(auto reader, os::DirectReader::Open(engine, fs_, SlotPath(info(), slot), false));
    return reader->Read(data, bytes, offset);
  }

  // An engine for one call; null when none can be had. Callers at the same time have one each.
  std::unique_ptr<os::DirectIo> TakeEngine() {
    {
      std::lock_guard lock(mutex_);
      if (!engines_.empty()) {
        auto engine = std::move(engines_.back());
        engines_.pop_back();
        return engine;
      }
    }
    auto made = os::DirectIo::Create(engine_options_);
    return made.ok() ? std::move(*made) : nullptr;
  }
  void GiveBack(std::unique_ptr<os::DirectIo> engine) {
    std::lock_guard lock(mutex_);
    if (engines_.size() < kEnginesKept) engines_.push_back(std::move(engine));
  }

  os::FileSystem& fs_;
  const std::unique_ptr<os::File> folder_;  // held open, so that its inode number is not given to another
  const os::FileInfo folder_info_;
  os::DirectIoOptions engine_options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<os::DirectIo>> engines_;  // that nobody uses now
};

}  // namespace

Result<CreatedTier> CreateDirectoryTier(os::FileSystem& fs, const TierInfo& info, DirectEngine engine) {
  KEDGE_RETURN_IF_ERROR(ValidateTierInfo(info));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs, info.path, 0700, false));
  std::string layout_path = os::JoinPath(info.path, kLayoutName);
  auto layout = os::ReadFile(fs, layout_path, 4096);
  bool fresh = !layout.ok() || *layout != LayoutText(info);
  if (fresh) {
    KEDGE_RETURN_IF_ERROR(RemoveSlots(fs, info));
    KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(fs, layout_path, LayoutText(info), "tier"));
  }
  KEDGE_ASSIGN_OR_RETURN(auto tier, DirectoryTier::Open(fs, info, engine));
  return CreatedTier{std::move(tier), fresh};
}

Result<std::unique_ptr<Tier>> AttachDirectoryTier(os::FileSystem& fs, const TierInfo& info, DirectEngine engine) {
  KEDGE_RETURN_IF_ERROR(ValidateTierInfo(info));
  return DirectoryTier::Open(fs, info, engine);
}

}  // namespace kedge

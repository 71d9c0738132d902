// A memory tier: one pool file in a memory file system, mapped shared.
//
// The file has its full length from the start, but space only where slots are reserved: fallocate of a large pool takes
// seconds, and init does not wait for it. The agent reserves slots in the background and before it assigns one, so that
// a full memory file system is an error of Reserve and never a SIGBUS in a client's copy.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/memory/mapping.h"
#include "tier/tier.h"

namespace kedge {
namespace {

class MemoryTier final : public Tier {
 public:
  MemoryTier(TierInfo info, std::unique_ptr<os::File> file, os::SharedMapping mapping)
      : Tier(std::move(info)), file_(std::move(file)), mapping_(std::move(mapping)) {}

  std::byte* SlotMemory(uint32_t slot) override { return mapping_.data() + Offset(slot); }

  Status Write(uint32_t slot, uint64_t offset, const void* data, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    if (file_ != nullptr) return os::WriteAll(*file_, data, bytes, Offset(slot) + offset);
    if (bytes > 0) std::memcpy(SlotMemory(slot) + offset, data, bytes);
    return Status::Ok();
  }
  Status Read(uint32_t slot, uint64_t offset, void* data, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    if (file_ != nullptr) return os::ReadAll(*file_, data, bytes, Offset(slot) + offset);
    if (bytes > 0) std::memcpy(data, SlotMemory(slot) + offset, bytes);
    return Status::Ok();
  }
  Status Reserve(uint32_t slot, uint64_t offset, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    if (file_ == nullptr) return Status(Code::kFailedPrecondition, "only the agent reserves space in the pool");
    return bytes == 0 ? Status::Ok() : file_->Fallocate(Offset(slot) + offset, bytes, true);
  }
  Status Prepare(uint32_t slot, uint64_t offset, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    mapping_.MakeLargePages(Offset(slot) + offset, bytes);
    KEDGE_RETURN_IF_ERROR(Reserve(slot, offset, bytes));
    return mapping_.Populate(Offset(slot) + offset, bytes);
  }
  Status Release(uint32_t slot) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, 0, info().slot_bytes));
    if (file_ == nullptr) return Status(Code::kFailedPrecondition, "only the agent gives space of the pool back");
    return mapping_.PunchHole(Offset(slot), info().slot_bytes);
  }
  Result<uint64_t> SpaceBytes() override {
    if (file_ == nullptr) return Status(Code::kFailedPrecondition, "only the agent looks after the pool's space");
    KEDGE_ASSIGN_OR_RETURN(const os::FileInfo found, file_->Fstat());
    return found.allocated_bytes;
  }
  uint64_t WrittenBytes(uint32_t slot) override { return mapping_.WrittenBytes(Offset(slot), info().slot_bytes); }
  Status Populate(uint32_t slot, uint64_t offset, uint64_t bytes) override {
    KEDGE_RETURN_IF_ERROR(CheckRange(slot, offset, bytes));
    return mapping_.Populate(Offset(slot) + offset, bytes);
  }
  Status CheckPresent() override {
    Status linked = mapping_.CheckLinked();
    if (linked.ok()) return linked;
    return Status(Code::kUnavailable, fmt::format("tier {}: the pool is gone: {}", info().name, linked.message()));
  }
  Status Remove() override {
    // Not a pool that somebody put in place of ours.
    return mapping_.CheckLinked().ok() ? file_system().Unlink(info().path) : Status::Ok();
  }
  int descriptor() const override { return mapping_.descriptor(); }

 private:
  static os::FileSystem& file_system() { return os::PrivateFileSystem(); }
  uint64_t Offset(uint32_t slot) const { return uint64_t{slot} * info().slot_bytes; }

  const std::unique_ptr<os::File> file_;  // the agent's; null in a client
  os::SharedMapping mapping_;
};

uint64_t PoolBytes(const TierInfo& info) {
  return info.slot_bytes * info.slots;
}

}  // namespace

Result<CreatedTier> CreateMemoryTier(os::FileSystem& fs, const TierInfo& info) {
  KEDGE_RETURN_IF_ERROR(ValidateTierInfo(info));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs, os::ParentPath(info.path), 0700, false));
  auto found = fs.Stat(info.path);
  bool fresh = !found.ok() || found->size_bytes != PoolBytes(info);
  if (fresh) {
    // Under another name first: a pool of another size may still be mapped by somebody, and a half-made one is no pool.
    KEDGE_RETURN_IF_ERROR(os::UnlinkIfPresent(fs, info.path));
    std::string path = os::TemporaryPath(info.path, "pool");
    KEDGE_ASSIGN_OR_RETURN(auto made,
                           fs.Open(path, os::OpenFlags::kReadWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive));
    Status sized = made->Ftruncate(PoolBytes(info));
    if (sized.ok()) sized = fs.Rename(path, info.path);
    if (!sized.ok()) {
      (void)fs.Unlink(path);
      return sized;
    }
  }
  KEDGE_ASSIGN_OR_RETURN(auto file, fs.Open(info.path, os::OpenFlags::kReadWrite | os::OpenFlags::kNoFollow));
  KEDGE_ASSIGN_OR_RETURN(auto mapping, os::SharedMapping::Open(info.path, PoolBytes(info)));
  return CreatedTier{std::make_unique<MemoryTier>(info, std::move(file), std::move(mapping)), fresh};
}

Result<std::unique_ptr<Tier>> AttachMemoryTier(os::UniqueFd pool, const TierInfo& info) {
  KEDGE_RETURN_IF_ERROR(ValidateTierInfo(info));
  KEDGE_ASSIGN_OR_RETURN(auto mapping, os::SharedMapping::FromDescriptor(std::move(pool), info.path, PoolBytes(info)));
  return std::unique_ptr<Tier>(std::make_unique<MemoryTier>(info, nullptr, std::move(mapping)));
}

}  // namespace kedge

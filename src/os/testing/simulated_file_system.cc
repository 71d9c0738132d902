#include "os/testing/simulated_file_system.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

namespace kedge::os::testing {
namespace {

constexpr uint64_t kDirectAlignment = 512;

Status Failed(int error, Call call, const std::string& path, const std::string& second_path = {}) {
  return Status::FromErrno(error, std::string(CallName(call)) + " " + path + (second_path.empty() ? "" : " to " + second_path));
}

}  // namespace

class SimulatedFile final : public File {
 public:
  SimulatedFile(SimulatedFileSystem& fs, SimulatedDisk::NodeId id, OpenFlags flags, std::string path)
      : File(std::move(path)), fs_(fs), id_(id), flags_(flags), epoch_(fs.epoch_), number_(fs.next_file_++) {}

  ~SimulatedFile() override {
    const std::lock_guard lock(fs_.mutex_);
    Release();
  }

  Result<size_t> Pread(void* buffer, size_t bytes, uint64_t offset) override {
    const std::lock_guard lock(fs_.mutex_);
    const auto verdict = fs_.faults_.OnCall(Call::kPread, path(), {}, bytes);
    if (const int error = Check(verdict.errno_value, OpenFlags::kRead)) return Failed(error, Call::kPread, path());
    if (IsMisaligned(buffer, bytes, offset)) return Failed(EINVAL, Call::kPread, path());
    return fs_.disk_.Read(id_, offset, static_cast<char*>(buffer), verdict.bytes);
  }

  Result<size_t> Pwrite(const void* buffer, size_t bytes, uint64_t offset) override {
    const std::lock_guard lock(fs_.mutex_);
    const auto verdict = fs_.faults_.OnCall(Call::kPwrite, path(), {}, bytes);
    int error = Check(verdict.errno_value == kKilledErrno ? 0 : verdict.errno_value, OpenFlags::kWrite);
    if (error == 0 && fs_.read_only_) error = EROFS;
    if (error == 0 && IsMisaligned(buffer, bytes, offset)) error = EINVAL;
    size_t written = 0;
    if (error == 0) error = fs_.disk_.Write(id_, offset, {static_cast<const char*>(buffer), verdict.bytes}, &written);
    if (verdict.errno_value == kKilledErrno) error = kKilledErrno;
    if (error != 0) return Failed(error, Call::kPwrite, path());
    return written;
  }

  Status Fsync() override { return Sync(Call::kFsync); }
  Status Fdatasync() override { return Sync(Call::kFdatasync); }

  // Starts write-back, which makes nothing durable: a device's cache may lose it.
  Status SyncFileRange(uint64_t, uint64_t, SyncRange) override {
    return Simple(Call::kSyncFileRange, [] { return 0; });
  }

  Status Ftruncate(uint64_t size_bytes) override {
    return Changing(Call::kFtruncate, [&] { return fs_.disk_.Resize(id_, size_bytes); });
  }
  Status Fallocate(uint64_t offset, uint64_t bytes, bool keep_size) override {
    return Changing(Call::kFallocate, [&] { return bytes == 0 ? EINVAL : fs_.disk_.Reserve(id_, offset + bytes, keep_size); });
  }

  Result<FileInfo> Fstat() override {
    FileInfo info;
    KEDGE_RETURN_IF_ERROR(Simple(Call::kFstat, [&] {
      info = fs_.InfoOf(id_);
      return 0;
    }));
    return info;
  }

  Result<bool> TryLock(bool exclusive) override {
    bool taken = false;
    KEDGE_RETURN_IF_ERROR(Simple(Call::kLock, [&] {
      auto& holders = fs_.locks_[id_];
      const bool others_share = holders.shared_holders.size() > holders.shared_holders.count(number_);
      const bool other_excludes = holders.exclusive_holder != 0 && holders.exclusive_holder != number_;
      taken = !other_excludes && !(exclusive && others_share);
      if (!taken) return 0;
      holders.shared_holders.erase(number_);
      holders.exclusive_holder = exclusive ? number_ : 0;
      if (!exclusive) holders.shared_holders.insert(number_);
      return 0;
    }));
    return taken;
  }

  void DropCache(uint64_t, uint64_t) override {}

  Status Close() override {
    const std::lock_guard lock(fs_.mutex_);
    const int fault = fs_.faults_.OnCall(Call::kClose, path()).errno_value;
    if (const int error = Check(0, OpenFlags{})) return Failed(error, Call::kClose, path());
    if (fault != 0 && fault != kKilledErrno) fs_.disk_.FailSync(id_, fs_.random_);
    Release();
    return fault == 0 ? Status::Ok() : Failed(fault, Call::kClose, path());
  }

  int descriptor() const override { return -1; }

 private:
  // EBADF for a file that was closed, lost to a restart, or is not open for this.
  int Check(int fault, OpenFlags need) const {
    if (fault == kKilledErrno) return fault;
    if (released_ || epoch_ != fs_.epoch_ || !Has(flags_, need)) return EBADF;
    return fault;
  }

  bool IsMisaligned(const void* buffer, size_t bytes, uint64_t offset) const {
    return Has(flags_, OpenFlags::kDirect) && (reinterpret_cast<uintptr_t>(buffer) | bytes | offset) % kDirectAlignment != 0;
  }

  void Release() {
    if (std::exchange(released_, true) || epoch_ != fs_.epoch_) return;
    if (const auto lock = fs_.locks_.find(id_); lock != fs_.locks_.end()) {
      lock->second.shared_holders.erase(number_);
      if (lock->second.exclusive_holder == number_) lock->second.exclusive_holder = 0;
    }
    fs_.disk_.Closed(id_);
  }

  template <typename Body>
  Status Simple(Call call, Body body) {
    const std::lock_guard lock(fs_.mutex_);
    int error = Check(fs_.faults_.OnCall(call, path()).errno_value, OpenFlags{});
    if (error == 0) error = body();
    return error == 0 ? Status::Ok() : Failed(error, call, path());
  }

  template <typename Body>
  Status Changing(Call call, Body body) {
    return Simple(call, [&] {
      if (!Has(flags_, OpenFlags::kWrite)) return EINVAL;
      return fs_.read_only_ ? EROFS : body();
    });
  }

  Status Sync(Call call) {
    const std::lock_guard lock(fs_.mutex_);
    const int fault = fs_.faults_.OnCall(call, path()).errno_value;
    if (const int error = Check(0, OpenFlags{})) return Failed(fault == kKilledErrno ? fault : error, call, path());
    if (fault == 0) {
      fs_.disk_.Sync(id_);
      return Status::Ok();
    }
    if (fault != kKilledErrno) fs_.disk_.FailSync(id_, fs_.random_);
    return Failed(fault, call, path());
  }

  SimulatedFileSystem& fs_;
  const SimulatedDisk::NodeId id_;
  const OpenFlags flags_;
  const uint64_t epoch_;
  const uint64_t number_;
  bool released_ = false;
};

SimulatedFileSystem::SimulatedFileSystem(SimulatedOptions options) : disk_(options.capacity_bytes), random_(options.seed) {}

std::unique_ptr<SimulatedFileSystem> SimulatedFileSystem::Clone() const {
  const std::lock_guard lock(mutex_);
  auto clone = std::make_unique<SimulatedFileSystem>();
  clone->disk_ = disk_;
  clone->disk_.CloseAll();
  clone->random_ = random_;
  clone->read_only_ = read_only_;
  return clone;
}

void SimulatedFileSystem::DropOpenFiles() {
  ++epoch_;
  locks_.clear();
  disk_.CloseAll();
  faults_.Clear();
}

void SimulatedFileSystem::Restart() {
  const std::lock_guard lock(mutex_);
  DropOpenFiles();
}

void SimulatedFileSystem::Crash(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  DropOpenFiles();
  Random random(seed);
  disk_.Crash(random);
}

void SimulatedFileSystem::SetCapacity(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  disk_.set_capacity_bytes(bytes);
}

void SimulatedFileSystem::PassTime(Duration duration) {
  const std::lock_guard lock(mutex_);
  disk_.PassTime(duration.count());
}

int64_t SimulatedFileSystem::NowNs() {
  const std::lock_guard lock(mutex_);
  return disk_.Tick();
}

void SimulatedFileSystem::SetReadOnly(bool read_only) {
  const std::lock_guard lock(mutex_);
  read_only_ = read_only;
}

uint64_t SimulatedFileSystem::UsedBytes() const {
  const std::lock_guard lock(mutex_);
  return disk_.used_bytes();
}

FileInfo SimulatedFileSystem::InfoOf(SimulatedDisk::NodeId id) {
  const SimulatedDisk::Node& node = disk_.node(id);
  FileInfo info;
  info.kind = node.kind;
  info.size_bytes = node.content.size();
  info.allocated_bytes = disk_.AllocatedBytes(node);
  info.device = 1;
  info.inode = id;
  info.link_count = node.links;
  info.mode = node.mode;
  info.modified_ns = node.modified_ns;
  return info;
}

Result<std::unique_ptr<File>> SimulatedFileSystem::Open(const std::string& path, OpenFlags flags, uint32_t mode) {
  const std::lock_guard lock(mutex_);
  if (const int error = faults_.OnCall(Call::kOpen, path).errno_value) return Failed(error, Call::kOpen, path);
  SimulatedDisk::NodeId id = 0;
  int error = disk_.Resolve(path, &id);
  if (error == 0 && Has(flags, OpenFlags::kCreate | OpenFlags::kExclusive)) error = EEXIST;
  if (error == ENOENT && Has(flags, OpenFlags::kCreate)) {
    SimulatedDisk::NodeId folder = 0;
    std::string name;
    error = disk_.ResolveParent(path, &folder, &name);
    if (error == 0) error = read_only_ ? EROFS : disk_.Create(folder, name, FileKind::kFile, mode, &id);
  }
  if (error != 0) return Failed(error, Call::kOpen, path);
  const bool is_folder = disk_.node(id).kind == FileKind::kFolder;
  if (is_folder && Has(flags, OpenFlags::kWrite)) return Failed(EISDIR, Call::kOpen, path);
  if (!is_folder && Has(flags, OpenFlags::kFolder)) return Failed(ENOTDIR, Call::kOpen, path);
  if (read_only_ && Has(flags, OpenFlags::kWrite)) return Failed(EROFS, Call::kOpen, path);
  if (Has(flags, OpenFlags::kTruncate)) disk_.Resize(id, 0);
  disk_.Opened(id);
  return std::unique_ptr<File>(std::make_unique<SimulatedFile>(*this, id, flags, path));
}

Status SimulatedFileSystem::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  int error = faults_.OnCall(Call::kRename, from, to).errno_value;
  SimulatedDisk::NodeId from_folder = 0;
  SimulatedDisk::NodeId to_folder = 0;
  std::string from_name;
  std::string to_name;
  if (error == 0 && read_only_) error = EROFS;
  if (error == 0) error = disk_.ResolveParent(from, &from_folder, &from_name);
  if (error == 0) error = disk_.ResolveParent(to, &to_folder, &to_name);
  if (error == 0) error = disk_.Rename(from_folder, from_name, to_folder, to_name);
  return error == 0 ? Status::Ok() : Failed(error, Call::kRename, from, to);
}

Status SimulatedFileSystem::Link(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  int error = faults_.OnCall(Call::kLink, from, to).errno_value;
  SimulatedDisk::NodeId target = 0;
  SimulatedDisk::NodeId folder = 0;
  std::string name;
  if (error == 0 && read_only_) error = EROFS;
  if (error == 0) error = disk_.Resolve(from, &target);
  if (error == 0) error = disk_.ResolveParent(to, &folder, &name);
  if (error == 0) error = disk_.Link(target, folder, name);
  return error == 0 ? Status::Ok() : Failed(error, Call::kLink, from, to);
}

Status SimulatedFileSystem::Unlink(const std::string& path) {
  const std::lock_guard lock(mutex_);
  int error = faults_.OnCall(Call::kUnlink, path).errno_value;
  SimulatedDisk::NodeId folder = 0;
  std::string name;
  if (error == 0 && read_only_) error = EROFS;
  if (error == 0) error = disk_.ResolveParent(path, &folder, &name);
  if (error == 0) error = disk_.Unlink(folder, name);
  return error == 0 ? Status::Ok() : Failed(error, Call::kUnlink, path);
}

Status SimulatedFileSystem::Mkdir(const std::string& path, uint32_t mode) {
  const std::lock_guard lock(mutex_);
  int error = faults_.OnCall(Call::kMkdir, path).errno_value;
  SimulatedDisk::NodeId id = 0;
  SimulatedDisk::NodeId folder = 0;
  std::string name;
  if (error == 0 && disk_.Resolve(path, &id) == 0) error = EEXIST;  // also for "/"
  if (error == 0 && read_only_) error = EROFS;
  if (error == 0) error = disk_.ResolveParent(path, &folder, &name);
  if (error == 0) error = disk_.Create(folder, name, FileKind::kFolder, mode, &id);
  return error == 0 ? Status::Ok() : Failed(error, Call::kMkdir, path);
}

Status SimulatedFileSystem::Rmdir(const std::string& path) {
  const std::lock_guard lock(mutex_);
  int error = faults_.OnCall(Call::kRmdir, path).errno_value;
  SimulatedDisk::NodeId folder = 0;
  std::string name;
  if (error == 0 && read_only_) error = EROFS;
  if (error == 0) error = disk_.ResolveParent(path, &folder, &name);
  if (error == 0) error = disk_.Rmdir(folder, name);
  return error == 0 ? Status::Ok() : Failed(error, Call::kRmdir, path);
}

Status SimulatedFileSystem::OnPath(Call call, const std::string& path, SimulatedDisk::NodeId* id) {
  int error = faults_.OnCall(call, path).errno_value;
  if (error == 0) error = disk_.Resolve(path, id);
  return error == 0 ? Status::Ok() : Failed(error, call, path);
}

Result<std::vector<FolderEntry>> SimulatedFileSystem::List(const std::string& path) {
  const std::lock_guard lock(mutex_);
  SimulatedDisk::NodeId id = 0;
  KEDGE_RETURN_IF_ERROR(OnPath(Call::kList, path, &id));
  if (disk_.node(id).kind != FileKind::kFolder) return Failed(ENOTDIR, Call::kList, path);
  std::vector<FolderEntry> entries;
  for (const auto& [name, target] : disk_.node(id).entries) entries.push_back({name, disk_.node(target).kind});
  return entries;
}

Result<FileInfo> SimulatedFileSystem::Stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  SimulatedDisk::NodeId id = 0;
  KEDGE_RETURN_IF_ERROR(OnPath(Call::kStat, path, &id));
  return InfoOf(id);
}

Result<VolumeInfo> SimulatedFileSystem::StatVolume(const std::string& path) {
  const std::lock_guard lock(mutex_);
  SimulatedDisk::NodeId id = 0;
  KEDGE_RETURN_IF_ERROR(OnPath(Call::kStatVolume, path, &id));
  VolumeInfo info;
  info.block_bytes = SimulatedDisk::kBlockBytes;
  info.total_bytes = disk_.capacity_bytes();
  info.available_bytes = disk_.capacity_bytes() - std::min(disk_.capacity_bytes(), disk_.used_bytes());
  info.read_only = read_only_;
  return info;
}

Status SimulatedFileSystem::Chmod(const std::string& path, uint32_t mode) {
  const std::lock_guard lock(mutex_);
  SimulatedDisk::NodeId id = 0;
  KEDGE_RETURN_IF_ERROR(OnPath(Call::kChmod, path, &id));
  if (read_only_) return Failed(EROFS, Call::kChmod, path);
  disk_.node(id).mode = mode;
  return Status::Ok();
}

Status SimulatedFileSystem::SetModifiedTime(const std::string& path, int64_t modified_ns) {
  const std::lock_guard lock(mutex_);
  SimulatedDisk::NodeId id = 0;
  KEDGE_RETURN_IF_ERROR(OnPath(Call::kSetModifiedTime, path, &id));
  if (read_only_) return Failed(EROFS, Call::kSetModifiedTime, path);
  disk_.node(id).modified_ns = modified_ns;
  return Status::Ok();
}

std::vector<Status> SimulatedFileSystem::SyncTogether(std::span<File* const> files) {
  std::vector<size_t> order(files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t left = order.size(); left > 1; --left) {
    const std::lock_guard lock(mutex_);
    std::swap(order[left - 1], order[random_.Below(left)]);
  }
  std::vector<Status> statuses(files.size());
  for (const size_t i : order) statuses[i] = files[i]->Fsync();
  return statuses;
}

}  // namespace kedge::os::testing

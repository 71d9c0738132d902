#include "os/files/private_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "os/files/failed_call.h"
#include "os/files/files.h"
#include "os/files/system_file.h"

namespace kedge::os {
namespace {

// What <linux/openat2.h> says, which older headers lack.
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
struct OpenHow {
  uint64_t flags;
  uint64_t mode;
  uint64_t resolve;
};
constexpr uint64_t kResolveNoMagicLinks = 0x02;
constexpr uint64_t kResolveNoSymlinks = 0x04;
constexpr uint64_t kResolveBeneath = 0x08;

constexpr int kLinksMax = 40;  // as the kernel's

// What is refused on the way.
enum class Rule {
  kPrivate,  // what private_files.h says
  kPlanted,  // what FileSystem::CheckNotPlanted says
};

long TakeBeneath(int folder, const char* name, int flags, mode_t mode) {
  const OpenHow how{static_cast<uint64_t>(static_cast<unsigned>(flags)), (flags & O_CREAT) != 0 ? mode : 0,
                    kResolveBeneath | kResolveNoSymlinks | kResolveNoMagicLinks};
  return syscall(SYS_openat2, folder, name, &how, sizeof how);
}

// `name` in `folder`, and nowhere else; a link is not followed.
UniqueFd TakeStep(Step step, int folder, const std::string& name, int flags, mode_t mode = 0) {
  flags |= O_NOFOLLOW | O_CLOEXEC;
  return UniqueFd(Retry([&] {
    return step == Step::kBeneath ? static_cast<int>(TakeBeneath(folder, name.c_str(), flags, mode))
                                  : openat(folder, name.c_str(), flags, mode);
  }));
}

// The user that this process sees in the place of those that its user namespace does not map, root among them.
std::optional<uid_t> UnmappedUser() {
  constexpr uint64_t kProcFileBytesMax = 4096;
  const auto map = ReadFile(SystemFileSystem(), "/proc/self/uid_map", kProcFileBytesMax);
  uint64_t inside = 0, outside = 0, users = 0;
  if (!map.ok() || std::sscanf(map->c_str(), "%lu %lu %lu", &inside, &outside, &users) != 3 || users == UINT32_MAX) return {};
  // Not ReadFile: a sysctl is read from its beginning only.
  const auto file = SystemFileSystem().Open("/proc/sys/kernel/overflowuid", OpenFlags::kRead);
  char text[16] = {};
  if (!file.ok() || !ReadUpTo(**file, text, sizeof text - 1, 0).ok()) return {};
  return static_cast<uid_t>(std::strtoul(text, nullptr, 10));
}

// An open file or folder, and what was seen of it.
struct Place {
  UniqueFd fd;
  std::string path;  // without links
  struct stat info {};

  bool OthersMayWrite() const { return (info.st_mode & (S_IWGRP | S_IWOTH)) != 0; }
  bool IsOwn() const { return info.st_uid == geteuid(); }
  std::string Found() const { return fmt::format("user {}, mode {:04o}", info.st_uid, info.st_mode & 07777); }
};

// One way from "/" to a place.
class Walk {
 public:
  explicit Walk(Step step, Rule rule = Rule::kPrivate) : step_(step), rule_(rule) {}

  // `path` is absolute. What is last may be no folder: see `place`.
  Status To(const std::string& path) {
    Expect(path);
    KEDGE_RETURN_IF_ERROR(Begin());
    while (!names_.empty()) {
      const std::string name = std::move(names_.front());
      names_.pop_front();
      KEDGE_RETURN_IF_ERROR(name == ".." ? Restart(ParentPath(place_.path)) : Enter(name));
    }
    return Status::Ok();
  }

  Status ToFolder(const std::string& path) {
    KEDGE_RETURN_IF_ERROR(To(path));
    return S_ISDIR(place_.info.st_mode) ? Status::Ok() : Status::FromErrno(ENOTDIR, "open " + path);
  }

  Status ToClosedFolder(const std::string& path) {
    KEDGE_RETURN_IF_ERROR(ToFolder(path));
    if (closed_) return Status::Ok();
    return Status(Code::kPermission,
                  fmt::format("{} must be a folder of user {} with mode 0700; found {}: make it so, or name another folder",
                              place_.path, geteuid(), place_.Found()));
  }

  Status ToNotPlanted(const std::string& path) {
    KEDGE_RETURN_IF_ERROR(To(path));
    return planted_;
  }

  Place& place() { return place_; }

 private:
  // Goes on to `path` before what is still to come.
  void Expect(std::string_view path) {
    std::deque<std::string> names;
    while (!path.empty()) {
      const size_t slash = path.find('/');
      const std::string_view name = path.substr(0, slash);
      if (!name.empty() && name != ".") names.emplace_back(name);
      path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    }
    names_.insert(names_.begin(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
  }

  Status Begin() {
    UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.valid()) return Failed("open", "/");
    place_ = {};
    shared_.reset();
    closed_ = false;
    return Judge(std::move(root), "/");
  }

  Status Restart(const std::string& path) {
    Expect(path);
    return Begin();
  }

  Status Enter(const std::string& name) {
    if (!S_ISDIR(place_.info.st_mode)) return Status::FromErrno(ENOTDIR, "open " + place_.path);
    std::string path = JoinPath(place_.path, name);
    // O_DIRECTORY has an automounter mount what it keeps there. Without it a link or a file is opened as what it is.
    UniqueFd fd = TakeStep(step_, place_.fd.get(), name, O_PATH | O_DIRECTORY);
    if (!fd.valid() && (errno == ENOTDIR || errno == ELOOP)) fd = TakeStep(step_, place_.fd.get(), name, O_PATH);
    if (!fd.valid()) return Failed("open", path);
    return Judge(std::move(fd), std::move(path));
  }

  Status Judge(UniqueFd fd, std::string path) {
    Place next{std::move(fd), std::move(path), {}};
    if (fstat(next.fd.get(), &next.info) != 0) return Failed("fstat", next.path);
    if (rule_ == Rule::kPlanted) return Pass(std::move(next));
    if (S_ISLNK(next.info.st_mode)) return Follow(next);
    const bool is_trusted = next.IsOwn() || next.info.st_uid == 0;
    if (S_ISDIR(next.info.st_mode)) {
      if (closed_ && next.info.st_dev != place_.info.st_dev) closed_ = false;  // a mount may be seen elsewhere, too
      if ((shared_ || closed_) && !is_trusted) return RefuseOwner(next);
      if (shared_ && !closed_ && next.OthersMayWrite() && (next.info.st_mode & S_ISVTX) == 0) return RefuseMode(next);
      const bool is_roots = is_trusted || (!shared_ && next.info.st_uid == UnmappedUser());
      if (!shared_ && !closed_ && (!is_roots || next.OthersMayWrite())) shared_ = Described(next);
      closed_ = closed_ || (next.IsOwn() && (next.info.st_mode & (S_IRWXG | S_IRWXO)) == 0);
    } else if ((shared_ || closed_) && !is_trusted) {
      return RefuseOwner(next);
    }
    place_ = std::move(next);
    return Status::Ok();
  }

  // A folder counts where the way ends: one above it may be a project's, and is another user's then.
  Status Pass(Place next) {
    planted_ = RefusePlanted(next);
    if (S_ISLNK(next.info.st_mode)) return planted_.ok() ? GoWhere(next) : planted_;
    place_ = std::move(next);
    return Status::Ok();
  }

  Status Follow(const Place& link) {
    if (shared_) {
      return Status(Code::kPermission,
                    fmt::format("{} is a symbolic link ({}) below {}: nothing follows it there. Name the folder "
                                "that it was to lead to, and remove it if it is not yours",
                                link.path, link.Found(), *shared_));
    }
    if (!link.IsOwn() && link.info.st_uid != 0 && link.info.st_uid != UnmappedUser()) return RefuseOwner(link);
    return GoWhere(link);
  }

  Status GoWhere(const Place& link) {
    if (++links_ > kLinksMax) return Status::FromErrno(ELOOP, "open " + link.path);
    std::array<char, 4096> target{};
    const ssize_t bytes = readlinkat(link.fd.get(), "", target.data(), target.size());
    if (bytes < 0) return Failed("readlink", link.path);
    const std::string_view text(target.data(), static_cast<size_t>(bytes));
    Expect(text);
    return text.starts_with('/') ? Begin() : Status::Ok();
  }

  std::string Described(const Place& folder) const {
    return fmt::format("{}, where others may write ({})", folder.path, folder.Found());
  }
  std::string Where() const { return shared_ ? *shared_ : place_.path; }

  Status RefuseOwner(const Place& found) const {
    return Status(
        Code::kPermission,
        fmt::format("{} belongs to user {} (mode {:04o}): below {} everything must belong to user {} or to root, or somebody "
                    "else could read and change checkpoints. Name a folder of your own, or have that one removed",
                    found.path, found.info.st_uid, found.info.st_mode & 07777, Where(), geteuid()));
  }
  Status RefuseMode(const Place& found) const {
    return Status(Code::kPermission,
                  fmt::format("{} may be written by others ({}): below {} a folder on the way must be closed to them. Use chmod "
                              "go-w on it, or name another folder",
                              found.path, found.Found(), Where()));
  }

  // Ok unless somebody else may have put it where we are. Whoever owns the folder could exchange what is in it anyway.
  Status RefusePlanted(const Place& found) const {
    const uid_t owner = found.info.st_uid;
    const bool is_folders_owner = owner == place_.info.st_uid && owner != UnmappedUser();
    if ((place_.info.st_mode & S_IWOTH) == 0 || found.IsOwn() || owner == 0 || is_folders_owner) return Status::Ok();
    return Status(Code::kPermission,
                  fmt::format("{} {} user {} (mode {:04o}), and lies in {}: it is not used, because that user could change the "
                              "checkpoints in it. Name a folder of your own, or have that one removed",
                              found.path, S_ISLNK(found.info.st_mode) ? "is a symbolic link of" : "belongs to", owner,
                              found.info.st_mode & 07777, Described(place_)));
  }

  const Step step_;
  const Rule rule_;
  std::deque<std::string> names_;  // still to come
  int links_ = 0;
  Place place_;
  std::optional<std::string> shared_;  // the first folder that others may write in, for people
  bool closed_ = false;                // others do not reach what is here
  Status planted_;                     // of what was last passed
};

// The folder that something lies in, and its name there.
struct Entry {
  std::shared_ptr<const Place> folder;
  std::string name;
};

// The closed folder that was walked to last: most files are made, renamed and removed in one folder, many times a second. For a
// moment it counts as walked to while the same folder, with the same owner and mode, is at its path.
class LastFolder {
 public:
  Result<std::shared_ptr<const Place>> Closed(Step step, const std::string& path) {
    if (auto known = Known(path)) return known;
    const int64_t now_ns = SystemClock().NowNs();
    Walk walk(step);
    KEDGE_RETURN_IF_ERROR(walk.ToClosedFolder(path));
    auto place = std::make_shared<const Place>(std::move(walk.place()));
    const std::lock_guard lock(mutex_);
    path_ = path;
    user_ = geteuid();
    place_ = place;
    walked_ns_ = now_ns;
    return place;
  }

  // Null: it is to be walked to.
  std::shared_ptr<const Place> Known(const std::string& path) {
    std::shared_ptr<const Place> known;
    {
      const std::lock_guard lock(mutex_);
      if (SystemClock().NowNs() - walked_ns_ >= kValid.count()) place_ = nullptr;
      if (path == path_ && geteuid() == user_) known = place_;
    }
    return known != nullptr && IsStillThere(*known, path) ? known : nullptr;
  }

 private:
  static constexpr Duration kValid = std::chrono::milliseconds(500);

  static bool IsSame(const struct stat& one, const struct stat& other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_uid == other.st_uid && one.st_mode == other.st_mode;
  }
  // At its path, and behind its descriptor: an application may close what is not its own.
  static bool IsStillThere(const Place& place, const std::string& path) {
    struct stat at_path {};
    struct stat open {};
    return stat(path.c_str(), &at_path) == 0 && IsSame(at_path, place.info) && fstat(place.fd.get(), &open) == 0 &&
           IsSame(open, place.info);
  }

  std::mutex mutex_;
  std::string path_;
  uid_t user_ = 0;
  std::shared_ptr<const Place> place_;
  int64_t walked_ns_ = 0;
};

LastFolder& TheLastFolder() {
  static LastFolder& folder = *new LastFolder;  // for threads that are at work when the process exits
  return folder;
}

Result<Entry> ClosedEntry(Step step, const std::string& path) {
  const std::string absolute = AbsolutePath(path);
  KEDGE_ASSIGN_OR_RETURN(auto folder, TheLastFolder().Closed(step, ParentPath(absolute)));
  return Entry{std::move(folder), BaseName(absolute)};
}

// Mostly two names in one folder, which is not looked at twice then.
Result<std::pair<Entry, Entry>> ClosedEntries(Step step, const std::string& from, const std::string& to) {
  const std::string source = AbsolutePath(from), target = AbsolutePath(to);
  KEDGE_ASSIGN_OR_RETURN(Entry first, ClosedEntry(step, source));
  if (ParentPath(source) == ParentPath(target)) return std::pair{first, Entry{first.folder, BaseName(target)}};
  KEDGE_ASSIGN_OR_RETURN(Entry second, ClosedEntry(step, target));
  return std::pair{std::move(first), std::move(second)};
}

Result<UniqueFd> OpenFile(Step step, const std::string& path, int flags, uint32_t mode) {
  KEDGE_ASSIGN_OR_RETURN(const Entry entry, ClosedEntry(step, path));
  UniqueFd fd = TakeStep(step, entry.folder->fd.get(), entry.name, flags | O_NOCTTY, static_cast<mode_t>(mode));
  if (!fd.valid() && errno == ELOOP) {
    return Status(Code::kPermission, path + " is a symbolic link, which nothing of Kedge's is: remove it");
  }
  if (!fd.valid()) return Failed("open", path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return Failed("fstat", path);
  if (info.st_uid != geteuid()) {
    return Status(Code::kPermission, fmt::format("{} belongs to user {}, not to {}: remove it", path, info.st_uid, geteuid()));
  }
  return fd;
}

class PrivateFiles final : public FileSystem {
 public:
  explicit PrivateFiles(Step step) : step_(step) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode) override {
    auto fd = Has(flags, OpenFlags::kFolder) ? OpenFolder(path) : OpenFile(step_, path, SystemFlags(flags), mode);
    if (!fd.ok()) return fd.status();
    return MakeSystemFile(std::move(*fd), path);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    KEDGE_ASSIGN_OR_RETURN(const auto entries, ClosedEntries(step_, from, to));
    const auto& [source, target] = entries;
    const int done = renameat(source.folder->fd.get(), source.name.c_str(), target.folder->fd.get(), target.name.c_str());
    return Check(done, "rename", from + " to " + to);
  }
  Status Link(const std::string& from, const std::string& to) override {
    KEDGE_ASSIGN_OR_RETURN(const auto entries, ClosedEntries(step_, from, to));
    const auto& [source, target] = entries;
    const int done = linkat(source.folder->fd.get(), source.name.c_str(), target.folder->fd.get(), target.name.c_str(), 0);
    return Check(done, "link", from + " to " + to);
  }
  Status Unlink(const std::string& path) override { return Remove(path, 0, "unlink"); }
  Status Rmdir(const std::string& path) override { return Remove(path, AT_REMOVEDIR, "rmdir"); }

  Status Mkdir(const std::string& path, uint32_t mode) override {
    KEDGE_ASSIGN_OR_RETURN(const Entry entry, EntryOf(path));
    return Check(mkdirat(entry.folder->fd.get(), entry.name.c_str(), static_cast<mode_t>(mode)), "mkdir", path);
  }

  Result<std::vector<FolderEntry>> List(const std::string& path) override {
    KEDGE_ASSIGN_OR_RETURN(UniqueFd folder, OpenFolder(path));
    return ListFolder(std::move(folder), path);
  }

  Result<FileInfo> Stat(const std::string& path) override {
    KEDGE_ASSIGN_OR_RETURN(const Place place, PlaceOf(path));
    return InfoOf(place.info);
  }

  Result<VolumeInfo> StatVolume(const std::string& path) override {
    KEDGE_ASSIGN_OR_RETURN(const Place place, PlaceOf(path));
    struct statvfs volume {};
    struct statfs type {};
    if (Retry([&] { return fstatvfs(place.fd.get(), &volume); }) != 0) return Failed("statvfs", path);
    if (Retry([&] { return fstatfs(place.fd.get(), &type); }) != 0) return Failed("statfs", path);
    return VolumeOf(volume, type);
  }

  Status Chmod(const std::string& path, uint32_t mode) override {
    KEDGE_ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(step_, path, O_RDONLY, 0));
    return Check(fchmod(fd.get(), static_cast<mode_t>(mode)), "chmod", path);
  }

  Status SetModifiedTime(const std::string& path, int64_t modified_ns) override {
    KEDGE_ASSIGN_OR_RETURN(const Entry entry, ClosedEntry(step_, path));
    const int done = utimensat(entry.folder->fd.get(), entry.name.c_str(), ModifiedTime(modified_ns).times, AT_SYMLINK_NOFOLLOW);
    return Check(done, "utimensat", path);
  }

 private:
  Result<Place> PlaceOf(const std::string& path) const {
    Walk walk(step_);
    KEDGE_RETURN_IF_ERROR(walk.To(AbsolutePath(path)));
    return std::move(walk.place());
  }
  Result<std::shared_ptr<const Place>> FolderAt(const std::string& absolute) const {
    if (auto known = TheLastFolder().Known(absolute)) return known;
    Walk walk(step_);
    KEDGE_RETURN_IF_ERROR(walk.ToFolder(absolute));
    return std::make_shared<const Place>(std::move(walk.place()));
  }
  Result<Entry> EntryOf(const std::string& path) const {
    const std::string absolute = AbsolutePath(path);
    KEDGE_ASSIGN_OR_RETURN(auto folder, FolderAt(ParentPath(absolute)));
    return Entry{std::move(folder), BaseName(absolute)};
  }
  Result<UniqueFd> OpenFolder(const std::string& path) const {
    KEDGE_ASSIGN_OR_RETURN(const auto at, FolderAt(AbsolutePath(path)));
    UniqueFd folder = TakeStep(step_, at->fd.get(), ".", O_RDONLY | O_DIRECTORY);
    if (!folder.valid()) return Failed("open", path);
    return folder;
  }
  // Whatever has the name goes itself, also a link; a folder only when it is empty.
  Status Remove(const std::string& path, int flags, const char* call) const {
    KEDGE_ASSIGN_OR_RETURN(const Entry entry, EntryOf(path));
    return Check(unlinkat(entry.folder->fd.get(), entry.name.c_str(), flags), call, path);
  }

  const Step step_;
};

}  // namespace

Step BestStep() {
  // ENOSYS of an old kernel, EPERM of a sandbox that does not know the call.
  static const Step best = [] {
    const UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const UniqueFd tried = TakeStep(Step::kBeneath, root.get(), ".", O_PATH | O_DIRECTORY);
    return tried.valid() ? Step::kBeneath : Step::kPlain;
  }();
  return best;
}

std::unique_ptr<FileSystem> MakePrivateFileSystem(Step step) {
  return std::make_unique<PrivateFiles>(step);
}

FileSystem& PrivateFileSystem() {
  static PrivateFiles files(BestStep());
  return files;
}

Result<UniqueFd> OpenPrivate(const std::string& path, int flags, uint32_t mode) {
  return OpenFile(BestStep(), path, flags, mode);
}

Result<UniqueFd> OpenPrivateLog(const std::string& path) {
  return OpenPrivate(path, O_WRONLY | O_CREAT | O_APPEND);
}

Result<UniqueFd> OpenClosedFolder(const std::string& path) {
  Walk walk(BestStep());
  KEDGE_RETURN_IF_ERROR(walk.ToClosedFolder(AbsolutePath(path)));
  return std::move(walk.place().fd);
}

Status CheckNotPlanted(const std::string& path) {
  Walk walk(BestStep(), Rule::kPlanted);
  // As it stands: beyond a link ".." is the folder above where that leads.
  return walk.ToNotPlanted(path.starts_with('/') ? path : JoinPath(AbsolutePath("."), path));
}

}  // namespace kedge::os

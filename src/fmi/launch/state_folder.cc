#include "fmi/launch/state_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/machine/machine.h"

namespace kedge::fmi {
namespace {

constexpr std::string_view kSecret = "secret";
constexpr std::string_view kClaim = "fmirun";
constexpr std::string_view kState = "state";
constexpr std::string_view kTag = "fmirun";  // of files that are being written
constexpr size_t kSecretBytesMax = 128;
constexpr size_t kStateBytesMax = 64 << 20;

os::FileSystem& Files() {
  return os::PrivateFileSystem();
}

std::string PathOf(const std::string& folder, std::string_view kind, uint32_t number) {
  return os::JoinPath(folder, fmt::format("{}.{}", kind, number));
}

// The highest N of KIND.N; 0: there is none.
Result<uint32_t> Last(const std::string& folder, std::string_view kind) {
  KEDGE_ASSIGN_OR_RETURN(const auto entries, Files().List(folder));
  uint32_t last = 0;
  for (const os::FolderEntry& entry : entries) {
    const std::string_view name = entry.name;
    if (!name.starts_with(kind) || name.size() <= kind.size() + 1) continue;
    const std::string_view digits = name.substr(kind.size() + 1);
    uint32_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec == std::errc() && read.ptr == digits.data() + digits.size()) last = std::max(last, number);
  }
  return last;
}

// Held until the file is closed.
Result<std::unique_ptr<os::File>> Lock(const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file, Files().Open(path, os::OpenFlags::kReadWrite));
  KEDGE_ASSIGN_OR_RETURN(const bool is_free, file->TryLock(/*exclusive=*/true));
  if (!is_free) return Status(Code::kBusy, fmt::format("{} is held by another fmirun", path));
  return file;
}

// As it may stand in the name of a folder.
std::string Plain(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
  return text;
}

}  // namespace

Result<StateFolder> StateFolder::Create(const std::string& path) {
  const std::string made = os::TemporaryPath(path, kTag);
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(Files(), made, 0700, /*durable=*/false));
  auto folder = Fill(path, made);
  Status shown = folder.status();
  if (shown.ok()) shown = Files().Rename(made, path);
  if (!shown.ok()) {
    (void)os::RemoveTree(Files(), made);
    const bool is_there = shown.errno_value() == ENOTEMPTY || shown.errno_value() == EEXIST;
    return is_there ? Status(Code::kAlreadyExists, fmt::format("{} is there", path)) : shown;
  }
  KEDGE_RETURN_IF_ERROR(os::SyncFolder(Files(), os::ParentPath(path)));
  return folder;
}

Result<StateFolder> StateFolder::Fill(const std::string& path, const std::string& made) {
  const auto secret = net::Secret::Generate();
  KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(Files(), os::JoinPath(made, kSecret), secret.ToHex(), kTag));
  KEDGE_RETURN_IF_ERROR(os::CreateIfAbsent(Files(), PathOf(made, kClaim, 1), "", kTag));
  KEDGE_ASSIGN_OR_RETURN(auto lock, Lock(PathOf(made, kClaim, 1)));
  return StateFolder(path, secret, 1, std::move(lock));
}

Result<StateFolder> StateFolder::Claim(const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const uint32_t last, Last(path, kClaim));
  if (last == 0) return Status(Code::kMismatch, fmt::format("{} is no folder of a job", path));
  KEDGE_ASSIGN_OR_RETURN(const std::string text, os::ReadFile(Files(), os::JoinPath(path, kSecret), kSecretBytesMax));
  const std::optional<net::Secret> secret = net::Secret::FromHex(text);
  if (!secret) return Status(Code::kCorrupt, fmt::format("{} has no secret of a job", path));
  const std::string claim = PathOf(path, kClaim, last + 1);
  const Status claimed = os::CreateIfAbsent(Files(), claim, "", kTag);
  if (claimed.code() == Code::kAlreadyExists) return Status(Code::kBusy, "another fmirun takes the job over at this moment");
  KEDGE_RETURN_IF_ERROR(claimed);
  KEDGE_ASSIGN_OR_RETURN(auto lock, Lock(claim));
  return StateFolder(path, *secret, last + 1, std::move(lock));
}

Result<bool> StateFolder::IsHeld(const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const uint32_t last, Last(path, kClaim));
  if (last == 0) return false;
  const Status locked = Lock(PathOf(path, kClaim, last)).status();
  if (locked.ok()) return false;
  if (locked.code() == Code::kBusy) return true;
  return locked;
}

Result<JobState> StateFolder::Read() const {
  KEDGE_ASSIGN_OR_RETURN(const uint32_t last, Last(path_, kState));
  if (last == 0) return Status(Code::kNotFound, fmt::format("{} has no state of a job: its fmirun had begun nothing", path_));
  KEDGE_ASSIGN_OR_RETURN(const std::string text, os::ReadFile(Files(), PathOf(path_, kState, last), kStateBytesMax));
  return DecodeJobState(text);
}

Status StateFolder::Write(const JobState& state) const {
  return os::WriteFileDurably(Files(), PathOf(path_, kState, number_), Encode(state), kTag);
}

bool StateFolder::IsReplaced() const {
  const auto is_there = os::Exists(Files(), PathOf(path_, kClaim, number_ + 1));
  return is_there.ok() && *is_there;
}

void StateFolder::Remove() const {
  // Nobody is to find a part of it.
  const std::string gone = os::TemporaryPath(path_, kTag);
  if (Files().Rename(path_, gone).ok()) (void)os::RemoveTree(Files(), gone);
  // Others may have theirs there.
  (void)Files().Rmdir(os::ParentPath(path_));
}

void StateFolder::RemoveLeft(const std::string& path) {
  const auto is_held = IsHeld(path);
  if (!is_held.ok() || *is_held) return;
  if (const auto claimed = Claim(path); claimed.ok()) claimed->Remove();
}

std::string StatePath(const std::string& folder_or_job) {
  if (folder_or_job.find('/') != std::string::npos) return os::AbsolutePath(folder_or_job);
  const char* node = std::getenv("KEDGE_NODE");
  const std::string name = node != nullptr && *node != '\0' ? node : os::HostName();
  return fmt::format("/dev/shm/kedge-fmirun-{}/{}.{}", os::EffectiveUser(), Plain(name), Plain(folder_or_job));
}

}  // namespace kedge::fmi

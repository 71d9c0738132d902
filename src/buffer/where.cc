#include "buffer/where.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "burst/settings.h"
#include "os/files/file_mode.h"
#include "os/files/file_system.h"
#include "os/files/files.h"
#include "os/machine/machine.h"

namespace kedge::buffer {
namespace {

constexpr uint32_t kReadableToAll = 0644;

// Whatever the umask is. The owner of a store may be another than this user, and put a link there: it is not followed.
Status GiveMode(os::FileSystem& fs, const std::string& path, uint32_t mode) {
  KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open(path, os::OpenFlags::kRead | os::OpenFlags::kNoFollow));
  return os::SetFileMode(fs, *file, mode);
}

Status MakeFolderOf(const std::string& path, uint32_t mode) {
  os::FileSystem& fs = os::SystemFileSystem();
  const Status status = fs.Mkdir(path, mode);
  if (status.errno_value() == EEXIST) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(status);
  KEDGE_RETURN_IF_ERROR(GiveMode(fs, path, mode));
  return os::SyncFolder(fs, os::ParentPath(path));
}

Status SayInFolder(const ServerOptions& options, const std::string& folder, const std::string& address, uint32_t mode) {
  os::FileSystem& fs = os::SystemFileSystem();
  const Json where = {{"name", options.name}, {"address", address}};
  const std::string path = os::JoinPath(folder, options.name + ".buffer");
  KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(fs, path, where.dump(), "buffer", mode));
  return GiveMode(fs, path, mode);
}

Status SayInStore(const ServerOptions& options, const std::string& store, const std::string& address) {
  os::FileSystem& fs = os::SystemFileSystem();
  KEDGE_RETURN_IF_ERROR(MakeFolderOf(store, 0700));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs.Stat(store));
  // Its user must read what another user's server says there; the store's own mode keeps the others out.
  const uint32_t mode = info.user_id == os::EffectiveUser() ? info.mode : info.mode | 0755;
  const std::string folder = os::JoinPath(store, kFolderInStore);
  KEDGE_RETURN_IF_ERROR(MakeFolderOf(folder, mode));
  KEDGE_RETURN_IF_ERROR(fs.Open(folder, os::OpenFlags::kRead | os::OpenFlags::kNoFollow).status());
  return SayInFolder(options, folder, address, mode & 0666);
}

}  // namespace

Status SayWhereItIs(const ServerOptions& options, const std::string& address) {
  if (!options.folder.empty()) KEDGE_RETURN_IF_ERROR(SayInFolder(options, options.folder, address, kReadableToAll));
  for (const std::string& store : options.stores)
    KEDGE_RETURN_IF_ERROR(SayInStore(options, store, address).WithContext("--store " + store));
  return Status::Ok();
}

}  // namespace kedge::buffer

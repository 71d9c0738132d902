#include "net/secret_file.h"

#include <fmt/format.h>

#include "os/files/files.h"
#include "os/machine/machine.h"

namespace kedge::net {
namespace {

constexpr uint64_t kDigits = 64;

}  // namespace

Result<Secret> ReadSecret(const std::string& path) {
  os::FileSystem& fs = os::SystemFileSystem();
  KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open(path, os::OpenFlags::kRead));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, file->Fstat());
  if (info.kind != os::FileKind::kFile || info.user_id != os::EffectiveUser() || (info.mode & 077) != 0)
    return Status(Code::kPermission, fmt::format("{}: a secret is a file of this user alone; chmod 600 it", path));
  std::string text(kDigits + 1, '\0');
  KEDGE_ASSIGN_OR_RETURN(const size_t bytes, os::ReadUpTo(*file, text.data(), text.size(), 0));
  text.resize(bytes);
  if (text.size() > kDigits && text.back() == '\n') text.pop_back();
  const auto secret = Secret::FromHex(text);
  if (!secret.has_value()) return Status(Code::kCorrupt, fmt::format("{} does not hold 64 hexadecimal digits", path));
  return *secret;
}

Result<Secret> ReadOrMakeSecret(const std::string& path) {
  const Status made = os::CreateIfAbsent(os::SystemFileSystem(), path, Secret::Generate().ToHex() + "\n", "buffer", 0600);
  if (!made.ok() && made.code() != Code::kAlreadyExists) return made;
  return ReadSecret(path);
}

}  // namespace kedge::net

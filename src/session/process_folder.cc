#include "session/process_folder.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/random.h"
#include "os/files/files.h"
#include "os/machine/machine.h"
#include "os/process/process.h"

namespace kedge {
namespace {

// The number at the front of `text`, which loses it and the '-' behind it.
template <typename T>
bool TakeNumber(std::string_view* text, T* number) {
  const char* const end = text->data() + text->size();
  const auto taken = std::from_chars(text->data(), end, *number);
  if (taken.ec != std::errc() || taken.ptr == end || *taken.ptr != '-') return false;
  text->remove_prefix(static_cast<size_t>(taken.ptr + 1 - text->data()));
  return true;
}

// Certainly: in another namespace its pid means another process, or none (store/attempts.h).
bool OwnerIsGone(std::string_view name) {
  os::ProcessIdentity owner;
  uint64_t pid_namespace = 0;
  if (!TakeNumber(&name, &owner.process_id) || !TakeNumber(&name, &owner.start_ticks) || !TakeNumber(&name, &pid_namespace)) {
    return false;
  }
  return pid_namespace != 0 && pid_namespace == os::PidNamespace() && !os::IsAlive(owner);
}

}  // namespace

std::string RoutedFilesFolder(const std::string& place) {
  return os::JoinPath(place, "files");
}

std::string ProcessFolderName() {
  const os::ProcessIdentity self = os::OwnIdentity();
  return fmt::format("{}-{}-{}-{}", self.process_id, self.start_ticks, os::PidNamespace(),
                     Id128::Generate().ToHex().substr(0, 8));
}

void RemoveFoldersOfTheDead(os::FileSystem& file_system, const std::string& folder) {
  auto entries = file_system.List(folder);
  if (!entries.ok()) return;
  for (const os::FolderEntry& entry : *entries) {
    if (OwnerIsGone(entry.name)) (void)os::RemoveTree(file_system, os::JoinPath(folder, entry.name));
  }
  (void)file_system.Rmdir(folder);
}

}  // namespace kedge

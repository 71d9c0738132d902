// See launch_note.h. `kedge run` reads the files by a shell (python/kedge/run/notes.py).
#include "os/process/launch_note.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.h"
#include "os/files/files.h"
#include "os/files/private_files.h"

namespace kedge::os {
namespace {

constexpr size_t kLaunchBytesMax = 64;
constexpr std::string_view kRefusal = "refusal";
constexpr std::string_view kJobs = "jobs";

// Beside the run folders of nodes.
std::string NotesFolder() {
  return fmt::format("/dev/shm/kedge-{}", geteuid());
}

// Of this launch; empty: there is none.
std::string NotePath(std::string_view kind) {
  const char* launch = std::getenv("KEDGE_RUN_LAUNCH");
  const std::string name = launch == nullptr ? "" : launch;
  const bool is_name = !name.empty() && name.size() <= kLaunchBytesMax &&
                       std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '-'; });
  return is_name ? JoinPath(NotesFolder(), fmt::format("{}-{}", kind, name)) : "";
}

// This process has left the refusal; another rank's is not its to take back.
std::atomic<bool> has_refusal = false;

bool HasFolder() {
  return MakeFolders(PrivateFileSystem(), NotesFolder(), 0700, /*durable=*/false).ok();
}

}  // namespace

int LaunchedRanks() {
  const char* ranks = std::getenv("KEDGE_RUN_RANKS");
  return ranks == nullptr ? 0 : std::atoi(ranks);
}

void LeaveRefusal(const Status& why) {
  const std::string path = NotePath(kRefusal);
  if (path.empty() || !HasFolder()) return;
  const Json note{{"code", CodeName(why.code())}, {"why", why.message()}};
  has_refusal = ReplaceFile(PrivateFileSystem(), path, ToText(note), std::to_string(getpid())).ok();
}

void TakeBackRefusal() {
  if (has_refusal.exchange(false)) (void)UnlinkIfPresent(PrivateFileSystem(), NotePath(kRefusal));
}

void NoteJob(const std::string& job, uint32_t attempt) {
  const std::string path = NotePath(kJobs);
  if (path.empty() || !HasFolder()) return;
  const auto notes = OpenPrivateLog(path);
  const std::string line = ToText(Json{{"opened", job}, {"attempt", attempt}}) + '\n';
  // At once, beside the lines of other ranks.
  if (notes.ok()) (void)!write(notes->get(), line.data(), line.size());
}

}  // namespace kedge::os

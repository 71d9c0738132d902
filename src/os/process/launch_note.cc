// See launch_note.h. `kedge run` reads the files by a shell (python/kedge/run/notes.py).
#include "os/process/launch_note.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
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
constexpr std::string_view kLaunchVariable = "KEDGE_RUN_LAUNCH=";
constexpr size_t kEnvironmentBytesMax = 8 << 20;

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

// Of all processes whose environment this one may read.
std::set<std::string> LiveLaunches(const std::vector<FolderEntry>& processes) {
  std::set<std::string> launches;
  for (const FolderEntry& process : processes) {
    if (process.name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto environment = ReadFile(SystemFileSystem(), fmt::format("/proc/{}/environ", process.name), kEnvironmentBytesMax);
    if (!environment.ok()) continue;  // another user's, or gone
    for (std::string_view left = *environment; !left.empty();) {
      const std::string_view variable = left.substr(0, left.find('\0'));
      if (variable.starts_with(kLaunchVariable)) launches.emplace(variable.substr(kLaunchVariable.size()));
      left.remove_prefix(std::min(left.size(), variable.size() + 1));
    }
  }
  return launches;
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

std::vector<std::string> NotesNobodyReads() {
  // The notes first: a launch that begins meanwhile has none among them.
  const auto entries = PrivateFileSystem().List(NotesFolder());
  const auto processes = SystemFileSystem().List("/proc");
  if (!entries.ok() || !processes.ok()) return {};
  const std::set<std::string> live = LiveLaunches(*processes);
  std::vector<std::string> left;
  for (const FolderEntry& entry : *entries) {
    const size_t dash = entry.name.find('-');
    if (entry.kind != FileKind::kFile || dash == std::string::npos) continue;
    const std::string kind = entry.name.substr(0, dash);
    // Behind a dot stands who was about to read it.
    const std::string launch = entry.name.substr(dash + 1, entry.name.find('.') - dash - 1);
    if ((kind == kRefusal || kind == kJobs) && !live.contains(launch)) left.push_back(JoinPath(NotesFolder(), entry.name));
  }
  return left;
}

}  // namespace kedge::os

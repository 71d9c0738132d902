#include "tools/leftovers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/tables/record_file.h"
#include "agent/tables/run_folder.h"
#include "format/set_records.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/process/process.h"
#include "session/mailbox_file.h"
#include "session/messages.h"
#include "session/own_folder.h"
#include "store/still_there.h"
#include "store/versions.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

constexpr uint64_t kFileBytesMax = 256 << 20;
constexpr char kSetSuffix[] = ".set";

os::FileSystem& local_fs() {
  return os::PrivateFileSystem();
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  const auto entries = local_fs().List(folder);
  if (!entries.ok()) return names;
  for (const os::FolderEntry& entry : *entries) {
    if (!os::IsTemporaryName(entry.name)) names.push_back(entry.name);
  }
  return names;
}

uint64_t BytesIn(const std::string& path) {
  const auto info = local_fs().Stat(path);
  if (!info.ok()) return 0;
  if (info->kind != os::FileKind::kFolder) return info->allocated_bytes;
  uint64_t bytes = 0;
  const auto entries = local_fs().List(path);
  if (!entries.ok()) return 0;
  for (const os::FolderEntry& entry : *entries) bytes += BytesIn(os::JoinPath(path, entry.name));
  return bytes;
}

class Reader {
 public:
  Reader(std::string node, std::string run_folder) : node_(std::move(node)), run_folder_(std::move(run_folder)) {}

  Leftovers Read(const std::vector<std::string>& tiers) {
    for (const std::string& tier : tiers) AddFolder(OwnFolder(tier, node_));
    for (const std::string& name : NamesIn(Path("jobs"))) ReadJob(Path("jobs/" + name));
    for (const std::string& name : NamesIn(Path("records"))) ReadImage(Path("records/" + name));
    for (const std::string& name : NamesIn(Path("sets"))) ReadSet(name);
    for (const std::string& name : NamesIn(Path("sessions"))) {
      if (name.find('.') == std::string::npos) ReadMailbox(Path("sessions/" + name));
    }
    for (const char* name : kRunFolderEntries) left_.bytes += BytesIn(Path(name));
    for (const std::string& folder : left_.folders) left_.bytes += BytesIn(folder);
    return std::move(left_);
  }

 private:
  std::string Path(const std::string& name) const { return os::JoinPath(run_folder_, name); }

  // Only this user's and node's own: whatever else a record names is not ours to remove.
  void AddFolder(const std::string& folder) {
    const bool is_own = folder == OwnFolder(os::ParentPath(folder), node_);
    const bool is_new = std::find(left_.folders.begin(), left_.folders.end(), folder) == left_.folders.end();
    if (is_own && is_new && local_fs().Stat(folder).ok()) left_.folders.push_back(folder);
  }

  // A tier's key is its path: a folder, or the pool file in one.
  void AddTier(const std::string& key) { AddFolder(key.ends_with("/pool") ? os::ParentPath(key) : key); }

  LeftVersion& VersionOf(const Generation& generation) {
    left_.jobs.insert(generation.job);
    return left_.versions[generation];
  }

  // Its hello stands first (agent/door/sessions_recovery.cc).
  void ReadJob(const std::string& path) {
    const auto bytes = os::ReadFile(local_fs(), path, kFileBytesMax);
    if (!bytes.ok()) return;
    Decoder decoder(AsBytes(*bytes));
    const auto hello = DecodeHello(decoder.Raw(decoder.VarintAtMost(bytes->size())));
    if (!hello.ok()) return;
    left_.jobs.insert(hello->job);
    stores_[{hello->store_id, hello->job}] = hello->keys.store_path;
    if (!hello->keys.scratch.empty()) AddFolder(OwnFolder(hello->keys.scratch, node_));
  }

  void ReadImage(const std::string& path) {
    const auto file = ReadImageFile(path);
    if (!file.ok()) return left_.unread.push_back(file.status().message());
    for (const std::string& tier : file->local.table.tiers) AddTier(tier);
    if (file->passing) return;  // part of it was only in its agent's hands
    LeftVersion& version = VersionOf(file->local.table.identity.generation);
    version.store = file->local.store;
    version.was_stored = version.was_stored || file->stored || file->in_store;
  }

  // What other nodes may need to bring back an image of theirs.
  void ReadSet(const std::string& name) {
    const auto bytes = os::ReadFile(local_fs(), Path("sets/" + name), kFileBytesMax);
    if (!bytes.ok()) return left_.unread.push_back(bytes.status().message());
    if (!name.ends_with(kSetSuffix)) {
      const auto parity = DecodeParityRecord(AsBytes(*bytes));
      if (!parity.ok()) return;
      for (const std::string& tier : parity->tiers) AddTier(tier);
      return;
    }
    const auto set = DecodeSetRecord(AsBytes(*bytes));
    if (!set.ok()) return left_.unread.push_back(set.status().message());
    const Generation& generation = set->identity.generation;
    if (left_.versions.contains(generation)) return;
    LeftVersion& version = VersionOf(generation);
    version.store = stores_[{generation.store_id, generation.job}];
    version.was_stored = true;  // it is of use until a later version is safe, stored or not
  }

  void ReadMailbox(const std::string& path) {
    const auto mapping = OpenMailbox(path, 0);
    if (!mapping.ok()) return left_.unread.push_back(mapping.status().message());
    const Mailbox& mailbox = *MailboxOf(*mapping);
    if (os::IsAlive({mailbox.owner_pid, mailbox.owner_start_time})) {
      left_.owners.push_back(fmt::format("process {}", mailbox.owner_pid));
    }
    const auto& ring = mailbox.from_client;
    const uint64_t produced = ring.produced.load(std::memory_order_acquire);
    const uint64_t consumed = ring.consumed.load(std::memory_order_acquire);
    if (produced - consumed > kClientRingEntries) return;  // a broken session's: its agent would not read it either
    for (uint64_t entry = consumed; entry != produced; ++entry) {
      if (ring.entries[entry % kClientRingEntries].kind() != ClientMessageKind::kImageEnd) continue;
      left_.unread.push_back(fmt::format("an image of process {}, which no agent has taken", mailbox.owner_pid));
    }
  }

  const std::string node_;
  const std::string run_folder_;
  Leftovers left_;
  std::map<std::pair<StoreId, std::string>, std::string> stores_;
};

// Why it is not known to be in its store; empty: it is, or the store has let go of it.
std::string WhyOnlyHere(const Generation& generation, const LeftVersion& version) {
  if (version.store.empty()) return "its store is not known";
  const Result<OpenedStore> opened = OpenStoreAt(version.store);
  if (!opened.ok()) return opened.status().message();
  if (opened->catalog.id() != generation.store_id) return "another store lies at " + version.store;
  const Result<VersionInfo> info = InspectGeneration(opened->catalog, generation);
  if (info.ok() && (info->complete || info->removed)) return {};
  if (!info.ok() && info.status().code() != Code::kNotFound) return info.status().message();
  if (!version.was_stored) return "it is not in " + version.store;
  // Retention may have removed it since.
  const auto missing = FindMissing(opened->catalog, {{generation, true, {}}});
  if (!missing.ok()) return missing.status().message();
  return missing->empty() ? std::string() : "it is not in " + version.store + " any more";
}

}  // namespace

Result<Leftovers> ReadLeftovers(const std::string& node, const std::string& run_folder, const std::vector<std::string>& tiers) {
  KEDGE_RETURN_IF_ERROR(local_fs().List(run_folder).status());
  return Reader(node, run_folder).Read(tiers);
}

std::map<Generation, std::string> OnlyHere(const Leftovers& left) {
  std::map<Generation, std::string> only;
  for (const auto& [generation, version] : left.versions) {
    std::string why = WhyOnlyHere(generation, version);
    if (!why.empty()) only.emplace(generation, std::move(why));
  }
  return only;
}

Status RemoveLeftovers(const std::string& run_folder, const Leftovers& left) {
  for (const std::string& folder : left.folders) KEDGE_RETURN_IF_ERROR(os::RemoveTree(local_fs(), folder));
  for (const char* name : kRunFolderEntries) KEDGE_RETURN_IF_ERROR(os::RemoveTree(local_fs(), os::JoinPath(run_folder, name)));
  return Status::Ok();
}

}  // namespace kedge::tools

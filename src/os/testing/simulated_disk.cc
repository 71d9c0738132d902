#include "os/testing/simulated_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kedge::os::testing {
namespace {

constexpr size_t kNameBytesMax = 255;

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + SimulatedDisk::kBlockBytes - 1) / SimulatedDisk::kBlockBytes * SimulatedDisk::kBlockBytes;
}

std::string_view NextPart(std::string_view& path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  const std::string_view part = path.substr(0, path.find('/'));
  path.remove_prefix(part.size());
  return part;
}

// How many of `count` unsynced changes a place on the disk has seen: often none or all, sometimes a moment in between.
size_t SurvivingPrefix(size_t count, Random& random) {
  const uint64_t choice = random.Below(5);
  if (choice < 2) return 0;
  if (choice < 4) return count;
  return static_cast<size_t>(random.Below(count + 1));
}

void CopyRange(std::string& to, const std::string& from, uint64_t begin, uint64_t end) {
  end = std::min<uint64_t>({end, to.size(), from.size()});
  if (begin < end) std::memcpy(to.data() + begin, from.data() + begin, end - begin);
}

}  // namespace

SimulatedDisk::SimulatedDisk(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  Node& root = nodes_[kRootNode];
  root.kind = FileKind::kFolder;
  root.mode = 0755;
  root.links = 1;
}

int SimulatedDisk::Resolve(std::string_view path, NodeId* found) const {
  NodeId id = kRootNode;
  for (std::string_view part = NextPart(path); !part.empty(); part = NextPart(path)) {
    if (part == ".") continue;
    if (part == "..") return EINVAL;
    const Node& folder = nodes_.at(id);
    if (folder.kind != FileKind::kFolder) return ENOTDIR;
    const auto entry = folder.entries.find(part);
    if (entry == folder.entries.end()) return part.size() > kNameBytesMax ? ENAMETOOLONG : ENOENT;
    id = entry->second;
  }
  *found = id;
  return 0;
}

int SimulatedDisk::ResolveParent(std::string_view path, NodeId* folder, std::string* name) const {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  *name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  if (name->empty() || *name == "." || *name == "..") return EINVAL;
  if (const int error = Resolve(path.substr(0, slash == std::string_view::npos ? 0 : slash), folder)) return error;
  return nodes_.at(*folder).kind == FileKind::kFolder ? 0 : ENOTDIR;
}

int SimulatedDisk::CheckName(const std::string& name) const {
  return name.size() > kNameBytesMax ? ENAMETOOLONG : 0;
}

uint64_t SimulatedDisk::AllocatedBytes(const Node& node) const {
  return node.kind == FileKind::kFile ? std::max(RoundUp(node.content.size()), RoundUp(node.reserved_bytes)) : 0;
}

void SimulatedDisk::Record(FolderChange change) {
  folder_changes_.push_back(std::move(change));
}

int SimulatedDisk::Create(NodeId folder, const std::string& name, FileKind kind, uint32_t mode, NodeId* created) {
  if (const int error = CheckName(name)) return error;
  if (node(folder).entries.count(name) != 0) return EEXIST;
  if (node(folder).links == 0) return ENOENT;  // a removed folder that is still open
  const NodeId id = next_id_++;
  Node& fresh = nodes_[id];
  fresh.kind = kind;
  fresh.mode = mode;
  fresh.links = 1;
  fresh.modified_ns = Tick();
  node(folder).entries.emplace(name, id);
  Record({0, {}, folder, name, id});
  *created = id;
  return 0;
}

int SimulatedDisk::Link(NodeId target, NodeId folder, const std::string& name) {
  if (const int error = CheckName(name)) return error;
  if (node(target).kind == FileKind::kFolder) return EPERM;
  if (!node(folder).entries.emplace(name, target).second) return EEXIST;
  ++node(target).links;
  Record({0, {}, folder, name, target});
  return 0;
}

void SimulatedDisk::Unreferenced(NodeId id) {
  Node& gone = node(id);
  if (gone.links == 0 && gone.opens == 0) used_bytes_ -= AllocatedBytes(gone);
}

void SimulatedDisk::Closed(NodeId id) {
  --node(id).opens;
  Unreferenced(id);
}

int SimulatedDisk::Unlink(NodeId folder, const std::string& name) {
  const auto entry = node(folder).entries.find(name);
  if (entry == node(folder).entries.end()) return ENOENT;
  const NodeId id = entry->second;
  if (node(id).kind == FileKind::kFolder) return EISDIR;
  node(folder).entries.erase(entry);
  --node(id).links;
  Unreferenced(id);
  Record({folder, name, 0, {}, id});
  return 0;
}

int SimulatedDisk::Rmdir(NodeId folder, const std::string& name) {
  const auto entry = node(folder).entries.find(name);
  if (entry == node(folder).entries.end()) return ENOENT;
  const NodeId id = entry->second;
  if (node(id).kind != FileKind::kFolder) return ENOTDIR;
  if (!node(id).entries.empty()) return ENOTEMPTY;
  node(folder).entries.erase(entry);
  --node(id).links;
  Record({folder, name, 0, {}, id});
  return 0;
}

bool SimulatedDisk::IsBelow(NodeId folder, NodeId id) const {
  if (folder == id) return true;
  const Node& top = nodes_.at(folder);
  return std::any_of(top.entries.begin(), top.entries.end(), [&](const auto& entry) { return IsBelow(entry.second, id); });
}

int SimulatedDisk::Rename(NodeId from_folder, const std::string& from, NodeId to_folder, const std::string& to) {
  if (const int error = CheckName(to)) return error;
  const auto source = node(from_folder).entries.find(from);
  if (source == node(from_folder).entries.end()) return ENOENT;
  const NodeId id = source->second;
  const bool is_folder = node(id).kind == FileKind::kFolder;
  if (is_folder && IsBelow(id, to_folder)) return EINVAL;
  const auto target = node(to_folder).entries.find(to);
  if (target != node(to_folder).entries.end()) {
    if (target->second == id) return 0;  // two names of one file: POSIX leaves both
    Node& replaced = node(target->second);
    if (is_folder && replaced.kind != FileKind::kFolder) return ENOTDIR;
    if (!is_folder && replaced.kind == FileKind::kFolder) return EISDIR;
    if (!replaced.entries.empty()) return ENOTEMPTY;
    --replaced.links;
    Unreferenced(target->second);
  }
  node(from_folder).entries.erase(from);
  node(to_folder).entries.insert_or_assign(to, id);
  Record({from_folder, from, to_folder, to, id});
  return 0;
}

int SimulatedDisk::Write(NodeId id, uint64_t offset, std::string_view data, size_t* written) {
  Node& file = node(id);
  if (offset > kFileBytesMax || data.size() > kFileBytesMax - offset) return EFBIG;
  const uint64_t before_bytes = AllocatedBytes(file);
  const uint64_t room_bytes = before_bytes + (capacity_bytes_ - std::min(capacity_bytes_, used_bytes_));
  if (offset + data.size() > room_bytes) {
    if (offset >= room_bytes) return ENOSPC;
    data = data.substr(0, room_bytes - offset);
  }
  *written = data.size();
  if (data.empty()) return 0;
  const uint64_t end = offset + data.size();
  // The hole between the old end and the offset is zeros, and needs no writing to be so.
  if (file.content.size() < end) file.content.resize(end, '\0');
  std::memcpy(file.content.data() + offset, data.data(), data.size());
  for (uint64_t block = offset / kBlockBytes; block <= (end - 1) / kBlockBytes; ++block) file.dirty_blocks.insert(block);
  file.changes.push_back({offset, std::string(data), file.content.size()});
  file.modified_ns = Tick();
  used_bytes_ += AllocatedBytes(file) - before_bytes;
  return 0;
}

size_t SimulatedDisk::Read(NodeId id, uint64_t offset, char* buffer, size_t bytes) const {
  const std::string& content = nodes_.at(id).content;
  if (offset >= content.size()) return 0;
  bytes = std::min<uint64_t>(bytes, content.size() - offset);
  std::memcpy(buffer, content.data() + offset, bytes);
  return bytes;
}

int SimulatedDisk::Resize(NodeId id, uint64_t size_bytes) {
  Node& file = node(id);
  if (size_bytes > kFileBytesMax) return EFBIG;
  if (size_bytes == file.content.size()) return 0;
  const uint64_t before_bytes = AllocatedBytes(file);
  if (size_bytes < file.content.size()) file.reserved_bytes = std::min(file.reserved_bytes, size_bytes);
  file.content.resize(size_bytes, '\0');
  file.changes.push_back({0, {}, size_bytes});
  file.modified_ns = Tick();
  used_bytes_ += AllocatedBytes(file);  // first up, then down: unsigned
  used_bytes_ -= before_bytes;
  return 0;
}

int SimulatedDisk::Reserve(NodeId id, uint64_t end_bytes, bool keep_size) {
  Node& file = node(id);
  if (end_bytes > kFileBytesMax) return EFBIG;
  const uint64_t before_bytes = AllocatedBytes(file);
  const uint64_t more_bytes = std::max(RoundUp(end_bytes), before_bytes) - before_bytes;
  if (used_bytes_ + more_bytes > capacity_bytes_) return ENOSPC;
  file.reserved_bytes = std::max(file.reserved_bytes, end_bytes);
  used_bytes_ += more_bytes;
  return keep_size || end_bytes <= file.content.size() ? 0 : Resize(id, end_bytes);
}

void SimulatedDisk::SyncFile(Node& file) {
  const bool shrank =
      std::any_of(file.changes.begin(), file.changes.end(), [](const Node::Change& change) { return change.data.empty(); });
  if (shrank) {
    // A file cut and grown again has zeros where the disk has old bytes.
    uint64_t least = file.durable.size();
    for (const Node::Change& change : file.changes) least = std::min<uint64_t>(least, change.size_after);
    file.durable.resize(least);
  }
  file.durable.resize(file.content.size(), '\0');
  for (const uint64_t block : file.dirty_blocks)
    CopyRange(file.durable, file.content, block * kBlockBytes, (block + 1) * kBlockBytes);
  file.dirty_blocks.clear();
  file.changes.clear();
}

void SimulatedDisk::MakeDurable(const FolderChange& change) {
  if (change.from_folder != 0) node(change.from_folder).durable_entries.erase(change.from);
  if (change.to_folder != 0) node(change.to_folder).durable_entries.insert_or_assign(change.to, change.target);
}

// All changes that touch the folder, and the earlier ones on which these build (same name in another folder).
void SimulatedDisk::SyncFolder(NodeId id) {
  std::vector<bool> chosen(folder_changes_.size(), false);
  std::set<std::pair<NodeId, std::string>> needed;
  for (size_t i = folder_changes_.size(); i-- > 0;) {
    const FolderChange& change = folder_changes_[i];
    const std::pair<NodeId, std::string> from(change.from_folder, change.from);
    const std::pair<NodeId, std::string> to(change.to_folder, change.to);
    chosen[i] = change.Touches(id) || needed.count(from) != 0 || needed.count(to) != 0;
    if (!chosen[i]) continue;
    if (change.from_folder != 0) needed.insert(from);
    if (change.to_folder != 0) needed.insert(to);
  }
  std::vector<FolderChange> rest;
  for (size_t i = 0; i < folder_changes_.size(); ++i) {
    if (chosen[i]) {
      MakeDurable(folder_changes_[i]);
    } else {
      rest.push_back(std::move(folder_changes_[i]));
    }
  }
  folder_changes_ = std::move(rest);
  CollectGarbage();
}

void SimulatedDisk::Sync(NodeId id) {
  if (node(id).kind == FileKind::kFolder) {
    SyncFolder(id);
  } else {
    SyncFile(node(id));
  }
}

void SimulatedDisk::FailSync(NodeId id, Random& random) {
  Node& file = node(id);
  if (file.kind == FileKind::kFolder) return;  // the changes stay pending: a crash may still lose them
  // The size is metadata, and goes with the journal whatever happens to the pages.
  if (random.Chance(0.5)) file.durable.resize(file.content.size(), '\0');
  std::set<uint64_t> lost;
  for (const uint64_t block : file.dirty_blocks) {
    if (random.Chance(1.0 / 3)) {
      CopyRange(file.durable, file.content, block * kBlockBytes, (block + 1) * kBlockBytes);
    } else {
      lost.insert(block);
    }
  }
  file.dirty_blocks.clear();
  file.changes.clear();
  if (!random.Chance(0.5)) return;
  // The clean pages were evicted: reading shows what the disk has.
  for (const uint64_t block : lost) {
    const uint64_t begin = std::min<uint64_t>(block * kBlockBytes, file.content.size());
    const uint64_t end = std::min<uint64_t>(begin + kBlockBytes, file.content.size());
    std::memset(file.content.data() + begin, 0, end - begin);
    CopyRange(file.content, file.durable, begin, end);
  }
}

// What one file has on the disk after the power went: see the rules at the top of the header.
std::string SimulatedDisk::SurvivingContent(const Node& file, uint64_t granule_bytes, Random& random) const {
  const size_t count = file.changes.size();
  const size_t size_changes = SurvivingPrefix(count, random);
  uint64_t least = file.durable.size();
  for (size_t i = 0; i < size_changes; ++i) {
    if (file.changes[i].data.empty()) least = std::min<uint64_t>(least, file.changes[i].size_after);
  }
  std::string survived(size_changes == 0 ? file.durable.size() : file.changes[size_changes - 1].size_after, '\0');
  CopyRange(survived, file.durable, 0, least);
  for (const uint64_t block : file.dirty_blocks) {
    for (uint64_t begin = block * kBlockBytes; begin < (block + 1) * kBlockBytes; begin += granule_bytes) {
      const uint64_t end = begin + granule_bytes;
      const size_t seen = SurvivingPrefix(count, random);
      if (seen == count) {
        CopyRange(survived, file.content, begin, end);
        continue;
      }
      for (size_t i = 0; i < seen; ++i) {
        const Node::Change& change = file.changes[i];
        const uint64_t from = std::max(begin, change.offset);
        const uint64_t to = std::min<uint64_t>({end, change.offset + change.data.size(), survived.size()});
        if (from < to) std::memcpy(survived.data() + from, change.data.data() + (from - change.offset), to - from);
      }
    }
  }
  return survived;
}

void SimulatedDisk::Crash(Random& random) {
  // Half of the time as a journal would do it, a prefix of what happened; otherwise any subset.
  if (random.Chance(0.5)) {
    const size_t kept = SurvivingPrefix(folder_changes_.size(), random);
    for (size_t i = 0; i < kept; ++i) MakeDurable(folder_changes_[i]);
  } else {
    for (const FolderChange& change : folder_changes_) {
      if (random.Chance(0.5)) MakeDurable(change);
    }
  }
  folder_changes_.clear();
  const uint64_t granule_bytes = random.Chance(0.5) ? 512 : kBlockBytes;
  for (auto& [id, node] : nodes_) {
    node.links = id == kRootNode ? 1 : 0;
    node.opens = 0;
    if (node.kind == FileKind::kFile && !(node.changes.empty() && node.dirty_blocks.empty())) {
      node.durable = SurvivingContent(node, granule_bytes, random);
    }
    node.content = node.durable;
    node.reserved_bytes = 0;
    node.dirty_blocks.clear();
    node.changes.clear();
    node.entries = node.durable_entries;
  }
  // Links and space are those of what can still be reached.
  collect_at_ = 0;
  CollectGarbage();
  used_bytes_ = 0;
  for (const auto& [id, node] : nodes_) {
    for (const auto& [name, target] : node.entries) ++nodes_.at(target).links;
    used_bytes_ += AllocatedBytes(node);
  }
}

void SimulatedDisk::CloseAll() {
  for (auto& [id, node] : nodes_) {
    if (node.opens == 0) continue;
    node.opens = 0;
    Unreferenced(id);
  }
}

// Forgets nodes that neither a program nor a crash can reach any more.
void SimulatedDisk::CollectGarbage() {
  if (nodes_.size() < collect_at_) return;
  std::set<NodeId> reached = {kRootNode};
  std::vector<NodeId> pending = {kRootNode};
  const auto reach = [&](NodeId id) {
    if (id != 0 && reached.insert(id).second) pending.push_back(id);
  };
  for (const FolderChange& change : folder_changes_) {
    reach(change.from_folder);
    reach(change.to_folder);
    reach(change.target);
  }
  for (const auto& [id, node] : nodes_) {
    if (node.opens > 0) reach(id);
  }
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    for (const auto& [name, target] : nodes_.at(id).entries) reach(target);
    for (const auto& [name, target] : nodes_.at(id).durable_entries) reach(target);
  }
  for (auto it = nodes_.begin(); it != nodes_.end();) it = reached.count(it->first) != 0 ? std::next(it) : nodes_.erase(it);
  collect_at_ = std::max<size_t>(256, 2 * nodes_.size());
}

}  // namespace kedge::os::testing

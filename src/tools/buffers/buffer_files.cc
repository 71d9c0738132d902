#include "tools/buffers/buffer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/byte_size.h"
#include "base/json.h"
#include "net/network.h"

namespace kedge::tools {
namespace {

using buffer::FileEntry;

uint64_t BytesOf(const std::vector<FileEntry>& entries) {
  return std::accumulate(entries.begin(), entries.end(), uint64_t{0},
                         [](uint64_t sum, const FileEntry& entry) { return sum + entry.bytes; });
}

std::string Summary(const std::vector<FileEntry>& entries) {
  return fmt::format("{}, {}", Counted(entries.size(), "file"), FormatByteSize(BytesOf(entries)));
}

Json ToJson(const std::vector<FileEntry>& entries) {
  Json files = Json::array();
  for (const FileEntry& entry : entries)
    files.push_back({{"path", entry.path}, {"bytes", entry.bytes}, {"modified_wall_time_ns", entry.modified_ns}});
  return files;
}

void PrintTable(const std::vector<FileEntry>& entries) {
  Table table({"PATH", "BYTES", "AGE"}, {false, true, true});
  for (const FileEntry& entry : entries) table.AddRow({entry.path, FormatByteSize(entry.bytes), FormatAge(entry.modified_ns)});
  std::fputs(table.Text().c_str(), stdout);
}

Status NothingThere(const buffer::FileName& name) {
  return Status(Code::kNotFound, fmt::format("burst buffer {} has no file {}", name.server, name.path));
}

}  // namespace

Result<std::shared_ptr<buffer::Client>> OpenBuffer(const ConfigOptions& config, const std::string& server) {
  KEDGE_ASSIGN_OR_RETURN(const Config loaded, config.Load());
  KEDGE_ASSIGN_OR_RETURN(const buffer::ClientOptions options, buffer::ReadClientOptions(loaded, server));
  net::SetFabricDefaults();
  return buffer::Client::Open(options);
}

Outcome ListBuffer(const ConfigOptions& config, const std::string& name, bool json) {
  KEDGE_ASSIGN_OR_RETURN(const buffer::FileName file, buffer::ParseFileName(name, true));
  KEDGE_ASSIGN_OR_RETURN(const auto client, OpenBuffer(config, file.server));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, client->List(file.path));
  KEDGE_ASSIGN_OR_RETURN(const buffer::Description description, client->Describe());
  if (entries.empty() && !file.path.empty()) return NothingThere(file);
  if (json) {
    PrintJson({{"server", file.server},
               {"files", ToJson(entries)},
               {"own_bytes", description.own_bytes},
               {"quota_bytes", description.quota_bytes},
               {"used_bytes", description.used_bytes},
               {"capacity_bytes", description.capacity_bytes},
               {"disk_free_bytes", description.free_bytes}});
    return kExitOk;
  }
  if (!entries.empty()) PrintTable(entries);
  const auto of = [](uint64_t limit) { return limit == 0 ? std::string() : " of " + FormatByteSize(limit); };
  std::printf("%s; %s%s are yours, %s%s are used, the disk has %s free\n", Summary(entries).c_str(),
              FormatByteSize(description.own_bytes).c_str(), of(description.quota_bytes).c_str(),
              FormatByteSize(description.used_bytes).c_str(), of(description.capacity_bytes).c_str(),
              FormatByteSize(description.free_bytes).c_str());
  return kExitOk;
}

Outcome RemoveFromBuffer(const ConfigOptions& config, const BufferRemoval& removal) {
  KEDGE_ASSIGN_OR_RETURN(const buffer::FileName file, buffer::ParseFileName(removal.name, true));
  KEDGE_ASSIGN_OR_RETURN(const auto client, OpenBuffer(config, file.server));
  KEDGE_ASSIGN_OR_RETURN(std::vector<FileEntry> entries, client->List(file.path));
  const bool is_folder = file.path.empty() || file.path.back() == '/';
  if (!is_folder) std::erase_if(entries, [&](const FileEntry& entry) { return entry.path != file.path; });
  if (entries.empty()) return NothingThere(file);
  if (!removal.json && (removal.dry_run || !removal.yes)) PrintTable(entries);
  if (removal.dry_run) {
    if (!removal.json) std::printf("%s; nothing was changed: --dry-run\n", Summary(entries).c_str());
  } else if (!removal.yes) {
    KEDGE_ASSIGN_OR_RETURN(const bool is_meant, ConfirmRemoval(Summary(entries) + " of " + file.server));
    if (!is_meant) {
      std::fprintf(stderr, "kedge: nothing was removed\n");
      return kExitBad;
    }
  }
  if (!removal.dry_run) {
    for (const FileEntry& entry : entries) {
      const Status removed = client->Remove(entry.path);
      if (!removed.ok() && removed.code() != Code::kNotFound) return removed;  // by somebody else
    }
  }
  if (removal.json) {
    PrintJson({{"server", file.server}, {"removed", !removal.dry_run}, {"files", ToJson(entries)}});
  } else if (!removal.dry_run) {
    std::printf("removed %s\n", Summary(entries).c_str());
  }
  return kExitOk;
}

}  // namespace kedge::tools

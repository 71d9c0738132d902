// kedge-cp (`kedge cp`): files between this machine and burst buffers.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/json.h"
#include "buffer/client.h"
#include "buffer/secret.h"
#include "kedge/kedge.h"
#include "os/files/files.h"
#include "os/process/process.h"
#include "os/process/terminal.h"

namespace kedge::buffer {
namespace {

constexpr char kUsage[] =
    R"(usage: kedge cp [OPTION]... FROM TO

Copies a file to a burst buffer or from one. One of FROM and TO is bb://SERVER/PATH, the other a file of this machine.
The file appears under its name when all of it is there and verified; a former one stays until then.

  --folder FOLDER  where servers say where they are
  --owner NAME     in whose name
  --secret FILE    the file with the owner's secret, of mode 0600
  --sync           return only when the copy is durable
  --json           print JSON
  --help, --version

Exit: 0 all is well; 1 no such file, or a damaged one; 2 the call was wrong; 3 something could not be reached, read or
written; 4 a wait ended.
Example:
  kedge cp --folder /shared/buffers --owner alice --secret alice.secret result.h5 bb://fast/run7/result.h5
)";

constexpr size_t kPortionBytes = size_t{32} << 20;
constexpr std::string_view kScheme = "bb://";

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return 0;
    case Code::kInvalidArgument: return 2;
    case Code::kUnavailable:
    case Code::kPermission:
    case Code::kIo:
    case Code::kNoSpace: return 3;
    case Code::kTimeout: return 4;
    default: return 1;
  }
}

struct CopyOptions {
  ClientOptions client;
  std::string secret;
  std::vector<std::string> names;
  bool sync = false;
  bool json = false;
};

// "bb://SERVER/PATH" without the scheme.
Result<std::pair<std::string, std::string>> ServerAndPath(const std::string& name) {
  const std::string rest = name.substr(kScheme.size());
  const size_t slash = rest.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == rest.size())
    return Status(Code::kInvalidArgument, fmt::format("{} is not bb://SERVER/PATH", name));
  return std::pair(rest.substr(0, slash), rest.substr(slash + 1));
}

class Progress {
 public:
  Progress(std::string what, uint64_t total)
      : what_(std::move(what)), total_(total), shows_(os::IsTerminal(os::StandardStream::kError)) {}
  ~Progress() {
    if (shows_) std::fputs("\r\033[K", stderr);
  }
  void Add(uint64_t bytes) {
    done_ += bytes;
    if (shows_)
      std::fprintf(stderr, "\r\033[K%s: %s of %s", what_.c_str(), FormatByteSize(done_).c_str(), FormatByteSize(total_).c_str());
  }

 private:
  const std::string what_;
  const uint64_t total_;
  const bool shows_;
  uint64_t done_ = 0;
};

Result<uint64_t> Put(const CopyOptions& options, std::shared_ptr<Client> client, const std::string& from,
                     const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const auto file, os::SystemFileSystem().Open(from, os::OpenFlags::kRead));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, file->Fstat());
  KEDGE_ASSIGN_OR_RETURN(const auto upload, Upload::Open(std::move(client), path));
  Progress progress(from, info.size_bytes);
  std::vector<std::byte> portion(kPortionBytes);
  uint64_t done = 0;
  for (size_t bytes = portion.size(); bytes == portion.size(); done += bytes) {
    KEDGE_ASSIGN_OR_RETURN(bytes, os::ReadUpTo(*file, portion.data(), portion.size(), done));
    KEDGE_RETURN_IF_ERROR(upload->Write({portion.data(), bytes}));
    progress.Add(bytes);
  }
  KEDGE_RETURN_IF_ERROR(upload->Close(options.sync));
  return done;
}

Result<uint64_t> FillFile(Download& download, os::File& file, bool sync, Progress* progress) {
  std::vector<std::byte> portion(kPortionBytes);
  uint64_t done = 0;
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(const size_t bytes, download.Read(portion));
    if (bytes == 0) break;
    KEDGE_RETURN_IF_ERROR(os::WriteAll(file, portion.data(), bytes, done));
    progress->Add(bytes);
    done += bytes;
  }
  if (sync) KEDGE_RETURN_IF_ERROR(file.Fsync());
  KEDGE_RETURN_IF_ERROR(file.Close());
  return done;
}

Result<uint64_t> Get(const CopyOptions& options, std::shared_ptr<Client> client, const std::string& path, const std::string& to) {
  os::FileSystem& fs = os::SystemFileSystem();
  KEDGE_ASSIGN_OR_RETURN(const auto download, Download::Open(std::move(client), path));
  const std::string temporary = os::TemporaryPath(to, fmt::format("cp{}", os::OwnIdentity().process_id));
  KEDGE_ASSIGN_OR_RETURN(const auto file,
                         fs.Open(temporary, os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive, 0666));
  Progress progress(to, download->bytes());
  const auto done = FillFile(*download, *file, options.sync, &progress);
  const Status status = done.ok() ? fs.Rename(temporary, to) : done.status();
  if (!status.ok()) {
    (void)os::UnlinkIfPresent(fs, temporary);
    return status;
  }
  if (options.sync) KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs, os::ParentPath(to)));
  return done;
}

Status Copy(CopyOptions options) {
  if (options.names.size() != 2) return Status(Code::kInvalidArgument, "FROM and TO are needed; see --help");
  const bool puts = options.names[1].starts_with(kScheme);
  if (puts == options.names[0].starts_with(kScheme))
    return Status(Code::kInvalidArgument, "one of FROM and TO is bb://SERVER/PATH, the other a file of this machine");
  KEDGE_ASSIGN_OR_RETURN(const auto remote, ServerAndPath(options.names[puts ? 1 : 0]));
  if (options.client.folder.empty() || options.client.owner.empty() || options.secret.empty())
    return Status(Code::kInvalidArgument, "--folder, --owner and --secret are needed; see --help");
  options.client.server = remote.first;
  KEDGE_ASSIGN_OR_RETURN(options.client.secret, ReadSecret(options.secret));
  const auto begin = std::chrono::steady_clock::now();
  KEDGE_ASSIGN_OR_RETURN(std::shared_ptr<Client> client, Client::Open(options.client));
  KEDGE_ASSIGN_OR_RETURN(const uint64_t bytes, puts ? Put(options, client, options.names[0], remote.second)
                                                    : Get(options, client, remote.second, options.names[1]));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (options.json) {
    const Json json = {{"from", options.names[0]}, {"to", options.names[1]}, {"bytes", bytes}, {"seconds", seconds.count()}};
    std::printf("%s\n", ToText(json).c_str());
  } else {
    std::printf("copied %s to %s: %s\n", options.names[0].c_str(), options.names[1].c_str(), FormatByteSize(bytes).c_str());
  }
  return Status::Ok();
}

int Main(const std::vector<std::string>& words) {
  CopyOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    std::string* const value = word == "--folder"   ? &options.client.folder
                               : word == "--owner"  ? &options.client.owner
                               : word == "--secret" ? &options.secret
                                                    : nullptr;
    if (word == "--help" || word == "-h") return std::fputs(kUsage, stdout), 0;
    if (word == "--version") {
      std::printf("%d.%d.%d\n", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH);
      return 0;
    }
    if (word == "--sync") {
      options.sync = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (value != nullptr && i + 1 < words.size()) {
      *value = words[++i];
    } else if (value != nullptr || word.starts_with("--")) {
      std::fprintf(stderr, "kedge cp: %s needs a value, or is unknown; see --help\n", word.c_str());
      return 2;
    } else {
      options.names.push_back(word);
    }
  }
  net::SetFabricDefaults();
  const Status copied = Copy(std::move(options));
  if (!copied.ok()) std::fprintf(stderr, "kedge cp: %s\n", copied.message().c_str());
  return ExitCodeOf(copied);
}

}  // namespace
}  // namespace kedge::buffer

int main(int argc, char** argv) {
  return kedge::buffer::Main(std::vector<std::string>(argv + 1, argv + argc));
}

// kedge-buffer: the program of a burst buffer's server.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/log.h"
#include "buffer/buffer_server.h"
#include "kedge/kedge.h"
#include "net/secret_file.h"
#include "os/events/event_fd.h"
#include "os/files/files.h"
#include "os/process/signals.h"
#include "os/sockets/text_server.h"

namespace kedge::buffer {
namespace {

constexpr char kUsage[] =
    R"(usage: kedge-buffer --name NAME --path FOLDER (--folder FOLDER | --store STORE)
                    --owner NAME:SECRET[:QUOTA]... [OPTION]...

Serves files on this node's fast storage to programs on other nodes: a burst buffer.

  --name NAME          by which clients find it
  --path FOLDER        where the files are kept; of this user alone, made when it is not there
  --folder FOLDER      a folder that clients see, too: the server says in NAME.buffer where it is
  --store STORE        a store in a folder that clients have, too: the server says in STORE/buffers where it is, and clients
                       without buffer.folder look there; may be given several times, with and without --folder
  --owner NAME:SECRET[:QUOTA]
                       one who may have files here, the file with the secret (64 hexadecimal digits, mode 0600; made when
                       it is not there), and how many bytes its files may take, for example alice:/etc/kedge/alice:2TiB
  --capacity SIZE      how many bytes all files may take; without it what the disk has
  --memory SIZE        for bytes on their way, at least 16MiB (256MiB)
  --writers COUNT      files are read and written by so many threads (8)
  --drain OWNER:PLACE  the owner's stores may be drained to PLACE, a folder or s3://BUCKET[/PREFIX], and below it;
                       their clients say to where
  --drains COUNT       so many stores are drained at a time, with 16MiB of memory each (2)
  --partner-patience TIME
                       how long a version that a partner has too is left to that one's drain (1min)
  --provider NAME      libfabric's provider: tcp, verbs, cxi, efa, ... (tcp)
  --interface ADDRESS  host name or address to be reached at; without it the provider's first
  --version, --help

FOLDER/status.sock of --path answers whoever asks, as HTTP, with the server's state as JSON:
  curl --unix-socket FOLDER/status.sock http://kedge/
Signals: SIGTERM and SIGINT end it; what is being written then is removed.
Exit: 0 after a signal; 1 on an error.
)";

int Fail(const std::string& why) {
  std::fprintf(stderr, "kedge-buffer: %s\n", why.c_str());
  return 1;
}

Result<OwnerOptions> ParseOwner(const std::string& text) {
  const size_t first = text.find(':');
  const size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (first == std::string::npos) return Status(Code::kInvalidArgument, "--owner needs NAME:SECRET[:QUOTA]");
  OwnerOptions owner;
  owner.name = text.substr(0, first);
  KEDGE_ASSIGN_OR_RETURN(owner.secret, net::ReadOrMakeSecret(text.substr(first + 1, second - first - 1)));
  if (second != std::string::npos) {
    KEDGE_ASSIGN_OR_RETURN(owner.quota_bytes, ParseByteSize(text.substr(second + 1)));
  }
  return owner;
}

Result<uint32_t> ParseCount(const std::string& text) {
  uint32_t count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || count == 0 || count > 1024)
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" is no count from 1 to 1024", text));
  return count;
}

Status ParseOption(const std::string& word, const std::string& value, ServerOptions* options) {
  if (word == "--name") {
    options->name = value;
  } else if (word == "--path") {
    options->path = os::AbsolutePath(value);
  } else if (word == "--folder") {
    options->folder = os::AbsolutePath(value);
  } else if (word == "--store") {
    if (value.find("://") != std::string::npos) return Status(Code::kInvalidArgument, "--store needs a store in a folder");
    options->stores.push_back(os::AbsolutePath(value));
  } else if (word == "--owner") {
    KEDGE_ASSIGN_OR_RETURN(OwnerOptions owner, ParseOwner(value));
    options->owners.push_back(std::move(owner));
  } else if (word == "--capacity") {
    KEDGE_ASSIGN_OR_RETURN(options->capacity_bytes, ParseByteSize(value));
  } else if (word == "--memory") {
    KEDGE_ASSIGN_OR_RETURN(options->memory_bytes, ParseByteSize(value));
  } else if (word == "--writers") {
    KEDGE_ASSIGN_OR_RETURN(options->writers, ParseCount(value));
  } else if (word == "--drain") {
    const size_t colon = value.find(':');
    if (colon == std::string::npos) return Status(Code::kInvalidArgument, "--drain needs OWNER:PLACE");
    options->drains.push_back({value.substr(0, colon), value.substr(colon + 1)});
  } else if (word == "--drains") {
    KEDGE_ASSIGN_OR_RETURN(options->drain_threads, ParseCount(value));
  } else if (word == "--partner-patience") {
    KEDGE_ASSIGN_OR_RETURN(options->partner_patience, ParseDuration(value));
  } else if (word == "--provider") {
    options->provider = value;
  } else if (word == "--interface") {
    options->interface_address = value;
  } else {
    return Status(Code::kInvalidArgument, fmt::format("unknown argument \"{}\"; see --help", word));
  }
  return Status::Ok();
}

int Serve(ServerOptions options) {
  net::SetFabricDefaults();
  const std::string path = options.path;
  auto loop = os::EventLoop::Create();
  if (!loop.ok()) return Fail(loop.status().ToString());
  auto stop = os::EventFd::Create();
  if (!stop.ok()) return Fail(stop.status().ToString());
  static os::EventFd* stopping = nullptr;
  stopping = &*stop;
  const auto watch =
      (*loop)->Watch(stop->descriptor(), os::EventLoop::Interest::kRead, [&loop](os::Readiness) { (*loop)->Stop(); });
  if (!watch.ok()) return Fail(watch.status().ToString());
  os::OnTerminationSignals([] { stopping->Signal(); });
  auto server = BufferServer::Start(std::move(options), **loop);
  if (!server.ok()) return Fail(server.status().ToString());
  os::TextServer status(**loop, [&server] { return ToText((*server)->Describe(), 2) + "\n"; });
  const Status listening = status.ListenUnix(path + "/status.sock");
  if (!listening.ok()) LogWarning("buffer", "nobody can ask for the state: {}", listening.ToString());
  LogInfo("buffer", "serves {} at {}", path, (*server)->address().ToDisplay());
  const Status ran = (*loop)->Run();
  os::OnTerminationSignals(nullptr);
  (*loop)->Unwatch(*watch);
  server->reset();
  if (!ran.ok()) return Fail(ran.ToString());
  LogInfo("buffer", "leaves");
  return 0;
}

int Main(const std::vector<std::string>& words) {
  ServerOptions options;
  SetDefaultLogLevel(LogLevel::kInfo);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") return std::fputs(kUsage, stdout), 0;
    if (words[i] == "--version") {
      std::printf("kedge-buffer %d.%d.%d\n", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH);
      return 0;
    }
    if (i + 1 == words.size()) return Fail(fmt::format("{} needs a value, or is unknown; see --help", words[i]));
    const Status parsed = ParseOption(words[i], words[i + 1], &options);
    if (!parsed.ok()) return Fail(parsed.message());
    ++i;
  }
  if (options.name.empty() || options.path.empty() || options.owners.empty() ||
      (options.folder.empty() && options.stores.empty()))
    return Fail("--name, --path, --folder or --store, and --owner are needed; see --help");
  return Serve(std::move(options));
}

}  // namespace
}  // namespace kedge::buffer

int main(int argc, char** argv) {
  return kedge::buffer::Main(std::vector<std::string>(argv + 1, argv + argc));
}

// kedge cp: files between this machine and burst buffers.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_size.h"
#include "base/json.h"
#include "os/files/files.h"
#include "os/process/process.h"
#include "os/process/thread.h"
#include "tools/buffers/buffer_files.h"

namespace kedge::tools {
namespace {

constexpr size_t kPortionBytes = size_t{8} << 20;

struct CpOptions {
  ConfigOptions config;
  std::string folder;
  std::string owner;
  std::string secret;
  std::string from;
  std::string to;
  bool sync = false;
  bool json = false;
};

Result<uint64_t> Put(std::shared_ptr<buffer::Client> client, const std::string& from, const std::string& path, bool sync) {
  KEDGE_ASSIGN_OR_RETURN(const auto file, os::SystemFileSystem().Open(from, os::OpenFlags::kRead));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, file->Fstat());
  KEDGE_ASSIGN_OR_RETURN(const auto upload, buffer::Upload::Open(std::move(client), path));
  ProgressLine progress(from);
  uint64_t done = 0;
  for (size_t bytes = 1; bytes > 0; done += bytes) {
    KEDGE_ASSIGN_OR_RETURN(const std::span<std::byte> room, upload->Room());
    KEDGE_ASSIGN_OR_RETURN(bytes, os::ReadUpTo(*file, room.data(), room.size(), done));
    KEDGE_RETURN_IF_ERROR(upload->Fill(bytes));
    progress.Update(done + bytes, info.size_bytes);
  }
  KEDGE_RETURN_IF_ERROR(upload->Close(sync));
  return done;
}

// Writes a portion while the next one is read.
class PortionWriter {
 public:
  explicit PortionWriter(os::File& file) : file_(file) {}
  ~PortionWriter() { (void)Wait(); }
  PortionWriter(const PortionWriter&) = delete;
  PortionWriter& operator=(const PortionWriter&) = delete;

  // Until the next call nobody else touches `portion`.
  Status Write(std::span<const std::byte> portion) {
    KEDGE_RETURN_IF_ERROR(Wait());
    KEDGE_ASSIGN_OR_RETURN(thread_, os::StartThread("kedge-cp", [this, portion, at = bytes_] {
                             status_ = os::WriteAll(file_, portion.data(), portion.size(), at);
                           }));
    bytes_ += portion.size();
    return Status::Ok();
  }
  Status Wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  os::File& file_;
  std::thread thread_;
  Status status_;
  uint64_t bytes_ = 0;
};

Result<uint64_t> FillFile(buffer::Download& download, os::File& file, const std::string& name, bool sync) {
  ProgressLine progress(name);
  std::array<std::vector<std::byte>, 2> portions;
  PortionWriter writer(file);
  for (size_t turn = 0;; ++turn) {
    std::vector<std::byte>& portion = portions[turn % portions.size()];
    portion.resize(std::min<uint64_t>(kPortionBytes, download.bytes()));
    KEDGE_ASSIGN_OR_RETURN(const size_t bytes, download.Read(portion));
    if (bytes == 0) break;
    KEDGE_RETURN_IF_ERROR(writer.Write({portion.data(), bytes}));
    progress.Update(writer.bytes(), download.bytes());
  }
  KEDGE_RETURN_IF_ERROR(writer.Wait());
  if (sync) KEDGE_RETURN_IF_ERROR(file.Fsync());
  KEDGE_RETURN_IF_ERROR(file.Close());
  return writer.bytes();
}

Result<uint64_t> Get(std::shared_ptr<buffer::Client> client, const std::string& path, const std::string& to, bool sync) {
  os::FileSystem& fs = os::SystemFileSystem();
  KEDGE_ASSIGN_OR_RETURN(const auto download, buffer::Download::Open(std::move(client), path));
  const std::string temporary = os::TemporaryPath(to, fmt::format("cp{}", os::OwnIdentity().process_id));
  KEDGE_ASSIGN_OR_RETURN(const auto file,
                         fs.Open(temporary, os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive, 0666));
  const auto done = FillFile(*download, *file, to, sync);
  const Status status = done.ok() ? fs.Rename(temporary, to) : done.status();
  if (!status.ok()) {
    (void)os::UnlinkIfPresent(fs, temporary);
    return status;
  }
  if (sync) KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs, os::ParentPath(to)));
  return done;
}

Outcome Cp(CpOptions options) {
  const bool puts = buffer::IsFileName(options.to);
  if (puts == buffer::IsFileName(options.from))
    return Status(Code::kInvalidArgument, "one of FROM and TO is bb://SERVER/PATH, the other a file of this machine");
  KEDGE_ASSIGN_OR_RETURN(const buffer::FileName remote, buffer::ParseFileName(puts ? options.to : options.from, false));
  for (const auto& [key, value] : {std::pair("buffer.folder", options.folder), std::pair("buffer.owner", options.owner),
                                   std::pair("buffer.secret", options.secret)}) {
    if (!value.empty()) options.config.settings.push_back(fmt::format("{}={}", key, value));
  }
  const auto begin = std::chrono::steady_clock::now();
  KEDGE_ASSIGN_OR_RETURN(const auto client, OpenBuffer(options.config, remote.server));
  KEDGE_ASSIGN_OR_RETURN(const uint64_t bytes, puts ? Put(client, options.from, remote.path, options.sync)
                                                    : Get(client, remote.path, options.to, options.sync));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (options.json) {
    PrintJson({{"from", options.from}, {"to", options.to}, {"bytes", bytes}, {"seconds", seconds.count()}});
  } else {
    std::printf("copied %s to %s: %s\n", options.from.c_str(), options.to.c_str(), FormatByteSize(bytes).c_str());
  }
  return kExitOk;
}

}  // namespace

Command CpCommand() {
  return {"cp", "copy a file to a burst buffer or from one", [](CLI::App& app) {
            auto options = std::make_shared<CpOptions>();
            app.add_option("from", options->from, "the file to copy")->required()->type_name("FROM");
            app.add_option("to", options->to, "the copy; one of the two is bb://SERVER/PATH")->required()->type_name("TO");
            app.add_option("--folder", options->folder, "where servers say where they are (default: buffer.folder)")
                ->type_name("FOLDER");
            app.add_option("--owner", options->owner, "in whose name (default: buffer.owner)")->type_name("NAME");
            app.add_option("--secret", options->secret, "the file with the owner's secret (default: buffer.secret)")
                ->type_name("FILE");
            app.add_flag("--sync", options->sync, "return only when the copy is durable");
            app.add_flag("--json", options->json, "print JSON");
            options->config.AddTo(app);
            app.footer(
                "The file appears under its name when all of it is there and verified; a former one stays until then.\n"
                "Example:\n"
                "  kedge cp --folder /shared/buffers --owner alice --secret alice.secret result.h5 bb://fast/run7/result.h5");
            return [options] { return Cp(*options); };
          }};
}

}  // namespace kedge::tools

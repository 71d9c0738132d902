// The C ABI of libkedge-bb (kedge/bb.h): checks arguments, and turns statuses into codes and this thread's message.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/last_error.h"
#include "burst/settings.h"
#include "kedge/bb.h"
#include "net/network.h"
#include "os/process/signals.h"
#include "session/config_keys.h"

struct kedge_bb {
  std::shared_ptr<kedge::buffer::Client> client;
};

// One of the two is there.
struct kedge_bb_file {
  std::unique_ptr<kedge::buffer::Upload> upload;
  std::unique_ptr<kedge::buffer::Download> download;
};

namespace kedge::buffer {
namespace {

// More at a time goes without a copy.
constexpr size_t kCopiedBytesMax = size_t{32} << 20;

Status CheckGiven(const void* argument, const char* what) {
  return argument != nullptr ? Status::Ok() : Status(Code::kInvalidArgument, std::string(what) + " is null");
}

// The caller's struct, which may be an older and shorter one, of `bytes` bytes.
template <typename Struct>
Status ReadStruct(const Struct* given, const char* what, Struct* out) {
  if (given == nullptr) return Status::Ok();
  if (given->struct_size < sizeof(given->struct_size) || given->struct_size > sizeof(Struct))
    return Status(Code::kInvalidArgument, std::string(what) + " has a size that this library does not know");
  std::memcpy(static_cast<void*>(out), given, given->struct_size);
  return Status::Ok();
}

Status Connect(const char* server, const kedge_bb_options& options, std::shared_ptr<Client>* out) {
  ConfigSources sources = ConfigSources::FromProcess();
  if (options.config_file != nullptr) sources.file = options.config_file;
  for (const auto& [key, value] : {std::pair("buffer.folder", options.folder), std::pair("buffer.owner", options.owner),
                                   std::pair("buffer.secret", options.secret)}) {
    if (value != nullptr) sources.overrides.emplace_back(key, value);
  }
  KEDGE_ASSIGN_OR_RETURN(const Config config, Config::Load(KedgeConfigRegistry(), sources));
  KEDGE_ASSIGN_OR_RETURN(const ClientOptions client_options, ReadClientOptions(config, server));
  net::SetFabricDefaults();
  // Libraries of libfabric's print where they were, and call exit: files that are not whole would be closed.
  os::RemoveSignalHandlersOf(net::kSignalTakers);
  KEDGE_ASSIGN_OR_RETURN(*out, Client::Open(client_options));
  return (*out)->Describe().status();
}

Status CheckIs(const void* upload_or_download, const char* what) {
  return upload_or_download != nullptr ? Status::Ok()
                                       : Status(Code::kFailedPrecondition, std::string("the file is not open for ") + what);
}

}  // namespace
}  // namespace kedge::buffer

using kedge::Guarded;
using kedge::Status;
using kedge::buffer::CheckGiven;
using kedge::buffer::CheckIs;

int kedge_bb_connect(const char* server, const kedge_bb_options* options, kedge_bb** out) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(server, "the server's name"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(out, "where the connection goes"));
    kedge_bb_options own = KEDGE_BB_OPTIONS_INIT;
    KEDGE_RETURN_IF_ERROR(kedge::buffer::ReadStruct(options, "kedge_bb_options", &own));
    auto buffer = std::make_unique<kedge_bb>();
    KEDGE_RETURN_IF_ERROR(kedge::buffer::Connect(server, own, &buffer->client));
    *out = buffer.release();
    return Status::Ok();
  });
}

void kedge_bb_disconnect(kedge_bb* buffer) {
  delete buffer;
}

int kedge_bb_open(kedge_bb* buffer, const char* path, kedge_bb_mode mode, kedge_bb_file** out) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(buffer, "the connection"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(path, "the path"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(out, "where the file goes"));
    auto file = std::make_unique<kedge_bb_file>();
    if (mode == KEDGE_BB_WRITE) {
      KEDGE_ASSIGN_OR_RETURN(file->upload, kedge::buffer::Upload::Open(buffer->client, path));
    } else if (mode == KEDGE_BB_READ) {
      KEDGE_ASSIGN_OR_RETURN(file->download, kedge::buffer::Download::Open(buffer->client, path));
    } else {
      return Status(kedge::Code::kInvalidArgument, "the mode is KEDGE_BB_READ or KEDGE_BB_WRITE");
    }
    *out = file.release();
    return Status::Ok();
  });
}

int kedge_bb_write(kedge_bb_file* file, const void* data, size_t bytes) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(file, "the file"));
    KEDGE_RETURN_IF_ERROR(CheckIs(file->upload.get(), "writing"));
    if (bytes == 0) return Status::Ok();
    KEDGE_RETURN_IF_ERROR(CheckGiven(data, "what is to be written"));
    const kedge::ByteSpan span(static_cast<const std::byte*>(data), bytes);
    return bytes > kedge::buffer::kCopiedBytesMax ? file->upload->Write(span) : file->upload->Append(span);
  });
}

int kedge_bb_read(kedge_bb_file* file, void* data, size_t bytes, size_t* read) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(file, "the file"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(read, "where the number of bytes goes"));
    KEDGE_RETURN_IF_ERROR(CheckIs(file->download.get(), "reading"));
    *read = 0;
    if (bytes == 0) return Status::Ok();
    KEDGE_RETURN_IF_ERROR(CheckGiven(data, "where the bytes go"));
    KEDGE_ASSIGN_OR_RETURN(*read, file->download->Read({static_cast<std::byte*>(data), bytes}));
    return Status::Ok();
  });
}

int kedge_bb_seek(kedge_bb_file* file, uint64_t position) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(file, "the file"));
    KEDGE_RETURN_IF_ERROR(CheckIs(file->download.get(), "reading"));
    return file->download->Seek(position);
  });
}

int kedge_bb_tell(kedge_bb_file* file, uint64_t* position, uint64_t* size) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(file, "the file"));
    const bool reads = file->download != nullptr;
    if (position != nullptr) *position = reads ? file->download->position() : file->upload->position();
    if (size != nullptr) *size = reads ? file->download->bytes() : file->upload->position();
    return Status::Ok();
  });
}

int kedge_bb_close(kedge_bb_file* file, int sync) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(file, "the file"));
    const std::unique_ptr<kedge_bb_file> owned(file);
    return owned->upload != nullptr ? owned->upload->Close(sync != 0) : Status::Ok();
  });
}

void kedge_bb_discard(kedge_bb_file* file) {
  delete file;
}

int kedge_bb_remove(kedge_bb* buffer, const char* path) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(buffer, "the connection"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(path, "the path"));
    return buffer->client->Remove(path);
  });
}

int kedge_bb_rename(kedge_bb* buffer, const char* from, const char* to) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(buffer, "the connection"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(from, "the path"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(to, "the new path"));
    return buffer->client->Rename(from, to);
  });
}

int kedge_bb_list(kedge_bb* buffer, const char* prefix, int (*entry)(void* user, const kedge_bb_entry* entry), void* user) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(buffer, "the connection"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(reinterpret_cast<const void*>(entry), "the call-back"));
    bool is_ended = false;
    KEDGE_RETURN_IF_ERROR(buffer->client->Visit(prefix == nullptr ? "" : prefix, [&](const kedge::buffer::FileEntry& file) {
      const kedge_bb_entry one{file.path.c_str(), file.bytes, file.modified_ns};
      is_ended = entry(user, &one) != 0;
      return !is_ended;
    }));
    return is_ended ? Status(kedge::Code::kFailedPrecondition, "the call-back has ended the list") : Status::Ok();
  });
}

int kedge_bb_get_room(kedge_bb* buffer, kedge_bb_room* room) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckGiven(buffer, "the connection"));
    KEDGE_RETURN_IF_ERROR(CheckGiven(room, "where the room goes"));
    kedge_bb_room own = KEDGE_BB_ROOM_INIT;
    KEDGE_RETURN_IF_ERROR(kedge::buffer::ReadStruct(room, "kedge_bb_room", &own));
    KEDGE_ASSIGN_OR_RETURN(const kedge::buffer::Description description, buffer->client->Describe());
    own = {room->struct_size,      description.own_bytes,      description.quota_bytes,
           description.used_bytes, description.capacity_bytes, description.free_bytes};
    std::memcpy(room, &own, room->struct_size);
    return Status::Ok();
  });
}

const char* kedge_bb_error_message(void) {
  return kedge::LastErrorMessage();
}

int kedge_bb_error_errno(void) {
  return kedge::LastErrorNumber();
}

int kedge_bb_report_error(int status, const char* message) {
  return kedge::Report(status, message);
}

// kedge._bb: the C API of burst buffers (kedge/bb.h) as two Python classes. The friendly face is python/kedge/buffer.py.
#include "kedge/bb.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "buffer.h"
#include "raise.h"

namespace nb = nanobind;

namespace kedge::python {
namespace {

void CheckBb(int status) {
  if (status != KEDGE_OK) RaiseError(status, std::string(kedge_bb_error_message()).c_str(), kedge_bb_error_errno());
}

class BbFile {
 public:
  explicit BbFile(kedge_bb_file* file) : file_(file) {}
  BbFile(const BbFile&) = delete;
  BbFile& operator=(const BbFile&) = delete;
  ~BbFile() { Discard(); }

  void Write(nb::object bytes) {
    const std::unique_ptr<Buffer> buffer = Buffer::Take(bytes.ptr(), false);
    if (!buffer) throw nb::python_error();
    CheckBb(Unlocked([&] { return kedge_bb_write(file_, buffer->data(), buffer->bytes()); }));
  }
  size_t ReadInto(nb::object bytes) {
    const std::unique_ptr<Buffer> buffer = Buffer::Take(bytes.ptr(), true);
    if (!buffer) throw nb::python_error();
    size_t read = 0;
    CheckBb(Unlocked([&] { return kedge_bb_read(file_, buffer->data(), buffer->bytes(), &read); }));
    return read;
  }
  void Seek(uint64_t position) {
    CheckBb(Unlocked([&] { return kedge_bb_seek(file_, position); }));
  }
  std::tuple<uint64_t, uint64_t> Tell() {
    uint64_t position = 0, size = 0;
    CheckBb(kedge_bb_tell(file_, &position, &size));
    return {position, size};
  }
  void Close(bool sync) {
    kedge_bb_file* const file = std::exchange(file_, nullptr);
    CheckBb(Unlocked([&] { return kedge_bb_close(file, sync ? 1 : 0); }));
  }
  void Discard() {
    kedge_bb_file* const file = std::exchange(file_, nullptr);
    const nb::gil_scoped_release release;
    kedge_bb_discard(file);
  }

 private:
  kedge_bb_file* file_;  // null, which each function refuses, once it has ended
};

class BbConnection {
 public:
  BbConnection(const std::string& server, const std::optional<std::string>& folder, const std::optional<std::string>& owner,
               const std::optional<std::string>& secret, const std::optional<std::string>& config_file) {
    const auto text = [](const std::optional<std::string>& given) { return given ? given->c_str() : nullptr; };
    kedge_bb_options options = KEDGE_BB_OPTIONS_INIT;
    options.folder = text(folder);
    options.owner = text(owner);
    options.secret = text(secret);
    options.config_file = text(config_file);
    CheckBb(Unlocked([&] { return kedge_bb_connect(server.c_str(), &options, &buffer_); }));
  }
  BbConnection(const BbConnection&) = delete;
  BbConnection& operator=(const BbConnection&) = delete;
  ~BbConnection() { Disconnect(); }

  // The caller's.
  BbFile* Open(const std::string& path, bool writes) {
    kedge_bb_file* file = nullptr;
    CheckBb(Unlocked([&] { return kedge_bb_open(buffer_, path.c_str(), writes ? KEDGE_BB_WRITE : KEDGE_BB_READ, &file); }));
    return new BbFile(file);
  }
  void Remove(const std::string& path) {
    CheckBb(Unlocked([&] { return kedge_bb_remove(buffer_, path.c_str()); }));
  }
  void Rename(const std::string& from, const std::string& to) {
    CheckBb(Unlocked([&] { return kedge_bb_rename(buffer_, from.c_str(), to.c_str()); }));
  }
  // (path, bytes, modified_ns)
  std::vector<std::tuple<std::string, uint64_t, int64_t>> List(const std::string& prefix) {
    std::vector<std::tuple<std::string, uint64_t, int64_t>> entries;
    const auto add = [](void* user, const kedge_bb_entry* entry) {
      static_cast<decltype(entries)*>(user)->emplace_back(entry->path, entry->bytes, entry->modified_ns);
      return 0;
    };
    CheckBb(Unlocked([&] { return kedge_bb_list(buffer_, prefix.c_str(), add, &entries); }));
    return entries;
  }
  // (own, quota, used, capacity, disk_free)
  std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t> Room() {
    kedge_bb_room room = KEDGE_BB_ROOM_INIT;
    CheckBb(Unlocked([&] { return kedge_bb_get_room(buffer_, &room); }));
    return {room.own, room.quota, room.used, room.capacity, room.disk_free};
  }
  void Disconnect() {
    kedge_bb* const buffer = std::exchange(buffer_, nullptr);
    const nb::gil_scoped_release release;
    kedge_bb_disconnect(buffer);
  }

 private:
  kedge_bb* buffer_ = nullptr;
};

}  // namespace

NB_MODULE(_bb, module) {
  using namespace nb::literals;
  nb::class_<BbFile>(module, "File")
      .def("write", &BbFile::Write)
      .def("readinto", &BbFile::ReadInto)
      .def("seek", &BbFile::Seek)
      .def("tell", &BbFile::Tell)
      .def("close", &BbFile::Close)
      .def("discard", &BbFile::Discard);
  nb::class_<BbConnection>(module, "Connection")
      .def(nb::init<const std::string&, const std::optional<std::string>&, const std::optional<std::string>&,
                    const std::optional<std::string>&, const std::optional<std::string>&>(),
           "server"_a, "folder"_a.none(), "owner"_a.none(), "secret"_a.none(), "config_file"_a.none())
      .def("open", &BbConnection::Open, nb::rv_policy::take_ownership)
      .def("remove", &BbConnection::Remove)
      .def("rename", &BbConnection::Rename)
      .def("list", &BbConnection::List)
      .def("room", &BbConnection::Room)
      .def("disconnect", &BbConnection::Disconnect);
}

}  // namespace kedge::python

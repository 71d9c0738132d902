// Files on burst buffers for C++17 and later: bb.h with lifetimes, spans and results. Header only; link -lkedge-bb.
//
//   auto buffer = kedge::bb::Buffer::Connect("fast");
//   if (!buffer) { std::cerr << buffer.error().message() << '\n'; return 1; }
//   auto file = buffer->Create("run7/result");
//   if (!file || !file->Write(kedge::Span<const double>(values)) || !file->Close(true)) ...
//
// kedge_bb_error_errno() is the errno of this thread's last error. Nothing throws but what a call-back of yours throws. What a
// call promises is said in bb.h.
#ifndef KEDGE_BB_HPP
#define KEDGE_BB_HPP

#include "bb.h"
#include "kedge.hpp"

namespace kedge::bb {

namespace detail {
inline Expected<void> Check(int code) {
  if (code == KEDGE_OK) return {};
  return Error(code, kedge_bb_error_message());
}
struct Discard {
  void operator()(kedge_bb_file* file) const { kedge_bb_discard(file); }
};
struct Disconnect {
  void operator()(kedge_bb* buffer) const { kedge_bb_disconnect(buffer); }
};
}  // namespace detail

// An open file. One that is written and goes without Close never appears.
class File {
 public:
  explicit File(kedge_bb_file* file) : file_(file) {}

  Expected<void> Write(const void* data, size_t bytes) { return detail::Check(kedge_bb_write(file_.get(), data, bytes)); }
  template <typename T, kedge::detail::IfPlain<T> = 0>
  Expected<void> Write(Span<const T> values) {
    return Write(values.data(), values.size_bytes());
  }
  // How many bytes came: fewer at the end only.
  Expected<size_t> Read(void* data, size_t bytes) {
    size_t read = 0;
    if (int code = kedge_bb_read(file_.get(), data, bytes, &read)) return Error(code, kedge_bb_error_message());
    return read;
  }
  template <typename T, kedge::detail::IfPlain<T> = 0>
  Expected<size_t> Read(Span<T> values) {
    return Read(values.data(), values.size_bytes());
  }
  Expected<void> Seek(uint64_t position) { return detail::Check(kedge_bb_seek(file_.get(), position)); }
  uint64_t position() const { return Tell().first; }
  // Of what is read; of what is written, so far.
  uint64_t size() const { return Tell().second; }
  Expected<void> Close(bool sync = false) { return detail::Check(kedge_bb_close(file_.release(), sync ? 1 : 0)); }

 private:
  std::pair<uint64_t, uint64_t> Tell() const {
    std::pair<uint64_t, uint64_t> told{0, 0};
    (void)kedge_bb_tell(file_.get(), &told.first, &told.second);
    return told;
  }
  std::unique_ptr<kedge_bb_file, detail::Discard> file_;
};

struct Options {
  std::string folder = {};  // empty: from the configuration, as the others
  std::string owner = {};
  std::string secret = {};
  std::string config_file = {};
};

struct Entry {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
};

// A connection to a server.
class Buffer {
 public:
  static Expected<Buffer> Connect(const std::string& server, const Options& options = {}) {
    kedge_bb_options c_options = KEDGE_BB_OPTIONS_INIT;
    const auto or_null = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    c_options.folder = or_null(options.folder);
    c_options.owner = or_null(options.owner);
    c_options.secret = or_null(options.secret);
    c_options.config_file = or_null(options.config_file);
    kedge_bb* buffer = nullptr;
    if (int code = kedge_bb_connect(server.c_str(), &c_options, &buffer)) return Error(code, kedge_bb_error_message());
    return Buffer(buffer);
  }
  Expected<File> Open(const std::string& path) { return Open(path, KEDGE_BB_READ); }
  Expected<File> Create(const std::string& path) { return Open(path, KEDGE_BB_WRITE); }
  Expected<void> Remove(const std::string& path) { return detail::Check(kedge_bb_remove(get(), path.c_str())); }
  Expected<void> Rename(const std::string& from, const std::string& to) {
    return detail::Check(kedge_bb_rename(get(), from.c_str(), to.c_str()));
  }
  Expected<std::vector<Entry>> List(const std::string& prefix = {}) {
    std::vector<Entry> entries;
    const auto add = [](void* user, const kedge_bb_entry* entry) {
      static_cast<std::vector<Entry>*>(user)->push_back({entry->path, entry->bytes, entry->modified_ns});
      return 0;
    };
    if (int code = kedge_bb_list(get(), prefix.c_str(), add, &entries)) return Error(code, kedge_bb_error_message());
    return entries;
  }
  Expected<kedge_bb_room> Room() {
    kedge_bb_room room = KEDGE_BB_ROOM_INIT;
    if (int code = kedge_bb_get_room(get(), &room)) return Error(code, kedge_bb_error_message());
    return room;
  }
  // For the functions of bb.h; stays this object's.
  kedge_bb* get() const { return buffer_.get(); }

 private:
  explicit Buffer(kedge_bb* buffer) : buffer_(buffer) {}
  Expected<File> Open(const std::string& path, kedge_bb_mode mode) {
    kedge_bb_file* file = nullptr;
    if (int code = kedge_bb_open(get(), path.c_str(), mode, &file)) return Error(code, kedge_bb_error_message());
    return File(file);
  }
  std::unique_ptr<kedge_bb, detail::Disconnect> buffer_;
};

}  // namespace kedge::bb

#endif

// kedge._kedge: the C API as one Python class, close to the C functions. The friendly face is python/kedge/context.py.
//
// Every call into libkedge runs with the GIL released, because call-backs take it and because the context's own lock
// may be held by another thread. Errors become the exceptions of kedge/errors.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "buffer.h"
#include "callbacks.h"
#include "heap_block.h"
#include "kedge/kedge.h"
#include "raise.h"

namespace nb = nanobind;

namespace kedge::python {
namespace {

// Raises the exception that belongs to `status`, or the one that a call-back left behind.
void Check(int status) {
  if (status == KEDGE_OK) return;
  const std::string message = kedge_error_message();
  if (TakePendingException()) throw nb::python_error();
  RaiseError(status, message.c_str());
}

unsigned Flags(bool overwrite) {
  return overwrite ? static_cast<unsigned>(KEDGE_OVERWRITE) : 0u;
}

class Context {
 public:
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  Context(std::optional<std::string> job, std::optional<std::string> config_file, const std::string& overrides,
          nb::object communicator) {
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.job = job ? job->c_str() : nullptr;
    options.config_file = config_file ? config_file->c_str() : nullptr;
    options.overrides = overrides.c_str();
    kedge_bootstrap bootstrap;
    const bool alone = communicator.is_none();
    if (nb::hasattr(communicator, "rendezvous_folder")) {
      const auto folder = nb::cast<std::string>(communicator.attr("rendezvous_folder"));
      const int rank = nb::cast<int>(communicator.attr("rank"));
      const int ranks = nb::cast<int>(communicator.attr("ranks"));
      const double timeout_seconds = nb::cast<double>(communicator.attr("timeout_seconds"));
      Check(Unlocked([&] { return kedge_rendezvous(folder.c_str(), rank, ranks, timeout_seconds, &bootstrap); }));
    } else if (!alone && !MakeBootstrap(communicator.ptr(), &bootstrap)) {
      throw nb::python_error();
    }
    Check(Unlocked([&] { return kedge_init(&options, alone ? nullptr : &bootstrap, &context_); }));
  }

  // An unfinished context leaves its flushes to the agent.
  ~Context() {
    DetachHeap();
    if (context_ != nullptr) Unlocked([&] { return kedge_finalize(std::exchange(context_, nullptr), 0); });
  }

  void Finalize(bool drain) {
    if (context_ == nullptr) return;
    DetachHeap();
    const int status = Unlocked([&] { return kedge_finalize(std::exchange(context_, nullptr), drain ? 1 : 0); });
    buffers_.clear();
    objects_.clear();
    Check(status);
  }

  void Protect(int id, nb::object array, std::optional<std::string> name, bool reinterpret,
               const std::vector<int64_t>& global_shape, const std::vector<int64_t>& global_offset,
               const std::vector<int64_t>& halo, bool replicated) {
    std::unique_ptr<Buffer> buffer = Buffer::Take(array.ptr(), true);
    if (!buffer) throw nb::python_error();
    kedge_region_info info = buffer->Info(name ? name->c_str() : nullptr);
    info.reinterpret = reinterpret ? 1 : 0;
    info.replicated = replicated ? 1 : 0;
    const auto fill = [&](const char* what, const std::vector<int64_t>& given, int64_t* field) {
      if (!given.empty() && given.size() != static_cast<size_t>(info.dimensions)) {
        PyErr_Format(PyExc_ValueError, "region %d: %s needs an entry for each of %d dimensions", id, what, info.dimensions);
        throw nb::python_error();
      }
      std::copy(given.begin(), given.end(), field);
    };
    fill("global_shape", global_shape, info.global_shape);
    fill("global_offset", global_offset, info.global_offset);
    fill("halo", halo, info.halo);
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_protect(context, id, buffer->data(), buffer->count(), buffer->element_bytes(), &info); }));
    objects_.erase({group_, id});
    buffers_[{group_, id}] = std::move(buffer);
  }

  void ProtectObject(int id, nb::object serialize, nb::object deserialize, std::optional<std::string> name) {
    auto object = std::make_unique<PythonObject>(serialize.ptr(), deserialize.ptr());
    const kedge_object callbacks = object->Callbacks();
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_protect_object(context, id, name ? name->c_str() : nullptr, &callbacks); }));
    buffers_.erase({group_, id});
    objects_[{group_, id}] = std::move(object);
  }

  void Unprotect(int id) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_unprotect(context, id); }));
    buffers_.erase({group_, id});
    objects_.erase({group_, id});
  }

  void Clear() {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_clear(context); }));
    std::erase_if(buffers_, [&](const auto& entry) { return entry.first.first == group_; });
    std::erase_if(objects_, [&](const auto& entry) { return entry.first.first == group_; });
  }

  void Group(std::optional<std::string> group) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_group(context, group ? group->c_str() : nullptr); }));
    group_ = group;
  }

  // `element` is an array whose elements are like those of the block.
  HeapBlock Alloc(const std::string& name, nb::object element, const std::vector<int64_t>& shape, bool column_major) {
    const std::unique_ptr<Buffer> like = Buffer::Take(element.ptr(), false);
    if (!like) throw nb::python_error();
    if (shape.size() > KEDGE_MAX_DIMENSIONS) {
      PyErr_Format(PyExc_ValueError, "block %R has %zu dimensions; allowed are up to %d", nb::str(name.c_str()).ptr(),
                   shape.size(), KEDGE_MAX_DIMENSIONS);
      throw nb::python_error();
    }
    kedge_region_info info = like->Info(nullptr);
    info.column_major = column_major ? 1 : 0;
    info.dimensions = static_cast<int>(shape.size());
    size_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      info.shape[i] = shape[i];
      if (shape[i] < 0 || __builtin_mul_overflow(count, static_cast<size_t>(shape[i]), &count)) {
        PyErr_SetString(PyExc_ValueError, "the shape has a negative extent, or more elements than there are addresses");
        throw nb::python_error();
      }
    }
    kedge_context* context = Live();
    void* block = nullptr;
    Check(Unlocked([&] { return kedge_alloc(context, name.c_str(), count, like->element_bytes(), &info, &block); }));
    return Hold(name, block, count * like->element_bytes());
  }

  // (block, type, shape, column_major)
  nb::tuple Find(const std::string& name) {
    kedge_context* context = Live();
    void* block = nullptr;
    size_t bytes = 0;
    kedge_region_info info{};
    info.struct_size = sizeof(info);
    Check(Unlocked([&] { return kedge_find(context, name.c_str(), &block, &bytes, &info); }));
    nb::list shape;
    for (int i = 0; i < info.dimensions; ++i) shape.append(info.shape[i]);
    return nb::make_tuple(Hold(name, block, bytes), static_cast<int>(info.type), nb::tuple(shape), info.column_major != 0);
  }

  // What arrays still refer to stays their memory.
  void Free(const std::string& name) {
    kedge_context* context = Live();
    void* block = nullptr;
    Check(Unlocked([&] { return kedge_find(context, name.c_str(), &block, nullptr, nullptr); }));
    const auto held = heap_.find(name);
    const std::shared_ptr<HeapMemory> memory = held == heap_.end() ? nullptr : held->second.lock();
    Check(Unlocked([&] { return memory ? kedge_detach(context, block) : kedge_free(context, block); }));
    if (memory) memory->Detached();
    heap_.erase(name);
  }

  void Checkpoint(const std::string& name, int64_t version, bool overwrite) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_checkpoint(context, name.c_str(), version, Flags(overwrite)); }));
    WarnOfAbandoned();
  }
  void CheckpointBegin(const std::string& name, int64_t version, bool overwrite) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_checkpoint_begin(context, name.c_str(), version, Flags(overwrite)); }));
    try {
      WarnOfAbandoned();
    } catch (const nb::python_error&) {
      Unlocked([&] { return kedge_checkpoint_end(context, 0); });
      throw;
    }
  }
  void CheckpointPart(int selection, const std::vector<int>& ids) {
    kedge_context* context = Live();
    Check(Unlocked(
        [&] { return kedge_checkpoint_part(context, static_cast<kedge_selection>(selection), ids.data(), ids.size()); }));
  }
  void CheckpointEnd(bool success) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_checkpoint_end(context, success ? 1 : 0); }));
  }

  bool CheckpointDue() {
    kedge_context* context = Live();
    int due = 0;
    Check(Unlocked([&] { return kedge_checkpoint_due(context, &due); }));
    return due != 0;
  }

  bool ShouldExit() {
    kedge_context* context = Live();
    int exit = 0;
    Check(Unlocked([&] { return kedge_should_exit(context, &exit); }));
    return exit != 0;
  }

  void Phase(bool communicates) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_phase(context, communicates ? KEDGE_PHASE_COMMUNICATION : KEDGE_PHASE_COMPUTATION); }));
  }

  std::string RouteFile(const std::string& original) {
    kedge_context* context = Live();
    std::vector<char> routed(4096);
    Check(Unlocked([&] { return kedge_route_file(context, original.c_str(), routed.data(), routed.size()); }));
    return routed.data();
  }

  void Annotate(const std::string& key, nb::object value) {
    const std::unique_ptr<Buffer> buffer = Buffer::Take(value.ptr(), false);
    if (!buffer) throw nb::python_error();
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_annotate(context, key.c_str(), buffer->data(), buffer->bytes()); }));
  }

  nb::bytes Annotation(const std::string& key) {
    kedge_context* context = Live();
    size_t bytes = 0;
    const int status = Unlocked([&] { return kedge_annotation(context, key.c_str(), nullptr, 0, &bytes); });
    if (status != KEDGE_OK && status != KEDGE_ERROR_INVALID_ARGUMENT) Check(status);
    std::vector<char> value(bytes);
    Check(Unlocked([&] { return kedge_annotation(context, key.c_str(), value.data(), value.size(), &bytes); }));
    return nb::bytes(value.data(), bytes);
  }

  void Wait(std::optional<std::string> name, int64_t version, int level, double timeout_seconds) {
    kedge_context* context = Live();
    Check(Unlocked([&] {
      return kedge_wait(context, name ? name->c_str() : nullptr, version, static_cast<kedge_level>(level), timeout_seconds);
    }));
  }

  int Test(const std::string& name, int64_t version) {
    kedge_context* context = Live();
    kedge_level level = KEDGE_LEVEL_NONE;
    Check(Unlocked([&] { return kedge_test(context, name.c_str(), version, &level); }));
    return level;
  }

  bool Pending() {
    kedge_context* context = Live();
    const int status = Unlocked([&] { return kedge_pending(context); });
    if (status == KEDGE_ERROR_BUSY) return true;
    Check(status);
    return false;
  }

  // Raises the error of the first flush that failed since the last call, if any.
  void RaiseFlushError() {
    kedge_context* context = Live();
    int64_t version = 0;
    Check(Unlocked([&] { return kedge_last_flush_error(context, nullptr, 0, &version); }));
  }

  std::optional<int64_t> Newest(const std::string& name, int64_t at_most) {
    kedge_context* context = Live();
    int64_t version = 0;
    const int status = Unlocked([&] { return kedge_newest(context, name.c_str(), at_most, &version); });
    if (status == KEDGE_ERROR_NOT_FOUND) return std::nullopt;
    Check(status);
    return version;
  }

  int64_t Restart(const std::string& name, int64_t at_most) {
    kedge_context* context = Live();
    int64_t restored = -1;
    Check(Unlocked([&] { return kedge_restart(context, name.c_str(), at_most, &restored); }));
    return restored;
  }
  void RestartBegin(const std::string& name, int64_t version) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_restart_begin(context, name.c_str(), version); }));
  }
  void LoadBegin(const std::string& name, int64_t version) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_load_begin(context, name.c_str(), version); }));
  }
  void RestartPart(int selection, const std::vector<int>& ids) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_restart_part(context, static_cast<kedge_selection>(selection), ids.data(), ids.size()); }));
  }
  void RestartEnd(bool success) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_restart_end(context, success ? 1 : 0); }));
  }
  void RestartAs(int rank) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_restart_as(context, rank); }));
  }

  std::vector<int> SavedIds() {
    kedge_context* context = Live();
    size_t count = 0;
    Check(Unlocked([&] { return kedge_saved_ids(context, nullptr, 0, &count); }));
    std::vector<int> ids(count);
    Check(Unlocked([&] { return kedge_saved_ids(context, ids.data(), ids.size(), &count); }));
    return ids;
  }

  // (bytes, type, shape, column_major, name or None, global shape, global offset)
  nb::tuple SavedRegion(int id) {
    kedge_context* context = Live();
    size_t bytes = 0;
    kedge_region_info info{};
    info.struct_size = sizeof(info);
    Check(Unlocked([&] { return kedge_saved_region(context, id, &bytes, &info); }));
    const auto numbers = [&](const int64_t* values) {
      nb::list list;
      for (int i = 0; i < info.dimensions; ++i) list.append(values[i]);
      return nb::tuple(list);
    };
    const nb::object name = info.name != nullptr && info.name[0] != '\0' ? nb::object(nb::str(info.name)) : nb::none();
    return nb::make_tuple(bytes, static_cast<int>(info.type), numbers(info.shape), info.column_major != 0, name,
                          numbers(info.global_shape), numbers(info.global_offset));
  }

  void Cleanup(std::optional<std::string> name) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_cleanup(context, name ? name->c_str() : nullptr); }));
  }
  void Pin(const std::string& name, int64_t version, bool pinned) {
    kedge_context* context = Live();
    Check(Unlocked([&] { return kedge_pin(context, name.c_str(), version, pinned ? 1 : 0); }));
  }

  nb::dict Statistics() {
    kedge_context* context = Live();
    kedge_statistics s{};
    s.struct_size = sizeof(s);
    Check(Unlocked([&] { return kedge_get_statistics(context, &s); }));
    nb::dict out;
    out["checkpoints"] = s.checkpoints;
    out["checkpoints_inline"] = s.checkpoints_inline;
    out["bytes_captured"] = s.bytes_captured;
    out["blocked_seconds"] = s.blocked_seconds;
    out["last_blocked_seconds"] = s.last_blocked_seconds;
    out["bytes_pool"] = s.bytes_pool;
    out["bytes_directory"] = s.bytes_directory;
    out["bytes_through"] = s.bytes_through;
    out["bytes_unchanged"] = s.bytes_unchanged;
    out["writes_held"] = s.writes_held;
    out["slot_wait_seconds"] = s.slot_wait_seconds;
    out["bytes_restored_pool"] = s.bytes_restored_pool;
    out["bytes_restored_directory"] = s.bytes_restored_directory;
    out["bytes_restored_store"] = s.bytes_restored_store;
    out["last_restart_seconds"] = s.last_restart_seconds;
    out["flush_failures"] = s.flush_failures;
    out["corrupt_copies"] = s.corrupt_copies;
    out["checkpoint_interval_seconds"] = s.checkpoint_interval_seconds;
    out["checkpoints_not_due"] = s.checkpoints_not_due;
    return out;
  }

 private:
  HeapBlock Hold(const std::string& name, void* block, size_t bytes) {
    std::weak_ptr<HeapMemory>& held = heap_[name];
    std::shared_ptr<HeapMemory> memory = held.lock();
    if (!memory || memory->data() != block) memory = std::make_shared<HeapMemory>(block, bytes);
    held = memory;
    return HeapBlock{std::move(memory)};
  }

  // Arrays of the heap live on without it.
  void DetachHeap() {
    for (auto& [name, held] : heap_) {
      const std::shared_ptr<HeapMemory> memory = held.lock();
      if (memory && Unlocked([&] { return kedge_detach(context_, memory->data()); }) == KEDGE_OK) memory->Detached();
    }
    heap_.clear();
  }

  kedge_context* Live() {
    if (context_ == nullptr) {
      PyErr_SetString(PyExc_ValueError, "this Kedge context is closed");
      throw nb::python_error();
    }
    return context_;
  }

  // `a = a * 2` leaves the declared array behind: once for each of the current group. A warning may be an error, so the call to
  // the library comes first: it counts on this rank as on the others.
  void WarnOfAbandoned() {
    for (auto& [key, buffer] : buffers_) {
      if (key.first != group_ || buffer->was_warned_of || !buffer->IsAbandoned()) continue;
      buffer->was_warned_of = true;
      const int raised = PyErr_WarnFormat(
          PyExc_RuntimeWarning, 2,
          "region %d: only Kedge still refers to the protected array; if your program goes on with another one (a = a * 2 makes "
          "one; a *= 2 and a[...] = do not), protect that",
          key.second);
      if (raised != 0) throw nb::python_error();
    }
  }

  using Key = std::pair<std::optional<std::string>, int>;  // group, region id
  kedge_context* context_ = nullptr;
  std::optional<std::string> group_;
  std::map<Key, std::unique_ptr<Buffer>> buffers_;
  std::map<Key, std::unique_ptr<PythonObject>> objects_;
  std::map<std::string, std::weak_ptr<HeapMemory>> heap_;  // what arrays refer to, by the block's name
};

}  // namespace

NB_MODULE(_kedge, m) {
  m.doc() = "The C API of libkedge; use the classes of the package kedge instead.";
  m.def("version", [] { return std::string(kedge_version_string()); });
  nb::class_<HeapBlock>(m, "HeapBlock", nb::type_slots(kHeapBlockSlots));
  nb::class_<Context>(m, "Context")
      .def(nb::init<std::optional<std::string>, std::optional<std::string>, const std::string&, nb::object>(),
           nb::arg("job").none(), nb::arg("config_file").none(), nb::arg("overrides"), nb::arg("communicator").none())
      .def("finalize", &Context::Finalize)
      .def("protect", &Context::Protect, nb::arg("id"), nb::arg("array"), nb::arg("name").none(), nb::arg("reinterpret"),
           nb::arg("global_shape") = std::vector<int64_t>(), nb::arg("global_offset") = std::vector<int64_t>(),
           nb::arg("halo") = std::vector<int64_t>(), nb::arg("replicated") = false)
      .def("protect_object", &Context::ProtectObject, nb::arg("id"), nb::arg("serialize"), nb::arg("deserialize"),
           nb::arg("name").none())
      .def("unprotect", &Context::Unprotect)
      .def("clear", &Context::Clear)
      .def("group", &Context::Group, nb::arg("group").none())
      .def("alloc", &Context::Alloc)
      .def("find", &Context::Find)
      .def("free", &Context::Free)
      .def("checkpoint", &Context::Checkpoint)
      .def("checkpoint_begin", &Context::CheckpointBegin)
      .def("checkpoint_part", &Context::CheckpointPart)
      .def("checkpoint_end", &Context::CheckpointEnd)
      .def("checkpoint_due", &Context::CheckpointDue)
      .def("should_exit", &Context::ShouldExit)
      .def("phase", &Context::Phase)
      .def("route_file", &Context::RouteFile)
      .def("annotate", &Context::Annotate)
      .def("annotation", &Context::Annotation)
      .def("wait", &Context::Wait, nb::arg("name").none(), nb::arg("version"), nb::arg("level"), nb::arg("timeout_seconds"))
      .def("test", &Context::Test)
      .def("pending", &Context::Pending)
      .def("raise_flush_error", &Context::RaiseFlushError)
      .def("newest", &Context::Newest)
      .def("restart", &Context::Restart)
      .def("restart_begin", &Context::RestartBegin)
      .def("load_begin", &Context::LoadBegin)
      .def("restart_part", &Context::RestartPart)
      .def("restart_end", &Context::RestartEnd)
      .def("restart_as", &Context::RestartAs)
      .def("saved_ids", &Context::SavedIds)
      .def("saved_region", &Context::SavedRegion)
      .def("cleanup", &Context::Cleanup, nb::arg("name").none())
      .def("pin", &Context::Pin)
      .def("statistics", &Context::Statistics);
}

}  // namespace kedge::python

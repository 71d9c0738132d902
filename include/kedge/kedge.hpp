// Kedge for C++17 and later: kedge.h with lifetimes, spans and results. Header only; link -lkedge (and -lkedge-mpi for
// kedge_mpi.h).
//
//   auto context = kedge::Context::Open();
//   if (!context) { std::cerr << context.error().message() << '\n'; return 1; }
//   context->Protect(0, kedge::Span<double>(temperature));   // std::span in C++20
//   auto restored = context->Restart("heat");
//   if (restored) step = *restored;
//   else if (restored.error().code() != KEDGE_ERROR_NOT_FOUND) { std::cerr << restored.error().message() << '\n'; return 1; }
//   ...
//   context->Checkpoint("heat", step);
//
// Nothing throws but what a serializer of yours throws, which fails the checkpoint or restart, and an Allocator, as containers
// want it. Results must be looked at: a discarded one is a warning. Conventions of memory, threads and collectives are those of
// kedge.h.
#ifndef KEDGE_KEDGE_HPP
#define KEDGE_KEDGE_HPP

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "kedge.hpp needs C++17: compile with -std=c++17 or later, or use kedge.h"
#endif

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif

#include "kedge.h"

namespace kedge {

// Elements that lie one behind the other, and are somebody else's.
#if __cplusplus >= 202002L
template <typename T>
using Span = std::span<T>;
#else
template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t n>
  constexpr Span(T (&array)[n]) : data_(array), size_(n) {}  // NOLINT(google-explicit-constructor)
  // std::vector, std::array and all else that has data() and size(); Span<T> as Span<const T>.
  template <typename Container, typename Data = decltype(std::declval<Container&>().data()),
            typename = std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<Data> (*)[], T (*)[]>>>
  constexpr Span(Container&& container) : data_(container.data()), size_(container.size()) {}  // NOLINT
  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};
template <typename Container>
Span(Container&) -> Span<std::remove_pointer_t<decltype(std::declval<Container&>().data())>>;
#endif

// Why a call failed: the code of kedge.h, and a sentence that says what was expected, what was found and what to do.
class Error {
 public:
  Error(int code, std::string message) : code_(static_cast<kedge_status>(code)), message_(std::move(message)) {}
  kedge_status code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  kedge_status code_;
  std::string message_;
};

// A value, or an Error: what std::expected is in C++23.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return value_.has_value(); }
  bool has_value() const { return value_.has_value(); }
  T& operator*() & { return assert(value_), *value_; }
  const T& operator*() const& { return assert(value_), *value_; }
  T&& operator*() && { return assert(value_), std::move(*value_); }
  T* operator->() { return assert(value_), &*value_; }
  const T* operator->() const { return assert(value_), &*value_; }
  T value_or(T other) const { return value_ ? *value_ : std::move(other); }
  const Error& error() const { return assert(error_), *error_; }

 private:
  std::optional<T> value_;
  std::optional<Error> error_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return !error_.has_value(); }
  bool has_value() const { return !error_.has_value(); }
  const Error& error() const { return assert(error_), *error_; }

 private:
  std::optional<Error> error_;
};

namespace detail {

// Its bytes are all there is to it.
template <typename T>
using IfPlain = std::enable_if_t<std::is_trivially_copyable_v<T>, int>;

// Plain elements one behind the other, as many as it is told: std::vector, std::string and the like.
template <typename Container, typename = void>
constexpr bool kGrows = false;
template <typename Container>
constexpr bool kGrows<Container, std::void_t<decltype(std::declval<Container&>().resize(size_t{}))>> =
    !std::is_trivially_copyable_v<Container> &&
    std::is_same_v<decltype(std::declval<Container&>().data()), typename Container::value_type*> &&
    std::is_trivially_copyable_v<typename Container::value_type>;
template <typename Container>
using IfGrows = std::enable_if_t<kGrows<Container>, int>;
template <typename T>
using IfOne = std::enable_if_t<!kGrows<T>, int>;

inline Expected<void> Check(int code) {
  if (code == KEDGE_OK) return {};
  return Error(code, kedge_error_message());
}

template <typename T>
constexpr kedge_type TypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return KEDGE_TYPE_BOOL;
  else if constexpr (std::is_same_v<U, float>)
    return KEDGE_TYPE_FLOAT32;
  else if constexpr (std::is_same_v<U, double>)
    return KEDGE_TYPE_FLOAT64;
  else if constexpr (std::is_integral_v<U> && sizeof(U) <= 8) {
    constexpr kedge_type kSigned[] = {KEDGE_TYPE_INT8, KEDGE_TYPE_INT16, KEDGE_TYPE_INT32, KEDGE_TYPE_INT64};
    constexpr kedge_type kUnsigned[] = {KEDGE_TYPE_UINT8, KEDGE_TYPE_UINT16, KEDGE_TYPE_UINT32, KEDGE_TYPE_UINT64};
    constexpr int kIndex = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return std::is_signed_v<U> ? kSigned[kIndex] : kUnsigned[kIndex];
  } else
    return KEDGE_TYPE_BYTES;
}

}  // namespace detail

struct OpenOptions {
  std::string job = {};          // empty: from the configuration
  std::string config_file = {};  // empty: the usual places
  std::string overrides = {};    // "section.key=value" lines
};

// What is known of a region beyond its bytes.
struct RegionOptions {
  std::string name = {};
  std::vector<int64_t> shape = {};  // empty: one dimension
  bool column_major = false;
  bool reinterpret = false;     // a restart takes as many bytes of another type or shape
  bool device_written = false;  // a device writes there without the processor: its changes are not tracked
  // Of the global array that this is a part of, and where this begins in it; as many entries as `shape`, or one.
  std::vector<int64_t> global_shape = {};
  std::vector<int64_t> global_offset = {};
  std::vector<int64_t> halo = {};  // elements on both sides that are no part of it, as kedge_region_info has them
  bool replicated = false;         // all ranks have the same
};

// A saved region, before memory for it is there.
struct SavedRegion {
  size_t bytes = 0;
  kedge_type type = KEDGE_TYPE_BYTES;
  std::string name;
  std::vector<int64_t> shape;
  // Of the global array that it was a part of, and where it began in it; empty: of none.
  std::vector<int64_t> global_shape;
  std::vector<int64_t> global_offset;
};

// Where a serializer writes to, and a deserializer reads from. Valid during the call only.
class Writer {
 public:
  explicit Writer(kedge_writer* writer) : writer_(writer) {}
  Expected<void> Write(const void* data, size_t bytes) { return detail::Check(kedge_write(writer_, data, bytes)); }
  template <typename T, detail::IfPlain<T> = 0>
  Expected<void> Write(Span<const T> values) {
    return Write(values.data(), values.size_bytes());
  }

 private:
  kedge_writer* writer_;
};

class Reader {
 public:
  explicit Reader(kedge_reader* reader) : reader_(reader) {}
  Expected<void> Read(void* data, size_t bytes) { return detail::Check(kedge_read(reader_, data, bytes)); }
  template <typename T, detail::IfPlain<T> = 0>
  Expected<void> Read(Span<T> values) {
    return Read(values.data(), values.size_bytes());
  }

 private:
  kedge_reader* reader_;
};

// An object that is no plain memory. `size` gives the exact number of bytes that `serialize` will write. They return false,
// or throw, to fail the checkpoint or restart.
struct Serializer {
  std::function<size_t()> size;
  std::function<bool(Writer&)> serialize;
  std::function<bool(Reader&, size_t bytes)> deserialize;
};

class Context;

// Has containers keep their elements in the heap of a context (kedge.h), where a restart brings them back:
//
//   using Values = std::vector<double, kedge::Allocator<double>>;
//   Values* values = restored ? *context->Find<Values>("values") : *context->Make<Values>("values",
//   kedge::Allocator<double>(*context));
//
// Made after a restart, as everything in the heap. Throws std::bad_alloc where kedge_alloc fails, whose reason
// kedge_error_message() has, and once the context has ended; to give memory back is no mistake then.
template <typename T>
class Allocator {
 public:
  static_assert(alignof(T) <= 4096, "the heap aligns no further");
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit Allocator(const Context& context);
  template <typename U>
  Allocator(const Allocator<U>& other) : link_(other.link()) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) {
    void* block = nullptr;
    const bool is_there = link_ != nullptr && *link_ != nullptr;
    if (!is_there || kedge_alloc(*link_, nullptr, count, sizeof(T), nullptr, &block) != KEDGE_OK) throw std::bad_alloc();
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t) noexcept {
    if (link_ != nullptr && *link_ != nullptr) (void)kedge_free(*link_, block);
  }
  // In the heap itself: the same after a restart.
  kedge_context* const* link() const { return link_; }
  template <typename U>
  friend bool operator==(const Allocator& a, const Allocator<U>& b) {
    return a.link() == b.link();
  }
  template <typename U>
  friend bool operator!=(const Allocator& a, const Allocator<U>& b) {
    return a.link() != b.link();
  }

 private:
  kedge_context* const* link_ = nullptr;
};

// A kedge_context. Movable; finalized without draining when it goes, unless Finalize was called.
class Context {
 public:
  // Collective over `bootstrap` when that is given.
  static Expected<Context> Open(const OpenOptions& options = {}, const kedge_bootstrap* bootstrap = nullptr) {
    return Open(options,
                [&](const kedge_options* c_options, kedge_context** out) { return kedge_init(c_options, bootstrap, out); });
  }
  // With another way to make the context; `init` is called with the options and where the context goes. For MPI:
  //   Context::Open(options, [&](auto* o, auto** out) { return kedge_mpi_init(communicator, o, out); })
  template <typename Init, std::enable_if_t<std::is_invocable_r_v<int, Init, const kedge_options*, kedge_context**>, int> = 0>
  static Expected<Context> Open(const OpenOptions& options, Init&& init) {
    kedge_options c_options = KEDGE_OPTIONS_INIT;
    c_options.job = OrNull(options.job);
    c_options.config_file = OrNull(options.config_file);
    c_options.overrides = OrNull(options.overrides);
    kedge_context* context = nullptr;
    if (int code = init(&c_options, &context)) return Error(code, kedge_error_message());
    return Context(context);
  }

  Context(Context&&) noexcept = default;
  Context& operator=(Context&&) noexcept = default;

  // Ends the context; `drain` waits until everything is at its last level and returns the first flush that failed for good.
  Expected<void> Finalize(bool drain = true) { return detail::Check(kedge_finalize(context_.release(), drain ? 1 : 0)); }
  // For the functions of kedge.h that have no member here; stays this object's.
  kedge_context* get() const { return context_.get(); }

  // ---- What a checkpoint holds ----

  // The memory stays the caller's.
  template <typename T>
  Expected<void> Protect(int id, Span<T> values, const RegionOptions& options = {}) {
    static_assert(!std::is_const_v<T>, "a restart writes into the region");
    static_assert(
        std::is_trivially_copyable_v<T>,
        "the bytes of an element are saved, and this type is more than its bytes (std::is_trivially_copyable): protect its "
        "plain members, as kedge::Span<double>(&points[0].x, 2 * count), or the whole by a kedge::Serializer");
    kedge_region_info info = InfoOf<T>(options);
    if (options.shape.size() > KEDGE_MAX_DIMENSIONS) return Error(KEDGE_ERROR_INVALID_ARGUMENT, "too many dimensions");
    info.dimensions = static_cast<int>(options.shape.size());
    for (size_t i = 0; i < options.shape.size(); ++i) info.shape[i] = options.shape[i];
    if (options.shape.empty()) {
      info.dimensions = 1;
      info.shape[0] = static_cast<int64_t>(values.size());
    }
    const auto dimensions = static_cast<size_t>(info.dimensions);
    const auto fill = [dimensions](const std::vector<int64_t>& given, int64_t* field) {
      std::copy_n(given.begin(), std::min(given.size(), dimensions), field);
      return given.empty() || given.size() == dimensions;
    };
    if (!fill(options.global_shape, info.global_shape) || !fill(options.global_offset, info.global_offset) ||
        !fill(options.halo, info.halo))
      return Error(KEDGE_ERROR_INVALID_ARGUMENT, "global shape, global offset or halo has other dimensions than the region");
    return detail::Check(kedge_protect(get(), id, values.data(), values.size(), sizeof(T), &info));
  }
  // One value.
  template <typename T, detail::IfOne<T> = 0>
  Expected<void> Protect(int id, T& value, const RegionOptions& options = {}) {
    static_assert(
        !std::is_pointer_v<T>,
        "a pointer's bytes are an address: protect what it points to, as kedge::Span<T>(pointer, count), or for memory that "
        "comes back at its address (kedge::Allocator) the pointer itself, as kedge::Span<T*>(&pointer, 1)");
    return Protect(id, Span<T>(&value, 1), options);
  }
  // A container by reference: a checkpoint takes what it has then, wherever that lies, and a restart makes it as long as it
  // was. The container stays where it is until the id is unprotected or protected anew; its changes are not tracked.
  template <typename Container, detail::IfGrows<Container> = 0>
  Expected<void> Protect(int id, Container& container, const RegionOptions& options = {}) {
    using T = typename Container::value_type;
    if (!options.shape.empty() || !options.global_shape.empty())
      return Error(KEDGE_ERROR_INVALID_ARGUMENT, "a container that grows has no shape");
    kedge_region_info info = InfoOf<T>(options);
    info.user = &container;
    info.locate = Locate<Container>;
    info.resize = Resize<Container>;
    return detail::Check(kedge_protect(get(), id, nullptr, 0, sizeof(T), &info));
  }
  // The context keeps the serializer until the id is unprotected or protected anew.
  Expected<void> Protect(int id, Serializer serializer, const std::string& name = {}) {
    auto kept = std::make_unique<Serializer>(std::move(serializer));
    kedge_object object{};
    object.struct_size = sizeof object;
    object.user = kept.get();
    object.size = Size;
    object.serialize = Serialize;
    object.deserialize = Deserialize;
    auto result = detail::Check(kedge_protect_object(get(), id, OrNull(name), &object));
    if (result) serializers_[{group_, id}] = std::move(kept);
    return result;
  }
  Expected<void> Unprotect(int id) {
    auto result = detail::Check(kedge_unprotect(get(), id));
    if (result) serializers_.erase({group_, id});
    return result;
  }
  Expected<void> Clear() { return detail::Check(kedge_clear(get())); }

  // ---- The heap: memory that a restart brings back where it was (kedge.h) ----

  // An object that is found again by its name. What it holds lies in the heap, too: containers with an Allocator. It points to
  // nothing elsewhere: no virtual functions, no std::function, no pointers to static data.
  template <typename T, typename... Arguments>
  Expected<T*> Make(const std::string& name, Arguments&&... arguments) {
    static_assert(!std::is_polymorphic_v<T>, "another process has its virtual functions elsewhere");
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.type = detail::TypeOf<T>();
    void* block = nullptr;
    if (int code = kedge_alloc(get(), name.c_str(), 1, sizeof(T), &info, &block)) return Error(code, kedge_error_message());
    struct Unless {  // it is made
      ~Unless() {
        if (block != nullptr) (void)kedge_free(context, block);
      }
      kedge_context* context;
      void* block;
    } unless{get(), block};
    T* const made = new (block) T(std::forward<Arguments>(arguments)...);
    unless.block = nullptr;
    return made;
  }
  // As many zeros.
  template <typename T, detail::IfPlain<T> = 0>
  Expected<Span<T>> MakeArray(const std::string& name, size_t count) {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.type = detail::TypeOf<T>();
    info.dimensions = 1;
    info.shape[0] = static_cast<int64_t>(count);
    void* block = nullptr;
    if (int code = kedge_alloc(get(), name.c_str(), count, sizeof(T), &info, &block)) return Error(code, kedge_error_message());
    return Span<T>(static_cast<T*>(block), count);
  }
  template <typename T>
  Expected<T*> Find(const std::string& name) {
    return FindBlock<T>(
        name, [](size_t bytes) { return bytes == sizeof(T); }, [](T* block, size_t) { return block; });
  }
  template <typename T, detail::IfPlain<T> = 0>
  Expected<Span<T>> FindArray(const std::string& name) {
    return FindBlock<T>(
        name, [](size_t bytes) { return bytes % sizeof(T) == 0; },
        [](T* block, size_t bytes) { return Span<T>(block, bytes / sizeof(T)); });
  }
  // Ends what Make has made, or Find has found.
  template <typename T>
  Expected<void> Destroy(T* block) {
    if (block != nullptr) block->~T();
    return detail::Check(kedge_free(get(), block));
  }
  // Empty: the default group.
  Expected<void> SelectGroup(const std::string& group) {
    auto result = detail::Check(kedge_group(get(), OrNull(group)));
    if (result) group_ = group;
    return result;
  }

  // ---- Checkpoints ----

  Expected<void> Checkpoint(const std::string& name, int64_t version, bool overwrite = false) {
    return detail::Check(kedge_checkpoint(get(), name.c_str(), version, overwrite ? KEDGE_OVERWRITE : 0));
  }
  Expected<void> CheckpointBegin(const std::string& name, int64_t version, bool overwrite = false) {
    return detail::Check(kedge_checkpoint_begin(get(), name.c_str(), version, overwrite ? KEDGE_OVERWRITE : 0));
  }
  Expected<void> CheckpointSome(Span<const int> ids) {
    return detail::Check(kedge_checkpoint_part(get(), KEDGE_SOME, ids.data(), ids.size()));
  }
  // All that no part has taken yet.
  Expected<void> CheckpointRest() { return detail::Check(kedge_checkpoint_part(get(), KEDGE_REST, nullptr, 0)); }
  Expected<void> Annotate(const std::string& key, std::string_view value) {
    return detail::Check(kedge_annotate(get(), key.c_str(), value.data(), value.size()));
  }
  Expected<void> CheckpointEnd(bool success = true) { return detail::Check(kedge_checkpoint_end(get(), success ? 1 : 0)); }
  // Between begin and end of a checkpoint or restart: where the file called `original` is to be written or read.
  Expected<std::string> RouteFile(const std::string& original) {
    std::string routed(4096, '\0');
    if (int code = kedge_route_file(get(), original.c_str(), routed.data(), routed.size()))
      return Error(code, kedge_error_message());
    return std::string(routed.c_str());
  }
  // Whether it is time for one, by schedule.interval. Collective, and alike on all ranks.
  Expected<bool> CheckpointDue() {
    int due = 0;
    if (int code = kedge_checkpoint_due(get(), &due)) return Error(code, kedge_error_message());
    return due != 0;
  }
  // Whether the job has been asked to end. Collective, and alike on all ranks.
  Expected<bool> ShouldExit() {
    int exit = 0;
    if (int code = kedge_should_exit(get(), &exit)) return Error(code, kedge_error_message());
    return exit != 0;
  }
  // A hint: what this rank does from now on (kedge_phase).
  Expected<void> Phase(kedge_phase_kind phase) { return detail::Check(kedge_phase(get(), phase)); }
  // The newest checkpoint of this context; a negative timeout is the configured one.
  Expected<void> Wait(kedge_level level = KEDGE_LEVEL_LAST, double timeout_seconds = -1) {
    return detail::Check(kedge_wait(get(), nullptr, 0, level, timeout_seconds));
  }
  Expected<void> Wait(const std::string& name, int64_t version, kedge_level level = KEDGE_LEVEL_LAST,
                      double timeout_seconds = -1) {
    return detail::Check(kedge_wait(get(), name.c_str(), version, level, timeout_seconds));
  }
  Expected<kedge_level> Test(const std::string& name, int64_t version) {
    kedge_level level = KEDGE_LEVEL_NONE;
    if (int code = kedge_test(get(), name.c_str(), version, &level)) return Error(code, kedge_error_message());
    return level;
  }

  // ---- Restarts ----

  // A negative `at_most` is no limit.
  Expected<int64_t> Newest(const std::string& name, int64_t at_most = -1) {
    int64_t version = -1;
    if (int code = kedge_newest(get(), name.c_str(), at_most, &version)) return Error(code, kedge_error_message());
    return version;
  }
  // The version that was restored.
  Expected<int64_t> Restart(const std::string& name, int64_t at_most = -1) {
    int64_t version = -1;
    if (int code = kedge_restart(get(), name.c_str(), at_most, &version)) return Error(code, kedge_error_message());
    return version;
  }
  Expected<void> RestartBegin(const std::string& name, int64_t version) {
    return detail::Check(kedge_restart_begin(get(), name.c_str(), version));
  }
  // In its place where the version is only read: RestartEnd then changes nothing, and the job does not go on from it.
  // The calls that follow read the image of another rank, alone; -1: this rank's again.
  Expected<void> RestartAs(int rank) { return detail::Check(kedge_restart_as(get(), rank)); }
  Expected<void> LoadBegin(const std::string& name, int64_t version) {
    return detail::Check(kedge_load_begin(get(), name.c_str(), version));
  }
  Expected<SavedRegion> Saved(int id) {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    SavedRegion saved;
    if (int code = kedge_saved_region(get(), id, &saved.bytes, &info)) return Error(code, kedge_error_message());
    saved.type = info.type;
    if (info.name != nullptr) saved.name = info.name;
    saved.shape.assign(info.shape, info.shape + info.dimensions);
    const auto end = info.global_shape + info.dimensions;
    if (std::any_of(info.global_shape, end, [](int64_t extent) { return extent != 0; })) {
      saved.global_shape.assign(info.global_shape, end);
      saved.global_offset.assign(info.global_offset, info.global_offset + info.dimensions);
    }
    return saved;
  }
  Expected<void> RestartSome(Span<const int> ids) {
    return detail::Check(kedge_restart_part(get(), KEDGE_SOME, ids.data(), ids.size()));
  }
  Expected<void> RestartRest() { return detail::Check(kedge_restart_part(get(), KEDGE_REST, nullptr, 0)); }
  Expected<std::string> Annotation(const std::string& key) {
    size_t bytes = 0;
    int code = kedge_annotation(get(), key.c_str(), nullptr, 0, &bytes);
    std::string value(bytes, '\0');
    if (bytes > 0) code = kedge_annotation(get(), key.c_str(), value.data(), value.size(), &bytes);
    if (code != KEDGE_OK) return Error(code, kedge_error_message());
    return value;
  }
  Expected<void> RestartEnd(bool success = true) { return detail::Check(kedge_restart_end(get(), success ? 1 : 0)); }

  Expected<void> Pin(const std::string& name, int64_t version, bool pinned = true) {
    return detail::Check(kedge_pin(get(), name.c_str(), version, pinned ? 1 : 0));
  }
  kedge_statistics Statistics() const {
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    (void)kedge_get_statistics(get(), &statistics);
    return statistics;
  }

 private:
  struct End {
    void operator()(kedge_context* context) const { (void)kedge_finalize(context, 0); }
  };
  explicit Context(kedge_context* context) : context_(context) {}

  static const char* OrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }
  // But for the shape. Its name is that of `options`.
  template <typename T>
  static kedge_region_info InfoOf(const RegionOptions& options) {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.name = OrNull(options.name);
    info.type = detail::TypeOf<T>();
    info.column_major = options.column_major ? 1 : 0;
    info.reinterpret = options.reinterpret ? 1 : 0;
    info.device_written = options.device_written ? 1 : 0;
    info.replicated = options.replicated ? 1 : 0;
    return info;
  }

  template <typename T, typename Fits, typename Give>
  auto FindBlock(const std::string& name, Fits fits, Give give) -> Expected<decltype(give(static_cast<T*>(nullptr), 0))> {
    void* block = nullptr;
    size_t bytes = 0;
    kedge_region_info info{};
    info.struct_size = sizeof info;
    if (int code = kedge_find(get(), name.c_str(), &block, &bytes, &info)) return Error(code, kedge_error_message());
    const bool is_type =
        info.type == KEDGE_TYPE_BYTES || detail::TypeOf<T>() == KEDGE_TYPE_BYTES || info.type == detail::TypeOf<T>();
    if (is_type && fits(bytes)) return give(static_cast<T*>(block), bytes);
    return Error(KEDGE_ERROR_MISMATCH, "block '" + name + "' has " + std::to_string(bytes) + " bytes of another type or size");
  }

  // No exception may pass through the library, which is C to its callers.
  template <typename Body>
  static int Guarded(Body&& body) noexcept {
    try {
      return body() ? 0 : 1;
    } catch (...) {
      return 2;
    }
  }
  static int Size(void* user, size_t* bytes) {
    return Guarded([&] {
      *bytes = static_cast<Serializer*>(user)->size();
      return true;
    });
  }
  template <typename Container>
  static int Locate(void* user, void** address, size_t* count) {
    auto* container = static_cast<Container*>(user);
    *address = container->data();
    *count = container->size();
    return 0;
  }
  template <typename Container>
  static int Resize(void* user, size_t count) {
    return Guarded([&] {
      static_cast<Container*>(user)->resize(count);
      return true;
    });
  }
  static int Serialize(void* user, kedge_writer* c_writer) {
    return Guarded([&] {
      Writer writer(c_writer);
      return static_cast<Serializer*>(user)->serialize(writer);
    });
  }
  static int Deserialize(void* user, kedge_reader* c_reader, size_t bytes) {
    return Guarded([&] {
      Reader reader(c_reader);
      return static_cast<Serializer*>(user)->deserialize(reader, bytes);
    });
  }

  // Destroyed last to first: the context goes before the serializers that it may still call.
  std::map<std::pair<std::string, int>, std::unique_ptr<Serializer>> serializers_;
  std::string group_;
  std::unique_ptr<kedge_context, End> context_;
};

template <typename T>
Allocator<T>::Allocator(const Context& context) {
  (void)kedge_heap(context.get(), &link_);  // allocate says it where it fails
}

}  // namespace kedge

#endif

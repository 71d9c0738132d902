// The C ABI: every function of kedge.h checks its arguments, takes the context's lock, calls the part that does the work, and
// turns the status into a code and this thread's message. Nothing is thrown out of here.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "base/last_error.h"
#include "client/api/context.h"
#include "client/core/callback.h"
#include "client/ranks/rendezvous.h"
#include "client/regions/object_stream.h"
#include "client/regions/sized_struct.h"
#include "kedge/kedge.h"
#include "os/files/private_files.h"
#include "os/process/launch_note.h"

struct kedge_context {
  std::unique_ptr<kedge::client::Context> body;
};

namespace kedge::client {
namespace {

Status CheckUsable(const kedge_context* context) {
  if (context == nullptr) return Status(Code::kInvalidArgument, "the context is null");
  const Core& core = context->body->core;
  if (core.fork_guard.InChild()) {
    return Status(Code::kFailedPrecondition, "this is a forked child: the context belongs to its parent; make one of its own");
  }
  if (core.callback_thread.load() == std::this_thread::get_id()) {
    return Status(Code::kFailedPrecondition, "a call-back may only call kedge_write and kedge_read");
  }
  return Status::Ok();
}

// Runs `body(context, lock)` under the context's lock; anything thrown becomes a status.
template <typename Body>
int Call(kedge_context* context, Body&& body) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckUsable(context));
    std::unique_lock lock(context->body->core.mutex);
    return body(*context->body, lock);
  });
}

// The same, once no checkpoint is being captured any more: of what may change or give back memory that it still has to copy, or
// counts it among what there is.
template <typename Body>
int CallCaptured(kedge_context* context, Body&& body) {
  return Call(context, [&](Context& self, std::unique_lock<std::mutex>& lock) -> Status {
    KEDGE_RETURN_IF_ERROR(self.core.AwaitCapture(lock, Deadline(SystemClock(), self.core.job.wait_timeout)));
    return body(self, lock);
  });
}

// Adds the time of its life to the blocked time. When a checkpoint was finished in it, the next interval begins.
class BlockedTime {
 public:
  BlockedTime(Context* context, bool first)
      : context_(context),
        statistics_(&context->core.statistics),
        checkpoints_(statistics_->checkpoints),
        begin_ns_(SystemClock().NowNs()) {
    if (first) statistics_->last_blocked_seconds = 0;
  }
  ~BlockedTime() {
    const double seconds = static_cast<double>(SystemClock().NowNs() - begin_ns_) * 1e-9;
    statistics_->blocked_seconds += seconds;
    statistics_->last_blocked_seconds += seconds;
    if (statistics_->checkpoints == checkpoints_) return;
    context_->session->CountCheckpoint(statistics_->last_blocked_seconds);
    context_->pace->OnCheckpointEnd();
  }
  BlockedTime(const BlockedTime&) = delete;
  BlockedTime& operator=(const BlockedTime&) = delete;

 private:
  Context* context_;
  kedge_statistics* statistics_;
  uint64_t checkpoints_;
  int64_t begin_ns_;
};

Status CheckName(const char* name) {
  if (name == nullptr) return Status(Code::kInvalidArgument, "the checkpoint name is null");
  return ValidateName(name, "checkpoint name");
}

Status CheckSelection(kedge_selection selection, const int* ids, size_t count) {
  if (selection < KEDGE_ALL || selection > KEDGE_REST) {
    return Status(Code::kInvalidArgument, "selection: expected KEDGE_ALL, KEDGE_SOME or KEDGE_REST");
  }
  if (selection == KEDGE_SOME && ids == nullptr && count > 0) return Status(Code::kInvalidArgument, "KEDGE_SOME: ids is null");
  return Status::Ok();
}

Status NotNull(const void* pointer, const char* what) {
  return pointer != nullptr ? Status::Ok() : Status(Code::kInvalidArgument, std::string(what) + " is null");
}

Status CopyText(const std::string& text, char* to, size_t capacity, const char* what) {
  if (text.size() >= capacity) {
    return Status(Code::kInvalidArgument, std::string(what) + " needs " + std::to_string(text.size() + 1) +
                                              " bytes, the buffer has " + std::to_string(capacity));
  }
  std::memcpy(to, text.c_str(), text.size() + 1);
  return Status::Ok();
}

Status BeginRestart(Context* self, const char* name, int64_t version, Restarter::Purpose purpose) {
  KEDGE_RETURN_IF_ERROR(CheckName(name));
  if (version < 0) return Status(Code::kInvalidArgument, "version: expected 0 or more");
  if (self->checkpointer->active()) return Status(Code::kFailedPrecondition, "a checkpoint has begun and not ended");
  return self->restarter->Begin(name, version, purpose);
}

Duration TimeoutOf(const Context& context, double seconds) {
  return seconds < 0 ? context.core.job.wait_timeout : FromSeconds(seconds);
}

}  // namespace
}  // namespace kedge::client

using kedge::Code;
using kedge::Guarded;
using kedge::Level;
using kedge::Result;
using kedge::Status;
using namespace kedge::client;  // NOLINT: this file is the face of that namespace

int kedge_rendezvous(const char* folder, int rank, int ranks, double timeout_seconds, kedge_bootstrap* bootstrap) {
  return Guarded([&]() -> Status {
    if (bootstrap == nullptr || folder == nullptr || *folder == '\0' || ranks < 1 || rank < 0 || rank >= ranks ||
        !(timeout_seconds > 0)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("kedge_rendezvous: needs a folder, a rank of its ranks (given: {} of {}), a timeout above 0, and "
                                "where the bootstrap goes",
                                rank, ranks));
    }
    *bootstrap = kedge_bootstrap{};
    RendezvousOptions options{folder, static_cast<uint32_t>(rank), static_cast<uint32_t>(ranks),
                              kedge::FromSeconds(std::min(timeout_seconds, 1e6))};
    KEDGE_ASSIGN_OR_RETURN(auto rendezvous, Rendezvous::Open(kedge::os::PrivateFileSystem(), std::move(options)));
    *bootstrap = Rendezvous::ToBootstrap(std::move(rendezvous));
    return Status::Ok();
  });
}

int kedge_init(const kedge_options* options, const kedge_bootstrap* bootstrap, kedge_context** out) {
  return Guarded([&]() -> Status {
    if (out == nullptr) {
      if (bootstrap != nullptr && bootstrap->release != nullptr) bootstrap->release(bootstrap->user);
      return Status(Code::kInvalidArgument, "kedge_init: out is null");
    }
    *out = nullptr;
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<Context> body, Context::Create(options, bootstrap));
    *out = new kedge_context{std::move(body)};
    (*out)->body->core.heap.SetOwner(*out);
    return Status::Ok();
  });
}

int kedge_finalize(kedge_context* context, int drain) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(CheckUsable(context));
    Status status = context->body->Finalize(drain != 0);
    delete context;
    return status;
  });
}

int kedge_protect(kedge_context* context, int id, void* address, size_t count, size_t element_bytes,
                  const kedge_region_info* info) {
  return CallCaptured(context, [&](Context& self, auto&) {
    const CallbackScope scope(&self.core);
    return self.core.regions.current().Protect(id, address, count, element_bytes, info);
  });
}

int kedge_unprotect(kedge_context* context, int id) {
  return CallCaptured(context, [&](Context& self, auto&) { return self.core.regions.current().Unprotect(id); });
}

int kedge_clear(kedge_context* context) {
  return CallCaptured(context, [&](Context& self, auto&) {
    self.core.regions.current().Clear();
    return Status::Ok();
  });
}

int kedge_protect_object(kedge_context* context, int id, const char* name, const kedge_object* object) {
  return CallCaptured(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(object, "object"));
    return self.core.regions.current().ProtectObject(id, name, *object);
  });
}

int kedge_write(kedge_writer* writer, const void* data, size_t bytes) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(writer, "writer"));
    if (bytes > 0) KEDGE_RETURN_IF_ERROR(NotNull(data, "data"));
    if (writer->status.ok()) writer->status = writer->capture->Append(data, bytes);
    return writer->status;
  });
}

int kedge_read(kedge_reader* reader, void* data, size_t bytes) {
  return Guarded([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(reader, "reader"));
    if (bytes > 0) KEDGE_RETURN_IF_ERROR(NotNull(data, "data"));
    return reader->Read(data, bytes);
  });
}

int kedge_group(kedge_context* context, const char* group) {
  return Call(context, [&](Context& self, auto&) -> Status {
    const std::string name = group == nullptr ? "" : group;
    if (!name.empty()) KEDGE_RETURN_IF_ERROR(kedge::ValidateName(name, "group name"));
    if (self.checkpointer->active() || self.restarter->active()) {
      return Status(Code::kFailedPrecondition, "the group cannot change between begin and end");
    }
    self.core.regions.Select(name);
    return Status::Ok();
  });
}

int kedge_alloc(kedge_context* context, const char* name, size_t count, size_t element_bytes, const kedge_region_info* info,
                void** block) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(block, "block"));
    *block = nullptr;
    if (name != nullptr) KEDGE_RETURN_IF_ERROR(kedge::ValidateName(name, "block name"));
    KEDGE_ASSIGN_OR_RETURN(*block, self.core.heap.Allocate(name, count, element_bytes, info));
    return Status::Ok();
  });
}

int kedge_realloc(kedge_context* context, void* block, size_t bytes, void** resized) {
  return CallCaptured(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(resized, "resized"));
    KEDGE_ASSIGN_OR_RETURN(*resized, self.core.heap.Reallocate(block, bytes));
    return Status::Ok();
  });
}

int kedge_free(kedge_context* context, void* block) {
  return CallCaptured(context, [&](Context& self, auto&) { return self.core.heap.Free(block); });
}

int kedge_detach(kedge_context* context, void* block) {
  return CallCaptured(context, [&](Context& self, auto&) { return self.core.heap.Detach(block); });
}

int kedge_find(kedge_context* context, const char* name, void** block, size_t* bytes, kedge_region_info* info) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(name, "name"));
    KEDGE_RETURN_IF_ERROR(NotNull(block, "block"));
    KEDGE_RETURN_IF_ERROR(CheckSized(info, "kedge_region_info"));
    *block = nullptr;
    if (bytes != nullptr) *bytes = 0;
    KEDGE_ASSIGN_OR_RETURN(const DeclaredRegion* const found, self.core.heap.Find(name));
    *block = found->address;
    if (bytes != nullptr) *bytes = found->description.bytes;
    if (info != nullptr) FillRegionInfo(found->description, info);
    return Status::Ok();
  });
}

int kedge_heap(kedge_context* context, kedge_context* const** link) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_ASSIGN_OR_RETURN(kedge_context* const* const place, self.core.heap.Link());
    if (link != nullptr) *link = place;
    return Status::Ok();
  });
}

int kedge_hold(kedge_context* context, const void* block, size_t* bytes) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_ASSIGN_OR_RETURN(const uint64_t size, self.core.heap.Hold(block));
    if (bytes != nullptr) *bytes = size;
    return Status::Ok();
  });
}

int kedge_heap_range(kedge_context* context, void** address, size_t* bytes) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(address, "address"));
    KEDGE_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    std::tie(*address, *bytes) = self.core.heap.range();
    return Status::Ok();
  });
}

int kedge_heap_take(kedge_context* context, size_t bytes, int zeroed, void** block) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(block, "block"));
    *block = nullptr;
    KEDGE_ASSIGN_OR_RETURN(*block, self.core.heap.Take(bytes, zeroed != 0));
    return Status::Ok();
  });
}

int kedge_heap_malloc(kedge_context* context, size_t* from, char* by, size_t capacity) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(from, "from"));
    KEDGE_RETURN_IF_ERROR(NotNull(by, "by"));
    *from = self.core.job.malloc.from;
    return CopyText(self.core.job.malloc.by, by, capacity, "heap.malloc_by");
  });
}

int kedge_checkpoint(kedge_context* context, const char* name, int64_t version, unsigned flags) {
  return Call(context, [&](Context& self, std::unique_lock<std::mutex>& lock) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckName(name));
    const BlockedTime blocked(&self, true);
    self.pace->OnCheckpointBegin();
    return self.checkpointer->Whole(lock, name, version, (flags & KEDGE_OVERWRITE) != 0);
  });
}

int kedge_checkpoint_begin(kedge_context* context, const char* name, int64_t version, unsigned flags) {
  return Call(context, [&](Context& self, std::unique_lock<std::mutex>& lock) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckName(name));
    const BlockedTime blocked(&self, true);
    self.pace->OnCheckpointBegin();
    return self.checkpointer->Begin(lock, name, version, (flags & KEDGE_OVERWRITE) != 0);
  });
}

int kedge_checkpoint_part(kedge_context* context, kedge_selection selection, const int* ids, size_t count) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckSelection(selection, ids, count));
    const BlockedTime blocked(&self, false);
    return self.checkpointer->Part(selection, ids, count);
  });
}

int kedge_route_file(kedge_context* context, const char* original, char* routed, size_t routed_bytes) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(original, "original"));
    KEDGE_RETURN_IF_ERROR(NotNull(routed, "routed"));
    if (!self.checkpointer->active() && !self.restarter->active()) {
      return Status(Code::kFailedPrecondition, "route_file belongs between begin and end of a checkpoint or restart");
    }
    KEDGE_ASSIGN_OR_RETURN(const std::string path, self.checkpointer->active() ? self.checkpointer->RouteFile(original)
                                                                               : self.restarter->RouteFile(original));
    return CopyText(path, routed, routed_bytes, "the routed path");
  });
}

int kedge_annotate(kedge_context* context, const char* key, const void* value, size_t bytes) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(key, "key"));
    if (bytes > 0) KEDGE_RETURN_IF_ERROR(NotNull(value, "value"));
    return self.checkpointer->Annotate(key, {static_cast<const char*>(value), bytes});
  });
}

int kedge_checkpoint_end(kedge_context* context, int success) {
  return Call(context, [&](Context& self, auto&) -> Status {
    const BlockedTime blocked(&self, false);
    return self.checkpointer->End(success != 0);
  });
}

int kedge_checkpoint_due(kedge_context* context, int* due) {
  return Call(context, [&](Context& self, std::unique_lock<std::mutex>& lock) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(due, "due"));
    *due = 0;
    self.session->NoteStep();
    KEDGE_ASSIGN_OR_RETURN(const bool is_due, self.pace->IsDue(lock));
    *due = is_due ? 1 : 0;
    return Status::Ok();
  });
}

int kedge_phase(kedge_context* context, kedge_phase_kind phase) {
  return Call(context, [&](Context& self, auto&) -> Status {
    if (phase != KEDGE_PHASE_COMPUTATION && phase != KEDGE_PHASE_COMMUNICATION) {
      return Status(Code::kInvalidArgument, "phase: expected KEDGE_PHASE_COMPUTATION or KEDGE_PHASE_COMMUNICATION");
    }
    self.session->NotePhase(phase == KEDGE_PHASE_COMMUNICATION);
    return Status::Ok();
  });
}

int kedge_should_exit(kedge_context* context, int* exit) {
  return Call(context, [&](Context& self, std::unique_lock<std::mutex>& lock) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(exit, "exit"));
    *exit = 0;
    KEDGE_ASSIGN_OR_RETURN(const bool should_exit, self.pace->ShouldExit(lock));
    *exit = should_exit ? 1 : 0;
    return Status::Ok();
  });
}

int kedge_wait(kedge_context* context, const char* name, int64_t version, kedge_level level, double timeout_seconds) {
  return Call(context, [&](Context& self, std::unique_lock<std::mutex>& lock) -> Status {
    if (level == KEDGE_LEVEL_NONE) return Status::Ok();
    if (level == KEDGE_LEVEL_NODE && !self.core.protects) {
      return Status(Code::kUnsupported,
                    "level NODE needs a protect.scheme, which is not configured; wait for LOCAL, BUFFER, STORE or LAST");
    }
    if (level != KEDGE_LEVEL_LOCAL && level != KEDGE_LEVEL_NODE && level != KEDGE_LEVEL_BUFFER && level != KEDGE_LEVEL_STORE &&
        level != KEDGE_LEVEL_LAST) {
      return Status(Code::kInvalidArgument,
                    "level: expected KEDGE_LEVEL_LOCAL, KEDGE_LEVEL_NODE, KEDGE_LEVEL_BUFFER, KEDGE_LEVEL_STORE or "
                    "KEDGE_LEVEL_LAST");
    }
    const std::string wanted = name == nullptr ? "" : name;
    return self.levels->Wait(lock, wanted, version, static_cast<Level>(level), TimeoutOf(self, timeout_seconds));
  });
}

int kedge_test(kedge_context* context, const char* name, int64_t version, kedge_level* level) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckName(name));
    KEDGE_RETURN_IF_ERROR(NotNull(level, "level"));
    *level = KEDGE_LEVEL_NONE;
    KEDGE_ASSIGN_OR_RETURN(const Level reached, self.levels->Test(name, version));
    *level = static_cast<kedge_level>(reached);
    return Status::Ok();
  });
}

int kedge_pending(kedge_context* context) {
  return Call(context, [&](Context& self, auto&) { return self.levels->Pending(); });
}

int kedge_last_flush_error(kedge_context* context, char* name, size_t name_bytes, int64_t* version) {
  return Call(context, [&](Context& self, auto&) -> Status {
    self.session->Pump();
    const std::optional<FlushFailure> failure = self.session->TakeFailure();
    if (!failure) return Status::Ok();
    if (name != nullptr && name_bytes > 0) {
      const size_t bytes = std::min(failure->name.size(), name_bytes - 1);
      std::memcpy(name, failure->name.data(), bytes);
      name[bytes] = '\0';
    }
    if (version != nullptr) *version = failure->version;
    return failure->status;
  });
}

int kedge_newest(kedge_context* context, const char* name, int64_t at_most, int64_t* version) {
  return CallCaptured(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckName(name));
    KEDGE_RETURN_IF_ERROR(NotNull(version, "version"));
    KEDGE_ASSIGN_OR_RETURN(*version, self.restarter->Newest(name, at_most));
    return Status::Ok();
  });
}

int kedge_restart(kedge_context* context, const char* name, int64_t at_most, int64_t* restored) {
  return CallCaptured(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckName(name));
    if (self.checkpointer->active()) return Status(Code::kFailedPrecondition, "a checkpoint has begun and not ended");
    const Result<int64_t> version = self.restarter->Whole(name, at_most);
    // The program declares other memory than the version has, and will do so again.
    if (version.status().code() == Code::kMismatch) kedge::os::LeaveRefusal(version.status());
    KEDGE_RETURN_IF_ERROR(version.status());
    if (self.restarter->goes_on()) self.pace->OnRestart();
    if (restored != nullptr) *restored = *version;
    return Status::Ok();
  });
}

int kedge_restart_begin(kedge_context* context, const char* name, int64_t version) {
  return CallCaptured(context,
                      [&](Context& self, auto&) { return BeginRestart(&self, name, version, Restarter::Purpose::kRestore); });
}

int kedge_load_begin(kedge_context* context, const char* name, int64_t version) {
  return CallCaptured(context,
                      [&](Context& self, auto&) { return BeginRestart(&self, name, version, Restarter::Purpose::kRead); });
}

int kedge_saved_region(kedge_context* context, int id, size_t* bytes, kedge_region_info* info) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    KEDGE_RETURN_IF_ERROR(CheckSized(info, "kedge_region_info"));
    *bytes = 0;
    KEDGE_RETURN_IF_ERROR(self.restarter->Record().status());
    const kedge::Region* region = self.restarter->FindSaved(id);
    if (region == nullptr) return Status(Code::kNotFound, "region " + std::to_string(id) + " is not in the checkpoint");
    *bytes = region->bytes;
    if (info != nullptr) FillRegionInfo(*region, info);
    return Status::Ok();
  });
}

int kedge_saved_ids(kedge_context* context, int* ids, size_t capacity, size_t* count) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(count, "count"));
    if (capacity > 0) KEDGE_RETURN_IF_ERROR(NotNull(ids, "ids"));
    *count = 0;
    KEDGE_ASSIGN_OR_RETURN(const kedge::ImageRecord* record, self.restarter->Record());
    for (const kedge::Region& region : record->regions) {
      if (region.kind == kedge::RegionKind::kFile) continue;
      if (*count < capacity) ids[*count] = region.id;
      ++*count;
    }
    return Status::Ok();
  });
}

int kedge_restart_part(kedge_context* context, kedge_selection selection, const int* ids, size_t count) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckSelection(selection, ids, count));
    return self.restarter->Part(selection, ids, count);
  });
}

int kedge_annotation(kedge_context* context, const char* key, void* value, size_t capacity, size_t* bytes) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(key, "key"));
    KEDGE_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    *bytes = 0;
    KEDGE_ASSIGN_OR_RETURN(const kedge::ImageRecord* record, self.restarter->Record());
    for (const kedge::Annotation& annotation : record->annotations) {
      if (annotation.key != key) continue;
      *bytes = annotation.value.size();
      if (*bytes > capacity) {
        return Status(Code::kInvalidArgument, "annotation '" + annotation.key + "' has " + std::to_string(*bytes) +
                                                  " bytes, the buffer has " + std::to_string(capacity));
      }
      if (*bytes > 0) {
        KEDGE_RETURN_IF_ERROR(NotNull(value, "value"));
        std::memcpy(value, annotation.value.data(), *bytes);
      }
      return Status::Ok();
    }
    return Status(Code::kNotFound, std::string("annotation '") + key + "' is not in the checkpoint");
  });
}

int kedge_restart_end(kedge_context* context, int success) {
  return Call(context, [&](Context& self, auto&) -> Status {
    const bool goes_on = self.restarter->goes_on();
    KEDGE_RETURN_IF_ERROR(self.restarter->End(success != 0));
    if (goes_on) self.pace->OnRestart();
    return Status::Ok();
  });
}

int kedge_restart_as(kedge_context* context, int rank) {
  return Call(context, [&](Context& self, auto&) { return self.restarter->As(rank); });
}

int kedge_cleanup(kedge_context* context, const char* name) {
  return CallCaptured(context, [&](Context& self, auto&) -> Status {
    if (name != nullptr) KEDGE_RETURN_IF_ERROR(CheckName(name));
    return self.levels->Cleanup(name == nullptr ? "" : name);
  });
}

int kedge_pin(kedge_context* context, const char* name, int64_t version, int pinned) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(CheckName(name));
    return self.levels->Pin(name, version, pinned != 0);
  });
}

int kedge_get_statistics(kedge_context* context, kedge_statistics* out) {
  return Call(context, [&](Context& self, auto&) -> Status {
    KEDGE_RETURN_IF_ERROR(NotNull(out, "statistics"));
    KEDGE_RETURN_IF_ERROR(CheckSized(out, "kedge_statistics"));
    kedge_statistics statistics = self.core.statistics;
    statistics.flush_failures = self.session->failures();
    statistics.checkpoint_interval_seconds = kedge::ToSeconds(self.pace->interval());
    statistics.struct_size = out->struct_size;
    std::memcpy(static_cast<void*>(out), &statistics, std::min(out->struct_size, sizeof statistics));
    return Status::Ok();
  });
}

// veloc.h over kedge.h: one context a process, VELOC's selections and groups, its return values.
//
// VELOC's API has no handle, so this file holds the one state that it forces (under a lock). A checkpoint called NAME holds
// the regions of the group NAME when there are any, and the unnamed ones otherwise. Failures are logged with Kedge's reason.
#include "kedge/veloc.h"

#include <errno.h>
#include <fmt/format.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "kedge/kedge_mpi.h"
#include "mpi/veloc_config.h"
#include "os/files/file_system.h"
#include "os/files/files.h"

namespace {

constexpr uint64_t kConfigBytesMax = 1 << 20;
constexpr char kNoGroup[] = "";

struct State {
  kedge_context* context = nullptr;
  std::map<std::string, std::set<int>> ids;  // protected, by group
  std::string group;                         // of the checkpoint or restart under way
  bool checkpointed = false;
};

std::mutex mutex;
State state;

int Fail(const char* call, const std::string& why) {
  kedge::LogError("veloc", "{}: {}", call, why);
  return VELOC_FAILURE;
}

// A code of Kedge as VELOC's, logged when it is an error.
int Done(const char* call, int code) {
  if (code == KEDGE_OK) return VELOC_SUCCESS;
  return Fail(call, kedge_error_message());
}

// Runs `body` under the lock when VELOC is initialised. Nothing is thrown into a C program.
template <typename Body>
int Call(const char* call, Body&& body) {
  try {
    const std::lock_guard lock(mutex);
    if (state.context == nullptr) return Fail(call, "VELOC_Init has not been called");
    return body();
  } catch (const std::exception& error) {
    return Fail(call, error.what());
  }
}

kedge::Result<kedge::VelocConfig> ReadConfig(const char* path) {
  if (path == nullptr) return kedge::Status(kedge::Code::kInvalidArgument, "the configuration file is not named");
  KEDGE_ASSIGN_OR_RETURN(const std::string text, kedge::os::ReadFile(kedge::os::SystemFileSystem(), path, kConfigBytesMax));
  return kedge::ParseVelocConfig(text, path, [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

// `start` gets the options and makes the context.
template <typename Start>
int Initialise(const char* call, const char* cfg_file, const std::string& job, Start&& start) {
  try {
    const std::lock_guard lock(mutex);
    if (state.context != nullptr) return Fail(call, "VELOC is initialised already; one context a process");
    auto config = ReadConfig(cfg_file);
    // All ranks must fail alike, so a rank whose file is bad takes part in the init with settings that are refused.
    const std::string overrides = config.ok() ? config->overrides : "veloc.configuration=unreadable\n";
    if (config.ok()) {
      for (const std::string& warning : config->warnings) kedge::LogWarning("veloc", "{}", warning);
    } else {
      (void)Fail(call, config.status().message());
    }
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    options.job = job.empty() ? nullptr : job.c_str();
    state = State{};
    return Done(call, start(&options, &state.context));
  } catch (const std::exception& error) {
    return Fail(call, error.what());
  }
}

// Selects the group for the calls of Kedge that follow.
int Select(const std::string& group) {
  return kedge_group(state.context, group.empty() ? nullptr : group.c_str());
}

std::string GroupOf(const char* checkpoint_name) {
  const auto group = state.ids.find(checkpoint_name);
  return group != state.ids.end() && !group->second.empty() ? checkpoint_name : kNoGroup;
}

int Protect(const char* call, int id, void* ptr, size_t count, size_t base_size, const std::string& group) {
  if (Select(group) != KEDGE_OK) return Done(call, KEDGE_ERROR_FAILED_PRECONDITION);
  const int result = Done(call, kedge_protect(state.context, id, ptr, count, base_size, nullptr));
  if (result == VELOC_SUCCESS) state.ids[group].insert(id);
  return result;
}

int Unprotect(const char* call, int id, const std::string& group) {
  if (Select(group) != KEDGE_OK) return Done(call, KEDGE_ERROR_FAILED_PRECONDITION);
  state.ids[group].erase(id);
  return Done(call, kedge_unprotect(state.context, id));
}

int Clear(const char* call, const std::string& group) {
  if (Select(group) != KEDGE_OK) return Done(call, KEDGE_ERROR_FAILED_PRECONDITION);
  state.ids[group].clear();
  return Done(call, kedge_clear(state.context));
}

// The ids of the present group that `mode` means. VELOC's REST is all ids that are not given; ids that are given but not
// protected are passed over, as VELOC does.
std::optional<std::vector<int>> Selected(const char* call, int mode, const int* ids, int count) {
  if (mode < VELOC_CKPT_ALL || mode > VELOC_CKPT_REST || count < 0 || (ids == nullptr && count > 0 && mode != VELOC_CKPT_ALL)) {
    (void)Fail(call, fmt::format("mode {} with {} ids: expected ALL, or SOME or REST with an array of ids", mode, count));
    return std::nullopt;
  }
  std::set<int> named;
  if (mode != VELOC_CKPT_ALL && count > 0) named.insert(ids, ids + count);
  std::vector<int> selected;
  for (int id : state.ids[state.group]) {
    const bool is_named = named.contains(id);
    if (mode == VELOC_CKPT_ALL || (mode == VELOC_CKPT_SOME) == is_named) selected.push_back(id);
  }
  if (selected.empty()) {
    (void)Fail(call, "no protected region is selected");
    return std::nullopt;
  }
  return selected;
}

int CheckpointPart(const char* call, int mode, const int* ids, int count) {
  const auto selected = Selected(call, mode, ids, count);
  if (!selected) return VELOC_FAILURE;
  return Done(call, kedge_checkpoint_part(state.context, KEDGE_SOME, selected->data(), selected->size()));
}

int RestartPart(const char* call, int mode, const int* ids, int count) {
  const auto selected = Selected(call, mode, ids, count);
  if (!selected) return VELOC_FAILURE;
  return Done(call, kedge_restart_part(state.context, KEDGE_SOME, selected->data(), selected->size()));
}

int Begin(const char* call, const char* name, int version, bool checkpoint) {
  if (name == nullptr || std::string_view(name).size() >= VELOC_MAX_NAME) return Fail(call, "the name is missing or too long");
  const std::string group = GroupOf(name);
  const int selected = Select(group);
  if (!checkpoint) {
    if (selected != KEDGE_OK) return Done(call, selected);
    state.group = group;
    return Done(call, kedge_restart_begin(state.context, name, version));
  }
  // Begun also where that cannot be: a call that one rank alone is refused counts there, as it does on the others. The usual loop
  // takes version v again right after a restart from v.
  const int result = Done(call, kedge_checkpoint_begin(state.context, name, version, KEDGE_OVERWRITE));
  if (result != VELOC_SUCCESS) return result;
  if (selected != KEDGE_OK) {
    (void)kedge_checkpoint_end(state.context, 0);
    return Fail(call, "a restart has begun and not ended");
  }
  state.group = group;
  return result;
}

int End(const char* call, int success) {
  const int result = Done(call, kedge_checkpoint_end(state.context, success));
  if (result == VELOC_SUCCESS && success) state.checkpointed = true;
  return result;
}

}  // namespace

int VELOC_Init(MPI_Comm comm, const char* cfg_file) {
  return Initialise("VELOC_Init", cfg_file, "",
                    [&](const kedge_options* options, kedge_context** out) { return kedge_mpi_init(comm, options, out); });
}

int VELOC_Init_single(unsigned int id, const char* cfg_file) {
  const std::string job = fmt::format("{}-single-{}", program_invocation_short_name, id);
  return Initialise("VELOC_Init_single", cfg_file, job,
                    [&](const kedge_options* options, kedge_context** out) { return kedge_init(options, nullptr, out); });
}

int VELOC_Finalize(int drain) {
  return Call("VELOC_Finalize", [&] {
    kedge_context* const context = state.context;
    state = State{};
    return Done("VELOC_Finalize", kedge_finalize(context, drain));
  });
}

int VELOC_Mem_protect(int id, void* ptr, size_t count, size_t base_size) {
  return Call("VELOC_Mem_protect", [&] { return Protect("VELOC_Mem_protect", id, ptr, count, base_size, kNoGroup); });
}

int VELOC_Mem_unprotect(int id) {
  return Call("VELOC_Mem_unprotect", [&] { return Unprotect("VELOC_Mem_unprotect", id, kNoGroup); });
}

int VELOC_Mem_clear(void) {
  return Call("VELOC_Mem_clear", [&] { return Clear("VELOC_Mem_clear", kNoGroup); });
}

int VELOC_Region_protect(int id, void* ptr, size_t count, size_t base_size, const char* name) {
  return Call("VELOC_Region_protect", [&] {
    if (name == nullptr) return Fail("VELOC_Region_protect", "the name is null");
    return Protect("VELOC_Region_protect", id, ptr, count, base_size, name);
  });
}

int VELOC_Region_unprotect(int id, const char* name) {
  return Call("VELOC_Region_unprotect", [&] {
    if (name == nullptr) return Fail("VELOC_Region_unprotect", "the name is null");
    return Unprotect("VELOC_Region_unprotect", id, name);
  });
}

int VELOC_Region_clear(const char* name) {
  return Call("VELOC_Region_clear", [&] {
    if (name == nullptr) return Fail("VELOC_Region_clear", "the name is null");
    return Clear("VELOC_Region_clear", name);
  });
}

int VELOC_Route_file(const char* original, char* routed) {
  return Call("VELOC_Route_file",
              [&] { return Done("VELOC_Route_file", kedge_route_file(state.context, original, routed, VELOC_MAX_NAME)); });
}

int VELOC_Cleanup(const char* name) {
  return Call("VELOC_Cleanup", [&] { return Done("VELOC_Cleanup", kedge_cleanup(state.context, name)); });
}

int VELOC_Checkpoint_begin(const char* name, int version) {
  return Call("VELOC_Checkpoint_begin", [&] { return Begin("VELOC_Checkpoint_begin", name, version, true); });
}

int VELOC_Checkpoint_selective(int mode, int* ids, int id_count) {
  return Call("VELOC_Checkpoint_selective", [&] { return CheckpointPart("VELOC_Checkpoint_selective", mode, ids, id_count); });
}

int VELOC_Checkpoint_mem(void) {
  return Call("VELOC_Checkpoint_mem", [&] { return CheckpointPart("VELOC_Checkpoint_mem", VELOC_CKPT_ALL, nullptr, 0); });
}

int VELOC_Checkpoint_end(int success) {
  return Call("VELOC_Checkpoint_end", [&] { return End("VELOC_Checkpoint_end", success); });
}

int VELOC_Checkpoint_wait(void) {
  return Call("VELOC_Checkpoint_wait", [&] {
    if (!state.checkpointed) return VELOC_SUCCESS;
    return Done("VELOC_Checkpoint_wait", kedge_wait(state.context, nullptr, 0, KEDGE_LEVEL_LAST, -1));
  });
}

int VELOC_Checkpoint_finished(void) {
  return Call("VELOC_Checkpoint_finished", [&] {
    const int code = kedge_pending(state.context);
    return code == KEDGE_ERROR_BUSY ? VELOC_FAILURE : Done("VELOC_Checkpoint_finished", code);
  });
}

int VELOC_Checkpoint(const char* name, int version) {
  return Call("VELOC_Checkpoint", [&] {
    constexpr char kCall[] = "VELOC_Checkpoint";
    if (Begin(kCall, name, version, true) != VELOC_SUCCESS) return VELOC_FAILURE;
    const int result = CheckpointPart(kCall, VELOC_CKPT_ALL, nullptr, 0);
    const int ended = End(kCall, result == VELOC_SUCCESS ? 1 : 0);
    return result == VELOC_SUCCESS ? ended : VELOC_FAILURE;
  });
}

int VELOC_Restart_test(const char* name, int version) {
  return Call("VELOC_Restart_test", [&] {
    int64_t newest = -1;
    const int code = kedge_newest(state.context, name, version > 0 ? version : -1, &newest);
    if (code == KEDGE_ERROR_NOT_FOUND) return VELOC_FAILURE;
    if (code != KEDGE_OK) return Done("VELOC_Restart_test", code);
    if (newest > INT_MAX) return Fail("VELOC_Restart_test", fmt::format("version {} does not fit an int", newest));
    return static_cast<int>(newest);
  });
}

int VELOC_Restart_begin(const char* name, int version) {
  return Call("VELOC_Restart_begin", [&] { return Begin("VELOC_Restart_begin", name, version, false); });
}

int VELOC_Recover_selective(int mode, int* ids, int id_count) {
  return Call("VELOC_Recover_selective", [&] { return RestartPart("VELOC_Recover_selective", mode, ids, id_count); });
}

int VELOC_Recover_size(int id) {
  return Call("VELOC_Recover_size", [&] {
    size_t bytes = 0;
    const int code = kedge_saved_region(state.context, id, &bytes, nullptr);
    if (code == KEDGE_ERROR_NOT_FOUND) return 0;
    if (code != KEDGE_OK) return Done("VELOC_Recover_size", code);
    if (bytes > INT_MAX)
      return Fail("VELOC_Recover_size", fmt::format("region {} has {} bytes, which does not fit an int", id, bytes));
    return static_cast<int>(bytes);
  });
}

int VELOC_Recover_mem(void) {
  return Call("VELOC_Recover_mem", [&] { return RestartPart("VELOC_Recover_mem", VELOC_RECOVER_ALL, nullptr, 0); });
}

int VELOC_Restart_end(int success) {
  return Call("VELOC_Restart_end", [&] { return Done("VELOC_Restart_end", kedge_restart_end(state.context, success)); });
}

int VELOC_Restart(const char* name, int version) {
  return Call("VELOC_Restart", [&] {
    constexpr char kCall[] = "VELOC_Restart";
    if (Begin(kCall, name, version, false) != VELOC_SUCCESS) return VELOC_FAILURE;
    const int result = RestartPart(kCall, VELOC_RECOVER_ALL, nullptr, 0);
    const int ended = Done(kCall, kedge_restart_end(state.context, result == VELOC_SUCCESS ? 1 : 0));
    return result == VELOC_SUCCESS ? ended : VELOC_FAILURE;
  });
}

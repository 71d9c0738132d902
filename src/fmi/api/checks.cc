#include "fmi/api/checks.h"

#include <fmt/format.h>

#include <cstdio>

#include "fmi/failure.h"
#include "os/process/signals.h"

namespace kedge::fmi {
namespace {

// A handle that stands for nothing: told by `what`, unless a failure excuses it.
void CheckExcused(const char* call, const char* what, int handle, bool was_given) {
  if (!was_given) Die(call, fmt::format("there is no {} {}", what, handle));
  if (TheJob()->messenger().is_broken()) return TheJob()->WaitUnlessSurvivable();
  Die(call, fmt::format("{} {} is gone: it was freed, or made after the checkpoint that has come back", what, handle));
}

}  // namespace

void EndProcess(int code) {
  std::fflush(nullptr);
  os::ExitNow(code);
}

void Die(const char* call, const std::string& why) {
  const std::string who = TheJob() ? fmt::format("rank {}: ", TheJob()->messenger().rank()) : "";
  std::fprintf(stderr, "FMI: %s%s: %s\n", who.c_str(), call, why.c_str());
  EndProcess(1);
}

int AnswerFailed() {
  // After that FMI_Loop takes the next step, and does not go back.
  if (TheJob()->messenger().is_broken()) FailureExit::Get().Leave();
  return FMI_ERR_PROC_FAILED;
}

int Answer(const char* call, const Status& status) {
  JobMember& job = *TheJob();
  if (status.ok()) {
    if (job.freed_requests().empty()) return FMI_SUCCESS;
    const Status swept = job.freed_requests().Sweep(&job.messenger(), &job.packed_messages());
    return swept.ok() ? FMI_SUCCESS : Answer(call, swept);
  }
  if (status.code() != Code::kUnavailable) Die(call, status.message());
  job.WaitUnlessSurvivable();
  return AnswerFailed();
}

Communicator* NoCommunicator(const char* call, FMI_Comm comm) {
  if (comm == FMI_COMM_NULL) Die(call, "the communicator is FMI_COMM_NULL");
  CheckExcused(call, "communicator", comm, TheJob()->objects().communicators.WasTaken(comm));
  return nullptr;
}

std::shared_ptr<const Group> GroupIn(const char* call, FMI_Group group) {
  auto& groups = JobIn(call).objects().groups;
  if (group == FMI_GROUP_EMPTY) return std::make_shared<Group>();
  if (group == FMI_GROUP_NULL) Die(call, "the group is FMI_GROUP_NULL");
  const auto* found = groups.Find(group);
  if (found != nullptr) return *found;
  CheckExcused(call, "group", group, groups.WasTaken(group));
  return nullptr;
}

DerivedType& DerivedTypeIn(const char* call, FMI_Datatype type) {
  auto& types = JobIn(call).objects().types;
  DerivedType* found = types.Find(type);
  if (found != nullptr) return *found;
  if (type == FMI_DATATYPE_NULL) Die(call, "the type is FMI_DATATYPE_NULL");
  if (!types.WasTaken(type)) Die(call, fmt::format("there is no type {}", type));
  Die(call, fmt::format("type {} has been freed", type));
}

std::shared_ptr<const TypeMap> TypeMapIn(const char* call, FMI_Datatype type) {
  if (IsBasic(type)) return std::make_shared<TypeMap>(TypeMap::Basic(BytesOf(type), AlignmentOf(type)));
  return DerivedTypeIn(call, type).map;
}

void DieOfCount(const char* call, int count) {
  Die(call, fmt::format("the count is {}", count));
}

void DieOfNull(const char* call, const char* what) {
  Die(call, fmt::format("{} is NULL", what));
}

void DieOfRank(const char* call, int rank, const char* what, uint32_t ranks) {
  Die(call, fmt::format("the {} is {}, and there are {} ranks", what, rank, ranks));
}

Elements CheckedDerivedElements(const char* call, const void* data, uint64_t count, FMI_Datatype type) {
  const DerivedType& derived = DerivedTypeIn(call, type);
  if (!derived.is_committed) Die(call, fmt::format("type {} has not been committed", type));
  Elements elements;
  elements.data = const_cast<void*>(data);
  if (__builtin_mul_overflow(count, derived.map->bytes(), &elements.bytes) || elements.bytes > PTRDIFF_MAX) {
    Die(call, fmt::format("{} elements of type {} are more than memory holds", count, type));
  }
  if (elements.bytes == 0) return elements;
  if (const auto place = derived.map->Place(count)) {
    elements.data = static_cast<std::byte*>(elements.data) + *place;
  } else {
    elements.count = count;
    elements.map = derived.map;
  }
  return elements;
}

ptrdiff_t ExtentOf(const char* call, FMI_Datatype type) {
  return IsBasic(type) ? static_cast<ptrdiff_t>(BytesOf(type)) : DerivedTypeIn(call, type).map->extent();
}

}  // namespace kedge::fmi

#include "fmi/api/checks.h"

#include <fmt/format.h>

#include <cstdio>

#include "fmi/datatypes.h"
#include "os/process/signals.h"

namespace kedge::fmi {
namespace {

// A handle that stands for nothing: told by `what`, unless a failure excuses it.
void CheckExcused(const char* call, const char* what, int handle, bool was_given) {
  if (!was_given) Die(call, fmt::format("there is no {} {}", what, handle));
  if (TheJob()->messenger().is_broken()) return;
  Die(call, fmt::format("{} {} is gone: it was freed, or made after the checkpoint that has come back", what, handle));
}

}  // namespace

std::unique_ptr<Job>& TheJob() {
  static std::unique_ptr<Job> job;
  return job;
}

void EndProcess(int code) {
  std::fflush(nullptr);
  os::ExitNow(code);
}

void Die(const char* call, const std::string& why) {
  const std::string who = TheJob() ? fmt::format("rank {}: ", TheJob()->messenger().rank()) : "";
  std::fprintf(stderr, "FMI: %s%s: %s\n", who.c_str(), call, why.c_str());
  EndProcess(1);
}

int Answer(const char* call, const Status& status) {
  if (status.ok()) return FMI_SUCCESS;
  if (status.code() == Code::kUnavailable) return FMI_ERR_PROC_FAILED;
  Die(call, status.message());
}

Job& JobIn(const char* call) {
  if (!TheJob()) Die(call, "call it between FMI_Init and FMI_Finalize");
  return *TheJob();
}

Communicator* CommunicatorIn(const char* call, FMI_Comm comm) {
  Communicators& communicators = JobIn(call).objects().communicators;
  Communicator* found = communicators.Find(comm);
  if (found != nullptr) return found;
  if (comm == FMI_COMM_NULL) Die(call, "the communicator is FMI_COMM_NULL");
  CheckExcused(call, "communicator", comm, communicators.WasTaken(comm));
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

bool IsBasic(FMI_Datatype type) {
  return BytesOf(type) > 0;
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
  if (IsBasic(type)) return std::make_shared<TypeMap>(TypeMap::Basic(BytesOf(type)));
  return DerivedTypeIn(call, type).map;
}

void CheckCount(const char* call, int count) {
  if (count < 0) Die(call, fmt::format("the count is {}", count));
}

void CheckNotNull(const char* call, const void* pointer, const char* what) {
  if (pointer == nullptr) Die(call, fmt::format("{} is NULL", what));
}

uint32_t CheckedRank(const char* call, const Communicator& communicator, int rank, const char* what) {
  const uint32_t ranks = communicator.channel.ranks();
  if (rank < 0 || rank >= static_cast<int>(ranks))
    Die(call, fmt::format("the {} is {}, and there are {} ranks", what, rank, ranks));
  return static_cast<uint32_t>(rank);
}

Elements CheckedElements(const char* call, const void* data, uint64_t count, FMI_Datatype type) {
  if (count > 0) CheckNotNull(call, data, "the buffer");
  auto* memory = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  Elements elements;
  elements.data = memory;
  const size_t element_bytes = BytesOf(type);
  elements.bytes = count * element_bytes;
  if (element_bytes > 0) return elements;
  const DerivedType& derived = DerivedTypeIn(call, type);
  if (!derived.is_committed) Die(call, fmt::format("type {} has not been committed", type));
  if (__builtin_mul_overflow(count, derived.map->bytes(), &elements.bytes) || elements.bytes > PTRDIFF_MAX) {
    Die(call, fmt::format("{} elements of type {} are more than memory holds", count, type));
  }
  if (elements.bytes == 0) return elements;
  if (const auto place = derived.map->Place(count)) {
    elements.data = memory + *place;
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

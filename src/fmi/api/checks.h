// What the calls of the C ABI ask of their arguments, and how they answer.
//
// A handle is looked up, never followed: what it does not stand for ends the job with a sentence that names rank and call. But
// where a failure has kept a call from making something, the program, which may not have looked at that call's result, is told of
// the failure again and again until it comes to FMI_Loop. So look-ups return null for a handle that was given and has nothing
// behind it, as long as there is a failure that FMI_Loop has not seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "fmi/communicators.h"
#include "fmi/datatypes.h"
#include "fmi/handles/group.h"
#include "fmi/job_member.h"
#include "fmi/objects.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

// One for the process, as in MPI.
inline std::unique_ptr<JobMember>& TheJob() {
  static std::unique_ptr<JobMember> job;
  return job;
}

[[noreturn]] void EndProcess(int code);
// fmirun ends the others.
[[noreturn]] void Die(const char* call, const std::string& why);
// Of a call that a failure has ended or kept from being done. It comes last: where the program has asked for that, it does not
// return, and what is in scope is destroyed (failure.h).
int AnswerFailed();
int Answer(const char* call, const Status& status);

inline JobMember& JobIn(const char* call) {
  if (!TheJob()) Die(call, "call it between FMI_Init and FMI_Finalize");
  return *TheJob();
}
// Null: see above.
Communicator* NoCommunicator(const char* call, FMI_Comm comm);
inline Communicator* CommunicatorIn(const char* call, FMI_Comm comm) {
  Communicator* found = JobIn(call).objects().communicators.Find(comm);
  return found != nullptr ? found : NoCommunicator(call, comm);
}
std::shared_ptr<const Group> GroupIn(const char* call, FMI_Group group);
// Never null, but of the types of the language, which need no look-up, there is none.
DerivedType& DerivedTypeIn(const char* call, FMI_Datatype type);
// Whether it is a type of the language.
inline bool IsBasic(FMI_Datatype type) {
  return BytesOf(type) > 0;
}
// Of any type.
std::shared_ptr<const TypeMap> TypeMapIn(const char* call, FMI_Datatype type);

[[noreturn]] void DieOfCount(const char* call, int count);
inline void CheckCount(const char* call, int count) {
  if (count < 0) DieOfCount(call, count);
}
[[noreturn]] void DieOfNull(const char* call, const char* what);
inline void CheckNotNull(const char* call, const void* pointer, const char* what) {
  if (pointer == nullptr) DieOfNull(call, what);
}
// Of a communicator.
[[noreturn]] void DieOfRank(const char* call, int rank, const char* what, uint32_t ranks);
inline uint32_t CheckedRank(const char* call, const Communicator& communicator, int rank, const char* what) {
  const uint32_t ranks = communicator.channel.ranks();
  if (rank < 0 || rank >= static_cast<int>(ranks)) DieOfRank(call, rank, what, ranks);
  return static_cast<uint32_t>(rank);
}
// What is sent, or where it is received; of a type that may be used.
Elements CheckedDerivedElements(const char* call, const void* data, uint64_t count, FMI_Datatype type);
inline Elements CheckedElements(const char* call, const void* data, uint64_t count, FMI_Datatype type) {
  if (count > 0) CheckNotNull(call, data, "the buffer");
  const size_t bytes = BytesOf(type);
  if (bytes == 0) return CheckedDerivedElements(call, data, count, type);
  Elements elements;
  elements.data = const_cast<void*>(data);
  elements.bytes = count * bytes;
  return elements;
}
// From an element to the next one.
ptrdiff_t ExtentOf(const char* call, FMI_Datatype type);

}  // namespace kedge::fmi

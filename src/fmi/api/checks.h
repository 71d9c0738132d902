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
#include "fmi/handles/group.h"
#include "fmi/job.h"
#include "fmi/objects.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

// One for the process, as in MPI.
std::unique_ptr<Job>& TheJob();

[[noreturn]] void EndProcess(int code);
// fmirun ends the others.
[[noreturn]] void Die(const char* call, const std::string& why);
int Answer(const char* call, const Status& status);

Job& JobIn(const char* call);
// Null: see above.
Communicator* CommunicatorIn(const char* call, FMI_Comm comm);
std::shared_ptr<const Group> GroupIn(const char* call, FMI_Group group);
// Never null, but of the types of the language, which need no look-up, there is none.
DerivedType& DerivedTypeIn(const char* call, FMI_Datatype type);
// Whether it is a type of the language.
bool IsBasic(FMI_Datatype type);
// Of any type.
std::shared_ptr<const TypeMap> TypeMapIn(const char* call, FMI_Datatype type);

void CheckCount(const char* call, int count);
void CheckNotNull(const char* call, const void* pointer, const char* what);
// Of a communicator.
uint32_t CheckedRank(const char* call, const Communicator& communicator, int rank, const char* what);
// What is sent, or where it is received; of a type that may be used.
Elements CheckedElements(const char* call, const void* data, uint64_t count, FMI_Datatype type);
// From an element to the next one.
ptrdiff_t ExtentOf(const char* call, FMI_Datatype type);

}  // namespace kedge::fmi

// The values of the MPI ABI (MPI 5.0, chapter 20), and what they are for FMI.
//
// The standard gives all that a program is compiled with: the values of handles and constants, and the layout of a status.
// Handles are pointers that nobody follows. Those of the standard lie below kFirstOwn; behind it are FMI's numbers, so a handle
// is translated by adding and subtracting, and nothing has to be kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kedge/fmi.h"

namespace kedge::fmi::abi {

// ---- The standard's values -------------------------------------------------------------------------------------------

enum : int { kSuccess = 0, kErrProcAborted = 58 };
enum : int { kAnySource = -1, kAnyTag = -2, kProcNull = -3, kUndefined = -32766 };
enum : int { kThreadSingle = 0, kThreadFunneled = 1024 };
enum : int { kIdent = 201, kCongruent = 202, kSimilar = 203, kUnequal = 204 };
enum : int { kCart = 211 };
enum : int { kCommTypeShared = 221 };
enum : int { kOrderC = 12 };
enum : int { kTagUpperBound = 501, kWtimeIsGlobal = 504 };
enum : uintptr_t {
  kOpNull = 0x20,
  kCommNull = 0x100,
  kCommWorld = 0x101,
  kCommSelf = 0x102,
  kGroupNull = 0x108,
  kGroupEmpty = 0x109,
  kErrorsAreFatal = 0x141,
  kRequestNull = 0x180,
  kDatatypeNull = 0x200
};
inline void* const kInPlace = reinterpret_cast<void*>(1);  // NOLINT(performance-no-int-to-ptr)

struct MPI_Status {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int internal[5];  // of the first two FMI makes the bytes of the message
};

// Pointers to nothing, so that the compiler tells one handle from another.
using MPI_Comm = struct CommHandle*;
using MPI_Group = struct GroupHandle*;
using MPI_Datatype = struct DatatypeHandle*;
using MPI_Op = struct OpHandle*;
using MPI_Request = struct RequestHandle*;
using MPI_Info = struct InfoHandle*;
using MPI_Errhandler = struct ErrhandlerHandle*;
using MPI_Aint = intptr_t;
using MPI_Count = int64_t;
static_assert(sizeof(MPI_Aint) == sizeof(FMI_Aint));

// ---- Between the two -------------------------------------------------------------------------------------------------

// Ends the job.
[[noreturn]] void Die(const char* call, const char* why);

FMI_Comm In(MPI_Comm comm);
FMI_Group In(MPI_Group group);
FMI_Datatype In(MPI_Datatype type);
FMI_Op In(MPI_Op op);
FMI_Request In(MPI_Request request);
void Set(MPI_Comm* to, FMI_Comm comm);
void Set(MPI_Group* to, FMI_Group group);
void Set(MPI_Datatype* to, FMI_Datatype type);
void Set(MPI_Op* to, FMI_Op op);
void Set(MPI_Request* to, FMI_Request request);
void Set(MPI_Status* to, const FMI_Status& status);
FMI_Status In(const MPI_Status& status);

// For arguments of which some negative numbers are names.
int InRank(int rank);
int InTag(int tag);
int InColour(int colour);
int OutNumber(int number);
inline const void* InBuffer(const void* buffer) {
  return buffer == kInPlace ? FMI_IN_PLACE : buffer;
}

inline void* OutBuffer(void* buffer) {
  return buffer == kInPlace ? FMI_IN_PLACE : buffer;
}

inline int Answer(int code) {
  return code == FMI_SUCCESS ? kSuccess : kErrProcAborted;
}

// What a call of FMI sets, and the program is to have when it returns: an argument of that call.
template <typename Abi, typename Fmi>
class Out {
 public:
  explicit Out(Abi* to, Fmi value = {}) : to_(to), value_(value) {}
  ~Out() {
    if (to_ != nullptr) Set(to_, value_);
  }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  operator Fmi*() { return &value_; }  // NOLINT(google-explicit-constructor)

 private:
  Abi* to_;
  Fmi value_;
};
using OutComm = Out<MPI_Comm, FMI_Comm>;
using OutGroup = Out<MPI_Group, FMI_Group>;
using OutDatatype = Out<MPI_Datatype, FMI_Datatype>;
using OutOp = Out<MPI_Op, FMI_Op>;
using OutRequest = Out<MPI_Request, FMI_Request>;
using OutStatus = Out<MPI_Status, FMI_Status>;
// What it also reads.
template <typename Abi>
auto InOut(Abi* handle) {
  return Out<Abi, decltype(In(*handle))>(handle, In(*handle));
}

// A number that may be FMI_UNDEFINED, or a rank that may be FMI_PROC_NULL.
class OutInt {
 public:
  explicit OutInt(int* to) : to_(to) {}
  ~OutInt() { *to_ = OutNumber(*to_); }
  OutInt(const OutInt&) = delete;
  OutInt& operator=(const OutInt&) = delete;
  operator int*() { return to_; }  // NOLINT(google-explicit-constructor)

 private:
  int* to_;
};

// FMI_COMM_WORLD has a communicator of this rank alone beside it.
void MakeCommSelf();

}  // namespace kedge::fmi::abi

// Of each function: what the standard calls it, seen from outside.
#define KEDGE_MPI extern "C" __attribute__((visibility("default")))

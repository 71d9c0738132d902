#include "fmi/abi/abi.h"

#include <fmt/format.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fmi/environment.h"
#include "os/process/signals.h"

namespace kedge::fmi::abi {
namespace {

constexpr uintptr_t kFirstOwn = 0x1000;

struct Pair {
  uintptr_t abi;
  int fmi;
};

constexpr Pair kDatatypes[] = {
    {kDatatypeNull, FMI_DATATYPE_NULL},
    {0x201, FMI_LONG},                // MPI_AINT
    {0x202, FMI_LONG},                // MPI_COUNT
    {0x203, FMI_LONG},                // MPI_OFFSET
    {0x207, FMI_BYTE},                // MPI_PACKED
    {0x208, FMI_SHORT},               // MPI_SHORT
    {0x209, FMI_INT},                 // MPI_INT
    {0x20a, FMI_LONG},                // MPI_LONG
    {0x20b, FMI_LONG_LONG},           // MPI_LONG_LONG
    {0x20c, FMI_UNSIGNED_SHORT},      // MPI_UNSIGNED_SHORT
    {0x20d, FMI_UNSIGNED},            // MPI_UNSIGNED
    {0x20e, FMI_UNSIGNED_LONG},       // MPI_UNSIGNED_LONG
    {0x20f, FMI_UNSIGNED_LONG_LONG},  // MPI_UNSIGNED_LONG_LONG
    {0x210, FMI_FLOAT},               // MPI_FLOAT
    {0x212, FMI_C_FLOAT_COMPLEX},     // MPI_C_FLOAT_COMPLEX
    {0x213, FMI_C_FLOAT_COMPLEX},     // MPI_CXX_FLOAT_COMPLEX
    {0x214, FMI_DOUBLE},              // MPI_DOUBLE
    {0x216, FMI_C_DOUBLE_COMPLEX},    // MPI_C_DOUBLE_COMPLEX
    {0x217, FMI_C_DOUBLE_COMPLEX},    // MPI_CXX_DOUBLE_COMPLEX
    {0x218, FMI_INT},                 // MPI_LOGICAL
    {0x219, FMI_INT},                 // MPI_INTEGER
    {0x21a, FMI_FLOAT},               // MPI_REAL
    {0x21b, FMI_C_FLOAT_COMPLEX},     // MPI_COMPLEX
    {0x21c, FMI_DOUBLE},              // MPI_DOUBLE_PRECISION
    {0x21d, FMI_C_DOUBLE_COMPLEX},    // MPI_DOUBLE_COMPLEX
    {0x21e, FMI_CHAR},                // MPI_CHARACTER
    {0x220, FMI_LONG_DOUBLE},         // MPI_LONG_DOUBLE
    {0x228, FMI_FLOAT_INT},           // MPI_FLOAT_INT
    {0x229, FMI_DOUBLE_INT},          // MPI_DOUBLE_INT
    {0x22a, FMI_LONG_INT},            // MPI_LONG_INT
    {0x22b, FMI_2INT},                // MPI_2INT
    {0x232, FMI_2INT},                // MPI_2INTEGER
    {0x238, FMI_C_BOOL},              // MPI_C_BOOL
    {0x239, FMI_C_BOOL},              // MPI_CXX_BOOL
    {0x23c, FMI_INT},                 // MPI_WCHAR
    {0x240, FMI_SIGNED_CHAR},         // MPI_INT8_T
    {0x241, FMI_UNSIGNED_CHAR},       // MPI_UINT8_T
    {0x243, FMI_CHAR},                // MPI_CHAR
    {0x244, FMI_SIGNED_CHAR},         // MPI_SIGNED_CHAR
    {0x245, FMI_UNSIGNED_CHAR},       // MPI_UNSIGNED_CHAR
    {0x247, FMI_BYTE},                // MPI_BYTE
    {0x248, FMI_SHORT},               // MPI_INT16_T
    {0x249, FMI_UNSIGNED_SHORT},      // MPI_UINT16_T
    {0x250, FMI_INT},                 // MPI_INT32_T
    {0x251, FMI_UNSIGNED},            // MPI_UINT32_T
    {0x258, FMI_LONG},                // MPI_INT64_T
    {0x259, FMI_UNSIGNED_LONG},       // MPI_UINT64_T
    {0x2c1, FMI_SIGNED_CHAR},         // MPI_INTEGER1
    {0x2c9, FMI_SHORT},               // MPI_INTEGER2
    {0x2d1, FMI_INT},                 // MPI_INTEGER4
    {0x2d2, FMI_FLOAT},               // MPI_REAL4
    {0x2d9, FMI_LONG},                // MPI_INTEGER8
    {0x2da, FMI_DOUBLE},              // MPI_REAL8
    {0x2db, FMI_C_FLOAT_COMPLEX},     // MPI_COMPLEX8
    {0x2e3, FMI_C_DOUBLE_COMPLEX},    // MPI_COMPLEX16
};
constexpr Pair kOps[] = {
    {kOpNull, FMI_OP_NULL}, {0x21, FMI_SUM},  // MPI_SUM
    {0x22, FMI_MIN},                          // MPI_MIN
    {0x23, FMI_MAX},                          // MPI_MAX
    {0x24, FMI_PROD},                         // MPI_PROD
    {0x28, FMI_BAND},                         // MPI_BAND
    {0x29, FMI_BOR},                          // MPI_BOR
    {0x2a, FMI_BXOR},                         // MPI_BXOR
    {0x30, FMI_LAND},                         // MPI_LAND
    {0x31, FMI_LOR},                          // MPI_LOR
    {0x32, FMI_LXOR},                         // MPI_LXOR
    {0x38, FMI_MINLOC},                       // MPI_MINLOC
    {0x39, FMI_MAXLOC},                       // MPI_MAXLOC
};

// By the low byte of the handle, which differs within a kind.
template <size_t count>
constexpr std::array<int, 256> ByLowByte(const Pair (&pairs)[count]) {
  std::array<int, 256> found{};
  found.fill(FMI_UNDEFINED);
  for (const Pair& pair : pairs) found[pair.abi & 0xff] = pair.fmi;
  return found;
}
constexpr auto kDatatypeOf = ByLowByte(kDatatypes);
constexpr auto kOpOf = ByLowByte(kOps);

template <typename Handle>
uintptr_t ValueOf(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

template <typename Handle>
Handle HandleOf(uintptr_t value) {
  return reinterpret_cast<Handle>(value);  // NOLINT(performance-no-int-to-ptr)
}

[[noreturn]] void DieOfHandle(const char* what, uintptr_t value) {
  Die("MPI", fmt::format("FMI has no {} {:#x}", what, value).c_str());
}

// Above its own first number.
template <typename Handle>
int64_t OwnNumber(const char* what, Handle handle) {
  const uintptr_t value = ValueOf(handle);
  if (value < kFirstOwn) DieOfHandle(what, value);
  return static_cast<int64_t>(value - kFirstOwn);
}

template <typename Handle>
Handle OwnHandle(int64_t number) {
  return HandleOf<Handle>(static_cast<uintptr_t>(number) + kFirstOwn);
}

FMI_Comm comm_self = FMI_COMM_NULL;

}  // namespace

void Die(const char* call, const char* why) {
  const char* rank = std::getenv(kRankVariable);
  std::fprintf(stderr, "FMI: rank %s: %s: %s\n", rank != nullptr ? rank : "-", call, why);
  std::fflush(nullptr);
  os::ExitNow(1);
}

void MakeCommSelf() {
  int rank = 0;
  FMI_Group world = FMI_GROUP_NULL, own = FMI_GROUP_NULL;
  FMI_Comm_rank(FMI_COMM_WORLD, &rank);
  FMI_Comm_group(FMI_COMM_WORLD, &world);
  FMI_Group_incl(world, 1, &rank, &own);
  // A rank that is started again has its handle at once, and the rest with FMI_Loop.
  FMI_Comm_create(FMI_COMM_WORLD, own, &comm_self);
  FMI_Group_free(&own);
  FMI_Group_free(&world);
}

FMI_Comm In(MPI_Comm comm) {
  switch (ValueOf(comm)) {
    case kCommNull: return FMI_COMM_NULL;
    case kCommWorld: return FMI_COMM_WORLD;
    case kCommSelf: return comm_self;
  }
  return static_cast<FMI_Comm>(OwnNumber("communicator", comm));
}

void Set(MPI_Comm* to, FMI_Comm comm) {
  *to = comm == FMI_COMM_NULL    ? HandleOf<MPI_Comm>(kCommNull)
        : comm == FMI_COMM_WORLD ? HandleOf<MPI_Comm>(kCommWorld)
                                 : OwnHandle<MPI_Comm>(comm);
}

FMI_Group In(MPI_Group group) {
  switch (ValueOf(group)) {
    case kGroupNull: return FMI_GROUP_NULL;
    case kGroupEmpty: return FMI_GROUP_EMPTY;
  }
  return static_cast<FMI_Group>(OwnNumber("group", group));
}

void Set(MPI_Group* to, FMI_Group group) {
  *to = group == FMI_GROUP_NULL    ? HandleOf<MPI_Group>(kGroupNull)
        : group == FMI_GROUP_EMPTY ? HandleOf<MPI_Group>(kGroupEmpty)
                                   : OwnHandle<MPI_Group>(group);
}

FMI_Datatype In(MPI_Datatype type) {
  const uintptr_t value = ValueOf(type);
  if (value >= kFirstOwn) return static_cast<FMI_Datatype>(value - kFirstOwn);
  const FMI_Datatype found = value >> 8 == kDatatypeNull >> 8 ? kDatatypeOf[value & 0xff] : FMI_UNDEFINED;
  if (found == FMI_UNDEFINED) DieOfHandle("datatype", value);
  return found;
}

void Set(MPI_Datatype* to, FMI_Datatype type) {
  *to = type == FMI_DATATYPE_NULL ? HandleOf<MPI_Datatype>(kDatatypeNull) : OwnHandle<MPI_Datatype>(type);
}

FMI_Op In(MPI_Op op) {
  const uintptr_t value = ValueOf(op);
  if (value >= kFirstOwn) return static_cast<FMI_Op>(value - kFirstOwn);
  const FMI_Op found = value < kOpOf.size() ? kOpOf[value] : FMI_UNDEFINED;
  if (found == FMI_UNDEFINED) DieOfHandle("operation", value);
  return found;
}

void Set(MPI_Op* to, FMI_Op op) {
  *to = op == FMI_OP_NULL ? HandleOf<MPI_Op>(kOpNull) : OwnHandle<MPI_Op>(op);
}

FMI_Request In(MPI_Request request) {
  return ValueOf(request) == kRequestNull ? FMI_REQUEST_NULL : OwnNumber("request", request);
}

void Set(MPI_Request* to, FMI_Request request) {
  *to = request == FMI_REQUEST_NULL ? HandleOf<MPI_Request>(kRequestNull) : OwnHandle<MPI_Request>(request);
}

void Set(MPI_Status* to, const FMI_Status& status) {
  to->MPI_SOURCE = OutNumber(status.FMI_SOURCE);
  to->MPI_TAG = status.FMI_TAG == FMI_ANY_TAG ? kAnyTag : status.FMI_TAG;
  std::memcpy(to->internal, &status.bytes, sizeof status.bytes);
}

FMI_Status In(const MPI_Status& status) {
  FMI_Status found{};
  found.FMI_SOURCE = InRank(status.MPI_SOURCE);
  found.FMI_TAG = InTag(status.MPI_TAG);
  std::memcpy(&found.bytes, status.internal, sizeof found.bytes);
  return found;
}

int InRank(int rank) {
  // Others that are negative are no rank of FMI either.
  return rank == kProcNull ? FMI_PROC_NULL : rank == FMI_PROC_NULL ? INT_MIN : rank;
}

int InTag(int tag) {
  return tag == kAnyTag ? FMI_ANY_TAG : tag == FMI_ANY_TAG ? INT_MIN : tag;
}

int InColour(int colour) {
  return colour == kUndefined ? FMI_UNDEFINED : colour == FMI_UNDEFINED ? INT_MIN : colour;
}

int OutNumber(int number) {
  return number == FMI_UNDEFINED ? kUndefined : number == FMI_PROC_NULL ? kProcNull : number;
}

}  // namespace kedge::fmi::abi

// The MPI ABI on FMI: handles as numbers. All of these fit: they are small numbers of the standard, or FMI's (abi.h).
#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

namespace {

template <typename Handle>
int ToNumber(Handle handle) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(handle));
}

template <typename Handle>
Handle FromNumber(int number) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(static_cast<unsigned>(number)));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

KEDGE_MPI int MPI_Comm_toint(MPI_Comm comm) {
  return ToNumber(comm);
}

KEDGE_MPI MPI_Comm MPI_Comm_fromint(int number) {
  return FromNumber<MPI_Comm>(number);
}

KEDGE_MPI int MPI_Group_toint(MPI_Group group) {
  return ToNumber(group);
}

KEDGE_MPI MPI_Group MPI_Group_fromint(int number) {
  return FromNumber<MPI_Group>(number);
}

KEDGE_MPI int MPI_Type_toint(MPI_Datatype type) {
  return ToNumber(type);
}

KEDGE_MPI MPI_Datatype MPI_Type_fromint(int number) {
  return FromNumber<MPI_Datatype>(number);
}

KEDGE_MPI int MPI_Op_toint(MPI_Op op) {
  return ToNumber(op);
}

KEDGE_MPI MPI_Op MPI_Op_fromint(int number) {
  return FromNumber<MPI_Op>(number);
}

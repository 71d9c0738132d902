// The MPI ABI on FMI: what all ranks combine, and operations of the program.
//
// A function of the program is told the type by the handle that the program has given, of which FMI may have one for several.
#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

namespace {

using UserFunction = void(void*, void*, int*, MPI_Datatype*);
using LargeUserFunction = void(void*, void*, MPI_Count*, MPI_Datatype*);

// Of the reduction that this rank is in.
MPI_Datatype combined_type;

FMI_Datatype InCombined(MPI_Datatype type) {
  combined_type = type;
  return In(type);
}

template <typename Function>
void* StateOf(Function* function) {
  return reinterpret_cast<void*>(function);
}

void Call(void* in, void* inout, size_t count, FMI_Datatype, void* function) {
  auto elements = static_cast<int>(count);
  MPI_Datatype type = combined_type;
  reinterpret_cast<UserFunction*>(function)(in, inout, &elements, &type);
}

void CallLarge(void* in, void* inout, size_t count, FMI_Datatype, void* function) {
  auto elements = static_cast<MPI_Count>(count);
  MPI_Datatype type = combined_type;
  reinterpret_cast<LargeUserFunction*>(function)(in, inout, &elements, &type);
}

}  // namespace

KEDGE_MPI int MPI_Op_create(UserFunction* function, int commute, MPI_Op* op) {
  return Answer(FMI_Op_create_x(function != nullptr ? Call : nullptr, StateOf(function), commute, OutOp(op)));
}

KEDGE_MPI int MPI_Op_create_c(LargeUserFunction* function, int commute, MPI_Op* op) {
  return Answer(FMI_Op_create_x(function != nullptr ? CallLarge : nullptr, StateOf(function), commute, OutOp(op)));
}

KEDGE_MPI int MPI_Op_free(MPI_Op* op) {
  return Answer(FMI_Op_free(InOut(op)));
}

KEDGE_MPI int MPI_Op_commutative(MPI_Op op, int* commute) {
  return Answer(FMI_Op_commutative(In(op), commute));
}

KEDGE_MPI int MPI_Reduce_local(const void* in, void* inout, int count, MPI_Datatype type, MPI_Op op) {
  return Answer(FMI_Reduce_local(in, inout, count, InCombined(type), In(op)));
}

KEDGE_MPI int MPI_Reduce(const void* sent, void* received, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return Answer(FMI_Reduce(InBuffer(sent), received, count, InCombined(type), In(op), root, In(comm)));
}

KEDGE_MPI int MPI_Allreduce(const void* sent, void* received, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return Answer(FMI_Allreduce(InBuffer(sent), received, count, InCombined(type), In(op), In(comm)));
}

KEDGE_MPI int MPI_Scan(const void* sent, void* received, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return Answer(FMI_Scan(InBuffer(sent), received, count, InCombined(type), In(op), In(comm)));
}

KEDGE_MPI int MPI_Exscan(const void* sent, void* received, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return Answer(FMI_Exscan(InBuffer(sent), received, count, InCombined(type), In(op), In(comm)));
}

KEDGE_MPI int MPI_Reduce_scatter(const void* sent, void* received, const int* counts, MPI_Datatype type, MPI_Op op,
                                 MPI_Comm comm) {
  return Answer(FMI_Reduce_scatter(InBuffer(sent), received, counts, InCombined(type), In(op), In(comm)));
}

KEDGE_MPI int MPI_Reduce_scatter_block(const void* sent, void* received, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return Answer(FMI_Reduce_scatter_block(InBuffer(sent), received, count, InCombined(type), In(op), In(comm)));
}

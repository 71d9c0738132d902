// The C ABI of libkedge-fmi (kedge/fmi.h): operations of the program.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "fmi/api/checks.h"
#include "fmi/api/reductions.h"
#include "fmi/datatypes.h"
#include "fmi/operations.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

int MakeOperation(const char* call, bool has_function, const Operation& operation, FMI_Op* made) {
  JobMember& job = JobIn(call);
  if (!has_function) DieOfNull(call, "the function");
  *made = job.objects().operations.Add(operation);
  return FMI_SUCCESS;
}

}  // namespace

Operation& OperationIn(const char* call, FMI_Op op) {
  auto& operations = JobIn(call).objects().operations;
  if (Operation* found = operations.Find(op); found != nullptr) return *found;
  if (op == FMI_OP_NULL) Die(call, "the operation is FMI_OP_NULL");
  if (!operations.WasTaken(op)) Die(call, fmt::format("there is no operation {}", op));
  Die(call, fmt::format(
                "operation {} is gone: it was freed, or made by a process that has died, and not before its first FMI_Loop", op));
}

Reduction CheckedReduction(const char* call, FMI_Datatype type, FMI_Op op) {
  if (IsOfProgram(op)) {
    const Operation& operation = OperationIn(call, op);
    const std::shared_ptr<const TypeMap> map = TypeMapIn(call, type);
    return {CombineBy(operation, type, map), map->bytes(), operation.commutes};
  }
  if (op == FMI_OP_NULL) OperationIn(call, op);
  if (!IsBasic(type)) {
    DerivedTypeIn(call, type);
    Die(call, fmt::format("type {} is a derived one, which operations of the program alone can combine", type));
  }
  const CombineNumbers combine = CombineOf(type, op);
  if (combine == nullptr) Die(call, fmt::format("there is no operation {} on type {}", op, type));
  return {combine, BytesOf(type), /*commutes=*/true};
}

}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Op_create(FMI_User_function* function, int commute, FMI_Op* made) {
  Operation operation;
  operation.function = function;
  operation.commutes = commute != 0;
  return MakeOperation("FMI_Op_create", function != nullptr, operation, made);
}

int FMI_Op_create_x(FMI_User_function_x* function, void* state, int commute, FMI_Op* made) {
  Operation operation;
  operation.function_x = function;
  operation.state = state;
  operation.commutes = commute != 0;
  return MakeOperation("FMI_Op_create_x", function != nullptr, operation, made);
}

int FMI_Op_free(FMI_Op* op) {
  constexpr char kCall[] = "FMI_Op_free";
  CheckNotNull(kCall, op, "the operation");
  if (*op >= 0 && !IsOfProgram(*op)) Die(kCall, fmt::format("operation {} is one of the language", *op));
  OperationIn(kCall, *op);
  TheJob()->objects().operations.Remove(*op);
  *op = FMI_OP_NULL;
  return FMI_SUCCESS;
}

int FMI_Op_commutative(FMI_Op op, int* commute) {
  constexpr char kCall[] = "FMI_Op_commutative";
  JobIn(kCall);
  *commute = op >= 0 && !IsOfProgram(op) ? 1 : static_cast<int>(OperationIn(kCall, op).commutes);
  return FMI_SUCCESS;
}

int FMI_Reduce_local(const void* in, void* inout, int count, FMI_Datatype type, FMI_Op op) {
  constexpr char kCall[] = "FMI_Reduce_local";
  JobIn(kCall);
  CheckCount(kCall, count);
  const Reduction reduction = CheckedReduction(kCall, type, op);
  PackedElements left(CheckedElements(kCall, in, static_cast<uint64_t>(count), type));
  PackedElements right(CheckedElements(kCall, inout, static_cast<uint64_t>(count), type));
  right.Pack();
  const auto combined = std::make_unique_for_overwrite<std::byte[]>(left.bytes());
  left.PackInto(combined.get());
  reduction.combine(combined.get(), right.data(), static_cast<size_t>(count));
  right.UnpackFrom(combined.get());
  return FMI_SUCCESS;
}

// The C ABI of libkedge-fmi (kedge/fmi.h): types that are made of others.
#include <fmt/format.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fmi/api/checks.h"
#include "fmi/handles/type_map.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

int SetType(const char* call, Result<TypeMap> map, FMI_Datatype* made) {
  if (!map.ok()) Die(call, map.status().message());
  *made = TheJob()->objects().types.Add({std::make_shared<TypeMap>(std::move(*map)), /*is_committed=*/false});
  return FMI_SUCCESS;
}

uint64_t CheckedNumber(const char* call, int number) {
  CheckCount(call, number);
  return static_cast<uint64_t>(number);
}

// Of so many elements. What overflows is further than a type reaches.
int64_t Bytes(int64_t elements, const TypeMap& type) {
  int64_t bytes = 0;
  return __builtin_mul_overflow(elements, type.extent(), &bytes) ? TypeMap::kSpanMax + 1 : bytes;
}

// Of a handle of the program, where only types that it has made may be.
DerivedType& CheckedDerived(const char* call, FMI_Datatype* type) {
  CheckNotNull(call, type, "the type");
  if (IsBasic(*type)) Die(call, fmt::format("type {} is one of the language", *type));
  return DerivedTypeIn(call, *type);
}

// Of so many bytes in a buffer of `room`, from *position on, which moves behind them.
std::byte* CheckedPlace(const char* call, void* packed, uint64_t bytes, int room, int* position) {
  if (*position < 0 || room < *position || bytes > static_cast<uint64_t>(room - *position)) {
    Die(call, fmt::format("{} bytes from {} on do not lie within {}", bytes, *position, room));
  }
  auto* place = static_cast<std::byte*>(packed) + *position;
  *position += static_cast<int>(bytes);
  return place;
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Type_contiguous(int count, FMI_Datatype type, FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_contiguous";
  JobIn(kCall);
  return SetType(kCall, TypeMap::Contiguous(CheckedNumber(kCall, count), *TypeMapIn(kCall, type)), made);
}

int FMI_Type_vector(int count, int length, int stride, FMI_Datatype type, FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_vector";
  JobIn(kCall);
  const auto of = TypeMapIn(kCall, type);
  return SetType(kCall, TypeMap::Vector(CheckedNumber(kCall, count), CheckedNumber(kCall, length), Bytes(stride, *of), *of),
                 made);
}

int FMI_Type_create_hvector(int count, int length, FMI_Aint stride, FMI_Datatype type, FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_create_hvector";
  JobIn(kCall);
  const auto of = TypeMapIn(kCall, type);
  return SetType(kCall, TypeMap::Vector(CheckedNumber(kCall, count), CheckedNumber(kCall, length), stride, *of), made);
}

int FMI_Type_indexed(int count, const int* lengths, const int* places, FMI_Datatype type, FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_indexed";
  JobIn(kCall);
  CheckCount(kCall, count);
  const auto of = TypeMapIn(kCall, type);
  std::vector<TypeMap::Part> parts;
  for (int i = 0; i < count; ++i) parts.push_back({Bytes(places[i], *of), CheckedNumber(kCall, lengths[i]), of.get()});
  return SetType(kCall, TypeMap::Struct(parts), made);
}

int FMI_Type_create_struct(int count, const int* lengths, const FMI_Aint* offsets, const FMI_Datatype* types,
                           FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_create_struct";
  JobIn(kCall);
  CheckCount(kCall, count);
  std::vector<std::shared_ptr<const TypeMap>> maps;
  std::vector<TypeMap::Part> parts;
  for (int i = 0; i < count; ++i) {
    maps.push_back(TypeMapIn(kCall, types[i]));
    parts.push_back({offsets[i], CheckedNumber(kCall, lengths[i]), maps.back().get()});
  }
  return SetType(kCall, TypeMap::Struct(parts), made);
}

int FMI_Type_create_subarray(int dimensions, const int* sizes, const int* counts, const int* begins, int order, FMI_Datatype type,
                             FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_create_subarray";
  JobIn(kCall);
  CheckCount(kCall, dimensions);
  if (order != FMI_ORDER_C && order != FMI_ORDER_FORTRAN) Die(kCall, fmt::format("there is no order {}", order));
  std::vector<TypeMap::Cut> cuts;
  for (int i = 0; i < dimensions; ++i) {
    const int at = order == FMI_ORDER_C ? i : dimensions - 1 - i;
    cuts.push_back({CheckedNumber(kCall, sizes[at]), CheckedNumber(kCall, counts[at]), CheckedNumber(kCall, begins[at])});
  }
  return SetType(kCall, TypeMap::Subarray(cuts, *TypeMapIn(kCall, type)), made);
}

int FMI_Type_create_resized(FMI_Datatype type, FMI_Aint lower, FMI_Aint extent, FMI_Datatype* made) {
  constexpr char kCall[] = "FMI_Type_create_resized";
  JobIn(kCall);
  return SetType(kCall, TypeMap::Resized(*TypeMapIn(kCall, type), lower, extent), made);
}

int FMI_Type_commit(FMI_Datatype* type) {
  constexpr char kCall[] = "FMI_Type_commit";
  CheckNotNull(kCall, type, "the type");
  if (!IsBasic(*type)) DerivedTypeIn(kCall, *type).is_committed = true;
  return FMI_SUCCESS;
}

int FMI_Type_free(FMI_Datatype* type) {
  CheckedDerived("FMI_Type_free", type);
  TheJob()->objects().types.Remove(*type);
  *type = FMI_DATATYPE_NULL;
  return FMI_SUCCESS;
}

int FMI_Type_size(FMI_Datatype type, int* size) {
  constexpr char kCall[] = "FMI_Type_size";
  JobIn(kCall);
  const uint64_t bytes = TypeMapIn(kCall, type)->bytes();
  *size = bytes <= INT_MAX ? static_cast<int>(bytes) : FMI_UNDEFINED;
  return FMI_SUCCESS;
}

int FMI_Type_get_true_extent(FMI_Datatype type, FMI_Aint* lower, FMI_Aint* extent) {
  constexpr char kCall[] = "FMI_Type_get_true_extent";
  JobIn(kCall);
  const auto [first, last] = TypeMapIn(kCall, type)->Reach();
  *lower = first;
  *extent = last - first;
  return FMI_SUCCESS;
}

int FMI_Pack(const void* data, int count, FMI_Datatype type, void* packed, int room, int* position, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Pack";
  if (CommunicatorIn(kCall, comm) == nullptr) return AnswerFailed();
  CheckCount(kCall, count);
  const PackedElements elements(CheckedElements(kCall, data, static_cast<uint64_t>(count), type));
  elements.PackInto(CheckedPlace(kCall, packed, elements.bytes(), room, position));
  return FMI_SUCCESS;
}

int FMI_Unpack(const void* packed, int room, int* position, void* data, int count, FMI_Datatype type, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Unpack";
  if (CommunicatorIn(kCall, comm) == nullptr) return AnswerFailed();
  CheckCount(kCall, count);
  const PackedElements elements(CheckedElements(kCall, data, static_cast<uint64_t>(count), type));
  elements.UnpackFrom(CheckedPlace(kCall, const_cast<void*>(packed), elements.bytes(), room, position));
  return FMI_SUCCESS;
}

int FMI_Pack_size(int count, FMI_Datatype type, FMI_Comm comm, int* size) {
  constexpr char kCall[] = "FMI_Pack_size";
  if (CommunicatorIn(kCall, comm) == nullptr) return AnswerFailed();
  uint64_t bytes = 0;
  const bool is_far = __builtin_mul_overflow(CheckedNumber(kCall, count), TypeMapIn(kCall, type)->bytes(), &bytes);
  *size = is_far || bytes > INT_MAX ? FMI_UNDEFINED : static_cast<int>(bytes);
  return FMI_SUCCESS;
}

int FMI_Type_get_extent(FMI_Datatype type, FMI_Aint* lower, FMI_Aint* extent) {
  constexpr char kCall[] = "FMI_Type_get_extent";
  JobIn(kCall);
  const auto of = TypeMapIn(kCall, type);
  *lower = of->lower();
  *extent = of->extent();
  return FMI_SUCCESS;
}

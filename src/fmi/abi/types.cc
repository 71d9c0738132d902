// The MPI ABI on FMI: types of the program.
#include <vector>

#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

KEDGE_MPI int MPI_Type_contiguous(int count, MPI_Datatype type, MPI_Datatype* made) {
  return Answer(FMI_Type_contiguous(count, In(type), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_dup(MPI_Datatype type, MPI_Datatype* made) {
  return MPI_Type_contiguous(1, type, made);
}

KEDGE_MPI int MPI_Type_vector(int count, int length, int stride, MPI_Datatype type, MPI_Datatype* made) {
  return Answer(FMI_Type_vector(count, length, stride, In(type), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_create_hvector(int count, int length, MPI_Aint stride, MPI_Datatype type, MPI_Datatype* made) {
  return Answer(FMI_Type_create_hvector(count, length, stride, In(type), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_indexed(int count, const int* lengths, const int* places, MPI_Datatype type, MPI_Datatype* made) {
  return Answer(FMI_Type_indexed(count, lengths, places, In(type), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_create_struct(int count, const int* lengths, const MPI_Aint* offsets, const MPI_Datatype* types,
                                     MPI_Datatype* made) {
  std::vector<FMI_Datatype> own;
  for (int i = 0; i < count; ++i) own.push_back(In(types[i]));
  return Answer(FMI_Type_create_struct(count, lengths, offsets, own.data(), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_create_hindexed(int count, const int* lengths, const MPI_Aint* offsets, MPI_Datatype type,
                                       MPI_Datatype* made) {
  const std::vector<FMI_Datatype> own(count > 0 ? static_cast<size_t>(count) : 0, In(type));
  return Answer(FMI_Type_create_struct(count, lengths, offsets, own.data(), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_create_indexed_block(int count, int length, const int* places, MPI_Datatype type, MPI_Datatype* made) {
  const std::vector<int> lengths(count > 0 ? static_cast<size_t>(count) : 0, length);
  return MPI_Type_indexed(count, lengths.data(), places, type, made);
}

KEDGE_MPI int MPI_Type_create_hindexed_block(int count, int length, const MPI_Aint* offsets, MPI_Datatype type,
                                             MPI_Datatype* made) {
  const std::vector<int> lengths(count > 0 ? static_cast<size_t>(count) : 0, length);
  return MPI_Type_create_hindexed(count, lengths.data(), offsets, type, made);
}

KEDGE_MPI int MPI_Type_create_subarray(int dimensions, const int* sizes, const int* counts, const int* begins, int order,
                                       MPI_Datatype type, MPI_Datatype* made) {
  return Answer(FMI_Type_create_subarray(dimensions, sizes, counts, begins, order == kOrderC ? FMI_ORDER_C : FMI_ORDER_FORTRAN,
                                         In(type), OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_create_resized(MPI_Datatype type, MPI_Aint lower, MPI_Aint extent, MPI_Datatype* made) {
  return Answer(FMI_Type_create_resized(In(type), lower, extent, OutDatatype(made)));
}

KEDGE_MPI int MPI_Type_commit(MPI_Datatype* type) {
  FMI_Datatype own = In(*type);
  return Answer(FMI_Type_commit(&own));
}

KEDGE_MPI int MPI_Type_free(MPI_Datatype* type) {
  return Answer(FMI_Type_free(InOut(type)));
}

KEDGE_MPI int MPI_Type_size(MPI_Datatype type, int* size) {
  return Answer(FMI_Type_size(In(type), OutInt(size)));
}

KEDGE_MPI int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
  return Answer(FMI_Type_get_extent(In(type), lower, extent));
}

KEDGE_MPI int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
  return Answer(FMI_Type_get_true_extent(In(type), lower, extent));
}

KEDGE_MPI int MPI_Pack(const void* data, int count, MPI_Datatype type, void* packed, int room, int* position, MPI_Comm comm) {
  return Answer(FMI_Pack(data, count, In(type), packed, room, position, In(comm)));
}

KEDGE_MPI int MPI_Unpack(const void* packed, int room, int* position, void* data, int count, MPI_Datatype type, MPI_Comm comm) {
  return Answer(FMI_Unpack(packed, room, position, data, count, In(type), In(comm)));
}

KEDGE_MPI int MPI_Pack_size(int count, MPI_Datatype type, MPI_Comm comm, int* size) {
  return Answer(FMI_Pack_size(count, In(type), In(comm), OutInt(size)));
}

KEDGE_MPI int MPI_Get_address(const void* place, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(place);
  return kSuccess;
}

KEDGE_MPI MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint offset) {
  return base + offset;
}

KEDGE_MPI MPI_Aint MPI_Aint_diff(MPI_Aint left, MPI_Aint right) {
  return left - right;
}

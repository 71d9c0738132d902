// The MPI ABI on FMI: communicators, groups and grids.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

namespace {

int OutComparison(int result) {
  switch (result) {
    case FMI_IDENT: return kIdent;
    case FMI_CONGRUENT: return kCongruent;
    case FMI_SIMILAR: return kSimilar;
  }
  return kUnequal;
}

// First and last rank, and how far the next one is.
std::vector<int> InRanges(const char* call, int count, const int (*ranges)[3]) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    const auto [first, last, stride] = ranges[i];
    if (stride == 0) Die(call, "a range has the stride 0");
    for (int64_t rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

KEDGE_MPI int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  return Answer(FMI_Comm_rank(In(comm), rank));
}

KEDGE_MPI int MPI_Comm_size(MPI_Comm comm, int* size) {
  return Answer(FMI_Comm_size(In(comm), size));
}

KEDGE_MPI int MPI_Comm_compare(MPI_Comm left, MPI_Comm right, int* result) {
  const int code = FMI_Comm_compare(In(left), In(right), result);
  *result = OutComparison(*result);
  return Answer(code);
}

// There are no others.
KEDGE_MPI int MPI_Comm_test_inter(MPI_Comm, int* flag) {
  *flag = 0;
  return kSuccess;
}

KEDGE_MPI int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  return Answer(FMI_Comm_dup(In(comm), OutComm(made)));
}

KEDGE_MPI int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* made) {
  return Answer(FMI_Comm_split(In(comm), InColour(colour), key, OutComm(made)));
}

KEDGE_MPI int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info, MPI_Comm* made) {
  if (type != kCommTypeShared && type != kUndefined) Die("MPI_Comm_split_type", "FMI splits by MPI_COMM_TYPE_SHARED alone");
  const int own = type == kUndefined ? static_cast<int>(FMI_UNDEFINED) : static_cast<int>(FMI_COMM_TYPE_SHARED);
  return Answer(FMI_Comm_split_type(In(comm), own, key, OutComm(made)));
}

KEDGE_MPI int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  return Answer(FMI_Comm_create(In(comm), In(group), OutComm(made)));
}

KEDGE_MPI int MPI_Comm_free(MPI_Comm* comm) {
  return Answer(FMI_Comm_free(InOut(comm)));
}

KEDGE_MPI int MPI_Comm_group(MPI_Comm comm, MPI_Group* group) {
  return Answer(FMI_Comm_group(In(comm), OutGroup(group)));
}

KEDGE_MPI int MPI_Group_incl(MPI_Group group, int count, const int* ranks, MPI_Group* made) {
  return Answer(FMI_Group_incl(In(group), count, ranks, OutGroup(made)));
}

KEDGE_MPI int MPI_Group_excl(MPI_Group group, int count, const int* ranks, MPI_Group* made) {
  return Answer(FMI_Group_excl(In(group), count, ranks, OutGroup(made)));
}

KEDGE_MPI int MPI_Group_range_incl(MPI_Group group, int count, int ranges[][3], MPI_Group* made) {
  const std::vector<int> ranks = InRanges("MPI_Group_range_incl", count, ranges);
  return MPI_Group_incl(group, static_cast<int>(ranks.size()), ranks.data(), made);
}

KEDGE_MPI int MPI_Group_range_excl(MPI_Group group, int count, int ranges[][3], MPI_Group* made) {
  const std::vector<int> ranks = InRanges("MPI_Group_range_excl", count, ranges);
  return MPI_Group_excl(group, static_cast<int>(ranks.size()), ranks.data(), made);
}

KEDGE_MPI int MPI_Group_union(MPI_Group left, MPI_Group right, MPI_Group* made) {
  return Answer(FMI_Group_union(In(left), In(right), OutGroup(made)));
}

KEDGE_MPI int MPI_Group_intersection(MPI_Group left, MPI_Group right, MPI_Group* made) {
  return Answer(FMI_Group_intersection(In(left), In(right), OutGroup(made)));
}

KEDGE_MPI int MPI_Group_difference(MPI_Group left, MPI_Group right, MPI_Group* made) {
  return Answer(FMI_Group_difference(In(left), In(right), OutGroup(made)));
}

KEDGE_MPI int MPI_Group_compare(MPI_Group left, MPI_Group right, int* result) {
  const int code = FMI_Group_compare(In(left), In(right), result);
  *result = OutComparison(*result);
  return Answer(code);
}

KEDGE_MPI int MPI_Group_rank(MPI_Group group, int* rank) {
  return Answer(FMI_Group_rank(In(group), OutInt(rank)));
}

KEDGE_MPI int MPI_Group_size(MPI_Group group, int* size) {
  return Answer(FMI_Group_size(In(group), size));
}

KEDGE_MPI int MPI_Group_translate_ranks(MPI_Group from, int count, const int* ranks, MPI_Group to, int* translated) {
  std::vector<int> own(ranks, ranks + std::max(count, 0));
  for (int& rank : own) rank = InRank(rank);
  const int code = FMI_Group_translate_ranks(In(from), count, own.data(), In(to), translated);
  for (int i = 0; code == FMI_SUCCESS && i < count; ++i) translated[i] = OutNumber(translated[i]);
  return Answer(code);
}

KEDGE_MPI int MPI_Group_free(MPI_Group* group) {
  return Answer(FMI_Group_free(InOut(group)));
}

KEDGE_MPI int MPI_Dims_create(int ranks, int dimensions, int* sizes) {
  return Answer(FMI_Dims_create(ranks, dimensions, sizes));
}

KEDGE_MPI int MPI_Cart_create(MPI_Comm comm, int dimensions, const int* sizes, const int* periods, int reorder, MPI_Comm* made) {
  return Answer(FMI_Cart_create(In(comm), dimensions, sizes, periods, reorder, OutComm(made)));
}

KEDGE_MPI int MPI_Cart_sub(MPI_Comm comm, const int* keeps, MPI_Comm* made) {
  return Answer(FMI_Cart_sub(In(comm), keeps, OutComm(made)));
}

KEDGE_MPI int MPI_Cartdim_get(MPI_Comm comm, int* dimensions) {
  return Answer(FMI_Cartdim_get(In(comm), dimensions));
}

KEDGE_MPI int MPI_Cart_get(MPI_Comm comm, int dimensions, int* sizes, int* periods, int* coordinates) {
  return Answer(FMI_Cart_get(In(comm), dimensions, sizes, periods, coordinates));
}

KEDGE_MPI int MPI_Cart_coords(MPI_Comm comm, int rank, int dimensions, int* coordinates) {
  return Answer(FMI_Cart_coords(In(comm), rank, dimensions, coordinates));
}

KEDGE_MPI int MPI_Cart_rank(MPI_Comm comm, const int* coordinates, int* rank) {
  return Answer(FMI_Cart_rank(In(comm), coordinates, rank));
}

KEDGE_MPI int MPI_Cart_shift(MPI_Comm comm, int dimension, int by, int* source, int* destination) {
  return Answer(FMI_Cart_shift(In(comm), dimension, by, OutInt(source), OutInt(destination)));
}

// The MPI ABI on FMI: what all ranks of a communicator do together, but for combining.
#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

KEDGE_MPI int MPI_Barrier(MPI_Comm comm) {
  return Answer(FMI_Barrier(In(comm)));
}

KEDGE_MPI int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return Answer(FMI_Bcast(data, count, In(type), root, In(comm)));
}

KEDGE_MPI int MPI_Gather(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
                         MPI_Datatype received_type, int root, MPI_Comm comm) {
  return Answer(
      FMI_Gather(InBuffer(sent), sent_count, In(sent_type), received, received_count, In(received_type), root, In(comm)));
}

KEDGE_MPI int MPI_Allgather(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
                            MPI_Datatype received_type, MPI_Comm comm) {
  return Answer(FMI_Allgather(InBuffer(sent), sent_count, In(sent_type), received, received_count, In(received_type), In(comm)));
}

KEDGE_MPI int MPI_Gatherv(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, const int* received_counts,
                          const int* places, MPI_Datatype received_type, int root, MPI_Comm comm) {
  return Answer(FMI_Gatherv(InBuffer(sent), sent_count, In(sent_type), received, received_counts, places, In(received_type), root,
                            In(comm)));
}

KEDGE_MPI int MPI_Allgatherv(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, const int* received_counts,
                             const int* places, MPI_Datatype received_type, MPI_Comm comm) {
  return Answer(
      FMI_Allgatherv(InBuffer(sent), sent_count, In(sent_type), received, received_counts, places, In(received_type), In(comm)));
}

KEDGE_MPI int MPI_Scatter(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
                          MPI_Datatype received_type, int root, MPI_Comm comm) {
  return Answer(
      FMI_Scatter(sent, sent_count, In(sent_type), OutBuffer(received), received_count, In(received_type), root, In(comm)));
}

KEDGE_MPI int MPI_Scatterv(const void* sent, const int* sent_counts, const int* places, MPI_Datatype sent_type, void* received,
                           int received_count, MPI_Datatype received_type, int root, MPI_Comm comm) {
  return Answer(FMI_Scatterv(sent, sent_counts, places, In(sent_type), OutBuffer(received), received_count, In(received_type),
                             root, In(comm)));
}

KEDGE_MPI int MPI_Alltoall(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
                           MPI_Datatype received_type, MPI_Comm comm) {
  return Answer(FMI_Alltoall(InBuffer(sent), sent_count, In(sent_type), received, received_count, In(received_type), In(comm)));
}

KEDGE_MPI int MPI_Alltoallv(const void* sent, const int* sent_counts, const int* sent_places, MPI_Datatype sent_type,
                            void* received, const int* received_counts, const int* received_places, MPI_Datatype received_type,
                            MPI_Comm comm) {
  return Answer(FMI_Alltoallv(InBuffer(sent), sent_counts, sent_places, In(sent_type), received, received_counts, received_places,
                              In(received_type), In(comm)));
}

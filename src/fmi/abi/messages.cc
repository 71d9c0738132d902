// The MPI ABI on FMI: from rank to rank.
#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

KEDGE_MPI int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return Answer(FMI_Send(data, count, In(type), InRank(to), InTag(tag), In(comm)));
}

// FMI's sends take what room there is, and wait else: all that ready ones and such with a buffer of the program's ask for.
KEDGE_MPI int MPI_Rsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return MPI_Send(data, count, type, to, tag, comm);
}

KEDGE_MPI int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return Answer(FMI_Recv(data, count, In(type), InRank(from), InTag(tag), In(comm), OutStatus(status)));
}

KEDGE_MPI int MPI_Sendrecv(const void* sent, int sent_count, MPI_Datatype sent_type, int to, int sent_tag, void* received,
                           int received_count, MPI_Datatype received_type, int from, int received_tag, MPI_Comm comm,
                           MPI_Status* status) {
  return Answer(FMI_Sendrecv(sent, sent_count, In(sent_type), InRank(to), InTag(sent_tag), received, received_count,
                             In(received_type), InRank(from), InTag(received_tag), In(comm), OutStatus(status)));
}

KEDGE_MPI int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Isend(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Irsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return MPI_Isend(data, count, type, to, tag, comm, request);
}

KEDGE_MPI int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Irecv(data, count, In(type), InRank(from), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return Answer(FMI_Wait(InOut(request), OutStatus(status)));
}

KEDGE_MPI int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  int code = kSuccess;
  for (int i = 0; i < count; ++i) {
    const int own = MPI_Wait(&requests[i], statuses == nullptr ? nullptr : &statuses[i]);
    if (own != kSuccess) code = own;
  }
  return code;
}

KEDGE_MPI int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  FMI_Request own = In(*request);
  FMI_Status found{};
  const int code = Answer(FMI_Test(&own, flag, &found));
  Set(request, own);
  if (*flag != 0 && status != nullptr) Set(status, found);
  return code;
}

KEDGE_MPI int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count) {
  const FMI_Status found = In(*status);
  return Answer(FMI_Get_count(&found, In(type), OutInt(count)));
}

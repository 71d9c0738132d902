// The MPI ABI on FMI: from rank to rank.
#include <vector>

#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<FMI_Request> InAll(int count, const MPI_Request* requests) {
  std::vector<FMI_Request> own;
  for (int i = 0; i < count; ++i) own.push_back(In(requests[i]));
  return own;
}

}  // namespace

KEDGE_MPI int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return Answer(FMI_Send(data, count, In(type), InRank(to), InTag(tag), In(comm)));
}

KEDGE_MPI int MPI_Ssend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return Answer(FMI_Ssend(data, count, In(type), InRank(to), InTag(tag), In(comm)));
}

// That its receive has begun makes nothing faster here.
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

KEDGE_MPI int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Issend(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
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

KEDGE_MPI int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  std::vector<FMI_Request> own = InAll(count, requests);
  const int code = Answer(FMI_Waitany(count, own.data(), index, OutStatus(status)));
  if (*index != FMI_UNDEFINED) Set(&requests[*index], FMI_REQUEST_NULL);
  *index = OutNumber(*index);
  return code;
}

KEDGE_MPI int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  std::vector<FMI_Request> own = InAll(count, requests);
  std::vector<FMI_Status> found(own.size());
  const int code = Answer(FMI_Testall(count, own.data(), flag, found.data()));
  for (size_t i = 0; *flag != 0 && i < own.size(); ++i) {
    Set(&requests[i], own[i]);
    if (statuses != nullptr) Set(&statuses[i], found[i]);
  }
  return code;
}

KEDGE_MPI int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return Answer(FMI_Probe(InRank(from), InTag(tag), In(comm), OutStatus(status)));
}

KEDGE_MPI int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  FMI_Status found{};
  const int code = Answer(FMI_Iprobe(InRank(from), InTag(tag), In(comm), flag, &found));
  if (*flag != 0 && status != nullptr) Set(status, found);
  return code;
}

KEDGE_MPI int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count) {
  const FMI_Status found = In(*status);
  return Answer(FMI_Get_count(&found, In(type), OutInt(count)));
}

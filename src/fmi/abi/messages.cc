// The MPI ABI on FMI: from rank to rank.
#include <vector>

#include "fmi/abi/abi.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

namespace {

// Those of a list as FMI has them. The program has what became of them when the call returns.
class Requests {
 public:
  Requests(int count, MPI_Request* requests) : to_(requests) {
    for (int i = 0; i < count; ++i) own_.push_back(In(requests[i]));
  }
  ~Requests() {
    for (size_t i = 0; i < own_.size(); ++i) Set(&to_[i], own_[i]);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  operator FMI_Request*() { return own_.data(); }  // NOLINT(google-explicit-constructor)

 private:
  MPI_Request* to_;
  std::vector<FMI_Request> own_;
};

class Statuses {
 public:
  // `room` is null for MPI_STATUSES_IGNORE.
  Statuses(int count, MPI_Status* room) : to_(room), own_(room != nullptr && count > 0 ? static_cast<size_t>(count) : 0) {}
  operator FMI_Status*() { return to_ != nullptr ? own_.data() : FMI_STATUSES_IGNORE; }  // NOLINT(google-explicit-constructor)
  // The first of them.
  void Give(int count) {
    for (int i = 0; to_ != nullptr && i < count; ++i) Set(&to_[i], own_[static_cast<size_t>(i)]);
  }

 private:
  MPI_Status* to_;
  std::vector<FMI_Status> own_;
};

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

KEDGE_MPI int MPI_Bsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return Answer(FMI_Bsend(data, count, In(type), InRank(to), InTag(tag), In(comm)));
}

KEDGE_MPI int MPI_Buffer_attach(void* buffer, int bytes) {
  return Answer(FMI_Buffer_attach(buffer, bytes));
}

KEDGE_MPI int MPI_Buffer_detach(void* buffer, int* bytes) {
  return Answer(FMI_Buffer_detach(buffer, bytes));
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

KEDGE_MPI int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int sent_tag, int from, int received_tag,
                                   MPI_Comm comm, MPI_Status* status) {
  return Answer(FMI_Sendrecv_replace(data, count, In(type), InRank(to), InTag(sent_tag), InRank(from), InTag(received_tag),
                                     In(comm), OutStatus(status)));
}

KEDGE_MPI int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Isend(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Issend(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Ibsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Ibsend(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
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
  Statuses found(count, statuses);
  const int code = Answer(FMI_Waitall(count, Requests(count, requests), found));
  found.Give(count);
  return code;
}

KEDGE_MPI int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  Statuses found(1, status);
  const int code = Answer(FMI_Test(InOut(request), flag, found));
  found.Give(*flag);
  return code;
}

KEDGE_MPI int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  return Answer(FMI_Waitany(count, Requests(count, requests), OutInt(index), OutStatus(status)));
}

KEDGE_MPI int MPI_Waitsome(int count, MPI_Request* requests, int* finished, int* indices, MPI_Status* statuses) {
  Statuses found(count, statuses);
  const int code = Answer(FMI_Waitsome(count, Requests(count, requests), OutInt(finished), indices, found));
  found.Give(*finished);
  return code;
}

KEDGE_MPI int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  Statuses found(count, statuses);
  const int code = Answer(FMI_Testall(count, Requests(count, requests), flag, found));
  if (*flag != 0) found.Give(count);
  return code;
}

KEDGE_MPI int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  Statuses found(1, status);
  const int code = Answer(FMI_Testany(count, Requests(count, requests), OutInt(index), flag, found));
  found.Give(*flag);
  return code;
}

KEDGE_MPI int MPI_Testsome(int count, MPI_Request* requests, int* finished, int* indices, MPI_Status* statuses) {
  Statuses found(count, statuses);
  const int code = Answer(FMI_Testsome(count, Requests(count, requests), OutInt(finished), indices, found));
  found.Give(*finished);
  return code;
}

KEDGE_MPI int MPI_Request_free(MPI_Request* request) {
  return Answer(FMI_Request_free(InOut(request)));
}

KEDGE_MPI int MPI_Send_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                            MPI_Request* request) {
  return Answer(FMI_Send_init(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Ssend_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                             MPI_Request* request) {
  return Answer(FMI_Ssend_init(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Bsend_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                             MPI_Request* request) {
  return Answer(FMI_Bsend_init(data, count, In(type), InRank(to), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Rsend_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                             MPI_Request* request) {
  return MPI_Send_init(data, count, type, to, tag, comm, request);
}

KEDGE_MPI int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  return Answer(FMI_Recv_init(data, count, In(type), InRank(from), InTag(tag), In(comm), OutRequest(request)));
}

KEDGE_MPI int MPI_Start(MPI_Request* request) {
  return Answer(FMI_Start(InOut(request)));
}

KEDGE_MPI int MPI_Startall(int count, MPI_Request* requests) {
  return Answer(FMI_Startall(count, Requests(count, requests)));
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

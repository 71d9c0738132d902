// The C ABI of libkedge-fmi (kedge/fmi.h): checks arguments, and turns statuses into codes, or into the end of the job.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fmi/datatypes.h"
#include "fmi/job.h"
#include "kedge/fmi.h"
#include "os/process/signals.h"

namespace kedge::fmi {
namespace {

// One for the process, as in MPI.
std::unique_ptr<Job>& TheJob() {
  static std::unique_ptr<Job> job;
  return job;
}

[[noreturn]] void EndProcess(int code) {
  std::fflush(nullptr);
  os::ExitNow(code);
}

// fmirun ends the others.
[[noreturn]] void Die(const char* call, const std::string& why) {
  const std::string who = TheJob() ? fmt::format("rank {}: ", TheJob()->messenger().rank()) : "";
  std::fprintf(stderr, "FMI: %s%s: %s\n", who.c_str(), call, why.c_str());
  EndProcess(1);
}

int Answer(const char* call, const Status& status) {
  if (status.ok()) return FMI_SUCCESS;
  if (status.code() == Code::kUnavailable) return FMI_ERR_PROC_FAILED;
  Die(call, status.message());
}

Job& JobIn(const char* call) {
  if (!TheJob()) Die(call, "call it between FMI_Init and FMI_Finalize");
  return *TheJob();
}

Job& JobIn(const char* call, FMI_Comm comm) {
  if (comm != FMI_COMM_WORLD) Die(call, fmt::format("there is no communicator {}, only FMI_COMM_WORLD", static_cast<int>(comm)));
  return JobIn(call);
}

size_t CheckedBytes(const char* call, int count, FMI_Datatype type, const void* data) {
  const size_t element_bytes = BytesOf(type);
  if (element_bytes == 0) Die(call, fmt::format("there is no type {}", static_cast<int>(type)));
  if (count < 0) Die(call, fmt::format("the count is {}", count));
  if (count > 0 && data == nullptr) Die(call, "the buffer is NULL");
  return static_cast<size_t>(count) * element_bytes;
}

uint32_t CheckedRank(const char* call, const Job& job, int rank, const char* what) {
  const uint32_t ranks = job.messenger().ranks();
  if (rank < 0 || rank >= static_cast<int>(ranks))
    Die(call, fmt::format("the {} is {}, and there are {} ranks", what, rank, ranks));
  return static_cast<uint32_t>(rank);
}

void Set(FMI_Status* status, const Received& received) {
  if (status != FMI_STATUS_IGNORE) *status = {received.source, received.tag, received.bytes};
}

constexpr Received kNothing{FMI_ANY_SOURCE, FMI_ANY_TAG, 0};
constexpr Received kFromNobody{FMI_PROC_NULL, FMI_ANY_TAG, 0};

FMI_Request BeginSend(const char* call, Job& job, const void* data, int count, FMI_Datatype type, int to, int tag) {
  const size_t bytes = CheckedBytes(call, count, type, data);
  if (to == FMI_PROC_NULL) return FMI_REQUEST_NULL;
  if (tag < 0) Die(call, fmt::format("the tag is {}", tag));
  return job.messenger().BeginSend(Context::kApplication, CheckedRank(call, job, to, "receiver"), tag, data, bytes);
}

FMI_Request BeginReceive(const char* call, Job& job, void* data, int count, FMI_Datatype type, int from, int tag) {
  const size_t bytes = CheckedBytes(call, count, type, data);
  if (from == FMI_PROC_NULL) return FMI_REQUEST_NULL;
  if (from != FMI_ANY_SOURCE) CheckedRank(call, job, from, "sender");
  if (tag < 0 && tag != FMI_ANY_TAG) Die(call, fmt::format("the tag is {}", tag));
  return job.messenger().BeginReceive(Context::kApplication, from, tag, data, bytes);
}

// Whatever comes of it, the request is gone.
int Finish(const char* call, Job& job, FMI_Request* request, FMI_Status* status) {
  Received received = kNothing;
  Status waited;
  if (*request != FMI_REQUEST_NULL) waited = job.messenger().Wait(*request, &received);
  *request = FMI_REQUEST_NULL;
  Set(status, received);
  return Answer(call, waited);
}

Combine CheckedCombine(const char* call, FMI_Datatype type, FMI_Op op) {
  const Combine combine = CombineOf(type, op);
  if (combine == nullptr) {
    Die(call, fmt::format("there is no operation {} on type {}", static_cast<int>(op), static_cast<int>(type)));
  }
  return combine;
}

// What a rank gives to a gathering, where it may be in its place already.
struct Given {
  const void* sent;
  size_t bytes;
};

Given CheckedGiven(const char* call, const Job& job, const void* sent, int sent_count, FMI_Datatype sent_type,
                   const void* received, int received_count, FMI_Datatype received_type) {
  const size_t received_bytes = CheckedBytes(call, received_count, received_type, received);
  const uint32_t rank = job.messenger().rank();
  if (sent == FMI_IN_PLACE) return {static_cast<const std::byte*>(received) + rank * received_bytes, received_bytes};
  const size_t sent_bytes = CheckedBytes(call, sent_count, sent_type, sent);
  if (sent_bytes != received_bytes) {
    Die(call, fmt::format("{} bytes are sent, and {} received from each rank", sent_bytes, received_bytes));
  }
  return {sent, sent_bytes};
}

void CopyUnlessInPlace(void* to, const void* from, size_t bytes) {
  if (from != FMI_IN_PLACE && bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Init(int*, char***) {
  if (TheJob()) Die("FMI_Init", "it has been called before");
  const auto options = Job::FromEnvironment();
  if (!options.ok()) Die("FMI_Init", options.status().message());
  auto job = Job::Attach(*options);
  if (!job.ok()) Die("FMI_Init", job.status().message());
  TheJob() = std::move(*job);
  return Answer("FMI_Init", TheJob()->Begin());
}

int FMI_Finalize(void) {
  const kedge::Status ended = JobIn("FMI_Finalize").End();
  if (!ended.ok()) Die("FMI_Finalize", ended.message());
  TheJob().reset();
  return FMI_SUCCESS;
}

int FMI_Abort(FMI_Comm comm, int code) {
  JobIn("FMI_Abort", comm);
  EndProcess(code != 0 ? code : 1);
}

int FMI_Comm_rank(FMI_Comm comm, int* rank) {
  *rank = static_cast<int>(JobIn("FMI_Comm_rank", comm).messenger().rank());
  return FMI_SUCCESS;
}

int FMI_Comm_size(FMI_Comm comm, int* size) {
  *size = static_cast<int>(JobIn("FMI_Comm_size", comm).messenger().ranks());
  return FMI_SUCCESS;
}

double FMI_Wtime(void) {
  return static_cast<double>(kedge::SystemClock().NowNs()) * 1e-9;
}

int FMI_Loop(void** ckpts, int* sizes, int len) {
  constexpr char kCall[] = "FMI_Loop";
  Job& job = JobIn(kCall);
  if (len < 0) Die(kCall, fmt::format("there are {} arrays", len));
  if (len > 0 && (ckpts == nullptr || sizes == nullptr)) Die(kCall, "the arrays are NULL");
  for (int i = 0; i < len; ++i) CheckedBytes(kCall, sizes[i], FMI_BYTE, ckpts[i]);
  const auto step = job.Loop({ckpts, sizes, len});
  if (!step.ok()) Die(kCall, step.status().message());
  if (*step > INT32_MAX) Die(kCall, "there were more steps than an int counts");
  return static_cast<int>(*step);
}

int FMI_Send(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm) {
  Job& job = JobIn("FMI_Send", comm);
  FMI_Request request = BeginSend("FMI_Send", job, data, count, type, to, tag);
  return Finish("FMI_Send", job, &request, FMI_STATUS_IGNORE);
}

int FMI_Recv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Status* status) {
  Job& job = JobIn("FMI_Recv", comm);
  FMI_Request request = BeginReceive("FMI_Recv", job, data, count, type, from, tag);
  const int code = Finish("FMI_Recv", job, &request, status);
  if (from == FMI_PROC_NULL) Set(status, kFromNobody);
  return code;
}

int FMI_Sendrecv(const void* sent, int sent_count, FMI_Datatype sent_type, int to, int sent_tag, void* received,
                 int received_count, FMI_Datatype received_type, int from, int received_tag, FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Sendrecv";
  Job& job = JobIn(kCall, comm);
  FMI_Request receive = BeginReceive(kCall, job, received, received_count, received_type, from, received_tag);
  FMI_Request send = BeginSend(kCall, job, sent, sent_count, sent_type, to, sent_tag);
  const int receive_code = Finish(kCall, job, &receive, status);
  const int send_code = Finish(kCall, job, &send, FMI_STATUS_IGNORE);
  if (from == FMI_PROC_NULL) Set(status, kFromNobody);
  return receive_code != FMI_SUCCESS ? receive_code : send_code;
}

int FMI_Isend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  Job& job = JobIn("FMI_Isend", comm);
  *request = BeginSend("FMI_Isend", job, data, count, type, to, tag);
  return job.messenger().is_broken() ? FMI_ERR_PROC_FAILED : FMI_SUCCESS;
}

int FMI_Irecv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request) {
  Job& job = JobIn("FMI_Irecv", comm);
  *request = BeginReceive("FMI_Irecv", job, data, count, type, from, tag);
  return job.messenger().is_broken() ? FMI_ERR_PROC_FAILED : FMI_SUCCESS;
}

int FMI_Wait(FMI_Request* request, FMI_Status* status) {
  return Finish("FMI_Wait", JobIn("FMI_Wait"), request, status);
}

int FMI_Waitall(int count, FMI_Request* requests, FMI_Status* statuses) {
  Job& job = JobIn("FMI_Waitall");
  int code = FMI_SUCCESS;
  for (int i = 0; i < count; ++i) {
    const int own = Finish("FMI_Waitall", job, &requests[i], statuses == FMI_STATUSES_IGNORE ? FMI_STATUS_IGNORE : &statuses[i]);
    if (own != FMI_SUCCESS) code = own;
  }
  return code;
}

int FMI_Test(FMI_Request* request, int* flag, FMI_Status* status) {
  Job& job = JobIn("FMI_Test");
  *flag = *request == FMI_REQUEST_NULL || job.messenger().IsComplete(*request) ? 1 : 0;
  return *flag != 0 ? Finish("FMI_Test", job, request, status) : FMI_SUCCESS;
}

int FMI_Get_count(const FMI_Status* status, FMI_Datatype type, int* count) {
  const size_t element_bytes = CheckedBytes("FMI_Get_count", 1, type, status);
  *count = status->bytes % element_bytes == 0 ? static_cast<int>(status->bytes / element_bytes) : -1;
  return FMI_SUCCESS;
}

int FMI_Barrier(FMI_Comm comm) {
  return Answer("FMI_Barrier", JobIn("FMI_Barrier", comm).collectives().Barrier());
}

int FMI_Bcast(void* data, int count, FMI_Datatype type, int root, FMI_Comm comm) {
  Job& job = JobIn("FMI_Bcast", comm);
  const size_t bytes = CheckedBytes("FMI_Bcast", count, type, data);
  return Answer("FMI_Bcast", job.collectives().Broadcast(data, bytes, CheckedRank("FMI_Bcast", job, root, "root")));
}

int FMI_Reduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Reduce";
  Job& job = JobIn(kCall, comm);
  const bool is_root = job.messenger().rank() == CheckedRank(kCall, job, root, "root");
  const size_t bytes = CheckedBytes(kCall, count, type, sent);
  if (is_root) CheckedBytes(kCall, count, type, received);
  if (!is_root && sent == FMI_IN_PLACE) Die(kCall, "FMI_IN_PLACE is for the root alone");
  std::vector<std::byte> own(is_root ? 0 : bytes);
  void* data = is_root ? received : own.data();
  CopyUnlessInPlace(data, sent, bytes);
  return Answer(kCall, job.collectives().Reduce(data, static_cast<size_t>(count), BytesOf(type), CheckedCombine(kCall, type, op),
                                                static_cast<uint32_t>(root)));
}

int FMI_Allreduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Allreduce";
  Job& job = JobIn(kCall, comm);
  CheckedBytes(kCall, count, type, sent);
  CopyUnlessInPlace(received, sent, CheckedBytes(kCall, count, type, received));
  return Answer(
      kCall, job.collectives().Allreduce(received, static_cast<size_t>(count), BytesOf(type), CheckedCombine(kCall, type, op)));
}

int FMI_Gather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
               FMI_Datatype received_type, int root, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Gather";
  Job& job = JobIn(kCall, comm);
  const uint32_t to = CheckedRank(kCall, job, root, "root");
  Given given{sent, 0};
  if (job.messenger().rank() == to) {
    given = CheckedGiven(kCall, job, sent, sent_count, sent_type, received, received_count, received_type);
  } else if (sent == FMI_IN_PLACE) {
    Die(kCall, "FMI_IN_PLACE is for the root alone");
  } else {
    given.bytes = CheckedBytes(kCall, sent_count, sent_type, sent);
  }
  return Answer(kCall, job.collectives().Gather(given.sent, received, given.bytes, to));
}

int FMI_Allgather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                  FMI_Datatype received_type, FMI_Comm comm) {
  constexpr char kCall[] = "FMI_Allgather";
  Job& job = JobIn(kCall, comm);
  const Given given = CheckedGiven(kCall, job, sent, sent_count, sent_type, received, received_count, received_type);
  return Answer(kCall, job.collectives().Allgather(given.sent, received, given.bytes));
}

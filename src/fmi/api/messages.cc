// The C ABI of libkedge-fmi (kedge/fmi.h): from rank to rank.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "fmi/api/checks.h"
#include "fmi/job.h"
#include "fmi/messenger.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

void Set(FMI_Status* status, const Received& received) {
  if (status != FMI_STATUS_IGNORE) *status = {received.source, received.tag, received.bytes};
}

constexpr Received kNothing{FMI_ANY_SOURCE, FMI_ANY_TAG, 0};
constexpr Received kFromNobody{FMI_PROC_NULL, FMI_ANY_TAG, 0};

using Mode = Messenger::SendMode;

FMI_Request BeginSend(const char* call, const Communicator& in, const void* data, int count, FMI_Datatype type, int to, int tag,
                      Mode mode = Mode::kStandard) {
  CheckCount(call, count);
  Elements elements = CheckedElements(call, data, static_cast<uint64_t>(count), type);
  if (to == FMI_PROC_NULL) return FMI_REQUEST_NULL;
  if (tag < 0) Die(call, fmt::format("the tag is {}", tag));
  const uint32_t receiver = CheckedRank(call, in, to, "receiver");
  if (!elements.map) return in.channel.BeginSend(receiver, tag, elements.data, elements.bytes, mode);
  return JobIn(call).packed_messages().BeginSend(in.channel, receiver, tag, std::move(elements), mode);
}

void CheckSource(const char* call, const Communicator& in, int from, int tag) {
  if (from != FMI_ANY_SOURCE) CheckedRank(call, in, from, "sender");
  if (tag < 0 && tag != FMI_ANY_TAG) Die(call, fmt::format("the tag is {}", tag));
}

FMI_Request BeginReceive(const char* call, const Communicator& in, void* data, int count, FMI_Datatype type, int from, int tag) {
  CheckCount(call, count);
  Elements elements = CheckedElements(call, data, static_cast<uint64_t>(count), type);
  if (from == FMI_PROC_NULL) return FMI_REQUEST_NULL;
  CheckSource(call, in, from, tag);
  if (!elements.map) return in.channel.BeginReceive(from, tag, elements.data, elements.bytes);
  return JobIn(call).packed_messages().BeginReceive(in.channel, from, tag, std::move(elements));
}

// Whatever comes of it, the request is gone.
int Finish(const char* call, Job& job, FMI_Request* request, FMI_Status* status) {
  Received received = kNothing;
  Status waited;
  if (*request != FMI_REQUEST_NULL) {
    waited = job.messenger().Wait(*request, &received);
    if (waited.ok()) job.packed_messages().Complete(*request, received.bytes);
  }
  *request = FMI_REQUEST_NULL;
  Set(status, received);
  return Answer(call, waited);
}

int AnswerBegun() {
  if (!TheJob()->messenger().is_broken()) return FMI_SUCCESS;
  TheJob()->WaitUnlessSurvivable();
  return FMI_ERR_PROC_FAILED;
}

// Of a communicator that a failure has kept from being made.
int AnswerNotBegun(FMI_Request* request) {
  *request = FMI_REQUEST_NULL;
  return FMI_ERR_PROC_FAILED;
}

}  // namespace
}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Send(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm) {
  const Communicator* in = CommunicatorIn("FMI_Send", comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
  FMI_Request request = BeginSend("FMI_Send", *in, data, count, type, to, tag);
  return Finish("FMI_Send", *TheJob(), &request, FMI_STATUS_IGNORE);
}

int FMI_Ssend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm) {
  const Communicator* in = CommunicatorIn("FMI_Ssend", comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
  FMI_Request request = BeginSend("FMI_Ssend", *in, data, count, type, to, tag, Mode::kSynchronous);
  return Finish("FMI_Ssend", *TheJob(), &request, FMI_STATUS_IGNORE);
}

int FMI_Recv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Status* status) {
  const Communicator* in = CommunicatorIn("FMI_Recv", comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
  FMI_Request request = BeginReceive("FMI_Recv", *in, data, count, type, from, tag);
  const int code = Finish("FMI_Recv", *TheJob(), &request, status);
  if (from == FMI_PROC_NULL) Set(status, kFromNobody);
  return code;
}

int FMI_Sendrecv(const void* sent, int sent_count, FMI_Datatype sent_type, int to, int sent_tag, void* received,
                 int received_count, FMI_Datatype received_type, int from, int received_tag, FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Sendrecv";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
  FMI_Request receive = BeginReceive(kCall, *in, received, received_count, received_type, from, received_tag);
  FMI_Request send = BeginSend(kCall, *in, sent, sent_count, sent_type, to, sent_tag);
  const int receive_code = Finish(kCall, *TheJob(), &receive, status);
  const int send_code = Finish(kCall, *TheJob(), &send, FMI_STATUS_IGNORE);
  if (from == FMI_PROC_NULL) Set(status, kFromNobody);
  return receive_code != FMI_SUCCESS ? receive_code : send_code;
}

int FMI_Isend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  const Communicator* in = CommunicatorIn("FMI_Isend", comm);
  if (in == nullptr) return AnswerNotBegun(request);
  *request = BeginSend("FMI_Isend", *in, data, count, type, to, tag);
  return AnswerBegun();
}

int FMI_Issend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  const Communicator* in = CommunicatorIn("FMI_Issend", comm);
  if (in == nullptr) return AnswerNotBegun(request);
  *request = BeginSend("FMI_Issend", *in, data, count, type, to, tag, Mode::kSynchronous);
  return AnswerBegun();
}

int FMI_Irecv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request) {
  const Communicator* in = CommunicatorIn("FMI_Irecv", comm);
  if (in == nullptr) return AnswerNotBegun(request);
  *request = BeginReceive("FMI_Irecv", *in, data, count, type, from, tag);
  return AnswerBegun();
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

int FMI_Waitany(int count, FMI_Request* requests, int* index, FMI_Status* status) {
  Job& job = JobIn("FMI_Waitany");
  std::vector<RequestId> begun;
  std::vector<int> indices;
  for (int i = 0; i < count; ++i) {
    if (requests[i] == FMI_REQUEST_NULL) continue;
    begun.push_back(requests[i]);
    indices.push_back(i);
  }
  *index = FMI_UNDEFINED;
  if (begun.empty()) {
    Set(status, kNothing);
    return FMI_SUCCESS;
  }
  *index = indices[job.messenger().WaitAny(begun)];
  return Finish("FMI_Waitany", job, &requests[*index], status);
}

int FMI_Testall(int count, FMI_Request* requests, int* flag, FMI_Status* statuses) {
  Messenger& messenger = JobIn("FMI_Testall").messenger();
  *flag = std::all_of(requests, requests + std::max(count, 0),
                      [&](FMI_Request request) { return request == FMI_REQUEST_NULL || messenger.IsComplete(request); })
              ? 1
              : 0;
  return *flag != 0 ? FMI_Waitall(count, requests, statuses) : FMI_SUCCESS;
}

int FMI_Probe(int from, int tag, FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Probe";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
  Received received = kFromNobody;
  kedge::Status found;
  if (from != FMI_PROC_NULL) {
    CheckSource(kCall, *in, from, tag);
    found = in->channel.WaitForMessage(from, tag, &received);
  }
  Set(status, received);
  return Answer(kCall, found);
}

int FMI_Iprobe(int from, int tag, FMI_Comm comm, int* flag, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Iprobe";
  *flag = 0;
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return FMI_ERR_PROC_FAILED;
  std::optional<Received> found = kFromNobody;
  if (from != FMI_PROC_NULL) {
    CheckSource(kCall, *in, from, tag);
    found = in->channel.FindMessage(from, tag);
  }
  *flag = found ? 1 : 0;
  if (found) Set(status, *found);
  return AnswerBegun();
}

int FMI_Test(FMI_Request* request, int* flag, FMI_Status* status) {
  Job& job = JobIn("FMI_Test");
  *flag = *request == FMI_REQUEST_NULL || job.messenger().IsComplete(*request) ? 1 : 0;
  return *flag != 0 ? Finish("FMI_Test", job, request, status) : FMI_SUCCESS;
}

int FMI_Get_count(const FMI_Status* status, FMI_Datatype type, int* count) {
  constexpr char kCall[] = "FMI_Get_count";
  CheckNotNull(kCall, status, "the status");
  const uint64_t element_bytes =
      IsBasic(type) ? static_cast<uint64_t>(ExtentOf(kCall, type)) : DerivedTypeIn(kCall, type).map->bytes();
  if (element_bytes == 0) {
    *count = status->bytes == 0 ? 0 : FMI_UNDEFINED;
  } else {
    *count = status->bytes % element_bytes == 0 ? static_cast<int>(status->bytes / element_bytes) : FMI_UNDEFINED;
  }
  return FMI_SUCCESS;
}

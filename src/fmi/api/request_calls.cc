// The C ABI of libkedge-fmi (kedge/fmi.h): requests. What waits for them, and those that are begun again and again.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <utility>
#include <vector>

#include "fmi/api/begin_messages.h"
#include "fmi/api/checks.h"
#include "fmi/job_member.h"
#include "fmi/messenger.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

PersistentRequest& PersistentIn(const char* call, FMI_Request request) {
  auto& requests = JobIn(call).objects().requests;
  const int64_t number = request - kOwnRequest;
  const int handle = number > 0 && number <= INT_MAX ? static_cast<int>(number) : 0;
  if (PersistentRequest* found = requests.Find(handle); found != nullptr) return *found;
  if (!requests.WasTaken(handle)) Die(call, fmt::format("there is no request {:#x} that can be started", request));
  Die(call,
      fmt::format(
          "persistent request {} is gone: it was freed, or made by a process that has died, and not before its first FMI_Loop",
          handle));
}

// What a request stands for at the moment.
struct Asked {
  bool is_under_way = false;  // neither null nor a persistent one that is not begun
  RequestId message = 0;      // 0: it is complete
  PersistentRequest* persistent = nullptr;
};

Asked Look(const char* call, FMI_Request request) {
  if (request == FMI_REQUEST_NULL) return {};
  if (request < kOwnRequest) return {true, request, nullptr};
  if (request == kNobodysRequest) return {true, 0, nullptr};
  PersistentRequest& persistent = PersistentIn(call, request);
  return {persistent.is_active, persistent.message, &persistent};
}

bool IsComplete(const Asked& asked) {
  return asked.message == 0 || TheJob()->messenger().IsComplete(asked.message);
}

// Those of the list that are under way.
std::vector<int> UnderWay(const char* call, int count, const FMI_Request* requests) {
  JobIn(call);
  CheckCount(call, count);
  if (count > 0) CheckNotNull(call, requests, "the list of requests");
  std::vector<int> indices;
  for (int i = 0; i < count; ++i) {
    if (Look(call, requests[i]).is_under_way) indices.push_back(i);
  }
  return indices;
}

// Which of them, of which there must be some, is the first to be complete.
int WaitForOne(const char* call, const std::vector<int>& indices, const FMI_Request* requests) {
  std::vector<RequestId> messages;
  for (const int index : indices) {
    messages.push_back(Look(call, requests[index]).message);
    if (messages.back() == 0) return index;
  }
  return indices[TheJob()->messenger().WaitAny(messages)];
}

FMI_Status* At(FMI_Status* statuses, int index) {
  return statuses == FMI_STATUSES_IGNORE ? FMI_STATUS_IGNORE : &statuses[index];
}

// All that are complete are finished; the call's answer. Of several that have failed one is told.
template <typename StatusOf>
int FinishComplete(const char* call, const std::vector<int>& indices, FMI_Request* requests, int* count, int* finished,
                   StatusOf status_of) {
  Status failed;
  *count = 0;
  for (const int index : indices) {
    if (!IsComplete(Look(call, requests[index]))) continue;
    finished[*count] = index;
    Status own = Finish(call, &requests[index], status_of(*count));
    ++*count;
    if (!own.ok()) failed = std::move(own);
  }
  return Answer(call, failed);
}

int MakePersistent(const char* call, PersistentRequest made, FMI_Request* request) {
  CheckNotNull(call, request, "the request");
  const Communicator* in = CommunicatorIn(call, made.comm);
  // It cannot be looked at yet where a failure has kept it from being made, and is when the request is started.
  if (in != nullptr && made.peer != FMI_PROC_NULL) {
    made.is_send ? CheckReceiver(call, *in, made.peer, made.tag) : CheckSource(call, *in, made.peer, made.tag);
  }
  *request = kOwnRequest + TheJob()->objects().requests.Add(std::move(made));
  return in != nullptr ? FMI_SUCCESS : AnswerFailed();
}

int MakePersistentSend(const char* call, SendKind kind, const void* data, int count, FMI_Datatype type, int to, int tag,
                       FMI_Comm comm, FMI_Request* request) {
  JobIn(call);
  return MakePersistent(call, {comm, true, kind, CheckedMessage(call, data, count, type), to, tag}, request);
}

void Start(const char* call, FMI_Request request) {
  if (request <= kOwnRequest) Die(call, "the request is none that can be started");
  PersistentRequest& started = PersistentIn(call, request);
  if (started.is_active) Die(call, "the request was started before, and nobody has waited for it");
  const Communicator* in = CommunicatorIn(call, started.comm);
  started.is_active = true;
  FMI_Request message = Messenger::kGone;
  if (in != nullptr) {
    message = started.is_send ? BeginSend(call, *in, started.elements, started.peer, started.tag, started.kind)
                              : BeginReceive(call, *in, started.elements, started.peer, started.tag);
  }
  started.message = message == kNobodysRequest ? 0 : message;
}

}  // namespace

Status Finish(const char* call, FMI_Request* request, FMI_Status* status) {
  const Asked asked = Look(call, *request);
  Received received = asked.is_under_way && asked.message == 0 ? kFromNobody : kNothing;
  Status waited;
  if (asked.message != 0) {
    JobMember& job = *TheJob();
    waited = job.messenger().Wait(asked.message, &received);
    if (waited.ok()) job.packed_messages().Complete(asked.message, received.bytes);
  }
  if (asked.persistent != nullptr) {
    asked.persistent->End();
  } else {
    *request = FMI_REQUEST_NULL;
  }
  Set(status, received);
  // Misuse counts, whatever becomes of others.
  if (!waited.ok() && waited.code() != Code::kUnavailable) Die(call, waited.message());
  return waited;
}

}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Wait(FMI_Request* request, FMI_Status* status) {
  JobIn("FMI_Wait");
  return Answer("FMI_Wait", Finish("FMI_Wait", request, status));
}

int FMI_Waitall(int count, FMI_Request* requests, FMI_Status* statuses) {
  constexpr char kCall[] = "FMI_Waitall";
  JobIn(kCall);
  kedge::Status failed;
  for (int i = 0; i < count; ++i) {
    kedge::Status own = Finish(kCall, &requests[i], At(statuses, i));
    if (!own.ok()) failed = std::move(own);
  }
  return Answer(kCall, failed);
}

int FMI_Waitany(int count, FMI_Request* requests, int* index, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Waitany";
  const std::vector<int> under_way = UnderWay(kCall, count, requests);
  *index = under_way.empty() ? FMI_UNDEFINED : WaitForOne(kCall, under_way, requests);
  if (!under_way.empty()) return Answer(kCall, Finish(kCall, &requests[*index], status));
  Set(status, kNothing);
  return FMI_SUCCESS;
}

int FMI_Waitsome(int count, FMI_Request* requests, int* finished, int* indices, FMI_Status* statuses) {
  constexpr char kCall[] = "FMI_Waitsome";
  const std::vector<int> under_way = UnderWay(kCall, count, requests);
  *finished = FMI_UNDEFINED;
  if (under_way.empty()) return FMI_SUCCESS;
  WaitForOne(kCall, under_way, requests);
  return FinishComplete(kCall, under_way, requests, finished, indices, [&](int place) { return At(statuses, place); });
}

int FMI_Test(FMI_Request* request, int* flag, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Test";
  JobIn(kCall);
  *flag = IsComplete(Look(kCall, *request)) ? 1 : 0;
  return *flag != 0 ? Answer(kCall, Finish(kCall, request, status)) : FMI_SUCCESS;
}

int FMI_Testall(int count, FMI_Request* requests, int* flag, FMI_Status* statuses) {
  constexpr char kCall[] = "FMI_Testall";
  const std::vector<int> under_way = UnderWay(kCall, count, requests);
  *flag = std::all_of(under_way.begin(), under_way.end(), [&](int i) { return IsComplete(Look(kCall, requests[i])); }) ? 1 : 0;
  return *flag != 0 ? FMI_Waitall(count, requests, statuses) : FMI_SUCCESS;
}

int FMI_Testany(int count, FMI_Request* requests, int* index, int* flag, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Testany";
  const std::vector<int> under_way = UnderWay(kCall, count, requests);
  *index = FMI_UNDEFINED;
  *flag = under_way.empty() ? 1 : 0;
  if (under_way.empty()) Set(status, kNothing);
  const auto found =
      std::find_if(under_way.begin(), under_way.end(), [&](int i) { return IsComplete(Look(kCall, requests[i])); });
  if (found == under_way.end()) return FMI_SUCCESS;
  *index = *found;
  *flag = 1;
  return Answer(kCall, Finish(kCall, &requests[*index], status));
}

int FMI_Testsome(int count, FMI_Request* requests, int* finished, int* indices, FMI_Status* statuses) {
  constexpr char kCall[] = "FMI_Testsome";
  const std::vector<int> under_way = UnderWay(kCall, count, requests);
  *finished = FMI_UNDEFINED;
  if (under_way.empty()) return FMI_SUCCESS;
  return FinishComplete(kCall, under_way, requests, finished, indices, [&](int place) { return At(statuses, place); });
}

int FMI_Request_free(FMI_Request* request) {
  constexpr char kCall[] = "FMI_Request_free";
  JobMember& job = JobIn(kCall);
  CheckNotNull(kCall, request, "the request");
  if (*request == FMI_REQUEST_NULL) Die(kCall, "the request is FMI_REQUEST_NULL");
  const Asked asked = Look(kCall, *request);
  if (asked.message != 0) job.freed_requests().Add(asked.message, job.messenger().IsSend(asked.message));
  if (asked.persistent != nullptr) job.objects().requests.Remove(static_cast<int>(*request - kOwnRequest));
  *request = FMI_REQUEST_NULL;
  return FMI_SUCCESS;
}

int FMI_Send_init(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  return MakePersistentSend("FMI_Send_init", SendKind::kStandard, data, count, type, to, tag, comm, request);
}

int FMI_Ssend_init(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  return MakePersistentSend("FMI_Ssend_init", SendKind::kSynchronous, data, count, type, to, tag, comm, request);
}

int FMI_Bsend_init(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  return MakePersistentSend("FMI_Bsend_init", SendKind::kBuffered, data, count, type, to, tag, comm, request);
}

int FMI_Recv_init(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request) {
  constexpr char kCall[] = "FMI_Recv_init";
  JobIn(kCall);
  return MakePersistent(kCall, {comm, false, {}, CheckedMessage(kCall, data, count, type), from, tag}, request);
}

int FMI_Start(FMI_Request* request) {
  constexpr char kCall[] = "FMI_Start";
  JobIn(kCall);
  CheckNotNull(kCall, request, "the request");
  Start(kCall, *request);
  return AnswerBegun();
}

int FMI_Startall(int count, FMI_Request* requests) {
  constexpr char kCall[] = "FMI_Startall";
  JobIn(kCall);
  CheckCount(kCall, count);
  if (count > 0) CheckNotNull(kCall, requests, "the list of requests");
  for (int i = 0; i < count; ++i) Start(kCall, requests[i]);
  return AnswerBegun();
}

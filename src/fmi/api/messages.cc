// The C ABI of libkedge-fmi (kedge/fmi.h): from rank to rank.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "fmi/api/begin_messages.h"
#include "fmi/api/checks.h"
#include "fmi/job_member.h"
#include "fmi/messenger.h"
#include "fmi/packed_elements.h"
#include "fmi/requests.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

using Mode = Messenger::SendMode;

// Of a communicator that a failure has kept from being made.
int AnswerNotBegun(FMI_Request* request) {
  *request = FMI_REQUEST_NULL;
  return AnswerFailed();
}

// Of a call that is over when its message is: as Finish, of a request that is no persistent one.
int FinishOwn(const char* call, FMI_Request request, FMI_Status* status) {
  Received received = kFromNobody;
  Status waited;
  if (request != kNobodysRequest) {
    JobMember& job = *TheJob();
    received = kNothing;
    waited = job.messenger().Wait(request, &received);
    if (waited.ok()) job.packed_messages().Complete(request, received.bytes);
  }
  Set(status, received);
  return Answer(call, waited);
}

int SendAndFinish(const char* call, SendKind kind, const void* data, int count, FMI_Datatype type, int to, int tag,
                  FMI_Comm comm) {
  const Communicator* in = CommunicatorIn(call, comm);
  if (in == nullptr) return AnswerFailed();
  const FMI_Request sent = BeginSend(call, *in, CheckedMessage(call, data, count, type), to, tag, kind);
  return FinishOwn(call, sent, FMI_STATUS_IGNORE);
}

int Begin(const char* call, SendKind kind, const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm,
          FMI_Request* request) {
  const Communicator* in = CommunicatorIn(call, comm);
  if (in == nullptr) return AnswerNotBegun(request);
  *request = BeginSend(call, *in, CheckedMessage(call, data, count, type), to, tag, kind);
  return AnswerBegun();
}

}  // namespace

void CheckReceiver(const char* call, const Communicator& in, int to, int tag) {
  if (tag < 0) Die(call, fmt::format("the tag is {}", tag));
  CheckedRank(call, in, to, "receiver");
}

void CheckSource(const char* call, const Communicator& in, int from, int tag) {
  if (from != FMI_ANY_SOURCE) CheckedRank(call, in, from, "sender");
  if (tag < 0 && tag != FMI_ANY_TAG) Die(call, fmt::format("the tag is {}", tag));
}

Elements CheckedMessage(const char* call, const void* data, int count, FMI_Datatype type) {
  CheckCount(call, count);
  return CheckedElements(call, data, static_cast<uint64_t>(count), type);
}

FMI_Request BeginSend(const char* call, const Communicator& in, const Elements& elements, int to, int tag, SendKind kind) {
  if (to == FMI_PROC_NULL) return kNobodysRequest;
  CheckReceiver(call, in, to, tag);
  const auto receiver = static_cast<uint32_t>(to);
  const Mode mode = kind == SendKind::kSynchronous ? Mode::kSynchronous : Mode::kStandard;
  const bool copies = kind == SendKind::kBuffered;
  if (!elements.map && !copies) return in.channel.BeginSend(receiver, tag, elements.data, elements.bytes, mode);
  JobMember& job = *TheJob();
  const RequestId sent = job.packed_messages().BeginSend(in.channel, receiver, tag, elements, mode, copies);
  if (!copies) return sent;
  if (sent != Messenger::kGone) job.freed_requests().Add(sent, /*is_send=*/true);
  return kNobodysRequest;
}

FMI_Request BeginReceive(const char* call, const Communicator& in, const Elements& elements, int from, int tag) {
  if (from == FMI_PROC_NULL) return kNobodysRequest;
  CheckSource(call, in, from, tag);
  if (!elements.map) return in.channel.BeginReceive(from, tag, elements.data, elements.bytes);
  return TheJob()->packed_messages().BeginReceive(in.channel, from, tag, elements);
}

int AnswerBegun() {
  if (!TheJob()->messenger().is_broken()) return FMI_SUCCESS;
  TheJob()->WaitUnlessSurvivable();
  return AnswerFailed();
}

}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Send(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm) {
  return SendAndFinish("FMI_Send", SendKind::kStandard, data, count, type, to, tag, comm);
}

int FMI_Ssend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm) {
  return SendAndFinish("FMI_Ssend", SendKind::kSynchronous, data, count, type, to, tag, comm);
}

int FMI_Bsend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm) {
  FMI_Request sent = FMI_REQUEST_NULL;
  return Begin("FMI_Bsend", SendKind::kBuffered, data, count, type, to, tag, comm, &sent);
}

int FMI_Recv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Recv";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  return FinishOwn(kCall, BeginReceive(kCall, *in, CheckedMessage(kCall, data, count, type), from, tag), status);
}

int FMI_Sendrecv(const void* sent, int sent_count, FMI_Datatype sent_type, int to, int sent_tag, void* received,
                 int received_count, FMI_Datatype received_type, int from, int received_tag, FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Sendrecv";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  const Elements there = CheckedMessage(kCall, received, received_count, received_type);
  FMI_Request receive = BeginReceive(kCall, *in, there, from, received_tag);
  FMI_Request send = BeginSend(kCall, *in, CheckedMessage(kCall, sent, sent_count, sent_type), to, sent_tag, SendKind::kStandard);
  const kedge::Status has_received = Finish(kCall, &receive, status);
  const kedge::Status has_sent = Finish(kCall, &send, FMI_STATUS_IGNORE);
  return Answer(kCall, has_received.ok() ? has_sent : has_received);
}

// What is sent is copied before anything comes into its place.
int FMI_Sendrecv_replace(void* data, int count, FMI_Datatype type, int to, int sent_tag, int from, int received_tag,
                         FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Sendrecv_replace";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
  const Elements elements = CheckedMessage(kCall, data, count, type);
  BeginSend(kCall, *in, elements, to, sent_tag, SendKind::kBuffered);
  return FinishOwn(kCall, BeginReceive(kCall, *in, elements, from, received_tag), status);
}

int FMI_Isend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  return Begin("FMI_Isend", SendKind::kStandard, data, count, type, to, tag, comm, request);
}

int FMI_Issend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  return Begin("FMI_Issend", SendKind::kSynchronous, data, count, type, to, tag, comm, request);
}

int FMI_Ibsend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request) {
  return Begin("FMI_Ibsend", SendKind::kBuffered, data, count, type, to, tag, comm, request);
}

int FMI_Irecv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request) {
  constexpr char kCall[] = "FMI_Irecv";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerNotBegun(request);
  *request = BeginReceive(kCall, *in, CheckedMessage(kCall, data, count, type), from, tag);
  return AnswerBegun();
}

int FMI_Buffer_attach(void* buffer, int bytes) {
  constexpr char kCall[] = "FMI_Buffer_attach";
  CheckCount(kCall, bytes);
  if (JobIn(kCall).attached()) Die(kCall, "there is a buffer already");
  TheJob()->attached() = {buffer, bytes};
  return FMI_SUCCESS;
}

int FMI_Buffer_detach(void* buffer, int* bytes) {
  constexpr char kCall[] = "FMI_Buffer_detach";
  JobMember& job = JobIn(kCall);
  if (!job.attached()) Die(kCall, "there is no buffer");
  const kedge::Status sent = job.freed_requests().FinishSends(&job.messenger(), &job.packed_messages());
  std::memcpy(buffer, &job.attached()->first, sizeof(void*));
  *bytes = job.attached()->second;
  job.attached().reset();
  return Answer(kCall, sent);
}

int FMI_Probe(int from, int tag, FMI_Comm comm, FMI_Status* status) {
  constexpr char kCall[] = "FMI_Probe";
  const Communicator* in = CommunicatorIn(kCall, comm);
  if (in == nullptr) return AnswerFailed();
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
  if (in == nullptr) return AnswerFailed();
  std::optional<Received> found = kFromNobody;
  if (from != FMI_PROC_NULL) {
    CheckSource(kCall, *in, from, tag);
    found = in->channel.FindMessage(from, tag);
  }
  *flag = found ? 1 : 0;
  if (found) Set(status, *found);
  return AnswerBegun();
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

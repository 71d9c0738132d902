// How calls of the C ABI begin messages, and wait for requests.
#pragma once

#include <cstdint>

#include "fmi/api/checks.h"
#include "fmi/requests.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

// Of requests that stand for nothing, and of messages from and to FMI_PROC_NULL.
constexpr Received kNothing{FMI_ANY_SOURCE, FMI_ANY_TAG, 0};
constexpr Received kFromNobody{FMI_PROC_NULL, FMI_ANY_TAG, 0};

inline void Set(FMI_Status* status, const Received& received) {
  if (status != FMI_STATUS_IGNORE) *status = {received.source, received.tag, received.bytes};
}

// What must hold of a message's other side, unless that is FMI_PROC_NULL.
void CheckReceiver(const char* call, const Communicator& in, int to, int tag);
void CheckSource(const char* call, const Communicator& in, int from, int tag);
Elements CheckedMessage(const char* call, const void* data, int count, FMI_Datatype type);

FMI_Request BeginSend(const char* call, const Communicator& in, const Elements& elements, int to, int tag, SendKind kind);
FMI_Request BeginReceive(const char* call, const Communicator& in, const Elements& elements, int from, int tag);
// Whatever comes of it, the request is gone, or not begun any more.
Status Finish(const char* call, FMI_Request* request, FMI_Status* status);
// The answer of a call that has begun something.
int AnswerBegun();

}  // namespace kedge::fmi

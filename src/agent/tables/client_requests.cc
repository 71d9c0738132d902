#include "agent/tables/client_requests.h"

namespace kedge {

void ClientRequests::Register(size_t kind, Handler handler) {
  const bool is_first = handlers_.emplace(kind, std::move(handler)).second;
  KEDGE_CHECK(is_first);
}

void ClientRequests::RefuseWithoutSession(const Question& question) {
  question.Answer(Status(Code::kFailedPrecondition, "this needs a session, and there is none"));
}

void ClientRequests::Handle(const Message& request, Session* session, const Question& question) const {
  const auto found = handlers_.find(request.index());
  if (found == handlers_.end()) return question.Answer(Status(Code::kInvalidArgument, "the agent is not asked such a thing"));
  found->second(request, session, question);
}

}  // namespace kedge

// What clients and tools ask of the agent (session/messages.h): which module answers it, and how.
//
// A module registers the requests that it answers, in its constructor; the door brings them (door/server.h). On the event loop's
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "os/files/unique_fd.h"
#include "session/messages.h"

namespace kedge {

struct Session;

// Sends answers to who is connected.
class AnswerSender {
 public:
  virtual ~AnswerSender() = default;
  // Nothing happens when the connection is gone.
  virtual void Send(uint64_t connection, uint64_t number, const Message& answer, std::vector<os::UniqueFd> descriptors) = 0;
  virtual bool IsConnected(uint64_t connection) const = 0;
};

// One question, by which it is answered. Copies are of the same one. Does not outlive the sender.
class Question {
 public:
  // `number`: chosen by who asks, who has that connection.
  Question(AnswerSender& sender, uint64_t connection, uint64_t number)
      : sender_(&sender), connection_(connection), number_(number) {}

  // Nothing happens when the connection is gone.
  void Answer(const Message& answer, std::vector<os::UniqueFd> descriptors = {}) const {
    sender_->Send(connection_, number_, answer, std::move(descriptors));
  }
  // DoneReply or ErrorReply.
  void Answer(const Status& status) const { status.ok() ? Answer(Message(DoneReply{})) : Answer(Message(ErrorReply{status})); }
  template <typename Reply>
  void Answer(const Result<Reply>& reply, std::vector<os::UniqueFd> descriptors = {}) const {
    reply.ok() ? Answer(Message(*reply), std::move(descriptors)) : Answer(reply.status());
  }

  uint64_t connection() const { return connection_; }
  // Whether somebody still waits for the answer.
  bool IsWanted() const { return sender_->IsConnected(connection_); }

  friend bool operator==(const Question&, const Question&) = default;

 private:
  AnswerSender* sender_;
  uint64_t connection_;
  uint64_t number_;
};

class ClientRequests {
 public:
  // Such requests go to `handle`. `handle(const Request&, const Question&)` answers the question, then or later; what
  // `handle(const Request&)` returns is the answer. REQUIRES: nobody else answers them.
  template <typename Request, typename Handle>
  void On(Handle handle) {
    Register<Request>([handle](const Message& request, Session*, const Question& question) {
      Give(handle, question, std::get<Request>(request));
    });
  }
  // The same for requests of those only who have a session, which comes first: `handle(Session&, const Request&)`.
  template <typename Request, typename Handle>
  void OnSession(Handle handle) {
    Register<Request>([handle](const Message& request, Session* session, const Question& question) {
      if (session == nullptr) return RefuseWithoutSession(question);
      Give(handle, question, *session, std::get<Request>(request));
    });
  }

  // `session`: of who asks; null: none.
  void Handle(const Message& request, Session* session, const Question& question) const;

 private:
  using Handler = std::function<void(const Message& request, Session* session, const Question& question)>;
  template <typename Handle, typename... Arguments>
  static void Give(const Handle& handle, const Question& question, Arguments&&... arguments) {
    if constexpr (std::is_invocable_v<const Handle&, Arguments..., const Question&>) {
      handle(std::forward<Arguments>(arguments)..., question);
    } else {
      question.Answer(handle(std::forward<Arguments>(arguments)...));
    }
  }
  template <typename Request>
  void Register(Handler handler) {
    Register(Message(std::in_place_type<Request>).index(), std::move(handler));
  }
  void Register(size_t kind, Handler handler);
  static void RefuseWithoutSession(const Question& question);

  std::map<size_t, Handler> handlers_;  // by the kind of message
};

}  // namespace kedge

#include "fmi/launch/node_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kedge::fmi {
namespace {

constexpr size_t kOutputMax = 4096;
constexpr std::string_view kBlanks = " \t\r";

std::string_view Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace

Result<FoundNode> ParseFoundNode(std::string_view text) {
  const std::string_view line = Trimmed(text.substr(0, text.find('\n')));
  const size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::string_view name = line.substr(0, end);
  if (name.empty() || name.front() == '-' || name.find(',') != std::string_view::npos)
    return Status(Code::kInvalidArgument, fmt::format("it names no node, but writes \"{}\"", line));
  return FoundNode{std::string(name), std::string(Trimmed(line.substr(end)))};
}

Result<std::unique_ptr<NodeRequest>> NodeRequest::Create(os::EventLoop* loop, const std::string& command, Told told) {
  os::ChildOptions options;
  options.program = "sh";
  options.arguments = {"-c", command};
  options.input = "";
  options.keeps_output = true;
  KEDGE_ASSIGN_OR_RETURN(os::Child child, os::Child::Start(options));
  auto request = std::unique_ptr<NodeRequest>(new NodeRequest(loop, std::move(child), std::move(told)));
  KEDGE_ASSIGN_OR_RETURN(request->watch_, loop->Watch(request->command_.descriptor(), os::EventLoop::Interest::kRead,
                                                      [self = request.get()](os::Readiness) {
                                                        self->loop_.Unwatch(std::exchange(self->watch_, 0));
                                                        const Result<FoundNode> found = self->Found();
                                                        // The request may be gone then.
                                                        const Told tell = std::move(self->told_);
                                                        tell(found);
                                                      }));
  return request;
}

NodeRequest::~NodeRequest() {
  loop_.Unwatch(watch_);
  command_.Kill();
  command_.Reap();
}

Result<FoundNode> NodeRequest::Found() const {
  const os::ChildEnd end = command_.End();
  if (end.exit_code != 0 || end.signal != 0) {
    return Status(Code::kUnavailable, end.signal != 0 ? fmt::format("it was killed by signal {}", end.signal)
                                                      : fmt::format("it ended with {}", end.exit_code));
  }
  KEDGE_ASSIGN_OR_RETURN(const std::string said, command_.Output(kOutputMax));
  return ParseFoundNode(said);
}

}  // namespace kedge::fmi

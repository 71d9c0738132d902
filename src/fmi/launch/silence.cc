#include "fmi/launch/silence.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/clock.h"

namespace kedge::fmi {

Silence::Silence(os::EventLoop* loop, Events events, Limits limits)
    : loop_(*loop), events_(std::move(events)), limits_(limits), looking_(loop_.AddPeriodic(limits_.look, [this] { Look(); })) {}

Silence::~Silence() {
  loop_.CancelTimer(looking_);
  for (auto& [number, node] : nodes_) EndCommand(&node);
}

void Silence::OnHeard(size_t node) {
  Node& its = nodes_[node];
  its.heard_ns = SystemClock().NowNs();
  its.is_told = false;
}

void Silence::Forget(size_t node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  EndCommand(&found->second);
  nodes_.erase(found);
}

bool Silence::IsSilent(const Node& node) const {
  return Duration(SystemClock().NowNs() - node.heard_ns) > limits_.silence;
}

void Silence::Look() {
  // Who is lost is forgotten meanwhile.
  std::vector<size_t> silent;
  for (const auto& [number, node] : nodes_) {
    if (IsSilent(node)) silent.push_back(number);
  }
  for (const size_t number : silent) {
    const auto found = nodes_.find(number);
    if (found == nodes_.end()) continue;
    Node& node = found->second;
    const Duration since_asked(SystemClock().NowNs() - node.asked_ns);
    if (!node.command) {
      if (since_asked > limits_.silence) Ask(number, &node);
    } else if (since_asked > limits_.answer) {
      Lose(number, fmt::format("and a command there does not end within {}", FormatDuration(limits_.answer)));
    }
  }
}

void Silence::Ask(size_t number, Node* node) {
  node->asked_ns = SystemClock().NowNs();
  auto command = os::Child::Start(events_.command(number));
  // What this machine cannot do says nothing about the node.
  if (!command.ok()) return;
  const auto watch =
      loop_.Watch(command->descriptor(), os::EventLoop::Interest::kRead, [this, number](os::Readiness) { OnAnswer(number); });
  node->command = std::move(*command);
  if (watch.ok()) node->watch = *watch;
}

void Silence::OnAnswer(size_t number) {
  Node& node = nodes_.at(number);
  const os::ChildEnd end = node.command->End();
  EndCommand(&node);
  if (!IsSilent(node)) return;
  if (end.exit_code != 0 || end.signal != 0) {
    return Lose(number, fmt::format("and no command can be run there (exit code {})", end.signal + end.exit_code));
  }
  if (!std::exchange(node.is_told, true)) events_.stands_still(number);
}

void Silence::EndCommand(Node* node) {
  if (!node->command) return;
  loop_.Unwatch(node->watch);
  node->command->Kill();
  node->command->Reap();
  node->command.reset();
}

void Silence::Lose(size_t number, const std::string& why) {
  const Duration silent(SystemClock().NowNs() - nodes_.at(number).heard_ns);
  Forget(number);
  events_.lost(number, fmt::format("its task has been silent for {}, {}", FormatDuration(silent), why));
}

}  // namespace kedge::fmi

#include "agent/tables/protection.h"

#include <algorithm>

namespace kedge {

bool SetProgress::IsKnown() const {
  return std::all_of(members.begin(), members.end(), [](const auto& member) { return member.has_value(); });
}

bool SetProgress::IsToAsk(uint32_t self, uint32_t member, int64_t now_ns) const {
  const Contact& contact = contacts[member];
  const bool is_open = !members[member].has_value() || !done[member] || (done[self] && !contact.told_done);
  if (member == self || !is_open) return false;
  // That we are done does not wait for the answer to what was asked before: once all are done nobody tells it any more.
  return contact.asking ? done[self] && !contact.telling_done : now_ns >= contact.next_ns;
}

bool SetProgress::IsDone() const {
  return std::all_of(done.begin(), done.end(), [](bool one) { return one; });
}

}  // namespace kedge

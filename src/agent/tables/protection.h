// A version on its way to level NODE, as this node sees it (protect/protect.h).
//
// It gets on by its steps; by bytes that a worker writes, beyond those that an earlier try had written; by the first wait for a
// worker's turn; and by the marks of members and groups that are asked. Each is finite, so that every wait ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/set_records.h"

namespace kedge {

namespace redundancy {
struct Layout;
struct Node;
}  // namespace redundancy

// How far a worker is with the redundancy of a set, for whoever looks on. The worker holds it weakly, and ends where nobody looks
// on any more.
struct Making {
  std::atomic<bool> begun{false};  // else it waits for its turn
  std::atomic<uint64_t> bytes{0};  // written so far
};

// One set on its way, as this member sees it.
struct SetProgress {
  SetIdentity identity;
  std::vector<std::optional<SetMember>> members;  // as far as they are known
  std::vector<bool> done;                         // by member: its redundancy is whole
  struct Contact {
    bool asking = false;
    bool telling_done = false;  // by what it is asked with
    bool told_done = false;     // it knows that we are done
    int64_t next_ns = 0;
    uint64_t mark = 0;  // the greatest that it has told
    Status error;       // of the last try
  };
  std::vector<Contact> contacts;
  bool measuring = false;          // a worker makes our block table
  std::shared_ptr<Making> making;  // a worker makes our redundancy
  uint64_t made_bytes = 0;         // the most that one has written
  uint64_t turns_waited = 0;       // ticks that went by before one began
  uint64_t room_bytes = 0;         // that our redundancy has yet to take: an estimate until all members are known
  bool wants_room = false;         // there was none: to be tried again when some comes free
  uint32_t failures = 0;
  int64_t next_try_ns = 0;

  bool IsKnown() const;
  bool IsDone() const;
  // Whether the member is to be shown our image now, and asked for its own; or told that we are done.
  bool IsToAsk(uint32_t self, uint32_t member, int64_t now_ns) const;
  // Grows for as long as our part of it gets on.
  uint64_t Mark() const { return made_bytes + turns_waited; }
  // Looks how far the worker is; whether further than ever.
  bool GetsOn();
};

struct Protection {
  std::shared_ptr<const redundancy::Layout> layout;
  uint32_t group = 0;
  uint32_t member = 0;
  std::vector<SetProgress> sets;
  std::set<uint32_t> groups_done;
  std::set<std::string> to_tell;  // nodes that have yet to hear of them
  std::set<std::string> asking;   // and told by the same message
  int64_t next_ask_ns = 0;        // about other groups
  uint32_t times_asked = 0;
  bool parent_answers = true;             // when it was last asked
  std::map<std::string, uint64_t> marks;  // by node: the greatest that it has told, asked about other groups
  int64_t began_ns = 0;
  int64_t progress_ns = 0;  // of any kind
  int64_t step_ns = 0;      // of the last step: bytes that come do not count

  void OnStep(int64_t now_ns) { progress_ns = step_ns = now_ns; }
  // Of the own group.
  const redundancy::Node& NodeOf(uint32_t of_member) const;
  // kTimeout, naming the nodes (or groups) that the version waits for.
  Status Missing() const;
};

}  // namespace kedge

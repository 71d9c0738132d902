// Retention: which complete versions are kept, and pins. The last complete version of a name's lineage is never removed, and
// a version goes only after newer ones are durably complete. Removal is one step per version (Store::RemoveFolder), so
// that no torn version is ever seen.
//
// What is abandoned (lineage.h) counts for nothing, and goes once as many versions as are kept were taken after it: until
// then it is all that somebody who went back by mistake can return to. What attempts that are over have left incomplete goes
// once it is abandoned, or a greater generation (version, attempt, take) of the lineage is complete.
//
// Removal and pinning may meet: both put their mark first ("removed", "pinned") and then look for the other's. A
// remover that sees a pin takes its mark away; a pinner that sees the mark takes the pin away and reports that the
// version is gone. So a pin that was reported done holds. A pin beats a mark: what bears both is a version. In the same
// way two removers, each counting on the version that the other removes, see each other's marks, and at least one gives
// way. Nobody takes another's mark away, dead or alive. Should removers die between mark and look until every version
// bears one, the newest still counts (VersionInfo::reprieved), and all stay until a newer version is complete.
//
// Space is freed by reachability: while another version has blocks in an older one's objects, the older one is marked removed
// and loses its records (it is no version any more), but not its objects. Images under way say before what they may come to
// refer to (base_version.h), so that removers look for references after they have put their mark.
//
// What somebody withdraws (kedge rm) goes although nothing newer has taken its place, and nodes may hold copies of it. Its mark
// stays until something of the lineage that was taken later is complete (IsWithdrawn): it tells agents that they need not send
// it again, and whoever publishes it all the same that it has been removed. Restarts must not go on from it: a second mark, in
// the folder of the name, tells them, which look into no generation's folder where the nodes have all that they need.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/attempts.h"
#include "store/catalog.h"
#include "store/versions.h"

namespace kedge {

struct RetentionOptions {
  uint32_t keep = 2;  // newest complete versions of the name to keep, >= 1; pinned ones are kept besides
  // Generations that may not be touched: what is being flushed or read.
  std::set<Generation> in_use;
  // What was seen of other attempts' signs of life, from one call to the next (IsSilent). Null: only what a later attempt has
  // completed a newer version after counts as left incomplete.
  LeaseWatch* watch = nullptr;
};

enum class Removal { kRemoved, kEmptied, kPinned, kLast };

struct RetentionReport {
  std::vector<Generation> removed;
  std::vector<Generation> emptied;  // no version any more; objects kept for another version
  bool waits = false;               // for attempts to be silent that have left something incomplete, or for what is in use
};

// Applies `options` to one name: first complete versions beyond `keep`, what is superseded, abandoned or left incomplete, and
// not needed, oldest first; then emptied ones that nothing refers to any more, and restored records that say nothing any
// more. Stops at the first error; what is in `report` (may be null) is done. Any number of processes may do so at a time.
// kBusy: in the name of an attempt that a newer one has taken over from.
Status ApplyRetention(const Catalog& catalog, const std::string& job, const std::string& name, const RetentionOptions& options,
                      RetentionReport* report);

// Whether a newer attempt goes on from elsewhere (kBusy). What an earlier one has taken may be what it goes on from; what is
// above that is not for anybody.
Status CheckNotAbandoned(const Catalog& catalog, const Generation& generation);

// For whoever has just published something of a generation that is not complete yet, in the name of its attempt. Where a newer
// attempt has completed what takes the place of it, the retention that went with that may have passed already, and nobody looks
// again: it is removed at once. kBusy: it is abandoned.
Status LeaveNothingBehind(const Catalog& catalog, const Generation& generation);

// Removes one generation, whether complete or not. kBusy: pinned, or in use. kFailedPrecondition: the last complete
// version of its name's lineage, or taken over from as above. kUnsupported: its records are not understood.
Status RemoveVersion(const Catalog& catalog, const Generation& generation, const RetentionOptions& options);

// Removes one generation because somebody wants it to be gone, the last complete one, too: the mark, then the version record, the
// parts, the objects, which stay where others need them (kEmptied). It asks nobody whether the job goes on from it. kBusy:
// pinned. kUnsupported: its records are not understood. kNotFound: nothing of it is there.
Result<Removal> WithdrawVersion(const Catalog& catalog, const Generation& generation);

// Those of a name that are withdrawn: one listing, and a look at each.
Result<std::vector<Generation>> ReadWithdrawn(const Catalog& catalog, const std::string& job, const std::string& name);

// Keeps a complete version for ever, or lets go. kFailedPrecondition: not complete. kNotFound: removed meanwhile.
Status PinVersion(const Catalog& catalog, const Generation& generation);
Status UnpinVersion(const Catalog& catalog, const Generation& generation);

// Which generation of a job has chunks or blocks in which others' objects, or may come to have.
class References {
 public:
  // Of all generations of the job. kUnsupported: one of them is not understood, and may refer to anything.
  static Result<References> Read(const Catalog& catalog, const std::string& job);
  // Whether one that is still there, other than itself, refers to it.
  bool ReferTo(const Generation& generation) const;
  void Forget(const Generation& removed) { by_generation_.erase(removed); }

 private:
  Status ReadName(const Catalog& catalog, const std::string& job, const std::string& name);

  std::map<Generation, std::vector<std::string>> by_generation_;  // only of those that refer to any
};

// Removes one generation and forgets it in `references`, or empties it where they still need it. Asks nothing else but
// whether it has been pinned or become the last complete one; for retention and gc.
struct RemovalOptions {
  bool keep_mark = false;  // all but the mark goes: for what is withdrawn
  bool also_last = false;
};
Result<Removal> RemoveGeneration(const Catalog& catalog, const VersionInfo& info, References* references,
                                 const RemovalOptions& options);

}  // namespace kedge

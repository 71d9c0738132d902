// A rank's part in its job: the states H1 to H3, FMI_Loop and FMI_Finalize (K. Sato's thesis, 5.3.2 and 5.4.1).
//
// After a failure FMI_Loop closes Kedge's context, drops what belongs to former epochs, and says that it is here (H1). When all
// are, it tries whether it can reach its neighbour, opens the context anew, and brings the arrays back, and what its handles
// stand for (H2). When all have, it returns (H3). A further failure at any point begins this again in the next epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmi/board.h"
#include "fmi/checkpoints.h"
#include "fmi/collectives.h"
#include "fmi/messenger.h"
#include "fmi/objects.h"
#include "fmi/packed_elements.h"
#include "fmi/requests.h"

namespace kedge::fmi {

// Of loops within a step.
constexpr size_t kInnerLoopNameMax = 47;

class JobMember {
 public:
  struct Options {
    int descriptor = -1;  // of the board
    uint32_t rank = 0;
    int64_t interval = 1;  // steps from checkpoint to checkpoint, or kWhenDue
  };
  // What fmirun has put into the environment. kFailedPrecondition: it has not started this process.
  static Result<Options> FromEnvironment();
  static Result<std::unique_ptr<JobMember>> Attach(const Options& options);

  // FMI_Init. Waits for all, unless the others are further.
  Status Begin();
  // FMI_Loop: the step's number. All errors are for good.
  Result<int64_t> Loop(const Arrays& arrays);
  // FMI_Inner_loop: the call's number; nothing until Loop after a failure, and where the step must begin again. All errors are
  // for good.
  Result<std::optional<int64_t>> InnerLoop(const std::string& loop, const Arrays& arrays);
  // FMI_Finalize.
  Status End();
  // After a failure. Where no rank can go back, as before the first checkpoint, fmirun ends this process here.
  void WaitUnlessSurvivable();

  // Of this node, as it is now.
  uint32_t FirstRankHere() const;

  Messenger& messenger() { return messenger_; }
  const Messenger& messenger() const { return messenger_; }
  Objects& objects() { return objects_; }
  PackedMessages& packed_messages() { return packed_messages_; }
  FreedRequests& freed_requests() { return freed_requests_; }
  // What the program has given for buffered sends, and is to have back. Copies are made elsewhere.
  std::optional<std::pair<void*, int>>& attached() { return attached_; }

 private:
  JobMember(Board board, const Options& options);

  // H1, then `connect`, H2 and H3. kUnavailable: there was a failure.
  Status Enter(const std::function<Status()>& connect);
  // Says so, and waits until all are as far.
  Status Reach(Phase phase);
  Status ReachNeighbour();
  // A further step, with its checkpoint.
  Status Advance(const Arrays& arrays);
  // After failures: all are at the checkpoint again.
  Status Recover(const Arrays& arrays);
  // The context, on all ranks.
  Status OpenCheckpoints();
  // Opens the context, and brings back what there is.
  Status Restore(const Arrays& arrays);
  // The newest checkpoint, and which step it was taken in; nothing where there is none.
  Status BringBack(const Arrays& arrays);
  Status FirstStep(const Arrays& arrays);
  Status TakeCheckpoint(const Arrays& arrays);
  // All ranks are at the same call of that loop, or of FMI_Loop (""): what each has given as an identity.
  Result<std::vector<uint64_t>> Agree(const std::string& loop, uint64_t number, uint64_t identity);
  // Whether one is due, by the interval from one call with this number on.
  Result<bool> IsDue(int64_t number);
  // The step again, after a loop in it has lost its arrays.
  Status BeginAgain(const Arrays& arrays);
  // The first call of the loop in a step, and others.
  Status BeginInner(const std::string& loop, const Arrays& arrays);
  Status AdvanceInner(const std::string& loop, const Arrays& arrays);
  // Not a failure of the job, but where there was none before.
  void Warn(const std::string& of, const Status& why) const;
  // A rank has taken one, which the job is to count as progress.
  void CountCheckpoint();
  Status CheckLoops() const;
  // What cannot be done by this rank's successor alone: all are started again. Does not return.
  [[noreturn]] void RelaunchAll();

  Board board_;
  const Options options_;
  const uint64_t probe_;  // what others read to see whether they can
  Messenger messenger_;
  Objects objects_;
  PackedMessages packed_messages_;
  FreedRequests freed_requests_;
  std::optional<std::pair<void*, int>> attached_;
  Collectives own_collectives_;  // for Kedge, and for FMI_Loop itself
  Checkpoints checkpoints_;
  std::optional<int64_t> step_;  // nothing before the first FMI_Loop, and while it has yet to be brought back
  // Of loops within the step. Their checkpoints are worth something on top of the step's own alone.
  struct Inner {
    std::map<std::string, int64_t> numbers;  // of their last calls
    uint64_t identity = 0;                   // of the step's checkpoint; 0: this rank has none, or does not know it yet
    bool is_restored = false;                // the step was brought back, so that its loops may be
    bool wants_one = false;                  // a loop would have taken one: the next step is to have its own
    bool is_spoilt = false;                  // a loop's could not be brought back: the step comes back again, without
  };
  Inner inner_;
};

}  // namespace kedge::fmi

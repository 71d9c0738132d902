// A store that lies on two burst buffers, each of which has all of it: whatever was acknowledged survives the loss of one.
//
// It is written to both, the first one first, or not at all: where one of them does not answer, writing fails (kUnavailable), so
// that nothing is ever acknowledged that lies on one alone. It is read from the first, and from the second where the first does
// not answer, does not have it, or has it damaged: readers need one.
//
// - Who creates a record is decided at the first. Whoever finds a record there that the second lacks, since its creator died in
//   between, completes it before saying so.
// - What a failed write leaves on one of them no version names.
// - A list has what either has.
// - Each keeps time by its own clock: stamps and ages are those of the one that answers.
//
// Errors name the one that they come from. It is made to lie before another store (drained/drained_store.h), which takes the
// writes while one of the two is away.
#pragma once

#include <memory>

#include "base/clock.h"
#include "store/store.h"

namespace kedge {

struct CopiedStoreOptions {
  // How long one without an answer is not asked again.
  Duration pause = std::chrono::seconds(10);
  const Clock* clock = &SystemClock();
};

std::unique_ptr<Store> MakeCopiedStore(std::shared_ptr<Store> first, std::shared_ptr<Store> second,
                                       CopiedStoreOptions options = {});

}  // namespace kedge

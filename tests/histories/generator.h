// A whole history from a seed: lives of a job crossed with faults. Not uniform: it is put together of motifs, each a few steps
// that belong together (a rank's error and the retake that follows, an agent that stands still while the job goes on
// elsewhere), because what breaks needs two or three things that meet.
#pragma once

#include <cstdint>

#include "tests/histories/history.h"

namespace kedge::histories {

// The same for the same seed, everywhere, until the generator changes: what has been found is kept as a history, not as a seed.
// `real`: without what only the simulated world has.
History Generate(uint64_t seed, bool real);

}  // namespace kedge::histories

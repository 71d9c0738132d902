// From a history that breaks a promise to a small one that breaks the same: steps go (many at a time, then one by one), then
// what is left is made plainer (keys, ranks, nodes, words of steps), as long as the promise is broken all the same.
#pragma once

#include <functional>

#include "tests/histories/history.h"

namespace kedge::histories {

// `still_breaks` plays a history; it is asked at most `plays_max` times.
History Shrink(History history, const std::function<bool(const History&)>& still_breaks, int plays_max);

}  // namespace kedge::histories

// In which order memory is copied whose writers are held back until it has been: pure arithmetic, after [AI-Ckpt].
//
// What was found to be written during an earlier capture comes first, in the order of its first write there; then the rest by
// address. In the words of the talk: RED (its writer waited last time), GREEN (it did before, and was copied in time since) and
// BLUE (never seen to be written during a capture) are told apart. There is no YELLOW, since no buffer stands between memory and
// the image: a unit goes to its place in the image at once when its writer waits. RED and GREEN are merged by time: whoever
// writes first waits first, and a set that alternates between the colours would be late each second time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace kedge {

class CopyOrder {
 public:
  struct Waited {
    uint64_t unit = 0;     // its address
    int64_t after_ns = 0;  // since the capture began
  };

  // Indices of `units`, which are addresses in ascending order.
  std::vector<uint32_t> Of(std::span<const uint64_t> units) const;
  // A capture of `units` has ended, in which writers waited for some. What others were known for stays.
  void Learn(std::span<const uint64_t> units, std::span<const Waited> waited);

 private:
  std::unordered_map<uint64_t, int64_t> written_after_ns_;  // by address
};

}  // namespace kedge

// Whether compressing pays on the way to a level: the rule of [Ibtesham] for a write.
//
// Ibtesham, Arnold, Bridges, Ferreira, Brightwell, "On the viability of compression for reducing the overheads of
// checkpoint/restart-based fault tolerance" (ICPP 2012): with the saved fraction a, the compression's speed s and the
// bandwidth v to the level, a byte takes 1/s + (1-a)/v with it and 1/v without; so it pays where a * s > v.
//
// The saved fraction is the piece's own, by a trial of it. The speed is what compressing took of late, by the wall's clock: where
// processors are busy it falls by itself. Where they are so busy that compressors wait for one most of the time, it does not pay
// at all, since the application waits then, too. A refusal forgets what is remembered, so that the next trial alone decides; and
// the more of them come in a row, the fewer pieces are tried, so that what does not pay costs next to nothing.
#pragma once

#include <cstdint>

#include "base/duration.h"

namespace kedge::reduce {

class Viability {
 public:
  // What was compressed, and how long it took: by the wall's clock, and of a processor.
  struct Sample {
    uint64_t bytes = 0;
    Duration wall{};
    Duration processor{};
  };

  // Once for each piece: whether a trial of it is worth its time.
  bool Tries();
  // Of that piece; `saved_fraction` and `trial` are of the trial. 0 for the level's bandwidth: it is not known, and the answer is
  // no.
  bool Pays(double saved_fraction, const Sample& trial, double level_bytes_per_second);
  // A piece was compressed.
  void Note(const Sample& sample);

  static constexpr uint32_t kPauseMax = 32;  // pieces

 private:
  // Averages; 0: nothing is known.
  double bytes_per_second_ = 0;
  double processor_share_ = 0;
  uint32_t pause_left_ = 0;
  uint32_t next_pause_ = 1;
};

}  // namespace kedge::reduce

// Whether it is worth while to look for blocks that a version shares with the one before: reduce.incremental = auto.
//
// It costs a pass over the image, off the path of the application. Where next to nothing is found, version after version, the
// images of a while are written as they are; then two versions are tried again: the first has its fingerprints taken, the second
// may share. What it takes to go on is less than what it takes to begin again, so that a job on the edge does not go to and fro.
#pragma once

#include <cstdint>

namespace kedge::reduce {

class Worth {
 public:
  // Of the next image: whether its blocks are to be looked at. Counts the images that are not.
  bool Asks();
  // An image whose blocks were looked at is in the store. `had_base`: there was something to share with. Zeros count as saved.
  void Note(uint64_t bytes, uint64_t saved_bytes, bool had_base);

 private:
  bool is_on_ = true;
  uint32_t poor_ = 0;     // in a row, while it is on
  uint32_t skipped_ = 0;  // in a row, while it is off
};

}  // namespace kedge::reduce

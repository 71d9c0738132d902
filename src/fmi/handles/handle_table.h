// Things behind numbers. A number is given once and never again, so that one whose thing is gone is known to be that.
//
// Numbers follow from the order of calls alone: a rank that is started again, and makes the same calls, has the same numbers. So
// a call takes its number even where it cannot make the thing.
#pragma once

#include <climits>
#include <map>
#include <utility>

#include "base/status.h"
#include "format/wire.h"

namespace kedge::fmi {

template <typename Thing>
class HandleTable {
 public:
  explicit HandleTable(int first) : first_(first), next_(first) {}

  // The next number, of nothing yet.
  int Take() {
    KEDGE_CHECK(next_ < INT_MAX);
    return next_++;
  }
  // What a number that was taken stands for.
  void Put(int handle, Thing thing) { things_.insert_or_assign(handle, std::move(thing)); }
  int Add(Thing thing) {
    const int handle = Take();
    Put(handle, std::move(thing));
    return handle;
  }
  // Null: there is none.
  Thing* Find(int handle) {
    const auto found = things_.find(handle);
    return found == things_.end() ? nullptr : &found->second;
  }
  // Whether the number was ever given.
  bool WasTaken(int handle) const { return handle >= first_ && handle < next_; }
  bool Remove(int handle) { return things_.erase(handle) > 0; }
  void Clear() { things_.clear(); }
  template <typename Do>
  void ForEach(Do act) {
    for (auto& [handle, thing] : things_) act(thing);
  }

  // `write(encoder, thing)`.
  template <typename Write>
  void Encode(Encoder* encoder, Write write) const {
    encoder->Varint(static_cast<uint64_t>(next_));
    encoder->Varint(things_.size());
    for (const auto& [handle, thing] : things_) {
      encoder->Varint(static_cast<uint64_t>(handle));
      write(*encoder, thing);
    }
  }
  // Puts what was encoded beside, or in the place of, what is there. `read(decoder)` is a Result<Thing>.
  template <typename Read>
  Status Decode(Decoder* decoder, Read read) {
    const auto next = static_cast<int>(decoder->VarintAtMost(INT_MAX));
    for (size_t left = decoder->Count(2); left > 0; --left) {
      const auto handle = static_cast<int>(decoder->VarintAtMost(INT_MAX));
      decoder->Require(handle >= first_ && handle < next, "a number that was never given");
      KEDGE_ASSIGN_OR_RETURN(Thing thing, read(*decoder));
      Put(handle, std::move(thing));
    }
    if (next > next_) next_ = next;
    return decoder->status("handles");
  }
  // Of things that belong to a process: which numbers were given, and nothing of what they stand for.
  void EncodeNumbers(Encoder* encoder) const { encoder->Varint(static_cast<uint64_t>(next_)); }
  Status DecodeNumbers(Decoder* decoder) {
    const auto next = static_cast<int>(decoder->VarintAtMost(INT_MAX));
    if (next > next_) next_ = next;
    return decoder->status("numbers");
  }

 private:
  const int first_;
  int next_;
  std::map<int, Thing> things_;
};

}  // namespace kedge::fmi

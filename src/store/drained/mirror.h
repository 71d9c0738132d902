// Mirror: brings versions from a burst buffer's store (the *source*) to the store behind it (the *target*), verbatim: the same
// keys, the same bytes, in the order of the commit rule. So the target, opened alone, has each version whole or not at all.
//
// A generation's order: the objects of all generations that it refers to; its own; its bases and parts; its version record. Each
// is durable before the next. Everything may be done again: what lies in the target already is compared and left. Before anything
// of a version is copied, every byte of it is read and checked, as a restart would see it: a corrupt one stays where it is.
//
// Removal. Whoever removes a generation marks it in the target, and then removes each thing (the whole folder; or version record,
// parts, bases, and objects where nobody needs them) from the source first and from the target after that. Bring looks for the
// version record at the source (L1), puts it into the target (P), and looks again (L2). What it finds gone it takes back: it
// removes the version record, and each folder that it wrote into and that the source has not got any more. It writes nothing
// after that. Let S and T be the removal from source and target, of whatever it is that Bring has written a copy of:
//  - S after L2: T comes after S, and takes all that Bring has written.
//  - S before L1: L1 sees it, and takes back what Bring has written. If T is over, nobody else would; if it is to come, it finds
//    nothing. What the source still has is either needed by others, or T comes after its S, as above.
//  - S between L1 and L2: L2 sees it. Where T came before P, the folder is gone, and P fails for want of it (or, in a bucket, is
//    taken back).
//  - Bring dies: without P the remains are those of an incomplete version, which retention and gc remove. With P before T, T
//    takes it. With P after T, P has failed; in a bucket a version record without parts stays, which is incomplete, too.
//  - The remover dies between S and T: Bring takes back; if it has ended before S, the version is complete in the target and
//    bears the mark: whoever removes next goes on with it.
// The source's own server alone removes what has been brought; it does not work on the same generation meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/catalog.h"

namespace kedge {

// A generation that has a folder at the source.
struct BufferedGeneration {
  enum class State : uint8_t {
    kUnderWay,  // not complete yet, or about to be removed, or not understood: left alone
    kWaits,     // complete, and its version record is not in the target
    kBrought,   // it is
    kEmptied,   // no version any more: others may need its objects
  };
  Generation generation;
  State state = State::kUnderWay;
  int64_t stamp = 0;    // of the version record at the source; 0: there is none
  std::string problem;  // kUnderWay, because it is not understood: why
};

struct MirrorOptions {
  uint64_t piece_bytes = uint64_t{8} << 20;  // read at a time; two such pieces are in memory
  std::function<bool()> goes_on = {};        // asked after each piece; false: Bring ends with kTimeout
};

// One thread at a time, and one process at a time for a source.
class Mirror {
 public:
  // `view` is made of the two (drained_store.h); all outlive it. `owner` is the source's server, whoever that is: what its
  // predecessor has left half written is removed. kNotFound: no store of Kedge lies in the target.
  static Result<Mirror> Open(Store& source, Store& target, Store& view, const TemporaryOwner& owner, MirrorOptions options);

  // The version that was completed first comes first; what has no version record comes before all.
  Result<std::vector<BufferedGeneration>> List() const;
  // kNotFound: it was removed meanwhile. kIncomplete: it is not complete. kCorrupt: a byte of it is bad, and nothing of it was
  // copied. `bytes` gets how many were.
  Status Bring(const Generation& generation, uint64_t* bytes) const;
  // Whether the target has all objects of it that the source has: for what is emptied.
  Result<bool> HasObjectsOf(const Generation& generation) const;

 private:
  Mirror(Store& source, const Catalog& target, const Catalog& view, MirrorOptions options)
      : source_(&source), target_(target), view_(view), options_(std::move(options)) {}
  Status ListName(const std::string& job, const std::string& name, std::vector<BufferedGeneration>* found) const;
  Result<BufferedGeneration> Judge(const Generation& generation) const;

  Store* source_;
  Catalog target_;  // alone
  Catalog view_;
  MirrorOptions options_;
};

}  // namespace kedge

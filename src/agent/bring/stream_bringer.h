// Brings the stream of one image to this node, whole or in parts: each block from the first of several sources that has it right.
//
// A source is another node that has the image whole (its own, or a partner's copy), a copy that lies here, or the survivors of
// its set, from which it is rebuilt, or the store. A partner's copy of a thin stream (redundancy/natural.h) counts as one that
// the image is rebuilt from, since other members have the rest. Where the set record is known, every block is held against the
// image's block table; where it is not (the image was never protected), the client's checksums of capture tell. Blocking; for
// workers; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/images/held_stream.h"
#include "agent/peers/peers.h"
#include "agent/peers/remote_object.h"
#include "agent/protect/set_source.h"
#include "redundancy/assemble.h"
#include "redundancy/natural.h"
#include "redundancy/plan.h"
#include "redundancy/stream.h"

namespace kedge {

// What is known of where an image may come from.
struct BringFrom {
  Generation generation;
  uint32_t rank = 0;
  std::string self;  // this node
  std::vector<redundancy::Source> sources;
  std::shared_ptr<StoreContext> store;  // where one of them is the store
  // Its set, when the record is here; else who keeps it.
  std::optional<SetRecord> set;
  struct Keeper {
    std::string node;
    SetIdentity set;
    uint32_t record_crc32c = 0;
  };
  std::vector<Keeper> set_nodes;
  // What lies here: a copy of all of it; images of its set by rank, whether the set is here or not, and of a set that is here by
  // member.
  std::optional<HeldStream> own_copy;
  std::map<uint32_t, HeldStream> own_images;
  std::map<uint32_t, std::pair<HeldStream, BlockTable>> own_objects;
};

class StreamBringer {
 public:
  // Asks for the set record, or for the image record alone. kNotFound: no source says what the image is made of.
  static Result<std::unique_ptr<StreamBringer>> Make(PeerLink link, BringFrom from);

  // Encoded.
  const Buffer& image_record() const { return image_record_; }
  // Where what is brought goes: these bytes of the stream, in order; gaps are left out.
  using Sink = std::function<Status(uint64_t offset, ByteSpan bytes)>;
  // What to align parts at: no block, of this image or of its set, is larger.
  static constexpr uint64_t kPartAlignment = kBlockBytesMax;
  // The stream from `begin` to `end`, which are multiples of kPartAlignment, or its end. Holds no buffers of the network when it
  // returns. Errors are the last source's: kCorrupt, kIncomplete, kUnavailable, kTimeout; the message names the block, or the
  // node.
  Status BringTo(const redundancy::ImageStream& stream, uint64_t begin, uint64_t end, const Sink& sink);
  // "node n2, rebuilt": what was used.
  std::string UsedText() const;
  bool used_store() const { return stored_ != nullptr; }

 private:
  StreamBringer(PeerLink link, BringFrom from) : link_(std::move(link)), from_(std::move(from)) {}
  Status FindSet();
  Result<SetRecord> AskSet(const BringFrom::Keeper& keeper) const;
  Status AskImageRecord();
  Status OpenStored();
  void PrepareRebuild(const redundancy::SetSurvivors& survivors);
  void PrepareAssembler(const redundancy::SetSurvivors& survivors);
  // Brings that much of the stream: a run, or a block of it.
  Status Bring(uint64_t offset, uint64_t bytes, const Sink& sink);
  Status BringBlocks(uint64_t offset, uint64_t bytes, const Sink& sink);
  Status BringRuns(uint64_t begin, const Sink& sink);
  // How much of the stream is best brought at once from there on (redundancy/assemble.h), and how much of the set's blocks that
  // is.
  uint64_t StepAt(uint64_t offset) const;
  // Of the thin stream (redundancy/natural.h), which is all of it where there are no natural blocks.
  uint64_t SetRunAt(uint64_t thin_offset) const;
  // The blocks that are made one by one where runs fail.
  uint64_t SetBlock() const;
  // These bytes, whole blocks to the end of one or of all, where they are until the next are read.
  Result<ByteSpan> Read(uint64_t offset, uint64_t bytes);
  Result<ByteSpan> ReadWhole(const redundancy::Source& source, uint64_t offset, uint64_t bytes);
  Result<ByteSpan> ReadFrom(const std::string& node, uint64_t offset, uint64_t bytes);
  Status ReadStored(uint64_t offset, std::span<std::byte> block);
  Result<ByteSpan> Rebuild(const redundancy::Source& source, uint64_t offset, uint64_t bytes);
  // Of the thin stream, no further than a run goes: `run_bytes` of it are made, where `bytes` from `offset` on are not yet.
  Result<ByteSpan> RebuildThin(uint64_t offset, uint64_t bytes, uint64_t run_bytes);
  // A run of the thin stream, from `begin` on, into `rebuilt_`: from what survives of its stripe, or from the copy of it that is
  // the present source.
  Status AssembleThin(uint64_t begin, uint64_t run_bytes);
  Status CopyThin(uint64_t begin, uint64_t run_bytes);
  // What is rebuilt of these pieces of the stream, which begin at `offset`, into `filled_`, and their natural blocks.
  Status RebuildPieces(uint64_t offset, std::span<const redundancy::ThinStream::Piece> pieces, bool in_runs);
  const BlockTable* table() const { return from_.set.has_value() ? &from_.set->members[member_].blocks : nullptr; }

  const PeerLink link_;
  BringFrom from_;
  uint32_t member_ = 0;  // in the set
  Buffer image_record_;
  std::optional<redundancy::SetArithmetic> arithmetic_;
  std::unique_ptr<SetSource> source_;
  redundancy::ParityTables tables_;
  std::unique_ptr<redundancy::Assembler> assembler_;
  redundancy::ThinStream thin_;
  std::optional<redundancy::NaturalReplicas> replicas_;  // none: thin stream and stream are the same
  Buffer filled_;
  Buffer rebuilt_;
  uint64_t rebuilt_begin_ = UINT64_MAX;
  std::string copy_node_;                            // whose copy of the thin stream `rebuilt_` is of (scheme partner)
  uint64_t rebuild_expected_ = 0;                    // up to where the survivors are told what comes
  const redundancy::ImageStream* stream_ = nullptr;  // while it is brought
  uint64_t end_ = 0;                                 // up to where
  uint64_t thin_end_ = 0;                            // the same in the thin stream
  uint64_t block_bytes_ = 0;
  Buffer block_;
  std::map<std::string, std::unique_ptr<RemoteObject>> whole_;   // by node, that has it
  std::map<std::string, std::unique_ptr<RemoteObject>> copies_;  // the same of its thin stream
  ArrivedBytes arrived_;
  std::unique_ptr<ObjectReader> stored_;  // its object in the store, once that is needed
  std::set<std::string> used_;
  Status gone_;  // why a source that might have had it is left alone
};

}  // namespace kedge

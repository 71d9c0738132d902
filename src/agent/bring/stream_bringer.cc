#include "agent/bring/stream_bringer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/block_table.h"
#include "store/sharing/image_object.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr Duration kAskTimeout = std::chrono::seconds(10);
constexpr Duration kAskMargin = std::chrono::seconds(5);  // for an event loop that is busy, or gone
constexpr Duration kSourceTimeout = std::chrono::seconds(10);

using redundancy::Source;

std::string TextOf(const Source& source) {
  switch (source.kind) {
    case redundancy::SourceKind::kRebuild:
      return source.node.empty() ? "rebuilt" : "from the copy on node " + source.node + " and its replicas";
    case redundancy::SourceKind::kLocal: return "its copy here";
    case redundancy::SourceKind::kStore: return "from the store";
    case redundancy::SourceKind::kNode: break;
  }
  return "from node " + source.node;
}

// All of an object: so long as runs of it are read, those that come next are on their way. `run_at` says how long one is.
template <typename RunAt>
Result<ArrivedBytes> ReadAhead(RemoteObject& remote, uint64_t offset, uint64_t bytes, uint64_t end, RunAt run_at) {
  const bool is_run = bytes == run_at(offset);
  for (uint64_t next = offset; is_run && next < end && next <= offset + SetSource::kAheadBytes; next += run_at(next)) {
    if (!remote.IsExpected(next, run_at(next))) remote.Expect(next, run_at(next));
  }
  return remote.Read(offset, bytes);
}

}  // namespace

Result<std::unique_ptr<StreamBringer>> StreamBringer::Make(PeerLink link, BringFrom from) {
  std::unique_ptr<StreamBringer> bringer(new StreamBringer(std::move(link), std::move(from)));
  Status found = bringer->FindSet();
  if (!found.ok()) {
    // Without its set nothing can be rebuilt; a whole image can still be copied.
    std::erase_if(bringer->from_.sources, [](const Source& source) { return source.kind == redundancy::SourceKind::kRebuild; });
    KEDGE_RETURN_IF_ERROR(bringer->AskImageRecord());
    return bringer;
  }
  for (const Source& source : bringer->from_.sources) {
    if (source.kind == redundancy::SourceKind::kRebuild && bringer->source_ == nullptr)
      bringer->PrepareRebuild(*source.survivors);
  }
  return bringer;
}

Result<SetRecord> StreamBringer::AskSet(const BringFrom::Keeper& keeper) const {
  KEDGE_ASSIGN_OR_RETURN(const Buffer answer,
                         link_.Ask(keeper.node, PeerKind::kSetRecord, Encode(SetRequest{keeper.set, 0}), kAskTimeout));
  const bool is_announced = crc32c::Compute(answer.data(), answer.size()) == keeper.record_crc32c;
  KEDGE_ASSIGN_OR_RETURN(SetRecord record, DecodeSetRecord(answer));
  if (!is_announced || record.identity != keeper.set) {
    return Status(Code::kCorrupt, "the set record of node " + keeper.node + " is not the one that it announced");
  }
  return record;
}

Status StreamBringer::FindSet() {
  Status error(Code::kNotFound, "no node keeps a set of it");
  for (auto keeper = from_.set_nodes.begin(); keeper != from_.set_nodes.end() && !from_.set.has_value(); ++keeper) {
    Result<SetRecord> record = AskSet(*keeper);
    error = record.status();
    if (record.ok()) from_.set = std::move(*record);
  }
  if (!from_.set.has_value()) return error;
  const auto& members = from_.set->members;
  auto self = std::find_if(members.begin(), members.end(), [&](const SetMember& member) { return member.rank == from_.rank; });
  if (self == members.end()) return Status(Code::kCorrupt, from_.set->identity.ToString() + " does not hold the rank");
  member_ = static_cast<uint32_t>(self - members.begin());
  image_record_ = self->image_record;
  return Status::Ok();
}

Status StreamBringer::AskImageRecord() {
  Status error(Code::kNotFound, "no node has it whole");
  for (const Source& source : from_.sources) {
    if (source.kind == redundancy::SourceKind::kStore) {
      error = OpenStored();
      if (error.ok()) return error;
    }
    if (source.kind != redundancy::SourceKind::kNode) continue;
    auto answer = link_.Ask(source.node, PeerKind::kDescribe, Encode(DescribeRequest{from_.generation, from_.rank}), kAskTimeout);
    auto reply = answer.ok() ? DecodeDescribeReply(*answer) : Result<DescribeReply>(answer.status());
    if (reply.ok()) {
      image_record_ = std::move(reply->image_record);
      return Status::Ok();
    }
    error = reply.status();
  }
  return error;
}

// Its object there, and its image record unless that is known already.
Status StreamBringer::OpenStored() {
  if (stored_ != nullptr) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, from_.store->CatalogFor(from_.generation.attempt));
  KEDGE_ASSIGN_OR_RETURN(const StoredImage image, ReadImage(catalog, from_.generation, from_.rank));
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectReader> object, catalog.store().OpenObject(image.object_key));
  Buffer record(image.entry.record_bytes);
  KEDGE_RETURN_IF_ERROR(object->ReadAt(image.entry.record_offset, record));
  if (crc32c::Compute(record.data(), record.size()) != image.entry.record_crc32c) {
    return Status(Code::kCorrupt, image.object_key + ": the image record fails its checksum");
  }
  if (image_record_.empty()) image_record_ = std::move(record);
  KEDGE_ASSIGN_OR_RETURN(stored_, OpenChunkObject(catalog, image, Chunk{}));
  return Status::Ok();
}

// Chunks lie in the store's object where they lie in the stream; who wrote it may have put the record elsewhere.
Status StreamBringer::ReadStored(uint64_t offset, std::span<std::byte> block) {
  KEDGE_RETURN_IF_ERROR(OpenStored());
  for (const redundancy::StreamPiece& piece : stream_->Range(offset, block.size())) {
    const std::span<std::byte> part = block.subspan(piece.stream_offset - offset, piece.bytes);
    switch (piece.part) {
      case redundancy::StreamPart::kGap: std::fill(part.begin(), part.end(), std::byte{0}); break;
      case redundancy::StreamPart::kChunk: KEDGE_RETURN_IF_ERROR(stored_->ReadAt(piece.stream_offset, part)); break;
      case redundancy::StreamPart::kRecord:
        std::copy_n(image_record_.begin() + static_cast<std::ptrdiff_t>(piece.part_offset), part.size(), part.begin());
        break;
    }
  }
  return Status::Ok();
}

void StreamBringer::PrepareRebuild(const redundancy::SetSurvivors& survivors) {
  if (survivors.set->identity != from_.set->identity || survivors.image_node.size() != from_.set->members.size()) return;
  thin_ = redundancy::ThinStream(from_.set->members[member_]);
  if (thin_.bytes() < thin_.stream_bytes()) replicas_.emplace(*from_.set, member_);
  source_ = std::make_unique<SetSource>(link_, *from_.set, kSourceTimeout);
  for (uint32_t member = 0; member < from_.set->members.size(); ++member) {
    const std::optional<uint32_t>& rank = from_.set->members[member].rank;
    if (auto own = rank ? from_.own_images.find(*rank) : from_.own_images.end(); own != from_.own_images.end()) {
      source_->SetStream(member, {own->second, ""});
    } else if (survivors.image_node[member] != from_.self) {
      source_->SetStream(member, {std::nullopt, survivors.image_node[member]});
    }
  }
  if (from_.set->scheme != Scheme::kPartner) PrepareAssembler(survivors);
}

void StreamBringer::PrepareAssembler(const redundancy::SetSurvivors& survivors) {
  auto arithmetic = redundancy::SetArithmetic::Make(*from_.set);
  if (!arithmetic.ok()) return;
  arithmetic_.emplace(std::move(*arithmetic));
  tables_.resize(from_.set->members.size());
  std::map<uint32_t, Pending<Buffer>> answers;  // asked for all at once
  for (uint32_t member = 0; member < tables_.size(); ++member) {
    const std::vector<std::string>& nodes = survivors.parity_nodes[member];
    const std::string holder = nodes.empty() ? "" : nodes.front();
    if (auto own = from_.own_objects.find(member); own != from_.own_objects.end()) {
      source_->SetObject(member, {own->second.first, ""});
      tables_[member] = own->second.second;
    } else if (!holder.empty() && holder != from_.self) {
      link_.AskAsync(holder, PeerKind::kObjectTable, Encode(SetRequest{from_.set->identity, member}), kAskTimeout,
                     answers[member].Setter());
    }
  }
  for (auto& [member, pending] : answers) {
    auto answer = pending.Wait(kAskTimeout + kAskMargin);
    auto table = answer.ok() ? DecodeBlockTable(*answer) : Result<BlockTable>(answer.status());
    if (!table.ok()) continue;
    source_->SetObject(member, {std::nullopt, survivors.parity_nodes[member].front()});
    tables_[member] = std::move(*table);
  }
  assembler_ = std::make_unique<redundancy::Assembler>(*from_.set, *arithmetic_, tables_, *source_);
}

Result<ByteSpan> StreamBringer::ReadWhole(const Source& source, uint64_t offset, uint64_t bytes) {
  if (source.kind == redundancy::SourceKind::kNode) return ReadFrom(source.node, offset, bytes);
  const std::span<std::byte> block = std::span(block_).first(bytes);
  if (source.kind == redundancy::SourceKind::kStore) {
    KEDGE_RETURN_IF_ERROR(ReadStored(offset, block));
    return ByteSpan(block);
  }
  // A copy that this node holds as a partner.
  if (!from_.own_copy || offset + bytes > from_.own_copy->bytes()) return Status(Code::kNotFound, "there is no copy here");
  KEDGE_RETURN_IF_ERROR(from_.own_copy->Read(offset, bytes, block.data()));
  return ByteSpan(block);
}

Result<ByteSpan> StreamBringer::ReadFrom(const std::string& node, uint64_t offset, uint64_t bytes) {
  std::unique_ptr<RemoteObject>& remote = whole_[node];
  if (remote == nullptr) {
    ReadRequest what;
    what.generation = from_.generation;
    what.rank = from_.rank;
    remote = std::make_unique<RemoteObject>(link_, node, what, kSourceTimeout);
  }
  KEDGE_ASSIGN_OR_RETURN(arrived_, ReadAhead(*remote, offset, bytes, end_, [this](uint64_t at) { return StepAt(at); }));
  return arrived_.bytes();
}

Status StreamBringer::CopyThin(uint64_t begin, uint64_t run_bytes) {
  rebuilt_.resize(std::min(run_bytes, thin_.bytes() - begin));
  if (copy_node_ == from_.self) {
    const auto own = from_.own_objects.find(member_);
    if (own == from_.own_objects.end() || own->second.first.bytes() != thin_.bytes()) {
      return Status(Code::kNotFound, "there is no copy here");
    }
    return own->second.first.Read(begin, rebuilt_.size(), rebuilt_.data());
  }
  std::unique_ptr<RemoteObject>& remote = copies_[copy_node_];
  if (remote == nullptr) {
    ReadRequest what;
    what.of_object = true;
    what.set = from_.set->identity;
    what.member = member_;
    remote = std::make_unique<RemoteObject>(link_, copy_node_, what, kSourceTimeout);
  }
  KEDGE_ASSIGN_OR_RETURN(const ArrivedBytes arrived,
                         ReadAhead(*remote, begin, rebuilt_.size(), thin_end_, [this](uint64_t at) { return SetRunAt(at); }));
  std::ranges::copy(arrived.bytes(), rebuilt_.begin());
  return Status::Ok();
}

Status StreamBringer::AssembleThin(uint64_t begin, uint64_t run_bytes) {
  const redundancy::BlockRef wanted{member_, false, begin};
  rebuilt_.resize(arithmetic_->BytesOf(wanted, static_cast<uint32_t>(run_bytes)));
  rebuild_expected_ = std::max(rebuild_expected_, begin);
  while (rebuild_expected_ < thin_end_ && rebuild_expected_ <= begin + SetSource::kAheadBytes) {
    const uint64_t next_bytes = SetRunAt(rebuild_expected_);
    assembler_->Expect({member_, false, rebuild_expected_}, static_cast<uint32_t>(next_bytes));
    rebuild_expected_ += next_bytes;
  }
  Status assembled = assembler_->Assemble(wanted, rebuilt_);
  for (const redundancy::BadBlock& bad : assembler_->TakeBadBlocks()) {
    LogWarning("agent", "{}: the {} block at {} of member {} is left out: {}", from_.set->identity.ToString(),
               bad.block.parity ? "parity" : "data", bad.block.offset, bad.block.member, bad.status.ToString());
  }
  return assembled;
}

Result<ByteSpan> StreamBringer::RebuildThin(uint64_t offset, uint64_t bytes, uint64_t run_bytes) {
  if (offset < rebuilt_begin_ || offset + bytes > rebuilt_begin_ + rebuilt_.size()) {
    const uint64_t begin = offset / SetBlock() * SetBlock();
    rebuilt_begin_ = UINT64_MAX;
    KEDGE_RETURN_IF_ERROR(assembler_ != nullptr ? AssembleThin(begin, run_bytes) : CopyThin(begin, run_bytes));
    rebuilt_begin_ = begin;
    os::KillPoint("bring-rebuilt");
  }
  if (offset - rebuilt_begin_ + bytes > rebuilt_.size()) return Status(Code::kCorrupt, "a rebuilt block is too short");
  return ByteSpan(rebuilt_).subspan(offset - rebuilt_begin_, bytes);
}

Result<ByteSpan> StreamBringer::Rebuild(const Source& source, uint64_t offset, uint64_t bytes) {
  const bool can = source_ != nullptr && (assembler_ != nullptr) == source.node.empty() &&
                   source.survivors->set->identity == from_.set->identity;
  if (!can) return Status(Code::kIncomplete, "its set cannot be read");
  if (std::exchange(copy_node_, source.node) != source.node) rebuilt_begin_ = UINT64_MAX;
  if (!replicas_) {
    // The set's blocks may be larger than this image's own.
    const uint64_t set_block = SetBlock();
    return RebuildThin(offset, bytes, (offset % set_block + bytes + set_block - 1) / set_block * set_block);
  }
  filled_.resize(bytes);
  const auto pieces = thin_.OfStream(offset, bytes);
  KEDGE_RETURN_IF_ERROR(RebuildPieces(offset, pieces, bytes == StepAt(offset)));
  KEDGE_RETURN_IF_ERROR(replicas_->Fill(pieces, offset, filled_, [&](uint32_t member, uint64_t at, std::span<std::byte> to) {
    return source_->ReadStream(member, at, to);
  }));
  return ByteSpan(filled_);
}

Status StreamBringer::RebuildPieces(uint64_t offset, std::span<const redundancy::ThinStream::Piece> pieces, bool in_runs) {
  const uint64_t set_block = SetBlock();
  for (const redundancy::ThinStream::Piece& piece : pieces) {
    if (!piece.thin_offset) continue;
    for (uint64_t done = 0; done < piece.bytes;) {
      const uint64_t at = *piece.thin_offset + done;
      const uint64_t begin = at / set_block * set_block;
      // Where the run that has been made reaches, or that which is.
      const bool is_made = at >= rebuilt_begin_ && at < rebuilt_begin_ + rebuilt_.size();
      const uint64_t run_bytes = in_runs ? SetRunAt(begin) : set_block;
      const uint64_t end = is_made ? rebuilt_begin_ + rebuilt_.size() : begin + run_bytes;
      const uint64_t bytes = std::min(piece.bytes - done, end - at);
      KEDGE_ASSIGN_OR_RETURN(const ByteSpan made, RebuildThin(at, bytes, run_bytes));
      std::ranges::copy(made, filled_.begin() + static_cast<std::ptrdiff_t>(piece.stream_offset + done - offset));
      done += bytes;
    }
  }
  return Status::Ok();
}

Result<ByteSpan> StreamBringer::Read(uint64_t offset, uint64_t bytes) {
  Status error(Code::kNotFound, "no source is left");
  for (auto source = from_.sources.begin(); source != from_.sources.end();) {
    const bool rebuild = source->kind == redundancy::SourceKind::kRebuild;
    Result<ByteSpan> block = rebuild ? Rebuild(*source, offset, bytes) : ReadWhole(*source, offset, bytes);
    const auto wrong = block.ok() && table() != nullptr ? redundancy::FirstWrongBlock(*table(), offset, *block) : std::nullopt;
    if (block.ok() && !wrong.has_value()) {
      used_.insert(TextOf(*source));
      return block;
    }
    error = block.status();
    if (block.ok()) {
      error = Status(Code::kCorrupt, fmt::format("the block at {} of {} rank {}, {}, fails its checksum", *wrong,
                                                 from_.generation.ToString(), from_.rank, TextOf(*source)));
    }
    LogWarning("agent", "{}; the next source is tried", error.ToString());
    // A bad block says nothing of the others; a node that does not answer does, and each wait is long.
    const Code code = error.code();
    const bool is_of_one_node = !rebuild || !source->node.empty();
    const bool gone = is_of_one_node && (code == Code::kTimeout || code == Code::kUnavailable || code == Code::kNotFound);
    if (gone) (rebuild ? copies_ : whole_).erase(source->node);
    if (gone && code != Code::kNotFound) gone_ = error;
    source = gone ? from_.sources.erase(source) : std::next(source);
  }
  return error.code() == Code::kNotFound && !gone_.ok() ? gone_ : error;
}

uint64_t StreamBringer::SetBlock() const {
  return arithmetic_ ? arithmetic_->geometry().block_bytes() : block_bytes_;
}

uint64_t StreamBringer::SetRunAt(uint64_t thin_offset) const {
  if (!arithmetic_.has_value()) return std::min<uint64_t>(kBlockBytesMax, thin_end_ - thin_offset);
  const uint64_t set_block = SetBlock();
  const uint64_t left = (thin_end_ - thin_offset + set_block - 1) / set_block * set_block;
  return std::min<uint64_t>(arithmetic_->RunBytesAt({member_, false, thin_offset}), left);
}

uint64_t StreamBringer::StepAt(uint64_t offset) const {
  return std::min(replicas_ ? uint64_t{kBlockBytesMax} : SetRunAt(offset), end_ - offset);
}

Status StreamBringer::Bring(uint64_t offset, uint64_t bytes, const Sink& sink) {
  KEDGE_ASSIGN_OR_RETURN(const ByteSpan run, Read(offset, bytes));
  for (const redundancy::StreamPiece& piece : stream_->Range(offset, run.size())) {
    if (piece.part == redundancy::StreamPart::kGap) continue;
    KEDGE_RETURN_IF_ERROR(sink(piece.stream_offset, run.subspan(piece.stream_offset - offset, piece.bytes)));
  }
  os::KillPoint("bring-block");
  return Status::Ok();
}

Status StreamBringer::BringBlocks(uint64_t offset, uint64_t bytes, const Sink& sink) {
  for (uint64_t at = 0; at < bytes; at += block_bytes_) {
    KEDGE_RETURN_IF_ERROR(Bring(offset + at, std::min(block_bytes_, bytes - at), sink));
  }
  return Status::Ok();
}

Status StreamBringer::BringRuns(uint64_t begin, const Sink& sink) {
  for (uint64_t offset = begin, step = 0; offset < end_; offset += step) {
    step = StepAt(offset);
    Status brought = Bring(offset, step, sink);
    // No source has all of its blocks right; each block may be right somewhere.
    if (!brought.ok() && step > block_bytes_) brought = BringBlocks(offset, step, sink);
    KEDGE_RETURN_IF_ERROR(brought);
  }
  return Status::Ok();
}

Status StreamBringer::BringTo(const redundancy::ImageStream& stream, uint64_t begin, uint64_t end, const Sink& sink) {
  KEDGE_CHECK(begin % kPartAlignment == 0 && end <= stream.bytes() && (end % kPartAlignment == 0 || end == stream.bytes()));
  if (table() != nullptr && table()->bytes != stream.bytes()) {
    return Status(Code::kCorrupt, fmt::format("{}: {} bytes of rank {} in the set, {} in its image record",
                                              from_.set->identity.ToString(), table()->bytes, from_.rank, stream.bytes()));
  }
  stream_ = &stream;
  end_ = end;
  thin_end_ = replicas_ ? thin_.ThinBefore(end) : end;
  block_bytes_ = table() != nullptr ? table()->block_bytes : kBlockBytesMax;
  block_.resize(std::min<uint64_t>(kBlockBytesMax, stream.bytes()));
  const Status brought = BringRuns(begin, sink);
  whole_.clear();
  copies_.clear();
  copy_node_.clear();
  arrived_ = ArrivedBytes();
  if (source_ != nullptr) source_->LetGo();
  rebuild_expected_ = 0;
  rebuilt_begin_ = UINT64_MAX;
  rebuilt_ = Buffer();
  filled_ = Buffer();
  block_ = Buffer();
  return brought;
}

std::string StreamBringer::UsedText() const {
  return fmt::format("{}", fmt::join(used_, ", "));
}

}  // namespace kedge

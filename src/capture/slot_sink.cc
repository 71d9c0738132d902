// See slot_sink.h.
#include "capture/slot_sink.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "format/image_record.h"
#include "os/process/kill_point.h"
#include "store/keys.h"
#include "store/publish.h"

namespace kedge {
namespace {

// Progress only makes flushing early: it never takes the ring's last entries from what must get through.
constexpr uint32_t kRingReserve = kClientRingEntries / 8;

}  // namespace

Status SlotSink::Begin(const ImageIdentity& identity, uint64_t announced_bytes) {
  identity_ = identity;
  ++serial_;
  announced_bytes_ = announced_bytes;
  opened_bytes_ = 0;
  announced_ = false;
  placement_.identity = identity;
  placement_.tiers = context_.tier_keys;
  placement_.chunks.clear();
  full_slots_.clear();
  through_.reset();
  object_offset_ = 0;
  captured_ = CapturedBytes{};
  chunk_memory_.clear();
  builds_on_base_ = builds_ && ClaimBase();
  gaps_.base_serial = builds_on_base_ ? base_serial_ : 0;
  gaps_.gaps.clear();
  return Status::Ok();
}

bool SlotSink::ClaimBase() {
  Mailbox* const box = context_.channel->mailbox();
  const auto is_kept = [&] { return box->base_serial.load(std::memory_order_seq_cst) == base_serial_; };
  // Else what `building_on` names may be waited for by an image that the agent has not taken yet.
  if (base_serial_ == 0 || !is_kept()) return false;
  box->building_on.store(base_serial_, std::memory_order_seq_cst);
  return is_kept();
}

void SlotSink::LeaveOut(uint64_t offset, uint64_t bytes) {
  chunk_is_partial_ = true;
  auto& gaps = gaps_.gaps;
  if (!gaps.empty() && gaps.back().chunk == chunk_ && gaps.back().offset + gaps.back().bytes == offset) {
    gaps.back().bytes += bytes;
  } else {
    gaps.push_back(Gap{chunk_, offset, bytes});
  }
}

Result<Tier*> SlotSink::TierOf(const SlotRange& range) const {
  if (range.tier >= context_.tiers.size() || range.slot >= context_.tiers[range.tier]->info().slots) {
    return Status(Code::kInternal,
                  fmt::format("the agent assigned slot {} of tier {}, which is not there", range.slot, range.tier));
  }
  return context_.tiers[range.tier];
}

FullChunk SlotSink::FullChunkAfter(uint64_t before_bytes, uint64_t bytes) const {
  const uint64_t known_bytes = before_bytes + bytes;
  return {bytes, announced_bytes_ > known_bytes ? announced_bytes_ - known_bytes : 0};
}

Result<ChunkTarget> SlotSink::OpenChunk(uint32_t chunk, uint64_t bytes) {
  chunk_ = chunk;
  chunk_begin_ns_ = 0;
  chunk_is_partial_ = false;
  through_.reset();
  auto place = IsSmall(bytes) ? context_.slots->TakeOpen(bytes, WaitDeadline())
                              : context_.slots->TakeFull(FullChunkAfter(opened_bytes_, bytes), WaitDeadline());
  opened_bytes_ += bytes;
  if (!place.ok()) return place.status();
  if (place->through) return OpenThrough(chunk, bytes);
  place_ = place->range;
  if (!IsSmall(bytes)) full_slots_.push_back(place_);
  KEDGE_ASSIGN_OR_RETURN(tier_, TierOf(place_));
  if (!IsSmall(bytes)) KEDGE_RETURN_IF_ERROR(Announce());
  chunk_begin_ns_ = IsSmall(bytes) ? 0 : SystemClock().NowNs();
  std::byte* slot = tier_->SlotMemory(place_.slot);
  return ChunkTarget{slot == nullptr ? nullptr : slot + place_.offset};
}

Result<ChunkTarget> SlotSink::OpenThrough(uint32_t chunk, uint64_t bytes) {
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(*context_.catalog, identity_.generation));
  const std::string key = keys::ChunkKey(identity_.generation, identity_.rank, chunk);
  KEDGE_ASSIGN_OR_RETURN(through_, context_.catalog->store().CreateObject(key, context_.catalog->owner(), bytes));
  place_ = SlotRange{};
  place_.bytes = bytes;
  return ChunkTarget{};
}

void SlotSink::ExpectChunk(uint64_t bytes) {
  if (!IsSmall(bytes)) context_.slots->ExpectFull(FullChunkAfter(opened_bytes_, bytes));
}

bool SlotSink::GrowChunk(uint64_t extra_bytes) {
  if (through_ || !context_.slots->GrowOpen(&place_, extra_bytes)) return false;
  opened_bytes_ += extra_bytes;
  return true;
}

Status SlotSink::Write(uint64_t offset, const std::byte* data, uint64_t bytes) {
  if (!through_) return tier_->Write(place_.slot, place_.offset + offset, data, bytes);
  KEDGE_RETURN_IF_ERROR(through_->WriteAt(offset, {data, bytes}));
  return through_->FlushHint(offset, bytes, /*wait=*/false);
}

void SlotSink::Progress(uint64_t bytes) {
  if (!announced_ || through_ || chunk_is_partial_ || context_.channel->Room() < kRingReserve) return;
  os::KillPoint("client-progress-before");
  (void)context_.channel->TryPush(ChunkProgress{
      .chunk = chunk_, .image_serial = serial_, .range = place_, .object_offset = object_offset_, .captured_bytes = bytes});
  os::KillPoint("client-progress-after");
}

Status SlotSink::CloseChunk(uint64_t bytes, ImageRecord* record) {
  Placement& placement = placement_.chunks.emplace_back();
  placement.bytes = bytes;
  const std::byte* const slot = through_ ? nullptr : tier_->SlotMemory(place_.slot);
  chunk_memory_.push_back(slot == nullptr ? nullptr : slot + place_.offset);
  if (through_) {
    KEDGE_RETURN_IF_ERROR(through_->Commit());
    record->objects.push_back(keys::RelativeToJob(identity_.generation.job, through_->key()));
    record->chunks.push_back(Chunk{static_cast<uint32_t>(record->objects.size()), 0, bytes});
    placement.kind = PlacementKind::kStore;
    captured_.through += bytes;
    through_.reset();
    return Status::Ok();
  }
  placement.tier = place_.tier;
  placement.slot = place_.slot;
  placement.slot_generation = place_.slot_generation;
  placement.offset = place_.offset;
  record->chunks.push_back(Chunk{0, object_offset_, bytes});
  object_offset_ = AlignChunkOffset(object_offset_ + bytes);
  (tier_->info().kind == TierKind::kMemory ? captured_.memory : captured_.directory) += bytes;
  if (chunk_begin_ns_ != 0) ReportWritten();
  return Status::Ok();
}

void SlotSink::ReportWritten() {
  if (context_.channel->Room() < kRingReserve) return;
  // A partial one says nothing of the tier's speed, but no more is to wait for it.
  const auto took_ns = chunk_is_partial_ ? 0 : static_cast<uint64_t>(SystemClock().NowNs() - chunk_begin_ns_);
  (void)context_.channel->TryPush(ChunkWritten{.range = place_, .took_ns = took_ns});
}

Result<SlotRange> SlotSink::StoreInOpenSlot(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const AssignedPlace place, context_.slots->TakeOpen(bytes.size(), WaitDeadline()));
  if (place.through) {
    return Status(Code::kNoSpace, fmt::format("no tier has room for the {} bytes of an image record", bytes.size()));
  }
  KEDGE_ASSIGN_OR_RETURN(Tier* const tier, TierOf(place.range));
  if (std::byte* slot = tier->SlotMemory(place.range.slot)) {
    std::memcpy(slot + place.range.offset, bytes.data(), bytes.size());
  } else {
    KEDGE_RETURN_IF_ERROR(tier->Write(place.range.slot, place.range.offset, bytes.data(), bytes.size()));
  }
  return place.range;
}

Status SlotSink::Announce() {
  if (announced_) return Status::Ok();
  buffer_.clear();
  EncodeImageIdentity(identity_, &buffer_);
  KEDGE_ASSIGN_OR_RETURN(const SlotRange identity, StoreInOpenSlot(buffer_));
  const ImageBegin begin{.due_levels = due_levels_, .image_serial = serial_, .identity = identity};
  os::KillPoint("client-begin-before");
  KEDGE_RETURN_IF_ERROR(context_.slots->Send(begin, WaitDeadline()));
  os::KillPoint("client-begin-after");
  announced_ = true;
  return Status::Ok();
}

Status SlotSink::End(const ImageRecord& record) {
  buffer_.clear();
  KEDGE_RETURN_IF_ERROR(EncodeImageRecord(record, &buffer_));
  const uint64_t record_bytes = buffer_.size();
  KEDGE_RETURN_IF_ERROR(EncodePlacementTable(placement_, &buffer_));
  const uint64_t tables_bytes = buffer_.size();
  if (builds_) EncodeGapTable(gaps_, &buffer_);
  KEDGE_ASSIGN_OR_RETURN(const SlotRange range, StoreInOpenSlot(buffer_));
  const ImageEnd end{.due_levels = due_levels_,
                     .image_serial = serial_,
                     .range = range,
                     .record_bytes = record_bytes,
                     .crc32c = crc32c::Compute(buffer_.data(), buffer_.size()),
                     .gap_table_bytes = static_cast<uint32_t>(buffer_.size() - tables_bytes)};
  os::KillPoint("client-end-before");
  KEDGE_RETURN_IF_ERROR(context_.slots->Send(end, WaitDeadline()));
  os::KillPoint("client-end-after");
  context_.slots->ReturnFilled();
  os::KillPoint("client-end-returned");
  ended_serial_ = serial_;
  if (builds_) BecomeBase(record);
  placement_.chunks.clear();
  full_slots_.clear();
  return Status::Ok();
}

void SlotSink::BecomeBase(const ImageRecord& record) {
  base_.record = record;
  base_.chunks = chunk_memory_;
  base_serial_ = serial_;
}

void SlotSink::Abort() {
  if (through_) (void)through_->Abandon();
  through_.reset();
  placement_.chunks.clear();
  // Slots for whole chunks go back with an image's end; this one has none (session/mailbox.h).
  for (const SlotRange& range : full_slots_) (void)context_.channel->TryPush(ReturnSlot{.slot = range});
  full_slots_.clear();
  // Lost with the agent at worst: its successor drops images that never ended.
  (void)context_.channel->TryPush(ImageAbort{.image_serial = serial_});
  if (std::exchange(builds_on_base_, false)) context_.channel->mailbox()->building_on.store(0, std::memory_order_seq_cst);
  context_.slots->ReturnFilled();
}

std::vector<HeldSlot> SlotSink::HeldSlots() const {
  std::vector<HeldSlot> held;
  for (const SlotRange& range : full_slots_) held.push_back({range.tier, range.slot, range.slot_generation, true});
  return held;
}

}  // namespace kedge

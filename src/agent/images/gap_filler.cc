#include "agent/images/gap_filler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "agent/images/announcement.h"
#include "agent/images/image_table.h"
#include "agent/tables/agent_core.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr size_t kBounceBytes = size_t{1} << 20;

// A range of bytes from one slot to another.
struct GapCopy {
  std::shared_ptr<Tier> from, to;
  uint32_t from_slot = 0, to_slot = 0;
  uint64_t from_offset = 0, to_offset = 0;
  uint64_t bytes = 0;
};

// What is to be copied for it, from `base`. kInvalidArgument: a gap that is not in both.
Result<std::vector<GapCopy>> PlanFill(const AnnouncedImage& announced, const Image& base) {
  std::vector<GapCopy> copies;
  copies.reserve(announced.gaps.gaps.size());
  for (const Gap& gap : announced.gaps.gaps) {
    if (gap.chunk >= announced.chunks.size() || gap.chunk >= base.chunks.size()) return RefusedEntry("a gap in no chunk");
    const ImageChunk &to = announced.chunks[gap.chunk], &from = base.chunks[gap.chunk];
    const uint64_t end = gap.offset + gap.bytes;
    if (to.unit == nullptr || from.unit == nullptr || end > to.bytes || end > from.bytes) {
      return RefusedEntry(
          fmt::format("a gap of {} bytes at {} of chunk {}, which is not in both images", gap.bytes, gap.offset, gap.chunk));
    }
    copies.push_back(
        {from.unit->tier, to.unit->tier, from.slot, to.slot, from.offset + gap.offset, to.offset + gap.offset, gap.bytes});
  }
  return copies;
}

Status CopyGaps(const std::vector<GapCopy>& copies) {
  Buffer bounce;
  for (const GapCopy& copy : copies) {
    os::KillPoint("gap-fill");
    std::byte* const from = copy.from->SlotMemory(copy.from_slot);
    std::byte* const to = copy.to->SlotMemory(copy.to_slot);
    if (from != nullptr && to != nullptr) {
      std::copy_n(from + copy.from_offset, copy.bytes, to + copy.to_offset);
      continue;
    }
    bounce.resize(kBounceBytes);
    for (uint64_t done = 0; done < copy.bytes;) {
      const uint64_t portion = std::min<uint64_t>(bounce.size(), copy.bytes - done);
      KEDGE_RETURN_IF_ERROR(copy.from->Read(copy.from_slot, copy.from_offset + done, bounce.data(), portion));
      KEDGE_RETURN_IF_ERROR(copy.to->Write(copy.to_slot, copy.to_offset + done, bounce.data(), portion));
      done += portion;
    }
  }
  return Status::Ok();
}

}  // namespace

bool GapFiller::IsFilled(Session& session, const ImageEnd& end, bool may_wait) {
  if (end.gap_table_bytes == 0) return true;
  if (!session.fill) {
    std::promise<Status> begun;
    session.fill.emplace();
    session.fill->filled = begun.get_future().share();
    const Status status = Begin(session, end, &*session.fill);
    if (session.fill->run == nullptr) begun.set_value(status);
  }
  // Not by waiting for a worker: all of them may wait for a store.
  if (may_wait && session.fill->run != nullptr) session.fill->run();
  if (may_wait) session.fill->filled.wait();
  return session.fill->filled.wait_for(Duration::zero()) == std::future_status::ready;
}

Status GapFiller::Begin(Session& session, const ImageEnd& end, GapFill* fill) {
  KEDGE_ASSIGN_OR_RETURN(AnnouncedImage announced, ReadEnd(session, end, core_.settings().piece_bytes));
  const ImageIdentity& identity = announced.record.identity;
  const Version* version = core_.FindVersion(identity.generation);
  auto begun = session.images.find(end.image_serial);
  const Image* image = begun == session.images.end() ? nullptr : images_.Find(begun->second);
  // One that a predecessor has taken already has been filled, too.
  const bool is_taken = image == nullptr && version != nullptr && version->images.contains(identity.rank);
  if (announced.gaps.gaps.empty() || is_taken) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(LocateChunks(session, image, &announced));
  Image* const base = images_.Find(session.base_image);
  if (base == nullptr || base->serial != announced.gaps.base_serial) {
    return Status(Code::kNotFound, fmt::format("{} leaves out what image {} of its session has, which is not there any more",
                                               identity.ToString(), announced.gaps.base_serial));
  }
  struct Work {
    std::vector<GapCopy> copies;
    std::promise<Status> filled;
    std::atomic<bool> begun = false;
    void Run() {
      if (!begun.exchange(true)) filled.set_value(CopyGaps(copies));
    }
  };
  auto work = std::make_shared<Work>();
  KEDGE_ASSIGN_OR_RETURN(work->copies, PlanFill(announced, *base));
  fill->base = base->id;
  fill->filled = work->filled.get_future().share();
  fill->run = [work] { work->Run(); };
  images_.AddReader(*base);
  core_.Background(
      [work] {
        work->Run();
        return true;
      },
      [this](bool) { core_.Nudge(); });
  return Status::Ok();
}

Status GapFiller::End(Session& session) {
  if (!session.fill) return Status::Ok();
  const GapFill fill = *std::exchange(session.fill, std::nullopt);
  if (fill.run != nullptr) fill.run();
  const Status status = fill.filled.get();
  if (Image* base = images_.Find(fill.base)) images_.RemoveReader(*base);
  return status;
}

void GapFiller::BecomeBase(Session& session, const Image& image) {
  const bool is_whole = std::all_of(image.chunks.begin(), image.chunks.end(),
                                    [](const ImageChunk& chunk) { return chunk.unit != nullptr || !chunk.in_own_object; });
  session.base_image = is_whole ? image.id : 0;
  session.box().base_serial.store(is_whole ? image.serial : 0, std::memory_order_seq_cst);
}

bool GapFiller::MayGo(const Image& image) const {
  Session* session = core_.sessions().Find(image.session_id);
  if (session == nullptr || session->base_image != image.id) return true;
  Mailbox& box = session->box();
  box.base_serial.store(0, std::memory_order_seq_cst);
  if (box.building_on.load(std::memory_order_seq_cst) == image.serial) {
    box.base_serial.store(image.serial, std::memory_order_seq_cst);
    return false;
  }
  session->base_image = 0;
  return true;
}

void GapFiller::RecoverBase(Session& session) {
  const uint64_t serial = session.box().base_serial.load(std::memory_order_seq_cst);
  const Image* base = nullptr;
  // Sessions that have ended may have had its number: the last one's image was taken last.
  for (const auto& [id, image] : images_.all()) {
    const Generation& generation = image->version->generation;
    const bool is_its_own = image->session_id == session.id && image->serial == serial && image->rank == session.hello.rank &&
                            image->version->job == session.job && generation.attempt == session.hello.attempt;
    if (is_its_own && (base == nullptr || base->version->generation.take < generation.take)) base = image;
  }
  session.base_image = base == nullptr ? 0 : base->id;
  if (base == nullptr) session.box().base_serial.store(0, std::memory_order_seq_cst);
}

}  // namespace kedge

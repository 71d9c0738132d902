// Images that leave out what the image before them has: the base, and filling the gaps from it. See images.h.
//
// An ImageEnd with gaps stays in the mailbox until they are filled: whoever else looks at the image sees it whole, and a
// successor that finds the entry fills them again, which changes nothing. The base stays meanwhile, since its client says so in
// the mailbox (session/mailbox.h) and while it is being read.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <utility>

#include "agent/images/images.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr size_t kBounceBytes = size_t{1} << 20;

Status Impossible(std::string why) {
  return Status(Code::kInvalidArgument, std::move(why));
}

}  // namespace

bool Images::IsFilled(Session& session, const ImageEnd& end, bool may_wait) {
  if (end.gap_table_bytes == 0) return true;
  if (!session.fill) {
    std::promise<Status> begun;
    session.fill.emplace();
    session.fill->filled = begun.get_future().share();
    const Status status = BeginFill(session, end, &*session.fill);
    if (session.fill->run == nullptr) begun.set_value(status);
  }
  // Not by waiting for a worker: all of them may wait for a store.
  if (may_wait && session.fill->run != nullptr) session.fill->run();
  if (may_wait) session.fill->filled.wait();
  return session.fill->filled.wait_for(Duration::zero()) == std::future_status::ready;
}

Status Images::BeginFill(Session& session, const ImageEnd& end, GapFill* fill) {
  KEDGE_ASSIGN_OR_RETURN(Announced announced, ReadAnnouncement(session, end));
  const ImageIdentity& identity = announced.record.identity;
  const Version* version = FindVersion(identity.generation);
  auto begun = session.images.find(end.image_serial);
  const Image* image = begun == session.images.end() ? nullptr : Find(begun->second);
  // One that a predecessor has taken already has been filled, too.
  const bool is_taken = image == nullptr && version != nullptr && version->images.contains(identity.rank);
  if (announced.gaps.gaps.empty() || is_taken) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(FindChunks(session, image, &announced));
  Image* const base = Find(session.base_image);
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
  ++base->readers;
  UpdatePin(*base);
  core_.Background(
      [work] {
        work->Run();
        return true;
      },
      [this](bool) { core_.Nudge(); });
  return Status::Ok();
}

Result<std::vector<Images::GapCopy>> Images::PlanFill(const Announced& announced, const Image& base) {
  std::vector<GapCopy> copies;
  copies.reserve(announced.gaps.gaps.size());
  for (const Gap& gap : announced.gaps.gaps) {
    if (gap.chunk >= announced.chunks.size() || gap.chunk >= base.chunks.size()) return Impossible("a gap in no chunk");
    const ImageChunk &to = announced.chunks[gap.chunk], &from = base.chunks[gap.chunk];
    const uint64_t end = gap.offset + gap.bytes;
    if (to.unit == nullptr || from.unit == nullptr || end > to.bytes || end > from.bytes) {
      return Impossible(
          fmt::format("a gap of {} bytes at {} of chunk {}, which is not in both images", gap.bytes, gap.offset, gap.chunk));
    }
    copies.push_back(
        {from.unit->tier, to.unit->tier, from.slot, to.slot, from.offset + gap.offset, to.offset + gap.offset, gap.bytes});
  }
  return copies;
}

Status Images::CopyGaps(const std::vector<GapCopy>& copies) {
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

Status Images::EndFill(Session& session) {
  if (!session.fill) return Status::Ok();
  const GapFill fill = *std::exchange(session.fill, std::nullopt);
  if (fill.run != nullptr) fill.run();
  const Status status = fill.filled.get();
  if (Image* base = Find(fill.base)) {
    --base->readers;
    UpdatePin(*base);
    OnReleased(*base);
  }
  return status;
}

void Images::BecomeBase(Session& session, const Image& image) {
  const bool is_whole = std::all_of(image.chunks.begin(), image.chunks.end(),
                                    [](const ImageChunk& chunk) { return chunk.unit != nullptr || !chunk.in_own_object; });
  session.base_image = is_whole ? image.id : 0;
  session.box().base_serial.store(is_whole ? image.serial : 0, std::memory_order_seq_cst);
}

bool Images::MayGo(const Image& image) const {
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

void Images::RecoverBase(Session& session) {
  const uint64_t serial = session.box().base_serial.load(std::memory_order_seq_cst);
  const Image* base = nullptr;
  // Sessions that have ended may have had its number: the last one's image was taken last.
  for (const auto& [id, image] : by_id_) {
    const Generation& generation = image->version->generation;
    const bool is_its_own = image->session_id == session.id && image->serial == serial && image->rank == session.hello.rank &&
                            image->version->job == session.job && generation.attempt == session.hello.attempt;
    if (is_its_own && (base == nullptr || base->version->generation.take < generation.take)) base = image;
  }
  session.base_image = base == nullptr ? 0 : base->id;
  if (base == nullptr) session.box().base_serial.store(0, std::memory_order_seq_cst);
}

}  // namespace kedge

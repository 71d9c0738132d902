// Sessions and jobs on file: what a successor reads to go on with them. See sessions.h.
#include <fmt/format.h>

#include <algorithm>

#include "agent/door/sessions.h"
#include "agent/gather/carrier.h"
#include "agent/images/found_images.h"
#include "agent/peers/peers.h"
#include "agent/schedule/halts.h"
#include "agent/schedule/tuning.h"
#include "agent/schedule/turns.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/members.h"
#include "agent/tables/run_folder.h"
#include "agent/tables/session.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "format/envelope.h"
#include "format/name_encoding.h"
#include "os/files/files.h"

namespace kedge {
namespace {

// A job for which this node writes: longer than any pause between its versions.
constexpr Duration kEnlistedKept = std::chrono::hours(24 * 7);

constexpr uint64_t kStateFileBytesMax = 32 << 20;
constexpr char kHelloSuffix[] = ".hello";

// `write` fills a file whose checksum stands at its end.
template <typename Write>
Status SaveChecked(const std::string& path, Write write) {
  Buffer out;
  Encoder encoder(out);
  write(encoder);
  const auto written = encoder.Written(0);
  encoder.U32(crc32c::Compute(written.data(), written.size()));
  encoder.Finish();
  return os::ReplaceFile(fs(), path, AsText(out), "agent");
}

Result<std::string> LoadChecked(const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(std::string bytes, os::ReadFile(fs(), path, kStateFileBytesMax));
  if (bytes.size() < 4) return Status(Code::kCorrupt, path + ": too short");
  Decoder trailer(AsBytes(bytes).last(4));
  const uint32_t checksum = trailer.U32();
  bytes.resize(bytes.size() - 4);
  if (crc32c::Compute(bytes.data(), bytes.size()) != checksum) return Status(Code::kCorrupt, path + ": bad checksum");
  return bytes;
}

}  // namespace

Status Sessions::SaveSession(const Session& session) const {
  return SaveChecked(MailboxPath(session.id) + kHelloSuffix, [&](Encoder& encoder) {
    encoder.I64(session.owner.process_id);
    encoder.U64(session.owner.start_ticks);
    encoder.Varint(session.tiers.size());
    for (const TierUnit* unit : session.tiers) encoder.String(unit->info().key);
    const Buffer hello = EncodeHello(session.hello);
    encoder.Varint(hello.size());
    encoder.Raw(hello);
  });
}

void Sessions::RemoveFiles(uint32_t id) const {
  (void)os::UnlinkIfPresent(fs(), MailboxPath(id));
  (void)os::UnlinkIfPresent(fs(), MailboxPath(id) + kHelloSuffix);
}

std::string Sessions::JobPath(const Job& job) const {
  return core_.Path(fmt::format("jobs/{}-{}", job.store_id.ToHex(), EncodeName(job.name)));
}

void Sessions::SaveJob(const Job& job) {
  Status saved = SaveChecked(JobPath(job), [&](Encoder& encoder) {
    const Buffer hello = EncodeHello(job.hello);
    encoder.Varint(hello.size());
    encoder.Raw(hello);
    encoder.Varint(job.schedule.size());
    for (const auto& [name, state] : job.schedule) {
      encoder.String(name);
      for (const LevelState& level : {state.node, state.store}) {
        encoder.Varint(level.attempt);
        encoder.I64(level.span);
      }
    }
    Tuning::Save(job.tuning, encoder);
    const Buffer members = EncodeMembership(job.members);
    encoder.Varint(members.size());
    encoder.Raw(members);
    Halts::Save(job.halt, encoder);
    Turns::Save(job.turns, encoder);
    encoder.Varint(job.restored.size());
    for (const RestoredRecord& record : job.restored) {
      Buffer bytes;
      Encode(record, &bytes);
      encoder.String(AsText(bytes));
    }
  });
  if (!saved.ok()) LogError("agent", "job {} cannot be noted for a successor: {}", job.name, saved.ToString());
}

void Sessions::RecoverJob(const std::string& path) {
  auto bytes = LoadChecked(path);
  if (!bytes.ok()) return void(LogWarning("agent", "a job's file is passed over: {}", bytes.status().ToString()));
  Decoder decoder(AsBytes(*bytes));
  auto hello = DecodeHello(decoder.Raw(decoder.VarintAtMost(bytes->size())));
  std::map<std::string, ScheduleState> schedule;
  for (size_t names = decoder.Count(10); names > 0 && decoder.ok(); --names) {
    std::string name(decoder.String(kNameBytesMax));
    ScheduleState& state = schedule[name];
    for (LevelState* level : {&state.node, &state.store}) {
      level->attempt = decoder.Varint32();
      level->span = decoder.I64();
    }
  }
  JobTuning tuning;
  Tuning::Load(decoder, &tuning);
  auto members = DecodeMembership(decoder.Raw(decoder.VarintAtMost(bytes->size())));
  Halt halt;
  Halts::Load(decoder, &halt);
  DecidedTurns turns;
  Turns::Load(decoder, hello.ok() ? *hello : Hello(), &turns);
  std::vector<RestoredRecord> restored;
  for (size_t count = decoder.Count(kEnvelopeBytes); count > 0 && decoder.ok(); --count) {
    auto record = DecodeRestoredRecord(AsBytes(decoder.String(bytes->size())));
    decoder.Require(record.ok(), "a restored record makes no sense");
    if (record.ok()) restored.push_back(std::move(*record));
  }
  Status whole = decoder.Finish("job file");
  if (whole.ok() && !hello.ok()) whole = hello.status();
  if (whole.ok() && !members.ok()) whole = members.status();
  if (!whole.ok()) return void(LogWarning("agent", "{} is passed over: {}", path, whole.ToString()));
  Job& job = JobFor(*hello);
  job.members = std::move(*members);
  if (!core_.settings().staging_folder.empty() && !IsAmong(job.members.nodes, core_.settings().node)) {
    job.is_enlisted = true;
    job.left_ns = core_.clock().NowNs();
  }
  job.schedule = std::move(schedule);
  job.tuning = std::move(tuning);
  job.halt = halt;
  job.turns = std::move(turns);
  job.restored = std::move(restored);
  for (const RestoredRecord& record : job.restored) job.store->AwaitRestored(record);
  // Its tier, so that what lies there is found.
  auto tiers = tiers_.ForJob(hello->keys);
  if (!tiers.ok()) LogWarning("agent", "the tier of job {} cannot be opened: {}", job.name, tiers.status().ToString());
}

void Sessions::RecoverJobs() {
  auto entries = fs().List(core_.Path("jobs"));
  if (!entries.ok()) return;
  for (const auto& entry : *entries) {
    if (!os::IsTemporaryName(entry.name)) RecoverJob(core_.Path("jobs/" + entry.name));
  }
}

void Sessions::RecoverSession(uint32_t id) {
  const std::string path = MailboxPath(id);
  auto discard = [&](const std::string& why) {
    LogWarning("agent", "session {} of the former agent is passed over: {}", id, why);
    RemoveFiles(id);
  };
  auto bytes = LoadChecked(path + kHelloSuffix);
  if (!bytes.ok()) return discard(bytes.status().ToString());
  auto session = std::make_unique<Session>();
  Decoder decoder(AsBytes(*bytes));
  session->id = id;
  session->owner.process_id = static_cast<pid_t>(decoder.I64());
  session->owner.start_ticks = decoder.U64();
  bool all_tiers = true;
  for (size_t tiers = decoder.Count(1); tiers > 0; --tiers) {
    TierUnit* unit = tiers_.FindKey(std::string(decoder.String(kTierKeyBytesMax)));
    if (unit == nullptr) {
      all_tiers = false;
    } else {
      session->tiers.push_back(unit);
    }
  }
  auto hello = DecodeHello(decoder.Raw(decoder.VarintAtMost(bytes->size())));
  if (!hello.ok()) return discard(hello.status().ToString());
  session->hello = std::move(*hello);
  auto mailbox = OpenMailbox(path, id);
  if (!mailbox.ok()) return discard(mailbox.status().ToString());
  session->mailbox = std::move(*mailbox);
  session->from_client = ClientRingConsumer(&session->box().from_client);
  session->to_client = AgentRingProducer(&session->box().from_agent);
  session->job = &JobFor(session->hello);
  Tuning::MarkCollected(*session);
  // Without its tiers its entries cannot be understood: tiers are named by their place in the list.
  session->must_restart = session->broken = !all_tiers;
  found_images_.Resume(*session);
  core_.sessions().Add(std::move(session));
}

void Sessions::RecoverSessions() {
  auto entries = fs().List(core_.Path("sessions"));
  if (!entries.ok()) return;
  std::vector<uint32_t> ids;
  for (const auto& entry : *entries) {
    const std::string path = core_.Path("sessions/" + entry.name);
    if (os::IsTemporaryName(entry.name)) {
      (void)os::UnlinkIfPresent(fs(), path);
      continue;
    }
    if (!entry.name.ends_with(kHelloSuffix)) continue;
    const std::string number = entry.name.substr(0, entry.name.size() - (sizeof(kHelloSuffix) - 1));
    const bool is_number = !number.empty() && number.size() <= 8 && number.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && std::stoul(number) <= kSlotOwnersMax && std::stoul(number) > 0)
      ids.push_back(static_cast<uint32_t>(std::stoul(number)));
  }
  // Whose images are here may have ended: what becomes of these is nothing to a session that begins now.
  last_id_ = found_images_.LastSession();
  for (uint32_t id : ids) last_id_ = std::max(last_id_, id);
  for (uint32_t id : ids) RecoverSession(id);
}

void Sessions::EndDeadSessions() {
  std::vector<Session*> dead;
  for (Session* session : core_.sessions().all()) {
    if (os::IsAlive(session->owner)) {
      WatchOwner(*session);
    } else {
      dead.push_back(session);
    }
  }
  // Every mailbox is read before anybody ends: an image that all ranks have handed over is whole. Those of the living, too: what
  // their images leave out is here now, and may not be once somebody wants its slots.
  for (Session* session : core_.sessions().all()) {
    while (Drain(*session, /*may_wait=*/true)) {
    }
  }
  for (Session* session : dead) End(*session, "its process ended while no agent ran");
  // Slots of sessions that are no more.
  for (TierUnit* unit : tiers_.units()) {
    for (uint32_t slot = 0; slot < unit->info().slots; ++slot) {
      const SlotEntry entry = unit->space->Get(slot);
      if (entry.state == SlotState::kAssigned && core_.sessions().Find(entry.owner) == nullptr) {
        unit->space->Return(slot, entry.generation, entry.owner);
      }
    }
  }
}

void Sessions::ForgetIdleJobs() {
  const std::vector<Session*> sessions = core_.sessions().all();
  for (auto entry = core_.jobs().begin(); entry != core_.jobs().end();) {
    Job& job = *entry->second;
    const bool has_session =
        std::any_of(sessions.begin(), sessions.end(), [&](const Session* session) { return session->job == &job; });
    const bool left_long_ago = core_.clock().NowNs() - job.left_ns >= core_.settings().idle_timeout.count();
    if (!has_session && left_long_ago) job.disagreements.clear();
    const bool is_needed =
        carrier_.HasLoadOf(entry->first) || (job.is_enlisted && core_.clock().NowNs() - job.left_ns < kEnlistedKept.count());
    if (has_session || is_needed || !job.versions.empty() || !job.retention_running.empty() || !job.disagreements.empty()) {
      ++entry;
      continue;
    }
    peers_.Leave(job);
    (void)os::UnlinkIfPresent(fs(), JobPath(job));
    entry = core_.jobs().erase(entry);
  }
}

}  // namespace kedge

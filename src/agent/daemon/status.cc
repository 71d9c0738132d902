#include "agent/daemon/status.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "agent/daemon/agent.h"
#include "agent/daemon/status_throughput.h"
#include "agent/daemon/status_tuning.h"
#include "agent/door/server.h"
#include "agent/door/sessions.h"
#include "agent/flush/flush.h"
#include "agent/images/images.h"
#include "agent/peers/peers.h"
#include "agent/protect/protect.h"
#include "agent/schedule/calls.h"
#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "base/json_writer.h"
#include "os/machine/machine.h"
#include "session/connection.h"

namespace kedge {
namespace {

struct NamedCounter {
  const char* name;
  uint64_t value;
  const char* help;
};

std::vector<NamedCounter> Counters(Agent& agent) {
  const AgentCounters& c = agent.core().counters();
  const net::Network* network = agent.peers().network();
  const net::NetworkCounters n = network == nullptr ? net::NetworkCounters{} : network->Counters();
  return {
      {"images_captured", c.images_captured, "Images handed over by clients"},
      {"captured_bytes", c.bytes_captured, "Bytes of these images"},
      {"images_stored", c.images_stored, "Images published in a store"},
      {"flushed_bytes", c.bytes_flushed, "Bytes written to stores"},
      {"flush_retries", c.flush_retries, "Images written again after a failed flush"},
      {"flush_failures", c.flush_failures, "Images whose flush was given up"},
      {"versions_completed", c.versions_completed, "Versions that became complete in a store"},
      {"versions_skipped", c.versions_skipped, "Versions whose flush was left out for a newer one"},
      {"versions_removed", c.versions_removed, "Versions that retention removed from a store"},
      {"places_assigned", c.places_assigned, "Slots assigned to clients"},
      {"places_waited", c.places_waited, "Requests that had to wait for a slot"},
      {"chunks_released", c.chunks_released, "Chunks that left their slots, flushed, before their image ended"},
      {"places_through", c.places_through, "Chunks sent through to the store for want of room"},
      {"recalls", c.recalls, "Rounds of asking clients for unused slots"},
      {"images_evicted", c.images_evicted, "Cached images that made room"},
      {"versions_protected", c.versions_protected, "Versions that reached the level node"},
      {"protect_failures", c.protect_failures, "Versions whose protection across nodes was given up"},
      {"images_brought", c.images_brought, "Images fetched from other nodes or rebuilt from their redundancy"},
      {"inventories_asked", c.inventories_asked, "Questions to other nodes about what they hold"},
      {"parts_leased", c.parts_leased, "Parts of images that other nodes could read as they lay"},
      {"blocks_sealed", c.blocks_sealed, "Blocks of images that other nodes were given sealed"},
      {"net_ways_opened", n.channels_opened, "Ways made to other nodes"},
      {"net_messages_sent", n.messages_sent, "Messages to other nodes"},
      {"net_messages_received", n.messages_received, "Messages from other nodes"},
      {"net_bytes_read", n.bytes_read, "Bytes read from other nodes' memory"},
      {"net_reads_failed", n.reads_failed, "Reads of other nodes' memory that failed"},
      {"net_frames_refused", n.frames_refused, "Frames of strangers, malformed or forged"},
      {"net_handshakes_refused", n.handshakes_refused, "Peers with a wrong secret, unknown or of another attempt"},
      {"net_leases_expired", n.leases_expired, "Leases of memory that nobody ended"},
      {"images_dropped", c.images_dropped, "Local images that were not kept any longer"},
      {"messages_refused", c.messages_refused, "Mailbox entries that made no sense"},
      {"sessions_broken", c.sessions_broken, "Sessions ended for a broken mailbox"},
      {"tiers_lost", c.tiers_lost, "Tiers whose files were deleted"},
      {"images_damaged", c.images_damaged, "Images whose bytes on the node were not those that were captured"},
      {"images_recovered", c.images_recovered, "Images taken over from a former agent"},
      {"retention_failures", c.retention_failures, "Rounds of retention that failed"},
      {"file_publish_failures", c.file_publish_failures, "Routed files that could not be put to their original paths"},
  };
}

const char* FlushStateName(FlushState state) {
  switch (state) {
    case FlushState::kNone: return "none";
    case FlushState::kFlushing: return "flushing";
    case FlushState::kWritten: return "written";
    case FlushState::kPublishing: return "publishing";
    case FlushState::kStored: return "stored";
    case FlushState::kWaiting: return "waiting";
    case FlushState::kFailed: return "failed";
  }
  return "unknown";
}

void WriteTiers(Agent& agent, JsonWriter& json) {
  json.Key("tiers").BeginArray();
  for (const TierUnit* unit : agent.tiers().units()) {
    const TierInfo& info = unit->info();
    json.BeginObject().Field("name", info.name).Field("kind", TierKindName(info.kind)).Field("path", info.path);
    json.Field("lost", unit->lost).Field("slot_bytes", info.slot_bytes);
    json.Field("slots", unit->full_slots).Field("free_slots", unit->FreeFullSlots());
    json.Field("cached_slots", unit->space->evictable_slots()).Field("occupied_slots", unit->space->occupied_slots());
    json.Field("assigned_slots", unit->space->assigned_slots()).Field("flushing_chunks", unit->flushing_chunks);
    json.Field("captured_bytes", unit->bytes_captured);
    if (info.kind == TierKind::kMemory) {
      json.Field("backed_bytes", unit->space->backed_bytes()).Field("spare_bytes", unit->space->spare_bytes());
      json.Field("making_bytes", unit->memory.making_bytes).Field("wanted_bytes", unit->memory.wanted_bytes);
    }
    WriteThroughput(*unit, json);
    json.EndObject();
  }
  json.EndArray();
}

void WriteMemory(Agent& agent, JsonWriter& json) {
  const MemoryLedger& memory = agent.memory();
  const MemoryRoom room = memory.Room();
  json.Key("memory").BeginObject().Field("ceiling_bytes", memory.ceiling_bytes()).Field("backed_bytes", memory.backed_bytes());
  json.Field("spare_bytes", memory.spare_bytes()).Field("room_bytes", room.bytes).Field("bound", room.bound).EndObject();
}

void WriteSessions(Agent& agent, JsonWriter& json) {
  json.Key("sessions").BeginArray();
  for (const Session* session : agent.core().sessions().all()) {
    uint64_t slots = 0;
    for (const TierUnit* unit : session->tiers) slots += unit->space->AssignedTo(session->id);
    json.BeginObject().Field("id", session->id).Field("job", session->hello.job).Field("attempt", session->hello.attempt);
    json.Field("rank", session->hello.rank).Field("ranks", session->hello.ranks).Field("pid", session->owner.process_id);
    json.Field("attached", session->peer != 0).Field("slots", slots);
    json.Field("images_pending", static_cast<uint64_t>(session->pending_serials.size()));
    json.Field("images_failed", session->images_failed).EndObject();
  }
  json.EndArray();
}

void WriteVersion(Agent& agent, const Version& version, JsonWriter& json) {
  json.BeginObject().Field("name", version.generation.name).Field("version", version.generation.version);
  json.Field("attempt", version.generation.attempt).Field("take", version.generation.take);
  json.Field("level", LevelName(agent.images().LevelOf(version))).Field("scheduled", LevelName(version.scheduled));
  json.Field("undecided", version.undecided.has_value());
  json.Field("skipped", version.skipped);
  json.Field("abandoned", !version.job->LineageOf(version.generation.name).Has(version.generation));
  json.Key("levels").BeginArray();
  for (const Level level : {Level::kLocal, Level::kNode, Level::kStore}) {
    const bool reached = level == Level::kLocal  ? version.IsAtLocal()
                         : level == Level::kNode ? version.at_node
                                                 : version.in_store;
    const bool wanted = level == Level::kLocal || (level == Level::kNode ? version.to_node : version.scheduled >= Level::kStore);
    if (!reached && !wanted) continue;
    json.BeginObject().Field("level", LevelName(level)).Field("reached", reached).EndObject();
  }
  json.EndArray();
  if (!version.node_failure.ok()) json.Field("node_failure", version.node_failure.ToString());
  if (!version.failure.ok()) json.Field("failure", version.failure.ToString());
  if (!version.absence.ok()) json.Field("waits_for", version.absence.ToString());
  WritePlacement(version.placement, json);
  json.Key("images").BeginArray();
  for (const auto& [rank, image] : version.images) {
    json.BeginObject().Field("rank", rank).Field("bytes", image->image_bytes).Field("captured", image->ended);
    json.Field("flush", FlushStateName(image->flush)).Field("pinned", image->pinned).Field("readers", image->readers).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string StatusJson(Agent& agent) {
  JsonWriter json;
  json.BeginObject().Field("node", agent.core().settings().node).Field("build", BuildName());
  json.Field("pid", os::OwnIdentity().process_id).Field("run_folder", agent.core().settings().run_folder);
  json.Field("up_seconds", 1e-9 * static_cast<double>(agent.core().clock().NowNs() - agent.core().started_ns()));
  json.Field("policy", agent.core().settings().placement_policy);
  if (auto memory = os::OwnMemory(); memory.ok()) json.Field("private_bytes", memory->private_bytes);
  WriteMemory(agent, json);
  WriteTiers(agent, json);
  WriteSessions(agent, json);
  json.Field("leases", static_cast<uint64_t>(agent.peer_server().leases()));
  json.Field("requests_waiting", static_cast<uint64_t>(agent.assignment().waiting()));
  uint64_t images = 0, bytes = 0;
  agent.images().CountPending(nullptr, Level::kLast, &images, &bytes);
  WritePlacement(agent.throughput().totals(), json);
  json.Key("flush").BeginObject().Field("images_pending", images).Field("bytes_pending", bytes);
  json.Field("bytes_queued", agent.flush().queued_bytes()).Field("in_flight", agent.flush().in_flight());
  json.Field("workers", agent.core().workers().threads()).Field("bytes_per_second", agent.throughput().FlushBytesPerSecond());
  json.Field("rate_limit", agent.core().settings().flush_bytes_per_second).EndObject();
  json.Key("jobs").BeginArray();
  for (const auto& [key, job] : agent.core().jobs()) {
    json.BeginObject()
        .Field("job", job->name)
        .Field("store", job->hello.keys.store_path)
        .Field("store_id", job->store_id.ToHex());
    json.Field("attempt", job->hello.attempt);
    json.Field("halting", job->calls.halt.has_value()).Field("told_to_exit", Calls::IsExitTold(*job));
    json.Field("flush_bytes_per_second", agent.throughput().FlushBytesPerSecond(job->store_id));
    WriteTuning(agent, *job, json);
    json.Field("scheme", ProtectSchemeName(job->hello.keys.protect_scheme)).Field("groups", agent.protect().DescribeGroups(*job));
    json.Key("versions").BeginArray();
    for (auto entry = job->versions.rbegin(); entry != job->versions.rend(); ++entry) WriteVersion(agent, *entry->second, json);
    json.EndArray().EndObject();
  }
  json.EndArray().Key("counters").BeginObject();
  for (const NamedCounter& counter : Counters(agent)) json.Field(counter.name, counter.value);
  json.EndObject().EndObject();
  return json.text();
}

std::string MetricsText(Agent& agent) {
  std::string text;
  for (const NamedCounter& counter : Counters(agent)) {
    text += fmt::format("# HELP kedge_{0}_total {1}.\n# TYPE kedge_{0}_total counter\nkedge_{0}_total {2}\n", counter.name,
                        counter.help, counter.value);
  }
  auto gauge = [&](const char* name, const char* help, uint64_t value) {
    text += fmt::format("# HELP kedge_{0} {1}.\n# TYPE kedge_{0} gauge\nkedge_{0} {2}\n", name, help, value);
  };
  uint64_t images = 0, bytes = 0;
  agent.images().CountPending(nullptr, Level::kLast, &images, &bytes);
  gauge("images_pending", "Images on their way to a level", images);
  gauge("bytes_pending", "Bytes of these images", bytes);
  gauge("flushes_in_flight", "Pieces being written to stores", agent.flush().in_flight());
  gauge("flush_bytes_per_second", "Moving average of one flush", agent.throughput().FlushBytesPerSecond());
  gauge("requests_waiting", "Clients' requests that wait for a slot", agent.assignment().waiting());
  gauge("sessions", "Client processes", agent.core().sessions().all().size());
  const MemoryLedger& memory = agent.memory();
  gauge("memory_ceiling_bytes", "What the memory tiers may take together", memory.ceiling_bytes());
  gauge("memory_backed_bytes", "What they have taken", memory.backed_bytes());
  gauge("memory_spare_bytes", "Of that, what nobody uses", memory.spare_bytes());
  gauge("memory_room_bytes", "What they may take on top of it", static_cast<uint64_t>(std::max<int64_t>(0, memory.Room().bytes)));
  using Getter = uint64_t (*)(const TierUnit&);
  const std::vector<std::tuple<const char*, const char*, Getter>> per_tier = {
      {"tier_slots", "Slots of the tier", [](const TierUnit& unit) { return uint64_t{unit.full_slots}; }},
      {"tier_free_slots", "Slots that nobody uses", [](const TierUnit& unit) { return uint64_t{unit.FreeFullSlots()}; }},
      {"tier_cached_slots", "Slots that hold only what may go",
       [](const TierUnit& unit) { return uint64_t{unit.space->evictable_slots()}; }},
      {"tier_occupied_slots", "Slots in use", [](const TierUnit& unit) { return uint64_t{unit.space->occupied_slots()}; }},
      {"tier_assigned_slots", "Slots assigned to clients",
       [](const TierUnit& unit) { return uint64_t{unit.space->assigned_slots()}; }},
      {"tier_lost", "Whether the tier's files are gone", [](const TierUnit& unit) { return uint64_t{unit.lost ? 1u : 0u}; }},
  };
  for (const auto& [name, help, get] : per_tier) {
    text += fmt::format("# HELP kedge_{0} {1}.\n# TYPE kedge_{0} gauge\n", name, help);
    // Tier names are letters, digits and .-_, so they need no escapes.
    for (const TierUnit* unit : agent.tiers().units()) {
      text += fmt::format("kedge_{}{{tier=\"{}\",unit=\"{}\"}} {}\n", name, unit->info().name, unit->id, get(*unit));
    }
  }
  return text + ThroughputMetrics(agent) + TuningMetrics(agent);
}

}  // namespace kedge

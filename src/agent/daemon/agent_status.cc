#include "agent/daemon/agent_status.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "agent/daemon/agent.h"
#include "agent/daemon/status_throughput.h"
#include "agent/daemon/status_tuning.h"
#include "agent/door/server.h"
#include "agent/door/sessions.h"
#include "agent/flush/flush.h"
#include "agent/peers/peers.h"
#include "agent/schedule/halts.h"
#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "agent/tables/session.h"
#include "base/json.h"
#include "os/machine/machine.h"
#include "redundancy/layout.h"
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
      {"images_shipped", c.images_shipped, "Of these, images that another node published (store.layout = leaders, posix)"},
      {"images_taken_back", c.images_taken_back, "Images that another node was to write, and did not"},
      {"images_carried", c.images_carried, "Images of other nodes that this one published"},
      {"flushed_bytes", c.bytes_flushed, "Bytes written to stores"},
      {"saved_bytes", c.bytes_saved,
       "Bytes of flushed images that needed no writing: zeros, what a version before has, and what compression saves"},
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
      {"redundancy_bytes", c.bytes_redundancy, "Bytes of parity, and of copies of other nodes' images, that were made here"},
      {"natural_bytes", c.bytes_natural, "Bytes of protected images that need no redundancy, since enough nodes have them"},
      {"protect_failures", c.protect_failures, "Versions whose protection across nodes was given up"},
      {"images_brought", c.images_brought, "Images fetched from other nodes or rebuilt from their redundancy"},
      {"inventories_asked", c.inventories_asked, "Questions to other nodes about what they hold"},
      {"parts_leased", c.parts_leased, "Parts of images that other nodes could read as they lay"},
      {"blocks_sealed", c.blocks_sealed, "Blocks of images that other nodes were given sealed"},
      {"read_pauses", c.read_pauses, "Times at which reads paused for an application that communicates (kedge_phase)"},
      {"read_pause_milliseconds", c.read_pause_ns / 1'000'000, "How long they did"},
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

Json TierJson(const TierUnit& unit) {
  const TierInfo& info = unit.info();
  Json json{{"name", info.name},
            {"kind", TierKindName(info.kind)},
            {"path", info.path},
            {"lost", unit.lost},
            {"slot_bytes", info.slot_bytes},
            {"slots", unit.full_slots},
            {"free_slots", unit.FreeFullSlots()},
            {"cached_slots", unit.space->evictable_slots()},
            {"occupied_slots", unit.space->occupied_slots()},
            {"assigned_slots", unit.space->assigned_slots()},
            {"flushing_chunks", unit.flushing_chunks},
            {"captured_bytes", unit.bytes_captured}};
  if (info.kind == TierKind::kMemory) {
    json.update({{"backed_bytes", unit.space->backed_bytes()},
                 {"spare_bytes", unit.space->spare_bytes()},
                 {"making_bytes", unit.memory.making_bytes},
                 {"wanted_bytes", unit.memory.wanted_bytes}});
  }
  json.update(ThroughputJson(unit));
  return json;
}

Json MemoryJson(Agent& agent) {
  const MemoryLedger& memory = agent.memory();
  const MemoryRoom room = memory.Room();
  return {{"ceiling_bytes", memory.ceiling_bytes()},
          {"backed_bytes", memory.backed_bytes()},
          {"spare_bytes", memory.spare_bytes()},
          {"room_bytes", room.bytes},
          {"bound", room.bound}};
}

Json SessionJson(const Session& session) {
  uint64_t slots = 0;
  for (const TierUnit* unit : session.tiers) slots += unit->space->AssignedTo(session.id);
  return {{"id", session.id},
          {"job", session.hello.job},
          {"attempt", session.hello.attempt},
          {"rank", session.hello.rank},
          {"ranks", session.hello.ranks},
          {"pid", session.owner.process_id},
          {"attached", session.connection != 0},
          {"slots", slots},
          {"images_pending", session.pending_serials.size()},
          {"images_failed", session.images_failed}};
}

// Those that the version has reached or is to reach.
Json LevelsJson(const Version& version) {
  Json levels = Json::array();
  const bool has_buffer = version.job->store->store().has_buffer();
  for (const Level level : {Level::kLocal, Level::kNode, Level::kBuffer, Level::kStore}) {
    if (level == Level::kBuffer && !has_buffer) continue;
    const bool reached = level == Level::kLocal    ? version.IsAtLocal()
                         : level == Level::kNode   ? version.at_node
                         : level == Level::kBuffer ? version.in_store()
                                                   : version.in_store() && !version.IsOnBufferOnly();
    const bool wanted =
        level == Level::kLocal || (level == Level::kNode ? version.to_node : version.scheduled() >= Level::kStore);
    if (reached || wanted) levels.push_back({{"level", LevelName(level)}, {"reached", reached}});
  }
  return levels;
}

Json VersionJson(const Version& version) {
  Json json{{"name", version.generation.name},
            {"version", version.generation.version},
            {"attempt", version.generation.attempt},
            {"take", version.generation.take},
            {"level", LevelName(version.ReachedLevel())},
            {"scheduled", LevelName(version.scheduled())},
            {"undecided", version.undecided.has_value()},
            {"skipped", version.skipped},
            {"abandoned", version.IsAbandoned()},
            {"levels", LevelsJson(version)}};
  if (!version.node_failure.ok()) json["node_failure"] = version.node_failure.ToString();
  if (!version.failure.ok()) json["failure"] = version.failure.ToString();
  if (!version.absence.ok()) json["waits_for"] = version.absence.ToString();
  json["placement"] = PlacementJson(version.placement);
  json["images"] = Json::array();
  for (const auto& [rank, image] : version.images) {
    json["images"].push_back({{"rank", rank},
                              {"bytes", image->image_bytes},
                              {"captured", image->ended},
                              {"flush", FlushStateName(image->flush)},
                              {"pinned", image->pinned},
                              {"readers", image->readers}});
  }
  return json;
}

Json FlushJson(Agent& agent) {
  uint64_t images = 0, bytes = 0;
  agent.pending().Count(nullptr, Level::kLast, &images, &bytes);
  return {{"images_pending", images},
          {"bytes_pending", bytes},
          {"bytes_queued", agent.flush().queued_bytes()},
          {"in_flight", agent.flush().in_flight()},
          {"workers", agent.core().workers().threads()},
          {"bytes_per_second", agent.throughput().FlushBytesPerSecond()},
          {"rate_limit", agent.core().settings().flush_bytes_per_second}};
}

Json JobJson(Agent& agent, const Job& job) {
  Json json{{"job", job.name},
            {"store", job.hello.keys.store_path},
            {"store_id", job.store_id.ToHex()},
            {"attempt", job.hello.attempt},
            {"halting", job.halt.asked()},
            {"told_to_exit", agent.halts().IsExitTold(job)},
            {"flush_bytes_per_second", agent.throughput().FlushBytesPerSecond(job.store_id)}};
  json.update(TuningJson(agent, job));
  if (const SourcePace* const pace = agent.shipper().PaceOf(job.key())) {
    json["staging"] = {{"rate_limit", pace->rate()}, {"slowdown", pace->slowdown() ? Json(*pace->slowdown()) : Json()}};
  }
  json["scheme"] = ProtectSchemeName(job.hello.keys.protect_scheme);
  json["groups"] = job.layout == nullptr ? std::string() : redundancy::Describe(*job.layout);
  json["versions"] = Json::array();
  for (auto entry = job.versions.rbegin(); entry != job.versions.rend(); ++entry) {
    json["versions"].push_back(VersionJson(*entry->second));
  }
  return json;
}

}  // namespace

std::string StatusJson(Agent& agent) {
  const NodeSettings& settings = agent.core().settings();
  Json json{{"node", settings.node},
            {"build", BuildName()},
            {"pid", os::OwnIdentity().process_id},
            {"run_folder", settings.run_folder},
            {"up_seconds", 1e-9 * static_cast<double>(agent.core().clock().NowNs() - agent.core().started_ns())},
            {"policy", settings.placement_policy}};
  if (auto memory = os::OwnMemory(); memory.ok()) json["private_bytes"] = memory->private_bytes;
  json["memory"] = MemoryJson(agent);
  json["tiers"] = Json::array();
  for (const TierUnit* unit : agent.tiers().units()) json["tiers"].push_back(TierJson(*unit));
  json["unusable_tiers"] = Json::array();
  for (const auto& [name, why] : agent.tiers().unusable()) json["unusable_tiers"].push_back({{"name", name}, {"why", why}});
  json["sessions"] = Json::array();
  for (const Session* session : agent.core().sessions().all()) json["sessions"].push_back(SessionJson(*session));
  json["leases"] = agent.peers().service().leases();
  json["requests_waiting"] = agent.assignment().waiting();
  json["placement"] = PlacementJson(agent.throughput().totals());
  json["flush"] = FlushJson(agent);
  json["carrying"] = {{"writers", agent.carrier().writers()}, {"images_waiting", agent.carrier().waiting()}};
  json["jobs"] = Json::array();
  for (const auto& [key, job] : agent.core().jobs()) json["jobs"].push_back(JobJson(agent, *job));
  for (const NamedCounter& counter : Counters(agent)) json["counters"][counter.name] = counter.value;
  return ToText(json);
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
  agent.pending().Count(nullptr, Level::kLast, &images, &bytes);
  gauge("images_pending", "Images on their way to a level", images);
  gauge("bytes_pending", "Bytes of these images", bytes);
  gauge("flushes_in_flight", "Pieces being written to stores", agent.flush().in_flight());
  gauge("carry_writers", "Images of other nodes that may be written at once", agent.carrier().writers());
  gauge("carry_images_waiting", "Images of other nodes that wait for a writer", agent.carrier().waiting());
  gauge("flush_bytes_per_second", "Moving average of one flush", agent.throughput().FlushBytesPerSecond());
  gauge("requests_waiting", "Clients' requests that wait for a slot", agent.assignment().waiting());
  gauge("sessions", "Client processes", agent.core().sessions().all().size());
  const MemoryLedger& memory = agent.memory();
  gauge("memory_ceiling_bytes", "What the memory tiers may take together", memory.ceiling_bytes());
  gauge("memory_backed_bytes", "What they have taken", memory.backed_bytes());
  gauge("memory_spare_bytes", "Of that, what nobody uses", memory.spare_bytes());
  gauge("memory_used_bytes", "Of that, the rest", memory.backed_bytes() - std::min(memory.backed_bytes(), memory.spare_bytes()));
  const MemoryRoom room = memory.Room();
  text += fmt::format(
      "# HELP kedge_memory_room_bytes What they may take on top of it, and what allows no more.\n"
      "# TYPE kedge_memory_room_bytes gauge\nkedge_memory_room_bytes{{bound=\"{}\"}} {}\n",
      room.bound, std::max<int64_t>(0, room.bytes));
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

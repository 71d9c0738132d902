#include "tools/status_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/duration.h"
#include "base/json.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

std::string Head(const Json& status) {
  const Json& flush = status.at("flush");
  return fmt::format(
      "node {} (pid {}, up {}, policy {})\n"
      "flush: {} images, {} to go; {} pieces in flight by {} workers; {}/s a flush; {} requests wait for a slot\n",
      status.at("node").get<std::string>(), status.at("pid").get<int64_t>(),
      FormatDuration(FromSeconds(status.at("up_seconds").get<double>())), status.at("policy").get<std::string>(),
      flush.at("images_pending").get<uint64_t>(), FormatByteSize(flush.at("bytes_pending").get<uint64_t>()),
      flush.at("in_flight").get<uint64_t>(), flush.at("workers").get<uint64_t>(),
      FormatByteSize(flush.at("bytes_per_second").get<uint64_t>()), status.at("requests_waiting").get<uint64_t>());
}

// What the memory tiers have taken, and why they may take no more than so much.
std::string Memory(const Json& memory) {
  const auto bytes = [&](const char* key) { return memory.at(key).get<int64_t>(); };
  const auto size = [](int64_t value) { return FormatByteSize(static_cast<uint64_t>(value)); };
  const int64_t room = bytes("room_bytes");
  return fmt::format("memory: {} of at most {}, {} of it spare; {} {} ({})\n", size(bytes("backed_bytes")),
                     size(bytes("ceiling_bytes")), size(bytes("spare_bytes")), size(room < 0 ? -room : room),
                     room < 0 ? "to be given back" : "more may be had", memory.at("bound").get<std::string>());
}

std::string Number(const Json& value) {
  return fmt::format("{}", value.get<uint64_t>());
}

// What one more writer is predicted to get; "~" when that was learned, not measured.
std::string NextWriter(const Json& tier) {
  const Json& rate = tier.at("next_writer_bytes_per_second");
  if (rate.is_null()) return "?";
  const bool measured = tier.at("calibration").get<std::string>() == "measured";
  return fmt::format("{}{}/s", measured ? "" : "~", FormatByteSize(static_cast<uint64_t>(rate.get<double>())));
}

std::string Percent(const Json& part) {
  return part.is_null() ? "-" : fmt::format("{:.0f}%", 100 * part.get<double>());
}

std::string Tiers(const Json& status) {
  Table table({"TIER", "FREE", "OF", "CACHED", "CAPTURED", "WRITERS", "EACH", "ERROR"},
              {false, true, true, true, true, true, true, true});
  std::string places;
  for (const Json& tier : status.at("tiers")) {
    const auto name = tier.at("name").get<std::string>();
    table.AddRow({name, Number(tier.at("free_slots")) + "/" + Number(tier.at("slots")),
                  FormatByteSize(tier.at("slot_bytes").get<uint64_t>()), Number(tier.at("cached_slots")),
                  FormatByteSize(tier.at("captured_bytes").get<uint64_t>()), Number(tier.at("writers")), NextWriter(tier),
                  Percent(tier.at("model_error"))});
    places += fmt::format("  {}: {}, {}\n", name, tier.at("lost").get<bool>() ? "LOST" : tier.at("kind").get<std::string>(),
                          tier.at("path").get<std::string>());
  }
  for (const Json& tier : status.at("unusable_tiers")) {
    places += fmt::format("  {}: CANNOT BE USED, {}\n", tier.at("name").get<std::string>(), tier.at("why").get<std::string>());
  }
  return table.Text() + places;
}

// Where chunks went, and what that cost.
std::string Placement(const Json& placement) {
  std::string text = "chunks:";
  for (const auto& [tier, count] : placement.at("chunks").items()) text += fmt::format(" {} {},", tier, count.get<uint64_t>());
  if (placement.at("chunks").empty()) text += " none yet,";
  return text + fmt::format(" {} waits ({}); model error {}\n", placement.at("waits").get<uint64_t>(),
                            FormatDuration(FromSeconds(placement.at("wait_seconds").get<double>())),
                            Percent(placement.at("model_error")));
}

std::string Sessions(const Json& status) {
  if (status.at("sessions").empty()) return "no processes attached\n";
  Table table({"PID", "JOB", "RANK", "ATTEMPT", "SLOTS", "PENDING", "FAILED"}, {true, false, true, true, true, true, true});
  for (const Json& session : status.at("sessions")) {
    table.AddRow({Number(session.at("pid")), session.at("job").get<std::string>(),
                  fmt::format("{}/{}", session.at("rank").get<uint64_t>(), session.at("ranks").get<uint64_t>()),
                  Number(session.at("attempt")), Number(session.at("slots")), Number(session.at("images_pending")),
                  Number(session.at("images_failed"))});
  }
  return table.Text();
}

std::string Seconds(const Json& value) {
  return FormatDuration(FromSeconds(value.get<double>()));
}

// How often it checkpoints, and how often it should.
std::string Schedule(const Json& job) {
  const Json& schedule = job.at("schedule");
  const Json& blocked = job.at("blocked");
  const bool always = schedule.at("interval_seconds").get<double>() <= 0;
  std::string text = fmt::format("checkpoints: {} calls measured; interval {}", Number(blocked.at("count")),
                                 always ? "the application's own" : Seconds(schedule.at("interval_seconds")));
  if (schedule.at("adapt").get<bool>()) text += " (follows what is measured)";
  if (schedule.at("adapt_levels").get<bool>()) {
    text += fmt::format(", schedule.node = {}, schedule.store = {} (follow, too)", Number(schedule.at("node_every")),
                        Number(schedule.at("store_every")));
  }
  if (const Json& proposal = schedule.at("proposal"); !proposal.is_null()) {
    text += fmt::format("; best {} (efficiency {:.4f})", Seconds(proposal.at("interval_seconds")),
                        proposal.at("efficiency").get<double>());
    const bool other_node = proposal.at("best_node_every") != schedule.at("node_every");
    const bool other_store = proposal.at("best_store_every") != schedule.at("store_every");
    if (other_node || other_store) {
      text += fmt::format(", or {} with", Seconds(proposal.at("best_interval_seconds")));
      if (other_node) text += fmt::format(" schedule.node = {}", Number(proposal.at("best_node_every")));
      if (other_store)
        text += fmt::format("{} schedule.store = {}", other_node ? "," : "", Number(proposal.at("best_store_every")));
      text += fmt::format(" ({:.4f})", proposal.at("best_efficiency").get<double>());
    }
  }
  return text + "\n";
}

std::string Versions(const Json& job, size_t versions_max) {
  Table table({"NAME", "VERSION", "LEVEL", "OF", "IMAGES", "BYTES"}, {false, true, false, false, true, true});
  std::string notes;
  size_t shown = 0;
  for (const Json& version : job.at("versions")) {
    if (shown++ == versions_max) break;
    uint64_t bytes = 0;
    for (const Json& image : version.at("images")) bytes += image.at("bytes").get<uint64_t>();
    std::string note = version.contains("failure") ? version.at("failure").get<std::string>() : "";
    if (version.contains("node_failure")) note = version.at("node_failure").get<std::string>();
    if (version.at("skipped").get<bool>()) note = "skipped";
    if (!note.empty()) notes += fmt::format("  version {}: {}\n", Number(version.at("version")), note);
    table.AddRow({version.at("name").get<std::string>(), Number(version.at("version")), version.at("level").get<std::string>(),
                  version.at("scheduled").get<std::string>(), fmt::format("{}", version.at("images").size()),
                  FormatByteSize(bytes)});
  }
  const size_t all = job.at("versions").size();
  return table.Text() + (all > versions_max ? fmt::format("... and {} older\n", all - versions_max) : "") + notes;
}

}  // namespace

Result<std::string> StatusText(const std::string& text, const StatusViewOptions& options) {
  try {
    const Json status = Json::parse(text);
    std::string view = Head(status) + Memory(status.at("memory")) + "\n" + Tiers(status) + Placement(status.at("placement")) +
                       "\n" + Sessions(status);
    if (!options.versions) return Wrapped(view);
    for (const Json& job : status.at("jobs")) {
      view += fmt::format("\njob {} (attempt {}, store {})\n", job.at("job").get<std::string>(),
                          job.at("attempt").get<uint64_t>(), job.at("store").get<std::string>());
      view += Schedule(job) + Versions(job, options.versions_max);
    }
    return Wrapped(view);
  } catch (const Json::exception& error) {
    return Status(Code::kCorrupt, fmt::format("the agent's status cannot be read ({}); is it of another build?", error.what()));
  }
}

Result<std::string> GroupsText(const std::string& text) {
  try {
    const Json status = Json::parse(text);
    std::string view;
    for (const Json& job : status.at("jobs")) {
      const std::string groups = job.at("groups").get<std::string>();
      const std::string scheme = job.at("scheme").get<std::string>();
      view += fmt::format("job {}: {}\n", job.at("job").get<std::string>(),
                          groups.empty() ? "its nodes do not protect each other (protect.scheme = " + scheme + ")"
                                         : scheme + "\n" + groups.substr(0, groups.find_last_not_of('\n') + 1));
    }
    return view.empty() ? std::string("no jobs\n") : Wrapped(view);
  } catch (const Json::exception& error) {
    return Status(Code::kCorrupt, fmt::format("the agent's status cannot be read ({}); is it of another build?", error.what()));
  }
}

}  // namespace kedge::tools

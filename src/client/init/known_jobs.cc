// See known_jobs.h.
#include "client/init/known_jobs.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "client/core/told_restarts.h"
#include "format/wire.h"
#include "os/machine/machine.h"

namespace kedge::client {
namespace {

constexpr size_t kAttemptBytesMax = 4096;
constexpr Duration kAskTimeout = std::chrono::seconds(10);

std::vector<KnownJob> Ask(const Core& core, Result<std::unique_ptr<Connection>>* agent) {
  if (!agent->ok()) return {};
  const KnownJobsRequest request{kProtocolVersion, BuildName(), core.job.job, core.job.keys.store_path};
  auto reply = (**agent)->Call<KnownJobsReply>(request, kAskTimeout);
  if (reply.ok()) return std::move(reply->jobs);
  *agent = reply.status();
  return {};
}

constexpr size_t kRestoredBytesMax = 1 << 20;

// With what tells one agent from another: the ranks of a node all say the same.
std::string Encode(const Core& core, const std::vector<KnownJob>& known) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.String(os::HostName() + ":" + core.node.run_folder);
  encoder.Varint(known.size());
  for (const KnownJob& job : known) {
    encoder.U64(job.store_id.high);
    encoder.U64(job.store_id.low);
    encoder.Varint(job.attempt);
    encoder.Varint(job.live_ranks);
    encoder.U8(job.knows_versions ? 1 : 0);
    encoder.String(job.unrecorded);
    encoder.String(EncodeRestored(job.restored));
  }
  encoder.Finish();
  return std::string(AsText(buffer));
}

// Every node has heard of a restart from ranks of its own, each of which has noted its own time.
bool IsSameRestart(const RestoredRecord& one, const RestoredRecord& other) {
  return one.attempt == other.attempt && one.take == other.take && one.origin == other.origin;
}

// What one node knows to what others do.
void Add(KnownJob job, KnownJob* known) {
  known->store_id = job.store_id;
  known->live_ranks += job.live_ranks;
  known->knows_versions = known->knows_versions || job.knows_versions;
  if (job.attempt >= known->attempt) {
    known->attempt = job.attempt;
    known->unrecorded = std::move(job.unrecorded);
  }
  for (RestoredRecord& record : job.restored) {
    const auto is_same = [&](const RestoredRecord& other) { return IsSameRestart(record, other); };
    if (std::none_of(known->restored.begin(), known->restored.end(), is_same)) known->restored.push_back(std::move(record));
  }
}

}  // namespace

Result<std::vector<KnownJob>> GatherKnownJobs(const Core& core, Result<std::unique_ptr<Connection>>* agent) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, core.collective.AllGather(Encode(core, Ask(core, agent))));
  std::map<StoreId, KnownJob> merged;
  std::set<std::string> agents;
  for (const std::string& text : all) {
    Decoder decoder(AsBytes(text));
    const bool is_new = agents.emplace(decoder.String(2 * kNameBytesMax)).second;
    for (size_t jobs = decoder.Count(20); jobs > 0; --jobs) {
      KnownJob job;
      job.store_id.high = decoder.U64();
      job.store_id.low = decoder.U64();
      job.attempt = decoder.Varint32();
      job.live_ranks = decoder.Varint32();
      job.knows_versions = decoder.U8() != 0;
      job.unrecorded = decoder.String(kAttemptBytesMax);
      KEDGE_ASSIGN_OR_RETURN(job.restored, DecodeRestored(std::string(decoder.String(kRestoredBytesMax))));
      if (!is_new) continue;
      KnownJob& known = merged[job.store_id];
      Add(std::move(job), &known);
    }
    KEDGE_RETURN_IF_ERROR(decoder.Finish("what a rank's agent knows of the job"));
  }
  std::vector<KnownJob> known;
  for (const auto& [store_id, job] : merged) known.push_back(job);
  return known;
}

std::vector<KnownJob> GoingOn(const std::vector<KnownJob>& known) {
  std::vector<KnownJob> going_on;
  std::copy_if(known.begin(), known.end(), std::back_inserter(going_on),
               [](const KnownJob& job) { return job.knows_versions || job.live_ranks > 0 || !job.unrecorded.empty(); });
  return going_on;
}

KnownJob KnownIn(const std::vector<KnownJob>& known, const StoreId& store_id) {
  auto found = std::find_if(known.begin(), known.end(), [&](const KnownJob& job) { return job.store_id == store_id; });
  return found == known.end() ? KnownJob{store_id, 0, 0, false, {}, {}} : *found;
}

}  // namespace kedge::client

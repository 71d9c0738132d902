#include "agent/schedule/takings.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "base/log.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr Duration kTellTimeout = std::chrono::seconds(5);
constexpr uint32_t kTellTriesMax = 3;
constexpr size_t kTakingsKept = 256;  // of a job, as other nodes told

bool IsSameTaking(const Generation& a, const Generation& b) {
  return a.name == b.name && a.attempt == b.attempt && a.take == b.take;
}

bool Contradicts(const ImageIdentity& a, const ImageIdentity& b) {
  return IsSameTaking(a.generation, b.generation) && a.generation.version != b.generation.version && a.rank != b.rank;
}

// Of one taking, with whatever version number.
std::vector<Generation> SameTakings(const Job& job, const Generation& taking) {
  std::vector<Generation> found;
  auto entry = job.taken.lower_bound({taking.name, taking.attempt, taking.take, INT64_MIN});
  for (; entry != job.taken.end(); ++entry) {
    const auto& [name, attempt, take, version] = *entry;
    if (name != taking.name || attempt != taking.attempt || take != taking.take) break;
    found.push_back(taking);
    found.back().version = version;
  }
  return found;
}

std::optional<ImageIdentity> FindContradiction(const Job& job, const ImageIdentity& taking) {
  for (const Generation& generation : SameTakings(job, taking.generation)) {
    const Version& version = *job.versions.at(generation);
    for (const auto& [rank, image] : version.images) {
      const ImageIdentity here{generation, rank, version.ranks};
      if (Contradicts(taking, here)) return here;
    }
  }
  const auto told = std::find_if(job.takings_told.begin(), job.takings_told.end(),
                                 [&](const ImageIdentity& one) { return Contradicts(taking, one); });
  return told == job.takings_told.end() ? std::nullopt : std::optional(*told);
}

}  // namespace

Takings::Takings(AgentCore& core, Peers& peers) : core_(core), peers_(peers) {
  peers.service().On(PeerKind::kTaken, DecodeImageIdentity, std::bind_front(&Takings::OnTold, this));
}

void Takings::OnTaken(const ImageIdentity& taking) {
  core_.loop().Post([this, taking] {
    Job* job = core_.FindJobOf(taking.generation);
    const Version* version = core_.FindVersion(taking.generation);
    if (job == nullptr || version == nullptr) return;
    const bool is_news = version->images.size() == 1;
    Compare(*job, taking, is_news);
    const JobNode* leading = job->LeadingNode();
    if (is_news && leading != nullptr && !IsLeading(*job)) Tell(*job, leading->name, taking);
  });
}

void Takings::OnChanged(const Generation& generation) {
  Job* job = core_.FindJobOf(generation);
  if (job == nullptr) return;
  const auto known = job->disagreements.find(generation.name);
  if (known == job->disagreements.end() || !(known->second.at < MomentOf(generation))) return;
  const Version* version = core_.FindVersion(generation);
  if (version != nullptr && (version->IsComplete() || version->IsAtLocal())) job->disagreements.erase(known);
}

void Takings::OnTold(Job& job, const ImageIdentity& taking) {
  auto& told = job.takings_told;
  const uint32_t attempt = taking.generation.attempt;
  std::erase_if(told, [&](const ImageIdentity& one) { return one.generation.attempt < attempt; });
  const bool is_known =
      std::any_of(told.begin(), told.end(), [&](const ImageIdentity& one) { return one.generation == taking.generation; });
  if (is_known || attempt != job.hello.attempt) return;
  Compare(job, taking, /*is_news=*/true);
  told.push_back(taking);
  if (told.size() > kTakingsKept) told.pop_front();
}

void Takings::Compare(Job& job, const ImageIdentity& taking, bool is_news) {
  const std::optional<ImageIdentity> other = FindContradiction(job, taking);
  if (!other) return;
  const Status why = Disagreement(taking.generation, taking.rank, other->generation, other->rank);
  job.NoteDisagreement(taking.generation, why);
  for (const Generation& generation : SameTakings(job, taking.generation)) Fail(job, generation, why);
  if (!is_news || !IsLeading(job)) return;
  for (const JobNode& node : job.members.nodes) {
    if (node.name == core_.settings().node) continue;
    Tell(job, node.name, taking);
    Tell(job, node.name, *other);
  }
}

void Takings::Fail(Job& job, const Generation& generation, const Status& why) {
  Version* version = core_.FindVersion(generation);
  if (version == nullptr) return;
  if (version->failure.code() != Code::kMismatch) {
    LogError("agent", "job {}: {}", job.name, why.message());
    version->failure = why;
    core_.events().version_failed(*version, Level::kStore, why);
  }
  for (const auto& [rank, image] : version->images) {
    if (!image->ended || image->doomed || image->is_disagreed) continue;
    image->is_disagreed = true;
    Session* session = core_.sessions().Find(image->session_id);
    if (session == nullptr) continue;
    core_.sessions().SendFailure(*session, image->serial, why);
    core_.sessions().PublishCounts(*session);
  }
  core_.events().version_changed(generation);
}

bool Takings::IsLeading(const Job& job) const {
  const JobNode* leading = job.LeadingNode();
  return leading != nullptr && leading->name == core_.settings().node;
}

void Takings::Tell(const Job& job, const std::string& node, const ImageIdentity& taking, uint32_t tries) {
  if (!peers_.is_open() || job.members.attempt != taking.generation.attempt) return;
  Buffer body;
  EncodeImageIdentity(taking, &body);
  peers_.Call(job, node, PeerKind::kTaken, std::move(body), kTellTimeout,
              [this, node, taking, tries](const Result<Buffer>& answer) {
                const Job* found = core_.FindJobOf(taking.generation);
                if (answer.ok() || found == nullptr) return;
                if (tries < kTellTriesMax) return Tell(*found, node, taking, tries + 1);
                LogWarning("agent", "node {} does not hear of {}, so that it cannot tell whether its ranks took the same: {}",
                           node, taking.ToString(), answer.status().ToString());
              });
}

}  // namespace kedge

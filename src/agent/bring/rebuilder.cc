#include "agent/bring/rebuilder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "agent/bring/bringer.h"
#include "agent/bring/inventories.h"
#include "agent/images/image_flusher.h"
#include "agent/tables/agent_core.h"
#include "redundancy/layout.h"
#include "redundancy/plan.h"
#include "store/attempts.h"

namespace kedge {
namespace {

// Whether the node that the rank was on last has its image.
bool LiesWithItsRank(const Job& job, const redundancy::RankPlan& rank) {
  const auto& nodes = job.members.nodes;
  if (nodes.empty()) return true;  // a job on one node
  const auto home = std::find_if(nodes.begin(), nodes.end(), [&](const JobNode& node) {
    return std::find(node.ranks.begin(), node.ranks.end(), rank.rank) != node.ranks.end();
  });
  return home != nodes.end() && std::any_of(rank.sources.begin(), rank.sources.end(), [&](const redundancy::Source& source) {
           return source.kind != redundancy::SourceKind::kRebuild && source.node == home->name;
         });
}

SurvivingVersion Survivors(const Job& job, const Generation& generation, const redundancy::RestorePlan& plan,
                           const std::vector<InventoryReply>& replies) {
  std::vector<uint32_t> given, at_hand;
  for (const redundancy::RankPlan& rank : plan.ranks) {
    if (rank.sources.empty()) continue;
    given.push_back(rank.rank);
    if (job.BringsImages() || LiesWithItsRank(job, rank)) at_hand.push_back(rank.rank);
  }
  const auto ranks = static_cast<uint32_t>(plan.ranks.size());
  return {generation, ranks, RunsOf(given), RunsOf(at_hand), WasSafe(replies, generation), plan.WhatIsLost()};
}

// Whether the nodes can give an image that none of them has for its own: the only whole one of a lost node.
bool IsLost(const Generation& generation, const redundancy::RankPlan& rank, const std::vector<InventoryReply>& replies) {
  if (rank.sources.empty()) return false;
  if (rank.sources.front().kind == redundancy::SourceKind::kRebuild) return true;
  return !AnyHeld(replies, generation, [&](const HeldImage& image) { return image.rank == rank.rank; });
}

}  // namespace

// Who takes a lost image: the next member of its group that answers, so that the survivors agree without a word.
bool Rebuilder::FallsToUs(const Job& job, uint32_t rank, const std::vector<InventoryReply>& replies) const {
  const auto position = job.layout == nullptr ? std::nullopt : job.layout->FindRank(rank);
  if (!position.has_value()) return true;
  const auto& group = job.layout->groups[position->group];
  for (size_t step = 1; step <= group.size(); ++step) {
    const std::string& node = group[(position->member + step) % group.size()].name;
    const bool answers =
        std::any_of(replies.begin(), replies.end(), [&](const InventoryReply& reply) { return reply.node == node; });
    if (answers) return node == core_.settings().node;
  }
  return true;
}

void Rebuilder::NoteAttempts(Job& job, const std::vector<Generation>& generations, std::function<void(Status)> done) {
  std::map<uint32_t, AttemptRecord> awaited;
  for (const Generation& generation : generations) {
    const auto record = job.store->AwaitedRecordOf(generation.attempt);
    if (record && !core_.sessions().HasAttempt(job, generation.attempt)) awaited.emplace(generation.attempt, *record);
  }
  if (awaited.empty()) return done(Status::Ok());
  core_.bringers().Submit([this, store = job.store, awaited = std::move(awaited), done = std::move(done)] {
    Status failure;
    for (const auto& [attempt, record] : awaited) {
      const auto catalog = store->CatalogFor(attempt);
      LeaseWatch watch;
      const Status noted =
          catalog.ok() ? RegisterEndedAttempt(*catalog, record, &watch, LeasePatience(record.lease_seconds)) : catalog.status();
      if (failure.ok()) failure = noted;
    }
    core_.loop().Post([done, failure] { done(failure); });
  });
}

Rebuilder::Rebuilder(AgentCore& core, Bringer& bringer, ImageFlusher& flush, Inventories& inventories)
    : core_(core), bringer_(bringer), flush_(flush), inventories_(inventories) {
  core.requests().On<RebuildRequest>(std::bind_front(&Rebuilder::Rebuild, this));
}

void Rebuilder::Rebuild(const RebuildRequest& request, const Question& question) {
  Job* job = core_.FindJob(request.store_id, request.job);
  if (job == nullptr) {
    return question.Answer(
        Status(Code::kNotFound, fmt::format("the agent of node {} knows nothing of job {}", core_.settings().node, request.job)));
  }
  auto rebuild = [this, request, question](const Inventories::Gathered& replies) {
    struct Work {
      RebuildReply reply;
      size_t waiting = 1;
    };
    auto work = std::make_shared<Work>();
    Job* found = core_.FindJob(request.store_id, request.job);
    if (found == nullptr) {
      work->reply.failure = Status(Code::kNotFound, "the job is not known any more");
      return question.Answer(work->reply);
    }
    work->reply.silent_nodes = SilentNodes(*found, *replies);
    work->reply.restored = found->restored;
    auto finish = [this, work, request, question] {
      if (--work->waiting > 0) return;
      Job* drained = request.to_store ? core_.FindJob(request.store_id, request.job) : nullptr;
      if (drained == nullptr) return question.Answer(work->reply);
      core_.events().job_drained(*drained);
      NoteAttempts(*drained, request.wanted, [this, work, question, wanted = request.wanted](const Status& noted) {
        if (!noted.ok() && work->reply.failure.ok()) work->reply.failure = noted;
        for (const Generation& generation : wanted) {
          Version* version = core_.FindVersion(generation);
          if (version != nullptr) work->reply.images_owed += flush_.SendToStore(*version);
        }
        question.Answer(work->reply);
      });
    };
    const std::set<Generation> wanted(request.wanted.begin(), request.wanted.end());
    for (const auto& [generation, ranks] : GenerationsIn(*replies)) {
      const redundancy::RestorePlan plan =
          redundancy::PlanRestore(generation, ranks, ToNodeInventories(*replies, generation), false, core_.settings().node);
      work->reply.versions.push_back(Survivors(*found, generation, plan, *replies));
      if (!wanted.contains(generation)) continue;
      for (const redundancy::RankPlan& rank : plan.ranks) {
        if (!IsLost(generation, rank, *replies) || !FallsToUs(*found, rank.rank, *replies)) continue;
        ++work->waiting;
        bringer_.Bring(*found, generation, rank.rank, {}, [work, finish](const Status& brought) {
          if (brought.ok()) ++work->reply.images_brought;
          if (!brought.ok() && work->reply.failure.ok()) work->reply.failure = brought;
          finish();
        });
      }
    }
    finish();
  };
  inventories_.Gather(*job, "", Reach::kJob, rebuild,
                      {.most_likely_dead = {request.left_out.begin(), request.left_out.end()},
                       .is_look = request.wanted.empty() && !request.to_store});
}

}  // namespace kedge

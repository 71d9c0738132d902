// A job of one rank a node whose nodes protect each other: this agent's, "local", and others that nobody runs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/tables/job.h"
#include "agent/tables/protection.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"
#include "redundancy/layout.h"

namespace kedge::testing {

class ProtectedJob {
 public:
  static constexpr uint64_t kSlotBytes = 64 << 10;

  // Groups of two nodes. The agent has rank 0.
  explicit ProtectedJob(uint32_t nodes) : job_(*agent_.Attach(0, nodes, Keys()).job) {
    std::vector<redundancy::Node> all;
    for (uint32_t rank = 0; rank < nodes; ++rank) {
      const std::string name = rank == 0 ? "local" : "n" + std::to_string(rank);
      all.push_back({name, name, {rank}});
    }
    redundancy::LayoutOptions options;
    options.group_size = 2;
    job_.layout = std::make_shared<const redundancy::Layout>(redundancy::MakeLayout(std::move(all), options).value());
    job_.members.attempt = 1;
  }

  Agent* operator->() { return &*agent_; }
  Job& job() { return job_; }
  redundancy::Position self() const { return *job_.layout->Find("local"); }
  uint32_t other() const { return 1 - self().member; }
  // Of this node's group.
  const redundancy::Node& OtherNode() const { return job_.layout->groups[self().group][other()]; }

  Generation GenerationOf(int64_t number) const {
    return {agent_.store_id(), job_.name, "v", number, 1, static_cast<uint32_t>(number)};
  }
  // One that is owed level NODE, without images; the former one of that number goes.
  Version& Put(int64_t number) {
    auto version = std::make_unique<Version>();
    version->generation = GenerationOf(number);
    version->job = &job_;
    version->ranks = job_.hello.ranks;
    version->to_node = true;
    auto& place = job_.versions[version->generation];
    place = std::move(version);
    return *place;
  }
  // As Protect begins with it: nothing of its one set is known.
  void Begin(Version& version) {
    version.protection = std::make_shared<Protection>();
    version.protection->layout = job_.layout;
    version.protection->group = self().group;
    version.protection->member = self().member;
    SetProgress set;
    set.identity = SetOf(version.generation);
    set.members.resize(2);
    set.done.resize(2, false);
    set.contacts.resize(2);
    version.protection->sets.push_back(std::move(set));
  }
  SetIdentity SetOf(const Generation& generation) const {
    return {generation, job_.hello.ranks, job_.layout->id, self().group, 0};
  }

 private:
  static JobKeys Keys() {
    JobKeys keys;
    keys.protect_scheme = ProtectScheme::kXor;
    keys.schedule_node = 1;
    return keys;
  }

  LocalAgent agent_{4, kSlotBytes};
  Job& job_;
};

}  // namespace kedge::testing

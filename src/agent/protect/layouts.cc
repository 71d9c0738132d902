#include "agent/protect/layouts.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/members.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {
namespace {

constexpr Duration kGoodbyeTime = std::chrono::milliseconds(100);

}  // namespace

Layouts::Layouts(AgentCore& core, Peers& peers) : core_(core), peers_(peers) {
  peers.service().On(PeerKind::kInvite, DecodeInvitation, std::bind_front(&Layouts::OnInvited, this));
}

Status Layouts::OnMembers(Job& job) {
  const JobKeys& keys = job.hello.keys;
  job.layout = nullptr;
  core_.events().members_changed(job);
  if (job.members.nodes.empty()) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(peers_.Join(job));
  std::vector<redundancy::Node> nodes;
  for (const JobNode& node : job.members.nodes) {
    if (node.address.empty()) {
      return Status(Code::kUnavailable, fmt::format("node {} had no agent that others could reach", node.name));
    }
    nodes.push_back({node.name, node.failure_domain, node.ranks});
  }
  if (!keys.Protects()) return Status::Ok();
  redundancy::LayoutOptions options;
  options.scheme = static_cast<Scheme>(keys.protect_scheme);
  options.group_size = keys.protect_group;
  options.losses = keys.protect_losses;
  options.copies = keys.protect_copies;
  KEDGE_ASSIGN_OR_RETURN(redundancy::Layout layout, redundancy::MakeLayout(std::move(nodes), options));
  job.layout = std::make_shared<const redundancy::Layout>(std::move(layout));
  // Whom this node will talk to first, at a restart and for every version.
  const auto position = job.layout->Find(core_.settings().node);
  if (!position.has_value()) return Status::Ok();
  for (const redundancy::Node& node : job.layout->groups[position->group]) {
    if (node.name != core_.settings().node) peers_.Connect(job, node.name);
  }
  return Status::Ok();
}

Status Layouts::OnInvited(const Job& job, const Invitation& invitation) {
  const Membership& members = invitation.members;
  if (members.attempt <= job.members.attempt || IsAmong(members.nodes, core_.settings().node)) {
    return Status(Code::kMismatch, "the invitation is not to a later attempt without this node");
  }
  LogInfo("agent", "job {} goes on in attempt {} without this node, which serves what it holds", job.name, members.attempt);
  // After the answer, which goes out in the name of the attempt that ends here.
  core_.loop().AddTimer(kGoodbyeTime, [this, key = job.key(), members] {
    Job* found = core_.FindJob(key);
    if (found == nullptr || members.attempt <= found->members.attempt) return;
    found->members = members;
    found->guests.clear();
    core_.events().job_changed(*found);
    Status joined = OnMembers(*found);
    if (!joined.ok()) LogWarning("agent", "job {}: {}", found->name, joined.ToString());
  });
  return Status::Ok();
}

}  // namespace kedge

#include "agent/schedule/completions.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "agent/flush/publisher.h"
#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "aggregation/scan_tree.h"

namespace kedge {
namespace {

constexpr Duration kWordTimeout = std::chrono::seconds(5);

// A node that is none of the job's, as a staging agent, speaks to the first.
std::vector<std::string> NeighboursOf(const Job& job, const std::string& node) {
  const std::vector<JobNode>& nodes = job.members.nodes;
  const auto self = std::ranges::find(nodes, node, &JobNode::name);
  if (nodes.empty()) return {};
  if (self == nodes.end()) return {nodes.front().name};
  const auto place = aggregation::PlaceInTree(static_cast<uint32_t>(self - nodes.begin()), static_cast<uint32_t>(nodes.size()));
  std::vector<std::string> neighbours;
  for (const std::optional<uint32_t>& neighbour : {place.parent, place.left, place.right}) {
    if (neighbour) neighbours.push_back(nodes[*neighbour].name);
  }
  return neighbours;
}

}  // namespace

Completions::Completions(AgentCore& core, Peers& peers, Publisher& publisher)
    : core_(core), peers_(peers), publisher_(publisher) {
  peers.service().On(PeerKind::kCompleted, DecodeCompletedNotice, std::bind_front(&Completions::OnTold, this));
}

void Completions::OnComplete(const Generation& generation) const {
  if (const Job* job = core_.FindJobOf(generation)) Tell(*job, "", generation);
}

void Completions::OnTold(const Job& job, const net::Peer& from, const CompletedNotice& notice, const net::Answer& answer) const {
  answer(Buffer());
  Tell(job, from.node, notice.generation);
  publisher_.OnCompletedElsewhere(notice.generation);
}

void Completions::Tell(const Job& job, const std::string& from, const Generation& generation) const {
  if (!peers_.is_open()) return;
  for (const std::string& node : NeighboursOf(job, core_.settings().node)) {
    if (node != from)
      peers_.Call(job, node, PeerKind::kCompleted, Encode(CompletedNotice{generation}), kWordTimeout,
                  [](const Result<Buffer>&) {});
  }
}

}  // namespace kedge

#include "fmi/handles/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kedge::fmi {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

Group::Group(std::vector<uint32_t> ranks) : ranks_(std::move(ranks)) {
  if (ranks_.empty()) return;
  members_.assign(size_t{*std::max_element(ranks_.begin(), ranks_.end())} + 1, kNone);
  for (uint32_t member = 0; member < size(); ++member) members_[ranks_[member]] = member;
}

Group Group::OfAll(uint32_t ranks) {
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return Group(std::move(all));
}

Result<Group> Group::Checked(std::vector<uint32_t> ranks, uint32_t job_ranks) {
  std::vector<bool> seen(job_ranks);
  for (const uint32_t rank : ranks) {
    if (rank >= job_ranks || seen[rank])
      return Status(Code::kInvalidArgument, fmt::format("rank {} is none, or comes twice", rank));
    seen[rank] = true;
  }
  return Group(std::move(ranks));
}

std::optional<uint32_t> Group::Find(uint32_t rank) const {
  if (rank >= members_.size() || members_[rank] == kNone) return std::nullopt;
  return members_[rank];
}

Status Group::Check(const std::vector<int>& members) const {
  std::vector<bool> seen(size());
  for (const int member : members) {
    if (member < 0 || static_cast<uint32_t>(member) >= size()) {
      return Status(Code::kInvalidArgument, fmt::format("rank {} is asked for, and the group has {} ranks", member, size()));
    }
    if (seen[static_cast<size_t>(member)]) return Status(Code::kInvalidArgument, fmt::format("rank {} comes twice", member));
    seen[static_cast<size_t>(member)] = true;
  }
  return Status::Ok();
}

Result<Group> Group::Include(const std::vector<int>& members) const {
  KEDGE_RETURN_IF_ERROR(Check(members));
  std::vector<uint32_t> ranks;
  for (const int member : members) ranks.push_back(ranks_[static_cast<size_t>(member)]);
  return Group(std::move(ranks));
}

Result<Group> Group::Exclude(const std::vector<int>& members) const {
  KEDGE_RETURN_IF_ERROR(Check(members));
  std::vector<uint32_t> ranks;
  for (uint32_t member = 0; member < size(); ++member) {
    if (std::find(members.begin(), members.end(), static_cast<int>(member)) == members.end()) ranks.push_back(ranks_[member]);
  }
  return Group(std::move(ranks));
}

bool Group::HasSameRanks(const Group& other) const {
  return size() == other.size() && std::all_of(ranks_.begin(), ranks_.end(), [&](uint32_t rank) { return other.Find(rank); });
}

std::vector<uint32_t> Split(const std::vector<Wish>& wishes, uint32_t own) {
  std::vector<uint32_t> members;
  if (wishes[own].colour == Wish::kNowhere) return members;
  for (uint32_t member = 0; member < wishes.size(); ++member) {
    if (wishes[member].colour == wishes[own].colour) members.push_back(member);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t left, uint32_t right) { return wishes[left].key < wishes[right].key; });
  return members;
}

}  // namespace kedge::fmi

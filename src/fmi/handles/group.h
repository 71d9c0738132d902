// Some ranks of the job, in an order of their own: member i of a group is rank `group[i]` of the job.
//
// Ranks of the job are virtual, and groups never change: after a failure a group calls everybody as before, whichever process a
// rank is by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"

namespace kedge::fmi {

class Group {
 public:
  // Of nobody.
  Group() = default;
  // No rank twice.
  explicit Group(std::vector<uint32_t> ranks);
  static Group OfAll(uint32_t ranks);
  // kInvalidArgument where a rank is none of the job's, or comes twice.
  static Result<Group> Checked(std::vector<uint32_t> ranks, uint32_t job_ranks);

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t operator[](uint32_t member) const { return ranks_[member]; }
  const std::vector<uint32_t>& ranks() const { return ranks_; }
  // Which member a rank of the job is.
  std::optional<uint32_t> Find(uint32_t rank) const;

  // These members, in this order; or all but these. kInvalidArgument: there is no such member, or it comes twice.
  Result<Group> Include(const std::vector<int>& members) const;
  Result<Group> Exclude(const std::vector<int>& members) const;

  bool HasSameRanks(const Group& other) const;
  friend bool operator==(const Group& left, const Group& right) { return left.ranks_ == right.ranks_; }

 private:
  Status Check(const std::vector<int>& members) const;

  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> members_;  // by rank of the job; kNone: it is none
};

// Into which part of a communicator a member wants, and where there: MPI's colour and key.
struct Wish {
  static constexpr int32_t kNowhere = -1;
  int32_t colour = kNowhere;
  int32_t key = 0;
};

// The members in the part of `own`, by their keys, and by their numbers where those are equal. Nothing where it wants nowhere.
std::vector<uint32_t> Split(const std::vector<Wish>& wishes, uint32_t own);

}  // namespace kedge::fmi

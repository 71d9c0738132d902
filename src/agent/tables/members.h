// Which nodes of a job's attempt are asked for what one of them lacks.
#pragma once

#include <string>
#include <vector>

#include "agent/tables/job.h"

namespace kedge {

bool IsAmong(const std::vector<JobNode>& nodes, const std::string& name);

enum class Reach {
  kGroup,  // the nodes that protect each other with this one
  kJob,    // all nodes
};

// Of the attempt, without `self`. A node that is in no group has all of them within its reach.
std::vector<std::string> MembersWithin(const Job& job, const std::string& self, Reach reach);

}  // namespace kedge

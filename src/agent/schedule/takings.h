// Whether the ranks of a job take the same versions: checkpoint k of a name in an attempt (Generation::take) is one version on
// all ranks, or no version of them is ever complete.
//
// The images on this node are compared as they come. Where nodes know each other, each tells that of rank 0 the first that it has
// of every taking, and rank 0's node tells all of two that contradict each other. Whoever learns of two fails what it has of
// them, at once, and its ranks hear of it as of a flush that failed. What goes straight to the store shows there
// (store/versions.h). All on the event loop's thread.
#pragma once

#include <cstdint>

#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class Peers;

class Takings {
 public:
  Takings(AgentCore& core, Peers& peers);

  // An image of a rank of this node is whole. Acted upon a moment later.
  void OnTaken(const ImageIdentity& taking);
  // That a version is complete ends what was said of earlier ones.
  void OnChanged(const Generation& generation);

 private:
  // Another node says so of one of its own, or knows of it.
  void OnTold(Job& job, const ImageIdentity& taking);
  // `is_news`: of this version nothing was known.
  void Compare(Job& job, const ImageIdentity& taking, bool is_news);
  void Fail(Job& job, const Generation& generation, const Status& why);
  bool IsLeading(const Job& job) const;
  void Tell(const Job& job, const std::string& node, const ImageIdentity& taking, uint32_t tries = 1);

  AgentCore& core_;
  Peers& peers_;
};

}  // namespace kedge

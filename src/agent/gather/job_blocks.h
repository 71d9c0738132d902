// What this node has in common with other nodes of its job, so that one of them writes it for all (reduce.deduplicate = job).
//
// Of a version whose images have ended here, the blocks are looked at that the store does not have yet. The nodes agree on the
// most frequent ones along the tree (planner.h). Then this node writes those that are its to write, as an object of their own,
// before anything of the version; its images refer to that object and to the others' (reduce/common_blocks.h), and are published
// when these stand (flush/publisher.h). A node that dies or cannot write holds up the others for a while: then they write such
// blocks themselves. On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "agent/images/held_stream.h"
#include "agent/tables/job.h"
#include "reduce/popular_blocks.h"

namespace kedge {

class AgentCore;
class Flush;
class ImageTable;
class LocalRetention;

class JobBlocks {
 public:
  JobBlocks(AgentCore& core, Flush& flush, ImageTable& images, LocalRetention& retention)
      : core_(core), flush_(flush), images_(images), retention_(retention) {}

  // Whether the job's nodes look for common blocks: not where images go to the store by way of other nodes, or bytes are to be
  // compared.
  static bool AreWanted(const Job& job);
  // `done` later, with what these images have, as `member` of the nodes. Whatever goes wrong: with fewer blocks, or none.
  void Look(Version& version, const std::vector<uint32_t>& ranks, uint32_t member,
            std::function<void(reduce::PopularBlocks)> done);
  // The nodes have agreed. Where the version's images are written already, only this node's part of it is done, for the others.
  void OnAgreed(Version& version, const reduce::PopularBlocks& all, uint32_t member);
  // Lets go of what nobody has asked for in time.
  void Tick();

 private:
  struct Found;
  struct Source;
  // While their bytes are read they stay.
  std::vector<Source> TakeReaders(Version& version, const std::vector<uint32_t>& ranks, std::vector<uint64_t>* ids);
  void EndReaders(const Generation& generation, const std::vector<uint64_t>& ids);

  AgentCore& core_;
  Flush& flush_;
  ImageTable& images_;
  LocalRetention& retention_;
  struct LookedAt {
    int64_t since_ns = 0;
    std::shared_ptr<const Found> found;
  };
  std::map<Generation, LookedAt> looked_at_;
};

}  // namespace kedge

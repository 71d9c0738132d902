// JOB/NAME@VERSION: how every command takes what it is about. Parts may be left out where the store leaves no doubt. Pure.
//
// Names of jobs and checkpoints may hold any bytes, '/' and '@' among them: what a text means is found by what there is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/identity.h"

namespace kedge::tools {

struct TargetVersion {
  int64_t version = 0;
  uint32_t attempt = 0;  // 0: none was named
  uint32_t take = 0;     // the same

  bool Means(const Generation& generation) const;
  friend bool operator==(const TargetVersion&, const TargetVersion&) = default;
};

struct Target {
  std::string job;
  std::string name;                      // empty: the whole job
  std::optional<TargetVersion> version;  // nothing: the newest, or all of the name

  friend bool operator==(const Target&, const Target&) = default;
  std::string ToString() const;
};

// The checkpoint names of each job that may be meant.
using JobNames = std::map<std::string, std::vector<std::string>>;

// What a text may leave out.
enum class TargetForm {
  kName,     // JOB/ and @VERSION
  kAny,      // the same; or the name, for a whole job: of a job and its checkpoint of one name the job is meant
  kFromJob,  // /NAME and @VERSION; JOB/ only where a version is named
};

// All that it may mean, by job; none: nothing is called so. kInvalidArgument: what stands after the '@' is no version.
Result<std::vector<Target>> FindTargets(const std::string& text, const JobNames& jobs, TargetForm form);

}  // namespace kedge::tools

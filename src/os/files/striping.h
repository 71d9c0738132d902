// Over how many targets a parallel file system spreads a file, and in stripes of what size: Lustre's, by the extended attribute
// that it has for it (lustre.lov, a struct lov_user_md of lustre_user.h). Other file systems have none of that name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace kedge::os {

struct Striping {
  static constexpr uint32_t kAllTargets = 0xffff;
  uint64_t stripe_bytes = 0;  // 0: the file system's own
  uint32_t targets = 0;       // that a file lies on; kAllTargets: all there are; 0: the file system's own
  std::vector<uint32_t> on;   // of a file that is there: which, by their numbers
  friend bool operator==(const Striping&, const Striping&) = default;
};

// The attribute's bytes. A layout of several components tells of its last one, where the bytes of a large file go. kCorrupt: they
// are none.
Result<Striping> DecodeStriping(std::span<const std::byte> attribute);
// What a folder is told, so that files that are made there are striped so.
std::vector<std::byte> EncodeStriping(const Striping& striping);

// Of a file, or what files of a folder are to have. kUnsupported: the file system has none, or says none.
Result<Striping> ReadStriping(const std::string& path);
// Files that are made in the folder from here on are striped so. kUnsupported: the file system has no stripes.
Status SetStriping(const std::string& folder, const Striping& striping);

}  // namespace kedge::os

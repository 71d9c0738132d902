// What a node tells the other members of a set of its image: the table of its stream, its record, and, where ranks are to have
// blocks in common (reduce.deduplicate = job), the fingerprints of its blocks (redundancy/natural.h).
#pragma once

#include <cstdint>

#include "agent/images/held_stream.h"
#include "base/status.h"
#include "format/set_records.h"
#include "session/messages.h"

namespace kedge {

// The size of the blocks that a job's images are looked at for what other members have; 0: they are not.
uint32_t NaturalBlockBytes(const JobKeys& keys);

// `member` says whose image it is; the rest is filled in. Fingerprints are of blocks of `natural_block_bytes`, or more where an
// image is so long that there would be too many; 0: none. Reads the image once then. Blocking.
Result<SetMember> MakeMember(const HeldStream& stream, uint64_t record_offset, uint64_t record_bytes,
                             uint32_t natural_block_bytes, SetMember member);

}  // namespace kedge

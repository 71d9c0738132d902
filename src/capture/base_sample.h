// Whether memory is as an image has it where it is said not to have changed, by samples: what finds writes that nobody saw.
#pragma once

#include <cstdint>
#include <span>

#include "capture/image_capture.h"
#include "capture/image_sink.h"
#include "format/image_record.h"

namespace kedge {

// False: a page of the region that lies outside `changed` differs from the base's. Looks at a few, other ones for each `seed`.
// True where the base has not such a region.
bool AgreesWithBase(const ImageBase& base, const Region& region, const void* data, std::span<const ChangedRange> changed,
                    uint64_t seed);

}  // namespace kedge

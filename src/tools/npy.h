// The .npy format of NumPy, version 1.0: a header that names type, order and shape, then the bytes as they are.
#pragma once

#include <string>

#include "format/image_record.h"

namespace kedge::tools {

// The header of a file that holds the region's bytes: a multiple of 64 bytes. A region without a shape is a row of its
// elements; bfloat16, which NumPy lacks, is written as its bits (uint16).
std::string NpyHeader(const Region& region);

}  // namespace kedge::tools

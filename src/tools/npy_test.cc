#include "tools/npy.h"

#include <gtest/gtest.h>

namespace kedge::tools {
namespace {

TEST(Npy, HeaderNamesTypeOrderAndShapeAndIsAligned) {
  Region region;
  region.type = ElementType::kFloat64;
  region.element_bytes = 8;
  region.bytes = 8 * 6;
  region.shape = {2, 3};
  region.column_major = true;
  const std::string header = NpyHeader(region);
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(0, 6), "\x93NUMPY");
  EXPECT_EQ(static_cast<unsigned char>(header[8]) + 256u * static_cast<unsigned char>(header[9]) + 10, header.size());
  EXPECT_NE(header.find("{'descr': '<f8', 'fortran_order': True, 'shape': (2,3,), }"), std::string::npos);
  EXPECT_EQ(header.back(), '\n');
}

TEST(Npy, WhatIsOnlyBytesIsARowOfBytes) {
  Region region;
  region.type = ElementType::kFloat32;
  region.element_bytes = 24;
  region.bytes = 48;
  region.shape = {2};
  EXPECT_NE(NpyHeader(region).find("'|u1', 'fortran_order': False, 'shape': (48,)"), std::string::npos);
}

}  // namespace
}  // namespace kedge::tools

#include "tools/npy.h"

#include <fmt/format.h>

namespace kedge::tools {
namespace {

const char* Descriptor(ElementType type) {
  static constexpr const char* kDescriptors[] = {"|u1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2",  "<u4",
                                                 "<u8", "<f2", "<u2", "<f4", "<f8", "<c8", "<c16", "|b1"};
  return kDescriptors[static_cast<size_t>(type)];
}

// Bytes of one element as the descriptor says: its last characters are the number.
uint64_t DescriptorBytes(ElementType type) {
  return std::stoull(Descriptor(type) + 2);
}

}  // namespace

std::string NpyHeader(const Region& region) {
  // A declared type whose size is not the element's (a struct declared as one) is only bytes.
  const ElementType type = DescriptorBytes(region.type) == region.element_bytes ? region.type : ElementType::kBytes;
  std::string shape;
  if (region.shape.empty() || DescriptorBytes(type) != region.element_bytes) {
    shape = fmt::format("{},", region.bytes / DescriptorBytes(type));
  } else {
    for (const int64_t extent : region.shape) shape += fmt::format("{},", extent);
  }
  const bool fortran = region.column_major && region.shape.size() > 1;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", Descriptor(type), fortran ? "True" : "False", shape);
  constexpr size_t kPreambleBytes = 10;
  constexpr size_t kAlignment = 64;
  text.append(kAlignment - (kPreambleBytes + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace kedge::tools

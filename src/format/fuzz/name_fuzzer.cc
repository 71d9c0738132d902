// Any bytes as a component of a path, and as a name: what decodes is what encodes to it, and every encoding is one safe
// component that, unless it is hashed, decodes to the name again.
#include <algorithm>

#include "base/status.h"
#include "format/name_encoding.h"
#include "format/wire.h"

namespace kedge {
namespace {

bool IsSafeByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-+=@,%~").find(c) != std::string_view::npos;
}

void Check(std::string_view input) {
  if (const auto name = DecodeEncodedName(input)) KEDGE_CHECK(EncodeName(*name) == input);
  if (input.empty()) return;
  const std::string encoded = EncodeName(input);
  KEDGE_CHECK(!encoded.empty() && encoded.size() <= kEncodedNameBytesMax && encoded.front() != '.');
  KEDGE_CHECK(std::all_of(encoded.begin(), encoded.end(), IsSafeByte));
  const auto again = DecodeEncodedName(encoded);
  const bool hashed = encoded.find('~') != std::string::npos;
  KEDGE_CHECK(again.has_value() != hashed && (hashed || *again == input));
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  kedge::Check(kedge::AsText(std::as_bytes(std::span(data, bytes))));
  return 0;
}

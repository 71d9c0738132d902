// Names found in a store's folders: of generations, part records, attempts, temporaries. What parses is what would have
// been written, so that no folder has a second name.
#include "base/status.h"
#include "format/wire.h"
#include "store/keys.h"
#include "store/temporary_tag.h"

namespace kedge {
namespace {

void Check(std::string_view name) {
  Generation generation{StoreId{1, 2}, "job", "name", 1, 1, 1};
  if (keys::ParseGenerationFolder(name, &generation)) {
    KEDGE_CHECK(Validate(generation).ok());
    const std::string folder = keys::GenerationFolder(generation);
    KEDGE_CHECK(std::string_view(folder).substr(folder.rfind('/') + 1) == name);
  }
  if (const auto part = keys::ParsePartName(name)) KEDGE_CHECK(keys::PartName(part->first_rank, part->images) == name);
  if (const auto number = keys::ParseNumber(name)) KEDGE_CHECK(std::to_string(*number) == name);
  if (const auto folder = keys::GenerationOfObject(name)) KEDGE_CHECK(name.substr(0, folder->size()) == *folder);

  static_cast<void>(ParseTemporaryTag(name));
  const TemporaryOwner owner{std::string(name), 7, std::string(name.substr(name.size() / 2))};
  const std::string tag = MakeTemporaryTag(owner);
  KEDGE_CHECK(tag.size() <= kTemporaryTagBytesMax && tag.find_first_of("./") == std::string::npos);
  const auto parsed = ParseTemporaryTag(tag);
  KEDGE_CHECK(parsed.has_value() && parsed->attempt == 7 && MakeTemporaryTag(*parsed) == tag);
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  kedge::Check(kedge::AsText(std::as_bytes(std::span(data, bytes))));
  return 0;
}

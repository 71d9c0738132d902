#include "store/store.h"

#include <algorithm>

namespace kedge {

namespace {
constexpr size_t kComponentBytesMax = 255;
}  // namespace

Result<std::vector<StoreEntry>> ListIfThere(Store& store, const std::string& folder) {
  Result<std::vector<StoreEntry>> entries = store.List(folder);
  if (entries.status().code() == Code::kNotFound) return std::vector<StoreEntry>();
  return entries;
}

Result<std::unique_ptr<RecordDraft>> Store::Draft(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner,
                                                  Folders folders) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  return std::make_unique<RecordDraft>(key, bytes, owner, folders);
}

std::vector<Status> Store::PublishBeside(RecordDraft* /*draft*/, std::span<ObjectWriter* const> writers) {
  return Publish(writers);
}

Status Store::EnsureDurableBeside(RecordDraft* /*draft*/, std::span<const std::string> keys) {
  return EnsureDurable(keys);
}

Result<bool> Store::IsDrained(const std::string& /*key*/) {
  return true;
}

Status Store::ShowInPlace(RecordDraft& draft) {
  return Status(Code::kUnsupported, description() + '/' + draft.key() + ": nothing is shown in place here");
}

Status Store::Show(RecordDraft& draft) {
  return PutIfAbsent(draft.key(), draft.bytes(), draft.owner(), draft.folders());
}

Status ValidateKey(std::string_view key) {
  const auto bad = [key](const char* why) {
    return Status(Code::kInvalidArgument, "store key '" + std::string(key) + "': " + why);
  };
  if (key.find('\0') != std::string_view::npos) return bad("holds a NUL byte");
  for (size_t begin = 0;;) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view component = key.substr(begin, end - begin);
    if (component.empty()) return bad("has an empty component");
    if (component == "." || component == "..") return bad("has a component that names a folder above");
    if (component.size() > kComponentBytesMax) return bad("has a component of more than 255 bytes");
    if (end == key.size()) return Status::Ok();
    begin = end + 1;
  }
}

}  // namespace kedge

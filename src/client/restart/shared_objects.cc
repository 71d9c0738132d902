#include "client/restart/shared_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "store/sharing/image_object.h"

namespace kedge::client {
namespace {

constexpr Duration kSharingTimeout = std::chrono::seconds(30);

}  // namespace

class SharedObjects::Reader final : public ObjectReader {
 public:
  Reader(std::shared_ptr<SharedObjects> shared, Object& object, std::unique_ptr<ObjectReader> stored)
      : shared_(std::move(shared)), object_(object), stored_(std::move(stored)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      if (shared_->IsAlone(object_)) return stored_->ReadAt(offset, out);
      const uint64_t line = offset / kSharedLineBytes, within = offset % kSharedLineBytes;
      const auto here = out.first(std::min<uint64_t>(out.size(), kSharedLineBytes - within));
      if (!shared_->Take(object_, line, within, here)) {
        if (shared_->IsAlone(object_)) continue;
        KEDGE_RETURN_IF_ERROR(stored_->ReadJust(offset, here));
      }
      offset += here.size();
      out = out.subspan(here.size());
    }
    return Status::Ok();
  }
  uint64_t size_bytes() const override { return stored_->size_bytes(); }

 private:
  const std::shared_ptr<SharedObjects> shared_;
  Object& object_;
  const std::unique_ptr<ObjectReader> stored_;
};

std::map<std::string, SharedObjects::Object> SharedObjects::NeededOf(const StoredImage& image) {
  std::map<std::string, Object> objects;
  for (const ObjectRange& range : RangesOf(image)) {
    auto& needed = objects[range.key].needed;
    const uint64_t end = range.offset + range.bytes;
    needed.resize(std::max<uint64_t>(needed.size(), (end + kSharedLineBytes - 1) / kSharedLineBytes));
    for (uint64_t grain = range.offset / kGrainBytes; grain * kGrainBytes < end; ++grain) {
      needed[grain / kGrains].set(grain % kGrains);
    }
  }
  std::erase_if(objects, [](const auto& object) { return !IsWorthIt(object.second); });
  uint32_t number = 0;
  for (auto& [key, object] : objects) object.number = number++;
  return objects;
}

// Lines are read whole: of those with something in them, half must be needed.
bool SharedObjects::IsWorthIt(const Object& object) {
  uint64_t grains = 0, lines = 0;
  for (const auto& line : object.needed) {
    grains += line.count();
    lines += line.any() ? 1 : 0;
  }
  // The object may end in its last line.
  return grains > 0 && 2 * grains >= (lines - 1) * kGrains;
}

std::shared_ptr<SharedObjects> SharedObjects::Make(Core* core, AgentSession* session, const StoredImage& image) {
  const bool may_share = image.map && image.map->has_fingerprints && core->ranks_on_node > 1 && session->current() != nullptr;
  Store& store = core->catalog->store();
  if (!may_share || !store.is_far()) return nullptr;
  std::shared_ptr<SharedObjects> shared(new SharedObjects(store, NeededOf(image)));
  if (shared->objects_.empty()) return nullptr;
  ShareObjectsRequest request;
  for (const auto& [key, object] : shared->objects_) {
    WantedObject& wanted = request.objects.emplace_back(WantedObject{key, {}});
    for (uint64_t line = 0; line < object.needed.size(); ++line) {
      if (object.needed[line].none()) continue;
      const bool goes_on = !wanted.lines.empty() && wanted.lines.back().first + wanted.lines.back().lines == line;
      if (!goes_on) wanted.lines.push_back({line, 0});
      ++wanted.lines.back().lines;
    }
  }
  const auto reply = session->AskAgent([&](const auto& agent) {
    shared->connection_ = agent;
    return agent->template Call<ShareObjectsReply>(request, kSharingTimeout);
  });
  if (reply.ok()) {
    shared->image_ = reply->image;
    return shared;
  }
  LogWarning("client", "rank {}: what other ranks read, too, is read by each: {}", core->rank(), reply.status().message());
  shared->connection_ = nullptr;
  return nullptr;
}

SharedObjects::~SharedObjects() {
  // Should it get lost, it ends with the session.
  if (connection_) (void)connection_->Call<DoneReply>(CloseImageRequest{image_}, kSharingTimeout);
}

Result<std::unique_ptr<ObjectReader>> SharedObjects::Open(const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<ObjectReader> stored, store_.OpenObject(key));
  const auto found = objects_.find(key);  // the map itself stays as it is
  if (found == objects_.end()) return stored;
  return std::unique_ptr<ObjectReader>(std::make_unique<Reader>(shared_from_this(), found->second, std::move(stored)));
}

bool SharedObjects::IsAlone(const Object& object) {
  const std::lock_guard lock(mutex_);
  return object.is_alone || has_no_agent_;
}

SharedObjects::Held* SharedObjects::Find(const Object& object, uint64_t line) {
  const auto found = std::ranges::find_if(held_, [&](const Held& held) { return held.object == &object && held.line == line; });
  return found == held_.end() ? nullptr : &*found;
}

SharedObjects::Held* SharedObjects::Ask(Object& object, uint64_t line) {
  if (object.needed[line].none()) return nullptr;
  const auto reply = connection_->ReadLine({image_, {}, {{object.number, line}}}, &memory_, kSharingTimeout);
  if (!reply.ok()) {
    LogWarning("client", "what other ranks read, too, is read by each from here on: {}", reply.status().message());
    has_no_agent_ = true;
    return nullptr;
  }
  if (!reply->is_here) {
    object.is_alone = reply->is_alone;
    object.needed[line].reset();
    return nullptr;
  }
  Held& held = held_[reply->place];
  held = {&object, line, reply->sequence, reply->bytes};
  return &held;
}

void SharedObjects::NoteTaken(Object& object, uint64_t line, uint64_t begin, uint64_t end) {
  auto& needed = object.needed[line];
  if (needed.none()) return;
  for (uint64_t grain = begin / kGrainBytes; grain * kGrainBytes < end; ++grain) needed.reset(grain);
  if (needed.any()) return;
  const auto told = connection_->ReadLine({image_, {{object.number, line}}, {}}, &memory_, kSharingTimeout);
  if (!told.ok()) has_no_agent_ = true;
}

bool SharedObjects::Take(Object& object, uint64_t line, uint64_t within, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  if (object.is_alone || has_no_agent_ || line >= object.needed.size()) return false;
  constexpr int kTriesMax = 3;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    Held* held = Find(object, line);
    if (held == nullptr) held = Ask(object, line);
    if (held == nullptr || within + out.size() > held->bytes) return false;
    const auto place = static_cast<uint32_t>(held - held_.data());
    if (CopySharedLine(memory_.data(), place, held->sequence, within, out)) {
      NoteTaken(object, line, within, within + out.size());
      return true;
    }
    *held = Held{};
  }
  return false;
}

}  // namespace kedge::client

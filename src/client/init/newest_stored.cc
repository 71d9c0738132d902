// See newest_stored.h.
#include "client/init/newest_stored.h"

#include <chrono>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "format/wire.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

constexpr size_t kNamesMax = 4096;  // of which each is at most kNameBytesMax long
constexpr Duration kLookMax = std::chrono::seconds(5);

using NewestByName = std::map<std::string, int64_t>;

Result<NewestByName> Look(const Core& core) {
  NewestByName newest;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, core.catalog->Names(core.job.job, nullptr));
  const Deadline deadline(SystemClock(), kLookMax);
  for (const std::string& name : names) {
    if (newest.size() == kNamesMax || deadline.Passed()) {
      LogWarning("client",
                 "job '{}' has {} checkpoint names, of which {} were looked at: a version of another is not refused "
                 "for being there already",
                 core.job.job, names.size(), newest.size());
      break;
    }
    const auto found = NewestAtOrBelow(*core.catalog, core.job.job, name, -1);
    if (found.ok()) newest[name] = found->generation.version;
    if (!found.ok() && found.status().code() != Code::kNotFound) return found.status();
  }
  return newest;
}

std::string Encode(const NewestByName& newest) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.Varint(newest.size());
  for (const auto& [name, version] : newest) {
    encoder.String(name);
    encoder.SignedVarint(version);
  }
  encoder.Finish();
  return std::string(AsText(buffer));
}

Result<NewestByName> Decode(const std::string& text) {
  Decoder decoder(AsBytes(text));
  NewestByName newest;
  for (size_t left = decoder.Count(2); left > 0 && decoder.ok(); --left) {
    std::string name(decoder.String(kNameBytesMax));
    newest[std::move(name)] = decoder.SignedVarint();
  }
  KEDGE_RETURN_IF_ERROR(decoder.Finish("rank 0's list of versions"));
  return newest;
}

}  // namespace

Result<NewestByName> GatherNewestStored(const Core& core) {
  NewestByName mine;
  if (core.rank() == 0 && !core.attempt_unrecorded.load()) {
    auto found = Look(core);
    if (found.ok()) mine = std::move(*found);
    if (!found.ok()) {
      LogWarning("client", "job '{}': a version that the store has already is not refused, since it cannot be looked into: {}",
                 core.job.job, found.status().message());
    }
  }
  KEDGE_ASSIGN_OR_RETURN(const std::string told, core.collective.BroadcastFromFirst(Encode(mine)));
  return Decode(told);
}

}  // namespace kedge::client

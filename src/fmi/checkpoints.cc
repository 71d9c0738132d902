#include "fmi/checkpoints.h"

#include <chrono>
#include <cstddef>
#include <cstring>

#include "base/clock.h"
#include "base/duration.h"
#include "net/authentication.h"

namespace kedge::fmi {
namespace {

constexpr char kName[] = "fmi";
// The program's arrays have the numbers from 0 on.
constexpr int kObjectsId = -1;
constexpr char kIdentity[] = "fmi.step";
constexpr int64_t kNumbers = Checkpoints::kInnerNumberMax + 1;

// An identity begins with the second in which it was made.
int64_t FirstVersionFor(uint64_t identity) {
  return static_cast<int64_t>(identity >> 32) * kNumbers;
}

std::string NameOf(const std::string& loop) {
  return std::string(kName) + "." + loop;
}

Status FromKedge(int code) {
  return code == KEDGE_OK ? Status::Ok() : Status(static_cast<Code>(code), kedge_error_message());
}

Collectives& Of(void* user) {
  return *static_cast<Collectives*>(user);
}

int Allgather(void* user, const void* sent, void* received, size_t bytes) {
  return Of(user).Allgather(sent, received, bytes).ok() ? 0 : 1;
}

int Broadcast(void* user, void* data, size_t bytes, int root) {
  return Of(user).Broadcast(data, bytes, static_cast<uint32_t>(root)).ok() ? 0 : 1;
}

int Barrier(void* user) {
  return Of(user).Barrier().ok() ? 0 : 1;
}

int BytesOfObjects(void* encoded, size_t* bytes) {
  *bytes = static_cast<Buffer*>(encoded)->size();
  return 0;
}

int WriteObjects(void* encoded, kedge_writer* writer) {
  const Buffer& bytes = *static_cast<Buffer*>(encoded);
  return kedge_write(writer, bytes.data(), bytes.size()) == KEDGE_OK ? 0 : 1;
}

int ReadObjects(void* encoded, kedge_reader* reader, size_t bytes) {
  Buffer& read = *static_cast<Buffer*>(encoded);
  read.resize(bytes);
  return kedge_read(reader, read.data(), bytes) == KEDGE_OK ? 0 : 1;
}

}  // namespace

Status Checkpoints::Open() {
  kedge_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.user = &collectives_;
  bootstrap.rank = static_cast<int>(collectives_.rank());
  bootstrap.ranks = static_cast<int>(collectives_.ranks());
  bootstrap.allgather = Allgather;
  bootstrap.broadcast = Broadcast;
  bootstrap.barrier = Barrier;
  return FromKedge(kedge_init(nullptr, &bootstrap, &context_));
}

void Checkpoints::Close() {
  if (context_ != nullptr) kedge_finalize(context_, /*drain=*/0);
  context_ = nullptr;
}

Status Checkpoints::Protect(const Arrays& arrays) {
  KEDGE_RETURN_IF_ERROR(FromKedge(kedge_clear(context_)));
  for (int i = 0; i < arrays.count; ++i) {
    KEDGE_RETURN_IF_ERROR(
        FromKedge(kedge_protect(context_, i, arrays.begins[i], static_cast<size_t>(arrays.bytes[i]), 1, nullptr)));
  }
  kedge_object object{};
  object.struct_size = sizeof object;
  object.user = &encoded_;
  object.size = BytesOfObjects;
  object.serialize = WriteObjects;
  object.deserialize = ReadObjects;
  return FromKedge(kedge_protect_object(context_, kObjectsId, "fmi.handles", &object));
}

Result<std::optional<int64_t>> Checkpoints::Restore(const Arrays& arrays) {
  KEDGE_RETURN_IF_ERROR(Protect(arrays));
  int64_t version = 0;
  const Status status = FromKedge(kedge_restart(context_, kName, -1, &version));
  if (status.code() == Code::kNotFound) return std::optional<int64_t>();
  if (!status.ok()) return status;
  KEDGE_RETURN_IF_ERROR(objects_.Restore(encoded_));
  return std::optional<int64_t>(version);
}

Status Checkpoints::TakeAs(const std::string& name, const Arrays& arrays, int64_t version, unsigned flags, uint64_t identity) {
  encoded_ = objects_.Encode();
  KEDGE_RETURN_IF_ERROR(Protect(arrays));
  KEDGE_RETURN_IF_ERROR(FromKedge(kedge_checkpoint_begin(context_, name.c_str(), version, flags)));
  Status taken = FromKedge(kedge_annotate(context_, kIdentity, &identity, sizeof identity));
  if (taken.ok()) taken = FromKedge(kedge_checkpoint_part(context_, KEDGE_ALL, nullptr, 0));
  const Status ended = FromKedge(kedge_checkpoint_end(context_, taken.ok() ? 1 : 0));
  return taken.ok() ? ended : taken;
}

Status Checkpoints::Take(const Arrays& arrays, int64_t step, uint64_t identity) {
  return TakeAs(kName, arrays, step, 0, identity);
}

Status Checkpoints::TakeInner(const std::string& loop, const Arrays& arrays, int64_t number, uint64_t identity) {
  KEDGE_CHECK(number <= kInnerNumberMax);
  // A step that has begun in the same second may have got further.
  return TakeAs(NameOf(loop), arrays, FirstVersionFor(identity) + number, KEDGE_OVERWRITE, identity);
}

uint64_t Checkpoints::NewIdentity() {
  const net::Nonce random = net::GenerateNonce();
  uint32_t low = 0;
  std::memcpy(&low, random.data(), sizeof low);
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(Duration(WallTimeNs())).count()) << 32 | low | 1;
}

Result<uint64_t> Checkpoints::Identity() const {
  uint64_t identity = 0;
  size_t bytes = 0;
  const Status found = FromKedge(kedge_annotation(context_, kIdentity, &identity, sizeof identity, &bytes));
  if (found.code() == Code::kNotFound) return uint64_t{0};
  KEDGE_RETURN_IF_ERROR(found);
  return identity;
}

Result<uint64_t> Checkpoints::IdentityOf(int64_t step) {
  KEDGE_RETURN_IF_ERROR(FromKedge(kedge_load_begin(context_, kName, step)));
  auto identity = Identity();
  KEDGE_RETURN_IF_ERROR(FromKedge(kedge_restart_end(context_, identity.ok() ? 1 : 0)));
  return identity;
}

Result<std::optional<int64_t>> Checkpoints::RestoreInner(const std::string& loop, const Arrays& arrays, uint64_t identity) {
  const std::string name = NameOf(loop);
  const int64_t first = FirstVersionFor(identity);
  for (int64_t most = first + kNumbers - 1;;) {
    int64_t version = 0;
    const Status newest = FromKedge(kedge_newest(context_, name.c_str(), most, &version));
    if (newest.code() == Code::kNotFound || newest.code() == Code::kLost) return std::optional<int64_t>();
    KEDGE_RETURN_IF_ERROR(newest);
    if (version < first) return std::optional<int64_t>();
    KEDGE_RETURN_IF_ERROR(Protect(arrays));
    KEDGE_RETURN_IF_ERROR(FromKedge(kedge_restart_begin(context_, name.c_str(), version)));
    const auto its = Identity();
    if (its.ok() && *its == identity) {
      const Status restored = FromKedge(kedge_restart_part(context_, KEDGE_ALL, nullptr, 0));
      const Status ended = FromKedge(kedge_restart_end(context_, restored.ok() ? 1 : 0));
      KEDGE_RETURN_IF_ERROR(restored);
      KEDGE_RETURN_IF_ERROR(ended);
      KEDGE_RETURN_IF_ERROR(objects_.Restore(encoded_));
      return std::optional<int64_t>(version - first);
    }
    // Of another course of the job, in the same second. So it is on all ranks.
    (void)kedge_restart_end(context_, /*success=*/0);
    KEDGE_RETURN_IF_ERROR(its.status());
    most = version - 1;
  }
}

Result<bool> Checkpoints::IsDue() {
  int is_due = 0;
  KEDGE_RETURN_IF_ERROR(FromKedge(kedge_checkpoint_due(context_, &is_due)));
  return is_due != 0;
}

}  // namespace kedge::fmi

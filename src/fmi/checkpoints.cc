#include "fmi/checkpoints.h"

#include <cstddef>

namespace kedge::fmi {
namespace {

constexpr char kName[] = "fmi";
// The program's arrays have the numbers from 0 on.
constexpr int kObjectsId = -1;

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

Status Checkpoints::Take(const Arrays& arrays, int64_t step) {
  encoded_ = objects_.Encode();
  KEDGE_RETURN_IF_ERROR(Protect(arrays));
  return FromKedge(kedge_checkpoint(context_, kName, step, 0));
}

Result<bool> Checkpoints::IsDue() {
  int is_due = 0;
  KEDGE_RETURN_IF_ERROR(FromKedge(kedge_checkpoint_due(context_, &is_due)));
  return is_due != 0;
}

}  // namespace kedge::fmi

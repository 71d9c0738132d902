#include "store/places/probe.h"

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"

namespace kedge {

namespace {

constexpr int kRecords = 5;
constexpr uint64_t kRecordBytesMax = 64;

double SecondsSince(int64_t begin_ns) {
  return ToSeconds(Duration(SystemClock().NowNs() - begin_ns));
}

// Of two that create a record the second is told so; a sign of life changes the stamp.
Status ProbeRecords(Store& store, const std::string& key, const TemporaryOwner& owner) {
  const ByteSpan text = AsBytes("kedge");
  KEDGE_RETURN_IF_ERROR(store.PutIfAbsent(key, text, owner, Folders::kCreate));
  const Status again = store.PutIfAbsent(key, AsBytes("other"), owner, Folders::kMustExist);
  if (again.code() != Code::kAlreadyExists) {
    return again.ok() ? Status(Code::kUnsupported, store.description() + ": a record that is there is created once more") : again;
  }
  KEDGE_ASSIGN_OR_RETURN(const Buffer read, store.Get(key, kRecordBytesMax));
  if (AsText(read) != AsText(text))
    return Status(Code::kCorrupt, store.description() + ": a record reads otherwise than written");
  KEDGE_ASSIGN_OR_RETURN(const int64_t before, store.Stamp(key));
  KEDGE_RETURN_IF_ERROR(store.Touch(key, owner));
  KEDGE_ASSIGN_OR_RETURN(const int64_t after, store.Stamp(key));
  if (before == after) return Status(Code::kUnsupported, store.description() + ": a record that was touched does not show it");
  return store.AgeSeconds(key, owner).status();
}

Result<double> MeasureRecords(Store& store, const std::string& key, const TemporaryOwner& owner) {
  std::vector<double> seconds;
  for (int i = 0; i < kRecords; ++i) {
    const int64_t begin_ns = SystemClock().NowNs();
    KEDGE_RETURN_IF_ERROR(store.Replace(key, AsBytes("kedge"), owner, Folders::kCreate));
    seconds.push_back(SecondsSince(begin_ns));
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

Status MeasureObject(Store& store, const std::string& key, const TemporaryOwner& owner, uint64_t bytes, StoreProbe* probe) {
  Buffer content(bytes), read(bytes);
  Random(1).Fill(content.data(), content.size());
  int64_t begin_ns = SystemClock().NowNs();
  KEDGE_ASSIGN_OR_RETURN(const auto writer, store.CreateObject(key, owner, bytes));
  KEDGE_RETURN_IF_ERROR(writer->WriteAt(0, content));
  KEDGE_RETURN_IF_ERROR(writer->Commit());
  probe->write_bytes_per_second = static_cast<double>(bytes) / SecondsSince(begin_ns);
  begin_ns = SystemClock().NowNs();
  KEDGE_ASSIGN_OR_RETURN(const auto reader, store.OpenObject(key));
  KEDGE_RETURN_IF_ERROR(reader->ReadAt(0, read));
  probe->read_bytes_per_second = static_cast<double>(bytes) / SecondsSince(begin_ns);
  return content == read ? Status::Ok()
                         : Status(Code::kCorrupt, store.description() + ": an object reads otherwise than written");
}

// An object of which something has got to the store, and that is given up: as little as a part of an upload is enough.
Status ProbeGivingUp(Store& store, const std::string& folder, const TemporaryOwner& owner) {
  KEDGE_ASSIGN_OR_RETURN(const auto writer, store.CreateObject(folder + "/given-up", owner, 0));
  KEDGE_ASSIGN_OR_RETURN(const auto part, store.JoinObject(writer->handle()));
  KEDGE_RETURN_IF_ERROR(part->WriteAt(0, AsBytes("kedge")));
  KEDGE_RETURN_IF_ERROR(
      part->Finish().WithContext(store.description() + ": a part that another process contributes to an object does not arrive"));
  const std::string what = store.description() + ": an object that is given up halfway does not go away";
  KEDGE_RETURN_IF_ERROR(writer->Abandon().WithContext(what));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Temporary> left, store.ListTemporaries(folder, owner));
  return left.empty() ? Status::Ok() : Status(Code::kUnsupported, what);
}

}  // namespace

Result<StoreProbe> ProbeStore(Store& store, const TemporaryOwner& owner, uint64_t object_bytes) {
  const std::string folder = "probe-" + Id128::Generate().ToHex();
  StoreProbe probe;
  const auto run = [&]() -> Status {
    KEDGE_RETURN_IF_ERROR(ProbeRecords(store, folder + "/record", owner));
    KEDGE_ASSIGN_OR_RETURN(probe.record_seconds, MeasureRecords(store, folder + "/record", owner));
    KEDGE_RETURN_IF_ERROR(MeasureObject(store, folder + "/object", owner, object_bytes, &probe));
    KEDGE_RETURN_IF_ERROR(store.List(folder).status());
    return ProbeGivingUp(store, folder, owner);
  };
  const Status ran = run();
  // Where an upload stays, the rest goes all the same.
  for (const char* const name : {"/record", "/object"}) static_cast<void>(store.Remove(folder + name));
  const Status removed = store.RemoveFolder(folder, {}, owner);
  KEDGE_RETURN_IF_ERROR(ran);
  KEDGE_RETURN_IF_ERROR(removed);
  return probe;
}

}  // namespace kedge

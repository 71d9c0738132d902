#include "agent/flush/publication.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "os/process/kill_point.h"
#include "store/keys.h"

namespace kedge {
namespace {

// That objects of blocks that other nodes write stand, which an image refers to: those not among `stand` yet, where they are
// noted. kIncomplete: they do not.
Status CheckCommon(StoreContext& store, const Generation& generation, const std::set<std::string>& references,
                   std::set<std::string>* stand) {
  std::vector<std::string> common;
  for (const std::string& reference : references) {
    std::string key = keys::JobFolder(generation.job) + '/' + reference;
    if (keys::IsCommonObject(reference) && !stand->contains(key)) common.push_back(std::move(key));
  }
  if (common.empty()) return Status::Ok();
  const Status durable = store.store().EnsureDurable(common);
  if (durable.code() == Code::kNotFound) {
    return Status(Code::kIncomplete, "blocks that another node was to write are not in the store: " + durable.message());
  }
  if (durable.ok()) stand->insert(common.begin(), common.end());
  return durable;
}

// As it was checked when it came.
Result<Buffer> RecordOf(const WrittenImage& image) {
  if (const auto* const record = std::get_if<Buffer>(&image.record)) return *record;
  const auto& source = std::get<PieceSource>(image.record);
  Buffer bytes(source.bytes);
  KEDGE_RETURN_IF_ERROR(source.Read(bytes.data()));
  return bytes;
}

Status WriteRecord(WrittenImage& image, const reduce::Lenders& lenders, std::set<std::string>* references, LeansOn* leans_on) {
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, RecordOf(image));
  if (crc32c::Compute(bytes.data(), bytes.size()) != image.entry.record_crc32c) {
    return Status(Code::kCorrupt, "the image record has changed in its slot since it was captured");
  }
  return image.object->WriteRecords(bytes, lenders, &image.entry, references, leans_on);
}

reduce::Lenders LendersOf(const std::vector<WrittenImage>& written) {
  reduce::Lenders lenders;
  std::map<std::string, uint64_t> object_bytes;
  for (const WrittenImage& image : written) {
    auto lender = image.object == nullptr ? std::nullopt : image.object->AsLender();
    if (!lender) continue;
    object_bytes[lender->object] += lender->object_bytes;
    lenders.emplace(image.entry.rank, *std::move(lender));
  }
  for (auto& [rank, lender] : lenders) lender.object_bytes = object_bytes[lender.object];
  return lenders;
}

Result<ObjectUnderWay*> ObjectOf(const WrittenImage& image) {
  if (image.shared != nullptr) return image.shared.get();
  return image.object->Object();
}

}  // namespace

FinishedShare FinishShare(std::vector<WrittenImage> written, const Clock& clock) {
  FinishedShare share;
  const int64_t begin_ns = clock.NowNs();
  ObjectUnderWay* borrowed = nullptr;
  for (WrittenImage& image : written) {
    const Result<ObjectUnderWay*> object = image.object->Object();
    share.images.push_back(object.status());
    if (!object.ok()) continue;
    borrowed = *object;
    borrowed->Close();
    std::set<std::string> references;
    LeansOn leans_on;
    share.images.back() = WriteRecord(image, {}, &references, &leans_on);
    KEDGE_CHECK(references.empty() && leans_on.empty());  // what is reduced lies in no share
  }
  const Status finished = borrowed == nullptr ? Status::Ok() : borrowed->FinishShare();
  for (size_t i = 0; i < written.size(); ++i) {
    if (share.images[i].ok()) share.images[i] = finished;
    share.entries.push_back(share.images[i].ok() ? written[i].entry : ImageEntry());
  }
  share.syncing = Duration(clock.NowNs() - begin_ns);
  return share;
}

Publication Publish(StoreContext& store, const Generation& generation, uint32_t ranks, std::vector<WrittenImage> written,
                    const Clock& clock) {
  Publication outcome;
  PartRecord part{generation, ranks, {}, {}};
  std::vector<ObjectWriter*> writers;
  std::vector<size_t> members;
  std::set<std::string> references;
  std::vector<LeansOn> leans_on;
  std::set<ObjectUnderWay*> objects;
  std::set<std::string> stand;  // of other nodes' blocks
  for (const WrittenImage& image : written) {
    const Result<ObjectUnderWay*> object = ObjectOf(image);
    outcome.images.push_back(object.status());
    if (object.ok()) (*object)->Close();
  }
  const reduce::Lenders lenders = LendersOf(written);
  for (size_t i = 0; i < written.size(); ++i) {
    LeansOn others;
    std::set<std::string> refers_to;
    const bool has_record = written[i].shared != nullptr;
    if (outcome.images[i].ok() && !has_record) outcome.images[i] = WriteRecord(written[i], lenders, &refers_to, &others);
    if (outcome.images[i].ok()) outcome.images[i] = CheckCommon(store, generation, refers_to, &stand);
    if (!outcome.images[i].ok()) continue;
    references.merge(refers_to);
    ObjectUnderWay* const object = *ObjectOf(written[i]);
    objects.insert(object);
    writers.push_back(object->writer());
    part.images.push_back(written[i].entry);
    leans_on.push_back(std::move(others));
    members.push_back(i);
  }
  for (ObjectUnderWay* const object : objects) (void)object->FinishShare();
  part.references.assign(references.begin(), references.end());
  os::KillPoint("publish-records-written");
  if (writers.empty()) return outcome;
  auto catalog = store.CatalogFor(generation.attempt);
  if (!catalog.ok()) {
    for (const size_t member : members) outcome.images[member] = catalog.status();
    return outcome;
  }
  const int64_t begin_ns = clock.NowNs();
  PublishOutcome published = PublishImages(*catalog, writers, part, leans_on);
  outcome.syncing = Duration(clock.NowNs() - begin_ns);
  os::KillPoint("publish-done");
  for (size_t i = 0; i < members.size(); ++i) {
    outcome.images[members[i]] = published.images[i];
    if (published.images[i].ok()) (*ObjectOf(written[members[i]]))->MarkPublished();
  }
  outcome.commit = std::move(published.commit);
  outcome.part = std::move(published.published);
  outcome.finish = published.finish;
  return outcome;
}

}  // namespace kedge

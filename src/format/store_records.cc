#include "format/store_records.h"

#include "format/envelope.h"
#include "format/image_record.h"

namespace kedge {

namespace {

constexpr size_t kImageEntryBytesMin = 9;
constexpr size_t kPartEntryBytesMin = 5;

std::string DecodeText(Decoder& decoder, size_t bytes_max) { return std::string(decoder.String(bytes_max)); }

uint32_t DecodeRanks(Decoder& decoder) {
  const uint64_t ranks = decoder.VarintAtMost(kRanksMax);
  decoder.Require(ranks >= 1, "the number of ranks is zero");
  return static_cast<uint32_t>(ranks);
}

uint32_t DecodeAttempt(Decoder& decoder) {
  const uint32_t attempt = decoder.Varint32();
  decoder.Require(attempt >= 1, "the attempt is zero");
  return attempt;
}

ImageEntry DecodeImageEntry(Decoder& decoder) {
  ImageEntry entry;
  entry.rank = decoder.Varint32();
  entry.object = DecodeText(decoder, kObjectKeyBytesMax);
  decoder.Require(!entry.object.empty(), "an object key is empty");
  entry.record_offset = decoder.VarintAtMost(INT64_MAX);
  entry.record_bytes = decoder.VarintAtMost(kRecordBytesMax);
  entry.record_crc32c = decoder.U32();
  entry.image_bytes = decoder.Varint();
  return entry;
}

// Opens the envelope, lets `fields` read the payload, and checks that nothing is left.
template <typename T, typename Fields>
Result<T> Decode(ByteSpan bytes, RecordKind kind, Fields fields) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, kind));
  Decoder decoder(record.payload);
  T value;
  fields(decoder, record.store_id, &value);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(kind)));
  return value;
}

}  // namespace

void Encode(const StoreRecord& store, Buffer* out) {
  RecordEncoder record(RecordKind::kStore, store.id, out);
  record.encoder().I64(store.wall_time_ns);
  record.encoder().String(store.host);
  record.Finish();
}

Result<StoreRecord> DecodeStoreRecord(ByteSpan bytes) {
  return Decode<StoreRecord>(bytes, RecordKind::kStore, [](Decoder& decoder, const StoreId& id, StoreRecord* store) {
    store->id = id;
    store->wall_time_ns = decoder.I64();
    store->host = DecodeText(decoder, kHostBytesMax);
    decoder.Require(!id.IsZero(), "the store id is zero");
  });
}

void Encode(const JobRecord& job, Buffer* out) {
  RecordEncoder record(RecordKind::kJob, job.store_id, out);
  record.encoder().String(job.job);
  record.encoder().I64(job.wall_time_ns);
  record.Finish();
}

Result<JobRecord> DecodeJobRecord(ByteSpan bytes) {
  return Decode<JobRecord>(bytes, RecordKind::kJob, [](Decoder& decoder, const StoreId& id, JobRecord* job) {
    job->store_id = id;
    job->job = DecodeName(decoder);
    job->wall_time_ns = decoder.I64();
  });
}

void Encode(const NameRecord& name, Buffer* out) {
  RecordEncoder record(RecordKind::kName, name.store_id, out);
  record.encoder().String(name.job);
  record.encoder().String(name.name);
  record.encoder().I64(name.wall_time_ns);
  record.Finish();
}

Result<NameRecord> DecodeNameRecord(ByteSpan bytes) {
  return Decode<NameRecord>(bytes, RecordKind::kName, [](Decoder& decoder, const StoreId& id, NameRecord* name) {
    name->store_id = id;
    name->job = DecodeName(decoder);
    name->name = DecodeName(decoder);
    name->wall_time_ns = decoder.I64();
  });
}

void Encode(const AttemptRecord& attempt, Buffer* out) {
  RecordEncoder record(RecordKind::kAttempt, attempt.store_id, out);
  Encoder& encoder = record.encoder();
  encoder.String(attempt.job);
  encoder.Varint(attempt.attempt);
  encoder.String(attempt.host);
  encoder.String(attempt.boot_id);
  encoder.SignedVarint(attempt.pid);
  encoder.Varint(attempt.process_start_time);
  encoder.F64(attempt.lease_seconds);
  encoder.I64(attempt.wall_time_ns);
  encoder.Varint(attempt.ranks);
  record.Finish();
}

Result<AttemptRecord> DecodeAttemptRecord(ByteSpan bytes) {
  return Decode<AttemptRecord>(
      bytes, RecordKind::kAttempt, [](Decoder& decoder, const StoreId& id, AttemptRecord* attempt) {
        attempt->store_id = id;
        attempt->job = DecodeName(decoder);
        attempt->attempt = DecodeAttempt(decoder);
        attempt->host = DecodeText(decoder, kHostBytesMax);
        attempt->boot_id = DecodeText(decoder, kBootIdBytesMax);
        attempt->pid = decoder.SignedVarint();
        attempt->process_start_time = decoder.Varint();
        attempt->lease_seconds = decoder.F64();
        attempt->wall_time_ns = decoder.I64();
        attempt->ranks = DecodeRanks(decoder);
        // Written so that NaN fails too.
        decoder.Require(attempt->lease_seconds > 0 && attempt->lease_seconds < 1e9, "the lease is out of range");
      });
}

void Encode(const AttemptEndRecord& end, Buffer* out) {
  RecordEncoder record(RecordKind::kAttemptEnd, end.store_id, out);
  record.encoder().String(end.job);
  record.encoder().Varint(end.attempt);
  record.encoder().I64(end.wall_time_ns);
  record.Finish();
}

Result<AttemptEndRecord> DecodeAttemptEndRecord(ByteSpan bytes) {
  return Decode<AttemptEndRecord>(bytes, RecordKind::kAttemptEnd,
                                  [](Decoder& decoder, const StoreId& id, AttemptEndRecord* end) {
                                    end->store_id = id;
                                    end->job = DecodeName(decoder);
                                    end->attempt = DecodeAttempt(decoder);
                                    end->wall_time_ns = decoder.I64();
                                  });
}

void Encode(const PartRecord& part, Buffer* out) {
  RecordEncoder record(RecordKind::kPart, part.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, part.generation);
  encoder.Varint(part.ranks);
  encoder.Varint(part.images.size());
  for (const ImageEntry& image : part.images) {
    encoder.Varint(image.rank);
    encoder.String(image.object);
    encoder.Varint(image.record_offset);
    encoder.Varint(image.record_bytes);
    encoder.U32(image.record_crc32c);
    encoder.Varint(image.image_bytes);
  }
  encoder.Varint(part.references.size());
  for (const std::string& reference : part.references) encoder.String(reference);
  record.Finish();
}

Result<PartRecord> DecodePartRecord(ByteSpan bytes) {
  return Decode<PartRecord>(bytes, RecordKind::kPart, [](Decoder& decoder, const StoreId& id, PartRecord* part) {
    DecodeFields(decoder, id, &part->generation);
    part->ranks = DecodeRanks(decoder);
    const size_t images = decoder.Count(kImageEntryBytesMin);
    decoder.Require(images >= 1, "no images");
    part->images.reserve(images);
    for (size_t i = 0; i < images && decoder.ok(); ++i) {
      part->images.push_back(DecodeImageEntry(decoder));
      const bool increasing = i == 0 || part->images[i - 1].rank < part->images[i].rank;
      decoder.Require(increasing && part->images[i].rank < part->ranks, "ranks out of order or out of range");
    }
    const size_t references = decoder.Count(1);
    part->references.reserve(references);
    for (size_t i = 0; i < references && decoder.ok(); ++i) {
      part->references.push_back(DecodeText(decoder, kObjectKeyBytesMax));
      decoder.Require(i == 0 || part->references[i - 1] < part->references[i], "references out of order");
    }
  });
}

void Encode(const VersionRecord& version, Buffer* out) {
  RecordEncoder record(RecordKind::kVersion, version.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, version.generation);
  encoder.Varint(version.ranks);
  encoder.Varint(version.parts.size());
  for (const PartEntry& part : version.parts) {
    encoder.Varint(part.first_rank);
    encoder.U32(part.record_crc32c);
  }
  encoder.Varint(version.image_bytes);
  encoder.I64(version.wall_time_ns);
  record.Finish();
}

Result<VersionRecord> DecodeVersionRecord(ByteSpan bytes) {
  return Decode<VersionRecord>(
      bytes, RecordKind::kVersion, [](Decoder& decoder, const StoreId& id, VersionRecord* version) {
        DecodeFields(decoder, id, &version->generation);
        version->ranks = DecodeRanks(decoder);
        const size_t parts = decoder.Count(kPartEntryBytesMin);
        decoder.Require(parts >= 1, "no parts");
        version->parts.reserve(parts);
        for (size_t i = 0; i < parts && decoder.ok(); ++i) {
          const uint32_t first_rank = decoder.Varint32();
          version->parts.push_back({first_rank, decoder.U32()});
          const bool increasing = i == 0 || version->parts[i - 1].first_rank < first_rank;
          decoder.Require(increasing && first_rank < version->ranks, "parts out of order or out of range");
        }
        version->image_bytes = decoder.Varint();
        version->wall_time_ns = decoder.I64();
      });
}

void Encode(const PinRecord& pin, Buffer* out) {
  RecordEncoder record(RecordKind::kPin, pin.generation.store_id, out);
  EncodeFields(record.encoder(), pin.generation);
  record.encoder().I64(pin.wall_time_ns);
  record.Finish();
}

Result<PinRecord> DecodePinRecord(ByteSpan bytes) {
  return Decode<PinRecord>(bytes, RecordKind::kPin, [](Decoder& decoder, const StoreId& id, PinRecord* pin) {
    DecodeFields(decoder, id, &pin->generation);
    pin->wall_time_ns = decoder.I64();
  });
}

}  // namespace kedge

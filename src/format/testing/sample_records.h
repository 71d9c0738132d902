// One small record of every kind, fixed for ever: the golden files hold their bytes, the mutation test breaks them, the
// fuzzers start from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/block_map.h"
#include "format/envelope.h"
#include "format/image_record.h"
#include "format/node_records.h"
#include "format/set_records.h"
#include "format/store_records.h"

namespace kedge::testing {

StoreId SampleStoreId();
ImageIdentity SampleIdentity();
ImageRecord SampleImage();
// No region, no chunk.
ImageRecord EmptyImage();
PlacementTable SamplePlacementTable();
LocalRecord SampleLocalRecord();
StoreRecord SampleStoreRecord();
JobRecord SampleJobRecord();
NameRecord SampleNameRecord();
AttemptRecord SampleAttemptRecord();
AttemptEndRecord SampleAttemptEndRecord();
PartRecord SamplePartRecord();
VersionRecord SampleVersionRecord();
// With its part inside.
VersionRecord SampleWholeVersionRecord();
PinRecord SamplePinRecord();
AttemptDrainRecord SampleAttemptDrainRecord();
RemovedRecord SampleRemovedRecord();
RestoredRecord SampleRestoredRecord();
ReachedRecord SampleReachedRecord();
// Blocks of all three kinds.
BlockMap SampleBlockMap();
// Of an image whose blocks were not looked at, in an object of several.
BlockMap SampleBlockMapOfPlaces();
BaseRecord SampleBaseRecord();
// Three members under Reed-Solomon (2 of 3), one of them without a rank.
SetRecord SampleSetRecord();
// Under XOR, with blocks that both members have.
SetRecord SampleSetRecordOfNatural();
ParityRecord SampleParityRecord();

// A sample with its bytes, and the decoder that takes them.
struct Sample {
  std::string name;  // also of its golden file
  RecordKind kind;
  Buffer bytes;
  // Ok when the bytes decode and, encoded again, are the same.
  std::function<Status(ByteSpan)> decode_and_encode_again;
};
std::vector<Sample> AllSamples();

// The decoder check of a sample for any bytes of that kind.
Status DecodeAndEncodeAgain(RecordKind kind, ByteSpan bytes);

// Puts a payload into an envelope with a right checksum: what a fuzzer needs to get past it.
Buffer Enclose(RecordKind kind, ByteSpan payload, uint16_t format_version = kFormatVersion);
uint16_t FormatVersionOf(ByteSpan record);
// The record with another format version in its envelope, and the checksum that belongs to it.
Buffer WithFormatVersion(ByteSpan record, uint16_t format_version);

}  // namespace kedge::testing

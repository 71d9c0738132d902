// See told_restarts.h.
#include "client/core/told_restarts.h"

#include <utility>

#include "format/envelope.h"
#include "format/wire.h"
#include "store/record_io.h"

namespace kedge::client {

std::string EncodeRestored(const std::vector<RestoredRecord>& records) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.Varint(records.size());
  for (const RestoredRecord& record : records) encoder.String(AsText(Encoded(record)));
  encoder.Finish();
  return std::string(AsText(buffer));
}

Result<std::vector<RestoredRecord>> DecodeRestored(const std::string& text) {
  Decoder decoder(AsBytes(text));
  std::vector<RestoredRecord> records;
  for (size_t count = decoder.Count(kEnvelopeBytes); count > 0 && decoder.ok(); --count) {
    KEDGE_ASSIGN_OR_RETURN(RestoredRecord record, DecodeRestoredRecord(AsBytes(decoder.String(text.size()))));
    records.push_back(std::move(record));
  }
  KEDGE_RETURN_IF_ERROR(decoder.Finish("what the nodes know of restarts"));
  return records;
}

}  // namespace kedge::client

// Reading and writing one record through a store: what every part of the catalog does. Errors name the store and the
// key.
#pragma once

#include <string>

#include "format/envelope.h"
#include "store/catalog.h"

namespace kedge {

inline std::string PathInStore(const Store& store, const std::string& key) {
  return store.description() + '/' + key;
}

template <typename T>
StoreId StoreIdOf(const T& record) {
  if constexpr (requires { record.generation; }) {
    return record.generation.store_id;
  } else if constexpr (requires { record.origin; }) {
    return record.origin.store_id;
  } else if constexpr (requires { record.id; }) {
    return record.id;
  } else {
    return record.store_id;
  }
}

// Reads the record at `key` with `decode` (a DecodeXRecord). kNotFound, kCorrupt and kUnsupported as they come.
template <typename T>
Result<T> ReadRecord(Store& store, const std::string& key, Result<T> (*decode)(ByteSpan)) {
  const Result<Buffer> bytes = store.Get(key, kSmallRecordBytesMax);
  if (!bytes.ok()) return bytes.status();
  Result<T> record = decode(*bytes);
  if (!record.ok()) return record.status().WithContext(PathInStore(store, key));
  return record;
}

// As ReadRecord, and kMismatch for another store's record.
template <typename T>
Result<T> ReadOwnRecord(const Catalog& catalog, const std::string& key, Result<T> (*decode)(ByteSpan)) {
  Result<T> record = ReadRecord(catalog.store(), key, decode);
  if (!record.ok()) return record;
  const Status own = CheckStoreId(StoreIdOf(*record), catalog.id(), "record");
  if (!own.ok()) return own.WithContext(PathInStore(catalog.store(), key));
  return record;
}

template <typename T>
Buffer Encoded(const T& record) {
  Buffer bytes;
  Encode(record, &bytes);
  return bytes;
}

// Errors after which nothing is known about a record: it may be good, and what it protects must not be removed.
inline bool IsUnknown(const Status& status) {
  return !status.ok() && status.code() != Code::kNotFound && status.code() != Code::kCorrupt;
}

}  // namespace kedge

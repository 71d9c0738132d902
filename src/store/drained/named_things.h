// What the records of a version name: whether a store has all of it, before the record itself stands there.
#pragma once

#include <string>

#include "base/status.h"
#include "format/wire.h"
#include "store/store.h"

namespace kedge {

// `record` is what is to lie under `key`. Of a part: the objects of its images, and those in which their chunks and blocks lie.
// Of a version: its parts. Ok of all else, which names nothing. kNotFound: one is not there. Reads each image's record.
Status CheckNamedThings(Store& store, const std::string& key, ByteSpan record);

// The key of the version record that a part's record, or itself, is of. Empty: `key` is of neither.
std::string VersionOfRecord(const std::string& key);

}  // namespace kedge

// Whether any version of a name was ever safe, as far as the store was told: what tells "is lost" from "never was" when
// nothing of the name can be restored.
//
// A version may live on the nodes alone, and die with them. One small record a name, made once and for good, outlives them.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

// This generation is whole on all nodes, or safer. Ok also when another one was noted before.
Status NoteReached(const Catalog& catalog, const Generation& generation);

// Somebody has removed all that there was of the name: that none is there is no loss.
Status ForgetReached(const Catalog& catalog, const std::string& job, const std::string& name);

// What was noted; nothing: no version of the name ever was safe.
Result<std::optional<ReachedRecord>> FindReached(const Catalog& catalog, const std::string& job, const std::string& name);

}  // namespace kedge

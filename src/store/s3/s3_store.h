// A bucket of an object store that speaks S3, or a prefix in one, as a Store.
//
// A record is created by PUT with If-None-Match, which the store decides for everybody; a store that ignores that header or does
// not know it is refused before the first record is written. Every write carries a nonce in the object's metadata: whoever lost
// the answer to it looks whether the object that stands there is theirs. What answered is durable, and seen by everybody who asks
// later, as S3 promises. There are no folders: one is there as long as a key lies below it, and MakeFolder puts an empty object
// there for that. Leases are stamped with a nonce; ages are the difference of two times that the store tells in one answer, its
// clock's and the object's, in whole seconds.
//
// Unlike a folder, it cannot see to it in one step that a folder still exists when a record is put into it: it looks before, and
// somebody may remove it in between. What is put then is part of a version that is incomplete, and gc's.
#pragma once

#include <memory>

#include "store/s3/bucket.h"
#include "store/s3/s3_location.h"
#include "store/store.h"

namespace kedge::s3 {

// No request is made, and nothing is loaded before the first one.
std::unique_ptr<Store> MakeS3Store(const Location& location, const Environment& environment = ProcessEnvironment,
                                   const BucketOptions& options = {});

}  // namespace kedge::s3

// A store with a burst buffer before it. Versions go to the buffer first, whose server brings them to the store (mirror.h); what
// both have is seen as one store.
//
// Of a generation, its objects, parts, bases and version record are *cargo*: they are written to the buffer. All else (what
// coordinates attempts, and the marks by which a version is pinned or removed) is written to the store at once, so that those who
// open the store alone heed it. An object has one content for its key for ever, in the buffer or in the store; readers take it
// from the buffer, which is nearer, or else from the store. Parts may be written again, as others: those of a version whose
// record stands in the store are the store's.
//
// - Cargo whose record stands in the store is drained (IsDrained); its objects are there, too.
// - When the buffer takes nothing, since it does not answer or has no room, cargo goes to the store for a while, then to the
//   buffer again. Objects do so at once, records only when all that they name lies in the store (named_things.h).
// - What the buffer alone has is not seen while it does not even answer readers. Nothing is removed meanwhile, since it cannot be
//   seen what is referred to.
// - A removal begins at the buffer, so that the server does not bring back what is being removed.
// - Of a record two creators may both succeed if one of them does not reach the buffer. Each is as true as the other.
//
// Errors of the buffer name the buffer, those of the store the store.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "store/store.h"

namespace kedge {

// Where what lies under a key is written.
enum class Lies {
  kInStore,  // at once
  kAbove,    // the same; a folder below which cargo may lie
  kCargo,    // in the buffer first
};
// Of the catalog's keys (keys.h).
Lies WhereLies(std::string_view key);

struct DrainedStoreOptions {
  std::function<Lies(std::string_view key)> where = WhereLies;
  // Tells the buffer's server where it is to drain to. Called before cargo is written, again and again.
  std::function<Status()> begin = {};
  // How long a buffer without an answer, or without room, is not tried again, and `begin` is not called again.
  Duration pause = std::chrono::seconds(10);
  const Clock* clock = &SystemClock();
};

// `store` is what outlives everything, and what is drained to.
std::unique_ptr<Store> MakeDrainedStore(std::shared_ptr<Store> buffer, std::shared_ptr<Store> store,
                                        DrainedStoreOptions options = {});

}  // namespace kedge

// One of several processes with one store: what it has at hand, and what it does there. What is acknowledged is on the ledger.
#pragma once

#include <optional>
#include <string>

#include "store/retention.h"
#include "store/testing/promise_ledger.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::testing {

inline const MakerOptions kRacedImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {700, 9}, .chunk_bytes = 512, .piece_bytes = 300};

struct Racer {
  Racer(Store& its_store, const std::string& node, Ledger* promises)
      : store(its_store), owner{node, 1, "agent"}, ledger(promises) {}

  Status Open() {
    KEDGE_ASSIGN_OR_RETURN(const Catalog opened, Catalog::OpenOrCreate(store, owner));
    catalog.emplace(opened);
    return Status::Ok();
  }
  Generation At(int64_t version, uint32_t attempt = 1) const { return {catalog->id(), "job", "grid", version, attempt, 1}; }
  Status PublishRank(int64_t version, uint32_t rank) {
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, PublishRanks(*catalog, At(version), rank, 1, kRacedImages));
    if (outcome.complete) ledger->Acknowledge(At(version));
    return Status::Ok();
  }
  // All ranks in one part.
  Status PublishWhole(int64_t version, uint32_t attempt = 1) {
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome,
                           PublishRanks(*catalog, At(version, attempt), 0, kRacedImages.ranks, kRacedImages));
    if (!outcome.complete) return Status(Code::kIncomplete, At(version, attempt).ToString() + " is not complete");
    ledger->Acknowledge(At(version, attempt));
    return Status::Ok();
  }
  Status Take(int64_t version) {
    KEDGE_RETURN_IF_ERROR(PublishRank(version, 0));
    return PublishRank(version, 1);
  }
  Status Retain(uint32_t keep) {
    ledger->AllowRemoval("grid", keep);
    return ApplyRetention(*catalog, "job", "grid", {keep, {}}, nullptr);
  }

  Store& store;
  TemporaryOwner owner;
  Ledger* ledger;
  std::optional<Catalog> catalog;
};

}  // namespace kedge::testing

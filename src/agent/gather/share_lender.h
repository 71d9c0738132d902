// What another node lends this one of the object that it writes of a version (store.layout = posix).
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "agent/peers/peer_messages.h"
#include "agent/peers/peers.h"
#include "agent/tables/object_under_way.h"

namespace kedge {

class NodeLender final : public ShareLender {
 public:
  NodeLender(PeerLink link, std::string node, Generation generation)
      : link_(std::move(link)), node_(std::move(node)), generation_(std::move(generation)) {}

  Result<LentShare> Lend(uint64_t bytes) override {
    const auto answer = link_.Ask(node_, PeerKind::kShare, Encode(ShareRequest{generation_, bytes}), kLendTimeout);
    const auto reply = answer.ok() ? DecodeShareReply(*answer) : Result<ShareReply>(answer.status());
    if (reply.ok() && reply->bytes >= bytes) return LentShare{reply->object, reply->handle, reply->begin, reply->bytes};
    // It says nothing of the store, and what cannot be written there can be written elsewhere.
    return Status(Code::kFailedPrecondition,
                  fmt::format("node {} lends nothing of its object: {}", node_, reply.status().ToString()));
  }

 private:
  // It begins the object first.
  static constexpr Duration kLendTimeout = std::chrono::seconds(5);

  const PeerLink link_;
  const std::string node_;
  const Generation generation_;
};

}  // namespace kedge

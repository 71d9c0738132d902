// A chunk comes from a client's memory to a file, an object or a record: block by block, several reads under way, each checked
// before it is written.
#pragma once

#include <atomic>
#include <functional>

#include "burst/protocol.h"
#include "format/wire.h"

namespace kedge::buffer {

using WriteBlock = std::function<Status(uint64_t offset, ByteSpan bytes)>;
// On a worker's thread. kCorrupt: a block is not what the client has said; kUnavailable: `cancelled`, or the client is gone.
Status PullChunk(net::Network& network, const net::Peer& client, const WriteRequest& request, const WriteBlock& write,
                 const std::atomic<bool>& cancelled);

}  // namespace kedge::buffer

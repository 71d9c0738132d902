// A chunk comes from a client's memory to a file: block by block, several reads under way, each checked before it is written.
#pragma once

#include <atomic>

#include "buffer/protocol.h"
#include "os/files/file_system.h"

namespace kedge::buffer {

// On a worker's thread. kCorrupt: a block is not what the client has said; kUnavailable: `cancelled`, or the client is gone.
Status PullChunk(net::Network& network, const net::Peer& client, const WriteRequest& request, os::File& file,
                 const std::atomic<bool>& cancelled);

}  // namespace kedge::buffer

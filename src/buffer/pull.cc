#include "buffer/pull.h"

#include <fmt/format.h>

#include <deque>
#include <future>

#include "base/crc32c.h"

namespace kedge::buffer {
namespace {

constexpr size_t kReadsUnderWay = 4;
constexpr Duration kReadTimeout = std::chrono::seconds(30);

}  // namespace

Status PullChunk(net::Network& network, const net::Peer& client, const WriteRequest& request, const WriteBlock& write,
                 const std::atomic<bool>& cancelled) {
  const std::vector<RunPart> parts = CutAtBlocks(request.offset, request.memory.bytes);
  std::deque<std::future<Result<net::ReadBuffer>>> reads;
  size_t next = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (; next < parts.size() && reads.size() < kReadsUnderWay; ++next) {
      auto promise = std::make_shared<std::promise<Result<net::ReadBuffer>>>();
      reads.push_back(promise->get_future());
      network.Read(client, request.memory, parts[next].at, parts[next].bytes, kReadTimeout,
                   [promise](Result<net::ReadBuffer> read) { promise->set_value(std::move(read)); });
    }
    auto read = reads.front().get();
    reads.pop_front();
    if (!read.ok()) return read.status().WithContext("reading from the client's memory");
    if (cancelled) return Status(Code::kUnavailable, "the client has left");
    const uint64_t offset = request.offset + parts[i].at;
    KEDGE_RETURN_IF_ERROR(OpenBlockOf(request.seals, i, *read));
    if (crc32c::Compute(read->bytes().data(), read->bytes().size()) != request.sums[i])
      return Status(Code::kCorrupt,
                    fmt::format("the {} bytes at {} are not what was sent; write it again", parts[i].bytes, offset));
    KEDGE_RETURN_IF_ERROR(write(offset, read->bytes()));
  }
  return Status::Ok();
}

}  // namespace kedge::buffer

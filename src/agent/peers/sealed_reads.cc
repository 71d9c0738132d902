#include "agent/peers/sealed_reads.h"

#include <utility>

#include "agent/peers/peer_messages.h"

namespace kedge {
namespace {

// From its answer until a block is read. A reader that is later asks again.
constexpr Duration kSealedLeaseDuration = std::chrono::seconds(30);

}  // namespace

void SealedReads::Ask(const net::Peer& reader, uint32_t bytes, std::function<Status(std::byte* out)> read, net::Answer answer) {
  auto work = [weak = weak_from_this(), post = post_, reader, bytes, read = std::move(read), answer = std::move(answer)] {
    auto block = std::make_shared<Buffer>(bytes);
    const Status brought = read(block->data());
    const auto seal = brought.ok() ? Result<net::BlockSeal>(net::SealBlock(*block)) : Result<net::BlockSeal>(brought);
    post([weak, reader, block, seal, answer] {
      if (const auto self = weak.lock()) self->Lend(reader, block, seal, answer);
    });
  };
  readers_[reader].waiting.push_back([workers = workers_, work = std::move(work)] { workers->Submit(work); });
  Begin(reader);
}

void SealedReads::Begin(const net::Peer& reader) {
  const auto found = readers_.find(reader);
  if (found == readers_.end()) return;
  auto& [blocks, waiting] = found->second;
  while (blocks < kBlocksPerReaderMax && !waiting.empty()) {
    ++blocks;
    const std::function<void()> begin = std::move(waiting.front());
    waiting.pop_front();
    begin();
  }
  if (blocks == 0) readers_.erase(found);
}

void SealedReads::Lend(const net::Peer& reader, std::shared_ptr<Buffer> block, const Result<net::BlockSeal>& seal,
                       const net::Answer& answer) {
  const auto memory = !seal.ok()
                          ? Result<net::RemoteMemory>(seal.status())
                          : network_->Lease(reader.job, *block, kSealedLeaseDuration, [weak = weak_from_this(), reader, block] {
                              const auto self = weak.lock();
                              if (self == nullptr) return;
                              --self->leases_;
                              self->OnEnded(reader);
                            });
  if (!memory.ok()) {
    answer(memory.status());
    return OnEnded(reader);
  }
  ++leases_;
  answer(Encode(SealedReply{*memory, *seal}));
}

void SealedReads::OnEnded(const net::Peer& reader) {
  --readers_[reader].blocks;
  Begin(reader);
}

}  // namespace kedge

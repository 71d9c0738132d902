#include "fmi/ring.h"

#include <cstring>

#include "base/status.h"

namespace kedge::fmi {
namespace {

constexpr size_t kLineBytes = 64;
static_assert(sizeof(MessageHead) <= kLineBytes && kRingBytes % kLineBytes == 0 && kEagerBytesMax <= kRingBytes / 4);

constexpr uint64_t RecordBytes(uint64_t bytes_in_ring) {
  return (sizeof(MessageHead) + bytes_in_ring + kLineBytes - 1) / kLineBytes * kLineBytes;
}

constexpr uint64_t BytesToEnd(uint64_t position) {
  return kRingBytes - position % kRingBytes;
}

}  // namespace

RingWriter::RingWriter(RingMemory* memory)
    : memory_(memory), tail_(memory->tail.load(std::memory_order_acquire)), head_(memory->head.load(std::memory_order_acquire)) {}

bool RingWriter::Write(const MessageHead& head, const void* data) {
  KEDGE_CHECK(head.bytes_in_ring <= kEagerBytesMax);
  const uint64_t bytes = RecordBytes(head.bytes_in_ring);
  // A record lies in one piece.
  const uint64_t skipped = BytesToEnd(tail_) < bytes ? BytesToEnd(tail_) : 0;
  const auto has_room = [&] { return tail_ + skipped + bytes - head_ <= kRingBytes; };
  if (!has_room()) head_ = memory_->head.load(std::memory_order_acquire);
  if (!has_room()) {
    memory_->writer_waits.store(1, std::memory_order_relaxed);
    // Either there is room, or the reader that makes some sees that this one waits (TakeWriterWaits).
    std::atomic_thread_fence(std::memory_order_seq_cst);
    head_ = memory_->head.load(std::memory_order_acquire);
    if (!has_room()) return false;
  }
  if (skipped > 0) {
    const MessageHead skip;
    std::memcpy(memory_->data + tail_ % kRingBytes, &skip, sizeof skip);
    tail_ += skipped;
  }
  std::byte* record = memory_->data + tail_ % kRingBytes;
  std::memcpy(record, &head, sizeof head);
  if (head.bytes_in_ring > 0) std::memcpy(record + sizeof head, data, head.bytes_in_ring);
  tail_ += bytes;
  memory_->tail.store(tail_, std::memory_order_release);
  return true;
}

RingReader::RingReader(RingMemory* memory) : memory_(memory), head_(memory->head.load(std::memory_order_acquire)), tail_(head_) {}

const MessageHead* RingReader::Front(const std::byte** data, bool* broken) {
  for (;;) {
    if (head_ == tail_) tail_ = memory_->tail.load(std::memory_order_acquire);
    if (head_ == tail_) return nullptr;
    const auto* head = reinterpret_cast<const MessageHead*>(memory_->data + head_ % kRingBytes);
    const bool is_skip = head->kind == MessageKind::kSkip;
    const uint64_t bytes = is_skip ? BytesToEnd(head_) : RecordBytes(head->bytes_in_ring);
    if (tail_ - head_ > kRingBytes || bytes > tail_ - head_ || bytes > BytesToEnd(head_)) {
      *broken = true;
      return nullptr;
    }
    next_ = head_ + bytes;
    if (!is_skip) {
      *data = memory_->data + head_ % kRingBytes + sizeof *head;
      return head;
    }
    head_ = next_;
  }
}

void RingReader::Pop() {
  head_ = next_;
  memory_->head.store(head_, std::memory_order_release);
}

bool RingReader::TakeWriterWaits() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return memory_->writer_waits.load(std::memory_order_relaxed) != 0 && memory_->writer_waits.exchange(0) != 0;
}

}  // namespace kedge::fmi

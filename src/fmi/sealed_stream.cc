#include "fmi/sealed_stream.h"

#include <algorithm>
#include <cstring>

namespace kedge::fmi {
namespace {

struct RecordHead {
  uint32_t bytes = 0;
  net::Tag tag{};
};
static_assert(sizeof(RecordHead) == sizeof(uint32_t) + net::kTagBytes);
constexpr size_t kIncomingBytes = sizeof(RecordHead) + SealedStream::kRecordBytesMax;

ByteSpan LengthIn(const RecordHead& head) {
  return {reinterpret_cast<const std::byte*>(&head.bytes), sizeof head.bytes};
}

void Append(std::pair<const void*, size_t> piece, size_t bytes, std::vector<std::byte>* all) {
  const auto* begin = static_cast<const std::byte*>(piece.first);
  all->insert(all->end(), begin, begin + bytes);
}

}  // namespace

SealedStream::SealedStream(net::FrameKey own, net::FrameKey other, ByteSpan received)
    : own_(std::move(own)),
      other_(std::move(other)),
      incoming_(std::max(kIncomingBytes, received.size())),
      end_(received.size()) {
  std::copy(received.begin(), received.end(), incoming_.begin());
}

Result<size_t> SealedStream::Send(const os::TcpSocket& socket, std::pair<const void*, size_t> first,
                                  std::pair<const void*, size_t> second) {
  KEDGE_RETURN_IF_ERROR(Flush(socket));
  if (has_unsent()) return size_t{0};
  const size_t of_first = std::min(first.second, kRecordBytesMax);
  const size_t of_second = std::min(second.second, kRecordBytesMax - of_first);
  if (of_first + of_second == 0) return size_t{0};
  RecordHead head;
  head.bytes = static_cast<uint32_t>(of_first + of_second);
  outgoing_.resize(sizeof head);
  Append(first, of_first, &outgoing_);
  Append(second, of_second, &outgoing_);
  std::byte* const payload = outgoing_.data() + sizeof head;
  head.tag = own_.Seal(sealed_count_++, LengthIn(head), {payload, head.bytes}, payload);
  std::memcpy(outgoing_.data(), &head, sizeof head);
  sent_ = 0;
  KEDGE_RETURN_IF_ERROR(Flush(socket));
  return of_first + of_second;
}

Status SealedStream::Flush(const os::TcpSocket& socket) {
  while (has_unsent()) {
    KEDGE_ASSIGN_OR_RETURN(const size_t taken, socket.Send({outgoing_.data() + sent_, outgoing_.size() - sent_}, {nullptr, 0}));
    if (taken == 0) return Status::Ok();
    sent_ += taken;
  }
  return Status::Ok();
}

Result<size_t> SealedStream::Receive(const os::TcpSocket& socket, void* data, size_t bytes) {
  auto* const to = static_cast<std::byte*>(data);
  for (;;) {
    if (taken_ < opened_.size()) {
      const size_t some = std::min(bytes, opened_.size() - taken_);
      std::memcpy(to, opened_.data() + taken_, some);
      taken_ += some;
      return some;
    }
    KEDGE_ASSIGN_OR_RETURN(const size_t opened, Open(to, bytes));
    if (opened > 0) return opened;
    if (taken_ < opened_.size()) continue;
    std::memmove(incoming_.data(), incoming_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    KEDGE_ASSIGN_OR_RETURN(const size_t got, socket.Receive(incoming_.data() + end_, incoming_.size() - end_));
    if (got == 0) return size_t{0};
    end_ += got;
  }
}

Result<size_t> SealedStream::Open(std::byte* data, size_t bytes) {
  RecordHead head;
  if (end_ - begin_ < sizeof head) return size_t{0};
  std::memcpy(&head, incoming_.data() + begin_, sizeof head);
  if (head.bytes == 0 || head.bytes > kRecordBytesMax) return Status(Code::kCorrupt, "the other side has not sealed this");
  if (end_ - begin_ < sizeof head + head.bytes) return size_t{0};
  const bool fits = head.bytes <= bytes;
  if (!fits) {
    opened_.resize(head.bytes);
    taken_ = 0;
  }
  const ByteSpan sealed{incoming_.data() + begin_ + sizeof head, head.bytes};
  if (!other_.Open(opened_count_++, LengthIn(head), sealed, head.tag, fits ? data : opened_.data()))
    return Status(Code::kCorrupt, "the other side has not sealed this");
  begin_ += sizeof head + head.bytes;
  return fits ? size_t{head.bytes} : size_t{0};
}

}  // namespace kedge::fmi

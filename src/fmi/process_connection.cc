#include "fmi/process_connection.h"

#include <algorithm>
#include <utility>

namespace kedge::fmi {
namespace {

constexpr uint64_t kConnectionMagic = 0x3230'434d'4645'444b;  // KDEFMC02: changes with what is sent

struct Hello {
  uint64_t magic = kConnectionMagic;
  Speakers speakers;
  uint32_t unused = 0;
  net::Nonce nonce{};
  net::Digest proof{};
};
struct Answer {
  net::Nonce nonce{};
  net::Digest proof{};
};
struct Confirmation {
  net::Digest proof{};
};
static_assert(sizeof(Hello) <= ProcessConnection::kHeadBytesMax);

Status NotOfTheJob() {
  return Status(Code::kPermission, "the other side has not proved the secret of the job");
}

template <typename Message>
Message As(const std::byte* bytes) {
  Message message;
  std::memcpy(&message, bytes, sizeof message);
  return message;
}

}  // namespace

ProcessConnection::ProcessConnection(os::TcpSocket socket, const net::Secret& secret, Secrecy secrecy, Speakers speakers)
    : socket_(std::move(socket)),
      secret_(secret),
      secrecy_(secrecy),
      own_side_(net::ProofOf::kInitiator),
      speakers_(speakers),
      stage_(Stage::kAnswer),
      own_nonce_(net::GenerateNonce()),
      initiator_nonce_(own_nonce_),
      buffer_(kBufferBytes) {
  Hello hello;
  hello.speakers = speakers_;
  hello.nonce = own_nonce_;
  hello.proof = Proof(net::ProofOf::kHello);
  Unsent message{};
  std::memcpy(message.head.data(), &hello, sizeof hello);
  message.head_bytes = sizeof hello;
  message.is_proof = true;
  unsent_.push_back(message);
}

ProcessConnection::ProcessConnection(os::TcpSocket socket, const net::Secret& secret, Secrecy secrecy, uint32_t to)
    : socket_(std::move(socket)),
      secret_(secret),
      secrecy_(secrecy),
      own_side_(net::ProofOf::kResponder),
      speakers_{0, 0, to},
      stage_(Stage::kHello),
      own_nonce_(net::GenerateNonce()),
      buffer_(kBufferBytes) {}

template <typename Use>
auto ProcessConnection::WithTranscript(Use use) const {
  const std::string from = std::to_string(speakers_.from);
  const std::string to = std::to_string(speakers_.to);
  net::Transcript transcript;
  transcript.protocol = kConnectionMagic >> 32;
  transcript.job = secrecy_ == Secrecy::kSealed ? "fmi, sealed" : "fmi";
  transcript.attempt = speakers_.epoch;
  transcript.initiator = from;
  transcript.responder = to;
  transcript.initiator_nonce = initiator_nonce_;
  transcript.responder_nonce = responder_nonce_;
  return use(transcript);
}

net::Digest ProcessConnection::Proof(net::ProofOf who) const {
  return WithTranscript([&](const net::Transcript& transcript) { return net::Prove(secret_, transcript, who); });
}

void ProcessConnection::Open() {
  stage_ = Stage::kOpen;
  if (secrecy_ == Secrecy::kClear) return;
  const auto other_side = own_side_ == net::ProofOf::kInitiator ? net::ProofOf::kResponder : net::ProofOf::kInitiator;
  WithTranscript([&](const net::Transcript& transcript) {
    stream_.emplace(net::FrameKey(secret_, transcript, own_side_), net::FrameKey(secret_, transcript, other_side),
                    ByteSpan{buffer_.data() + begin_, end_ - begin_});
  });
  begin_ = end_ = 0;
}

Status ProcessConnection::Advance() {
  KEDGE_RETURN_IF_ERROR(Flush());
  if (stage_ == Stage::kHello) KEDGE_RETURN_IF_ERROR(TakeHello());
  if (stage_ == Stage::kAnswer) KEDGE_RETURN_IF_ERROR(TakeAnswer());
  if (stage_ == Stage::kConfirm) KEDGE_RETURN_IF_ERROR(TakeConfirmation());
  return Status::Ok();
}

Status ProcessConnection::TakeHello() {
  KEDGE_ASSIGN_OR_RETURN(const std::byte* bytes, Peek(sizeof(Hello)));
  if (bytes == nullptr) return Status::Ok();
  const auto hello = As<Hello>(bytes);
  Skip(sizeof hello);
  if (hello.magic != kConnectionMagic || hello.speakers.to != speakers_.to) return NotOfTheJob();
  speakers_ = hello.speakers;
  initiator_nonce_ = hello.nonce;
  if (!net::SameDigest(hello.proof, Proof(net::ProofOf::kHello))) return NotOfTheJob();
  stage_ = Stage::kNamed;
  return Status::Ok();
}

Status ProcessConnection::LetIn() {
  responder_nonce_ = own_nonce_;
  const Answer answer{own_nonce_, Proof(net::ProofOf::kResponder)};
  stage_ = Stage::kConfirm;
  return Send(&answer, sizeof answer);
}

Status ProcessConnection::TakeAnswer() {
  KEDGE_ASSIGN_OR_RETURN(const std::byte* bytes, Peek(sizeof(Answer)));
  if (bytes == nullptr) return Status::Ok();
  const auto answer = As<Answer>(bytes);
  Skip(sizeof answer);
  responder_nonce_ = answer.nonce;
  if (!net::SameDigest(answer.proof, Proof(net::ProofOf::kResponder))) return NotOfTheJob();
  const Confirmation confirmation{Proof(net::ProofOf::kInitiator)};
  KEDGE_RETURN_IF_ERROR(Send(&confirmation, sizeof confirmation));
  Open();
  return Status::Ok();
}

Status ProcessConnection::TakeConfirmation() {
  KEDGE_ASSIGN_OR_RETURN(const std::byte* bytes, Peek(sizeof(Confirmation)));
  if (bytes == nullptr) return Status::Ok();
  const auto confirmation = As<Confirmation>(bytes);
  Skip(sizeof confirmation);
  if (!net::SameDigest(confirmation.proof, Proof(net::ProofOf::kInitiator))) return NotOfTheJob();
  Open();
  return Status::Ok();
}

Status ProcessConnection::Send(const void* head, size_t head_bytes, const void* data, uint64_t bytes, bool* sent) {
  KEDGE_CHECK(head_bytes <= kHeadBytesMax);
  Unsent message{};
  std::memcpy(message.head.data(), head, head_bytes);
  message.head_bytes = head_bytes;
  message.data = static_cast<const std::byte*>(data);
  message.bytes = bytes;
  message.sent = sent;
  message.is_proof = !is_open();
  if (unsent_.empty()) {
    KEDGE_RETURN_IF_ERROR(Try(&message));
    if (message.done == message.head_bytes + message.bytes) return Status::Ok();
  }
  unsent_.push_back(message);
  return Status::Ok();
}

Status ProcessConnection::Try(Unsent* message) {
  const uint64_t all = message->head_bytes + message->bytes;
  while (message->done < all) {
    const size_t of_head = std::min<uint64_t>(message->done, message->head_bytes);
    const uint64_t of_data = message->done - of_head;
    const std::pair<const void*, size_t> head{message->head.data() + of_head, message->head_bytes - of_head};
    const std::pair<const void*, size_t> data{message->data + of_data, message->bytes - of_data};
    KEDGE_ASSIGN_OR_RETURN(const size_t taken,
                           stream_ && !message->is_proof ? stream_->Send(socket_, head, data) : socket_.Send(head, data));
    if (taken == 0) return Status::Ok();
    message->done += taken;
  }
  if (message->sent != nullptr) *message->sent = true;
  return Status::Ok();
}

Status ProcessConnection::Flush() {
  while (!unsent_.empty()) {
    Unsent& first = unsent_.front();
    KEDGE_RETURN_IF_ERROR(Try(&first));
    if (first.done < first.head_bytes + first.bytes) return Status::Ok();
    unsent_.pop_front();
  }
  return stream_ ? stream_->Flush(socket_) : Status::Ok();
}

Result<size_t> ProcessConnection::Receive(void* data, size_t bytes) {
  return stream_ ? stream_->Receive(socket_, data, bytes) : socket_.Receive(data, bytes);
}

Result<const std::byte*> ProcessConnection::Peek(size_t bytes) {
  KEDGE_CHECK(bytes <= kBufferBytes);
  if (end_ - begin_ < bytes) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    // All that is there: what a stream has taken from the socket wakes nobody again.
    for (size_t got = 1; got > 0 && end_ - begin_ < bytes; end_ += got) {
      KEDGE_ASSIGN_OR_RETURN(got, Receive(buffer_.data() + end_, buffer_.size() - end_));
    }
  }
  return end_ - begin_ < bytes ? nullptr : buffer_.data() + begin_;
}

Result<size_t> ProcessConnection::Read(void* data, size_t bytes) {
  if (begin_ == end_) return Receive(data, bytes);
  const size_t some = std::min(bytes, end_ - begin_);
  std::memcpy(data, buffer_.data() + begin_, some);
  begin_ += some;
  return some;
}

}  // namespace kedge::fmi

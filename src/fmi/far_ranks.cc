#include "fmi/far_ranks.h"

#include <algorithm>
#include <utility>

namespace kedge::fmi {
namespace {

// So many may have connected and said nothing yet; more are not heard.
constexpr size_t kNewcomersMax = 2 * size_t{kRanksMax};

}  // namespace

FarRanks::FarRanks(Board* board, uint32_t rank, MessageSink* sink)
    : board_(board),
      rank_(rank),
      sink_(*sink),
      secret_(net::Secret::FromBytes(board->header().secret)),
      secrecy_(board->header().secrecy),
      peers_(board->ranks()),
      awaits_(board->ranks()) {}

Status FarRanks::Listen() {
  const uint32_t address = board_->header().address;
  if (address == 0) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(os::TcpListener listener, os::TcpListener::Listen(address));
  board_->row(rank_).endpoint = uint64_t{address} << 16 | listener.port();
  listener_ = std::move(listener);
  return Status::Ok();
}

void FarRanks::Adopt(uint32_t epoch) {
  epoch_ = epoch;
  for (const uint32_t rank : connected_) peers_[rank].reset();
  connected_.clear();
  awaits_.assign(awaits_.size(), false);
  // Those of this epoch may have come before it was adopted.
  std::erase_if(newcomers_, [&](const auto& newcomer) { return newcomer->is_open() || newcomer->speakers().epoch < epoch; });
}

bool FarRanks::Send(uint32_t to, const MessageHead& head, const void* data, uint64_t bytes, bool* sent) {
  Peer* peer = peers_[to].get();
  if (peer == nullptr) {
    const bool comes = std::any_of(newcomers_.begin(), newcomers_.end(), [&](const auto& newcomer) {
      return newcomer->speakers().epoch == epoch_ && newcomer->speakers().from == to;
    });
    if (awaits_[to] || comes) return false;
    const uint64_t endpoint = board_->row(to).endpoint.load();
    auto socket = os::TcpSocket::Connect({static_cast<uint32_t>(endpoint >> 16), static_cast<uint16_t>(endpoint)});
    if (!socket.ok()) {
      Lose(to);
      return false;
    }
    peers_[to] =
        std::make_unique<Peer>(Peer{ProcessConnection(std::move(*socket), secret_, secrecy_, Speakers{epoch_, rank_, to}), true});
    connected_.push_back(to);
    return false;
  }
  if (!peer->connection.is_open()) return false;
  // An error is found again by Serve, which may be on the way here.
  (void)peer->connection.Send(&head, sizeof head, data, bytes, sent);
  return true;
}

void FarRanks::GatherDescriptors() {
  polled_.Clear();
  polled_.Add(board_->bell(rank_).descriptor());
  if (listener_) polled_.Add(listener_->descriptor());
  for (const auto& newcomer : newcomers_) polled_.Add(newcomer->descriptor(), newcomer->has_unsent());
  for (const uint32_t rank : connected_) {
    polled_.Add(peers_[rank]->connection.descriptor(), peers_[rank]->connection.has_unsent());
  }
}

void FarRanks::Sleep() {
  GatherDescriptors();
  polled_.Wait(Board::kSleepMax);
}

void FarRanks::Poll() {
  if (is_alone()) return;
  GatherDescriptors();
  polled_.Wait(Duration::zero());
  size_t next = 1;
  const bool accepts = polled_.IsReady(next++);
  std::vector<bool> speaks;
  for (size_t i = 0; i < newcomers_.size(); ++i) speaks.push_back(polled_.IsReady(next++) || newcomers_[i]->waits_to_be_let_in());
  // What is served may change the list.
  for (size_t i = 0, count = connected_.size(); i < count && i < connected_.size(); ++i) {
    if (polled_.IsReady(next++)) Serve(connected_[i]);
  }
  if (std::find(speaks.begin(), speaks.end(), true) != speaks.end()) {
    std::vector<std::unique_ptr<ProcessConnection>> stay;
    auto newcomers = std::exchange(newcomers_, {});
    for (size_t i = 0; i < newcomers.size(); ++i) {
      if (!speaks[i] || Greet(newcomers[i].get())) stay.push_back(std::move(newcomers[i]));
    }
    newcomers_ = std::move(stay);
  }
  if (accepts) Accept();
}

void FarRanks::Accept() {
  for (;;) {
    auto socket = listener_->Accept();
    if (!socket.ok() || !*socket) return;
    if (newcomers_.size() < kNewcomersMax)
      newcomers_.push_back(std::make_unique<ProcessConnection>(std::move(**socket), secret_, secrecy_, rank_));
  }
}

bool FarRanks::Greet(ProcessConnection* newcomer) {
  if (!newcomer->Advance().ok()) return false;
  const Speakers& who = newcomer->speakers();
  if (newcomer->waits_to_be_let_in()) {
    if (who.epoch != epoch_) return who.epoch > epoch_;
    if (who.from >= peers_.size() || who.from == rank_) return false;
    const Peer* own = peers_[who.from].get();
    if (own != nullptr && (own->connection.is_open() || rank_ < who.from)) return false;
    if (!newcomer->LetIn().ok()) return false;
  }
  if (!newcomer->is_open()) return true;
  if (who.epoch != epoch_) return false;
  if (peers_[who.from] == nullptr) connected_.push_back(who.from);
  peers_[who.from] = std::make_unique<Peer>(Peer{std::move(*newcomer), false});
  Serve(who.from);
  return false;
}

void FarRanks::Serve(uint32_t rank) {
  Peer& peer = *peers_[rank];
  Status status = peer.connection.is_open() ? peer.connection.Flush() : peer.connection.Advance();
  if (status.ok() && peer.connection.is_open()) status = Take(rank, &peer);
  if (!status.ok()) Lose(rank);
}

Status FarRanks::Take(uint32_t rank, Peer* peer) {
  ProcessConnection& connection = peer->connection;
  for (;;) {
    while (peer->data_left > 0) {
      std::byte* end = sink_.PlaceOf(peer->data_head) + peer->data_head.bytes;
      KEDGE_ASSIGN_OR_RETURN(const size_t got, connection.Read(end - peer->data_left, peer->data_left));
      if (got == 0) return Status::Ok();
      peer->data_left -= got;
      if (peer->data_left == 0) sink_.OnData(peer->data_head);
    }
    KEDGE_ASSIGN_OR_RETURN(const std::byte* bytes, connection.Peek(sizeof(MessageHead)));
    if (bytes == nullptr) return Status::Ok();
    MessageHead head;
    std::memcpy(&head, bytes, sizeof head);
    if (head.epoch != epoch_ || head.bytes_in_ring > kEagerBytesMax) return Status(Code::kCorrupt, "no message of this epoch");
    if (head.bytes_in_ring > 0) {
      KEDGE_ASSIGN_OR_RETURN(bytes, connection.Peek(sizeof head + head.bytes_in_ring));
      if (bytes == nullptr) return Status::Ok();
    }
    connection.Skip(sizeof head + head.bytes_in_ring);
    if (head.kind == MessageKind::kData) {
      peer->data_head = head;
      peer->data_left = head.bytes;
    } else if (head.kind == MessageKind::kLeft) {
      peer->has_left = true;
    } else {
      sink_.OnMessage(rank, head, bytes + sizeof head);
    }
  }
}

void FarRanks::Lose(uint32_t rank) {
  const Peer* peer = peers_[rank].get();
  const bool was_refused = peer != nullptr && peer->is_own && !peer->connection.is_open() && rank < rank_;
  const bool has_left = peer != nullptr && peer->has_left;
  if (!has_left && !was_refused) {
    board_->row(rank_).lost = epoch_;
    board_->RingTask();
  }
  // Nothing more is sent to who is gone; the lower rank connects by itself.
  awaits_[rank] = true;
  std::erase(connected_, rank);
  peers_[rank].reset();
}

bool FarRanks::HasLeft(uint32_t rank) const {
  if (peers_[rank] != nullptr) return peers_[rank]->has_left;
  return !awaits_[rank] && newcomers_.empty() && board_->place(rank) == Place{epoch_, Phase::kLeaving};
}

void FarRanks::Leave() {
  MessageHead head;
  head.kind = MessageKind::kLeft;
  head.epoch = epoch_;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank] != nullptr) Send(rank, head, nullptr, 0, nullptr);
  }
}

}  // namespace kedge::fmi

#include "store/buffer/buffer_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "net/network.h"
#include "net/secret_file.h"
#include "os/process/signals.h"

namespace kedge::buffer {
namespace {

constexpr Duration kBytesLease = std::chrono::minutes(10);

Result<ClientOptions> OptionsOf(const StoreLocation& location) {
  ClientOptions options;
  options.server = location.server;
  options.folder = location.folder;
  options.owner = location.owner;
  options.provider = location.provider;
  options.interface_address = location.interface_address;
  options.encrypt = location.encrypt;
  KEDGE_ASSIGN_OR_RETURN(options.secret, net::ReadSecret(location.secret));
  return options;
}

// Of what is not there on this side, nothing is said about keys of the store.
Status NotFoundHere(const Status& status) {
  return status.code() == Code::kNotFound ? Status(Code::kUnavailable, status.message()) : status;
}

}  // namespace

Result<std::shared_ptr<Client>> Link::Connection() {
  const std::lock_guard lock(mutex_);
  if (client_ != nullptr) return client_;
  auto options = OptionsOf(location_);
  if (!options.ok()) return NotFoundHere(options.status()).WithContext(location_.ToDisplay());
  if (had_ended_) {
    const auto address = FindServer(*options);
    if (address.ok()) KEDGE_RETURN_IF_ERROR(CheckServes(location_.server, *address).WithContext(location_.ToDisplay()));
    had_ended_ = false;
  }
  net::SetFabricDefaults();
  // Libraries of libfabric's print where they were, and call exit: the application's end is its own.
  os::RemoveSignalHandlersOf(net::kSignalTakers);
  auto client = Client::Open(*options);
  if (!client.ok()) return NotFoundHere(client.status()).WithContext(location_.ToDisplay());
  return client_ = std::move(*client);
}

void Link::LookForServer() {
  auto options = OptionsOf(location_);
  if (!options.ok()) return;
  const auto address = FindServer(*options);
  // A connection is made anew for some seconds before it is given up; who is gone is not waited for.
  const bool has_ended = address.ok() && !CheckServes(location_.server, *address).ok();
  const std::lock_guard lock(mutex_);
  had_ended_ = has_ended;
  // Whatever was opened by the former connection keeps it.
  if (client_ != nullptr && (has_ended || (address.ok() && *address != client_->address()))) client_ = nullptr;
}

void Link::OnAnswer() {
  answered_ns_ = SystemClock().NowNs();
  is_away_ = false;
}

bool Link::MayRepeat(const Status& failed, int64_t begin_ns, int* tries) {
  if (!MeansNotReached(failed)) return false;
  LookForServer();
  const int64_t waited_ns = SystemClock().NowNs() - begin_ns;
  if (is_away_) return false;
  if (waited_ns >= std::chrono::nanoseconds(options_.patience).count()) {
    if (answered_ns_ < begin_ns) is_away_ = true;
    return false;
  }
  std::this_thread::sleep_for(std::min(options_.pause_first * (1 << std::min(*tries, 10)), options_.pause_max));
  ++*tries;
  return true;
}

Result<StoreReply> Link::AskBy(Client& client, StoreRequest request) {
  request.store = location_.prefix;
  request.making = making_;
  const auto answer = client.Ask(kStoreKind, Encode(request));
  if (!answer.ok()) return answer.status().WithContext(location_.ToDisplay());
  auto reply = DecodeStoreReply(*answer);
  if (!reply.ok()) return reply.status().WithContext(location_.ToDisplay());
  OnAnswer();
  if (!reply->status.ok()) return reply->status;
  return reply;
}

Result<StoreReply> Link::Ask(StoreRequest request, Repeat repeat) {
  const int64_t begin_ns = SystemClock().NowNs();
  for (int tries = 0;;) {
    const auto client = Connection();
    auto reply = client.ok() ? AskBy(**client, request) : Result<StoreReply>(client.status());
    if (reply.ok()) return reply;
    // Whatever was not even asked can be asked again.
    if (repeat == Repeat::kNo && client.ok()) {
      if (MeansNotReached(reply.status())) LookForServer();
      return reply;
    }
    if (!MayRepeat(reply.status(), begin_ns, &tries)) return reply;
  }
}

Result<Link::Opened> Link::Open(const StoreRequest& request) {
  const int64_t begin_ns = SystemClock().NowNs();
  for (int tries = 0;;) {
    const auto client = Connection();
    auto reply = client.ok() ? AskBy(**client, request) : Result<StoreReply>(client.status());
    if (reply.ok()) return Opened{*client, *std::move(reply)};
    if (!MayRepeat(reply.status(), begin_ns, &tries)) return reply.status();
  }
}

Result<LeasedBytes> LeasedBytes::Of(std::shared_ptr<Client> client, ByteSpan bytes) {
  auto [ended, end] = Awaited<int>();
  const auto memory = client->network().Lease(client->server().job, bytes, kBytesLease, [end = std::move(end)] { end(0); });
  if (!memory.ok()) return memory.status();
  return LeasedBytes(std::move(client), *memory, std::move(ended));
}

LeasedBytes::~LeasedBytes() {
  if (client_ == nullptr) return;
  client_->network().EndLease(memory_.lease);
  (void)ended_.get();
}

}  // namespace kedge::buffer
